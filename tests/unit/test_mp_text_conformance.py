"""The conformance suite's kernels as `.mp` text: it has no diagnostics, is in the canonical form, and computes on interp
and cpu what the oracle wants and, to the bit, what the kernel of Python computes.

A share of each file by default, all runs under MAGPIE_TEST_ALL=1.
"""

from __future__ import annotations

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
from tests.conformance.harness import Beyond, Run, Target, beyond, check, compare, targets

_SHARE = 6

#: Kernels that the language cannot say, with what it lacks; all others can be printed.
UNSAID = {"test_tiles": "`tile_", "k_any_struct": "struct laid out"}


def chosen(module: str) -> list[Run]:
    runs = distinct(module)
    return runs if knobs.test_all() else runs[MODULES.index(module) % _SHARE :: _SHARE] or runs[:1]


def devices() -> list[Target]:
    return [t for t in targets() if t.name in ("interp", "cpu")]


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
        each.kernel.launch(grid=text.grid, block=each.block, args=args, device=target.device, **each.launch)
        mp.synchronize(target.device)
        left.append([a.reshape(-1) for a in args if isinstance(a, np.ndarray)])
    for python, printed in zip(*left, strict=True):
        compare(printed, python, what=f"{run.kernel.__name__} on {target.name}")
