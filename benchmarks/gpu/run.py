"""Kernels on a GPU, as one writes them, beside what others make of the same work: one table.

    python benchmarks/gpu/run.py                      every kernel, at the sizes that the figures are for
    python benchmarks/gpu/run.py saxpy sum            some of them
    python benchmarks/gpu/run.py --json speed.json    the table as data, too
    python benchmarks/gpu/run.py --small --device cpu small sizes, on any device, without the others

Each result is compared with NumPy in float64, on an output that was NaN before. Times are of CUDA events around
batches of launches, one side after the other in each of the rounds, and the median of the rounds is shown. Where memory
is what limits a kernel, launches take turns among arrays that together are larger than the device's cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import kernels
import numpy as np
from peers import Nvcc, Torch, Triton, found

import magpie as mp

Launch = Callable[[], None]

#: More bytes than the cache of any device that this is for (an H200 has 60 MB).
CACHE = 256 << 20


@dataclass
class Case:
    """One piece of work, and who does it. ``work`` is bytes or operations, as ``unit`` says (B, FLOP, or empty).

    ``sides`` maps a name to launches that are the same but for their arrays. ``verify`` gives the relative error of
    what the first launch of a side wrote, which may be up to ``limit``; ``poison`` undoes that before.
    """

    name: str
    size: str
    work: float
    unit: str
    sides: dict[str, Sequence[Launch]]
    poison: Launch
    verify: Callable[[], float]
    limit: float
    #: What is launched for the check where the timed launches leave nothing that can be looked at.
    checked: dict[str, Launch] = field(default_factory=dict)


@dataclass
class Result:
    """The median time of each side, and how far its values were off."""

    case: Case
    ms: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    def rate(self, side: str) -> str:
        scale, unit = {"B": (1e6, "GB/s"), "FLOP": (1e9, "TFLOP/s"), "": (1.0, "")}[self.case.unit]
        return f"{self.case.work / self.ms[side] / scale:.{0 if unit == 'GB/s' else 2}f} {unit}" if unit else ""

    def rows(self) -> Iterator[tuple[str, ...]]:
        ours = self.ms["magpie"]
        for side, ms in self.ms.items():
            ratio = "" if side == "magpie" else f"{ms / ours:.3f}"
            yield (
                self.case.name,
                self.case.size,
                side,
                f"{ms:.4f}",
                self.rate(side),
                ratio,
                f"{self.errors[side]:.1e}",
            )


class Bench:
    """The cases on one device, at full size or at sizes that any device does in no time."""

    def __init__(self, device: str, small: bool, others: bool) -> None:
        self.device = mp.device(device)
        self.small = small
        self.stream = mp.Stream(self.device)
        self.rng = np.random.default_rng(1)
        gpu = others and self.device.backend == "ptx"
        raw = self.stream.handle.handle if gpu else 0
        self.nvcc = found(lambda: Nvcc(raw), "nvcc") if gpu else None
        self.nvcc_fast = found(lambda: Nvcc(raw, "-use_fast_math"), "nvcc -use_fast_math") if gpu else None
        self.torch = found(lambda: Torch(raw), "torch") if gpu else None
        self.triton = found(lambda: Triton(self.torch), "Triton") if self.torch is not None else None

    # --- arrays --------------------------------------------------------------------------------------------------
    def put(self, data: Any) -> Any:
        return mp.asarray(data, device=self.device)

    def empty(self, *shape: int, dtype: Any = mp.f32) -> Any:
        return mp.empty(shape, dtype, device=self.device)

    def random(self, *shape: int) -> Any:
        return self.rng.random(shape, np.float32)

    def turns(self, nbytes: float) -> range:
        """Sets of arrays that together do not fit in the cache."""
        return range(1 if self.small else max(1, min(4, -(-2 * CACHE // int(nbytes)))))

    # --- times ---------------------------------------------------------------------------------------------------
    def batch_ms(self, launches: Sequence[Launch], count: int) -> float:
        """Milliseconds a launch, of ``count`` launches in turn."""
        start = self.stream.record()
        for k in range(count):
            launches[k % len(launches)]()
        end = self.stream.record()
        return end.elapsed_ms(start) / count

    def measure(self, case: Case, rounds: int = 9, batch: float = 8.0) -> Result:
        """Check every side, then time them; a batch is about ``batch`` milliseconds."""
        result = Result(case)
        counts: dict[str, int] = {}
        for side, launches in case.sides.items():
            case.poison()
            case.checked.get(side, launches[0])()
            self.stream.synchronize()
            result.errors[side] = error = case.verify()
            if not error <= case.limit:
                raise SystemExit(f"{case.name} by {side}: relative error {error:.3g}, allowed is {case.limit:.3g}")
            once = self.batch_ms(launches, len(launches))
            counts[side] = 1 if self.small else max(len(launches), min(200, round(batch / max(once, 1e-3))))
        times: dict[str, list[float]] = {side: [] for side in case.sides}
        for _ in range(2 if self.small else rounds):
            for side, launches in case.sides.items():
                times[side].append(self.batch_ms(launches, counts[side]))
        result.ms = {side: statistics.median(ts) for side, ts in times.items()}
        return result

    def case(
        self,
        name: str,
        size: str,
        work: float,
        unit: str,
        sides: Mapping[str, Sequence[Launch] | None],
        out: Any,
        verify: Callable[[], float],
        limit: float,
    ) -> Case:
        nothing = np.full(out.shape, np.nan if out.dtype.is_float else -1, out.dtype.numpy)

        def poison() -> None:
            out[...] = nothing
            self.device.synchronize()

        present = {side: launches for side, launches in sides.items() if launches is not None}
        return Case(name, size, work, unit, present, poison, verify, limit)

    # --- the cases -----------------------------------------------------------------------------------------------
    def copy(self) -> Case:
        n = 1 << (16 if self.small else 28)
        a = self.random(n)
        x, y = self.put(a), self.empty(n)
        launch = kernels.copy[mp.cdiv(n, 256), 256, self.stream]
        torch = self.torch and [self.torch.call(lambda p, q: q.copy_(p), x, y)]
        return self.case(
            "copy", f"{n}", 8 * n, "B", {"magpie": [lambda: launch(x, y)], "torch": torch}, y, lambda: error(y, a), 0
        )

    def saxpy(self) -> Case:
        n = 1 << (16 if self.small else 28)
        a, b = self.random(n), self.random(n)
        x, y = self.put(a), self.put(b)
        launch = kernels.saxpy[mp.cdiv(n, 256), 256, self.stream]
        sides = {
            "magpie": [lambda: launch(0.5, x, y)],
            "nvcc": self.nvcc and [self.nvcc.call("saxpy", 0.5, x, y, n)],
            "Triton": self.triton and [self.triton.saxpy(0.5, x, y)],
        }
        want = (0.5 * a.astype(np.float64) + b).astype(np.float32)
        case = self.case("saxpy", f"{n}", 12 * n, "B", sides, y, lambda: error(y, want), 1e-7)

        def again() -> None:
            y[...] = b
            self.device.synchronize()

        case.poison = again  # y is read, too
        return case

    def sum(self) -> Case:
        n = 1 << (16 if self.small else 28)
        a = self.random(n)
        x, out = self.put(a), self.empty(1)
        whole = a.sum(dtype=np.float64)
        torch = self.torch and [self.torch.call(lambda p, q: self.torch.torch.sum(p, 0, keepdim=True, out=q), x, out)]
        sides = {"magpie": [lambda: mp.lib.sum(x, out=out, stream=self.stream)], "torch": torch}
        return self.case("sum", f"{n}", 4 * n, "B", sides, out, lambda: error(out, whole), 1e-6)

    def transpose(self) -> Case:
        n = 256 if self.small else 16384
        a = self.random(n, n)
        x, y = self.put(a), self.empty(n, n)
        launch = kernels.transpose[(n // 32, n // 32), (32, 8), self.stream]
        sides = {
            "magpie": [lambda: launch(x, y)],
            "nvcc": self.nvcc and [self.nvcc.call("transpose", x, y, n)],
            "torch": self.torch and [self.torch.call(lambda p, q: q.copy_(p.T), x, y)],
        }
        return self.case("transpose", f"{n}x{n}", 8 * n * n, "B", sides, y, lambda: error(y, a.T), 0)

    def rows(self) -> tuple[int, int]:
        return (16, 1024) if self.small else (16384, 4096)

    def softmax(self) -> Case:
        rows, n = self.rows()
        a = self.random(rows, n) * 8
        sets = [(self.put(a), self.empty(rows, n)) for _ in self.turns(8 * rows * n)]
        launch = kernels.softmax[rows, 256, self.stream]
        e = np.exp(some(a).astype(np.float64))
        want = e / e.sum(1, keepdims=True)
        torch = self.torch and [
            self.torch.call(lambda p, q: self.torch.torch.softmax(p, 1, out=q), x, y) for x, y in sets
        ]
        sides = {"magpie": [lambda x=x, y=y: launch(x, y, n) for x, y in sets], "torch": torch}
        out = sets[0][1]
        return self.case("softmax", f"{rows}x{n}", 8 * rows * n, "B", sides, out, lambda: error(out, want, some), 1e-6)

    def layernorm(self) -> Case:
        rows, n = self.rows()
        a, w, b = self.random(rows, n), self.random(n), self.random(n)
        weight, bias = self.put(w), self.put(b)
        sets = [(self.put(a), self.empty(rows, n)) for _ in self.turns(8 * rows * n)]
        out = sets[0][1]
        launch = kernels.layernorm[rows, 256, self.stream]
        d = some(a).astype(np.float64)
        d -= d.mean(1, keepdims=True)
        want = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b
        sides: dict[str, Any] = {"magpie": [lambda x=x, y=y: launch(x, weight, bias, y, 1e-5, n) for x, y in sets]}
        if self.torch:
            norm = self.torch.torch.nn.functional.layer_norm
            sides["torch"] = [self.torch.call(norm, x, (n,), weight, bias, 1e-5) for x, _ in sets]
        case = self.case(
            "layernorm", f"{rows}x{n}", 8 * rows * n, "B", sides, out, lambda: error(out, want, some), 1e-6
        )
        if self.torch:  # it has none that writes to a given array
            case.checked["torch"] = self.torch.call(
                lambda x, w, b, y: y.copy_(norm(x, (n,), w, b, 1e-5)), sets[0][0], weight, bias, out
            )
        return case

    def matmul(self) -> Case:
        n = 128 if self.small else 4096
        a, b = self.random(n, n), self.random(n, n)
        x, y, z = self.put(a), self.put(b), self.empty(n, n)
        launch = kernels.matmul[(n // 32, n // 32), (32, 32), self.stream]
        want = some(a).astype(np.float64) @ b
        sides = {
            "magpie": [lambda: launch(x, y, z)],
            "nvcc": self.nvcc and [self.nvcc.call("matmul", x, y, z, n)],
            "nvcc fast": self.nvcc_fast and [self.nvcc_fast.call("matmul", x, y, z, n)],
        }
        return self.case("matmul", f"f32 {n}", 2.0 * n**3, "FLOP", sides, z, lambda: error(z, want, some), 1e-5)

    def matmul_bf16(self) -> Case:
        """On matrix tiles: `mp.lib.matmul`. The result is rounded to bf16, as torch's is."""
        n = 128 if self.small else 8192
        a, b = ((self.random(n, n) - 0.5).astype(mp.bf16.numpy) for _ in "ab")
        x, y, z = self.put(a), self.put(b), self.empty(n, n, dtype=mp.bf16)
        want = some(a).astype(np.float64) @ b.astype(np.float64)
        sides: dict[str, Any] = {"magpie": [lambda: mp.lib.matmul(x, y, out=z, stream=self.stream)]}
        if self.torch:
            product = self.torch.torch.matmul
            sides["torch"] = [self.torch.call(lambda p, q, r: product(p, q, out=r), x, y, z)]
        return self.case("matmul_bf16", f"bf16 {n}", 2.0 * n**3, "FLOP", sides, z, lambda: error(z, want, some), 5e-3)

    def mandelbrot(self) -> Case:
        n, most = (64, 64) if self.small else (8192, 256)
        out = self.empty(n, n, dtype=mp.i32)
        launch = kernels.mandelbrot[(n // 16, n // 16), (16, 16), self.stream]
        want = escapes(n, most)
        sides = {
            "magpie": [lambda: launch(out, most)],
            "nvcc": self.nvcc and [self.nvcc.call("mandelbrot", out, n, most)],
            "nvcc fast": self.nvcc_fast and [self.nvcc_fast.call("mandelbrot", out, n, most)],
        }

        def differ() -> float:
            """How many points leave after another number of trips than in float64: those at the set's edge do."""
            return float((some(out.to_numpy()) != want).mean())

        return self.case("mandelbrot", f"{n}x{n}x{most}", 0, "", sides, out, differ, 0.02)

    def nbody(self) -> Case:
        n = 512 if self.small else 131072
        a = self.random(4, n)
        p, force = self.put(a), self.empty(3, n)
        launch = kernels.nbody[n // 256, 256, self.stream]
        step = max(1, n // 32)
        d = a[:3, None].astype(np.float64) - a[:3, ::step, None]
        want = ((a[3] * (np.square(d).sum(0) + 0.01) ** -1.5) * d).sum(2)
        sides = {
            "magpie": [lambda: launch(p, force)],
            "nvcc": self.nvcc and [self.nvcc.call("nbody", p, force, n)],
            "nvcc fast": self.nvcc_fast and [self.nvcc_fast.call("nbody", p, force, n)],
        }
        # 20 operations an interaction, as is the custom
        return self.case(
            "nbody",
            f"{n}",
            20.0 * n * n,
            "FLOP",
            sides,
            force,
            lambda: error(force, want, lambda f: f[:, ::step]),
            1e-4,
        )


CASES = ("copy", "saxpy", "sum", "transpose", "softmax", "layernorm", "matmul", "matmul_bf16", "mandelbrot", "nbody")


def some(array: Any) -> Any:
    """Some rows of a matrix, from all parts of it."""
    return array[:: max(1, len(array) // 32)]


def error(got: Any, want: Any, part: Callable[[Any], Any] = lambda x: x) -> float:
    """The relative error in the Euclidean norm; NaN where anything was not written."""
    values = got.to_numpy()
    if not np.isfinite(values.sum(dtype=np.float64)):
        return float("nan")
    values = part(values)
    if np.array_equal(values, want):
        return 0.0
    return float(np.linalg.norm(np.ravel(values - want)) / np.linalg.norm(np.ravel(want)))


def escapes(n: int, most: int) -> Any:
    """Trips of some rows of the set in float64."""
    rows = some(np.arange(n))
    c = -2.0 + np.arange(n) * (3.0 / n) + 1j * (-1.5 + rows[:, None] * (3.0 / n))
    z, trips = np.zeros_like(c), np.zeros(c.shape, np.int32)
    inside = np.ones(c.shape, bool)
    for _ in range(most):
        z[inside] = z[inside] ** 2 + c[inside]
        trips += inside
        inside &= z.real**2 + z.imag**2 <= 4.0
    return trips


def launch_us(bench: Bench) -> float:
    """Microseconds of the host for a launch of saxpy."""
    x, y = (mp.zeros(1, mp.f32, device=bench.device) for _ in range(2))
    launch = kernels.saxpy[1, 32, bench.stream]
    count, times = 200 if bench.small else 2000, []
    launch(1.0, x, y)
    for _ in range(5):
        bench.stream.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            launch(1.0, x, y)
        times.append((time.perf_counter() - start) / count)
    return min(times) * 1e6


def show(rows: Sequence[tuple[str, ...]]) -> None:
    head = ("kernel", "size", "by", "ms", "rate", "ms / ours", "error")
    widths = [max(len(r[k]) for r in (head, *rows)) for k in range(len(head))]
    for row in (head, *rows):
        print("  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="kernel", help=f"{', '.join(CASES)}; left out: all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a device that is not fast")
    parser.add_argument("--alone", action="store_true", help="without nvcc, torch and Triton")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too")
    options = parser.parse_args()
    unknown = set(options.names) - set(CASES)
    if unknown:
        parser.error(f"no kernel is called {', '.join(sorted(unknown))}")
    bench = Bench(options.device, options.small, not options.alone)
    results = []
    for name in options.names or CASES:
        results.append(bench.measure(getattr(bench, name)()))
        print(f"{name}: {results[-1].ms['magpie']:.4f} ms {results[-1].rate('magpie')}", flush=True)
    host = launch_us(bench)
    print(f"\n{bench.device.name}, magpie {mp.__version__}; a launch takes the host {host:.2f} us\n")
    show([row for r in results for row in r.rows()])
    if options.json:
        data = [
            {
                "kernel": r.case.name,
                "size": r.case.size,
                "work": r.case.work,
                "unit": r.case.unit,
                "ms": r.ms,
                "error": r.errors,
            }
            for r in results
        ]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": bench.device.name, "launch_us": host, "results": data}, file, indent=1)


if __name__ == "__main__":
    main()
