"""A layer of a neural network, relu(x @ w + b), in one kernel: a product on matrix tiles, and the rest in its tail.

A subgroup multiplies a block of 16 rows by 64 columns. What work-items hold of it is the target's affair, so the sums
go through shared memory, where each work-item takes up elements of its own, adds the bias and rounds once.
"""

from __future__ import annotations

from typing import Any

import magpie as mp

__all__ = ["linear_relu"]

ROWS, COLS, STEP, ITEMS = 16, 64, 16, 64


@mp.kernel(workgroup=(ITEMS, 1, 1))
def layer(x, w, bias, out):
    sums = mp.shared((ROWS, COLS), mp.f32)
    i, j = mp.workgroup_id(1) * ROWS, mp.workgroup_id(0) * COLS
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((ROWS, COLS), mp.f32)
        for k in range(0, x.shape[1], STEP):
            a = mp.mma.load_a(x, (i, k), (ROWS, STEP), clip=True)
            b = mp.mma.load_b(w, (k, j), (STEP, COLS), clip=True)
            mp.mma(acc, a, b)
        mp.mma.store(acc, sums, (0, 0))
    mp.barrier()
    col = j + mp.thread_id(0)
    if col < out.shape[1]:
        for row in range(min(ROWS, out.shape[0] - i)):
            out[i + row, col] = max(sums[row, mp.thread_id(0)] + bias[col], 0.0).astype(out.dtype)


def linear_relu(x: Any, w: Any, bias: Any, out: Any, **where: Any) -> None:
    """out = relu(x @ w + bias) for x of (m, k), w of (k, n) and bias of n elements; ``where`` is as for a launch."""
    rows, cols = out.shape
    layer.launch(grid=(mp.cdiv(cols, COLS), mp.cdiv(rows, ROWS), 1), block=ITEMS, args=(x, w, bias, out), **where)
