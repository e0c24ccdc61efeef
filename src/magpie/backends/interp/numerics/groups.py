"""Subgroup reductions and scans in the orders that every backend keeps (RULES 10).

Lanes stand in a matrix, one row a subgroup, with the active ones compacted to the left in lane order; ``count`` is how
many there are in each row. The row length is a power of two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes

__all__ = ["reduce_rows", "scan_rows"]


def reduce_rows(fn: Callable[[Lanes, Lanes], Lanes], rows: Lanes, count: Lanes) -> Lanes:
    """One value a row: a binary tree over ranks, adjacent pairs first, absent partners skipped."""
    width = rows.shape[1]
    level = rows
    step = 1
    while step < width:
        left, right = level[:, 0::2], level[:, 1::2]
        partner = np.arange(step, width, 2 * step)
        level = np.where(partner[None, :] < count[:, None], fn(left, right), left)
        step *= 2
    return level[:, 0]


def scan_rows(fn: Callable[[Lanes, Lanes], Lanes], rows: Lanes) -> Lanes:
    """Inclusive Kogge-Stone scan along each row; entries past ``count`` are garbage that no active lane reads."""
    result = rows.copy()
    step = 1
    while step < rows.shape[1]:
        result[:, step:] = fn(result[:, :-step], result[:, step:])
        step *= 2
    return result
