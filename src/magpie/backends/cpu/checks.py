"""Checked mode, assert and print: what a gang reports into the record buffer (RULES 17)."""

from __future__ import annotations

from magpie.backends.cpu.memory import MemoryMixin
from magpie.ir.nodes import Node

__all__ = ["ChecksMixin"]


class ChecksMixin(MemoryMixin):
    """Reports."""

    def assert_(self, node: Node) -> None:
        raise NotImplementedError(node.op)

    print_ = assert_
