"""Host time of a launch on a CUDA device: ours, others', and a loop of machine code that only calls cuLaunchKernel.

    python benchmarks/gpu/launch.py [--device cuda:0] [--rounds 61]

All launch saxpy on one element, and the loop launches the very function that we loaded, parameters packed once: what
we take above it is what Python, our checks and the packing cost. Least and median of bursts in microseconds, the sides
taking turns. A burst is shorter than the device's queue, which is empty before it: a full one would make the host wait.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kernels

import magpie as mp
from magpie.backends.cpu.loader import load_object
from magpie.backends.llvm import codegen
from magpie.runtime.drivers.gpu.launch import parameter_offsets
from magpie.runtime.packing import Packer

BURST = 100

LOOP = """
define void @loop(ptr %launch, ptr %function, ptr %stream, ptr %parameters, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %code = call i32 %launch(ptr %function, i32 1, i32 1, i32 1, i32 32, i32 1, i32 1, i32 0,
                           ptr %stream, ptr %parameters, ptr null)
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


def machine_loop(x: Any, y: Any) -> Callable[[int], None]:
    """A function that launches our saxpy so many times."""
    (special,) = kernels.saxpy._specialiser().specialisations
    loaded = special.loaded
    words = (1.0, *x._words, *y._words)
    data = ctypes.create_string_buffer(Packer(loaded.layout).pack(*words))
    offsets = parameter_offsets(loaded.layout, 0)
    parameters = (ctypes.c_void_p * len(offsets))(*(ctypes.addressof(data) + at for at in offsets))
    image = load_object(codegen.compile_object(LOOP))
    run = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 4, ctypes.c_int64)(image.address("loop"))
    launch = loaded.driver.api.address("launch")

    def go(count: int, keep: Any = (data, parameters, image, loaded)) -> None:
        run(launch, loaded.plain.function, None, ctypes.addressof(parameters), count)

    return go


def repeated(call: Callable[[], object]) -> Callable[[int], None]:
    """A function that calls so many times."""

    def go(count: int) -> None:
        for _ in range(count):
            call()

    return go


def by_cupy() -> Callable[[int], None]:
    import cupy

    source = """extern "C" __global__ void saxpy(float a, const float *x, float *y, long long n) {
        long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
        if (i < n) y[i] = a * x[i] + y[i];
    }"""
    kernel = cupy.RawKernel(source, "saxpy")
    x, y, a, n = cupy.zeros(1, "f"), cupy.zeros(1, "f"), cupy.float32(1), cupy.int64(1)
    return repeated(lambda: kernel((1,), (32,), (a, x, y, n)))


def by_triton() -> Callable[[int], None]:
    import torch
    import triton
    import triton.language

    global tl  # triton looks names up among a function's globals
    tl = triton.language

    @triton.jit
    def saxpy_triton(a, x, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(y + i, a * tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

    x, y = (torch.zeros(1, device="cuda") for _ in range(2))
    return repeated(lambda: saxpy_triton[(1,)](1.0, x, y, 1, block=32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=61)
    options = parser.parse_args()
    device = mp.device(options.device)
    x, y = (mp.zeros(1, mp.f32, device=device) for _ in range(2))
    bound = kernels.saxpy[1, 32]
    os.environ["MAGPIE_NATIVE_LAUNCH"] = "0"
    by_python = mp.kernel(kernels.saxpy.fn)[1, 32]
    by_python(1.0, x, y)
    del os.environ["MAGPIE_NATIVE_LAUNCH"]
    for _ in range(3):
        bound(1.0, x, y)
    base = "cuLaunchKernel alone"
    sides: dict[str, Callable[[int], None]] = {
        base: machine_loop(x, y),
        "magpie, bound launcher": repeated(lambda: bound(1.0, x, y)),
        "magpie, kernel[1, 32](...)": repeated(lambda: kernels.saxpy[1, 32](1.0, x, y)),
        "magpie, MAGPIE_NATIVE_LAUNCH=0": repeated(lambda: by_python(1.0, x, y)),
    }
    for name, make in (("CuPy RawKernel", by_cupy), ("Triton", by_triton)):
        try:
            sides[name] = make()
        except ImportError:
            print(f"{name}: not installed")
    times: dict[str, list[float]] = {name: [] for name in sides}
    for k in range(options.rounds + 3):
        for name, run in sides.items():
            device.synchronize()
            start = time.perf_counter()
            run(BURST)
            took = (time.perf_counter() - start) / BURST * 1e6
            if k >= 3:
                times[name].append(took)
    device.synchronize()
    print(f"{device.name}, magpie {mp.__version__}: host time of a launch of saxpy on one element, us")
    print(f"  {'':34} {'median':>8} {'least':>8} {'above the loop':>15}")
    for name, found in times.items():
        above = statistics.median(found) - statistics.median(times[base])
        print(f"  {name:34} {statistics.median(found):8.2f} {min(found):8.2f} {above:15.2f}")


if __name__ == "__main__":
    main()
