"""Running a random kernel on two backends and comparing every bit."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import magpie as mp
from magpie.dtypes import by_name

from . import oracle as o
from .fuzzgen import COLUMNS, LENGTH, SLOTS, Program
from .harness import Run, Target, compare

FAILURES = Path(__file__).parent / "failures"

# A footer that makes a saved kernel a program of its own.
_MAIN = """

if __name__ == "__main__":
    from tests.conformance.fuzz import rerun

    rerun(kernel, {types!r}, {atomics!r}, {shared!r})
"""


def load(program: Program, folder: Path) -> ModuleType:
    """The program as a module made from a file, since a kernel needs source."""
    name = "fuzz_" + hashlib.sha256(program.source.encode()).hexdigest()[:16]
    file = folder / f"{name}.py"
    file.write_text(program.source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def arguments(types: tuple[str, ...], atomics: tuple[str, ...], items: int, seed: int) -> tuple[Any, ...]:
    """Inputs with special values among them, outputs and counters, then limit, n0 and n1."""
    rng = np.random.default_rng([seed, 99])
    inputs, outputs = [], []
    for name in types:
        t = by_name(name)
        x = o.values(t, LENGTH, seed)
        mild = o.plain(t, LENGTH, seed)
        inputs.append(np.where(rng.random(LENGTH) < 0.5, x, mild).astype(t.numpy) if t is not mp.bf16 else rng.permutation(x))
        outputs.append(np.full((items, COLUMNS), 3, t.numpy))
    counters = [np.full(SLOTS, 5, by_name(t).numpy) for t in atomics]
    return (*inputs, *outputs, *counters, max(items - 3, 1), int(rng.integers(0, 4)), int(rng.integers(0, 4)))


#: (workgroups, work-items, seed of the input): shapes that are no multiple of a gang among them
SHAPES = ((1, 64, 1), (2, 33, 2), (3, 7, 3))


def differ(kernel: Any, types: tuple[str, ...], atomics: tuple[str, ...], base: Target, others: list[Target], shapes: Any = SHAPES) -> None:
    """AssertionError when some target gives other bits than the base."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        for grid, block, seed in shapes:
            want = arguments(types, atomics, grid * block, seed)
            kernel.launch(grid=grid, block=block, args=want, device=base.device, **dict(base.options))
            for target in others:
                got = arguments(types, atomics, grid * block, seed)
                kernel.launch(grid=grid, block=block, args=got, device=target.device, **dict(target.options))
                for k, (a, b) in enumerate(zip(got, want, strict=True)):
                    if isinstance(a, np.ndarray):
                        compare(a, b, Run(None, (), {}), f"{target.name} against {base.name}, grid {grid}, block {block}, argument {k}")


def save(program: Program, name: str, message: str, seed: int) -> Path:
    """Write the kernel to the folder of failures with what went wrong."""
    FAILURES.mkdir(exist_ok=True)
    notes = "\n".join(f"# {line}" for line in [f"MAGPIE_TEST_SEED={seed}", *message.splitlines()[:20]])
    file = FAILURES / f"{name}.py"
    main = _MAIN.format(types=program.types, atomics=program.atomics, shared=program.shared)
    file.write_text(f"{notes}\n{program.source}{main}")
    return file


def rerun(kernel: Any, types: tuple[str, ...], atomics: tuple[str, ...], shared: bool) -> None:
    """What a saved kernel does when it is run: all backends, all shapes."""
    from .harness import targets

    base, others = split(list(targets()))
    differ(kernel, types, atomics, base, others)
    print("no difference")


def split(found: list[Target]) -> tuple[Target, list[Target]]:
    """The reference and what is compared with it."""
    base = next(t for t in found if "reference" in t.manifest.capabilities or t.device == "interp")
    return base, [t for t in found if t is not base]
