"""The body of a kernel as scalar LLVM code, one work-item a thread of the device: what the GPU targets share.

A target subclasses `Simt` and fills the seams: coordinates, where arrays lie and how large they are, parameters,
barrier and fence, subgroup ops, the scope of atomics, the entry. All the rest (values, control flow, slots, addresses)
is here; the ops themselves are those of `magpie.backends.llvm.elementwise` at width 1; the cpu target has them at W.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Block, Code, Module, constant, element, memory_element
from magpie.dtypes import DType, index
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, PtrType, Region, Slot, leaf_offset, walk
from magpie.ir.ops import MOST_ELEMENTS

__all__ = ["Simt"]

_RMW = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}
_FLOAT_RMW = {"add": "fadd", "sub": "fsub", "exchange": "xchg"}

# A loop of constant trips becomes straight code of up to this many nodes, less where only a part of it is unrolled.
_UNROLLED = 512

_FREE = frozenset(["const", "slot_get", "slot_set", "cast", "break_if"])

# Local arrays up to this many bytes start as one store of zeros, which LLVM can promote to registers; it takes minutes
# for one of megabytes.
_INLINE_ZEROS = 1024


def _constant_trips(loop: Node) -> int | None:
    """How often a counted loop runs, where that is known."""
    counted = loop.attrs.get("counted")
    if counted is None or counted[1].op != "const":
        return None
    trips: int = counted[1].attrs["value"]
    return trips


def _straight_size(regions: tuple[Region, ...]) -> int | None:
    """Nodes of one trip that become code, those of inner loops for each trip; None where one has no constant trips."""
    size = 0
    for region in regions:
        for node in region:
            inner = _straight_size(node.regions)
            times = _constant_trips(node) if node.op == "loop" else 1
            if inner is None or times is None:
                return None
            size += times * inner + (node.op not in _FREE)
    return size


_ZERO = """define internal void @zero.local(ptr %p, i64 %size) nounwind noinline {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %q = getelementptr i8, ptr %p, i64 %i
  store <2 x i64> zeroinitializer, ptr %q, align 16
  %j = add i64 %i, 16
  %more = icmp ult i64 %j, %size
  br i1 %more, label %loop, label %done
done:
  ret void
}"""


class Simt(ABC):
    """Emits a prepared kernel's body (`magpie.passes.prepare`) into the function under construction."""

    # Address space of stack memory, as LLVM writes it behind a pointer type.
    stack = ""

    def __init__(self, kernel: Kernel, module: Module, *, fast: str = "", native_half: bool = True) -> None:
        self.kernel = kernel
        self.c = Code(module)
        self.ops = self.operations(fast, native_half)
        self.map: dict[Node, str] = {}
        self.slots: dict[Slot, str] = {}
        self.local_memory: dict[Array, str] = {}
        self.loops: list[tuple[Block, Block]] = []  # step and exit
        self.end = self.c.block("end")

    # --- seams ---------------------------------------------------------------------------------------------------
    def operations(self, fast: str, native_half: bool) -> Ops:
        """The pure ops of this target."""
        return Ops(self.c, 1, fast=fast, native_half=native_half)

    @abstractmethod
    def coordinate(self, op: str, dim: int) -> str:
        """thread_id, workgroup_id, workgroup_size or num_workgroups as an i64."""

    @abstractmethod
    def parameter(self, name: str, t: DType) -> str:
        """A scalar parameter in its register form; leaves of structs are called ``p.x``."""

    @abstractmethod
    def pointer(self, array: Array) -> tuple[str, str]:
        """(first element of a buffer or shared array, address space text such as `` addrspace(3)`` or empty)."""

    @abstractmethod
    def extent(self, array: Array, dim: int) -> str:
        """An extent as an i64."""

    @abstractmethod
    def stride(self, array: Array, dim: int) -> str:
        """A stride in elements as an i64."""

    @abstractmethod
    def barrier(self, node: Node) -> None:
        """barrier and subgroup_barrier."""

    @abstractmethod
    def subgroup(self, node: Node, args: list[str]) -> str:
        """Subgroup coordinates and cross-lane ops."""

    def grid_sync(self, node: Node) -> None:
        """A barrier of all work-items of the launch, which only a kernel has: see `simt_kernel`."""
        raise NotImplementedError

    def fence(self, node: Node) -> None:
        order = {"acquire": "acquire", "release": "release"}.get(str(node.attrs.get("order")), "acq_rel")
        self.c.do(f"fence {self.scope(node)}{order}")

    def scope(self, node: Node) -> str:
        """The syncscope of an atomic or fence, with a trailing space; empty is the whole system."""
        return ""

    def debug(self, node: Node, args: list[str]) -> None:
        """assert, print and trap; left out by default."""
        return

    def access_suffix(self, node: Node, array: Array) -> str:
        """Metadata of a load or store, with a leading comma."""
        return ""

    def atomic_suffix(self, node: Node, t: DType) -> str:
        """Metadata of an `atomicrmw`, with a leading comma."""
        return ""

    # --- regions -------------------------------------------------------------------------------------------------
    def body(self) -> None:
        """Everything; afterwards the current block is the end, still open."""
        self.region(self.kernel.body)
        self.c.br(self.end)
        self.c.place(self.end)

    def region(self, nodes: Region) -> None:
        for node in nodes:
            if not self.c.open:
                return
            self.visit(node)

    def visit(self, node: Node) -> None:
        handler = _HANDLERS.get(node.op)
        if handler is not None:
            getattr(self, handler)(node)
        elif node.op.startswith("subgroup_"):
            self.map[node] = self.subgroup(node, [self.map[a] for a in node.args])
        else:
            self.map[node] = self.value(node)

    def value(self, node: Node) -> str:
        """A pure op."""
        op = node.op
        t = node.dtype
        if op == "const":
            return constant(node.attrs["value"], element(t))
        if op in ("thread_id", "workgroup_id", "workgroup_size", "num_workgroups"):
            return self.coordinate(op, node.attrs["dim"])
        if op == "global_id":
            return self.global_id(node.attrs["dim"])
        if op == "linear_local_id":
            return self.linear_local_id()
        if op == "param":
            return self.parameter(node.attrs["name"], t)
        if op == "extent":
            return self.extent(node.attrs["array"], node.attrs["dim"])
        if op == "stride":
            return self.stride(node.attrs["array"], node.attrs["dim"])
        args = [self.map[a] for a in node.args]
        if op == "uniform":
            return args[0]
        if op == "select":
            return self.ops.select(args[0], element(t), args[1], args[2])
        source = node.args[0].dtype
        if op == "cast":
            return self.ops.cast(args[0], source, t, element(source), element(t))
        if op == "bitcast":
            return self.ops.bitcast(args[0], source, t)
        return self.ops.emit(node, args, source, element(source))

    def global_id(self, dim: int) -> str:
        c = self.c
        start = c.op(f"mul i64 {self.coordinate('workgroup_id', dim)}, {self.coordinate('workgroup_size', dim)}")
        return c.op(f"add i64 {start}, {self.coordinate('thread_id', dim)}")

    def linear_local_id(self) -> str:
        c = self.c
        x, y, z = (self.coordinate("thread_id", d) for d in range(3))
        below = c.op(f"mul i64 {z}, {self.coordinate('workgroup_size', 1)}")
        plane = c.op(f"add i64 {y}, {below}")
        row = c.op(f"mul i64 {plane}, {self.coordinate('workgroup_size', 0)}")
        return c.op(f"add i64 {x}, {row}")

    # --- control -------------------------------------------------------------------------------------------------
    def if_(self, node: Node) -> None:
        c = self.c
        then, else_ = node.regions
        join = c.block("join")
        yes, no = (c.block(hint) if nodes else join for hint, nodes in (("then", then), ("else", else_)))
        c.cbr(self.map[node.args[0]], yes, no)
        reached = not then or not else_
        for block, nodes in ((yes, then), (no, else_)):
            if nodes:
                c.place(block)
                self.region(nodes)
                reached |= c.open
                c.br(join)
        if reached:
            c.place(join)

    def loop(self, node: Node) -> None:
        self.loop_to(node, self.c.block("exit"))

    def loop_to(self, node: Node, exit_: Block) -> None:
        """A loop that is left to a given block."""
        c = self.c
        body, step = node.regions
        header, tail = c.block("loop"), c.block("step")
        c.br(header)
        c.place(header)
        self.loops.append((tail, exit_))
        self.region(body)
        c.br(tail)
        c.place(tail)
        self.region(step)
        self.repeat(node, header)
        self.loops.pop()
        c.place(exit_)

    def repeat(self, node: Node, header: Block) -> None:
        """The edge from the end of a loop's trip to the next one."""
        if not self.c.open:
            return
        hint = self.unrolling(node)
        mark = ""
        if hint:
            module = self.c.module
            mark = ", !llvm.loop " + module.node(f"distinct !{{{{self}}, {module.node(f'!{{{hint}}}')}}}")
        self.c.at_block.end = f"  br label %{header.label}{mark}"

    def unrolling(self, node: Node) -> str:
        """How far LLVM should unroll a loop, as metadata; empty where it shall decide.

        Its own limit counts instructions before they are combined, of which an address has many; the trips here do not
        depend on it. What is unrolled reads neighbours at constant distances, which become wide accesses.
        """
        if node.attrs.get("rolled"):
            return '!"llvm.loop.unroll.disable"'
        trips = _constant_trips(node)
        size = _straight_size(node.regions)
        if trips is None or trips < 2 or size is None:
            return ""
        if trips * size <= _UNROLLED:
            return '!"llvm.loop.unroll.full"'
        if any(inner.op == "loop" for r in node.regions for inner in walk(r)):
            return ""
        count = 1
        while 2 * count * size <= _UNROLLED // 2 and trips % (2 * count) == 0 and count < 16:
            count *= 2
        return f'!"llvm.loop.unroll.count", i32 {count}' if count > 1 else ""

    def break_(self, node: Node) -> None:
        self.c.br(self.loops[-1][1])

    def break_if(self, node: Node) -> None:
        on = self.c.block("on")
        self.c.cbr(self.map[node.args[0]], self.loops[-1][1], on)
        self.c.place(on)

    def continue_(self, node: Node) -> None:
        self.c.br(self.loops[-1][0])

    def return_(self, node: Node) -> None:
        self.c.br(self.end)

    # --- slots and memory ----------------------------------------------------------------------------------------
    def slot(self, slot: Slot) -> str:
        """Stack memory of a slot, zero at the start; LLVM promotes it to registers."""
        found = self.slots.get(slot)
        if found is None:
            elem = self.slot_element(slot)
            found = self.slots[slot] = self.stack_memory(elem)
            self.c.entry.lines.append(f"  store {elem} {constant(0, elem)}, ptr{self.stack} {found}")
        return found

    def slot_element(self, slot: Slot) -> str:
        """How a slot's value is held."""
        assert isinstance(slot.type, DType)
        return element(slot.type)

    def stack_memory(self, type_: str, align: int = 0) -> str:
        name = self.c.name()
        aligned = f", align {align}" if align else ""
        space = f", {self.stack.strip()}" if self.stack else ""
        self.c.allocas.append(f"  {name} = alloca {type_}{aligned}{space}")
        return name

    def slot_get(self, node: Node) -> None:
        self.map[node] = self.c.op(f"load {element(node.dtype)}, ptr{self.stack} {self.slot(node.attrs['slot'])}")

    def slot_set(self, node: Node) -> None:
        elem = element(node.args[0].dtype)
        self.c.do(f"store {elem} {self.map[node.args[0]]}, ptr{self.stack} {self.slot(node.attrs['slot'])}")

    def place(self, array: Array) -> tuple[str, str]:
        """Pointer and address space of any array."""
        if not isinstance(array, LocalArray):
            return self.pointer(array)
        found = self.local_memory.get(array)
        if found is None:
            size = (array.nbytes + 15) // 16 * 16
            found = self.local_memory[array] = self.stack_memory(f"[{size} x i8]", 16)
            if size <= _INLINE_ZEROS:
                self.c.entry.lines.append(f"  store [{size} x i8] zeroinitializer, ptr{self.stack} {found}, align 16")
            else:
                text = re.sub(r"\bptr\b", f"ptr{self.stack}", _ZERO)
                name = self.c.module.helper("zero.local", lambda: text)
                self.c.entry.lines.append(f"  call void {name}(ptr{self.stack} {found}, i64 {size})")
        return found, self.stack

    def address(self, node: Node, count: int) -> tuple[str, DType]:
        """(`ptr ...` operand text, scalar type) of an access with ``count`` index operands."""
        c, array = self.c, node.attrs["array"]
        t, leaf, size = leaf_offset(array, node.attrs.get("field"))
        base, space = self.place(array)
        offset = ""
        for dim, arg in enumerate(node.args[:count]):
            part = self.map[arg]
            if arg.dtype.bits != 64:
                part = self.ops.cast(part, arg.dtype, index, element(arg.dtype), "i64")
            stride = self.stride(array, dim)
            if stride != "1":
                part = c.op(f"mul i64 {part}, {stride}")
            offset = c.op(f"add i64 {offset}, {part}") if offset else part
        if offset or leaf:
            total = c.op(f"mul i64 {offset}, {size}") if offset else "0"
            if leaf:
                total = c.op(f"add i64 {total}, {leaf}")
            base = c.op(f"getelementptr i8, ptr{space} {base}, i64 {total}")
        return f"ptr{space} {base}", t

    def load(self, node: Node) -> None:
        place, t = self.address(node, len(node.args))
        suffix = self.access_suffix(node, node.attrs["array"])
        raw = self.c.op(f"load {memory_element(t)}, {place}, align {t.itemsize}{suffix}")
        self.map[node] = self.ops.from_memory(raw, t)

    def store(self, node: Node) -> None:
        place, t = self.address(node, len(node.args) - 1)
        text = self.ops.to_memory(self.map[node.args[-1]], t)
        suffix = self.access_suffix(node, node.attrs["array"])
        self.c.do(f"store {memory_element(t)} {text}, {place}, align {t.itemsize}{suffix}")

    # --- atomics -------------------------------------------------------------------------------------------------
    def atomic_rmw(self, node: Node) -> None:
        """Kinds that LLVM has; a target whose hardware lacks one overrides this."""
        place, t = self.address(node, len(node.args) - 1)
        self.rmw_at(node, place, t)

    def rmw_at(self, node: Node, place: str, t: DType) -> None:
        """One `atomicrmw` at ``place``."""
        kind, elem = node.attrs["kind"], memory_element(t)
        if kind in ("min", "max"):
            name = {"int": "", "uint": "u", "bool": "u", "float": "f"}[t.kind] + kind
        else:
            name = (_FLOAT_RMW if t.is_float else _RMW)[kind]
        x = self.ops.to_memory(self.map[node.args[-1]], t)
        order = f"{self.scope(node)}monotonic, align {t.itemsize}{self.atomic_suffix(node, t)}"
        raw = self.c.op(f"atomicrmw {name} {place}, {elem} {x} {order}")
        self.map[node] = self.ops.from_memory(raw, t)

    def atomic_cas(self, node: Node) -> None:
        c = self.c
        place, t = self.address(node, len(node.args) - 2)
        integer, elem = f"i{max(8, t.bits)}", memory_element(t)
        want, new = (self.ops.to_memory(self.map[a], t) for a in node.args[-2:])
        if elem != integer:
            want, new = (c.op(f"bitcast {elem} {v} to {integer}") for v in (want, new))
        order = f"{self.scope(node)}monotonic monotonic"
        pair = c.op(f"cmpxchg {place}, {integer} {want}, {integer} {new} {order}, align {t.itemsize}")
        raw = c.op(f"extractvalue {{ {integer}, i1 }} {pair}, 0")
        if elem != integer:
            raw = c.op(f"bitcast {integer} {raw} to {elem}")
        self.map[node] = self.ops.from_memory(raw, t)

    def atomic_load(self, node: Node) -> None:
        place, t = self.address(node, len(node.args))
        order = "acquire" if node.attrs.get("order") == "acquire" else "monotonic"
        raw = self.c.op(f"load atomic {memory_element(t)}, {place} {self.scope(node)}{order}, align {t.itemsize}")
        self.map[node] = self.ops.from_memory(raw, t)

    def atomic_store(self, node: Node) -> None:
        place, t = self.address(node, len(node.args) - 1)
        order = "release" if node.attrs.get("order") == "release" else "monotonic"
        text = self.ops.to_memory(self.map[node.args[-1]], t)
        self.c.do(f"store atomic {memory_element(t)} {text}, {place} {self.scope(node)}{order}, align {t.itemsize}")

    # --- the device's heap ---------------------------------------------------------------------------------------
    def malloc(self, node: Node) -> None:
        """`malloc` of the device, by work-items that ask for a sensible number; null for the others."""
        c = self.c
        (count,) = self.wide(node.args)
        size = c.op(f"mul i64 {count}, {node.attrs['dtype'].itemsize}")
        sensible = c.op(f"icmp ult i64 {c.op(f'sub i64 {count}, 1')}, {MOST_ELEMENTS}")
        before, ask, join = c.at_block, c.block("ask"), c.block("join")
        c.cbr(sensible, ask, join)
        c.place(ask)
        found = c.op(f"call ptr {c.module.declare('malloc', 'ptr', 'i64')}(i64 {size})")
        c.br(join)
        c.place(join)
        self.map[node] = c.op(f"phi ptr [ {found}, %{ask.label} ], [ null, %{before.label} ]")

    def free(self, node: Node) -> None:
        self.c.do(f"call void {self.c.module.declare('free', 'void', 'ptr')}(ptr {self.map[node.args[0]]})")

    def ptr_add(self, node: Node) -> None:
        c, t = self.c, node.type
        assert isinstance(t, PtrType)
        (by,) = self.wide(node.args[1:])
        step = c.op(f"mul i64 {by}, {t.element.itemsize}")
        self.map[node] = c.op(f"getelementptr i8, ptr {self.map[node.args[0]]}, i64 {step}")

    def ptr_valid(self, node: Node) -> None:
        self.map[node] = self.c.op(f"icmp ne ptr {self.map[node.args[0]]}, null")

    def ptr_load(self, node: Node) -> None:
        t = node.dtype
        raw = self.c.op(f"load {memory_element(t)}, ptr {self.map[node.args[0]]}, align {t.itemsize}")
        self.map[node] = self.ops.from_memory(raw, t)

    def ptr_store(self, node: Node) -> None:
        t = node.args[1].dtype
        text = self.ops.to_memory(self.map[node.args[1]], t)
        self.c.do(f"store {memory_element(t)} {text}, ptr {self.map[node.args[0]]}, align {t.itemsize}")

    def wide(self, nodes: Sequence[Node]) -> list[str]:
        """Integers as i64."""
        return [
            self.map[n] if n.dtype.bits == 64 else self.ops.cast(self.map[n], n.dtype, index, element(n.dtype), "i64")
            for n in nodes
        ]

    def report(self, node: Node) -> None:
        self.debug(node, [self.map[a] for a in node.args])


# The method of each op that is no pure value; by name, so that a target's own method is found.
_HANDLERS = {
    "if": "if_",
    "loop": "loop",
    "break": "break_",
    "break_if": "break_if",
    "continue": "continue_",
    "return": "return_",
    "slot_get": "slot_get",
    "slot_set": "slot_set",
    "load": "load",
    "store": "store",
    "atomic_rmw": "atomic_rmw",
    "atomic_cas": "atomic_cas",
    "atomic_load": "atomic_load",
    "atomic_store": "atomic_store",
    "barrier": "barrier",
    "subgroup_barrier": "barrier",
    "fence": "fence",
    # Targets without matrix units and copy engines lower these first: `magpie.passes.lower_tiles`.
    **{op: op for op in ("tile_fill", "tile_load", "tile_mma", "tile_store", "copy_async", "copy_wait")},
    "grid_sync": "grid_sync",
    "malloc": "malloc",
    "free": "free",
    "ptr_add": "ptr_add",
    "ptr_valid": "ptr_valid",
    "ptr_load": "ptr_load",
    "ptr_store": "ptr_store",
    "assert": "report",
    "print": "report",
    "trap": "report",
}
