"""Tensor graphs on the cpu beside onnxruntime: runs that take turns, medians and the least, and the largest difference.

    python benchmarks/bench_graph.py [THREADS]

Both sides get NumPy arrays and give some. `bench_graph.py 2 cnn` names models by a part of their name,
and `--kernels` shows what each kernel takes.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
os.environ["MAGPIE_CPU_THREADS"] = str(THREADS)
TURNS, RUNS = 20, 15

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from graph_models import MODELS  # noqa: E402
from timing import interleaved  # noqa: E402

from magpie.frontend.graph.onnx import import_model  # noqa: E402
from magpie.runtime.tensor_graph import TensorGraph  # noqa: E402


def measured(sides: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Median and least time of each side in us. The ratio is that of the least: other work only adds to a time.

    Sides take turns of some runs, with a pause before each: the threads of both look for work for a while when a run is
    over, and would take a core from the other side.
    """
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TURNS):
        for name, run in sides.items():
            time.sleep(0.03)
            for k in range(RUNS + 5):
                start = time.perf_counter()
                run()
                if k >= 5:
                    found[name].append((time.perf_counter() - start) * 1e6)
    return {name: (statistics.median(times), min(times)) for name, times in found.items()}


def main() -> None:
    wanted = [word for word in sys.argv[2:] if not word.startswith("-")]
    columns = f"{'onnxruntime':>12s} {'least':>9s} {'magpie':>12s} {'least':>9s} {'ratio':>9s} {'difference':>12s}"
    print(f"{f'us, {THREADS} threads':26s} {columns}")
    for name, make in MODELS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        model, inputs = make()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = THREADS
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        graph = TensorGraph(import_model(model)).compile("cpu")
        (want,), (got,) = session.run(None, inputs), graph.run(inputs).values()
        difference = float(np.abs(got - want).max() / np.abs(want).max())
        sides = {
            "onnxruntime": lambda s=session, x=inputs: s.run(None, x),
            "magpie": lambda g=graph, x=inputs: g.run(x),
        }
        (theirs, low), (ours, least) = measured(sides).values()
        print(f"{name:26s} {theirs:12.1f} {low:9.1f} {ours:12.1f} {least:9.1f} {low / least:9.2f} {difference:12.1e}")
        if "--kernels" in sys.argv:
            for item, (launcher, arguments) in zip(graph.kernels, graph._steps, strict=True):
                each = interleaved({"k": lambda f=launcher, a=arguments: f(*a)}, rounds=101, warmup=10)["k"] * 1e6
                steps = [s.op for s in (*item.op.prologue, *item.op.epilogue)]
                print(f"  {each:10.1f} {item.kernel.name:24s} {item.op.result.type:24s} {' '.join(steps)}")


if __name__ == "__main__":
    main()
