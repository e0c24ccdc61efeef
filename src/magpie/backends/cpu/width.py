"""How many lanes a gang has, and how masks are held."""

from __future__ import annotations

from magpie.backends.cpu.lane_shapes import Shapes, analyse_shapes
from magpie.backends.cpu.regions import holds_barrier
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.llvm.codegen import HostTarget
from magpie.dtypes import DType, index
from magpie.ir.nodes import Buffer, Kernel, Node, walk
from magpie.ir.ops import ELEMENTARY, OPS
from magpie.passes.narrow_index import Ranges

__all__ = ["choose_width", "hot_bits", "mask_bits", "native_lanes", "short_rows", "tile_lanes"]

# Vector registers that values of a loop may take; some are left for what is computed in between.
_REGISTERS = {True: 30, False: 14}

# What a gang under a mask costs beside one of full lanes, and a loop with one vector in flight beside one with two.
_MASKED, _ALONE = 2.0, 1.35

_NOT_LANES = ("const", "param", "subgroup_ballot")


def hot_bits(kernel: Kernel) -> int:
    """Bits of the widest type that values of lanes commonly have: floats and declared integers, not indices."""
    bits = 8
    counts: set[Node] = set()  # what is made of indices alone, such as a trip count, whatever its type
    for node in walk(kernel.body):
        t = node.type
        whole = isinstance(t, DType) and t.is_int
        if t is index or node.op == "const" or (whole and OPS[node.op].pure and all(a in counts for a in node.args)):
            counts.add(node)
        elif isinstance(t, DType) and not t.is_bool and node.op not in _NOT_LANES:
            bits = max(bits, 32 if t.is_float and t.bits == 16 else t.bits)
    return bits


def native_lanes(kernel: Kernel, target: HostTarget) -> int:
    """Lanes of one vector register."""
    return target.vector_bits // max(32, hot_bits(kernel))


def tile_lanes(kernel: Kernel, target: HostTarget) -> int:
    """Lanes of a gang that has matrix tiles: one vector, so that a row of 16 elements is one vector or two."""
    bits = max((tile.held.bits for tile in kernel.tiles), default=32)
    return max(4, target.vector_bits // bits)


def mask_bits(kernel: Kernel, shapes: Shapes, target: HostTarget) -> int:
    """Element width of masks across blocks: 1 with mask registers."""
    if target.has_avx512:
        return 1
    return max(8, hot_bits(kernel))


def choose_width(kernel: Kernel, target: HostTarget, ranges: Ranges) -> int:
    """Lanes of a gang. A loop hides its latencies with several vectors in flight, as many as the registers hold.

    A loop around a barrier does not count: it is the workgroup's, and what lives in it lies in memory.
    """
    native = native_lanes(kernel, target)
    vectors, even = 2, False
    rows = any(n.op in ("thread_id", "global_id") and n.attrs["dim"] > 0 for n in walk(kernel.body))
    loops = [n for n in walk(kernel.body) if n.op == "loop" and not holds_barrier(n)]
    if loops and rows and target.has_avx512:  # teams of gangs keep more sums, and rows are often 16 or 32 long
        vectors = 1 if all(n.attrs.get("counted") is not None for n in loops) else 2
    elif loops and not rows:
        shapes = analyse_shapes(kernel, Layout(native * 2, True, kernel.known_workgroup), ranges)
        needed = max(_live(loop, shapes) for loop in loops)
        even = not any(loop in shapes.ragged for loop in loops)
        room = _REGISTERS[target.has_avx512] // (needed + 1)
        # One running sum: the more memory a trip touches in a row, the better for TLB and prefetcher, unless gangs of
        # a workgroup go on where this one ends: with AVX2, four vectors are 1.2 times as fast as eight in a layernorm.
        lined_up = any("ahead" in n.attrs for n in walk(kernel.body))
        vectors = 8 if needed <= 2 and not lined_up else 4 if room >= 4 else 2
    elif not loops and not target.has_avx512 and _scatters(kernel):
        vectors = 1  # one store a lane: in gangs of 16 a random scatter took 1.35 times as long as in gangs of 8
    width = max(4, min(64, native * vectors))
    size = kernel.known_workgroup
    if size is None:
        return width
    row = size[0] * size[1] * size[2] if short_rows(kernel, target) else size[0]
    return _fit(width, native, row, even)


def short_rows(kernel: Kernel, target: HostTarget) -> bool:
    """Whether rows are known to fill so little of a vector that lanes run on across them, though ids are no lines then.

    Measured with AVX2 and f32, 8 lanes: in a workgroup of (2, 32) a mandelbrot takes 0.19 ms in place of 0.73, a tile
    in shared memory 0.10 in place of 0.17, a product of matrices and a stencil as long as before. With rows of 4 all
    but the first lose.
    """
    size = kernel.known_workgroup
    return size is not None and size[1] * size[2] > 1 and 4 * size[0] <= native_lanes(kernel, target)


def _fit(width: int, native: int, row: int, even: bool) -> int:
    """The width of at most ``width`` lanes that covers ``row`` work-items at the least cost.

    The last gang of a row runs under a mask if lanes are left over. ``even``: all lanes leave their loops together, so
    that masks cost little beside what wide gangs gain. Measured at rows of 24, 33, 48, 100 and 1000 work-items.
    """
    fitting = [w for w in (64, 32, 16, 8, 4) if w <= width]
    if even:
        return next((w for w in fitting if w <= row), fitting[-1])

    def cost(w: int) -> float:
        gangs = row // w + (_MASKED if row % w else 0)
        return gangs * max(w, native) * (_ALONE if w <= native else 1)

    return min(fitting, key=cost)


def _scatters(kernel: Kernel) -> bool:
    """Whether lanes store to places that are loaded, and load from none that are."""
    loaded: set[Node] = set()
    found: dict[str, bool] = {"load": False, "store": False}
    for node in walk(kernel.body):
        array = node.attrs.get("array")
        if node.op in found and isinstance(array, Buffer):
            found[node.op] |= any(a in loaded for a in node.args[: array.rank])
        if (node.op == "load" and isinstance(array, Buffer)) or any(a in loaded for a in node.args):
            loaded.add(node)
    return found["store"] and not found["load"]


def _live(loop: Node, shapes: Shapes) -> int:
    """Vectors that a loop keeps: varying slots that it sets, varying values from outside, its mask."""
    inside = [n for r in loop.regions for n in walk(r)]
    own = set(inside)
    slots = {n.attrs["slot"] for n in inside if n.op in ("slot_get", "slot_set")}
    varying = sum(1 for s in slots if s in shapes.slots and shapes.slots[s].kind == 2)
    outside = {a for n in inside for a in n.args if a not in own and shapes.of(a).kind == 2}
    calls = any(n.op in ELEMENTARY for n in inside)  # of functions that need a dozen registers themselves
    return varying + len(outside) + (loop in shapes.ragged) + 12 * calls
