"""One kernel at many workgroup sizes, workgroup counts, gang widths and thread counts: compiled once a gang, launched often.

    @shape(also=((2, 64),))
    def test_ping_pong(block, grid):
        x = rows(block, grid)
        return Run(k_ping_pong, (x, empty(x.size, mp.i32)), {1: ...})

gives one test a backend and gang; each goes through `plan`. The default plan is an orthogonal array: every pair of a
size, a count, a gang and a thread count occurs, and every size at every gang, so each gang meets a partial last gang, a
workgroup of one lane and 1024 work-items. One launch of every other gang runs code for that workgroup size alone, the
others code for any size. MAGPIE_TEST_ALL=1 runs the whole product, with both kinds of code.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import magpie as mp

from .harness import (
    Beyond,
    Run,
    Target,
    _marks,
    beyond,
    check,
    denormals,
    full_size,
    gang_targets,
    in_turn,
    lacking,
    targets,
)

SIZES = (1, 16, 32, 33, 64, 100, 256, 1024)
COUNTS = (1, 2, 7, 64)
GANGS = (4, 8, 16, 32)
THREADS = (1, 2)

#: The same numbers of work-items, in workgroups of three dimensions.
SHAPES_3D = {
    1: (1, 1, 1),
    16: (4, 2, 2),
    32: (4, 4, 2),
    33: (11, 3, 1),
    64: (4, 4, 4),
    100: (5, 5, 4),
    256: (8, 8, 4),
    1024: (16, 8, 8),
}

Launch = tuple[int, int, int, bool]  # work-items of a group, groups, threads; code for this size alone


def plan(
    gang: int | None, full: bool, sizes: Sequence[int] = SIZES, also: Iterable[tuple[int, int]] = (), turn: int = 0
) -> list[Launch]:
    """The launches of one kernel at one gang (None: a backend that has no gangs) and some of `SIZES`.

    ``turn`` shifts which of them take code for one size: one each at every other gang.
    """
    extra = [(block, grid, threads, False) for block, grid in also for threads in THREADS]
    if full:
        # a backend without gangs has neither threads to choose from nor code for one size
        kinds = (THREADS, (False, True)) if gang else ((1,), (False,))
        return [*itertools.product(sizes, COUNTS, *kinds), *extra]
    g = GANGS.index(gang) if gang in GANGS else 0
    alone = (2 * g + turn + turn // 8) % 8 if (g + turn) % 2 == 0 else None
    rows = [(size, COUNTS[(s + g) % 4], THREADS[(g // 2 + s // 4) % 2], s == alone) for s, size in enumerate(SIZES)]
    return [*(row for row in rows if row[0] in sizes), *extra]


def shape(
    requires: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    default: Mapping[int, Sequence[int]] | None = None,
    also: Iterable[tuple[int, int]] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make tests of a function of ``block`` and ``grid`` that gives a `Run` or several; the launch shape is filled in.

    ``sizes`` leaves out workgroup sizes that the kernel is not for, ``default`` those, by gang, that only a full run has;
    ``also`` adds pairs of a size and a count. A ``block`` that the `Run` sets as a tuple is kept.
    """

    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        found: list[tuple[Target, int | None]] = [
            (t, None) for t in targets() if "gangs" not in t.manifest.capabilities
        ]
        found += [(t, g) for t in gang_targets() for g in GANGS if ("gang", g) in t.options]
        rows = []
        for target, gang in found:
            marks = _marks(f"{make.__module__.rsplit('.', 1)[-1]}::{make.__name__}[{target.name}]")
            marks += lacking(target, requires)
            plain = gang is not None and in_turn(make.__name__ + target.name, 4) > 0
            rows.append(pytest.param(replace(target, plain=plain), gang, id=target.name, marks=marks))

        @pytest.mark.parametrize(("target", "gang"), rows)
        def test(target: Target, gang: int | None) -> None:
            few = sizes if default is None or full_size() else [n for n in default[gang or GANGS[0]] if n in sizes]
            reasons: list[str] = []
            launches = 0
            alone: dict[Any, Any] = {}  # a kernel -> the same one, which has code for single sizes only
            for block, grid, threads, static in plan(gang, full_size(), few, also, len(make.__name__)):
                with denormals(not target.flushes):
                    made = make(block, grid)
                for run in [made] if isinstance(made, Run) else made:
                    run.grid = grid if run.grid is None else run.grid
                    run.block = run.block if isinstance(run.block, tuple) else block
                    if static and run.kernel.workgroup is None:
                        run.kernel = alone.setdefault(run.kernel, mp.kernel(run.kernel.fn))
                    with on_threads(threads):
                        try:
                            check(run, replace(target, any_size=not static))
                        except (Beyond, mp.CompileError, mp.GpuError) as error:
                            reason = beyond(target, error)
                            if reason is None:
                                raise
                            reasons.append(reason)
                        except AssertionError as error:
                            where = f"{grid} workgroups of {run.block}, {threads} threads, static={static}"
                            raise AssertionError(f"{where}: {error}") from None
                    launches += 1
            if len(reasons) == launches:
                pytest.skip(reasons[0])

        def runs() -> Iterator[Run]:
            pairs = [(block, grid) for block, grid in ((64, 7), (33, 2), (1024, 2)) if block in sizes]
            for block, grid in [*(pairs or [(sizes[0], 2)]), *also]:
                made = make(block, grid)
                for run in [made] if isinstance(made, Run) else made:
                    run.grid = grid if run.grid is None else run.grid
                    run.block = run.block if isinstance(run.block, tuple) else block
                    yield run

        assert list(inspect.signature(make).parameters) == ["block", "grid"], make.__name__
        test.runs = runs  # type: ignore[attr-defined]  # for who compiles the kernels, or compares two backends
        test.__name__ = make.__name__
        test.__qualname__ = make.__qualname__
        test.__module__ = make.__module__
        test.__doc__ = make.__doc__
        return test

    return decorate


@contextmanager
def on_threads(count: int, static: int = 8) -> Iterator[None]:
    """Launches inside use ``count`` threads of the CPU, also those of so few work-items that they would stay on one, and
    ``static`` workgroup sizes of a kernel get code of their own."""
    from magpie.runtime.drivers import cpu

    names = {"MAGPIE_CPU_THREADS": str(count), "MAGPIE_STATIC_WORKGROUPS": str(static)}
    before, small = {name: os.environ.get(name) for name in names}, cpu._SMALL
    os.environ.update(names)
    cpu._SMALL = 0
    try:
        yield
    finally:
        cpu._SMALL = small
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def rows(block: int, grid: int, low: int = -99, high: int = 100, seed: int = 0) -> np.ndarray:
    """Random i32, one an item; `groups` gives them by workgroup."""
    return np.random.default_rng([seed, block, grid]).integers(low, high, block * grid).astype(np.int32)


def groups(x: np.ndarray, block: int) -> np.ndarray:
    """``x`` as one row a workgroup."""
    return x.reshape(-1, block)


def ids(block: int, grid: int) -> tuple[np.ndarray, np.ndarray]:
    """The number in its workgroup, and the workgroup, of each item."""
    i = np.arange(block * grid)
    return i % block, i // block


def in_subgroups(x: np.ndarray, block: int, size: int, fill: Any) -> np.ndarray:
    """``x`` as (workgroups, subgroups, size); lanes that the last subgroup lacks hold ``fill``."""
    r = groups(x, block)
    parts = -(-block // size)
    padded = np.full((r.shape[0], parts * size), fill, r.dtype)
    padded[:, :block] = r
    return padded.reshape(r.shape[0], parts, size)


def of_lanes(x: np.ndarray, block: int) -> np.ndarray:
    """The reverse of `in_subgroups`."""
    return x.reshape(x.shape[0], -1)[:, :block].ravel()


def to_lanes(x: np.ndarray, block: int, size: int) -> np.ndarray:
    """One value a subgroup, (workgroups, subgroups), given to each of its items."""
    return np.repeat(x, size, axis=1)[:, :block].ravel()
