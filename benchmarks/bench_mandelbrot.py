"""Mandelbrot 1024 x 1024, 256 iterations, written the plain per-pixel way, on one thread, against gcc's scalar loop.

    python benchmarks/bench_mandelbrot.py

The C side is `gcc -O3 -march=native`, one thread, the same loop. The kernel is strict (no contraction), in gangs chosen
by the compiler. The results are compared pixel by pixel; a pixel may differ where gcc contracts a product and a sum.
"""

from __future__ import annotations

import ctypes
import os

os.environ["MAGPIE_CPU_THREADS"] = "1"

import numpy as np
from timing import c_function, interleaved, table

import magpie as mp

W = H = 1024
ITERATIONS = 256
X0, Y0, STEP = -2.0, -1.5, 3.0 / 1024

SOURCE = """
#include <stdint.h>
void mandelbrot(int32_t *restrict o, int64_t w, int64_t h, int it, float x0, float y0, float d) {
  for (int64_t r = 0; r < h; r++)
    for (int64_t c = 0; c < w; c++) {
      float cx = x0 + c * d, cy = y0 + r * d, x = 0, y = 0;
      int k = 0;
      while (k < it && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = t;
        k++;
      }
      o[r * w + c] = k;
    }
}
"""


@mp.kernel
def mandelbrot(out: mp.Array[mp.i32, 2], iterations: mp.i32, x0: mp.f32, y0: mp.f32, step: mp.f32):
    col = mp.global_id(0)
    row = mp.global_id(1)
    if row < out.shape[0] and col < out.shape[1]:
        cx = x0 + mp.f32(col) * step
        cy = y0 + mp.f32(row) * step
        x = 0.0
        y = 0.0
        k = mp.i32(0)
        while k < iterations and x * x + y * y < 4.0:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            k += 1
        out[row, col] = k


def main() -> None:
    """Time both sides and print the ratio."""
    reference = np.empty((H, W), np.int32)
    c = c_function(SOURCE, "mandelbrot")
    f = ctypes.c_float
    arguments = (
        ctypes.c_void_p(reference.ctypes.data),
        ctypes.c_int64(W),
        ctypes.c_int64(H),
        ctypes.c_int(ITERATIONS),
        f(X0),
        f(Y0),
        f(STEP),
    )
    out = mp.zeros((H, W), mp.i32)
    sides = {
        "gcc -O3 -march=native, 1 thread": lambda: c(*arguments),
        "magpie, 1 thread": lambda: mandelbrot[(W // 64, H), 64](out, ITERATIONS, X0, Y0, STEP),
    }
    medians = interleaved(sides, rounds=9, warmup=1)
    different = float((mp.to_numpy(out) != reference).mean())
    print(table("mandelbrot 1024 x 1024 x 256", medians, "magpie, 1 thread"))
    print(f"  pixels that differ (gcc contracts):  {different:.4%}")


if __name__ == "__main__":
    main()
