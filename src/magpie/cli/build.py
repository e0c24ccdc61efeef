"""``magpie build``: compile the kernels of a file ahead of time."""

from __future__ import annotations

from pathlib import Path

from magpie.backends.registry import backend_ids, canonical
from magpie.cli.kernels import annotated, count, kernels_in
from magpie.cli.program import argv_of, show_diagnostics
from magpie.diagnostics import CompileError
from magpie.errors import MagpieError


def architectures(text: str, backend: str) -> list[str]:
    """The architectures of one backend in a list such as ``sm_90`` or ``ptx=sm_80,ptx=sm_90,hip=gfx1100``; an item
    without a backend is for the one that is built for. Without any: the backend's own choice."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        owner, mark, name = item.rpartition("=")
        if not name or (mark and not owner):
            raise MagpieError(f"--arch takes a list such as sm_90 or ptx=sm_90,hip=gfx1100; got {text!r}")
        if not mark or canonical(owner) == canonical(backend):
            found.append(name)
    return list(dict.fromkeys(found)) or [""]


def build_command(
    file: Path,
    backend: str,
    opt: str | None,
    emit: list[str],
    out: Path,
    checked: bool | None,
    arch: str = "",
    max_bytes: int | None = None,
) -> int:
    """Compile every kernel of ``file`` that has full annotations; 1 if one has an error.

    Writes NAME.BACKEND.EXTENSION into ``out`` for each (NAME.EXTENSION where both are one word), and NAME.BACKEND.STAGE
    for the stages in ``emit``; with ``arch``, NAME.BACKEND.ARCH and so on for each architecture. ``backend`` is one, or
    several with commas between; one that is named in ``emit`` is built for too, and where none is given, for cpu.
    Nothing is written of a kernel that has an error. The stage "mp" is the kernel as `.mp` text, NAME.mp, for the first
    backend as its target; alone it is all that is written.
    """
    as_text = "mp" in emit
    emit = [stage for stage in emit if stage != "mp"]
    named = [stage for stage in emit if canonical(stage) in backend_ids()]
    emit = [stage for stage in emit if stage not in named]
    backends = list(dict.fromkeys(part.strip() for part in [*backend.split(","), *named] if part.strip())) or ["cpu"]
    backends = list({canonical(each): each for each in backends}.values())
    first = backends[0] if backend.strip(", ") or named else None
    if as_text and first is None and not emit:
        backends = []
    wanted = [(each, target) for each in backends for target in architectures(arch, each)]
    with argv_of(file, []):
        kernels = kernels_in(file, max_bytes)
    if kernels is None:
        return 1
    skipped = [name for name, kernel in kernels.items() if not annotated(kernel)]
    built = failed = 0
    for name, kernel in kernels.items():
        if name in skipped:
            continue
        try:
            files, sizes = {}, []
            for each, target in wanted:
                artifact = kernel.compile(backend=each, arch=target, opt=opt, checked=checked)
                stem = ".".join(filter(None, (name, artifact.backend, target)))
                repeated = not target and artifact.extension == f".{artifact.backend}"
                files[out / f"{name if repeated else stem}{artifact.extension}"] = artifact.blob
                sizes.append(len(artifact.blob))
                for stage in emit:
                    text = kernel.inspect(stage, backend=each, opt=opt, arch=target)
                    files[out / f"{stem}.{stage}"] = text.encode()
            if as_text:
                files[out / f"{name}.mp"] = kernel.inspect("mp", backend=first).encode()
        except CompileError as error:
            show_diagnostics(error.diagnostics)
            failed += 1
            continue
        try:
            out.mkdir(parents=True, exist_ok=True)
            for path, data in files.items():
                path.write_bytes(data)
        except OSError as error:
            raise MagpieError(f"{out}: {error.strerror or error}") from None
        built += 1
        shown = f"{' and '.join(map(str, sizes))} bytes, " if sizes else ""
        print(f"{name}: {shown}{', '.join(map(str, files))}")
    print(f"{count(built, 'kernel')} built, {count(failed, 'error')}")
    if skipped:
        print(f"not built, since a parameter has no annotation: {', '.join(skipped)}")
    return 1 if failed else 0
