"""Running a random kernel on two backends and comparing every bit."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import magpie as mp
from magpie.dtypes import by_name

from . import oracle as o
from .fuzzgen import COLUMNS, LENGTH, SLOTS, Program
from .harness import Run, Target, beyond, compare, full_size, gang_targets, start

REFERENCE_SUBGROUP = 32
FAILURES = Path(__file__).parent / "failures"

# A footer that makes a saved kernel a program of its own.
_MAIN = """

if __name__ == "__main__":
    from tests.conformance.fuzz import rerun

    rerun(kernel, {types!r}, {atomics!r}, {subgroups!r})
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


def arguments(
    types: tuple[str, ...], atomics: tuple[str, ...], items: int, seed: int, flushes: bool = False
) -> tuple[Any, ...]:
    """Inputs with special values among them, outputs and counters, then limit, n0 and n1. With ``flushes`` no input is so
    small or so large that a few operations would come to a denormal number."""
    rng = np.random.default_rng([seed, 99])
    inputs, outputs = [], []
    for name in types:
        t = by_name(name)
        x = o.values(t, LENGTH, seed)
        mild = o.plain(t, LENGTH, seed)
        if flushes and t.is_float:
            with np.errstate(all="ignore"):
                size = np.abs(x.astype(np.float64))
                x = np.where(np.isfinite(size) & (size != 0) & ((size < 2.0**-9) | (size > 2.0**9)), mild, x)
        inputs.append(np.where(rng.random(LENGTH) < 0.5, x, mild).astype(t.numpy) if t is not mp.bf16 else rng.permutation(x))
        outputs.append(np.full((items, COLUMNS), 3, t.numpy))
    counters = [np.full(SLOTS, 5, by_name(t).numpy) for t in atomics]
    return (*inputs, *outputs, *counters, max(items - 3, 1), int(rng.integers(0, 4)), int(rng.integers(0, 4)))


Shape = tuple[int, int, int]

#: (workgroups, work-items, seed of the input): shapes that are no multiple of a gang among them
SHAPES: tuple[Shape, ...] = ((1, 64, 1), (2, 33, 2), (3, 7, 3))


def spread(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values in arrays with gaps and reversed axes, so that a launch takes the general variant."""
    return tuple(np.repeat(a[::-1], 2, axis=0)[::-2] if isinstance(a, np.ndarray) else a for a in args)


def differ(
    kernel: Any,
    types: tuple[str, ...],
    atomics: tuple[str, ...],
    base: Target,
    others: list[Target],
    strided: bool = False,
    shapes: Sequence[Shape] = SHAPES,
    sizes: int = 1,
) -> None:
    """AssertionError when some target gives other bits than the base. With ``strided`` the last launch has no array
    that is contiguous. The first ``sizes`` workgroup sizes have code of their own, the others share theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        for grid, block, seed in shapes:
            wanted: dict[tuple[bool, int], tuple[Any, ...]] = {}  # for devices that flush, and for sizes of subgroups

            def want(target: Target) -> tuple[Any, ...]:
                size = reference_subgroup(target)
                found = wanted.get((target.flushes, size))
                if found is None:
                    found = arguments(types, atomics, grid * block, seed, target.flushes)
                    options = {"subgroup_size": size, **dict(base.options)}
                    kernel.launch(grid=grid, block=block, args=found, device=base.device, **options)
                    wanted[target.flushes, size] = found
                return found

            for target in others:
                got = arguments(types, atomics, grid * block, seed, target.flushes)
                if strided and seed == shapes[-1][2]:
                    got = spread(got)
                options = dict(target.options)
                try:
                    start(kernel, target, sizes=sizes, grid=grid, block=block, args=got, **options)
                except (mp.CompileError, mp.GpuError) as error:
                    if beyond(target, error):
                        continue
                    # a checked launch reports what it found at its end; the results are there and right
                    if not options.get("checked") or getattr(error, "diagnostic", "") != "MPG_SAN_1008":
                        raise
                for k, (a, b) in enumerate(zip(got, want(target), strict=True)):
                    if isinstance(a, np.ndarray):
                        what = f"{target.name} against {base.name}, grid {grid}, block {block}, argument {k}"
                        compare(a, b, Run(None, (), {}), what, flushes=target.flushes)


def reference_subgroup(target: Target) -> int:
    """The size of subgroups that the reference runs a target's programs with: a gang's program has subgroup operations
    only at `REFERENCE_SUBGROUP`, and a device has its own size."""
    size = mp.device(target.device).subgroup_size
    return size if size and "gangs" not in target.manifest.capabilities else REFERENCE_SUBGROUP


def partners(program: Program, others: list[Target]) -> list[Target]:
    """What to compare a program with: each other backend once, at a gang width that follows from the program, with code
    for one workgroup size or for any.

    Subgroup operations have the same bits at an equal subgroup size only: gangs of 32, or the device's own size.
    """
    chosen = []
    digest = hashlib.sha256(program.source.encode()).digest()
    for n, target in enumerate(others):
        gangs = [t for t in gang_targets() if t.device == target.device]
        if target.software and digest[6 + n] % 5 and not full_size():
            continue  # they compile for long, and there may be several of them
        if program.subgroups and gangs:
            chosen += [t for t in gangs if ("gang", REFERENCE_SUBGROUP) in t.options]
        elif gangs:
            widths = [target, *gangs]
            chosen.append(widths[digest[0] % len(widths)])
        else:
            chosen.append(target)
    # two in three without LLVM's optimiser, which takes most of the time and finds no fault of ours
    chosen = [replace(t, any_size=digest[3] % 2 == 0, plain=digest[5] % 3 > 0 and not full_size()) for t in chosen]
    if digest[1] % 6 == 0:  # checks that find nothing change nothing
        chosen = [replace(t, options=(*t.options, ("checked", True))) if t.has(["checked"]) else t for t in chosen]
    return chosen


def shapes_of(program: Program) -> list[Shape]:
    """The shapes in an order that follows from the program, so that every size has code of its own in some."""
    first = hashlib.sha256(program.source.encode()).digest()[4] % len(SHAPES)
    return [*SHAPES[first:], *SHAPES[:first]]


def is_strided(program: Program) -> bool:
    """Whether a program is also run on strided arrays: one in four."""
    return hashlib.sha256(program.source.encode()).digest()[2] % 4 == 0


def save(program: Program, name: str, message: str, seed: int) -> Path:
    """Write the kernel to the folder of failures with what went wrong."""
    FAILURES.mkdir(exist_ok=True)
    notes = "\n".join(f"# {line}" for line in [f"MAGPIE_TEST_SEED={seed}", *message.splitlines()[:20]])
    file = FAILURES / f"{name}.py"
    main = _MAIN.format(types=program.types, atomics=program.atomics, subgroups=program.subgroups)
    file.write_text(f"{notes}\n{program.source}{main}")
    return file


def rerun(kernel: Any, types: tuple[str, ...], atomics: tuple[str, ...], subgroups: bool) -> None:
    """What a saved kernel does when it is run: all backends, all shapes, all gang widths that may be compared."""
    from .harness import targets

    base, others = split(list(targets()))
    chosen = [t for t in [*others, *gang_targets()] if not subgroups or ("gang", REFERENCE_SUBGROUP) in t.options]
    chosen += [replace(t, any_size=not t.any_size) for t in chosen]
    differ(kernel, types, atomics, base, chosen, strided=True, sizes=len(SHAPES))
    checked = [replace(t, options=(*t.options, ("checked", True))) for t in chosen if t.has(["checked"])]
    differ(kernel, types, atomics, base, checked, strided=True, sizes=len(SHAPES))
    print("no difference")


def split(found: list[Target]) -> tuple[Target, list[Target]]:
    """The reference and what is compared with it."""
    base = next(t for t in found if t.name == "interp")
    return base, [t for t in found if t is not base]


def hunt(first: int, count: int) -> int:
    """Random programs of many seeds without shrinking: prints each that differs, saves it, and gives their number."""
    import random
    import tempfile

    from .fuzzgen import Generator
    from .harness import targets

    base, others = split(list(targets()))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            program = Generator(random.Random(seed).randrange).program()
            try:
                chosen = partners(program, others)
                differ(load(program, Path(folder)).kernel, program.types, program.atomics, base, chosen, is_strided(program), shapes_of(program))
            except Exception as error:
                bad += 1
                file = save(program, f"hunt{seed}", f"{type(error).__name__}: {error}", seed)
                print(f"{file}: {type(error).__name__}: {str(error).splitlines()[:3]}", flush=True)
    print(f"{count} programs, {bad} with a difference")
    return bad


if __name__ == "__main__":
    sys.exit(1 if hunt(int(sys.argv[1]), int(sys.argv[2])) else 0)
