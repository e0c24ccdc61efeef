"""Host time of a launch on Vulkan: into a stream, into a graph, and a graph of 1,000 launches in one submission.

    python benchmarks/bench_vulkan_launch.py [device ...]

Medians of 31 rounds, on every Vulkan device or on those that are named. A round records 64 launches of a saxpy of 64
elements into a stream that is idle, and waits for them outside of the time: as many as a stream takes without the
device having to keep up. `launch and wait` is one launch and `mp.synchronize`, the price of not queueing.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import magpie as mp
from magpie.runtime.dispatch import runtime

LAUNCHES = 1000
ROUND = 64
ROUNDS = 31


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def median(run: Callable[[], float]) -> float:
    """The median of what ``run`` gives."""
    for _ in range(3):
        run()
    return statistics.median(run() for _ in range(ROUNDS))


def measure(name: str) -> None:
    """Print the figures of one device."""
    device = mp.device(name)
    context = device.driver.context(device.index)
    x, y = mp.zeros(64, mp.f32, device=device), mp.zeros(64, mp.f32, device=device)
    stream = mp.Stream(device)
    launch, queued = saxpy[1, 64], saxpy[1, 64, stream]

    def one_round(call: Callable[..., None]) -> float:
        device.synchronize()
        start = time.perf_counter()
        for _ in range(ROUND):
            call(2.0, x, y)
        took = time.perf_counter() - start
        device.synchronize()
        return took / ROUND

    def recorded() -> float:
        graph = mp.graph(device)
        start = time.perf_counter()
        with graph:
            for _ in range(LAUNCHES):
                launch(2.0, x, y)
        return (time.perf_counter() - start) / LAUNCHES

    with mp.graph(device) as graph:
        for _ in range(LAUNCHES):
            launch(2.0, x, y)

    def replay() -> float:
        device.synchronize()
        start = time.perf_counter()
        graph.launch()
        took = time.perf_counter() - start
        device.synchronize()
        return took

    def complete() -> float:
        device.synchronize()
        start = time.perf_counter()
        graph.launch()
        device.synchronize()
        return (time.perf_counter() - start) / LAUNCHES

    def latency() -> float:
        start = time.perf_counter()
        launch(2.0, x, y)
        device.synchronize()
        return time.perf_counter() - start

    launch(2.0, x, y)
    device.synchronize()
    before = context.submissions
    graph.launch()
    submissions = context.submissions - before
    print(f"{device.id}: {device.name}")
    figures = {
        "launch into the default stream": median(lambda: one_round(launch)),
        "launch into a stream": median(lambda: one_round(queued)),
        "launch into a graph, recorded anew": median(recorded),
        "launch and wait": median(latency),
        f"a graph of {LAUNCHES} launches, on the host": median(replay),
        "each of its launches, until all are done": median(complete),
    }
    for what, seconds in figures.items():
        print(f"  {what:45s} {seconds * 1e6:10.2f} us")
    print(f"  submissions of a graph of {LAUNCHES} launches: {submissions}")


def main() -> None:
    """Measure the devices that are named, or all."""
    # (`mp.devices()` lists a GPU that CUDA reaches, too, as CUDA's)
    names = sys.argv[1:] or [d.id for d in runtime().of_backend("spv")]
    if not names:
        print("no Vulkan device here")
    for name in names:
        measure(name)


if __name__ == "__main__":
    main()
