"""Subgroup operations that SPIR-V has: votes, ballots, shuffles whose lane is there, reductions of integers.

`magpie.passes.legalise.subgroups` makes the others of these. Types are those that a device moves between lanes.
"""

from __future__ import annotations

from magpie.backends.spirv.reports import Reports
from magpie.dtypes import DType, u64
from magpie.ir.nodes import Node

__all__ = ["Subgroups"]

_REDUCTIONS = {
    "add": "IAdd",
    "mul": "IMul",
    "and": "BitwiseAnd",
    "or": "BitwiseOr",
    "xor": "BitwiseXor",
}
_VOTES = {"subgroup_any": "Any", "subgroup_all": "All", "subgroup_elect": "Elect"}
_SHUFFLES = {
    "subgroup_shuffle": "Shuffle",
    "subgroup_shuffle_xor": "ShuffleXor",
    "subgroup_shuffle_up": "ShuffleUp",
    "subgroup_shuffle_down": "ShuffleDown",
    "subgroup_broadcast": "Broadcast",
}


class Subgroups(Reports):
    """Emits cross-lane operations."""

    def subgroup(self, node: Node) -> None:
        op, t = node.op, node.type
        if op == "subgroup_barrier":
            self.subgroup_barrier()
        elif op == "subgroup_size":
            self.lows[node] = self.once(op, lambda: self.f.load(self.unit.input("SubgroupSize", scalar=True)))
        elif op in ("subgroup_ballot", "subgroup_ballot_word"):
            self.ballot(node)
        elif op in _VOTES:
            self.map[node] = self.across(_VOTES[op], self.bool, *(self.map[a] for a in node.args))
        else:
            assert isinstance(t, DType)
            value, kind = self.whole(node.args[0]), node.attrs.get("kind")
            if t.bits != 32 and not t.is_bool:
                self.unit.needs.add("subgroup_types")
            if kind is None:
                self.map[node] = self.across(_SHUFFLES[op], self.type(t), value, self.low(node.args[1]))
                return
            way = "Reduce"
            if op == "subgroup_scan":
                way = "ExclusiveScan" if node.attrs.get("exclusive") else "InclusiveScan"
            self.map[node] = self.across(_reduction(kind, t), self.type(t), way, value)

    def across(self, name: str, type_: int, *operands: int | str) -> int:
        """An instruction of a subgroup."""
        self.unit.needs.add("subgroups")
        return self.op(f"GroupNonUniform{name}", type_, "Subgroup", *operands)

    def ballot(self, node: Node) -> None:
        """The lanes whose operand is true. SPIR-V has four words for them, of which two are those of 64 lanes."""
        u = self.u32
        words = self.across("Ballot", self.module.type_vector(u, 4), self.map[node.args[0]])
        if node.op == "subgroup_ballot_word":
            self.map[node] = self.op("CompositeExtract", u, words, node.attrs["word"])
            return
        low, high = (self.op("CompositeExtract", u, words, k) for k in range(2))
        if self.has(u64) and not self.forms.low(node):
            self.map[node] = self.joined(low, high, u64)
        else:
            self.set_pair(node, low, high)

    def joined(self, low: int, high: int, t: DType) -> int:
        """Two halves as one value of 64 bits."""
        raise NotImplementedError

    def subgroup_barrier(self) -> None:
        raise NotImplementedError


def _reduction(kind: str, t: DType) -> str:
    if t.is_bool:
        return f"Logical{kind.capitalize()}"
    if kind in ("min", "max"):
        return f"{'S' if t.kind == 'int' else 'U'}{kind.capitalize()}"
    return _REDUCTIONS[kind]
