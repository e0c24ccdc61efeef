"""Leaving several loops at once, with what the IR has: a flag slot and one `break` per loop crossed (RULES 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from magpie.dtypes import bool_
from magpie.ir.builder import Builder
from magpie.ir.nodes import Node, Region, Slot, walk

__all__ = ["OpenLoop", "OpenLoops", "has_return", "jumps_out", "returns_to_breaks", "runs_once"]


def jumps_out(node: Node, kind: str) -> list[Node]:
    """The nodes inside ``node`` that leave it by ``kind``: `return`, or `continue` or `break` of the loop around it."""
    if kind != "return" and node.op == "loop":
        return []
    ops = ("break", "break_if") if kind == "break" else (kind,)
    enter = None if kind == "return" else lambda n: n.op != "loop"
    return [n for region in node.regions for n in walk(region, enter) if n.op in ops]


def runs_once(loop: Node) -> bool:
    """Whether a loop never begins a second trip, as that of an inlined function with early returns."""
    body = loop.regions[0]
    return bool(body) and body[-1].op in ("break", "return") and not any(jumps_out(n, "continue") for n in body)


def has_return(region: Region) -> bool:
    """Whether a `return` stands in ``region`` or inside it."""
    stack = [region]
    while stack:
        for node in stack.pop():
            if node.op == "return":
                return True
            stack.extend(node.regions)
    return False


def returns_to_breaks(region: Region, results: list[Slot]) -> Region:
    """``region`` as the body of a one-trip loop: each `return` sets ``results`` and breaks out of that loop.

    A return inside inner loops sets a flag first; behind each loop that holds one stands a `break_if` of the flag.
    """
    flag = Slot("returned", bool_)
    used = False

    def visit(nodes: Region, depth: int) -> Region:
        nonlocal used
        out = Builder([])
        for node in nodes:
            out.loc = node.loc
            if node.op == "return":
                for slot, value in zip(results, node.args, strict=True):
                    out.set(slot, value)
                if depth:
                    out.set(flag, out.const(True, bool_))
                    used = True
                out.emit("break")
                continue
            if not any(has_return(r) for r in node.regions):
                out.region.append(node)
                continue
            inner = depth + (node.op == "loop")
            regions = tuple(visit(r, inner) for r in node.regions)
            out.region.append(Node(node.op, node.args, node.type, node.attrs, regions, node.loc))
            if node.op == "loop":
                out.emit("break_if", out.get(flag))
        return out.region

    body = visit(region, 0)
    if used:
        head = Builder([], region[0].loc if region else None)
        head.set(flag, head.const(False, bool_))
        body = head.region + body
    return body


@dataclass(slots=True, eq=False)
class OpenLoop:
    """A loop that is being built. ``crossed`` holds the flags of what leaves it for a loop further out, with that loop
    and whether it goes on with that loop's next trip."""

    outside: Region
    body: Region = field(default_factory=list)
    step: Region = field(default_factory=list)
    left: Slot | None = None
    continued: Slot | None = None
    crossed: dict[Slot, tuple[OpenLoop, bool]] = field(default_factory=dict)


class OpenLoops:
    """The loops around the place where ``out`` appends, innermost last, and how to leave several of them at once.

    A flag is false at the start of what it may leave: in front of a loop that is left, or at the start of a trip.
    """

    def __init__(self, out: Builder) -> None:
        self.out = out
        self.stack: list[OpenLoop] = []

    def open(self) -> OpenLoop:
        """Begin a loop; what is appended next stands in its body."""
        loop = OpenLoop(self.out.region)
        self.stack.append(loop)
        self.out.region = loop.body
        return loop

    def leave(self, loop: OpenLoop) -> None:
        """Append a jump behind ``loop``."""
        self._jump(loop, False)

    def again(self, loop: OpenLoop) -> None:
        """Append a jump to the step of ``loop``."""
        self._jump(loop, True)

    def _jump(self, loop: OpenLoop, again: bool) -> None:
        out = self.out
        if loop is self.stack[-1]:
            out.emit("continue" if again else "break")
            return
        flag = loop.continued if again else loop.left
        if flag is None:
            flag = Slot("continued" if again else "left", bool_)
            if again:
                loop.continued = flag
            else:
                loop.left = flag
        for inner in self.stack[self.stack.index(loop) + 1 :]:
            inner.crossed[flag] = (loop, again)
        out.set(flag, out.const(True, bool_))
        out.emit("break")

    def close(self) -> Node:
        """End the innermost loop; what is appended next stands behind it, and behind the jumps that go on there."""
        loop = self.stack.pop()
        out = self.out
        if loop.continued is not None:
            out.region = []
            out.set(loop.continued, out.const(False, bool_))
            loop.body[:0] = out.region
        out.region = loop.outside
        if loop.left is not None:
            out.set(loop.left, out.const(False, bool_))
        node = out.emit("loop", regions=(loop.body, loop.step), counted=None)
        for flag, (target, again) in loop.crossed.items():
            if not again or target is not self.stack[-1]:
                out.emit("break_if", out.get(flag))
                continue
            _, then, _ = out.if_(out.get(flag))
            with out.into(then):
                out.emit("continue")
        return node
