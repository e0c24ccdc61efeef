"""Copies and graphs on a GPU: bandwidth of every kind of copy, and the host time of launches beside a graph of them.

    python benchmarks/gpu/copies.py [--small] [--device cuda]

Medians of several copies, each between two events of a stream, or by the host's clock where a copy is complete on
return. A second device of the same backend is used where there is one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import magpie as mp


@mp.kernel
def add_one(x: mp.Array[mp.f32]):
    i = mp.global_id(0)
    x[i] += 1.0


def queued(stream: mp.Stream, work: Callable[[], None], repeats: int) -> float:
    """Median seconds of work that is queued in a stream."""
    times = []
    for _ in range(repeats + 1):
        start = stream.record()
        work()
        end = stream.record()
        end.synchronize()
        times.append(end.elapsed_ms(start) * 1e-3)
    return statistics.median(times[1:])


def called(work: Callable[[], object], repeats: int) -> float:
    """Median seconds of calls."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def copies(device: mp.Device, small: bool) -> None:
    """Print the bandwidth of each kind of copy."""
    n, repeats = (1 << 16, 3) if small else (1 << 28, 7)
    here, stream = {"device": device}, mp.Stream(device)
    data = np.random.default_rng(1).random(n, np.float32)
    x, y = mp.asarray(data, **here), mp.zeros(n, mp.f32, **here)
    pinned = mp.asarray(data, memory="staging", **here)
    size = 4e-9 * n
    rows = [
        ("NumPy to device", called(lambda: x.__setitem__(..., data), repeats), size),
        ("device to NumPy", called(x.to_numpy, repeats), size),
        ("pinned to device", queued(stream, lambda: x.copy_from(pinned, stream=stream), repeats), size),
        ("device to pinned", queued(stream, lambda: pinned.copy_from(x, stream=stream), repeats), size),
        ("on the device, read and written", queued(stream, lambda: y.copy_from(x, stream=stream), repeats), 2 * size),
    ]
    others = [d for d in mp.devices() if d.backend == device.backend and d is not device]
    if others:
        far = mp.zeros(n, mp.f32, device=others[0])
        queue = mp.Stream(others[0])
        rows.append(("to another device", queued(queue, lambda: far.copy_from(x, stream=queue), repeats), size))
        assert np.array_equal(far.to_numpy(), data)
    assert np.array_equal(y.to_numpy(), data)
    for name, seconds, gigabytes in rows:
        print(f"  {name:<36}{gigabytes / seconds:10.1f} GB/s")


def graphs(device: mp.Device, steps: int = 100) -> None:
    """Print the host time, and the time on the device, of launches by themselves and as a graph."""
    x = mp.zeros(1 << 16, mp.f32, device=device)
    stream = mp.Stream(device)
    grid = (x.size // 256, 256)
    with mp.graph(device=device) as graph:
        for _ in range(steps):
            add_one[grid](x)

    def launches() -> None:
        for _ in range(steps):
            add_one[*grid, stream](x)

    works = {f"{steps} launches": launches, f"a graph of {steps}": lambda: graph.launch(stream=stream)}
    for name, work in works.items():
        work()
        host = []
        for _ in range(20):
            stream.synchronize()
            start = time.perf_counter()
            work()
            host.append(time.perf_counter() - start)
        stream.synchronize()
        total = queued(stream, work, 20)
        print(f"  {name:<36}{statistics.median(host) * 1e6:10.1f} us on the host{total * 1e6:10.1f} us in all")
    stream.synchronize()
    assert x.to_numpy().min() == x.to_numpy().max() == 2 * 42 * steps
    host_update = called(lambda: graph.nodes[0].update(x=x), 20)
    print(f"  {'updating a node':<36}{host_update * 1e6:10.1f} us on the host")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    device = mp.device(options.device)
    print(f"{device.name}, medians")
    copies(device, options.small)
    graphs(device)


if __name__ == "__main__":
    main()
