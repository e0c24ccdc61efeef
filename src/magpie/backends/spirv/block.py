"""The block of numbers that a launch hands to a kernel: scalars, extents, strides, and where arrays begin.

It is the push constants, or a uniform buffer where they do not fit. A kernel gets only what it uses. Members are words
of 32 bits: a number of 64 is two, of which often the low one is enough; narrower ones have a word each; a struct lies
there as it does in the host's memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from magpie.ir.layout import BufferField, KernelLayout, ScalarField
from magpie.ir.nodes import Buffer, Kernel, walk
from magpie.passes.coarsen import groups_name
from magpie.runtime.scalars import scalar_format

__all__ = ["GROUPS", "BlockPlan"]

#: Parameters of coarsened kernels: name -> the dimension whose number of workgroups each is.
GROUPS = {groups_name(dim): dim for dim in range(3)}


class BlockPlan:
    """The plan for the entries of a module. ``entries`` are (source, struct code, byte offset) as `info["block"]` has
    them; ``at`` is the offset of each."""

    def __init__(self, kernels: Sequence[Kernel], layout: KernelLayout, *, checked: bool) -> None:
        self.entries: list[tuple[tuple[str, int], str, int]] = []
        self.at: dict[tuple[Any, ...], int] = {}
        self.end = 0
        facts = kernels[0].facts
        buffers = kernels[0].buffers
        asked = set().union(*(_asked(kernel, checked) for kernel in kernels))
        number = 0
        plain = "i" if facts.small else "q"
        for p in layout.params:
            if isinstance(p, BufferField):
                for d in range(p.rank):
                    if ("extent", p.name, d) in asked:
                        self._add(("extent", p.name, d), ("word", number + 1 + d), plain)
                for d in range(p.rank):
                    if ("stride", p.name, d) in asked:
                        self._add(("stride", p.name, d), ("word", number + 1 + p.rank + d), "q")
                number += 1 + 2 * p.rank
            else:
                if ("param", p.name) in asked:
                    self._param(p, number)
                number += 1
        for k, b in enumerate(buffers):
            if ("offset", b.name) in asked:
                self._add(("offset", b.name), ("offset", k), "I")
        for name, dim in GROUPS.items():
            if ("param", name) in asked:
                self._add(("param", name), ("groups", dim), "I")

    @property
    def size(self) -> int:
        """Bytes, a multiple of 16."""
        return (self.end + 15) // 16 * 16

    def _add(self, key: tuple[Any, ...], source: tuple[str, int], code: str) -> None:
        size = struct.calcsize("<" + code)
        align = 8 if size % 8 == 0 else 4
        start = (self.end + align - 1) // align * align
        self.entries.append((source, code, start))
        self.at[key] = start
        self.end = (start + size + 3) // 4 * 4

    def _param(self, p: ScalarField, number: int) -> None:
        self._add(("param", p.name), ("word", number), scalar_format(p))
        start = self.at["param", p.name]
        for name, _, offset in p.leaves:
            self.at["param", name] = start + offset - p.offset


def _asked(kernel: Kernel, checked: bool) -> set[tuple[Any, ...]]:
    """The numbers that code reads, of those that a launch knows: those of arrays because they are asked for, or because
    places are computed with them."""
    asked: set[tuple[Any, ...]] = set()
    contiguous = kernel.facts.contiguous
    for node in walk(kernel.body):
        if node.op == "param":
            name: str = node.attrs["name"]
            asked |= {("param", name), ("param", name.partition(".")[0])}
        array = node.attrs.get("array")
        if not isinstance(array, Buffer):
            continue
        if node.op in ("extent", "stride"):
            dim = node.attrs["dim"]
            if node.op == "stride" and array.name in contiguous:
                asked |= {("extent", array.name, d) for d in range(dim + 1, array.rank)}
            else:
                asked.add((node.op, array.name, dim))
            continue
        asked.add(("offset", array.name))
        if array.name not in contiguous:
            asked |= {("stride", array.name, d) for d in range(array.rank)}
        else:
            asked |= {("extent", array.name, d) for d in range(1, array.rank)}
        if checked or node.attrs.get("clip"):
            asked |= {("extent", array.name, d) for d in range(array.rank)}
    return asked
