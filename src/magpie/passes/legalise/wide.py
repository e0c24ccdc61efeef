"""64-bit integers: what is proved to fit in 32 bits is an i32, and the rest two u32 where a target has no wider ones.

A value of 64 bits has one of three forms: an i32 that equals it (`magpie.passes.narrow_index` proves it), the node
itself on a target that has such integers, or a pair of words. Nearly all indices have the first one, so that nothing is
paid for `index` having 64 bits in meaning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from magpie.dtypes import DType, bool_, f32, f64, i32, u32, u64
from magpie.ir.nodes import Array, ConstArray, Function, Kernel, LocalArray, Node, SharedArray, Slot, walk
from magpie.passes.inline import inline_calls
from magpie.passes.legalise.calc import Calc
from magpie.passes.legalise.pairs import Pair, Pairs
from magpie.passes.legalise.target import LEAVES, Target
from magpie.passes.math_library import library_code
from magpie.passes.narrow_index import ranges
from magpie.passes.rewrite import Rewriter

__all__ = ["narrow_wide_types"]

# The low 32 bits of the result follow from those of the operands.
_RING = frozenset(["add", "sub", "mul", "neg", "and", "or", "xor", "not"])
# Computed in i32 where all operands fit.
_ORDER = frozenset(["min", "max", "floordiv", "mod", "tdiv", "trem", "abs"])
_COMPARE = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
_COUNT = frozenset(["popcount", "clz", "ctz"])
# Of what gives 64 bits, the ops that are kept, and taken apart.
_LEAVES = LEAVES | {"param", "subgroup_ballot"}


def narrow_wide_types(kernel: Kernel, target: Target, *, checked: bool = False) -> Kernel:
    """``kernel`` with i32 for what fits, and without 64-bit integers where the target has none. See the package."""
    if not any(is_wide(n.type) or any(is_wide(a.type) for a in n.args) for n in walk(kernel.body)):
        return kernel
    lowering = _Wide(kernel, target, checked)
    body = lowering.region(kernel.body)
    arrays = lowering.split
    return inline_calls(
        replace(
            kernel,
            body=body,
            functions=list(lowering.functions),
            shared=[part for a in kernel.shared for part in arrays.get(a, (a,))],
            locals=[part for a in kernel.locals for part in arrays.get(a, (a,))],
            consts=[part for a in kernel.consts for part in arrays.get(a, (a,))],
        )
    )


def is_wide(t: object) -> bool:
    """Whether this is a type of 64-bit integers."""
    return isinstance(t, DType) and t.is_int and t.bits == 64


class _Wide(Rewriter):
    def __init__(self, kernel: Kernel, target: Target, checked: bool) -> None:
        super().__init__()
        self.native = target.i64
        self.checked = checked
        self.known = ranges(kernel)
        self.small: dict[Node, Node] = {}  # as i32
        self.words: dict[Node, Pair] = {}
        self.functions: dict[Function, None] = {}
        self.slot_words: dict[Slot, tuple[Slot, Slot]] = {}
        self.split: dict[Array, tuple[Any, Any]] = {}
        for node in walk(kernel.body):
            slot = node.attrs.get("slot")
            if slot is not None and is_wide(slot.type) and self.known.slot_fits32(slot) and slot not in self.slots:
                self.slots[slot] = Slot(slot.name, i32)
        if not self.native:  # an atomic cannot be done in two parts
            whole = {n.attrs.get("array") for n in walk(kernel.body) if n.op not in ("load", "store")}
            for array in (*kernel.shared, *kernel.locals, *kernel.consts):
                if is_wide(array.type) and array not in whole:
                    self.split[array] = _in_words(array)

    # --- forms ---------------------------------------------------------------------------------------------------
    def calc(self, node: Node) -> Calc:
        self.out.loc = node.loc
        return Calc(self.out, node)

    def pairs(self, c: Calc) -> Pairs:
        def call(name: str, *words: Node) -> list[Node]:
            function = library_code("words", name, (u32,) * len(words))
            self.functions[function] = None
            made = self.out.emit("call", *words, function=function)
            return [self.out.emit("call_result", type=u32, call=made, index=k) for k in range(len(function.results))]

        return Pairs(c, call)

    def fits(self, node: Node) -> bool:
        return node in self.small or self.known.fits32(node)

    def low(self, c: Calc, node: Node) -> Node:
        """The low 32 bits of an operand of 64, as i32; equal to it where it fits."""
        found = self.small.get(node)
        if found is None:
            found = c.bits(self.words[node][0], i32) if node in self.words else c.cast(self.value(node), i32)
        return found

    def pair(self, c: Calc, node: Node) -> Pair:
        """An operand of 64 bits in two words."""
        found = self.words.get(node)
        if found is None:
            found = self.pairs(c).extended(self.small[node], negative=self.known.of(node)[0] < 0)
        return found

    def whole(self, c: Calc, node: Node) -> Node:
        """An operand of 64 bits as one value, for who needs that; of a pair, put together."""
        if not is_wide(node.type):
            return self.value(node)
        t = node.dtype
        if self.native:
            small = self.small.get(node)
            return self.value(node) if small is None else c.cast(small, t)
        low, high = self.pair(c, node)
        return c("or", c.cast(low, t), c("shl", c.cast(high, t), 32))

    # --- the walk ------------------------------------------------------------------------------------------------
    def visit(self, node: Node) -> None:
        if is_wide(node.type):
            self.result(node, self.calc(node))
        elif any(is_wide(a.type) for a in node.args) or node.attrs.get("counted") is not None:
            self.operand(node, self.calc(node))
        elif node.op == "slot_set" and is_wide(node.attrs["slot"].type):
            raise AssertionError("a slot of 64 bits is set to less")
        else:
            super().visit(node)

    def copy(self, node: Node, args: list[Node], t: Any, **changes: Any) -> Node:
        attrs = {k: self.attr(v) for k, v in node.attrs.items()} | changes
        new = Node(node.op, tuple(args), t, attrs, tuple(self.region(r) for r in node.regions), node.loc)
        self.out.region.append(new)
        return new

    # --- what gives 64 bits --------------------------------------------------------------------------------------
    def result(self, node: Node, c: Calc) -> None:
        small = self.as_small(node, c) if self.fits(node) or node.attrs.get("slot") in self.slots else None
        if small is not None:
            self.small[node] = small
        elif not self.native:
            self.words[node] = self.as_pair(node, c)
        else:
            self.values[node] = self.copy(node, self.operands(node, c), node.type)

    def operands(self, node: Node, c: Calc) -> list[Node]:
        """The operands as values of their types, but for indices."""
        return [self.index(c, a) if is_index(node, k) else self.whole(c, a) for k, a in enumerate(node.args)]

    def as_small(self, node: Node, c: Calc) -> Node | None:
        """The value as an i32, where that is cheap."""
        op, args = node.op, node.args
        if op == "const":
            return c.const(node.attrs["value"], i32)
        if op in _LEAVES:
            return c.cast(self.copy(node, [self.value(a) for a in args], node.type), i32)
        if op == "slot_get":
            return self.out.get(self.slots[node.attrs["slot"]])
        if op == "select":
            return c.select(self.value(args[0]), self.low(c, args[1]), self.low(c, args[2]))
        if op in ("cast", "bitcast"):
            source = args[0].dtype
            if is_wide(source):
                return self.low(c, args[0])
            return None if source.is_float else c.cast(self.value(args[0]), i32)
        if op == "uniform" or op.startswith("subgroup_"):
            if op in ("subgroup_reduce", "subgroup_scan"):
                return None
            return self.copy(node, [self.low(c, args[0]), *(self.index(c, a) for a in args[1:])], i32)
        if op in _RING:
            return c(op, *(self.low(c, a) for a in args))
        if op in _COUNT:
            return c.bits(self.pairs(c).count(op, self.split_native(c, args[0])), i32)
        if op in _ORDER and all(self.fits(a) for a in args):
            return c(op, *(self.low(c, a) for a in args))
        if op in ("shl", "shr"):
            low, high = self.known.of(args[1])
            if low >= 0 and high < 32 and (op == "shl" or self.fits(args[0])):
                return c(op, self.low(c, args[0]), self.low(c, args[1]))
            if op == "shr" and low >= 0 and high < 64 and self.fits(args[0]):
                return c(op, self.low(c, args[0]), c("min", self.low(c, args[1]), 31))
        return None

    def split_native(self, c: Calc, node: Node) -> Pair:
        """The two words of an operand, whatever its form."""
        if node in self.words or node in self.small:
            return self.pair(c, node)
        value = self.value(node)
        return c.cast(value, u32), c.cast(c("shr", value, 32), u32)

    def as_pair(self, node: Node, c: Calc) -> Pair:
        op, args, t = node.op, node.args, node.dtype
        p = self.pairs(c)
        if op == "const":
            return p.const(node.attrs["value"])
        if op in _LEAVES:
            leaf = self.copy(node, [self.value(a) for a in args], t)
            return c.cast(leaf, u32), c.cast(c("shr", leaf, 32), u32)
        if op == "slot_get":
            first, second = self.two_slots(node.attrs["slot"])
            return self.out.get(first), self.out.get(second)
        if op == "select":
            return p.select(self.value(args[0]), self.pair(c, args[1]), self.pair(c, args[2]))
        if op in ("cast", "bitcast"):
            return self.to_pair(node, c, p)
        if op == "uniform" or (op.startswith("subgroup_") and op not in ("subgroup_reduce", "subgroup_scan")):
            rest = [self.index(c, a) for a in args[1:]]
            low, high = (self.copy(node, [word, *rest], u32) for word in self.pair(c, args[0]))
            return low, high
        if op == "load" and node.attrs["array"] in self.split:
            where = [self.index(c, a) for a in args]
            low, high = (self.copy(node, where, u32, array=part) for part in self.split[node.attrs["array"]])
            return low, high
        if op in ("neg", "not", "abs"):
            a = self.pair(c, args[0])
            return p.neg(a) if op == "neg" else p.invert(a) if op == "not" else p.magnitude(t, a)
        if op in _COUNT:
            return p.extended(p.count(op, self.pair(c, args[0])))
        if op in ("shl", "shr"):
            count = c.bits(self.low(c, args[1]), u32)
            return p.shift(op, t, self.pair(c, args[0]), count)
        if node.info.pure and len(args) == 2 and all(is_wide(a.type) for a in args):
            return p.binary(op, t, self.pair(c, args[0]), self.pair(c, args[1]))
        # of memory and the like: no target without the type has it, but the value is taken apart as a leaf is
        whole = self.copy(node, self.operands(node, c), t)
        return c.cast(whole, u32), c.cast(c("shr", whole, 32), u32)

    def to_pair(self, node: Node, c: Calc, p: Pairs) -> Pair:
        x, t = node.args[0], node.dtype
        source = x.dtype
        if is_wide(source):
            return self.pair(c, x)
        value = self.value(x)
        if source.is_float:
            if node.op == "bitcast":
                whole = c.bits(value, u64)
                return c.cast(whole, u32), c.cast(c("shr", whole, 32), u32)
            return p.from_float(t, value)
        if source.is_bool:
            return c.flag(value, u32), c.const(0, u32)
        return p.extended(c.cast(value, i32 if source.kind == "int" else u32))

    def two_slots(self, slot: Slot) -> tuple[Slot, Slot]:
        found = self.slot_words.get(slot)
        if found is None:
            found = self.slot_words[slot] = (Slot(f"{slot.name}.low", u32), Slot(f"{slot.name}.high", u32))
        return found

    # --- what takes 64 bits --------------------------------------------------------------------------------------
    def operand(self, node: Node, c: Calc) -> None:
        found = self.taken(node, c)
        if found is not None:
            self.values[node] = found

    def taken(self, node: Node, c: Calc) -> Node | None:
        op, args = node.op, node.args
        if op == "loop":
            slot, trips = node.attrs["counted"]
            counted = None
            if slot in self.slots and self.fits(trips):
                counted = (self.slots[slot], self.low(c, trips))
            elif slot not in self.slots and self.native:
                counted = (slot, self.whole(c, trips))
            return self.copy(node, [], None, counted=counted)
        if op == "slot_set":
            self.set_slot(node, c)
            return None
        if op in _COMPARE:
            if all(self.fits(a) for a in args):
                return c(op, *(self.low(c, a) for a in args))
            if not self.native:
                return self.pairs(c).compare(op, args[0].dtype, self.pair(c, args[0]), self.pair(c, args[1]))
        if op in ("cast", "bitcast"):
            return self.narrowed(node, c)
        array = node.attrs.get("array")
        if array in self.split and op == "store":
            where = [self.index(c, a) for a in args[:-1]]
            for part, word in zip(self.split[array], self.pair(c, args[-1]), strict=True):
                self.copy(node, [*where, word], None, array=part)
            return None
        return self.copy(node, self.operands(node, c), node.type)

    def set_slot(self, node: Node, c: Calc) -> None:
        slot, value = node.attrs["slot"], node.args[0]
        if slot in self.slots:
            self.out.set(self.slots[slot], self.low(c, value))
        elif self.native:
            self.out.set(slot, self.whole(c, value))
        else:
            for part, word in zip(self.two_slots(slot), self.pair(c, value), strict=True):
                self.out.set(part, word)

    def narrowed(self, node: Node, c: Calc) -> Node:
        """A conversion of 64 bits to something else."""
        x, to = node.args[0], node.dtype
        source = x.dtype
        if node.op == "bitcast":
            return c.bits(self.whole(c, x), to)
        if to.is_int:
            return c.cast(self.low(c, x), to)
        if self.fits(x):
            return c.cast(self.low(c, x), to)
        if self.native:
            return c.cast(self.whole(c, x), to)
        low, high = self.pair(c, x)
        if to is bool_:
            return c("ne", c("or", low, high), 0)
        assert to in (f32, f64)
        return self.pairs(c).to_float(source, (low, high), to)

    def index(self, c: Calc, node: Node) -> Node:
        """An index of an access, or a lane."""
        if not is_wide(node.type):
            return self.value(node)
        if self.fits(node):
            return self.low(c, node)
        if self.native:
            return self.whole(c, node)
        low, high = self.pair(c, node)
        if not self.checked:
            return low
        word = c.bits(low, i32)
        return c.select(c("eq", c.bits(high, i32), c("shr", word, 31)), word, -1)


def is_index(node: Node, k: int) -> bool:
    """Whether operand ``k`` is an index of an access or a lane, of which a target takes any integer."""
    array = node.attrs.get("array")
    if array is not None:
        return (
            node.op not in ("load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store")
            or k < array.rank
        )
    return node.op.startswith("subgroup_") and k > 0


def _in_words(array: Array) -> tuple[Array, Array]:
    """An array of 64-bit integers as two of u32."""
    low, high = f"{array.name}.low", f"{array.name}.high"
    if isinstance(array, SharedArray):
        return SharedArray(low, u32, array.shape, array.loc), SharedArray(high, u32, array.shape, array.loc)
    if isinstance(array, LocalArray):
        return LocalArray(low, u32, array.shape, array.loc), LocalArray(high, u32, array.shape, array.loc)
    assert isinstance(array, ConstArray)
    parts = [tuple(v >> s & 0xFFFFFFFF for v in array.values) for s in (0, 32)]
    return (
        ConstArray(low, u32, array.shape, parts[0], array.loc),
        ConstArray(high, u32, array.shape, parts[1], array.loc),
    )
