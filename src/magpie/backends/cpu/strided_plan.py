"""How a group of strided accesses is done: the forms that there are, and what each costs.

Costs count instructions for one vector register of lanes, with loads, stores and shuffles as one each.
"""

from __future__ import annotations

from collections.abc import Collection

from magpie.backends.cpu.plain import plain

__all__ = ["Window", "choose_loads", "choose_stores", "guessed"]

# Lanes further apart than this many elements share no registers.
_MOST = 8
# Instructions that take every other element of two vectors, and that put two together so: a shuffle within 128 bits and
# one that crosses them. Permutations are two instructions on many processors, exchanges of halves are one.
_APART = 3
_TOGETHER = 2


@plain
class Window:
    """Elements ``start`` to ``start + extent`` of every lane, accessed together.

    block: the lanes' elements together are contiguous memory; whole vectors of it are permuted.  Otherwise every lane
    has a row of ``size`` elements, as long as a shuffle within 128 bits reaches, and the rows are transposed.
    """

    block: bool
    start: int
    extent: int
    size: int
    used: tuple[int, ...]  # which elements, from the start
    guess: bool = False  # lanes are ``size`` apart only if a test at run time says so


def choose_loads(offsets: Collection[int], stride: int | None, lanes: int, row: int) -> Window | None:
    """How to load offset 0 of a group together with others of ``offsets`` (in elements); None for a gather.

    ``stride`` is the distance of lanes in elements if known, ``lanes`` how many a vector register holds, and ``row``
    how many elements 128 bits. Nothing outside of the lowest and the highest element that a lane asks for may be read.
    """
    found: list[tuple[float, Window]] = []
    if stride is not None and 2 <= abs(stride) <= _MOST:
        start, used = _window(offsets, abs(stride))
        cost = abs(stride) + len(used) * _shuffles(abs(stride), _APART)
        found.append((cost, Window(True, start, used[-1] + 1, abs(stride), used)))
    start, used = _chunk(offsets, row)
    extent = used[-1] + 1
    if len(used) > 1 and (extent == row or (stride is not None and abs(stride) >= row - extent)):
        cost = lanes + min(row * _log2(row), len(used) * (row - 1))
        found.append((cost, Window(False, start, extent, row, used)))
    found = [(cost, w) for cost, w in found if cost < len(w.used) * (2 * lanes - 1)]
    return min(found, key=lambda f: f[0] / len(f[1].used))[1] if found else None


def choose_stores(offsets: Collection[int], stride: int | None, lanes: int, row: int) -> Window | None:
    """As `choose_loads`, but nothing may be written that a lane does not write, nor may lanes overlap."""
    found: list[tuple[float, Window]] = []
    if stride is not None and 2 <= abs(stride) <= _MOST:
        start, used = _window(offsets, abs(stride))
        if len(used) == abs(stride):
            cost = len(used) * (1 + _shuffles(len(used), _TOGETHER))
            found.append((cost, Window(True, start, len(used), len(used), used)))
    start, used = _chunk(offsets, row)
    if len(used) == row and row > 1 and (stride is None or abs(stride) >= row):
        found.append((lanes * 1.5 + row * _log2(row), Window(False, start, row, row, used)))
    found = [(cost, w) for cost, w in found if cost < len(w.used) * (2 * lanes - 1)]
    return min(found, key=lambda f: f[0] / len(f[1].used))[1] if found else None


def _log2(n: int) -> int:
    return n.bit_length() - 1


def guessed(offsets: Collection[int], row: int) -> Window | None:
    """A block for lanes whose distance only the launch knows, if ``offsets`` leave no gap around 0: the channels of
    ``image[y, x, c]`` are likely to be all there are. None where rows do as well."""
    low = high = 0
    while low - 1 in offsets:
        low -= 1
    while high + 1 in offsets:
        high += 1
    size = high - low + 1
    if size < 2 or size > _MOST or size % row == 0:
        return None
    return Window(True, low, size, size, tuple(range(size)), True)


def _shuffles(n: int, by_two: int) -> float:
    """Shuffles that one of ``n`` interleaved vectors takes: blends and a permutation for an odd factor, and ``by_two``
    for each factor of two."""
    twos = n & -n
    odd = n // twos
    return twos * ((odd - 1) * 0.5 + (odd > 1)) + (twos - 1) * by_two


def _window(offsets: Collection[int], size: int) -> tuple[int, tuple[int, ...]]:
    """The offsets in the stretch of ``size`` elements that holds 0, counted from the lowest offset."""
    low = min(offsets)
    at = low + (-low) // size * size
    used = sorted(o for o in offsets if at <= o < at + size)
    return used[0], tuple(o - used[0] for o in used)


def _chunk(offsets: Collection[int], size: int) -> tuple[int, tuple[int, ...]]:
    """The offsets in one stretch of at most ``size`` elements with 0, where stretches start as low as they can."""
    at, used = None, [0]
    for o in sorted(offsets):
        if at is None or o >= at + size:
            at, chunk = o, [o]
        else:
            chunk.append(o)
        if o == 0:
            used = chunk
    return used[0], tuple(o - used[0] for o in used)
