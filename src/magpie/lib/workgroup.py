"""Operations among all work-items of a workgroup, on subgroup operations, shared memory and barriers.

`mp.workgroup.sum` and its like call these (`magpie.frontend.python.workgroups`). Every work-item of the workgroup gets
here, or none: the barriers see to it. Each function begins with a barrier, so that it may be called again, in a loop
too, while others still read what the call before left in shared memory.

`reduce` combines neighbours: 0 with 1, 2 with 3, then pairs of pairs, where an absent partner changes nothing.
Subgroups are runs of a power of two of work-items and combine in the same way, so that this is one tree over the
workgroup, and the result does not depend on the size of a subgroup. `scan` is Kogge-Stone within a subgroup, and again
over runs of subgroups, so its rounding does.
"""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from typing import Any

import magpie as mp

__all__ = ["broadcast", "reduce", "scan"]

# More subgroups no workgroup has: 1,024 work-items, and 4 in the smallest subgroup of any target.
_SUBGROUPS = 256


@mp.func
def combine(op: mp.constexpr, a, b) -> Any:
    """``a (op) b``."""
    if op == "add":
        return a + b
    if op == "mul":
        return a * b
    if op == "min":
        return min(a, b)
    if op == "max":
        return max(a, b)
    if op == "and":
        return a & b
    if op == "or":
        return a | b
    return a ^ b


@mp.func
def reduce(x, op: mp.constexpr, dtype: mp.constexpr, neutral: mp.constexpr) -> Any:
    """The reduction of ``x`` over the workgroup, read at a constant address: the same for all, also to the compiler.

    ``neutral`` changes no value of ``dtype`` under ``op``, not the sign of a zero either.
    """
    parts = mp.shared(_SUBGROUPS, dtype)
    lane = mp.subgroup.lane()
    size = mp.subgroup.size()
    part = mp.subgroup.reduce(x, op)
    mp.barrier()
    if lane == 0:
        parts[mp.subgroup.id()] = part
    mp.barrier()
    if mp.subgroup.id() == 0:
        # There is a second subgroup where this does anything, so the first one is full.
        n = mp.subgroup.count()
        while n > 1:
            base = 0
            count = 0
            while base < n:  # counts in steps of the subgroup's size: a range would divide by it
                # All lanes take part: sums of floats under a mask would move the lanes together first.
                own = mp.select(base + lane < n, parts[min(base + lane, n - 1)], neutral)
                part = mp.subgroup.reduce(own, op)
                mp.subgroup.barrier()
                if lane == 0:
                    parts[count] = part
                base += size
                count += 1
            mp.subgroup.barrier()
            n = count
    mp.barrier()
    return parts[0]


@mp.func
def scan(x, op: mp.constexpr, exclusive: mp.constexpr, dtype: mp.constexpr) -> Any:
    """The prefix reduction of ``x`` in the order of the work-items' linear numbers."""
    parts = mp.shared(_SUBGROUPS, dtype)
    lane = mp.subgroup.lane()
    size = mp.subgroup.size()
    own = mp.subgroup.id()
    last = mp.subgroup.count() - 1
    here = mp.subgroup.scan(x, op)
    mp.barrier()
    if lane == size - 1:
        parts[own] = here  # of full subgroups: nobody comes after a partial one
    mp.barrier()
    if own == 0:
        # parts[k] becomes the reduction of the subgroups up to k.
        base = 0
        while base < last:
            part = mp.subgroup.scan(parts[min(base + lane, last - 1)], op)  # no lane sees what those above it have
            if base > 0:
                part = combine(op, parts[base - 1], part)
            mp.subgroup.barrier()
            if base + lane < last:
                parts[base + lane] = part
            mp.subgroup.barrier()
            base += size
    mp.barrier()
    if exclusive:
        here = mp.subgroup.scan(x, op, exclusive=True)
    if own > 0:
        before = parts[own - 1]
        if exclusive and lane == 0:
            here = before
        else:
            here = combine(op, before, here)
    return here


@mp.func
def broadcast(x, item, dtype: mp.constexpr) -> Any:
    """The value of ``x`` in the work-item with the linear number ``item``."""
    place = mp.shared(1, dtype)
    mp.barrier()
    if item == mp.thread_id(0) + mp.workgroup_size(0) * (mp.thread_id(1) + mp.workgroup_size(1) * mp.thread_id(2)):
        place[0] = x
    mp.barrier()
    return place[0]
