"""Subgroup ops: a gang is a subgroup, so they are vector ops under the mask (RULES 10)."""

from __future__ import annotations

from magpie.backends.cpu.gang import GangBase
from magpie.backends.cpu.values import Value
from magpie.ir.nodes import Node

__all__ = ["SubgroupMixin"]


class SubgroupMixin(GangBase):
    """Cross-lane ops."""

    def uniform(self, node: Node) -> Value:
        return self.map[node.args[0]]

    def subgroup_reduce(self, node: Node) -> Value:
        raise NotImplementedError(node.op)

    subgroup_scan = subgroup_shuffle = subgroup_broadcast = subgroup_ballot = subgroup_vote = subgroup_elect = subgroup_reduce
