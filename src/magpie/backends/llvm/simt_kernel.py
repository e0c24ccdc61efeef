"""A kernel as an LLVM module for a GPU: the entry, its parameters, coordinates and memory.

Parameters stand in the order of the layout, so that the argument block of the layout is the one that a launch takes: of
a buffer its address, extents and strides; scalars by themselves; structs by value. Behind them come the extents of
dynamic shared arrays, the address of the word at which workgroups meet where there is a `grid_sync`, the address of
the record buffer where something is reported, and the number of workgroups along the dimension where a block runs
several of them.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from typing import Any, ClassVar

from magpie.backends.base import Options
from magpie.backends.llvm.emitter import Module, constant, memory_element
from magpie.backends.llvm.simt_atomics import AtomicSimt
from magpie.dtypes import DType, StructType, bf16, by_name, f16
from magpie.ir.layout import BufferField, KernelLayout, ScalarField, scalar_places
from magpie.ir.nodes import Array, Buffer, ConstArray, Kernel, Node, walk
from magpie.ir.ops import Effect
from magpie.passes.coarsen import groups_name

__all__ = ["GLOBAL", "SHARED", "DeviceKernel", "entry_name"]

GLOBAL, SHARED = " addrspace(1)", " addrspace(3)"
FAST = "reassoc nsz arcp contract afn "

_GROUPS = frozenset(groups_name(dim) for dim in range(3))

# Each array in shared memory begins at a multiple of this: the widest access of a thread.
_ALIGN = 16


def entry_name(kernel: str) -> str:
    """The symbol of a kernel's entry."""
    return "magpie_" + re.sub(r"\W", "_", kernel, flags=re.ASCII)


class DeviceKernel(AtomicSimt):
    """Emits one entry into ``module``. ``original`` is the kernel, ``ready`` what passes made of it; ``suffix`` tells
    the entry from others of the module."""

    # Bytes of shared memory that variables of a module may have; more is asked for at launch.
    static_shared: int
    # Limits of the API, exclusive, along each dimension: op -> (x, y, z).
    most: ClassVar[dict[str, tuple[int, int, int]]]
    # Functions that the device's own system has.
    externals: ClassVar[frozenset[str]] = frozenset()
    # How a struct is passed, the attribute that says so, and the address space in which it lies.
    by_value, parameter_space = "byval", ""

    def __init__(
        self,
        original: Kernel,
        ready: Kernel,
        layout: KernelLayout,
        arch: str,
        options: Options,
        module: Module,
        suffix: str = "",
    ) -> None:
        self.suffix = suffix
        super().__init__(ready, module, fast=FAST if original.fastmath else "", checked=options.checked)
        self.original = original
        self.layout = layout
        self.fields = {p.name: p for p in layout.params}
        self.names = {p.name: f"%a{k}" for k, p in enumerate(layout.params)}
        self.shared_fields = {s.name: s for s in layout.shared}
        self.cached: dict[str, str] = {}
        self.shared_plan: dict[Array, str] = {}
        self.info: dict[str, Any] = {"entry": entry_name(original.name) + suffix, "arch": arch}
        self.prepare_masks(ready)
        start = self.c.block("start")
        self.c.place(start)
        self.assume_rows()
        self.plan_shared()
        if self.crosses:
            self.mask = self.entry_mask()
        self.body()
        self.c.ret()
        self.c.entry.end = f"  br label %{start.label}"
        module.functions.append(self.c.function(self.header()))
        self.info["sites"] = self.sites
        self.info["records"] = bool(self.sites)

    @property
    def text(self) -> str:
        """The module that this entry is in."""
        return self.c.module.text()

    # --- the entry -----------------------------------------------------------------------------------------------
    @abstractmethod
    def header(self) -> str:
        """The definition of the entry up to its body."""

    def parameters(self) -> str:
        """The parameters of the entry."""
        params: list[str] = []
        facts = self.kernel.facts
        buffers = {b.name: b for b in self.kernel.buffers}
        # What is waited for is written by others; and LLVM cannot select an atomic read of constant memory.
        watched = {n.attrs["array"].name for n in walk(self.kernel.body) if n.op == "atomic_load"}
        # To LLVM a barrier is a call, which cannot reach what an argument without aliases points at: it would keep a
        # value across the barrier at which another work-item's becomes visible.
        handed_on = any(_orders(n) for n in walk(self.kernel.body))
        for p in self.layout.params:
            name = self.names[p.name]
            if isinstance(p, BufferField):
                # (LLVM adds readonly by itself, and of both it makes a read through the constant cache.)
                access = buffers[p.name].access if p.name in buffers else "none"
                own = p.name not in watched and not (handed_on and access in ("write", "read_write"))
                marks = ["noalias"] if facts.noalias and own else []
                if p.name not in watched:
                    marks += {"read": ["readonly"], "write": ["writeonly"], "none": ["readnone"]}.get(access, [])
                align = _ALIGN if p.name in facts.aligned else self.natural(p.name)
                params.append(" ".join([f"ptr{GLOBAL}", *marks, f"align {align}", name]))
                params += [f"i64 {name}.n{d}" for d in range(p.rank)] + [f"i64 {name}.s{d}" for d in range(p.rank)]
            elif p.leaves or p.type == "struct":
                how = f"{self.by_value}([{p.size} x i8]) align {self.natural(p.name)}"
                params.append(f"ptr{self.parameter_space} {how} {name}")
            else:
                params.append(f"{_parameter_type(p)} {name}")
        for s in self.layout.shared:
            if s.dynamic:
                params += [f"i64 {self.extent_name(s.name, d)}" for d in range(len(s.extents))]
        if self.info.get("cooperative"):
            params.append("i64 %grid")
        if self.sites:
            params.append("i64 %records")
        if any(s.name in _GROUPS for s in self.kernel.scalars):
            params.append("i64 %groups")
        return ", ".join(params)

    def assume_rows(self) -> None:
        """Tell LLVM what the fact `aligned` says of arrays of several rows: what a row's length is a multiple of."""
        facts = self.kernel.facts
        for b in self.kernel.buffers:
            if b.rank < 2 or b.name not in facts.aligned or b.name not in facts.contiguous:
                continue
            by = _ALIGN // math.gcd(_ALIGN, b.type.itemsize)
            if by > 1:
                rest = self.in_entry(f"and i64 {self.extent(b, b.rank - 1)}, {by - 1}")
                self.c.module.assume(self.c.entry, self.in_entry(f"icmp eq i64 {rest}, 0"))

    def natural(self, name: str) -> int:
        """The alignment that a parameter's type gives."""
        type_ = next(p.type for p in self.original.params if p.name == name)
        return type_.align if isinstance(type_, StructType) else type_.itemsize

    def extent_name(self, array: str, dim: int) -> str:
        return f"%shared.{list(self.shared_fields).index(array)}.{dim}"

    # --- the whole grid ------------------------------------------------------------------------------------------
    def grid_sync(self, node: Node) -> None:
        """One work-item of each workgroup meets those of the others at a word in global memory.

        Each adds to it so that the sum over the grid is 2^31: the top bit turns when the last one has come, and nothing
        needs to be reset. All workgroups run at once: the launch is a cooperative one.
        """
        c = self.c
        self.info["cooperative"] = True
        name = c.module.helper("grid.barrier", lambda: _GRID_BARRIER.replace("SCOPE ", self.scopes["device"]))
        self.workgroup_barrier()
        meet, on = c.block("meet"), c.block("on")
        c.cbr(c.op(f"icmp eq i64 {self.linear_local_id()}, 0"), meet, on)
        c.place(meet)
        x, y, z = (self.coordinate("num_workgroups", d) for d in range(3))
        groups = c.op(f"mul i64 {c.op(f'mul i64 {x}, {y}')}, {z}")
        c.do(f"call void {name}(i64 %grid, i64 {groups}, i64 {self.linear_group()})")
        c.br(on)
        c.place(on)
        self.workgroup_barrier()

    # --- coordinates ---------------------------------------------------------------------------------------------
    def in_entry(self, text: str) -> str:
        """A value made once, in the entry block."""
        found = self.cached.get(text)
        if found is None:
            found = self.cached[text] = self.c.op_in(self.c.entry, text)
        return found

    @abstractmethod
    def special(self, op: str, dim: int) -> str:
        """A coordinate as an i32, made in the entry block."""

    def bounds(self, op: str, dim: int) -> tuple[int, int]:
        """The least value of a coordinate and what it stays below."""
        size = self.kernel.known_workgroup
        low = 1 if op in ("workgroup_size", "num_workgroups") else 0
        return low, size[dim] if op == "thread_id" and size is not None else self.most[op][dim]

    def coordinate(self, op: str, dim: int) -> str:
        size = self.kernel.known_workgroup
        if size is not None and op == "workgroup_size":
            return str(size[dim])
        if size is not None and op == "thread_id" and size[dim] == 1:
            return "0"
        return self.in_entry(f"zext nneg i32 {self.special(op, dim)} to i64")

    def global_id(self, dim: int) -> str:
        if not self.kernel.facts.small:  # fewer than 2**31 work-items in all
            return super().global_id(dim)
        size = self.kernel.known_workgroup
        by = str(size[dim]) if size is not None else self.special("workgroup_size", dim)
        start = self.in_entry(f"mul nuw nsw i32 {self.special('workgroup_id', dim)}, {by}")
        if size is None or size[dim] > 1:
            start = self.in_entry(f"add nuw nsw i32 {start}, {self.special('thread_id', dim)}")
        return self.in_entry(f"zext nneg i32 {start} to i64")

    @abstractmethod
    def entry_mask(self) -> str:
        """The lanes that exist in this work-item's subgroup: the last one of a workgroup may be partial."""

    def full_subgroups(self) -> bool:
        """Whether every subgroup is known to have all its lanes."""
        size = self.kernel.known_workgroup
        return size is not None and size[0] * size[1] * size[2] % self.lanes.size == 0

    def record_buffer(self) -> str:
        return "%records"

    # --- parameters and arrays -----------------------------------------------------------------------------------
    def parameter(self, name: str, t: DType) -> str:
        if name in _GROUPS:
            return "%groups"
        field = self.fields.get(name)
        if field is not None:
            raw = self.names[name]
        else:  # a leaf of a struct, called p.x
            owner = self.fields[name.partition(".")[0]]
            at = scalar_places(self.layout)[name][1] - owner.offset
            space = self.parameter_space
            place = self.in_entry(f"getelementptr i8, ptr{space} {self.names[owner.name]}, i64 {at}")
            raw = self.in_entry(f"load {memory_element(t)}, ptr{space} {place}, align {t.itemsize}")
        return self.ops.from_memory(raw, t)

    def pointer(self, array: Array) -> tuple[str, str]:
        if isinstance(array, Buffer):
            return self.names[array.name], GLOBAL
        if isinstance(array, ConstArray):
            return self.table(array), GLOBAL
        return self.shared_plan[array], SHARED

    def table(self, array: ConstArray) -> str:
        """A table of constants, in global memory: lanes may read it at different places."""
        assert isinstance(array.type, DType)
        name, t = f"table.{array.name}", array.type
        elem = memory_element(t)
        values = ", ".join(f"{elem} {_literal(v, t)}" for v in array.values)
        self.c.module.globals[name] = (
            f"@{name} = internal unnamed_addr addrspace(1) constant [{len(array.values)} x {elem}] [{values}], align 16"
        )
        return f"@{name}"

    def extent(self, array: Array, dim: int) -> str:
        if isinstance(array, Buffer):
            given = f"{self.names[array.name]}.n{dim}"
            if not self.kernel.facts.small:
                return given
            low = self.in_entry(f"trunc i64 {given} to i32")  # so that LLVM knows it
            return self.in_entry(f"zext nneg i32 {low} to i64")
        size = array.shape[dim]  # type: ignore[attr-defined]
        return str(size) if isinstance(size, int) else self.extent_name(self.shared_name(array), dim)

    def shared_name(self, array: Array) -> str:
        """The name that the layout has for a shared array: a leaf of one of structs is called s.x."""
        return array.name if array.name in self.shared_fields else array.name.partition(".")[0]

    def stride(self, array: Array, dim: int) -> str:
        if isinstance(array, Buffer) and array.name not in self.kernel.facts.contiguous:
            return f"{self.names[array.name]}.s{dim}"
        out = "1"
        for d in range(array.rank - 1, dim, -1):
            n = self.extent(array, d)
            if n.isdigit() and out.isdigit():
                out = str(int(n) * int(out))
            else:
                out = n if out == "1" else out if n == "1" else self.in_entry(f"mul i64 {out}, {n}")
        return out

    # --- shared memory -------------------------------------------------------------------------------------------
    def plan_shared(self) -> None:
        """Where each shared array lies. Arrays of fixed size are variables of the module, up to what any kernel may
        have; beyond, and where sizes are known at launch only, they share the block that the launch asks for."""
        fixed = [s for s in self.kernel.shared if not s.dynamic]
        total = sum(_round(s.nbytes) for s in fixed)
        module = self.c.module
        self.info["static_shared"] = total
        asked = total > self.static_shared
        at = "0"
        dynamic: list[tuple[int, list[int]]] = []
        block = "@magpie_shared"
        if asked or len(fixed) < len(self.kernel.shared):
            module.globals["magpie_shared"] = f"{block} = external addrspace(3) global [0 x i8], align {_ALIGN}"
        offset = 0
        for k, s in enumerate(fixed):
            if asked:
                self.shared_plan[s] = self.in_entry(f"getelementptr i8, ptr{SHARED} {block}, i64 {offset}")
                offset += _round(s.nbytes)
            else:
                name = f"@shared.{k}{self.suffix}"
                module.globals[name] = f"{name} = internal addrspace(3) global [{s.nbytes} x i8] undef, align {_ALIGN}"
                self.shared_plan[s] = name
        at = str(offset)
        words = self.extent_words()
        for s in self.kernel.shared:
            if not s.dynamic:
                continue
            self.shared_plan[s] = self.in_entry(f"getelementptr i8, ptr{SHARED} {block}, i64 {at}")
            field = self.shared_name(s)
            dynamic.append((s.type.itemsize, [words[field] + d for d in range(s.rank)]))
            size = str(s.type.itemsize)
            for d in range(s.rank):
                size = self.in_entry(f"mul i64 {size}, {self.extent(s, d)}")
            end = self.in_entry(f"add i64 {at}, {size}")
            at = self.in_entry(f"and i64 {self.in_entry(f'add i64 {end}, {_ALIGN - 1}')}, {-_ALIGN}")
        self.info["fixed_shared"] = offset
        self.info["dynamic_shared"] = dynamic

    def extent_words(self) -> dict[str, int]:
        """Dynamic shared array -> the number of its first extent among those that a launch passes."""
        words: dict[str, int] = {}
        count = 0
        for s in self.layout.shared:
            if s.dynamic:
                words[s.name] = count
                count += len(s.extents)
        return words


_GRID_BARRIER = """define internal void @grid.barrier(i64 %word, i64 %groups, i64 %group) noinline {
entry:
  %p = inttoptr i64 %word to ptr addrspace(1)
  %count = trunc i64 %groups to i32
  %last = sub i32 -2147483647, %count
  %first = icmp eq i64 %group, 0
  %mine = select i1 %first, i32 %last, i32 1
  fence SCOPE acq_rel
  %old = atomicrmw add ptr addrspace(1) %p, i32 %mine SCOPE monotonic, align 4
  br label %wait
wait:
  %now = load atomic i32, ptr addrspace(1) %p SCOPE monotonic, align 4
  %turned = xor i32 %now, %old
  %done = icmp slt i32 %turned, 0
  br i1 %done, label %met, label %wait
met:
  fence SCOPE acq_rel
  ret void
}"""


def _orders(node: Node) -> bool:
    """Whether a node makes what other work-items wrote visible to this one."""
    return node.info.effect is Effect.SYNC or node.attrs.get("order") in ("acquire", "release", "acq_rel", "seq_cst")


def _round(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN


def _parameter_type(field: ScalarField) -> str:
    return memory_element(by_name(field.type))


def _literal(value: Any, t: DType) -> str:
    """A constant as it stands in memory."""
    import numpy as np

    if t is f16 or t is bf16:
        return str(int(np.array(value, t.numpy).view(np.uint16)))
    return constant(int(value) if t.is_bool else value, memory_element(t))
