"""Branches that a whole workgroup takes alike, on drivers where the empty lanes of a subgroup may think otherwise.

The last subgroup of a workgroup may have lanes without a work-item. They read nothing, so that what they branch on is
zero; a loop that is left because of what was read goes on for them alone, and on Mesa's CPU driver (22.3) its barriers
then wait for ever, and the work-items of that subgroup never come to what follows. There such a condition is asked of
the subgroup: those that are there agree, and the others get their answer.
"""

from __future__ import annotations

from dataclasses import replace

from magpie.ir.nodes import Kernel, Node, Slot, origins, walk
from magpie.passes.rewrite import Rewriter
from magpie.passes.uniformity import Level, Uniformity, analyse

__all__ = ["agree_on_branches"]


class _Agreement(Rewriter):
    def __init__(self, found: Uniformity, counters: set[Slot]) -> None:
        super().__init__({"if": _branch, "break_if": _branch})
        self.found = found
        self.counters = counters  # those of loops, which the empty lanes count as well

    def asks(self, node: Node) -> bool:
        """Whether all of a workgroup come to a branch and take it alike, as far as what they read goes."""
        if self.found.level(node.args[0]) > Level.WORKGROUP or self.found.reach(node)[0] > Level.WORKGROUP:
            return False
        return any(self.reads(n) for n in origins(node.args))

    def reads(self, node: Node) -> bool:
        if node.op == "slot_get":
            return node.attrs["slot"] not in self.counters
        return not node.info.pure


def _branch(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Agreement)
    condition = node.args[0]
    if rw.asks(node):
        before = rw.values.get(condition)
        rw.values[condition] = rw.out.emit("subgroup_any", rw.value(condition))
        rw.keep(node)
        if before is None:
            del rw.values[condition]
        else:
            rw.values[condition] = before
    else:
        rw.keep(node)
    return None


def agree_on_branches(kernel: Kernel) -> Kernel:
    """``kernel``, a prepared one, where loops with barriers are left as the subgroup agrees."""
    loops = [n for n in walk(kernel.body) if n.op == "loop"]
    if not any(inner.op == "barrier" for loop in loops for r in loop.regions for inner in walk(r)):
        return kernel
    counters = {loop.attrs["counted"][0] for loop in loops if loop.attrs.get("counted") is not None}
    return replace(kernel, body=_Agreement(analyse(kernel), counters).region(kernel.body))
