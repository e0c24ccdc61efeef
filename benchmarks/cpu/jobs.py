"""What one run of each case is: arrays made once, then a function that runs the whole case on them.

A case's input is a dict of NumPy arrays (`problems.inputs` makes them). `mp` arrays are aligned to 64 bytes; with
`numpy=True` the kernels run on the NumPy arrays themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kernels
import numpy as np

import magpie as mp

f32 = np.float32


@dataclass
class Job:
    """`run()` is one complete execution, `fetch()` its result as NumPy."""

    run: Callable[[], None]
    fetch: Callable[[], np.ndarray]
    reset: Callable[[], None] | None = None


class Maker:
    """Arrays of the kind that is measured, and the kernels in the mode that is measured."""

    def __init__(self, fastmath: bool, numpy: bool) -> None:
        self.k = kernels.FAST if fastmath else kernels.STRICT
        self.numpy = numpy

    def array(self, value: np.ndarray) -> Any:
        if self.numpy:
            return value.copy()
        made = mp.empty(value.shape, value.dtype)
        made[...] = value
        return made

    def zeros(self, shape: Any, dtype: Any = np.float32) -> Any:
        return np.zeros(shape, dtype) if self.numpy else mp.zeros(shape, dtype)

    def fetch(self, value: Any) -> Callable[[], np.ndarray]:
        return lambda: np.array(value)


def _flat(
    name: str, sources: tuple[str, ...], out: Callable[[dict[str, Any]], Any] | None = None, extra: tuple[Any, ...] = ()
):
    def build(m: Maker, inp: dict[str, Any]) -> Job:
        arrays = [m.array(inp[s]) for s in sources]
        n = arrays[0].shape[0]
        o = m.zeros(out(inp) if out else n)
        run = m.k[name][mp.cdiv(n, 256), 256]
        return Job(lambda: run(*arrays, o, *extra), m.fetch(o))

    return build


def _image(name: str, sources: tuple[str, ...], block: tuple[int, int], *, start: bool = False):
    def build(m: Maker, inp: dict[str, Any]) -> Job:
        arrays = [m.array(inp[s]) for s in sources]
        h, w = inp["a"].shape
        o = m.array(inp["a"]) if start else m.zeros((h, w))
        run = m.k[name][(mp.cdiv(w, block[0]), mp.cdiv(h, block[1])), block]
        return Job(lambda: run(*arrays, o), m.fetch(o))

    return build


def _rows(name: str, sources: tuple[str, ...], extra: tuple[Any, ...] = ()):
    def build(m: Maker, inp: dict[str, Any]) -> Job:
        arrays = [m.array(inp[s]) for s in sources]
        o = m.zeros(inp["a"].shape)
        run = m.k[name][inp["a"].shape[0], 256]
        return Job(lambda: run(*arrays, o, *extra), m.fetch(o))

    return build


def _saxpy(m: Maker, inp: dict[str, Any]) -> Job:
    x, y = m.array(inp["x"]), m.array(inp["y"])
    run, a = m.k["saxpy"][mp.cdiv(x.shape[0], 256), 256], float(inp["a"])
    return Job(lambda: run(a, x, y), m.fetch(y))


def _reduce(m: Maker, inp: dict[str, Any]) -> Job:
    x, partial, o = m.array(inp["x"]), m.zeros(256), m.zeros(1)
    many, one = m.k["reduce_sum"][256, 256], m.k["reduce_sum"][1, 256]

    def run() -> None:
        many(x, partial)
        one(partial, o)

    return Job(run, m.fetch(o))


def _mandelbrot(m: Maker, inp: dict[str, Any]) -> Job:
    o = m.zeros((1024, 1024), np.int32)
    run = m.k["mandelbrot"][(16, 256), (64, 4)]
    return Job(lambda: run(o, 256, -2.0, -1.5, 3.0 / 1024, 3.0 / 1024), m.fetch(o))


def _nbody(m: Maker, inp: dict[str, Any]) -> Job:
    arrays = [m.array(inp[s]) for s in "xyzm"]
    n = inp["x"].size
    o = m.zeros((3, n))
    run = m.k["nbody"][n // 256, 256]
    return Job(lambda: run(*arrays, o, 0.01), m.fetch(o))


def _histogram(m: Maker, inp: dict[str, Any]) -> Job:
    x, o = m.array(inp["x"]), m.zeros(256, np.int32)
    run = m.k["histogram"][64, 256]

    def once() -> None:
        o[...] = 0
        run(x, o)

    return Job(once, m.fetch(o))


def _scan(m: Maker, inp: dict[str, Any]) -> Job:
    n = inp["x"].size
    x, o, totals = m.array(inp["x"]), m.zeros(n), m.zeros(4096)
    first, second, third = m.k["scan"][n // 4096, 256], m.k["scan_totals"][1, 256], m.k["scan_add"][n // 256, 256]

    def run() -> None:
        first(x, o, totals)
        second(totals)
        third(o, totals)

    return Job(run, m.fetch(o))


def _steps(n: int) -> Iterator[tuple[int, int]]:
    k = 2
    while k <= n:
        j = k // 2
        while j:
            yield k, j
            j //= 2
        k *= 2


def _bitonic(m: Maker, inp: dict[str, Any]) -> Job:
    n = inp["x"].size
    x, a = m.array(inp["x"]), m.zeros(n)
    step, steps = m.k["bitonic"][n // 512, 256], list(_steps(n))

    def run() -> None:
        a[...] = x
        for k, j in steps:
            step(a, k, j)

    return Job(run, m.fetch(a))


BUILD: dict[str, Callable[[Maker, dict[str, Any]], Job]] = {
    "saxpy": _saxpy,
    "expsin": _flat("expsin", ("x",)),
    "reduce_sum": _reduce,
    "stencil5": _image("stencil5", ("a",), (64, 4), start=True),
    "matmul_naive": _image("matmul_naive", ("a", "b"), (64, 4)),
    "matmul_tiled": _image("matmul_tiled", ("a", "b"), (16, 16)),
    "mandelbrot": _mandelbrot,
    "nbody": _nbody,
    "blackscholes": _flat("blackscholes", ("S", "K", "T"), lambda i: (2, i["S"].size), (0.02, 0.30)),
    "histogram": _histogram,
    "scan": _scan,
    "softmax": _rows("softmax", ("a",)),
    "layernorm": _rows("layernorm", ("a", "g", "b"), (1e-5,)),
    "transpose": _image("transpose", ("a",), (16, 16)),
    "conv3x3": _image("conv3x3", ("a", "w"), (64, 4)),
    "bitonic": _bitonic,
    "gather": _flat("gather", ("x", "idx")),
    "scatter": _flat("scatter", ("x", "idx")),
}
