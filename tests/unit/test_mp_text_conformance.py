"""The conformance suite's kernels as `.mp` text: it has no diagnostics, is in the canonical form, and computes on interp
and cpu what the oracle wants and, to the bit, what the kernel of Python computes.

A share of each file by default, all runs under MAGPIE_TEST_ALL=1.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance_kernels import MODULES, distinct
from mp_text_tools import Left, in_text, lowered

import magpie as mp
from magpie import knobs
from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, walk
from tests.conformance import fuzz, fuzz_barriers
from tests.conformance.barriergen import BarrierGenerator
from tests.conformance.fuzzgen import Generator
from tests.conformance.harness import Beyond, Run, Target, beyond, check, compare, items_of, optimised, targets

_SHARE = 6

#: Kernels that the language cannot say, with what it lacks; all others can be printed.
UNSAID = {"test_tiles": "`tile_", "k_any_struct": "struct laid out"}


def chosen(module: str) -> list[Run]:
    runs = distinct(module)
    return runs if knobs.test_all() else runs[MODULES.index(module) % _SHARE :: _SHARE] or runs[:1]


def devices() -> list[Target]:
    """interp and cpu, where LLVM's optimiser is left out but in a full run: it takes most of the time."""
    return [replace(t, plain=not knobs.test_all()) for t in targets() if t.name in ("interp", "cpu")]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_text_computes_the_same(module: str, tmp_path: Path) -> None:
    said = 0
    for run in chosen(module):
        reason = UNSAID.get(run.kernel.__name__) or UNSAID.get(module)
        try:
            other = in_text(run, tmp_path)
        except Left:
            continue
        except mp.CompileError as error:
            refused(error, reason)
            continue
        assert reason is None, f"{run.kernel.__name__} can be said now"
        said += 1
        arrays = [a for a in run.args if isinstance(a, np.ndarray) and a.flags.writeable]
        before = [a.copy() for a in arrays]  # kernels work in place
        for target in devices():
            try:
                if repeatable(lowered(run)):
                    same_bits(run, other, target)
                check(other, target)
            except (Beyond, mp.CompileError, mp.GpuError) as error:
                if beyond(target, error) is None:
                    raise
            finally:
                for array, old in zip(arrays, before, strict=True):
                    array[...] = old
    assert said or module in UNSAID


def random_runs(kind: str, seed: int, folder: Path) -> tuple[Run, Callable[[], tuple[Any, ...]], bool]:
    """A random kernel, what makes its arguments, and whether it has subgroup operations."""
    draw = random.Random(knobs.test_seed() * 100_000 + seed).randrange
    if kind == "plain":
        program = Generator(draw).program()
        grid, items, number = fuzz.SHAPES[seed % len(fuzz.SHAPES)]
        make = partial(fuzz.arguments, program.types, program.atomics, grid * items, number)
        return Run(fuzz.load(program, folder).kernel, make(), {}, grid=grid, block=items), make, program.subgroups
    barriers = BarrierGenerator(draw).program()
    shapes = fuzz_barriers.SHAPES[barriers.dims]
    grid, block, _, number = shapes[seed % len(shapes)]
    make = partial(fuzz_barriers.arguments, grid, items_of(block), number)
    return Run(fuzz_barriers.load(barriers, folder), make(), {}, grid=grid, block=block), make, not barriers.model


@pytest.mark.parametrize("kind", ["plain", "barriers"])
@pytest.mark.filterwarnings("ignore")
def test_random_kernels_compute_the_same(kind: str, tmp_path: Path) -> None:
    for seed in range(300 if knobs.test_all() else 8):
        run, make, subgroups = random_runs(kind, seed, tmp_path)
        text = in_text(run, tmp_path)
        for target in devices():
            options: dict[str, Any] = {"subgroup_size": fuzz.REFERENCE_SUBGROUP} if subgroups else {}
            left = []
            for kernel, more in ((run.kernel, ()), (text.kernel, text.args[len(run.args) :])):
                given = make()
                flat = [a.reshape(-1) if isinstance(a, np.ndarray) and more else a for a in given]
                with optimised(not target.plain):
                    kernel.launch(grid=run.grid, block=run.block, args=(*flat, *more), device=target.device, **options)
                mp.synchronize(target.device)
                left.append([a for a in given if isinstance(a, np.ndarray)])
            for python, printed in zip(*left, strict=True):
                compare(printed, python, what=f"{kind} {seed} on {target.name}")


def refused(error: mp.CompileError, reason: str | None) -> None:
    """The one error is that the text lacks what it is said to lack, at a line of the kernel."""
    (found,) = error.diagnostics
    assert reason is not None and found.code == "MPG_CORE_1411" and reason in found.message, str(error)
    assert found.loc is not None and found.loc.file.endswith(".py")


def repeatable(kernel: Kernel) -> bool:
    """Whether the result is the same in every run and on lanes of every number: without sums in any order, subgroups,
    and `fastmath`, which allows the kernel of Python what its text does not need."""
    for body in kernel.bodies():
        for node in walk(body):
            loose = isinstance(node.type, DType) and node.type.is_float and node.op.startswith("atomic")
            if loose or node.info.capability == "subgroups":
                return False
    return not kernel.fastmath


def same_bits(run: Run, text: Run, target: Target) -> None:
    """Launch both on copies, and compare what they leave behind."""
    left: list[list[np.ndarray[Any, Any]]] = []
    for each in (run, text):
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in each.args]
        with optimised(not target.plain):
            each.kernel.launch(grid=text.grid, block=each.block, args=args, device=target.device, **each.launch)
        mp.synchronize(target.device)
        left.append([a.reshape(-1) for a in args if isinstance(a, np.ndarray)])
    for python, printed in zip(*left, strict=True):
        compare(printed, python, what=f"{run.kernel.__name__} on {target.name}")
