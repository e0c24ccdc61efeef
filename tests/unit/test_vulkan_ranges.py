"""Pieces of a block of memory: what is given out never overlaps, and what is given back is one piece again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magpie.runtime.drivers.vk.ranges import Ranges

UNIT = 256


def test_the_smallest_piece_that_fits_is_taken():
    ranges = Ranges(10 * UNIT, UNIT)
    places = [ranges.take(n * UNIT) for n in (2, 1, 3, 1, 1)]
    assert places == [0, 512, 768, 1536, 1792]
    ranges.give(0, 2 * UNIT)
    ranges.give(768, 3 * UNIT)
    assert ranges.take(3 * UNIT) == 768  # not the two at the end, nor the first two
    assert ranges.take(1) == 0
    assert ranges.take(3 * UNIT) is None


def test_sizes_are_rounded():
    ranges = Ranges(4 * UNIT + 17, UNIT)
    assert ranges.take(4 * UNIT + 1) is None
    assert [ranges.take(1) for _ in range(5)] == [0, 256, 512, 768, None]
    for n in (2, 0, 1, 3):
        ranges.give(n * UNIT, 1)
    assert ranges.empty and ranges.take(4 * UNIT) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9 * UNIT), st.integers(0, 1 << 16)), max_size=80))
def test_any_order_of_taking_and_giving(steps):
    size = 32 * UNIT
    ranges = Ranges(size, UNIT)
    taken = {}
    for take, nbytes, pick in steps:
        if take or not taken:
            at = ranges.take(nbytes)
            held = sum(-(-n // UNIT) * UNIT for n in taken.values())
            free = [n for n in _gaps(taken, size) if n >= -(-nbytes // UNIT) * UNIT]
            assert (at is None) == (not free)  # there is room exactly where a gap is large enough
            if at is not None:
                assert at % UNIT == 0 and at + nbytes <= size
                assert all(at + nbytes <= a or a + n <= at for a, n in taken.items())
                taken[at] = nbytes
                held += -(-nbytes // UNIT) * UNIT
            assert ranges.free == size - held
        else:
            at = sorted(taken)[pick % len(taken)]
            ranges.give(at, taken.pop(at))
    for at, nbytes in taken.items():
        ranges.give(at, nbytes)
    assert ranges.empty and ranges.free == size


def _gaps(taken, size):
    at, found = 0, []
    for start in sorted(taken):
        found.append(start - at)
        at = start + -(-taken[start] // UNIT) * UNIT
    return [*found, size - at]
