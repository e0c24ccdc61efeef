"""Which accesses of a run lie side by side: the fields of an array of structures, the steps of an unrolled loop.

Accesses form a group if every work-item makes all of them or none, their addresses differ by constants, and nothing
between them could tell whether they happen one by one: the loads of a group may all be done at the first of them, the
stores at the last. `magpie.backends.cpu.strided` makes vector accesses of groups.
"""

from __future__ import annotations

from magpie.ir.nodes import Array, Buffer, Kernel, Node, Region, leaf_offset, walk
from magpie.ir.ops import OPS, Effect
from magpie.passes.index_sums import Form, Forms
from magpie.passes.narrow_index import Ranges

__all__ = ["Group", "find_groups"]

# Effects that neither touch memory nor change who is active.
_QUIET = (Effect.PURE, Effect.SLOT_READ, Effect.SLOT_WRITE, Effect.CROSS_LANE)


class Group:
    """Accesses in program order; ``offsets`` says how many bytes each is from the first."""

    __slots__ = ("array", "offsets")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.offsets: dict[Node, int] = {}


_Key = tuple[object, ...]


class _Finder:
    def __init__(self, kernel: Kernel, ranges: Ranges) -> None:
        self.kernel = kernel
        self.noalias = kernel.facts.noalias
        self.forms = Forms(ranges, kernel.facts.small)
        self.found: dict[Node, Group] = {}
        # of each open group, where its first access is
        self.loads: dict[_Key, tuple[Group, int]] = {}
        self.stores: dict[_Key, tuple[Group, int]] = {}

    def region(self, region: Region) -> None:
        self.close()
        for node in region:
            self.visit(node)
        self.close()

    def close(self) -> None:
        self.loads.clear()
        self.stores.clear()

    def visit(self, node: Node) -> None:
        op = node.op
        if op == "load":
            self.forms.visit(node)
            self.access(node, node.args, self.loads)
            self.close_aliases(self.stores, node.attrs["array"], None)
        elif op == "store":
            key = self.access(node, node.args[:-1], self.stores)
            self.close_aliases(self.loads, node.attrs["array"], None)
            self.close_aliases(self.stores, node.attrs["array"], key)
        elif node.regions:
            inside = [n for r in node.regions for n in walk(r)]
            loads, stores = dict(self.loads), dict(self.stores)
            for n in inside:
                if n.op == "slot_set":
                    self.forms.changed(n.attrs["slot"])
            for r in node.regions:
                self.region(r)
            for n in inside:
                if n.op == "slot_set":
                    self.forms.changed(n.attrs["slot"])
            effects = {OPS[n.op].effect for n in inside if n.op != "if"}
            if op == "if" and effects <= {*_QUIET, Effect.READ}:  # everybody comes out again
                self.loads = loads
                self.stores = stores if Effect.READ not in effects else {}
        elif OPS[op].effect in _QUIET:
            if op == "slot_set":
                self.forms.changed(node.attrs["slot"])
            else:
                self.forms.visit(node)
        else:
            if node.type is not None:
                self.forms.visit(node)
            self.close()

    def access(self, node: Node, indices: tuple[Node, ...], open_: dict[_Key, tuple[Group, int]]) -> _Key:
        """Add an access to the open group that it belongs to, or open one."""
        array = node.attrs["array"]
        if array.space == "local":  # whose lanes lie side by side already
            return ()
        t, leaf, size = leaf_offset(array, node.attrs.get("field"))
        terms, constant = self.place(array, indices)
        key = (array, t, terms)
        at = constant * size + leaf
        group, first = open_.get(key, (None, 0))
        if group is None or (node.op == "store" and at - first in group.offsets.values()):
            group, first = open_[key] = Group(array), at
        group.offsets[node] = at - first
        self.found[node] = group
        return key

    def place(self, array: Array, indices: tuple[Node, ...]) -> tuple[tuple[object, ...], int]:
        """What the element number is made of, and a constant, which counts elements."""
        constant = 0
        terms: list[object] = []
        for dim, node in enumerate(indices):
            form: Form = self.forms.form(node)
            stride = self.stride(array, dim)
            if stride is None:  # a constant times an unknown stride is no constant
                terms.append(form)
            else:
                terms.append((form[0], stride))
                constant += form[1] * stride
        return tuple(terms), constant

    def stride(self, array: Array, dim: int) -> int | None:
        """A stride in elements, if it is known here."""
        if isinstance(array, Buffer):
            last = dim == array.rank - 1 and array.name in self.kernel.facts.contiguous
            return 1 if last else None
        stride = 1
        for extent in getattr(array, "shape", ())[dim + 1 :]:
            if not isinstance(extent, int):
                return None
            stride *= extent
        return stride

    def close_aliases(self, open_: dict[_Key, tuple[Group, int]], array: Array, but: _Key | None) -> None:
        for key in [k for k, (g, _) in open_.items() if k != but and self.may_alias(g.array, array)]:
            del open_[key]

    def may_alias(self, a: Array, b: Array) -> bool:
        return a is b or (a.space == b.space == "buffer" and not self.noalias)


def find_groups(runs: list[Region], kernel: Kernel, ranges: Ranges) -> dict[Node, Group]:
    """The group of every load and store of ``runs``, whose nodes a gang executes one after the other."""
    finder = _Finder(kernel, ranges)
    for nodes in runs:
        finder.region(nodes)
    return finder.found
