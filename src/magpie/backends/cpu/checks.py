"""Checked mode, assert and print: what a gang reports into the record buffer (RULES 17).

A failing access is recorded and skipped, and execution goes on: leaving before a barrier would hang the others.
"""

from __future__ import annotations

from magpie.backends.cpu.memory import MemoryMixin
from magpie.backends.cpu.values import Mask, Value
from magpie.backends.record_format import RECORD_HEADER, RECORD_WORDS
from magpie.dtypes import DType
from magpie.ir.nodes import Node

__all__ = ["ChecksMixin"]


class ChecksMixin(MemoryMixin):
    """Reports."""

    # --- assert and print ----------------------------------------------------------------------------------------
    def assert_(self, node: Node) -> None:
        """assert and trap."""
        if node.op == "trap":
            failed: Mask | None = self.mask
        else:
            if not self.env.checked:
                return  # asserts run in checked mode only
            failed = self.failing(self.map[node.args[0]])
        self.report(self.site(node, node.op, message=node.attrs.get("message")), failed, [])

    def failing(self, cond: Value) -> Mask:
        """Active lanes in which ``cond`` is false."""
        off = self.masks.not_(self.as_mask(cond))
        return off if self.mask is None else self.masks.and_(self.mask, off)

    def print_(self, node: Node) -> None:
        types = [a.dtype.name for a in node.args]
        site = self.site(node, "print", pieces=list(node.attrs["pieces"]), types=types)
        self.report(site, self.mask, [(a.dtype, self.map[a]) for a in node.args])

    def site(self, node: Node, kind: str, **more: object) -> int:
        """The number of a place that reports."""
        loc = node.loc
        place = {"kind": kind, **more}
        if loc is not None:
            place |= {"file": loc.file, "line": loc.line, "col": loc.col, "function": loc.function}
        self.env.sites.append(place)
        return len(self.env.sites) - 1

    def report(self, site: int, lanes: Mask | None, values: list[tuple[DType, Value]]) -> None:
        """A record for each of ``lanes``, in ascending order."""
        c, env = self.c, self.env
        name = self.writer(len(values))
        spilled: list[tuple[str, str]] = []
        for t, v in values:
            text, elem = self.words(t, v)
            spilled.append((text if v.kind == 0 else self.spill(text, elem), "" if v.kind == 0 else elem))
        first = self.linear_local_id(Node("linear_local_id")).text
        buffer = env.launch.tail(env.record_word)
        lane, header, exit_, left, rest = self.begin_lane_loop(lanes)
        local = c.op(f"add i64 {first}, {lane}")
        words = [text if not elem else self.spilled_lane(text, "i64", lane) for text, elem in spilled]
        head = (site + 1) | len(values) << 32
        parts = [f"i64 {x}" for x in (buffer, head, env.group, local, *words)]
        c.do(f"call void @{name}({', '.join(parts)})")
        self.end_lane_loop(header, exit_, left, rest)

    def words(self, t: DType, v: Value) -> tuple[str, str]:
        """A value as 64-bit words: floats as f64, integers extended; a scalar for a uniform value."""
        c = self.c
        ops = self.scalar if v.kind == 0 else self.vector
        text = v.text if v.kind == 0 else self.lanes(v)
        elem = v.elem
        if t.is_float:
            wide = text if elem == "double" else c.op(f"fpext {ops.v('float')} {text} to {ops.v('double')}")
            return c.op(f"bitcast {ops.v('double')} {wide} to {ops.v('i64')}"), "i64"
        if elem == "i64":
            return text, "i64"
        how = "sext" if t.kind == "int" else "zext"
        return c.op(f"{how} {ops.v(elem)} {text} to {ops.v('i64')}"), "i64"

    def writer(self, count: int) -> str:
        """The function that appends a record with ``count`` values."""
        name = f"record.{count}"
        self.c.module.helper(name, lambda: _writer(name, count))
        return name

    # --- checked mode --------------------------------------------------------------------------------------------
    def check_bounds(self, node: Node, indices: list[Value]) -> None:
        """Narrow the mask to the lanes whose indices are in bounds, and report the others."""
        if not self.env.checked or not indices or not node.checked:
            return
        c, array = self.c, node.attrs["array"]
        inside: Mask | None = None
        uniform = ""
        for dim, (v, arg) in enumerate(zip(indices, node.args, strict=False)):
            v = self.as_index(v, arg)
            extent = self.env.launch.extent(array, dim)
            if v.kind == 0:
                ok = c.op(f"icmp ult i64 {v.text}, {extent}")
                uniform = c.op(f"and i1 {uniform}, {ok}") if uniform else ok
                continue
            limit = self.splat_in(c.at_block, extent, "i64")
            lanes = c.op(f"icmp ult <{self.w} x i64> {self.lanes(v, 'i64')}, {limit}")
            mask = self.masks.from_i1(lanes)
            inside = mask if inside is None else self.masks.and_(inside, mask)
        if uniform:
            mask = self.as_mask(self.uni(uniform, "i1"))
            inside = mask if inside is None else self.masks.and_(inside, mask)
        assert inside is not None
        failed = self.masks.not_(inside)
        if self.mask is not None:
            failed = self.masks.and_(self.mask, failed)
            inside = self.masks.and_(self.mask, inside)
        values = [(a.dtype, v) for a, v in zip(node.args, indices, strict=False)]
        self.report(self.site(node, "bounds", array=array.name, types=[t.name for t, _ in values]), failed, values)
        self.mask = inside

    def check_same(self, node: Node, v: Value, one: Value) -> None:
        """Report the lanes in which ``v``, the value of ``node``, is not the scalar ``one`` (RULES 13)."""
        c, m = self.c, self.masks
        if v.elem == "i1":
            a, b = self.as_mask(v), self.as_mask(one)
            other = m.or_(m.and_(a, m.not_(b)), m.and_(b, m.not_(a)))
        else:
            lanes, same = self.lanes(v), self.splat_in(c.at_block, one.text, v.elem)
            bits = {"float": "i32", "double": "i64"}.get(v.elem)
            if bits:  # a NaN is the same as itself
                lanes, same = (c.op(f"bitcast <{self.w} x {v.elem}> {x} to <{self.w} x {bits}>") for x in (lanes, same))
            other = m.from_i1(c.op(f"icmp ne <{self.w} x {bits or v.elem}> {lanes}, {same}"))
        failed = other if self.mask is None else m.and_(self.mask, other)
        self.report(self.site(node, "uniform"), failed, [])

    def check_divisor(self, node: Node) -> None:
        """Report the lanes that divide an integer by zero; the result is that of the op table."""
        t = node.args[1].dtype
        v = self.map[node.args[1]]
        if not t.is_int or (v.literal and v.text != "0"):
            return
        if v.kind == 0:
            ok = self.uni(self.c.op(f"icmp ne {v.elem} {v.text}, 0"), "i1")
        else:
            ok = self.vec(self.c.op(f"icmp ne <{self.w} x {v.elem}> {self.lanes(v)}, zeroinitializer"), "i1")
        self.report(self.site(node, "divide"), self.failing(ok), [])


def _writer(name: str, count: int) -> str:
    size = RECORD_WORDS + count
    args = ", ".join(f"i64 %{x}" for x in ("buffer", "head", "group", "item", *(f"x{k}" for k in range(count))))
    lines = [
        f"define internal void @{name}({args}) nounwind noinline {{",
        "entry:",
        "  %p = inttoptr i64 %buffer to ptr",
        "  %none = icmp eq i64 %buffer, 0",
        "  br i1 %none, label %done, label %take",
        "take:",
        "  %capacity = load i64, ptr %p",
        "  %used.at = getelementptr i64, ptr %p, i64 1",
        f"  %at = atomicrmw add ptr %used.at, i64 {size} monotonic",
        f"  %last = add i64 %at, {size}",
        "  %fits = icmp ule i64 %last, %capacity",
        "  br i1 %fits, label %write, label %done",
        "write:",
        f"  %start = add i64 %at, {RECORD_HEADER}",
        "  %q = getelementptr i64, ptr %p, i64 %start",
    ]
    for k, value in enumerate(["%group", "%item", *(f"%x{k}" for k in range(count))]):
        lines += [f"  %q{k} = getelementptr i64, ptr %q, i64 {k + 1}", f"  store i64 {value}, ptr %q{k}"]
    lines += ["  store i64 %head, ptr %q", "  br label %done", "done:", "  ret void", "}"]
    return "\n".join(lines)
