"""Copies from buffers to shared memory: `cp.async` of 16 bytes where both sides are aligned, from sm_80 on.

What is aligned is known of the shared side when the kernel is compiled and of the buffer when it runs: there is code
for blocks that lie inside of the array, for those that go beyond (whose rest is filled with zeros), and, where 16 bytes
do not lie as they should, a loop over single elements.
"""

from __future__ import annotations

from magpie.backends.llvm.emitter import memory_element
from magpie.backends.llvm.simt_kernel import GLOBAL, SHARED
from magpie.backends.ptx.tiles import TileKernel
from magpie.dtypes import DType
from magpie.ir.nodes import Array, Node

__all__ = ["CopyKernel"]

_CHUNK = 16

# A work-item's part of a copy is straight code up to this many chunks.
_STRAIGHT = 32

_ASYNC = "llvm.nvvm.cp.async.cg.shared.global.16"


class CopyKernel(TileKernel):
    """Emits `copy_async` and `copy_wait`."""

    def copy_wait(self, node: Node) -> None:
        self.c.module.declare("llvm.nvvm.cp.async.wait.group", "void", "i32")
        self.c.do(f"call void @llvm.nvvm.cp.async.wait.group(i32 {node.attrs['pending']})")

    def copy_async(self, node: Node) -> None:
        c, attrs = self.c, node.attrs
        source, dims, shape = attrs["array"], attrs["dims"], attrs["shape"]
        indices = self.origin(node)
        start, into = indices[: source.rank], indices[source.rank :]
        inside, edge, single, join = (c.block(hint) for hint in ("inside", "edge", "single", "join"))
        test = self.chunks_fit(node, start)
        if test is None:
            c.br(single)
        else:
            wide = c.block("wide")
            c.cbr(test, wide, single)
            c.place(wide)
            c.cbr(self.whole_block(source, start, dims, shape), inside, edge)
            for block, clip in ((inside, False), (edge, True)):
                c.place(block)
                self.copy_chunks(node, start, into, clip=clip)
                c.br(join)
        c.place(single)
        self.copy_elements(node, start, into)
        c.br(join)
        c.place(join)
        c.module.declare("llvm.nvvm.cp.async.commit.group", "void", "")
        c.do("call void @llvm.nvvm.cp.async.commit.group()")

    def chunks_fit(self, node: Node, start: list[str]) -> str | None:
        """Whether rows consist of aligned chunks, as an i1; None where the shared side's do not."""
        c, attrs = self.c, node.attrs
        source, target = attrs["array"], attrs["target"]
        assert isinstance(source.type, DType)
        size = source.type.itemsize
        size_ = self.kernel.known_workgroup
        if attrs["shape"][1] * size % _CHUNK or size_ is None:
            return None
        if attrs["target_dims"][1] != target.rank - 1 or attrs["dims"][1] != source.rank - 1:
            return None
        for d, arg in enumerate(node.args[source.rank :]):
            stride = self.stride(target, d)
            if stride.startswith("%") or self.divisors.of(arg) * int(stride) * size % _CHUNK:
                return None
            if d == attrs["target_dims"][0] and int(stride) * size % _CHUNK:
                return None
        total = attrs["shape"][0] * attrs["shape"][1] * size // _CHUNK
        if -(-total // (size_[0] * size_[1] * size_[2])) > _STRAIGHT:
            return None
        # What must be a multiple of 16: the address, and each index times its stride.
        found = ""
        if source.name not in self.kernel.facts.aligned:
            base, _ = self.place(source)
            found = self.in_entry(f"ptrtoint ptr{GLOBAL} {base} to i64")
        for d, arg in enumerate(node.args[: source.rank]):
            stride = self.stride(source, d)
            if d == attrs["dims"][0]:
                term = self.product(stride, str(size))
            else:
                divisor = self.divisors.of(arg) * size
                if divisor % _CHUNK == 0 or (not stride.startswith("%") and divisor * int(stride) % _CHUNK == 0):
                    term = "0"
                else:
                    term = self.product(self.product(start[d], stride), str(size))
            if d == source.rank - 1 and stride != "1":  # neighbours must be
                term = self.sum_of(term, self.product(c.op(f"xor i64 {stride}, 1"), str(_CHUNK + 1)))
            if term != "0":
                found = c.op(f"or i64 {found}, {term}") if found else term
        if not found:
            return "true"
        rest = c.op(f"and i64 {found}, {_CHUNK - 1}")
        return c.op(f"icmp eq i64 {rest}, 0")

    def copy_chunks(self, node: Node, start: list[str], into: list[str], *, clip: bool) -> None:
        """Work-item l takes the chunks l, l + n, l + 2n, ... in rows."""
        c, attrs = self.c, node.attrs
        source, target = attrs["array"], attrs["target"]
        assert isinstance(source.type, DType)
        size = source.type.itemsize
        per = _CHUNK // size
        rows, cols = attrs["shape"]
        width = cols // per
        group = self.kernel.known_workgroup
        assert group is not None
        items = group[0] * group[1] * group[2]
        own = self.linear_local_id()
        total = rows * width
        regular = items % width == 0
        for first in range(0, total, items):
            join = None
            number = self.sum_of(own, str(first)) if not regular else own
            if total - first < items:
                there, join = c.block("there"), c.block("next")
                c.cbr(c.op(f"icmp ult i64 {own}, {total - first}"), there, join)
                c.place(there)
            row, chunk = c.op(f"udiv i64 {number}, {width}"), c.op(f"urem i64 {number}, {width}")
            more = first // width if regular else 0
            col = self.product(chunk, str(per))
            at, to = list(start), list(into)
            for place, dims in ((at, attrs["dims"]), (to, attrs["target_dims"])):
                place[dims[0]] = self.sum_of(place[dims[0]], row)
                place[dims[1]] = self.sum_of(place[dims[1]], col)
            there_ = self.address_of(source, at, attrs["dims"][0], more)
            here = self.address_of(target, to, attrs["target_dims"][0], more)
            if clip:
                inside = self.sum_of(at[attrs["dims"][0]], str(more))
                self.chunk(here, there_, self.bytes_inside(source, inside, at, attrs["dims"], per))
            else:
                self.chunk(here, there_, None)
            if join is not None:
                c.br(join)
                c.place(join)

    def address_of(self, array: Array, at: list[str], dim: int, more: int) -> str:
        """The address of an element ``more`` places along ``dim`` behind ``at``."""
        base, space = self.place(array)
        place = self.moved(base, space, self.offset(array, at), array.type.itemsize)
        return self.moved(place, space, self.product(self.stride(array, dim), str(more)), array.type.itemsize)

    def chunk(self, target: str, source: str, count: str | None) -> None:
        """Copy 16 bytes, of which ``count`` are read and the others are zero."""
        operands = [f"ptr{SHARED}", f"ptr{GLOBAL}", *(["i32"] if count else [])]
        name = _ASYNC + (".s" if count else "")
        self.c.module.declare(name, "void", ", ".join(operands))
        values = [target, source, *([count] if count else [])]
        given = ", ".join(f"{t} {v}" for t, v in zip(operands, values, strict=True))
        self.c.do(f"call void @{name}({given})")

    def bytes_inside(self, array: Array, row: str, at: list[str], dims: tuple[int, int], per: int) -> str:
        """How many bytes of the chunk at ``at`` belong to the array."""
        c = self.c
        exists = c.op(f"icmp ult i64 {row}, {self.extent(array, dims[0])}")
        left = c.op(f"sub i64 {self.extent(array, dims[1])}, {at[dims[1]]}")
        before = c.op(f"icmp slt i64 {at[dims[1]]}, 0")
        some = self.ops.intrinsic("smax", "i64", [self.ops.intrinsic("smin", "i64", [left, str(per)]), "0"])
        some = self.ops.select(before, "i64", "0", some)
        count = c.op(f"trunc i64 {self.product(some, str(array.type.itemsize))} to i32")
        return self.ops.select(exists, "i32", count, "0")

    def copy_elements(self, node: Node, start: list[str], into: list[str]) -> None:
        """One element at a time, in a loop."""
        c, attrs = self.c, node.attrs
        source, target = attrs["array"], attrs["target"]
        assert isinstance(source.type, DType)
        elem = memory_element(source.type)
        rows, cols = attrs["shape"]
        x, y, z = (self.coordinate("workgroup_size", d) for d in range(3))
        items = self.product(self.product(x, y), z)
        counter = self.stack_memory("i64")
        c.do(f"store i64 {self.linear_local_id()}, ptr {counter}")
        header, body, there, join, done = (c.block(h) for h in ("copy", "element", "there", "zero", "copied"))
        c.br(header)
        c.place(header)
        number = c.op(f"load i64, ptr {counter}")
        c.cbr(c.op(f"icmp ult i64 {number}, {rows * cols}"), body, done)
        c.place(body)
        row, col = c.op(f"udiv i64 {number}, {cols}"), c.op(f"urem i64 {number}, {cols}")
        at, to = list(start), list(into)
        for place, dims in ((at, attrs["dims"]), (to, attrs["target_dims"])):
            place[dims[0]] = self.sum_of(place[dims[0]], row)
            place[dims[1]] = self.sum_of(place[dims[1]], col)
        before = c.at_block
        c.cbr(self.exists(source, at, attrs["dims"], (0, 0)), there, join)
        c.place(there)
        raw = c.op(
            f"load {elem}, ptr{GLOBAL} {self.address_of(source, at, attrs['dims'][0], 0)}, align {source.type.itemsize}"
        )
        end = c.at_block
        c.br(join)
        c.place(join)
        zero = "0" if elem.startswith("i") else "0.0"
        value = c.op(f"phi {elem} [ {raw}, %{end.label} ], [ {zero}, %{before.label} ]")
        here = self.address_of(target, to, attrs["target_dims"][0], 0)
        c.do(f"store {elem} {value}, ptr{SHARED} {here}, align {source.type.itemsize}")
        c.do(f"store i64 {c.op(f'add i64 {number}, {items}')}, ptr {counter}")
        c.br(header)
        c.place(done)
