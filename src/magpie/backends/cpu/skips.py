"""Jumps that only some work-items take between barriers become branches around what they skip.

A loop that holds a barrier is scaffold: one control flow for the whole workgroup (see `regions`). Behind the last
barrier of a trip a work-item may still `continue` on its own, and leave a function that was inlined as a loop of one
trip by `break`. What such a jump skips holds no barrier, or the kernel would have been refused, so a branch can stand
around it:

    barrier; if c { A; continue }; B    is    barrier; if c { A } else { B }

Where the jump is one of several ends of an arm, a flag says who took it.
"""

from __future__ import annotations

from dataclasses import replace

from magpie.backends.cpu.regions import holds_barrier
from magpie.dtypes import bool_
from magpie.ir.nodes import Kernel, Node, Region, Slot, walk
from magpie.passes.dce import drop_dead
from magpie.passes.exits import runs_once
from magpie.passes.rewrite import Rewriter
from magpie.passes.uniformity import Level, analyse

__all__ = ["branches_for_jumps"]


def branches_for_jumps(kernel: Kernel) -> Kernel:
    """``kernel`` without jumps of some work-items in loops that hold a barrier. Calls are inlined before."""
    jumps = [j for loop in walk(kernel.body) if loop.op == "loop" and holds_barrier(loop) for j in _jumps(loop)]
    if not jumps:
        return kernel
    uniformity = analyse(kernel)
    partial = set()
    for jump in jumps:
        conditions = [uniformity.level(a) for a in jump.args]
        if max(uniformity.control_level(jump), *conditions, Level.CONST) >= Level.SUBGROUP:
            partial.add(jump)
    if not partial:
        return kernel
    return drop_dead(replace(kernel, body=_Skips(partial).region(kernel.body)))


def _jumps(loop: Node) -> list[Node]:
    """What ends a trip of ``loop`` before its end: `continue`, or `break` out of a loop of one trip."""
    body = loop.regions[0]
    kinds = ("break", "break_if") if runs_once(loop) else ("continue",)
    return [n for n in walk(body, lambda m: m.op != "loop") if n.op in kinds and n is not body[-1]]


class _Skips(Rewriter):
    def __init__(self, partial: set[Node]) -> None:
        super().__init__({"loop": _loop})
        self.partial = partial
        self.flags: list[Slot] = []  # of the loops around; set where a jump was

    def holds(self, node: Node) -> bool:
        """Whether a jump that only some take stands inside an `if`."""
        inside = (n for region in node.regions for n in walk(region, lambda m: m.op != "loop"))
        return node.op == "if" and any(n in self.partial for n in inside)

    def rest(self, nodes: Region) -> None:
        """Append ``nodes``, the end of a region."""
        for k, node in enumerate(nodes):
            self.out.loc = node.loc
            if node in self.partial:
                self.jump(node, nodes[k + 1 :])
                return
            if self.holds(node):
                self.branch(node, nodes[k + 1 :])
                return
            self.visit(node)

    def jump(self, node: Node, following: Region) -> None:
        out, flag = self.out, self.flags[-1]
        if node.op != "break_if":
            out.set(flag, out.const(True, bool_))
            return
        taken = self.value(node.args[0])
        out.set(flag, taken)
        self.unless(taken, following)

    def branch(self, node: Node, following: Region) -> None:
        """An `if` that holds jumps, and what follows it."""
        ends = [bool(arm) and arm[-1] in self.partial and arm[-1].op != "break_if" for arm in node.regions]
        _, *arms = self.out.if_(self.value(node.args[0]))
        alone = sum(ends) == 1 and not any(self.holds(n) or n in self.partial for n in node.regions[ends.index(False)])
        for arm, nodes, jumps in zip(arms, node.regions, ends, strict=True):
            with self.out.into(arm):
                self.rest([*nodes, *following] if alone and not jumps else nodes)
        if not alone and following:
            self.unless(self.out.get(self.flags[-1]), following)

    def unless(self, taken: Node, following: Region) -> None:
        _, _, arm = self.out.if_(taken)
        with self.out.into(arm):
            self.rest(following)


def _loop(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Skips)
    body, step = node.regions
    if not any(n in rw.partial or rw.holds(n) for n in body):
        return rw.keep(node)
    rw.flags.append(Slot("skipped", bool_))
    new_body: Region = []
    once = runs_once(node)
    with rw.out.into(new_body):
        rw.out.set(rw.flags[-1], rw.out.const(False, bool_))
        rw.rest(body[:-1] if body[-1].op in ("break", "continue") else body)
        rw.out.loc = body[-1].loc
        if once:
            rw.out.emit("break")
    rw.flags.pop()
    args = tuple(rw.value(a) for a in node.args)
    attrs = {key: rw.attr(old) for key, old in node.attrs.items()}
    copy = Node(node.op, args, node.type, attrs, (new_body, rw.region(step)), node.loc)
    rw.out.region.append(copy)
    return copy
