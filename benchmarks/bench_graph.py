"""Tensor graphs on the cpu beside onnxruntime: medians of runs that take turns, and the largest difference.

    python benchmarks/bench_graph.py [THREADS]

Both sides get NumPy arrays and give some. `bench_graph.py 2 cnn` names models by a part of their name,
and `--kernels` shows what each kernel takes.
"""

from __future__ import annotations

import os
import sys

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
os.environ["MAGPIE_CPU_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from graph_models import MODELS  # noqa: E402
from timing import interleaved  # noqa: E402

from magpie.frontend.graph.onnx import import_model  # noqa: E402
from magpie.runtime.tensor_graph import TensorGraph  # noqa: E402


def main() -> None:
    wanted = [word for word in sys.argv[2:] if not word.startswith("-")]
    print(
        f"us, {THREADS} threads".ljust(26),
        *(f"{name:>14s}" for name in ("onnxruntime", "magpie", "ratio", "difference")),
    )
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
        times = interleaved(sides, rounds=101, warmup=10)
        ours, theirs = times["magpie"] * 1e6, times["onnxruntime"] * 1e6
        print(f"{name:26s} {theirs:14.1f} {ours:14.1f} {theirs / ours:14.2f} {difference:14.1e}")
        if "--kernels" in sys.argv:
            for item, (launcher, arguments) in zip(graph.kernels, graph._steps, strict=True):
                each = interleaved({"k": lambda f=launcher, a=arguments: f(*a)}, rounds=101, warmup=10)["k"] * 1e6
                steps = [s.op for s in (*item.op.prologue, *item.op.epilogue)]
                print(f"  {each:10.1f} {item.kernel.name:24s} {item.op.result.type:24s} {' '.join(steps)}")


if __name__ == "__main__":
    main()
