"""Subgroup reductions and scans in the orders that every backend keeps (RULES 10).

Lanes stand in a matrix, one row a subgroup, with the active ones compacted to the left in lane order; ``count`` is how
many there are in each row. The row length is a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes, scalar
from magpie.dtypes import DType

__all__ = ["identity", "reduce_rows", "scan_rows"]


def identity(kind: str, type_: DType) -> Lanes:
    """The value that changes nothing under ``kind``; of a float sum that is -0.0, since x + -0.0 is x, also for -0."""
    if kind == "add":
        return scalar(type_, -0.0 if type_.is_float else 0)
    if kind == "mul":
        return scalar(type_, 1)
    if kind in ("min", "max"):
        if type_.is_float:
            return scalar(type_, math.inf if kind == "min" else -math.inf)
        return scalar(type_, type_.max if kind == "min" else type_.min)
    if kind == "and":
        return scalar(type_, True if type_.is_bool else (-1 if type_.kind == "int" else type_.max))
    return scalar(type_, 0)  # or, xor


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
