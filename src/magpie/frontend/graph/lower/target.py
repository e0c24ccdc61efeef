"""What lowering asks of a target: how work-items lie on it, and what it is good at."""

from __future__ import annotations

from magpie.records import record

__all__ = ["Target"]


@record
class Target:
    """How kernels are laid out for a target.

    ``flat``: a result [M, N] is M workgroups of N work-items, one an element, and loops are all there is; memory
    is counted in words, and a graph becomes a launch document.
    ``staged``: on such a target, what the work-items of a workgroup all read goes through shared memory.
    ``rows``, ``columns`` and ``lanes``: a work-item of a product computes rows x columns elements, whose columns are
    ``lanes`` apart, and a workgroup has ``lanes`` work-items; 0 lanes: an element each.
    ``block``: a workgroup of block x block work-items computes a product through tiles in shared memory; 0: not.
    ``fused``: fma is one instruction. ``subgroup``: a workgroup of so many work-items is one subgroup; 0: not known.
    ``group``: work-items of a workgroup that has no other reason for its size.
    """

    flat: bool = False
    staged: bool = False
    rows: int = 1
    columns: int = 1
    lanes: int = 0
    block: int = 0
    fused: bool = False
    subgroup: int = 0
    group: int = 128
