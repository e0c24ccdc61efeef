"""Subgroup ops: a gang is a subgroup, so they are vector ops under the mask.

Reductions and scans follow RULES 10: a tree, and Kogge-Stone, over the ranks of the active lanes. Where an operation is
associative to the bit (integers, minimum, maximum) inactive lanes simply hold the identity; sums and products of floats
are compacted first. The identity of a float sum is -0.0, so that absent partners change nothing.
"""

from __future__ import annotations

from magpie.backends.cpu.checks import ChecksMixin
from magpie.backends.cpu.memory import Address
from magpie.backends.cpu.values import Mask, Value, ramp
from magpie.backends.llvm.emitter import constant, element, splat
from magpie.dtypes import DType
from magpie.ir.nodes import Node
from magpie.ir.ops import identity

__all__ = ["SubgroupMixin"]


def _identity(kind: str, t: DType, elem: str) -> str:
    """The neutral element as a literal."""
    value = identity(kind, t)
    return constant(value, elem) if t.is_float else str(value).lower()


class SubgroupMixin(ChecksMixin):
    """Cross-lane ops."""

    def uniform(self, node: Node) -> Value:
        """The operand of the first active lane, which the author says all have."""
        v = self.map[node.args[0]]
        if v.kind == 0:
            return v
        one = self.lane_value(v, self.first_lane(self.mask))
        if self.env.checked:
            self.check_same(node, v, one)
        return one

    def lane_value(self, v: Value, lane: str) -> Value:
        """The scalar in one lane."""
        c, w = self.c, self.w
        if v.elem == "i1":
            bits = self.masks.number(self.as_mask(v))
            at = lane if w == 64 or not lane.startswith("%") else c.op(f"trunc i64 {lane} to i{w}")
            return self.uni(c.op(f"trunc i{w} {c.op(f'lshr i{w} {bits}, {at}')} to i1"), "i1")
        text = self.lanes(v)
        if not lane.startswith("%"):
            return self.uni(c.op(f"extractelement <{w} x {v.elem}> {text}, i64 {lane}"), v.elem)
        return self.uni(self.spilled_lane(self.spill(text, v.elem), v.elem, lane), v.elem)

    def full_lanes(self, node: Node) -> tuple[str, str, DType]:
        """The operand as lanes of its own type, with the element: bools as bytes."""
        t = node.args[0].dtype
        elem = element(t)
        text = self.lanes(self.map[node.args[0]], elem)
        if t.is_bool:
            return self.c.op(f"zext {self.masks.i1_type} {text} to <{self.w} x i8>"), "i8", t
        return text, elem, t

    def combined_lanes(self, kind: str, t: DType, elem: str, a: str, b: str, width: int) -> str:
        """a (kind) b on vectors of ``width`` lanes."""
        from magpie.backends.llvm.elementwise import Ops

        ops = self.vector if width == self.w else Ops(self.c, width, native_half=self.env.target.has_f16c)
        if t.is_bool:
            name = {"add": "or", "max": "or", "min": "and", "mul": "and"}.get(kind, kind)
            return self.c.op(f"{name} {ops.v(elem)} {a}, {b}")
        return ops.emit(Node(kind, (), t), [a, b], t, elem)

    def loose(self, kind: str, t: DType) -> bool:
        """Whether the order of combination shows in the result."""
        return t.is_float and kind in ("add", "mul")

    def with_identity(self, kind: str, t: DType, elem: str, lanes: str) -> str:
        """Active lanes; the others hold the identity."""
        if self.mask is None:
            return lanes
        neutral = _identity(kind, t, elem)
        if t.is_bool:
            neutral = "1" if neutral == "true" else "0"
        if t.is_float and kind in ("min", "max"):
            neutral = constant(float("nan"), elem)  # loses against every number, and stays where all are NaN
        return self.vector.select(self.masks.i1(self.mask), elem, lanes, splat(neutral, elem, self.w))

    def compacted(self, kind: str, t: DType, elem: str, lanes: str) -> str:
        """Active lanes moved down in order, identities above them."""
        if self.mask is None:
            return lanes
        c, w = self.c, self.w
        neutral = splat(_identity(kind, t, elem), elem, w)
        memory, source = self.spill(neutral, elem), self.spill(lanes, elem)
        place = c.alloca("ptr")
        c.do(f"store ptr {memory}, ptr {place}")
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        x = self.spilled_lane(source, elem, lane)
        at = c.op(f"load ptr, ptr {place}")
        c.do(f"store {elem} {x}, ptr {at}")
        c.do(f"store ptr {c.op(f'getelementptr {elem}, ptr {at}, i64 1')}, ptr {place}")
        self.end_lane_loop(header, exit_, left, rest)
        return c.op(f"load <{w} x {elem}>, ptr {memory}, align 64")

    def subgroup_reduce(self, node: Node) -> Value:
        c, kind = self.c, node.attrs["kind"]
        lanes, elem, t = self.full_lanes(node)
        lanes = (
            self.compacted(kind, t, elem, lanes) if self.loose(kind, t) else self.with_identity(kind, t, elem, lanes)
        )
        width = self.w
        while width > 1:
            half = width // 2
            parts = []
            for first in (0, 1):
                order = ", ".join(f"i32 {k}" for k in range(first, width, 2))
                if half == 1:
                    parts.append(c.op(f"extractelement <{width} x {elem}> {lanes}, i64 {first}"))
                else:
                    parts.append(
                        c.op(
                            f"shufflevector <{width} x {elem}> {lanes}, <{width} x {elem}> poison, "
                            f"<{half} x i32> <{order}>"
                        )
                    )
            lanes = self.combined_lanes(kind, t, elem, parts[0], parts[1], half)
            width = half
        if t.is_bool:
            return self.uni(c.op(f"icmp ne i8 {lanes}, 0"), "i1")
        return self.uni(lanes, elem)

    def shifted(self, elem: str, lanes: str, by: int, fill: str) -> str:
        """Lane k gets lane k - by; the lowest ones ``fill``."""
        w = self.w
        order = ", ".join(f"i32 {k - by if k >= by else w + k}" for k in range(w))
        vt = f"<{w} x {elem}>"
        return self.c.op(f"shufflevector {vt} {lanes}, {vt} {splat(fill, elem, w)}, <{w} x i32> <{order}>")

    def subgroup_scan(self, node: Node) -> Value:
        c, w, kind = self.c, self.w, node.attrs["kind"]
        lanes, elem, t = self.full_lanes(node)
        packed = self.loose(kind, t) and self.mask is not None
        lanes = self.compacted(kind, t, elem, lanes) if packed else self.with_identity(kind, t, elem, lanes)
        neutral = _identity(kind, t, elem)
        if t.is_bool:
            neutral = "1" if neutral == "true" else "0"
        nan = constant(float("nan"), elem) if t.is_float and kind in ("min", "max") else neutral
        by = 1
        while by < w:
            below = self.shifted(elem, lanes, by, nan)
            sums = self.combined_lanes(kind, t, elem, below, lanes, w)
            keep = ", ".join(f"i1 {'true' if k >= by else 'false'}" for k in range(w))
            lanes = self.vector.select(f"<{keep}>", elem, sums, lanes)
            by *= 2
        if node.attrs.get("exclusive"):
            lanes = self.shifted(elem, lanes, 1, neutral)
            if not packed and self.mask is not None:  # the lowest active lane starts at the identity itself
                first = self.lowest_lane()
                lanes = self.vector.select(first, elem, splat(neutral, elem, w), lanes)
        if packed:
            lanes = self.spread_ranks(elem, lanes)
        if t.is_bool:
            return self.vec(c.op(f"icmp ne <{w} x i8> {lanes}, zeroinitializer"), "i1")
        return self.vec(lanes, elem)

    def spread_ranks(self, elem: str, lanes: str) -> str:
        """The inverse of `compacted`."""
        c, w = self.c, self.w
        source, memory = self.spill(lanes, elem), self.spill("zeroinitializer", elem)
        place = c.alloca("ptr")
        c.do(f"store ptr {source}, ptr {place}")
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        at = c.op(f"load ptr, ptr {place}")
        x = c.op(f"load {elem}, ptr {at}")
        c.do(f"store {elem} {x}, ptr {c.op(f'getelementptr {elem}, ptr {memory}, i64 {lane}')}")
        c.do(f"store ptr {c.op(f'getelementptr {elem}, ptr {at}, i64 1')}, ptr {place}")
        self.end_lane_loop(header, exit_, left, rest)
        return c.op(f"load <{w} x {elem}>, ptr {memory}, align 64")

    # --- shuffles ------------------------------------------------------------------------------------------------
    def subgroup_shuffle(self, node: Node) -> Value:
        """The value of another lane; own value where that is inactive or does not exist."""
        c, w = self.c, self.w
        own, elem, t = self.full_lanes(node)
        where = self.map[node.args[1]]
        index_type = node.args[1].dtype
        vt, vi = f"<{w} x {elem}>", f"<{w} x i32>"
        # saturate to i32, so that no far index looks like a near one
        if where.kind == 1 and where.elem == "i64" and self.env.ranges.fits32(node.args[1]):
            index = self.lanes(where, "i32")
        elif where.kind:
            wide = self.lanes(where)
            if int(where.elem[1:]) > 32:
                low, high = self.vector.lit(-(1 << 30), where.elem), self.vector.lit(1 << 30, where.elem)
                if index_type.kind == "int":
                    wide = self.vector.intrinsic("smax", where.elem, [wide, low])
                    wide = self.vector.intrinsic("smin", where.elem, [wide, high])
                else:
                    wide = self.vector.intrinsic("umin", where.elem, [wide, high])
                index = c.op(f"trunc <{w} x {where.elem}> {wide} to {vi}")
            elif where.elem == "i32":
                most = self.vector.lit(1 << 30, "i32")
                index = wide if index_type.kind == "int" else self.vector.intrinsic("umin", "i32", [wide, most])
            else:
                index = c.op(f"{'sext' if index_type.kind == 'int' else 'zext'} <{w} x {where.elem}> {wide} to {vi}")
        else:
            one = self.as_index(where, node.args[1]).text
            one = self.scalar.intrinsic("smin", "i64", [one, str(1 << 30)])
            one = self.scalar.intrinsic("smax", "i64", [one, str(-(1 << 30))])
            index = self.splat_in(c.at_block, c.op(f"trunc i64 {one} to i32"), "i32")
        lane = ramp("i32", 1, w)
        if node.op == "subgroup_shuffle_xor":
            index = c.op(f"xor {vi} {lane}, {index}")
        elif node.op == "subgroup_shuffle_up":
            index = c.op(f"sub {vi} {lane}, {index}")
        elif node.op == "subgroup_shuffle_down":
            index = c.op(f"add {vi} {lane}, {index}")
        valid = c.op(f"icmp ult {vi} {index}, {self.vector.lit(w, 'i32')}")
        safe = self.vector.select(valid, "i32", index, lane)
        taken = self.gather_all(self.stack_address(own, elem, t, safe), elem)
        if self.mask is not None:
            bits = c.op(f"sext {self.masks.i1_type} {self.masks.i1(self.mask)} to <{w} x i32>")
            on = self.gather_all(self.stack_address(bits, "i32", t, safe), "i32")
            active = c.op(f"icmp ne {vi} {on}, zeroinitializer")
            valid = c.op(f"and {self.masks.i1_type} {valid}, {active}")
        out = self.vector.select(valid, elem, taken, own)
        if t.is_bool:
            return self.vec(c.op(f"icmp ne {vt} {out}, zeroinitializer"), "i1")
        return self.vec(out, elem)

    def stack_address(self, lanes: str, elem: str, t: DType, index: str) -> Address:
        """Lanes in stack memory, to be read at lane numbers."""
        from magpie.dtypes import f32, f64, i8, i16, i32, i64

        size = {"i8": i8, "i16": i16, "i32": i32, "i64": i64, "float": f32, "double": f64}[elem]
        return Address(2, self.spill(lanes, elem, own=True), size, "", 0, index, "i32", size.itemsize, True)

    def subgroup_broadcast(self, node: Node) -> Value:
        c, w = self.c, self.w
        v, where = self.map[node.args[0]], self.map[node.args[1]]
        if v.kind == 0:
            return v
        if where.kind != 0:
            where = self.lane_value(where, self.first_lane(self.mask))
        lane = self.as_index(where, node.args[1]).text
        if lane.startswith("%"):
            lane = c.op(f"and i64 {lane}, {w - 1}")
        else:
            lane = str(int(lane) & (w - 1))
        return self.lane_value(v, lane)

    # --- votes ---------------------------------------------------------------------------------------------------
    def wanted(self, node: Node) -> Mask:
        """Active lanes whose operand is true."""
        m = self.as_mask(self.map[node.args[0]])
        return m if self.mask is None else self.masks.and_(self.mask, m)

    def subgroup_ballot(self, node: Node) -> Value:
        bits = self.masks.number(self.wanted(node))
        return self.uni(self.wide_number(bits), "i64")

    def subgroup_vote(self, node: Node) -> Value:
        if node.op == "subgroup_any":
            return self.uni(self.masks.any(self.wanted(node)), "i1")
        m = self.masks.not_(self.as_mask(self.map[node.args[0]]))
        against = m if self.mask is None else self.masks.and_(self.mask, m)
        return self.uni(self.c.op(f"xor i1 {self.masks.any(against)}, true"), "i1")

    def lowest_lane(self) -> str:
        """An i1 vector with the lowest active lane set."""
        c, w = self.c, self.w
        first = self.first_lane(self.mask)
        number = c.op(f"trunc i64 {first} to i32") if first.startswith("%") else first
        lane = self.splat_in(c.at_block, number, "i32")
        return c.op(f"icmp eq <{w} x i32> {ramp('i32', 1, w)}, {lane}")

    def subgroup_elect(self, node: Node) -> Value:
        return self.vec(self.lowest_lane(), "i1")
