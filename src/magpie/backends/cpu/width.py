"""How many lanes a gang has, and how masks are held."""

from __future__ import annotations

from magpie.backends.cpu.lane_shapes import Shapes
from magpie.backends.llvm.codegen import HostTarget
from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, walk

__all__ = ["choose_width", "hot_bits", "mask_bits"]


def hot_bits(kernel: Kernel) -> int:
    """Bits of the widest type that values of lanes commonly have: floats and declared integers, not indices."""
    bits = 8
    for node in walk(kernel.body):
        t = node.type
        if isinstance(t, DType) and t.name != "index" and not t.is_bool and node.op not in ("const", "param"):
            bits = max(bits, 32 if t.is_float and t.bits == 16 else t.bits)
    return bits


def mask_bits(kernel: Kernel, shapes: Shapes, target: HostTarget) -> int:
    """Element width of masks across blocks: 1 with mask registers."""
    if target.has_avx512:
        return 1
    return max(8, hot_bits(kernel))


def choose_width(kernel: Kernel, target: HostTarget) -> int:
    """Lanes of a gang. A divergent loop hides its latencies with several vectors in flight; straight code wants few."""
    bits = hot_bits(kernel)
    native = target.vector_bits // max(bits, 32 if bits < 32 else bits)
    loops = any(n.op == "loop" for n in walk(kernel.body))
    factor = 4 if target.has_avx512 else 2
    width = native * (factor if loops else 2)
    if kernel.workgroup is not None:
        items = kernel.workgroup[0]
        while width > 4 and items < width:
            width //= 2
    return max(4, min(64, width))
