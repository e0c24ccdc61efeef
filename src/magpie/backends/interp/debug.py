"""assert, print and trap: they run for exactly the active work-items, in lane order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.context import Mask, StopLaunch, split
from magpie.ir.nodes import Node

__all__ = ["compile_assert", "compile_print", "compile_trap"]

Frame = list[Any]
Closure = Callable[[Frame, Mask], None]


def compile_assert(node: Node, cond: int) -> Closure:
    """Report the lanes where the operand is false, and go on."""
    message = str(node.attrs.get("message") or "")
    text = ("assertion failed" + (f": {message}" if message else "")).replace("{", "{{").replace("}", "}}")

    def check(r: Frame, m: Mask) -> None:
        _, failed = split(m, r[cond])
        if failed is not None:
            r[0].report("assert", node, r[0].active(failed), text + ", in {item}")

    return check


def compile_trap(node: Node) -> Closure:
    """End the launch."""
    message = str(node.attrs.get("message") or "trap").replace("{", "{{").replace("}", "}}")

    def trap(r: Frame, m: Mask) -> None:
        r[0].report("trap", node, r[0].active(m), message + ", in {item}")
        raise StopLaunch

    return trap


def _shown(value: Any) -> str:
    # str of a NumPy float is the shortest text that reads back in its own width
    return str(value)


def compile_print(node: Node, args: list[int]) -> Closure:
    """One line for each active lane: the pieces with the operands between them."""
    pieces = [str(p) for p in node.attrs["pieces"]]

    def print_(r: Frame, m: Mask) -> None:
        chunk = r[0]
        values = [np.broadcast_to(r[a], (chunk.size,)) for a in args]
        for lane in chunk.active(m).tolist():
            text = pieces[0]
            for value, piece in zip(values, pieces[1:], strict=False):
                text += _shown(value[lane]) + piece
            chunk.launch.prints.append(text)

    return print_
