"""Atomics on shared memory: a workgroup runs on one thread, so they are plain read-modify-writes (RULES 16).

Lanes go one by one in ascending order, unless all of them address different elements. Where `Env.copies` says that an
array has private copies for now (see `magpie.backends.cpu.copies`), lane k works on copy k mod n: a lane need not wait
for what the lane before it has stored, which is what skewed histograms spend their time on.
"""

from __future__ import annotations

from magpie.backends.cpu.memory import Address, MemoryMixin
from magpie.backends.cpu.values import Value
from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import element, memory_element
from magpie.dtypes import DType
from magpie.ir.nodes import Node

__all__ = ["SharedAtomicsMixin"]

# Lanes in a trip of a loop over lanes; a multiple of the number of copies.
_TOGETHER = 8


class SharedAtomicsMixin(MemoryMixin):
    """Read-modify-writes without atomic instructions."""

    def shared_rmw(self, node: Node, a: Address, value: Value) -> str:
        """Update shared memory; gives stack memory that holds the old values, or "" where nobody wants them."""
        t, kind, used = a.t, node.attrs["kind"], node in self.env.used
        elem = memory_element(t)
        if a.kind == 1 and a.stride == t.itemsize:
            old = self.load_vector(a, elem)
            new = self.vector.to_memory(self.lanes(value, element(t)), t)
            self.store_lanes(a, self.rmw_combined_lanes(kind, t, old, new))
            return self.spill(old, elem) if used else ""
        if self.mask is None and not self.env.large:
            return self.rmw_all(node, a, value, used)
        operand = self.spill(self.vector.to_memory(self.lanes(value, element(t)), t), elem)
        offsets = self.spill_offsets(a)
        out = self.spill("zeroinitializer", elem) if used else ""
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        pointer = self.copy_of(node, self.lane_address(a, lane, offsets), lane)
        old = self.rmw_plain(kind, t, pointer, self.spilled_lane(operand, elem, lane), a.suffix)
        if out:
            self.c.do(f"store {elem} {old}, ptr {self.c.op(f'getelementptr {elem}, ptr {out}, i64 {lane}')}")
        self.end_lane_loop(header, exit_, left, rest)
        return out

    def rmw_all(self, node: Node, a: Address, value: Value, used: bool) -> str:
        """Every lane, a few in each trip of a loop.

        Indices and operands are read from where they were loaded, or go through stack memory: a vector store and a
        load for several lanes are cheaper than taking a vector apart. Not unrolled: a processor learns for each
        instruction which store a load waits for, and with all items in one bin 64 lanes in a row took 1.6 times as
        long as 8 of them in a loop.
        """
        c, t, kind = self.c, a.t, node.attrs["kind"]
        elem = memory_element(t)
        index = self.spilled_index(node, a)
        same = self.scalar.to_memory(value.text, t) if value.kind == 0 else ""
        operand = ""
        if not same:
            operand = self.lines.get(node.args[-1]) or self.spill(
                self.vector.to_memory(self.lanes(value, element(t)), t), elem
            )
        out = self.spill("zeroinitializer", elem) if used else ""
        step = min(_TOGETHER, self.w)
        before, header, exit_ = c.at_block, c.block("lanes"), c.block("done")
        c.br(header)
        c.place(header)
        first, following = c.name(), c.name()
        header.lines.append(f"  {first} = phi i64 [ 0, %{before.label} ], [ {following}, %LATCH ]")
        xs = [same] * step if same else self.loaded(operand, elem, first, step)
        places = self.pointers(a, index, first, step)
        for k, (p, x) in enumerate(zip(places, xs, strict=True)):
            old = self.rmw_plain(kind, t, self.copy_of(node, p, str(k)), x, a.suffix)
            if out:
                at = c.op(f"getelementptr {elem}, ptr {out}, i64 {c.op(f'add i64 {first}, {k}')}")
                c.do(f"store {elem} {old}, ptr {at}")
        c.do(f"{following} = add i64 {first}, {step}")
        header.lines[0] = header.lines[0].replace("%LATCH", f"%{c.at_block.label}")
        c.cbr(c.op(f"icmp ult i64 {following}, {self.w}"), header, exit_)
        c.at_block.end += f", !llvm.loop {c.module.rolled()}"
        c.place(exit_)
        return out

    def rmw_plain(self, kind: str, t: DType, pointer: str, x: str, suffix: str) -> str:
        """One lane's operation in memory form; gives the old value."""
        c, elem = self.c, memory_element(t)
        old = c.op(f"load {elem}, ptr {pointer}, align {t.itemsize}{suffix}")
        c.do(f"store {elem} {self.combined(kind, t, old, x)}, ptr {pointer}, align {t.itemsize}{suffix}")
        return old

    # --- what is done --------------------------------------------------------------------------------------------
    def combined(self, kind: str, t: DType, old: str, x: str) -> str:
        """old (kind) x, in memory form."""
        return _combined(self.scalar, kind, t, old, x)

    def rmw_combined_lanes(self, kind: str, t: DType, old: str, x: str) -> str:
        return _combined(self.vector, kind, t, old, x)

    # --- where ---------------------------------------------------------------------------------------------------
    def copy_of(self, node: Node, pointer: str, lane: str) -> str:
        """``pointer`` in the private copy that ``lane`` works on."""
        copies, pitch = self.env.copies.get(node.attrs["array"], (1, 0))
        if copies == 1:
            return pointer
        if lane.isdigit():
            at = str(int(lane) % copies * pitch)
        else:
            at = self.mul(self.c.op(f"and i64 {lane}, {copies - 1}"), str(pitch))
        return pointer if at == "0" else self.c.op(f"getelementptr i8, ptr {pointer}, i64 {at}")

    def spilled_index(self, node: Node, a: Address) -> tuple[str, str, str]:
        """(memory, element, extension) of the indices of a vector address, as narrow as they were loaded."""
        if a.kind != 2:
            return "", "", ""
        source, how = _narrowest(node.args[0]), "sext"
        text, elem = a.offset, a.offset_elem
        if node.attrs["array"].rank == 1 and source in self.map and self.map[source].kind == 2:
            held = self.map[source]
            if int(held.elem[1:]) < int(elem[1:]):
                text, elem = held.text, held.elem
                how = "sext" if source.dtype.kind == "int" else "zext"
                if source in self.lines:
                    return self.lines[source], elem, how
        return self.spill(text, elem), elem, how

    def pointers(self, a: Address, index: tuple[str, str, str], first: str, count: int) -> list[str]:
        """The pointers of ``count`` lanes from ``first`` on."""
        c = self.c
        if a.kind == 0:
            return [a.base] * count
        if a.kind == 1:
            lanes = [c.op(f"add i64 {first}, {k}") if k else first for k in range(count)]
            return [c.op(f"getelementptr i8, ptr {a.base}, i64 {self.mul(n, str(a.stride))}") for n in lanes]
        memory, elem, how = index
        lane = Address(2, a.base, a.t, a.suffix, 0, "", "i64", a.scale)
        texts = self.loaded(memory, elem, first, count)
        return [self.scaled(lane, x if elem == "i64" else c.op(f"{how} {elem} {x} to i64")) for x in texts]

    def loaded(self, memory: str, elem: str, first: str, count: int) -> list[str]:
        """Spilled lanes from ``first`` on; small ones come in one load."""
        c = self.c
        bits = {"float": 32, "double": 64}.get(elem) or int(elem[1:])
        at = c.op(f"getelementptr {elem}, ptr {memory}, i64 {first}")
        if bits >= 32:
            places = [c.op(f"getelementptr {elem}, ptr {at}, i64 {k}") if k else at for k in range(count)]
            return [c.op(f"load {elem}, ptr {p}, align {bits // 8}") for p in places]
        each = min(count, 64 // bits)
        out = []
        for k in range(0, count, each):
            p = c.op(f"getelementptr {elem}, ptr {at}, i64 {k}") if k else at
            word = c.op(f"load i{bits * each}, ptr {p}, align {bits // 8}")
            for n in range(each):
                part = c.op(f"lshr i{bits * each} {word}, {n * bits}") if n else word
                out.append(c.op(f"trunc i{bits * each} {part} to {elem}") if each > 1 else part)
        return out


def _combined(ops: Ops, kind: str, t: DType, old: str, x: str) -> str:
    if kind == "exchange":
        return x
    a, b = ops.from_memory(old, t), ops.from_memory(x, t)
    if t.is_bool and kind in ("min", "max"):
        kind = "and" if kind == "min" else "or"
    return ops.to_memory(ops.emit(Node(kind, (), t), [a, b], t, element(t)), t)


def _narrowest(node: Node) -> Node:
    """What an index was widened from: the same number in fewer bits."""
    while node.op == "cast" and node.args[0].dtype.is_int:
        wide, narrow = node.dtype, node.args[0].dtype
        if narrow.kind == "uint":
            same = wide.bits > narrow.bits
        else:
            same = wide.kind == "int" and wide.bits >= narrow.bits
        if not same:
            break
        node = node.args[0]
    return node
