"""Kernels on a GPU, as one writes them: each is checked against NumPy and timed.

    python benchmarks/gpu/run.py                 every kernel, at the sizes that the figures are for
    python benchmarks/gpu/run.py --small saxpy   small sizes, some kernels; --device cpu runs there

Times are medians of launches between events, after three that do not count; the device's memory holds the arrays. The
figures of others are of an H200 (driver 580.159): Triton, NVRTC, torch 2.11, nvcc 13.0.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import kernels
import numpy as np

import magpie as mp

OTHERS = {
    "copy": "4146 GB/s (torch)",
    "saxpy": "4094 GB/s (Triton), 3410 (NVRTC)",
    "sum": "3866 GB/s (torch)",
    "transpose": "-",
    "softmax": "2344 GB/s (torch)",
    "matmul": "8.9 TFLOP/s (nvcc, the same source)",
    "mandelbrot": "1.363 ms (nvcc)",
    "nbody": "31.7 TFLOP/s (nvcc)",
    "launch": "6.5 us (CuPy), 12 us (Triton)",
}


class Bench:
    """One device, one set of sizes."""

    def __init__(self, device: str, small: bool) -> None:
        self.device = mp.device(device)
        self.small = small
        self.stream = mp.Stream(self.device)
        self.rng = np.random.default_rng(1)

    def put(self, data: Any) -> Any:
        return mp.asarray(data, device=self.device)

    def random(self, *shape: int) -> Any:
        return self.rng.random(shape, np.float32)

    def median_ms(self, launch: Callable[[], None], repeats: int = 20) -> float:
        for _ in range(3):
            launch()
        times = []
        for _ in range(3 if self.small else repeats):
            start = self.stream.record()
            launch()
            end = self.stream.record()
            end.synchronize()
            times.append(end.elapsed_ms(start))
        return statistics.median(times)

    def show(self, name: str, what: str, ms: float, *, nbytes: float = 0, flops: float = 0) -> None:
        rate = f"{nbytes / ms / 1e6:8.0f} GB/s" if nbytes else f"{flops / ms / 1e9:8.2f} TFLOP/s" if flops else ""
        print(f"{name:11} {what:24} {ms:9.3f} ms {rate:17} others: {OTHERS[name]}", flush=True)

    # --- what is measured ----------------------------------------------------------------------------------------
    def copy(self) -> None:
        n = 1 << (16 if self.small else 30)
        x, y = (mp.zeros(n // 4, mp.f32, device=self.device) for _ in range(2))
        start, end = x._words[0], y._words[0]
        ms = self.median_ms(lambda: self.device.driver.copy(self.device.index, end, start, n))
        self.show("copy", f"{n >> 20} MiB", ms, nbytes=2 * n)

    def saxpy(self) -> None:
        n = 1 << (16 if self.small else 28)
        a, b = self.random(n), self.random(n)
        x, y = self.put(a), self.put(b)
        launch = kernels.saxpy[mp.cdiv(n, 256), 256, self.stream]
        launch(2.0, x, y)
        assert np.array_equal(y.to_numpy(), np.float32(2) * a + b)
        self.show("saxpy", f"{n} elements", self.median_ms(lambda: launch(2.0, x, y)), nbytes=12 * n)

    def sum(self) -> None:
        n = 1 << (16 if self.small else 28)
        a = self.random(n)
        x, out = self.put(a), mp.zeros(1, mp.f32, device=self.device)
        launch = kernels.total[32 if self.small else 132 * 8, 256, self.stream]
        launch(x, out)
        assert abs(out.item() - a.sum(dtype=np.float64)) < 1e-3 * n
        self.show("sum", f"{n} elements", self.median_ms(lambda: launch(x, out)), nbytes=4 * n)

    def transpose(self) -> None:
        n = 256 if self.small else 16384
        a = self.random(n, n)
        x, y = self.put(a), mp.zeros((n, n), mp.f32, device=self.device)
        launch = kernels.transpose[(n // 32, n // 32), (32, 8), self.stream]
        launch(x, y)
        assert np.array_equal(y.to_numpy(), a.T)
        self.show("transpose", f"{n} x {n}", self.median_ms(lambda: launch(x, y)), nbytes=8 * n * n)

    def softmax(self) -> None:
        rows, n = (16, 512) if self.small else (16384, 4096)
        a = self.random(rows, n)
        x, y = self.put(a), mp.zeros((rows, n), mp.f32, device=self.device)
        launch = kernels.softmax[rows, 256, self.stream]
        launch(x, y)
        e = np.exp(a[:16].astype(np.float64))
        assert np.allclose(y.to_numpy()[:16], e / e.sum(1, keepdims=True), rtol=1e-5)
        self.show("softmax", f"{rows} rows of {n}", self.median_ms(lambda: launch(x, y)), nbytes=8 * rows * n)

    def matmul(self) -> None:
        n = 128 if self.small else 4096
        a, b = self.random(n, n), self.random(n, n)
        x, y, z = self.put(a), self.put(b), mp.zeros((n, n), mp.f32, device=self.device)
        launch = kernels.matmul[(n // 32, n // 32), (32, 32), self.stream]
        launch(x, y, z)
        assert np.allclose(z.to_numpy()[:8], a[:8].astype(np.float64) @ b, rtol=1e-4)
        self.show("matmul", f"f32, {n} cubed", self.median_ms(lambda: launch(x, y, z)), flops=2 * n**3)

    def mandelbrot(self) -> None:
        n, most = (64, 64) if self.small else (8192, 256)
        out = mp.zeros((n, n), mp.i32, device=self.device)
        launch = kernels.mandelbrot[(n // 16, n // 16), (16, 16), self.stream]
        launch(out, most)
        got = out.to_numpy()
        assert got[0, 0] == 1 and got[n // 2, n // 2] == most  # -2 - 1.5i leaves at once, -0.5 never does
        self.show("mandelbrot", f"{n} x {n}, {most} trips", self.median_ms(lambda: launch(out, most)))

    def nbody(self) -> None:
        n = 512 if self.small else 65536
        a = self.random(4, n)
        p, force = self.put(a), mp.zeros((3, n), mp.f32, device=self.device)
        launch = kernels.nbody[n // 256, 256, self.stream]
        launch(p, force)
        d = a[:3].astype(np.float64) - a[:3, :1]
        w = a[3] * (np.square(d).sum(0) + 0.01) ** -1.5
        assert np.allclose(force.to_numpy()[:, 0], (w * d).sum(1), rtol=1e-3)
        # 20 operations an interaction, as is the custom
        self.show("nbody", f"{n} bodies", self.median_ms(lambda: launch(p, force), 5), flops=20 * n * n)

    def launch(self) -> None:
        x, y = (mp.zeros(1, mp.f32, device=self.device) for _ in range(2))
        launch = kernels.saxpy[1, 32, self.stream]
        count, times = 200 if self.small else 2000, []
        launch(1.0, x, y)
        for _ in range(5):
            self.stream.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                launch(1.0, x, y)
            times.append((time.perf_counter() - start) / count)
        print(f"{'launch':11} {'host time':24} {min(times) * 1e6:9.2f} us {'':17} others: {OTHERS['launch']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(OTHERS)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    bench = Bench(options.device, options.small)
    print(f"{bench.device.name}, magpie {mp.__version__}")
    for name in options.names or OTHERS:
        getattr(bench, name)()


if __name__ == "__main__":
    main()
