"""The kernels of `run.py` on one GPU through several of its APIs, each beside the first: one table.

    python benchmarks/gpu/backends.py                           saxpy, sum, matmul, n-body and mandelbrot: CUDA, Vulkan
    python benchmarks/gpu/backends.py saxpy copy                some kernels
    python benchmarks/gpu/backends.py --devices vulkan:0 --small

The devices take turns in each round, each is timed by its own clock (CUDA events, Vulkan timestamps) around batches of
launches, and the median of the rounds is shown. Results are checked as `run.py` checks them.
"""

from __future__ import annotations

import argparse
import statistics
import time

from run import CASES, Bench, Case, Result

import magpie as mp

#: Seconds of launches before the clock counts. A GPU that has waited for the host to make arrays runs at a fraction of
#: its clock (345 of 1980 MHz on an H200), and takes its time to speed up.
WARM = 0.5

NAMES = ("saxpy", "sum", "matmul", "nbody", "mandelbrot")


def compare(name: str, benches: dict[str, Bench], rounds: int = 9, batch: float = 8.0) -> dict[str, Result]:
    """Check ``name`` on each device, then time the devices in turn."""
    results: dict[str, Result] = {}
    counts: dict[str, int] = {}
    for device, bench in benches.items():
        case: Case = getattr(bench, name)()
        results[device] = Result(case)
        launches = case.sides["magpie"]
        case.poison()
        launches[0]()
        bench.stream.synchronize()
        results[device].errors["magpie"] = error = case.verify()
        if not error <= case.limit:
            raise SystemExit(f"{name} on {device}: relative error {error:.3g}, allowed is {case.limit:.3g}")
        until = time.monotonic() + (0 if bench.small else WARM)
        while time.monotonic() < until:
            bench.batch_ms(launches, 4 * len(launches))
        once = bench.batch_ms(launches, 2 * len(launches))
        counts[device] = 1 if bench.small else max(len(launches), min(200, round(batch / max(once, 1e-3))))
    times: dict[str, list[float]] = {device: [] for device in benches}
    for _ in range(2 if next(iter(benches.values())).small else rounds):
        for device, bench in benches.items():
            times[device].append(bench.batch_ms(results[device].case.sides["magpie"], counts[device]))
    for device, result in results.items():
        result.ms["magpie"] = statistics.median(times[device])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="kernel", help=f"{', '.join(CASES)}; left out: {', '.join(NAMES)}")
    parser.add_argument("--devices", nargs="+", default=["cuda", "vulkan"])
    parser.add_argument("--small", action="store_true", help="sizes for a device that is not fast")
    options = parser.parse_args()
    unknown = set(options.names) - set(CASES)
    if unknown:
        parser.error(f"no kernel is called {', '.join(sorted(unknown))}")
    benches = {name: Bench(name, options.small, others=False) for name in options.devices}
    for name, bench in benches.items():
        print(f"{name}: {bench.device.name}, {bench.device.arch}")
    first = options.devices[0]
    print(f"magpie {mp.__version__}\n\n{'kernel':12}{'size':16}{'device':12}{'ms':>10}  {'rate':16}of {first}")
    for name in options.names or NAMES:
        results = compare(name, benches)
        for device, result in results.items():
            share = results[first].ms["magpie"] / result.ms["magpie"]
            row = f"{name:12}{result.case.size:16}{device:12}{result.ms['magpie']:10.4f}"
            print(f"{row}  {result.rate('magpie'):16}{share:6.3f}", flush=True)
        del results


if __name__ == "__main__":
    main()
