"""Loads and stores of a gang, in the form that the address shape and the mask allow (RULES 15).

A uniform address is one scalar access; consecutive lanes are one vector access, masked where the target can; everything
else goes lane by lane, in ascending order. Under a mask nothing is read that no active lane reads, and nothing written
that no active lane writes.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.addresses import Address, AddressMixin
from magpie.backends.cpu.prefetch import next_group, next_of_walk
from magpie.backends.cpu.values import Mask, Value, ramp
from magpie.backends.llvm.emitter import Block, constant, memory_element, splat
from magpie.dtypes import DType
from magpie.ir.nodes import Node, leaf_offset

__all__ = ["Address", "MemoryMixin"]


class MemoryMixin(AddressMixin):
    """Accesses of arrays."""

    lines: dict[Node, str]  # where lanes were loaded from side by side, from memory that nobody writes

    # --- loads ---------------------------------------------------------------------------------------------------
    def load(self, node: Node) -> Value:
        return self.guarded(node, [self.map[a] for a in node.args], lambda a: self.load_at(node, a))

    def load_at(self, node: Node, a: Address) -> Value:
        """What ``node`` loads, from ``a``."""
        if self.mask is None and a.kind == 1 and a.stride == a.t.itemsize:
            if "ahead" in node.attrs and self.env.ahead:
                next_of_walk(self, node, a)
            elif "next_by" in node.attrs:
                next_group(self, node, a)
            if "!invariant.load" in a.suffix:
                self.lines[node] = a.base
        return self.load_from(a)

    def check_bounds(self, node: Node, indices: list[Value]) -> None:
        """Checked mode narrows the mask to the lanes in bounds; see `magpie.backends.cpu.checks`."""

    def guarded(self, node: Node, indices: list[Value], access: Callable[[Address], Value]) -> Value:
        """``access`` for the lanes that are in bounds (all, unless checked); the others get zero."""
        saved = self.mask
        self.check_bounds(node, indices)
        if self.mask is saved:
            return access(self.address(node, indices))
        c, m = self.c, self.masks
        t = leaf_offset(node.attrs["array"], node.attrs.get("field"))[0]
        vector = self.shape(node) == 2 and node.type is not None
        elem = self.register(t)
        held = m.elem if elem == "i1" and vector else elem
        type_ = f"<{self.w} x {held}>" if vector else held
        memory = c.alloca(type_, 64 if vector else 0)
        zero = constant(0, held)
        c.do(f"store {type_} {'zeroinitializer' if vector else zero}, ptr {memory}")

        def body() -> None:
            value = access(self.address(node, indices))
            if node.type is None:
                return
            if not vector:
                text = value.text
            elif elem == "i1":
                assert self.mask is not None
                text = m.wide(m.and_(self.as_mask(value), self.mask))
            else:  # a gather gives the other lanes some value
                assert self.mask is not None
                text = self.vector.select(m.i1(self.mask), held, self.lanes(value, held), self.vector.lit(zero, held))
            c.do(f"store {type_} {text}, ptr {memory}")

        self.under_mask(self.mask, body)
        self.mask = saved
        if node.type is None:
            return self.uni("0", "i32")
        raw = c.op(f"load {type_}, ptr {memory}")
        if not vector:
            return self.uni(raw, elem)
        return self.bools(Mask(wide=raw)) if elem == "i1" else self.vec(raw, elem)

    def load_from(self, a: Address) -> Value:
        c, t = self.c, a.t
        elem = memory_element(t)
        if a.kind == 0:
            raw = c.op(f"load {elem}, ptr {a.base}, align {t.itemsize}{a.suffix}")
            return self.uni(self.scalar.from_memory(raw, t), self.register(t))
        raw = self.load_vector(a, elem)
        text = self.vector.from_memory(raw, t)
        return self.vec(text, self.register(t))

    @staticmethod
    def register(t: DType) -> str:
        from magpie.backends.llvm.emitter import element

        return element(t)

    def load_vector(self, a: Address, elem: str) -> str:
        """Lanes in memory form."""
        c, w, size = self.c, self.w, a.t.itemsize
        vt = f"<{w} x {elem}>"
        if a.kind == 1 and a.stride == size:
            if self.mask is None or a.private:
                return c.op(f"load {vt}, ptr {a.base}, align {size}{a.suffix}")
            if self.masked_native(elem):
                name = f"llvm.masked.load.v{w}{_code(elem)}.p0"
                c.module.declare(name, vt, f"ptr, i32, {self.masks.i1_type}, {vt}")
                mask = self.masks.i1(self.mask)
                return c.op(
                    f"call {vt} @{name}(ptr {a.base}, i32 {size}, <{w} x i1> {mask}, {vt} zeroinitializer){a.suffix}"
                )
            return self.load_bits(a, elem)
        if a.kind == 1 and a.stride == -size and self.mask is None:
            start = c.op(f"getelementptr i8, ptr {a.base}, i64 {-size * (w - 1)}")
            raw = c.op(f"load {vt}, ptr {start}, align {size}{a.suffix}")
            order = ", ".join(f"i32 {k}" for k in range(w - 1, -1, -1))
            return c.op(f"shufflevector {vt} {raw}, {vt} poison, <{w} x i32> <{order}>")
        if a.regular and (self.mask is None or self.masked_native(elem)):
            return self.load_if_consecutive(a, elem)
        return self.gather(a, elem)

    def gather(self, a: Address, elem: str) -> str:
        if self.env.large and not self.env.target.has_avx512:
            return self.load_bits(a, elem)
        return self.gather_all(a, elem) if self.mask is None else self.gather_safe(a, elem)

    def consecutive(self, a: Address) -> tuple[str, Address]:
        """An i1: the lanes of a vector address follow each other; and the line that they are then."""
        c, w = self.c, self.w
        first = c.op(f"extractelement <{w} x {a.offset_elem}> {a.offset}, i64 0")
        vt = f"<{w} x {a.offset_elem}>"
        line = c.op(f"add {vt} {self.splat_in(c.at_block, first, a.offset_elem)}, {ramp(a.offset_elem, 1, w)}")
        same = self.masks.from_i1(c.op(f"icmp eq {vt} {a.offset}, {line}"))
        return self.masks.all(same), Address(1, self.scaled(a, first), a.t, a.suffix, a.t.itemsize, past=a.past)

    def load_if_consecutive(self, a: Address, elem: str) -> str:
        """A run-time test is cheaper than a gather: for ``i ^ j``, lanes are consecutive for all large j."""
        c, vt = self.c, f"<{self.w} x {elem}>"
        test, line = self.consecutive(a)
        near, far, join = c.block("near"), c.block("far"), c.block("join")
        c.cbr(test, near, far)
        c.place(near)
        one = self.load_vector(line, elem)
        near = c.at_block
        c.br(join)
        c.place(far)
        other = self.gather(a, elem)
        far = c.at_block
        c.br(join)
        c.place(join)
        return c.op(f"phi {vt} [ {one}, %{near.label} ], [ {other}, %{far.label} ]")

    def lane_pointers(self, a: Address, lanes: range) -> list[str]:
        """A pointer for each lane, unrolled."""
        c, out = self.c, []
        if a.kind == 1:
            if isinstance(a.stride, int):
                return [c.op(f"getelementptr i8, ptr {a.base}, i64 {k * a.stride}") if k else a.base for k in lanes]
            p = a.base
            for k in lanes:
                if k:
                    p = c.op(f"getelementptr i8, ptr {p}, i64 {a.stride}")
                out.append(p)
            return out
        for k in lanes:
            offset = c.op(f"extractelement <{self.w} x {a.offset_elem}> {a.offset}, i64 {k}")
            out.append(self.scaled(a, offset))
        return out

    def scaled(self, a: Address, offset: str) -> str:
        unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}.get(a.scale)
        if unit is None:
            unit = f"[{a.scale} x i8]"
        return self.c.op(f"getelementptr {unit}, ptr {a.base}, {a.offset_elem} {offset}")

    def gather_all(self, a: Address, elem: str) -> str:
        """Every lane, each by a scalar load, or by the gather instruction where that is fast."""
        c, w, size = self.c, self.w, a.t.itemsize
        vt = f"<{w} x {elem}>"
        if self.env.target.has_avx512 and a.kind == 2 and elem in ("i32", "i64", "float", "double"):
            return self.native_gather(a, elem, splat("true", "i1", w))
        vector = "poison"
        for k, p in enumerate(self.lane_pointers(a, range(w))):
            x = c.op(f"load {elem}, ptr {p}, align {size}{a.suffix}")
            vector = c.op(f"insertelement {vt} {vector}, {elem} {x}, i64 {k}")
        return vector

    def pointer_vector(self, a: Address) -> str:
        unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}.get(a.scale) or f"[{a.scale} x i8]"
        return self.c.op(f"getelementptr {unit}, ptr {a.base}, <{self.w} x {a.offset_elem}> {a.offset}")

    def native_gather(self, a: Address, elem: str, mask: str) -> str:
        c, w = self.c, self.w
        vt = f"<{w} x {elem}>"
        name = f"llvm.masked.gather.v{w}{_code(elem)}.v{w}p0"
        c.module.declare(name, vt, f"<{w} x ptr>, i32, <{w} x i1>, {vt}")
        pointers = self.pointer_vector(a)
        return c.op(
            f"call {vt} @{name}(<{w} x ptr> {pointers}, i32 {a.t.itemsize}, <{w} x i1> {mask}, "
            f"{vt} zeroinitializer){a.suffix}"
        )

    def gather_safe(self, a: Address, elem: str) -> str:
        """Active lanes; the others read what the first active lane reads (the mask is never empty here, RULES 8)."""
        assert self.mask is not None
        if self.env.target.has_avx512 and elem in ("i32", "i64", "float", "double"):
            return self.native_gather(self.vector_address(a), elem, self.masks.i1(self.mask))
        a = self.vector_address(a)
        c, w = self.c, self.w
        first = self.first_lane(self.mask)
        one = c.op(f"extractelement <{w} x {a.offset_elem}> {a.offset}, i64 {first}")
        safe = self.splat_in(c.at_block, one, a.offset_elem)
        offset = self.vector.select(self.masks.i1(self.mask), a.offset_elem, a.offset, safe)
        return self.gather_all(Address(2, a.base, a.t, a.suffix, 0, offset, a.offset_elem, a.scale, a.private), elem)

    def vector_address(self, a: Address) -> Address:
        """A line of addresses as a vector of byte offsets."""
        if a.kind == 2:
            return a
        if isinstance(a.stride, int):
            return Address(2, a.base, a.t, a.suffix, 0, ramp("i64", a.stride, self.w), "i64", 1, a.private)
        spread = self.splat_in(self.c.at_block, a.stride, "i64")
        offset = self.c.op(f"mul <{self.w} x i64> {spread}, {ramp('i64', 1, self.w)}")
        return Address(2, a.base, a.t, a.suffix, 0, offset, "i64", 1, a.private)

    def first_lane(self, mask: Mask | None) -> str:
        """The number of the lowest active lane, as i64 text."""
        if mask is None:
            return "0"
        bits = self.masks.number(mask)
        ctz = self.scalar.intrinsic("cttz", f"i{self.w}", [bits], ", i1 true", "i1")
        return self.wide_number(ctz)

    def last_lane(self, mask: Mask | None) -> str:
        if mask is None:
            return str(self.w - 1)
        bits = self.masks.number(mask)
        clz = self.scalar.intrinsic("ctlz", f"i{self.w}", [bits], ", i1 true", "i1")
        return self.wide_number(self.c.op(f"sub i{self.w} {self.w - 1}, {clz}"))

    def wide_number(self, text: str) -> str:
        """An iW as i64."""
        return text if self.w == 64 else self.c.op(f"zext i{self.w} {text} to i64")

    def masked_native(self, elem: str) -> bool:
        """Whether the target has masked vector loads and stores of this element."""
        target = self.env.target
        return target.has_avx512 or (target.has_avx2 and elem in ("i32", "i64", "float", "double"))

    # --- lane loops ----------------------------------------------------------------------------------------------
    def begin_lane_loop(self, mask: Mask | None) -> tuple[str, Block, Block, str, str]:
        """A loop over the active lanes in ascending order. Gives (lane, header, exit, bits phi, rest)."""
        c, w = self.c, self.w
        bits = self.masks.number(mask)
        before = c.at_block
        header, exit_ = c.block("lane"), c.block("lanes")
        if mask is None:
            c.br(header)
        else:
            c.cbr(c.op(f"icmp ne i{w} {bits}, 0"), header, exit_)
        c.place(header)
        left, rest = c.name(), c.name()
        header.lines.append(f"  {left} = phi i{w} [ {bits}, %{before.label} ], [ {rest}, %LATCH ]")
        lane = self.wide_number(self.scalar.intrinsic("cttz", f"i{w}", [left], ", i1 true", "i1"))
        return lane, header, exit_, left, rest

    def end_lane_loop(self, header: Block, exit_: Block, left: str, rest: str) -> None:
        c, w = self.c, self.w
        less = c.op(f"sub i{w} {left}, 1")
        c.do(f"{rest} = and i{w} {left}, {less}")
        more = c.op(f"icmp ne i{w} {rest}, 0")
        header.lines[0] = header.lines[0].replace("%LATCH", f"%{c.at_block.label}")
        c.cbr(more, header, exit_)
        c.place(exit_)

    def spill(self, text: str, elem: str, *, own: bool = False) -> str:
        """A vector in stack memory, for access by lane number; gives the pointer.

        The memory is used again by the next node, or a long kernel would need more stack than a thread has. ``own``
        memory is not, so that LLVM can turn accesses at constant lanes into shuffles.
        """
        pool = self.env.spills
        if own:
            memory = self.c.alloca(f"[{self.w} x {elem}]", 64)
        else:
            if self.spilled == len(pool):
                pool.append(self.c.alloca(f"[{self.w} x i64]", 64))
            memory = pool[self.spilled]
            self.spilled += 1
        self.c.do(f"store <{self.w} x {elem}> {text}, ptr {memory}, align 64")
        return memory

    def spilled_lane(self, memory: str, elem: str, lane: str) -> str:
        at = self.c.op(f"getelementptr {elem}, ptr {memory}, i64 {lane}")
        return self.c.op(f"load {elem}, ptr {at}")

    def lane_address(self, a: Address, lane: str, offsets: str) -> str:
        """The pointer of one lane; ``offsets`` is the spilled offset vector of a kind 2 address."""
        if a.kind == 0:
            return a.base
        if a.kind == 1:
            return self.c.op(f"getelementptr i8, ptr {a.base}, i64 {self.mul(lane, str(a.stride))}")
        return self.scaled(a, self.spilled_lane(offsets, a.offset_elem, lane))

    def spill_offsets(self, a: Address) -> str:
        return self.spill(a.offset, a.offset_elem) if a.kind == 2 else ""

    def load_bits(self, a: Address, elem: str) -> str:
        """A loop over the set bits of the mask; other lanes are zero."""
        c, w = self.c, self.w
        vt = f"<{w} x {elem}>"
        memory = self.spill("zeroinitializer", elem)
        offsets = self.spill_offsets(a)
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        x = c.op(f"load {elem}, ptr {self.lane_address(a, lane, offsets)}, align {a.t.itemsize}{a.suffix}")
        at = c.op(f"getelementptr {elem}, ptr {memory}, i64 {lane}")
        c.do(f"store {elem} {x}, ptr {at}")
        self.end_lane_loop(header, exit_, left, rest)
        return c.op(f"load {vt}, ptr {memory}, align 64")

    # --- stores --------------------------------------------------------------------------------------------------
    def store(self, node: Node) -> None:
        indices = [self.map[a] for a in node.args[:-1]]
        value = self.map[node.args[-1]]

        def put(a: Address) -> Value:
            a.past = self.env.streams.past(node, a.t.itemsize) if a.kind and self.mask is None else None
            self.store_to(a, value)
            return value

        self.guarded(node, indices, put)

    def under_mask(self, mask: Mask | None, body: Callable[[], None]) -> None:
        raise NotImplementedError

    def store_to(self, a: Address, value: Value) -> None:
        c, t, w = self.c, a.t, self.w
        elem, size = memory_element(t), t.itemsize
        if a.kind == 0:
            if value.kind == 0:
                text = self.scalar.to_memory(value.text, t)
            else:  # the last lane wins, as if they stored in order
                lanes = self.vector.to_memory(self.lanes(value), t)
                text = c.op(f"extractelement <{w} x {elem}> {lanes}, i64 {self.last_lane(self.mask)}")
            c.do(f"store {elem} {text}, ptr {a.base}, align {size}{a.suffix}")
            return
        lanes = self.vector.to_memory(self.lanes(value, self.register(t)), t)
        if a.regular and (self.mask is None or self.masked_native(elem)):
            test, line = self.consecutive(a)
            near, far, join = c.block("near"), c.block("far"), c.block("join")
            c.cbr(test, near, far)
            c.place(near)
            self.store_lanes(line, lanes)
            c.br(join)
            c.place(far)
            self.store_lanes(a, lanes)
            c.br(join)
            c.place(join)
        else:
            self.store_lanes(a, lanes)

    def store_lanes(self, a: Address, lanes: str) -> None:
        """Store lanes that are in memory form."""
        c, t, w = self.c, a.t, self.w
        elem, size = memory_element(t), t.itemsize
        vt = f"<{w} x {elem}>"
        if a.kind == 1 and a.stride == size:
            plain = f"store {vt} {lanes}, ptr {a.base}, align {size}{a.suffix}"
            if self.mask is None:
                if a.past is not None:
                    self.env.streams.store(vt, [(lanes, a.base)], size, a.suffix, a.past)
                else:
                    c.do(plain)
                return
            if a.private:  # nobody else looks at this memory: blending is safe
                old = c.op(f"load {vt}, ptr {a.base}, align {size}{a.suffix}")
                lanes = self.vector.select(self.masks.i1(self.mask), elem, lanes, old)
                c.do(f"store {vt} {lanes}, ptr {a.base}, align {size}{a.suffix}")
                return
            if self.masked_native(elem):
                name = f"llvm.masked.store.v{w}{_code(elem)}.p0"
                c.module.declare(name, "void", f"{vt}, ptr, i32, {self.masks.i1_type}")
                join = None
                if self.full and not self.env.target.has_avx512 and not self.env.large:
                    # AVX2's masked store is microcode on many processors, 4 times slower than a plain one (measured on
                    # Zen 3), and in a full gang all lanes often agree.
                    whole, part, join = c.block("whole"), c.block("some"), c.block("stored")
                    c.cbr(self.masks.all(self.mask), whole, part)
                    c.place(whole)
                    c.do(plain)
                    c.br(join)
                    c.place(part)
                mask = self.masks.i1(self.mask)
                lanes = self.untruncated(lanes, elem, size)
                c.do(
                    f"call void @{name}({vt} {lanes}, ptr {a.base}, i32 {size}, {self.masks.i1_type} {mask}){a.suffix}"
                )
                if join is not None:
                    c.br(join)
                    c.place(join)
                return
        self.store_apart(a, lanes, elem)

    def untruncated(self, lanes: str, elem: str, size: int) -> str:
        """Lanes of less than 32 bits behind a fence that keeps LLVM from joining their truncation and a masked store.

        Where such a store's mask turns out to be a constant with one lane, LLVM 22 writes that lane in the type that it
        had before the truncation, over its neighbours.
        """
        if size >= 4:
            return lanes
        c, w = self.c, self.w
        n = w * size // 4
        words, code = ("float", "f32") if n == 1 else (f"<{n} x float>", f"v{n}f32")
        name = f"llvm.arithmetic.fence.{code}"
        c.module.declare(name, words, words)
        as_words = c.op(f"bitcast <{w} x {elem}> {lanes} to {words}")
        fenced = c.op(f"call {words} @{name}({words} {as_words})")
        return c.op(f"bitcast {words} {fenced} to <{w} x {elem}>")

    def store_apart(self, a: Address, lanes: str, elem: str) -> None:
        """Store lane by lane."""
        c, w, size = self.c, self.w, a.t.itemsize
        if self.mask is None and w <= 32 and not self.env.large:
            for k, p in enumerate(self.lane_pointers(a, range(w))):
                x = c.op(f"extractelement <{w} x {elem}> {lanes}, i64 {k}")
                c.do(f"store {elem} {x}, ptr {p}, align {size}{a.suffix}")
            return
        memory, offsets = self.spill(lanes, elem), self.spill_offsets(a)
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        x = self.spilled_lane(memory, elem, lane)
        c.do(f"store {elem} {x}, ptr {self.lane_address(a, lane, offsets)}, align {size}{a.suffix}")
        self.end_lane_loop(header, exit_, left, rest)


def _code(elem: str) -> str:
    return {"float": "f32", "double": "f64"}.get(elem, elem)
