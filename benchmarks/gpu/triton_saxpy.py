"""saxpy in Triton; a file of its own, since Triton reads its kernels' source and is not everywhere."""

import triton
import triton.language as tl


@triton.jit
def saxpy(a, x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p = tl.load(x + at, mask=inside)
    q = tl.load(y + at, mask=inside)
    tl.store(y + at, a * p + q, mask=inside)
