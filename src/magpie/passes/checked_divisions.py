"""Checked mode, where divisions are lowered before code is made: each integer division asks for its divisor first."""

from __future__ import annotations

from dataclasses import replace

from magpie.ir.nodes import Kernel, Node
from magpie.passes.rewrite import Rewriter

__all__ = ["check_divisions"]

_DIVISIONS = ("floordiv", "mod", "tdiv", "trem")


def _division(rw: Rewriter, node: Node) -> Node | None:
    divisor = rw.value(node.args[1])
    if node.checked and divisor.dtype.is_int and (divisor.op != "const" or divisor.attrs["value"] == 0):
        b = rw.out
        b.emit("assert", b.emit("ne", divisor, b.const(0, divisor.dtype)), message=None, kind="divide")
    return rw.keep(node)


def check_divisions(kernel: Kernel) -> Kernel:
    """``kernel``, a prepared one, with an `assert` of the kind ``divide`` before each integer division whose divisor
    may be 0."""
    return replace(kernel, body=Rewriter(dict.fromkeys(_DIVISIONS, _division)).region(kernel.body))
