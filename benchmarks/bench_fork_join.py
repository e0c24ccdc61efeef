"""From which size on threads are worth waking: one launch on the calling thread and on all.

    python benchmarks/bench_fork_join.py

The least of many launches, in microseconds, the two taking turns so that both see the same machine; a column a kernel,
from the least work that a work-item can have to a loop. `_SMALL` of `magpie.runtime.drivers.cpu` is where both columns
of a kernel meet, times what `magpie.backends.cpu.effort` makes of the kernel: below it a launch stays on its thread.
"""

from __future__ import annotations

import os
import time

import numpy as np

import magpie as mp
from magpie.backends.cpu.threads import default_threads
from magpie.runtime.drivers import cpu

SIZES = [1 << k for k in range(8, 17, 2)]
BLOCK = 64


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def sines(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = mp.sin(a * x[i]) + mp.exp(-y[i] * y[i])


@mp.kernel
def series(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        term = total = 1.0
        for _ in range(64):
            term *= x[i] * a
            total += term
        y[i] = total


def least(kernel: mp.Kernel, n: int, rounds: int = 150) -> dict[str, float]:
    """Microseconds of the fastest launch, on one thread and on all."""
    x, y = (mp.asarray(np.zeros(n, np.float32)) for _ in range(2))
    bound = kernel[mp.cdiv(n, BLOCK), BLOCK]
    found = {"1": float("inf"), str(default_threads()): float("inf")}
    for _ in range(rounds):
        for threads in found:
            os.environ["MAGPIE_CPU_THREADS"] = threads
            bound(0.5, x, y)
            for _ in range(3):
                start = time.perf_counter()
                bound(0.5, x, y)
                found[threads] = min(found[threads], (time.perf_counter() - start) * 1e6)
    return found


def main() -> None:
    """Print the table."""
    small, cpu._SMALL = cpu._SMALL, 0
    kernels = (saxpy, sines, series)
    print(f"least of 450 launches in us, workgroups of {BLOCK}; threads are woken from {small} operations on:")
    for kernel in kernels:
        effort = kernel.compile().info["effort"]
        print(f"  {kernel.__name__}: {effort} operations a work-item, {small // effort} work-items")
    print(f"{'work-items':>10s}" + "".join(f"{k.__name__ + ', ' + t:>13s}" for k in kernels for t in ("1", "all")))
    for n in SIZES:
        rows = [value for kernel in kernels for value in least(kernel, n).values()]
        print(f"{n:10d}" + "".join(f"{value:13.2f}" for value in rows))


if __name__ == "__main__":
    main()
