"""tiny-gpu, from a kernel and from assembly: `python -m examples.tiny_gpu [FOLDER]`.

A matrix product is written in Python and launched on the simulator, which tells what it took; then rows are sorted by a
program in assembly, whose threads compare and exchange neighbours and wait for one another. With a folder, both are
written there as launch documents and as pages that step through them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import magpie as mp
from magpie.backends.tgpu.launch import Buffer, Kernel, Launch
from magpie.backends.tgpu.runner import run_launch
from magpie.backends.tgpu.view import show, simulate_for_view


@mp.kernel
def matmul_relu(a: mp.Array[mp.i8, 2], b: mp.Array[mp.i8, 2], c: mp.Array[mp.i32, 2]):
    i, j = mp.workgroup_id(0), mp.thread_id(0)
    acc = mp.i32(0)
    for k in range(a.shape[1]):
        acc += mp.i32(a[i, k]) * mp.i32(b[k, j])
    c[i, j] = max(acc, 0)


def product(rows: int = 4, inner: int = 8, columns: int = 6) -> tuple[Launch, dict[str, Any]]:
    """Launch the kernel; its document and inputs."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((rows, inner), (inner, columns)))
    c = np.zeros((rows, columns), np.int32)
    matmul_relu.launch(grid=rows, block=columns, args=(a, b, c), backend="tgpu")
    assert (c == np.maximum(a.astype(np.int32) @ b.astype(np.int32), 0)).all()
    launch, inputs = mp.device("tgpu").driver.last_launch()
    return launch, inputs


# A block sorts a row of 2 * N words with N threads: odd-even transposition (Knuth, The Art of Computer Programming,
# volume 3, 5.3.4). In even rounds thread t looks at the words 2t and 2t + 1, in odd ones at 2t + 1 and 2t + 2, the last
# thread at none. All of the block wait between two rounds.
SORT = """
    MUL R0, R7, 2            ; the word of this thread: the row begins at R5 * 2N
    ADD R1, R6, {last}       ; 0 for the last thread of the block
    SET R2, 0                ; round
L0:
    ADD R3, R0, 1
    CSWAP R0, R3
    SYNCB
    BEQ R1, 0, L1
    ADD R4, R0, 2
    CSWAP R3, R4
L1:
    SYNCB
    ADD R2, R2, 1
    CMP R2, {rounds}
    BRLT L0
    SET R2, 0                ; a branch never leads to the end
"""


def sorting(rows: int = 4, threads: int = 4) -> tuple[Launch, dict[str, Any]]:
    """The document of the sort, and a matrix to sort by rows."""
    width = 2 * threads
    x = Buffer(0, "i32", (rows, width), "input")
    code = SORT.format(last=1 - threads, rounds=threads)
    kernel = Kernel("sort", "x", "sort", (rows, threads), 0, code)
    launch = Launch("sort", 16, x.size, {"x": x}, ("x",), ("x",), (kernel,)).with_estimate()
    return launch, {"x": np.random.default_rng(1).integers(0, 100, (rows, width))}


def main(folder: str | None = None) -> None:
    """Run both, print what they took, and write the pages where a folder is named."""
    for launch, inputs in (product(), sorting()):
        run = run_launch(launch, inputs)
        print(f"{launch.name}: {run.cycles} cycles, {run.instructions} instructions: {run.kernels[0].opcodes}")
        print(f"  known before: {launch.estimate['total'] if launch.estimate else None}")
        if launch.name == "sort":
            assert (run.outputs["x"] == np.sort(inputs["x"], axis=1)).all()
            print(run.outputs["x"])
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            document, page = Path(folder) / f"{launch.name}.json", Path(folder) / f"{launch.name}.html"
            document.write_text(launch.dumps())
            show(simulate_for_view(launch, inputs), page)
            print(f"  {document}, {page}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
