"""Values of 8 and 16 bits that a target lacks, in 32: integers wrapped after each op, floats rounded (RULES 19, 21).

What lies in buffers keeps its size; arrays that no host sees are widened where the target has no such integers either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from magpie.dtypes import DType, StructField, StructType, Type, f16, f32, f64, i32, leaves, u16, u32
from magpie.ir.nodes import (
    Array,
    Buffer,
    ConstArray,
    Function,
    Kernel,
    LocalArray,
    Node,
    Param,
    Scalar,
    SharedArray,
    Slot,
    ValueType,
    walk,
)
from magpie.passes.inline import inline_calls
from magpie.passes.legalise.calc import Calc
from magpie.passes.legalise.halves import (
    bits_to_half,
    half_to_bits,
    integer_to_float,
    nearest_half,
    odd_float,
    sum_to_odd,
)
from magpie.passes.legalise.target import Target
from magpie.passes.lower_tiles import LOWERED
from magpie.passes.math_library import library_code
from magpie.passes.rewrite import Rewriter

__all__ = ["widen_small_types"]

A = TypeVar("A", bound=Array)

#: Ops on native f16; all others go through f32.
_NATIVE_HALF = frozenset(["add", "sub", "mul", "neg", "abs"])
_COMPARE = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
# The result has no more bits than the operands.
_EXACT_INT = frozenset(["and", "or", "xor", "min", "max", "mod", "trem", "uniform", "shr"])
_EXACT_FLOAT = frozenset(
    ["neg", "abs", "min", "max", "minimum", "maximum", "floor", "ceil", "trunc", "round", "copysign", "uniform"]
)
_MOVES = frozenset(
    ["subgroup_shuffle", "subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down", "subgroup_broadcast"]
)


def widen_small_types(kernel: Kernel, target: Target) -> Kernel:
    """``kernel`` without values of types of 8 and 16 bits that the target lacks, but for those at the edges."""
    types = {n.type for n in walk(kernel.body)} | {leaf for a in _arrays(kernel) for _, leaf, _ in leaves(a.type)}
    types |= {leaf for s in kernel.scalars for _, leaf, _ in leaves(s.type)}
    if not any(
        isinstance(t, DType) and ((t.is_float and t.bits == 16) or not target.has(t)) and t.bits < 32 for t in types
    ):
        return kernel
    return _Widening(kernel, target).result()


def _arrays(kernel: Kernel) -> list[Array]:
    return [*kernel.buffers, *kernel.shared, *kernel.locals, *kernel.consts]


class _Widening(Rewriter):
    def __init__(self, kernel: Kernel, target: Target) -> None:
        super().__init__()
        self.target = target
        self.source = kernel
        self.functions: dict[Function, None] = {}
        pinned: set[Array] = set()
        for node in walk(kernel.body):
            slot = node.attrs.get("slot")
            if slot is not None and slot.type is not self.held(slot.type) and slot not in self.slots:
                self.slots[slot] = Slot(slot.name, self.held(slot.type))
            if node.op in LOWERED:  # what is left of these is a matrix unit's, which reads and writes memory itself
                pinned |= {node.attrs[k] for k in ("array", "target") if k in node.attrs}
        for array in _arrays(kernel):
            if array not in pinned:
                self.widen(array)

    def result(self) -> Kernel:
        """The kernel with all that was replaced."""
        kernel = self.source
        params: list[Param] = []
        for p in kernel.params:
            params.append(Scalar(p.name, self.raw(p.type), p.loc) if isinstance(p, Scalar) else self.mapped(p))
        body = self.region(kernel.body)
        return inline_calls(
            replace(
                kernel,
                body=body,
                functions=list(self.functions),
                params=params,
                shared=[self.mapped(a) for a in kernel.shared],
                locals=[self.mapped(a) for a in kernel.locals],
                consts=[self.mapped(a) for a in kernel.consts],
            )
        )

    def mapped(self, array: A) -> A:
        """What stands for an array, which is one of its kind."""
        return cast(A, self.arrays.get(array, array))

    # --- types ---------------------------------------------------------------------------------------------------
    def held(self, t: Type) -> Type:
        """The type in which a value of ``t`` is held."""
        if not isinstance(t, DType) or self.target.has(t) or t.bits > 16:
            return t
        return f32 if t.is_float else i32 if t.kind == "int" else u32

    def raw(self, t: Type) -> Type:
        """The type of the same size that memory of ``t`` has."""
        if isinstance(t, StructType):
            fields = tuple(StructField(f.name, self.raw(f.type), f.offset) for f in t.fields)
            same = all(a.type is b.type for a, b in zip(fields, t.fields, strict=True))
            return t if same else StructType(t.name, fields, t.itemsize, t.align)
        return u16 if self.lost(t) else t

    def lost(self, t: DType) -> bool:
        """Whether ``t`` is a float that is held as f32."""
        return t.is_float and self.held(t) is not t

    def widen(self, array: Array) -> None:
        if isinstance(array, Buffer):
            raw = self.raw(array.type)
            if raw is not array.type:
                self.arrays[array] = Buffer(array.name, raw, array.rank, array.access, array.loc)
            return
        held = self.held(array.type)
        if held is array.type:
            return
        if isinstance(array, SharedArray):
            kept = u16 if self.lost(array.type) and self.target.i16 else held  # type: ignore[arg-type]
            self.arrays[array] = SharedArray(array.name, kept, array.shape, array.loc)
        elif isinstance(array, LocalArray):
            self.arrays[array] = LocalArray(array.name, held, array.shape, array.loc)
        elif isinstance(array, ConstArray):
            assert isinstance(held, DType)
            self.arrays[array] = ConstArray(array.name, held, array.shape, array.values, array.loc)

    # --- nodes ---------------------------------------------------------------------------------------------------
    def visit(self, node: Node) -> None:
        kinds = [n.type for n in (node, *node.args)]
        if not any(isinstance(t, DType) and t.bits <= 16 and not t.is_bool for t in kinds) or node.op in ("if", "loop"):
            super().visit(node)
            return
        self.out.loc = node.loc
        c = Calc(self.out, node)
        c.strict = c.strict or self.source.fastmath  # rounding to 16 bits is made of rounding errors
        found = self.lowered(c, node)
        if found is not None:
            self.values[node] = found

    def lowered(self, c: Calc, node: Node) -> Node | None:
        op, t = node.op, node.type
        args = [self.value(a) for a in node.args]
        if op == "cast":
            return self.cast(c, args[0], node.args[0].dtype, node.dtype)
        if op == "bitcast":
            return self.bitcast(c, args[0], node.args[0].dtype, node.dtype)
        if op in ("slot_get", "slot_set", "select", "const") or op in _MOVES:
            return self.copy(node, args, self.held(t) if isinstance(t, DType) else t)
        if op in ("load", "param", "atomic_load"):
            return self.entering(c, node, args)
        if op in ("atomic_rmw", "atomic_cas"):
            return self.atomic(c, node, args)
        if t is None:
            return self.leaving(c, node, args)
        if op in ("subgroup_reduce", "subgroup_scan"):
            return self.across(c, node, args)
        first = node.args[0].dtype
        return self.half(c, node, args, first) if first.is_float else self.integer(c, node, args, first)

    def copy(self, node: Node, args: list[Node], t: ValueType | None) -> Node:
        attrs = {k: self.attr(v) for k, v in node.attrs.items()}
        new = Node(node.op, tuple(args), t, attrs, (), node.loc)
        self.out.region.append(new)
        return new

    # --- edges ---------------------------------------------------------------------------------------------------
    def entering(self, c: Calc, node: Node, args: list[Node]) -> Node:
        """What a load or a parameter gives, widened."""
        t = node.dtype
        array = node.attrs.get("array")
        found = self.leaf(self.attr(array), node) if array is not None else self.raw(t)
        assert isinstance(found, DType)
        return self.widened(c, self.copy(node, args, found), t)

    @staticmethod
    def leaf(array: Array, node: Node) -> Type:
        t = array.type
        for position in node.attrs.get("field") or ():
            assert isinstance(t, StructType)
            t = t.fields[position].type
        return t

    def widened(self, c: Calc, value: Node, t: DType) -> Node:
        """A value of ``t``, or of its bits, as it is held."""
        held = self.held(t)
        assert isinstance(held, DType)
        if value.type is held:
            return value
        if self.lost(t):
            return bits_to_half(c, c.cast(c.bits(value, u16), u32), t)
        return c.cast(value, held)

    def edge(self, c: Calc, value: Node, t: DType, wanted: Type) -> Node:
        """A held ``t`` as memory of type ``wanted`` has it."""
        if value.type is wanted:
            return value
        assert isinstance(wanted, DType)
        if self.lost(t):
            return c.bits(c.cast(half_to_bits(c, value, t), u16), wanted)
        return c.cast(value, wanted)

    def leaving(self, c: Calc, node: Node, args: list[Node]) -> Node | None:
        """A store, a print, or whatever else takes a value and gives none."""
        array = node.attrs.get("array")
        for k, (old, new) in enumerate(zip(node.args, args, strict=True)):
            t = old.type
            if isinstance(t, DType) and t.bits <= 16 and not t.is_bool:
                index = array is not None and k < array.rank
                wanted: Type = t
                if array is not None and not index:
                    wanted = self.leaf(self.attr(array), node)
                args[k] = new if index else self.edge(c, new, t, wanted)
        self.copy(node, args, None)
        return None

    def atomic(self, c: Calc, node: Node, args: list[Node]) -> Node:
        array, t = node.attrs["array"], node.dtype
        wanted = self.attr(array).type
        for k in range(array.rank, len(args)):
            args[k] = self.edge(c, args[k], t, wanted)
        return self.widened(c, self.copy(node, args, wanted), t)

    def across(self, c: Calc, node: Node, args: list[Node]) -> Node:
        """A reduction or scan of integers by the target; the start of an exclusive one has to be of the narrow type."""
        t = node.dtype
        found = self.copy(node, args, args[0].type)
        if self.held(t) is t or t.is_float:
            return found
        if node.attrs["kind"] in ("min", "max") and node.attrs.get("exclusive"):
            return c(node.attrs["kind"], found, t.max if node.attrs["kind"] == "min" else t.min)
        return self.wrapped(c, found, t)

    # --- integers ------------------------------------------------------------------------------------------------
    def wrapped(self, c: Calc, value: Node, t: DType) -> Node:
        """32 bits as a value of ``t``, which is held in them."""
        if self.held(t) is t:
            return value
        if t.kind == "uint":
            return c("and", value, t.max)
        return c("shr", c("shl", value, 32 - t.bits), 32 - t.bits)

    def integer(self, c: Calc, node: Node, args: list[Node], t: DType) -> Node:
        op = node.op
        held = self.held(t)
        if held is t or op in _COMPARE:
            return self.copy(node, args, node.type if op in _COMPARE else t)
        assert isinstance(held, DType)
        if op in ("shl", "shr"):
            args[1] = c("and", args[1], t.bits - 1)
        if op in ("popcount", "clz", "ctz"):
            word = c("and", c.bits(args[0], u32), (1 << t.bits) - 1)
            if op == "ctz":
                word = c("or", word, 1 << t.bits)
            found = c(op, word)
            return c.bits(c("sub", found, 32 - t.bits) if op == "clz" else found, held)
        if op == "pow" and t.kind == "uint":  # a power of 32 bits has the same low ones
            return self.wrapped(c, c(op, *args), t)
        found = self.copy(node, args, held)
        return found if op in _EXACT_INT else self.wrapped(c, found, t)

    # --- floats --------------------------------------------------------------------------------------------------
    def half(self, c: Calc, node: Node, args: list[Node], t: DType) -> Node:
        op = node.op
        native = not self.lost(t)
        if t.bits != 16 or (native and (op in _NATIVE_HALF or op in _COMPARE)):
            return self.copy(node, args, node.type)
        wide = [self.to_float(c, a) if old.type is t else a for a, old in zip(args, node.args, strict=True)]
        if op == "fma":
            return self.fma(c, wide, t)
        result = node.type if node.type is not t else f32
        found = self.copy(node, wide, result)
        if result is not f32 or node.type is not t:
            return found
        if op in _EXACT_FLOAT:
            return self.rounded(c, found, t) if native else found
        return self.rounded(c, found, t)

    @staticmethod
    def to_float(c: Calc, value: Node) -> Node:
        return c.cast(value, f32)

    def rounded(self, c: Calc, value: Node, t: DType) -> Node:
        """An f32 as a value of ``t``, rounded once."""
        return nearest_half(c, value, t) if self.lost(t) else c.cast(value, t)

    def fma(self, c: Calc, args: list[Node], t: DType) -> Node:
        """The product of two halves is exact in twice their bits; the sum is rounded to odd and then once."""
        if t is f16:
            return self.rounded(c, sum_to_odd(c, c("mul", args[0], args[1]), args[2]), t)
        if not self.target.f64:
            function = library_code("math.fused", "fma_odd_f32", (f32,) * 3)
            self.functions[function] = None
            call = self.out.emit("call", *args, function=function)
            return self.rounded(c, self.out.emit("call_result", type=f32, call=call, index=0), t)
        x, y, z = (c.cast(a, f64) for a in args)
        return self.rounded(c, odd_float(c, sum_to_odd(c, c("mul", x, y), z)), t)

    # --- casts ---------------------------------------------------------------------------------------------------
    def cast(self, c: Calc, value: Node, source: DType, to: DType) -> Node:
        if to.is_bool or source.is_bool or not (to.is_float or source.is_float):
            held = self.held(to)
            assert isinstance(held, DType)
            found = c.cast(value, held)
            narrows = to.bits < source.bits or (to.bits == source.bits and to.kind != source.kind)
            narrows = narrows or (to.kind == "uint" and source.kind == "int")
            return self.wrapped(c, found, to) if narrows and not to.is_bool and not source.is_bool else found
        if source.is_float:
            wide = value if source.bits > 16 else self.to_float(c, value)
            if not to.is_float:
                return self.saturated(c, wide, to)
            if to.bits > 16:
                return c.cast(wide, to)
            return self.rounded(c, odd_float(c, wide) if wide.type is f64 else wide, to)
        if to.bits == 16:
            return self.rounded(c, integer_to_float(c, value, self.target.f64), to)
        return c.cast(value, to)

    def saturated(self, c: Calc, x: Node, to: DType) -> Node:
        """A float as an integer: saturated at 32 bits first, which saturates NaN, too."""
        held = self.held(to)
        if held is to:
            return c.cast(x, to)
        assert isinstance(held, DType)
        found = c("min", c.cast(x, held), to.max)
        return found if to.kind == "uint" else c("max", found, to.min)

    def bitcast(self, c: Calc, value: Node, source: DType, to: DType) -> Node:
        if self.lost(source):
            value = half_to_bits(c, value, source)
        if self.lost(to):
            word = c.cast(c.bits(value, u16), u32) if value.dtype.bits == 16 else c.bits(value)
            return bits_to_half(c, c("and", word, 0xFFFF), to)
        held = self.held(to)
        assert isinstance(held, DType)
        if held is not to:
            return self.wrapped(c, c.bits(value, held), to)
        return c.bits(c.cast(value, u16) if value.dtype.bits == 32 else value, to)
