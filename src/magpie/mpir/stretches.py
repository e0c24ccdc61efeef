"""The stretches of a function's blocks: a `try` that may go to another block ends one, and another begins there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from magpie.mpir.nodes import Block, Function, Instr, targets

__all__ = ["Stretch", "Stretches"]

Stretch: TypeAlias = tuple[str, int]


class Stretches:
    """``graph`` is that of the stretches, ``count`` the number of a block's last one, and ``ways`` where a block goes
    on to another: the stretches, and the positions in the block behind which it does."""

    def __init__(self, function: Function) -> None:
        self.entry: Stretch = (function.blocks[0].label, 0)
        self.graph: dict[Stretch, list[Stretch]] = {}
        self.count: dict[str, int] = {}
        self.ways: dict[tuple[str, str], list[tuple[Stretch, int]]] = {}
        for block in function.blocks:
            number = 0
            for k, instr in enumerate(block.instrs):
                if instr.target:
                    here = (block.label, number)
                    number += 1
                    self.graph[here] = [(block.label, number), (instr.target, 0)]
                    self.ways.setdefault((block.label, instr.target), []).append((here, k))
            here = (block.label, number)
            self.count[block.label] = number
            self.graph[here] = [(label, 0) for label in targets(block.term)]
            for label in dict.fromkeys(targets(block.term)):
                self.ways.setdefault((block.label, label), []).append((here, len(block.instrs)))

    @staticmethod
    def instrs(block: Block) -> Iterator[tuple[Stretch, int, Instr]]:
        """The instructions of a block with their stretch and position."""
        number = 0
        for k, instr in enumerate(block.instrs):
            yield (block.label, number), k, instr
            number += bool(instr.target)
