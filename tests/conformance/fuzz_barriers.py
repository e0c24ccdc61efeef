"""Running a random barrier kernel everywhere, against its model or the interpreter at the same subgroup size."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tempfile
import types
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

import magpie as mp

from .barriergen import COLUMNS, COUNTERS, LENGTH, BarrierGenerator, BarrierProgram
from .harness import Run, Target, beyond, compare, targets
from .matrix import GANGS, on_threads

FAILURES = Path(__file__).parent / "failures"

#: (workgroups, work-items, threads, seed of the input), by dimensions
SHAPES: dict[int, tuple[tuple[int, Any, int, int], ...]] = {
    1: ((1, 64, 1, 1), (3, 33, 2, 2), (2, 7, 1, 3), (1, 100, 1, 4), (4, 1, 2, 5)),
    3: ((2, (4, 3, 2), 2, 1), (1, (8, 4, 2), 1, 2), (1, (33, 3, 1), 1, 3), (2, (1, 5, 3), 1, 4)),
}


class _Item:
    """What a model asks of its work-item."""

    def __init__(
        self, thread: tuple[int, ...], size: tuple[int, ...], group: int, groups: int, arrays: dict[str, np.ndarray]
    ) -> None:
        self.thread, self.size, self.group, self.groups, self.arrays = thread, size, group, groups, arrays

    def shared(self, name: str, *shape: int) -> np.ndarray:
        # elements that nobody has set are far from any value
        return self.arrays.setdefault(name, np.full(shape, -(10**9), np.int64))

    def verb(self, verb: str, t: int, value: int, at: int) -> Generator[None, None, int]:
        """An operation among all work-items."""
        values = self.arrays.setdefault("verb", np.zeros(self.size[0] * self.size[1] * self.size[2], np.int64))
        yield
        values[t] = value
        yield
        parts = {
            "sum": values,
            "max": values,
            "min": values,
            "scan": values[: t + 1],
            "exclusive": values[:t],
            "broadcast": values[at : at + 1],
        }[verb]
        return int({"max": np.max, "min": np.min}.get(verb, np.sum)(parts))


def run_model(program: BarrierProgram, grid: int, block: tuple[int, int, int], args: tuple[Any, ...]) -> None:
    """The launch by Python's own coroutines: all items of a workgroup run to their next barrier, in turn."""
    # the names that kernels call, as Python's own
    names = types.SimpleNamespace(
        i32=int,
        select=lambda c, a, b: a if c else b,
        **dict.fromkeys(("f32", "i64", "u8", "i16", "u32", "f64", "f16"), int),
    )
    space: dict[str, Any] = {"mp": names}
    exec(program.model, space)
    nx, ny, nz = block
    for g in range(grid):
        arrays: dict[str, np.ndarray] = {}
        items = [_Item((x, y, z), block, g, grid, arrays) for z in range(nz) for y in range(ny) for x in range(nx)]
        running = [space["kernel"](item, *args) for item in items]
        while running:
            going = [item for item in running if next(item, "done") is None]
            running = going


def arguments(grid: int, items: int, seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([seed, 5])
    x = rng.integers(0, 97, LENGTH).astype(np.int32)
    out = np.full((grid * items, COLUMNS), -7, np.int32)
    return (
        x,
        out,
        np.full(grid * items, 1, np.int32),
        np.zeros(COUNTERS, np.int32),
        int(rng.integers(0, 4)),
        int(rng.integers(0, 3)),
    )


def load(program: BarrierProgram, folder: Path) -> Any:
    """The kernel, from a file, since a kernel needs source."""
    name = "barrier_" + hashlib.sha256(program.source.encode()).hexdigest()[:16]
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
    return module.kernel


def judge(program: BarrierProgram, kernel: Any, gangs: tuple[int, ...], turn: int | None = None) -> None:
    """AssertionError where a target gives other values than the model (or the interpreter, for subgroup operations).

    ``turn`` picks two of the launch shapes, the first with code for its size alone; without it all run, both ways.
    """
    others = [t for t in targets() if t.name != "interp"]
    shapes = SHAPES[program.dims]
    chosen = [(shape, static) for shape in shapes for static in (0, 8)]
    if turn is not None:
        chosen = [(shapes[turn % len(shapes)], 8), (shapes[(turn // 2 + 1) % len(shapes)], 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        for (grid, block, threads, seed), static in chosen:
            size = block if isinstance(block, tuple) else (block, 1, 1)
            items = size[0] * size[1] * size[2]

            def launch(device: str, **options: Any) -> tuple[Any, ...]:
                args = arguments(grid, items, seed)
                with on_threads(threads, static):
                    kernel.launch(grid=grid, block=block, args=args, device=device, **options)
                return args

            where = f"{grid} workgroups of {block}, static={static > 0}"
            want = arguments(grid, items, seed)
            if program.model:
                run_model(program, grid, size, want)
                same(launch("interp"), want, f"interp, {where}")
            for target in others:
                for gang in gangs if "gangs" in target.manifest.capabilities else (0,):
                    options: dict[str, Any] = {"gang": gang} if gang else {}
                    if turn is not None and turn % 4 == 3 and target.has(["checked"]):
                        options["checked"] = True  # checks that find nothing change nothing
                    if not program.model:
                        want = launch("interp", subgroup_size=gang or subgroup_size(target))
                    try:
                        got = launch(target.device, **options)
                    except (mp.CompileError, mp.GpuError) as error:
                        if not beyond(target, error):
                            raise
                        continue
                    same(got, want, f"{target.name}, gang {gang}, {where}")


def subgroup_size(target: Target) -> int:
    from magpie.runtime.device import device

    return device(target.device).subgroup_size or 32


def same(got: tuple[Any, ...], want: tuple[Any, ...], what: str) -> None:
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if isinstance(a, np.ndarray):
            compare(a, b, Run(None, (), {}), f"{what}, argument {k}")


def save(program: BarrierProgram, name: str, message: str) -> Path:
    FAILURES.mkdir(exist_ok=True)
    file = FAILURES / f"{name}.py"
    notes = "\n".join(f"# {line}" for line in message.splitlines()[:20])
    main = (
        f"\n\nMODEL = {program.model!r}\n\nif __name__ == '__main__':\n    from tests.conformance.fuzz_barriers import again\n\n"
        f"    again(kernel, MODEL, {program.dims})\n"
    )
    file.write_text(f"{notes}\n{program.source}{main}")
    return file


def again(kernel: Any, model: str, dims: int) -> None:
    """What a saved kernel does when it is run."""
    judge(BarrierProgram("", model, dims, not model), kernel, GANGS)
    print("no difference")


def hunt(first: int, count: int) -> int:
    """Programs of many seeds: prints each that differs, saves it, and gives their number."""
    import random

    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            program = BarrierGenerator(random.Random(seed).randrange).program()
            # one gang a program is enough to find most faults, and four times as quick
            gangs = (GANGS[seed % 4],)
            try:
                judge(program, load(program, Path(folder)), gangs, seed // 4)
            except Exception as error:
                bad += 1
                text = f"{type(error).__name__}: {error}"
                print(f"{save(program, f'barrier{seed}', text)}: {text.splitlines()[:4]}", flush=True)
    print(f"{count} programs, {bad} with a difference")
    return bad


if __name__ == "__main__":
    sys.exit(1 if hunt(int(sys.argv[1]), int(sys.argv[2])) else 0)
