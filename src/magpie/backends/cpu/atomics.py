"""Atomics of a gang, lane by lane in ascending order (RULES 16).

On buffers they are real atomics; read-modify-writes of shared memory are in `magpie.backends.cpu.shared_atomics`.
"""

from __future__ import annotations

from magpie.backends.cpu.memory import Address
from magpie.backends.cpu.shared_atomics import SharedAtomicsMixin
from magpie.backends.cpu.values import Mask, Value
from magpie.backends.llvm.emitter import element, memory_element
from magpie.dtypes import DType
from magpie.ir.nodes import Array, Node

__all__ = ["AtomicsMixin"]

_NATIVE = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}


class AtomicsMixin(SharedAtomicsMixin):
    """Read-modify-writes, compare-exchanges, atomic loads and stores."""

    def atomic_rmw(self, node: Node) -> Value:
        indices = [self.map[a] for a in node.args[:-1]]
        value = self.map[node.args[-1]]
        result = self.guarded(node, indices, lambda a: self.rmw_lanes(node, a, value))
        return result

    def rmw_lanes(self, node: Node, a: Address, value: Value) -> Value:
        c, t, kind = self.c, a.t, node.attrs["kind"]
        elem = memory_element(t)
        if a.kind == 0 and kind in ("add", "sub", "and", "or", "xor") and t.is_int and node not in self.env.used:
            total = self.fold_lanes(kind, value, t)
            if self.is_shared(node):
                old = c.op(f"load {elem}, ptr {a.base}, align {t.itemsize}{a.suffix}")
                new = c.op(f"{_NATIVE[kind]} {elem} {old}, {total}")
                c.do(f"store {elem} {new}, ptr {a.base}, align {t.itemsize}{a.suffix}")
            else:
                c.do(f"{self.rmw_text(kind, t, a.base, total)}")
            return self.old_values("", elem, t)
        if self.is_shared(node):
            return self.old_values(self.shared_rmw(node, a, value), elem, t)
        operand = self.spill(self.vector.to_memory(self.lanes(value, element(t)), t), elem)
        offsets = self.spill_offsets(a)
        out = self.spill("zeroinitializer", elem) if node in self.env.used else ""
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        pointer = self.lane_address(a, lane, offsets)
        x = self.spilled_lane(operand, elem, lane)
        old = self.one_rmw(kind, t, pointer, x)
        if out:
            c.do(f"store {elem} {old}, ptr {c.op(f'getelementptr {elem}, ptr {out}, i64 {lane}')}")
        self.end_lane_loop(header, exit_, left, rest)
        return self.old_values(out, elem, t)

    def old_values(self, memory: str, elem: str, t: DType) -> Value:
        if not memory:
            return (
                self.bools(Mask(wide="zeroinitializer")) if t.is_bool else self.vec("zeroinitializer", self.register(t))
            )
        raw = self.c.op(f"load <{self.w} x {elem}>, ptr {memory}, align 64")
        return self.vec(self.vector.from_memory(raw, t), self.register(t))

    def is_shared(self, node: Node) -> bool:
        array: Array = node.attrs["array"]
        return array.space != "buffer"

    def rmw_text(self, kind: str, t: DType, pointer: str, x: str) -> str:
        """An atomicrmw of a kind that LLVM has for ``t``."""
        elem = memory_element(t)
        if kind in ("min", "max"):
            name = {"int": "", "uint": "u", "bool": "u"}[t.kind] + kind
        else:
            name = _NATIVE[kind]
        return f"atomicrmw {name} ptr {pointer}, {elem} {x} monotonic, align {t.itemsize}"

    def one_rmw(self, kind: str, t: DType, pointer: str, x: str) -> str:
        """One lane's operation in memory form; gives the old value."""
        c, elem = self.c, memory_element(t)
        if not t.is_float or (kind == "exchange"):
            if not t.is_float:
                return c.op(self.rmw_text(kind, t, pointer, x))
            integer = f"i{t.bits}"
            bits = x if elem == integer else c.op(f"bitcast {elem} {x} to {integer}")
            raw = c.op(f"atomicrmw xchg ptr {pointer}, {integer} {bits} monotonic, align {t.itemsize}")
            return raw if elem == integer else c.op(f"bitcast {integer} {raw} to {elem}")
        return self.cas_loop(kind, t, pointer, x)

    def cas_loop(self, kind: str, t: DType, pointer: str, x: str) -> str:
        """Floats: compute from the value seen, and store it if nobody came between."""
        c, elem, integer = self.c, memory_element(t), f"i{t.bits}"
        first = c.op(f"load atomic {integer}, ptr {pointer} monotonic, align {t.itemsize}")
        before, header, done = c.at_block, c.block("cas"), c.block("done")
        c.br(header)
        c.place(header)
        seen, found = c.name(), c.name()
        header.lines.append(f"  {seen} = phi {integer} [ {first}, %{before.label} ], [ {found}, %LATCH ]")
        old = seen if elem == integer else c.op(f"bitcast {integer} {seen} to {elem}")
        new = self.combined(kind, t, old, x)
        bits = new if elem == integer else c.op(f"bitcast {elem} {new} to {integer}")
        pair = c.op(
            f"cmpxchg weak ptr {pointer}, {integer} {seen}, {integer} {bits} monotonic monotonic, align {t.itemsize}"
        )
        c.do(f"{found} = extractvalue {{ {integer}, i1 }} {pair}, 0")
        ok = c.op(f"extractvalue {{ {integer}, i1 }} {pair}, 1")
        header.lines[0] = header.lines[0].replace("%LATCH", f"%{c.at_block.label}")
        c.cbr(ok, done, header)
        c.place(done)
        return old

    def fold_lanes(self, kind: str, value: Value, t: DType) -> str:
        """The active lanes' operands as one: what they do to one address together."""
        elem = element(t)
        join = "add" if kind == "sub" else kind
        lanes = self.lanes(value, elem)
        if self.mask is not None:
            identity = splat_identity(join, elem, self.w)
            lanes = self.vector.select(self.masks.i1(self.mask), elem, lanes, identity)
        name = f"llvm.vector.reduce.{join}.v{self.w}{elem}"
        return self.c.call(name, elem, (f"<{self.w} x {elem}>", lanes))

    def atomic_cas(self, node: Node) -> Value:
        indices = [self.map[a] for a in node.args[:-2]]
        expected, desired = (self.map[a] for a in node.args[-2:])
        return self.guarded(node, indices, lambda a: self.cas_lanes(node, a, expected, desired))

    def cas_lanes(self, node: Node, a: Address, expected: Value, desired: Value) -> Value:
        c, t = self.c, a.t
        elem = memory_element(t)
        integer = f"i{max(8, t.bits)}"
        want, new = (self.spill(self.vector.to_memory(self.lanes(v, element(t)), t), elem) for v in (expected, desired))
        offsets, out = self.spill_offsets(a), self.spill("zeroinitializer", elem)
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        pointer = self.lane_address(a, lane, offsets)
        e, d = self.spilled_lane(want, integer, lane), self.spilled_lane(new, integer, lane)
        if self.is_shared(node):
            old = c.op(f"load {integer}, ptr {pointer}, align {t.itemsize}{a.suffix}")
            same = c.op(f"icmp eq {integer} {old}, {e}")
            new_value = self.scalar.select(same, integer, d, old)
            c.do(f"store {integer} {new_value}, ptr {pointer}, align {t.itemsize}{a.suffix}")
        else:
            pair = c.op(f"cmpxchg ptr {pointer}, {integer} {e}, {integer} {d} monotonic monotonic, align {t.itemsize}")
            old = c.op(f"extractvalue {{ {integer}, i1 }} {pair}, 0")
        c.do(f"store {integer} {old}, ptr {c.op(f'getelementptr {elem}, ptr {out}, i64 {lane}')}")
        self.end_lane_loop(header, exit_, left, rest)
        return self.old_values(out, elem, t)

    def atomic_load(self, node: Node) -> Value:
        indices = [self.map[a] for a in node.args]
        return self.guarded(node, indices, lambda a: self.atomic_load_lanes(node, a))

    def order(self, node: Node, strong: str) -> str:
        return strong if node.attrs.get("order") == strong and not self.is_shared(node) else "monotonic"

    def atomic_load_lanes(self, node: Node, a: Address) -> Value:
        c, t = self.c, a.t
        elem = memory_element(t)
        order = self.order(node, "acquire")
        if a.kind == 0:
            raw = c.op(f"load atomic {elem}, ptr {a.base} {order}, align {t.itemsize}")
            value = self.uni(self.scalar.from_memory(raw, t), element(t))
            return self.bools(self.as_mask(value)) if t.is_bool else self.vec(self.lanes(value), value.elem)
        offsets, out = self.spill_offsets(a), self.spill("zeroinitializer", elem)
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        x = c.op(f"load atomic {elem}, ptr {self.lane_address(a, lane, offsets)} {order}, align {t.itemsize}")
        c.do(f"store {elem} {x}, ptr {c.op(f'getelementptr {elem}, ptr {out}, i64 {lane}')}")
        self.end_lane_loop(header, exit_, left, rest)
        return self.old_values(out, elem, t)

    def atomic_store(self, node: Node) -> None:
        indices = [self.map[a] for a in node.args[:-1]]
        value = self.map[node.args[-1]]
        self.guarded(node, indices, lambda a: self.atomic_store_lanes(node, a, value))

    def atomic_store_lanes(self, node: Node, a: Address, value: Value) -> Value:
        c, t = self.c, a.t
        elem, order = memory_element(t), self.order(node, "release")
        if order == "release":
            self.env.streams.drain()
        if a.kind == 0 and value.kind == 0:
            text = self.scalar.to_memory(value.text, t)
            c.do(f"store atomic {elem} {text}, ptr {a.base} {order}, align {t.itemsize}")
            return value
        memory = self.spill(self.vector.to_memory(self.lanes(value, element(t)), t), elem)
        offsets = self.spill_offsets(a)
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        x = self.spilled_lane(memory, elem, lane)
        c.do(f"store atomic {elem} {x}, ptr {self.lane_address(a, lane, offsets)} {order}, align {t.itemsize}")
        self.end_lane_loop(header, exit_, left, rest)
        return value

    def active(self) -> Mask:
        """The mask, never None."""
        return self.mask if self.mask is not None else Mask(wide=self.masks.all_wide)


def splat_identity(kind: str, elem: str, width: int) -> str:
    """The neutral element of an integer reduction."""
    from magpie.backends.llvm.emitter import splat

    return splat("-1" if kind == "and" else "0", elem, width)
