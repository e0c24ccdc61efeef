"""Subgroup operations as those that a shading language has: ballots, and shuffles whose lane must exist.

Reductions and scans of floats keep the orders of RULES 10: a tree, and Kogge-Stone, over the ranks of the active lanes.
With all lanes active a rank is a lane number, and lanes at a fixed distance exchange values; else each lane follows
links to the active lane after it (before it, for a scan), which double their reach at each step. A ballot decides
which of the two ways to go, unless all lanes are known to be active. Reductions of integers stay, where the target has
them: their order changes nothing.

A shuffle becomes one with the attribute ``there``: it asks only for lanes that are active, so what is out of range, or
inactive, gives a lane its own value as the op table says. Lane numbers follow from `linear_local_id`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from magpie.dtypes import DType, bool_, f32, i32, index, u32, u64
from magpie.ir.nodes import Kernel, Node, Region, Slot, walk
from magpie.ir.ops import identity
from magpie.passes.rewrite import Rewriter
from magpie.passes.uniformity import Level, analyse

__all__ = ["lower_subgroups"]

#: The widest subgroup that a ballot has room for, and what any subgroup divides.
_MOST = 64

_SHUFFLES = ("subgroup_shuffle", "subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down")


def lower_subgroups(kernel: Kernel, lanes: int | None, has: Callable[[DType], bool]) -> Kernel:
    """``kernel``, which has no calls, with its subgroup operations lowered for subgroups of ``lanes`` work-items (a
    power of two up to 64; None: the device has one of them, which `subgroup_size` tells).

    ``has`` says which types of values the target has (`magpie.passes.legalise.Target.has`). It moves these between
    lanes, and reduces those that are integers; others go as f32, as wider integers, or as words.
    """
    if not any(n.op.startswith("subgroup_") for n in walk(kernel.body)):
        return kernel
    lowering = _Lowering(kernel, lanes, has)
    body = lowering.region(kernel.body)
    return replace(kernel, body=lowering.prologue + body)


class _Lowering(Rewriter):
    def __init__(self, kernel: Kernel, lanes: int | None, has: Callable[[DType], bool]) -> None:
        super().__init__(
            {
                "subgroup_size": lambda rw, node: self.size(),
                "subgroup_lane": lambda rw, node: self.lane_index(),
                "subgroup_id": lambda rw, node: self.quotient(self.out.emit("linear_local_id")),
                "subgroup_count": lambda rw, node: self.count(),
                "subgroup_reduce": lambda rw, node: self.combined(node),
                "subgroup_scan": lambda rw, node: self.combined(node),
                "subgroup_broadcast": lambda rw, node: self.broadcast(node),
                **dict.fromkeys(_SHUFFLES, lambda rw, node: self.shuffle(node)),
            }
        )
        self.kernel_in = kernel
        self.lanes = lanes
        self.has = has
        self.uniformity = analyse(kernel, gang=lanes or 0)
        self.prologue: Region = []
        self._lane: Node | None = None
        self._size: Node | None = None

    # --- what a subgroup is --------------------------------------------------------------------------------------
    def size(self) -> Node:
        """Work-items of a subgroup, as an index."""
        return self.out.const(self.lanes, index) if self.lanes else self.out.emit("subgroup_size")

    def lane_index(self) -> Node:
        linear = self.out.emit("linear_local_id")
        last = self.out.emit("sub", self.size(), self.out.const(1, index))
        return self.out.emit("and", linear, self.out.const(self.lanes - 1, index) if self.lanes else last)

    def quotient(self, value: Node) -> Node:
        """An index divided by the size of a subgroup."""
        if self.lanes:
            return self.out.emit("shr", value, self.out.const(self.lanes.bit_length() - 1, index))
        return self.out.emit("shr", value, self.out.emit("ctz", self.size()))

    def count(self) -> Node:
        out = self.out
        known = self.kernel_in.known_workgroup
        if known is not None:
            items = out.const(prod(known), index)
        else:
            x, y, z = (out.emit("workgroup_size", dim=d) for d in range(3))
            items = out.emit("mul", out.emit("mul", x, y), z)
        return self.quotient(out.emit("add", items, out.emit("sub", self.size(), out.const(1, index))))

    def lane(self) -> Node:
        """The lane number as u32; it stands before all else."""
        if self._lane is None:
            with self.out.into(self.prologue):
                self._lane = self.out.cast(self.lane_index(), u32)
        return self._lane

    def size32(self) -> Node:
        """The size as u32."""
        if self.lanes:
            return self.u(self.lanes)
        if self._size is None:
            with self.out.into(self.prologue):
                self._size = self.out.cast(self.out.emit("subgroup_size"), u32)
        return self._size

    def steps(self) -> list[int]:
        """1, 2, 4, ... below the size of the widest subgroup there may be."""
        return [1 << k for k in range((self.lanes or _MOST).bit_length() - 1)]

    def everyone(self, node: Node) -> bool:
        """Whether all lanes of a subgroup are known to come to ``node``, and to exist."""
        known = self.kernel_in.known_workgroup
        if known is None or prod(known) % (self.lanes or _MOST):
            return False
        level, unknown = self.uniformity.reach(node)
        return level <= Level.SUBGROUP and not unknown

    # --- small parts ---------------------------------------------------------------------------------------------
    def u(self, value: int) -> Node:
        return self.out.const(value, u32)

    def masked(self, value: Node) -> Node:
        """A u32 modulo the size."""
        last = self.u(self.lanes - 1) if self.lanes else self.out.emit("sub", self.size32(), self.u(1))
        return self.out.emit("and", value, last)

    def there(self, op: str, value: Node, where: Node) -> Node:
        """The value of a lane that is active, or one that nobody uses."""
        return self.carried(value, lambda v: self.out.emit(op, v, where, there=True))

    def carried(self, value: Node, move: Callable[[Node], Node]) -> Node:
        """``move`` of a value in types that the target has; what it does with 64 bits it does with each half."""
        out, t = self.out, value.dtype
        if t.is_bool:
            return out.emit("ne", move(out.select(value, self.u(1), self.u(0))), self.u(0))
        if self.has(t):
            return move(value)
        if t.bits < 32:  # every value of it is one of the wider type
            return out.cast(move(out.cast(value, f32 if t.is_float else _wide(t))), t)
        if t.is_float:
            return out.emit("bitcast", self.carried(out.emit("bitcast", value, type=u64), move), type=t)
        shift = out.const(32, t)
        low, high = (move(out.cast(v, u32)) for v in (value, out.emit("shr", value, shift)))
        return out.emit("or", out.cast(low, t), out.emit("shl", out.cast(high, t), shift))

    def from_lane(self, value: Node, where: Node) -> Node:
        return self.there("subgroup_shuffle", value, where)

    # --- shuffles ------------------------------------------------------------------------------------------------
    def broadcast(self, node: Node) -> Node:
        value, where = (self.value(a) for a in node.args)
        return self.there("subgroup_broadcast", value, self.masked(self.out.cast(where, u32)))

    def shuffle(self, node: Node) -> Node:
        """The value of another lane; the own value where that is inactive or does not exist."""
        out, op = self.out, node.op
        value, where = (self.value(a) for a in node.args)
        everyone = self.everyone(node)
        if everyone and where.op == "const" and 0 <= where.attrs["value"] < (self.lanes or 0):
            distance = where.attrs["value"]
            if op == "subgroup_shuffle":
                return self.there("subgroup_broadcast", value, self.u(distance))
            found = self.there(op, value, self.u(distance))
            if op == "subgroup_shuffle_xor" or not distance:
                return found
            if op == "subgroup_shuffle_up":
                valid = out.emit("ge", self.lane(), self.u(distance))
            else:
                valid = out.emit("lt", self.lane(), self.u((self.lanes or 0) - distance))
            return out.select(valid, found, value)
        lane, valid = self.source(op, where)
        if not everyone:
            lane = self.masked(lane)
            active = _Active(self)
            valid = out.emit("and", valid, active.has(lane))
        return self.from_lane(value, out.select(valid, lane, self.lane()))

    def source(self, op: str, where: Node) -> tuple[Node, Node]:
        """The lane that a shuffle asks for as u32, and whether a subgroup has it."""
        out = self.out
        # Lane numbers are computed without loss: in 32 bits, or in 64.
        wide = index if where.dtype.bits == 64 else _wide(where.dtype)
        signed = wide.min < 0
        where = out.cast(where, wide)
        lane = out.cast(self.lane(), wide)
        size = out.cast(self.size32(), wide) if not self.lanes else out.const(self.lanes, wide)
        if op in ("subgroup_shuffle", "subgroup_shuffle_xor"):
            # lane ^ n stands in a subgroup where n does
            found = where if op == "subgroup_shuffle" else out.emit("xor", lane, where)
            return out.cast(found, u32), self.below(where, size, signed)
        up = op == "subgroup_shuffle_up"
        found = out.emit("sub" if up else "add", lane, where)
        if signed:  # it wraps only to what is far outside
            return out.cast(found, u32), self.below(found, size, signed)
        valid = out.emit("le", where, lane) if up else out.emit("lt", where, out.emit("sub", size, lane))
        return out.cast(found, u32), valid

    def below(self, value: Node, limit: Node, signed: bool) -> Node:
        """0 <= value < limit."""
        out = self.out
        low = out.emit("lt", value, limit)
        return out.emit("and", out.emit("ge", value, out.const(0, value.dtype)), low) if signed else low

    # --- reductions and scans ------------------------------------------------------------------------------------
    def combined(self, node: Node) -> Node:
        """A reduction or a scan."""
        out, kind, value = self.out, node.attrs["kind"], self.value(node.args[0])
        t = value.dtype
        exclusive = bool(node.attrs.get("exclusive"))
        if t.is_bool or (t.is_int and self.has(t)):
            return self.keep(node)
        if t.is_int and (t.bits < 32 or kind in ("and", "or", "xor")):
            found = self.carried(value, lambda v: out.emit(node.op, v, **node.attrs))
            # What stands before the first lane is the identity of the type at hand, which ends as -1 or as 0.
            first = exclusive and kind in ("min", "max")
            return out.select(out.emit("subgroup_elect"), out.const(identity(kind, t), t), found) if first else found
        how = self.reduced if node.op == "subgroup_reduce" else self.scanned
        if self.everyone(node):
            return how(kind, value, None, exclusive)
        result = Slot("combined", t)
        active = _Active(self)
        _, whole, part = out.if_(active.whole())
        for region, lanes in ((whole, None), (part, active)):
            with out.into(region):
                out.set(result, how(kind, value, lanes, exclusive))
        return out.get(result)

    def reduced(self, kind: str, value: Node, active: _Active | None, exclusive: bool) -> Node:
        """A tree over ranks: the neighbour first, then the one at twice the distance; absent ones are skipped."""
        out = self.out
        if active is None:
            for step in self.steps():
                joined = out.emit(kind, value, self.there("subgroup_shuffle_xor", value, self.u(step)))
                exists = None if self.lanes else out.emit("lt", self.u(step), self.size32())
                value = out.select(exists, joined, value) if exists is not None else joined
            return value
        following = active.following()
        for step in self.steps():
            exists = out.emit("lt", out.emit("add", active.rank(), self.u(step)), active.count())
            value = out.select(exists, out.emit(kind, value, self.from_lane(value, following)), value)
            if step != self.steps()[-1]:
                following = self.from_lane(following, following)
        return self.there("subgroup_broadcast", value, active.first())

    def scanned(self, kind: str, value: Node, active: _Active | None, exclusive: bool) -> Node:
        """Kogge-Stone over ranks: what stands a step below is added, for steps 1, 2, 4, ..."""
        out = self.out
        rank = self.lane() if active is None else active.rank()
        before = nearest = None if active is None else active.before()
        for step in self.steps():
            if before is None:
                lower = self.there("subgroup_shuffle_up", value, self.u(step))
            else:
                lower = self.from_lane(value, before)
                before = self.from_lane(before, before)
            exists = out.emit("ge", rank, self.u(step))
            value = out.select(exists, out.emit(kind, lower, value), value)
        if not exclusive:
            return value
        one = self.u(1)
        lower = self.there("subgroup_shuffle_up", value, one) if nearest is None else self.from_lane(value, nearest)
        return out.select(out.emit("ge", rank, one), lower, out.const(identity(kind, value.dtype), value.dtype))


def _wide(t: DType) -> DType:
    """The type of 32 bits that an integer of fewer goes into."""
    return i32 if t.min < 0 else u32


class _Active:
    """The lanes that are active at a place, as words of 32 bits, the low one first; and a lane's place among them."""

    def __init__(self, lowering: _Lowering) -> None:
        self.l = lowering
        out = self.out = lowering.out
        true = out.const(True, bool_)
        wide = (lowering.lanes or _MOST) > 32
        self.words = [out.emit("subgroup_ballot_word", true, word=k) for k in range(1 + wide)]
        self._rank: Node | None = None
        self._count: Node | None = None

    def whole(self) -> Node:
        """Whether all lanes are."""
        out, l = self.out, self.l
        if l.lanes is None:
            return out.emit("eq", self.count(), l.size32())
        full = [out.emit("eq", w, l.u((1 << min(l.lanes, 32)) - 1)) for w in self.words]
        return full[0] if len(full) == 1 else out.emit("and", *full)

    def high(self, lane: Node) -> Node | None:
        """Whether a lane stands in the second word; None where there is no second one."""
        return self.out.emit("ge", lane, self.l.u(32)) if len(self.words) > 1 else None

    def has(self, lane: Node) -> Node:
        """Whether ``lane``, which is below the size, is active."""
        out, high = self.out, self.high(lane)
        word = self.words[0] if high is None else out.select(high, self.words[1], self.words[0])
        bit = out.emit("and", out.emit("shr", word, lane), self.l.u(1))
        return out.emit("ne", bit, self.l.u(0))

    def side(self, below: bool) -> list[Node]:
        """The words with the lanes below this one alone, or above it."""
        out, l = self.out, self.l
        lane, zero = l.lane(), l.u(0)
        # Counts are taken modulo 32, and 2 << 31 is 0, so that nothing is left above lane 31.
        edge = out.emit("sub", out.emit("shl", l.u(1 if below else 2), lane), l.u(1))
        cut = edge if below else out.emit("not", edge)
        parts = [out.emit("and", w, cut) for w in self.words]
        high = self.high(lane)
        if high is None:
            return parts
        if below:
            return [out.select(high, self.words[0], parts[0]), out.select(high, parts[1], zero)]
        return [out.select(high, zero, parts[0]), out.select(high, parts[1], self.words[1])]

    def bits(self, words: list[Node]) -> Node:
        counts = [self.out.emit("popcount", w) for w in words]
        return counts[0] if len(counts) == 1 else self.out.emit("add", *counts)

    def rank(self) -> Node:
        """How many active lanes stand below this one."""
        if self._rank is None:
            self._rank = self.bits(self.side(below=True))
        return self._rank

    def count(self) -> Node:
        """How many lanes are active."""
        if self._count is None:
            self._count = self.bits(self.words)
        return self._count

    def lowest(self, words: list[Node]) -> Node:
        """The lowest lane of a set, which is not empty or else nobody asks."""
        out = self.out
        low = out.emit("ctz", words[0])
        if len(words) == 1:
            return low
        far = out.emit("add", out.emit("ctz", words[1]), self.l.u(32))
        return out.select(out.emit("ne", words[0], self.l.u(0)), low, far)

    def first(self) -> Node:
        """The lowest active lane."""
        return self.lowest(self.words)

    def following(self) -> Node:
        """The next active lane above, or this one."""
        out, above = self.out, self.side(below=False)
        last = out.emit("eq", self.union(above), self.l.u(0))
        return out.select(last, self.l.lane(), self.lowest(above))

    def before(self) -> Node:
        """The next active lane below, or this one."""
        out, l, below = self.out, self.l, self.side(below=True)
        found = out.emit("sub", l.u(31), out.emit("clz", below[0]))
        if len(below) > 1:
            far = out.emit("sub", l.u(63), out.emit("clz", below[1]))
            found = out.select(out.emit("ne", below[1], l.u(0)), far, found)
        first = out.emit("eq", self.union(below), l.u(0))
        return out.select(first, l.lane(), found)

    def union(self, words: list[Node]) -> Node:
        return words[0] if len(words) == 1 else self.out.emit("or", *words)
