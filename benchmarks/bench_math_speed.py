"""Nanoseconds an argument of the math library on one core, beside NumPy: ``python benchmarks/bench_math_speed.py``.

Both sides run over 2**16 arguments that stay in the cache; the least of many repetitions counts, so that other work on
the machine disturbs little.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import magpie as mp

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from math_reference import BINARY, UNARY, device_kernel, numpy_f64

N = 1 << 16
RANGE = {"asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "log1p": (-0.9, 10.0)}
POSITIVE = ("log", "log2", "log10", "rsqrt", "pow")


def least(run: Callable[[], object]) -> float:
    """Nanoseconds an argument in the fastest of 200 runs."""
    run()
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter_ns()
        run()
        best = min(best, time.perf_counter_ns() - start)
    return best / N


def row(op: str) -> str:
    rng = np.random.default_rng(1)
    cells = [op]
    for dtype in (mp.f32, mp.f64):
        low, high = RANGE.get(op, (0.1, 10.0) if op in POSITIVE else (-10.0, 10.0))
        args: list[Any] = [rng.uniform(low, high, N).astype(dtype.numpy) for _ in range(2 if op in BINARY else 1)]
        out = mp.empty(N, dtype)
        ours = [mp.asarray(a) for a in args]
        kernel = device_kernel(op, dtype)
        mine = least(lambda: kernel.launch(grid=N // 256, block=256, args=(*ours, out), device="cpu"))  # noqa: B023
        with np.errstate(all="ignore"):
            theirs = least(lambda: numpy_f64(op)(*args))  # noqa: B023
        cells += [f"{mine:.2f}", f"{theirs:.2f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    os.environ["MAGPIE_CPU_THREADS"] = "1"
    print("| function | f32 | NumPy f32 | f64 | NumPy f64 |\n|---|---|---|---|---|")
    for op in [*UNARY, *BINARY]:
        print(row(op), flush=True)


if __name__ == "__main__":
    main()
