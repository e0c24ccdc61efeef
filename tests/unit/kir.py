"""Kernels built node by node for tests: no frontend involved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from magpie.backends.interp.engine import Program
from magpie.diagnostics import Loc
from magpie.dtypes import DType, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Kernel, Node, Param


class Build(Builder):
    """A Builder with the words that tests use most."""

    def at(self, line: int) -> None:
        """Give the following nodes this line."""
        self.loc = Loc("kernel.py", line)

    def i(self, value: int) -> Node:
        """A constant index."""
        return self.const(value, index)

    def gid(self, dim: int = 0) -> Node:
        """Global id."""
        return self.emit("global_id", dim=dim)

    def tid(self, dim: int = 0) -> Node:
        """Thread id."""
        return self.emit("thread_id", dim=dim)

    def when(self, cond: Node, body: Callable[[], Any], other: Callable[[], Any] | None = None) -> None:
        """An if."""
        _, then, else_ = self.if_(cond)
        with self.into(then):
            body()
        if other:
            with self.into(else_):
                other()

    def forever(self, body: Callable[[], Any], step: Callable[[], Any] | None = None) -> None:
        """A loop."""
        _, inner, tail = self.loop()
        with self.into(inner):
            body()
        if step:
            with self.into(tail):
                step()


def kernel(params: Sequence[Param], body: Callable[[Build], Any], **fields: Any) -> Kernel:
    """A kernel with this body."""
    k = Kernel("k", list(params), **fields)
    body(Build(k.body))
    return k


def program(params: Sequence[Param], body: Callable[[Build], Any], **fields: Any) -> Program:
    """The kernel, ready to run on the interpreter."""
    return Program(kernel(params, body, **fields))


def arrays(types: Sequence[DType], rank: int = 1) -> list[Buffer]:
    """Buffers x, y, z, ... of these types."""
    return [Buffer(name, t, rank, "read_write") for name, t in zip("xyzwuv", types, strict=False)]
