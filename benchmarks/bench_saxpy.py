"""saxpy on 2**25 floats against NumPy copying the same number of bytes.

    python benchmarks/bench_saxpy.py

saxpy reads x and y and writes y: 3 * 4 * 2**25 bytes. The copy moves as many: half of them read, half written.
NumPy's copy runs on one thread; ours on one thread and on all.
"""

from __future__ import annotations

import os

import numpy as np
from timing import interleaved, table

import magpie as mp

N = 1 << 25


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def main() -> None:
    """Time the three and print the ratios."""
    rng = np.random.default_rng(1)
    x, y = rng.random(N, dtype=np.float32), rng.random(N, dtype=np.float32)
    expected = np.float32(2.0) * x + y
    saxpy[mp.cdiv(N, 256), 256](2.0, x, y)
    assert np.array_equal(y, expected)
    source = np.ones(3 * N // 2, np.float32)
    target = np.zeros_like(source)
    dx, dy = mp.asarray(x), mp.asarray(y)

    def threads(n: str, xs: object, ys: object) -> None:
        if n:
            os.environ["MAGPIE_CPU_THREADS"] = n
        else:
            os.environ.pop("MAGPIE_CPU_THREADS", None)
        saxpy[mp.cdiv(N, 256), 256](2.0, xs, ys)

    sides = {
        "numpy copy of the same bytes": lambda: np.copyto(target, source),
        "magpie, numpy arrays, 1 thread": lambda: threads("1", x, y),
        "magpie, numpy arrays, all threads": lambda: threads("", x, y),
        "magpie, mp arrays, 1 thread": lambda: threads("1", dx, dy),
        "magpie, mp arrays, all threads": lambda: threads("", dx, dy),
    }
    medians = interleaved(sides, rounds=11)
    print(table("saxpy 2**25", medians, "numpy copy of the same bytes"))


if __name__ == "__main__":
    main()
