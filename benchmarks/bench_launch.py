"""Host time of a launch: an empty kernel and saxpy with n = 1, on mp arrays and on NumPy arrays.

    python benchmarks/bench_launch.py

Medians of 101 rounds of 500 launches, in microseconds, the cases taking turns. One workgroup runs on the calling
thread, so this is the price of the launch itself: looking up the code, packing the arguments, the native call. So small
a launch of two workgroups would stay there, too; here it is made to run on two threads, and waking the second and
waiting for it are in the figure.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import numpy as np

import magpie as mp
from magpie.runtime.drivers import cpu


@mp.kernel
def empty_kernel():
    pass


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def add2(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j] + y[i, j]


def per_call(run: Callable[[], None], count: int = 500) -> float:
    """Microseconds of one call."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count * 1e6


def main() -> None:
    """Print the medians."""
    x, y = mp.zeros(1), mp.zeros(1)
    nx, ny = np.zeros(1, np.float32), np.zeros(1, np.float32)
    m, n = [mp.zeros((1, 1)) for _ in range(3)], [np.zeros((1, 1), np.float32) for _ in range(3)]
    bound = saxpy[1, 256]
    os.environ["MAGPIE_NATIVE_LAUNCH"] = "0"  # read at a launcher's first launch
    by_python = mp.kernel(saxpy.fn)[1, 256]
    by_python(2.0, x, y)
    del os.environ["MAGPIE_NATIVE_LAUNCH"]
    small = cpu._SMALL
    cases: dict[str, Callable[[], None]] = {
        "empty kernel": lambda: empty_kernel[1, 1](),
        "empty kernel, 2 threads": lambda: empty_kernel[2, 1](),
        "saxpy, n = 1, mp arrays": lambda: saxpy[1, 256](2.0, x, y),
        "saxpy, n = 1, mp arrays, bound": lambda: bound(2.0, x, y),
        "saxpy, n = 1, NumPy arrays": lambda: saxpy[1, 256](2.0, nx, ny),
        "add of 1x1, mp arrays": lambda: add2[(1, 1), (16, 16)](*m),
        "add of 1x1, NumPy arrays": lambda: add2[(1, 1), (16, 16)](*n),
        "the same, by Python": lambda: by_python(2.0, x, y),
        "(an empty Python function)": lambda: None,
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for name, run in cases.items():
        cpu._SMALL = 0 if "2 threads" in name else small  # read when a launch is bound
        for _ in range(3):  # the second one makes the native path, which all others take
            run()
    cpu._SMALL = small
    for threaded in (False, True):  # apart: OpenMP's threads spin for a while before they sleep
        for _ in range(101):
            for name, run in cases.items():
                if ("2 threads" in name) == threaded:
                    times[name].append(per_call(run))
    print("host time of a launch, medians in us")
    for name, found in times.items():
        print(f"  {name:34s} {statistics.median(found):7.2f}   (fastest {min(found):.2f})")


if __name__ == "__main__":
    main()
