"""Pointers as addresses: `malloc`, `free` and accesses through pointers on 64-bit integers.

For targets whose values are scalars and vectors of numbers. A null pointer is 0; a step of a pointer is arithmetic. Of
the heap's operations `malloc` (of type i64), `free`, `ptr_load` and `ptr_store` are left.
"""

from __future__ import annotations

from magpie.dtypes import i64, index
from magpie.ir.nodes import Kernel, Node, walk
from magpie.passes.rewrite import Rewriter

__all__ = ["pointers_as_addresses"]


def pointers_as_addresses(kernel: Kernel, *, checked: bool = False) -> Kernel:
    """``kernel`` without pointer values; itself where it has none.

    ``checked``: accesses get three more operands, by which they can be judged: the address that `malloc` gave, the
    element counted from there, and the number of elements that were asked for.
    """
    if not any(node.op == "malloc" for node in walk(kernel.body)):
        return kernel
    return _Addresses(checked).kernel(kernel)


class _Addresses(Rewriter):
    def __init__(self, checked: bool) -> None:
        super().__init__(
            {
                "malloc": self.malloc,
                "ptr_add": self.add,
                "ptr_valid": self.valid,
                "ptr_load": self.access,
                "ptr_store": self.access,
            }
        )
        self.checked = checked
        #: Of each pointer of the old kernel: what `malloc` gave, the element, and how many there are.
        self.places: dict[Node, tuple[Node, Node, Node]] = {}

    def malloc(self, _: Rewriter, node: Node) -> Node:
        count = self.out.cast(self.value(node.args[0]), index)
        found = self.out.emit("malloc", count, type=i64, dtype=node.attrs["dtype"])
        if self.checked:
            self.places[node] = found, self.out.const(0, index), count
        return found

    def add(self, _: Rewriter, node: Node) -> Node:
        pointer, by = node.args
        steps = self.out.cast(self.value(by), index)
        size = self.out.const(node.type.element.itemsize, i64)  # type: ignore[union-attr]  # a pointer, by the op table
        if self.checked:
            origin, at, count = self.places[pointer]
            self.places[node] = origin, self.out.emit("add", at, steps), count
        return self.out.emit("add", self.value(pointer), self.out.emit("mul", self.out.cast(steps, i64), size))

    def valid(self, _: Rewriter, node: Node) -> Node:
        return self.out.emit("ne", self.value(node.args[0]), self.out.const(0, i64))

    def access(self, _: Rewriter, node: Node) -> Node:
        args = (*map(self.value, node.args), *(self.places[node.args[0]] if self.checked and node.checked else ()))
        found = Node(node.op, args, node.type, dict(node.attrs), (), node.loc)
        self.out.region.append(found)
        return found
