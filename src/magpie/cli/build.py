"""``magpie build``: compile the kernels of a file ahead of time."""

from __future__ import annotations

from pathlib import Path

from magpie.cli.kernels import annotated, count, kernels_in
from magpie.cli.program import argv_of, show_diagnostics
from magpie.diagnostics import CompileError
from magpie.errors import MagpieError


def build_command(file: Path, backend: str, opt: str | None, emit: list[str], out: Path, checked: bool | None) -> int:
    """Compile every kernel of ``file`` that has full annotations; 1 if one has an error.

    Writes NAME.BACKEND.EXTENSION into ``out`` for each, and NAME.BACKEND.STAGE for the stages in ``emit``. Nothing is
    written of a kernel that has an error.
    """
    with argv_of(file, []):
        kernels = kernels_in(file)
    if kernels is None:
        return 1
    skipped = [name for name, kernel in kernels.items() if not annotated(kernel)]
    built = failed = 0
    for name, kernel in kernels.items():
        if name in skipped:
            continue
        try:
            artifact = kernel.compile(backend=backend, opt=opt, checked=checked)
            stages = {stage: kernel.inspect(stage, backend=backend, opt=opt) for stage in emit}
        except CompileError as error:
            show_diagnostics(error.diagnostics)
            failed += 1
            continue
        try:
            out.mkdir(parents=True, exist_ok=True)
            stem = out / f"{name}.{artifact.backend}"
            artifact.save(f"{stem}{artifact.extension}")
            for stage, text in stages.items():
                Path(f"{stem}.{stage}").write_text(text, encoding="utf-8")
        except OSError as error:
            raise MagpieError(f"{out}: {error.strerror or error}") from None
        built += 1
        written = ", ".join(f"{stem}{end}" for end in (artifact.extension, *(f".{stage}" for stage in stages)))
        print(f"{name}: {len(artifact.blob)} bytes, {written}")
    print(f"{count(built, 'kernel')} built, {count(failed, 'error')}")
    if skipped:
        print(f"not built, since a parameter has no annotation: {', '.join(skipped)}")
    return 1 if failed else 0
