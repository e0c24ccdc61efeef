"""What a work-item of a GPU target reports: `print`, failed asserts, traps and, in checked mode, faults (RULES 17).

Reports go into the record buffer that the cpu target has too (`magpie.backends.record_format`): the host prints them,
or raises the error with the source line, when the launch is done. A faulting access is recorded and skipped, a load
gives 0, and the work-item goes on: leaving before a barrier would hang the others.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from magpie.backends.llvm.emitter import constant, element
from magpie.backends.llvm.simt_index import IndexSimt
from magpie.backends.record_format import RECORD_HEADER, RECORD_WORDS
from magpie.dtypes import DType, index
from magpie.ir.nodes import Node

__all__ = ["ReportingSimt"]

_DIVISIONS = frozenset(["floordiv", "mod", "tdiv", "trem"])


class ReportingSimt(IndexSimt):
    """A `Simt` with reports; ``sites`` describes the places they come from."""

    checked = False

    # The address space of buffers, as it stands behind a pointer type.
    buffer_space = " addrspace(1)"
    # What this target calls the scopes "workgroup", "subgroup" and "device", as LLVM writes them before an order.
    scopes: ClassVar[dict[str, str]]

    def __init__(self, *args: Any, checked: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.checked = checked
        self.sites: list[dict[str, Any]] = []

    @abstractmethod
    def record_buffer(self) -> str:
        """The address of the record buffer as an i64."""

    def linear_group(self) -> str:
        """The number of the workgroup, x fastest."""
        c = self.c
        x, y, z = (self.coordinate("workgroup_id", d) for d in range(3))
        rows, columns = (self.coordinate("num_workgroups", d) for d in (1, 0))
        plane = c.op(f"mul i64 {z}, {rows}")
        row = c.op(f"mul i64 {c.op(f'add i64 {y}, {plane}')}, {columns}")
        return c.op(f"add i64 {x}, {row}")

    # --- assert, print, trap -------------------------------------------------------------------------------------
    def debug(self, node: Node, args: list[str]) -> None:
        if node.op == "print":
            types = [a.dtype for a in node.args]
            site = self.site(node, "print", pieces=list(node.attrs["pieces"]), types=[t.name for t in types])
            self.append(site, list(zip(types, args, strict=True)))
        elif node.op == "trap":
            self.append(self.site(node, "trap", message=node.attrs.get("message")), [])
        elif self.checked:  # asserts run in checked mode only
            site = self.site(node, node.attrs.get("kind", "assert"), message=node.attrs.get("message"))
            self.append_unless(args[0], site, [])

    def site(self, node: Node, kind: str, **more: object) -> int:
        """The number of a place that reports."""
        loc = node.loc
        place: dict[str, Any] = {"kind": kind, **more}
        if loc is not None:
            place |= {"file": loc.file, "line": loc.line, "col": loc.col, "function": loc.function}
        self.sites.append(place)
        return len(self.sites) - 1

    def append_unless(self, fine: str, site: int, values: list[tuple[DType, str]]) -> None:
        """Report where ``fine`` is false."""
        bad, on = self.c.block("bad"), self.c.block("on")
        self.c.cbr(fine, on, bad)
        self.c.place(bad)
        self.append(site, values)
        self.c.br(on)
        self.c.place(on)

    def append(self, site: int, values: list[tuple[DType, str]]) -> None:
        """Append a record."""
        c, count = self.c, len(values)
        name = f"record.{count}"
        c.module.helper(name, lambda: _writer(name, count, self.buffer_space, self.scopes["device"]))
        words = [self.word(t, v) for t, v in values]
        head = (site + 1) | count << 32
        parts = (self.record_buffer(), str(head), self.linear_group(), self.linear_local_id(), *words)
        c.do(f"call void @{name}({', '.join(f'i64 {x}' for x in parts)})")

    def word(self, t: DType, value: str) -> str:
        """A value as 64 bits: floats as f64, integers extended."""
        c, elem = self.c, element(t)
        if t.is_float:
            wide = value if elem == "double" else c.op(f"fpext float {value} to double")
            return c.op(f"bitcast double {wide} to i64")
        return value if elem == "i64" else c.op(f"{'sext' if t.kind == 'int' else 'zext'} {elem} {value} to i64")

    # --- checked mode --------------------------------------------------------------------------------------------
    def value(self, node: Node) -> str:
        if self.checked and node.checked and node.op in _DIVISIONS and node.args[1].dtype.is_int:
            by, elem = self.map[node.args[1]], element(node.args[1].dtype)
            if by == "0" or by.startswith("%"):
                fine = self.c.op(f"icmp ne {elem} {by}, 0")
                self.append_unless(fine, self.site(node, "divide"), [])
        return super().value(node)

    def in_allocation(self, pointer: Node) -> tuple[str, list[tuple[DType, str]]]:
        """Whether an access through a pointer is to memory that `malloc` gave, and the element."""
        c, at = self.c, "0"
        while pointer.op == "ptr_add":
            (by,) = self.wide(pointer.args[1:])
            at = by if at == "0" else c.op(f"add i64 {at}, {by}")
            pointer = pointer.args[0]
        below = c.op(f"icmp ult i64 {at}, {self.wide(pointer.args)[0]}")
        there = c.op(f"icmp ne ptr {self.map[pointer]}, null")
        return c.op(f"and i1 {below}, {there}"), [(index, at)]

    def visit(self, node: Node) -> None:
        c = self.c
        if not (self.checked and node.checked):
            return super().visit(node)
        if node.op in ("ptr_load", "ptr_store"):
            name, inside, places = "malloc", *self.in_allocation(node.args[0])
        elif "array" in node.attrs and node.op not in ("extent", "stride") and node.attrs["array"].rank:
            array = node.attrs["array"]
            indices = node.args[: array.rank]
            name, inside, places = array.name, "", [(a.dtype, self.map[a]) for a in indices]
            for dim, at in enumerate(self.wide(indices)):
                ok = c.op(f"icmp ult i64 {at}, {self.extent(array, dim)}")
                inside = c.op(f"and i1 {inside}, {ok}") if inside else ok
        else:
            return super().visit(node)
        site = self.site(node, "bounds", array=name, types=[t.name for t, _ in places])
        good, bad, join = c.block("good"), c.block("bad"), c.block("join")
        c.cbr(inside, good, bad)
        c.place(bad)
        self.append(site, places)
        from_bad = c.at_block
        c.br(join)
        c.place(good)
        super().visit(node)
        from_good = c.at_block
        c.br(join)
        c.place(join)
        if isinstance(node.type, DType):
            elem = element(node.type)
            zero = constant(0, elem)
            self.map[node] = c.op(f"phi {elem} [ {self.map[node]}, %{from_good.label} ], [ {zero}, %{from_bad.label} ]")
        return None


def _writer(name: str, count: int, space: str, scope: str) -> str:
    """The function that appends a record with ``count`` values; the head comes last, so that a torn record shows."""
    size = RECORD_WORDS + count
    args = ", ".join(f"i64 %{x}" for x in ("buffer", "head", "group", "item", *(f"x{k}" for k in range(count))))
    p = f"ptr{space}"
    lines = [
        f"define internal void @{name}({args}) noinline {{",
        "entry:",
        f"  %p = inttoptr i64 %buffer to {p}",
        "  %none = icmp eq i64 %buffer, 0",
        "  br i1 %none, label %done, label %take",
        "take:",
        f"  %capacity = load i64, {p} %p, align 8",
        f"  %used.at = getelementptr i64, {p} %p, i64 1",
        f"  %at = atomicrmw add {p} %used.at, i64 {size} {scope}monotonic, align 8",
        f"  %last = add i64 %at, {size}",
        "  %fits = icmp ule i64 %last, %capacity",
        "  br i1 %fits, label %write, label %done",
        "write:",
        f"  %start = add i64 %at, {RECORD_HEADER}",
        f"  %q = getelementptr i64, {p} %p, i64 %start",
    ]
    for k, value in enumerate(["%group", "%item", *(f"%x{k}" for k in range(count))]):
        lines += [f"  %q{k} = getelementptr i64, {p} %q, i64 {k + 1}", f"  store i64 {value}, {p} %q{k}, align 8"]
    lines += [f"  store i64 %head, {p} %q, align 8", "  br label %done", "done:", "  ret void", "}"]
    return "\n".join(lines)
