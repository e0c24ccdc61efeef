"""The stable printed form of Kernel IR. Golden tests and cache keys use it: equal kernels print equally.

Values are numbered in program order. A type is printed where the op table does not fix it. With ``locations`` each line
ends in the user's file and line; cache keys leave them out only where the target does not use them.
"""

from __future__ import annotations

import os
from typing import Any

from magpie.dtypes import DType, StructType
from magpie.ir.nodes import (
    Array,
    Buffer,
    Function,
    HostExpr,
    Kernel,
    Node,
    Region,
    Slot,
)
from magpie.ir.tiles import Tile

__all__ = ["Printer", "print_expr", "print_kernel", "print_type"]


def print_type(type_: Any) -> str:
    """A type, structs spelt out: ``struct P{x: f32 @0, n: i32 @4; 8}``."""
    if isinstance(type_, StructType):
        inner = ", ".join(f"{f.name}: {print_type(f.type)} @{f.offset}" for f in type_.fields)
        return f"struct {type_.name}{{{inner}; {type_.itemsize}}}"
    return repr(type_)


def print_expr(expr: int | HostExpr) -> str:
    """A host expression in prefix form: ``(mul (extent x 0) 4)``."""
    if isinstance(expr, int):
        return str(expr)
    if expr[0] == "const":
        return str(expr[1])
    return "(" + " ".join(print_expr(e) if isinstance(e, tuple) else str(e) for e in expr) + ")"


def _literal(value: Any, type_: Any) -> str:
    if isinstance(type_, DType) and type_.is_float:
        if value != value:  # one NaN in the bit contract
            return "nan"
        # repr of a double reads back exactly; the sign of zero shows
        return repr(float(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


class Printer:
    """Lines of text, and the names of values, slots and arrays in it. A value keeps the name of its first line."""

    def __init__(self, locations: bool) -> None:
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.objects: dict[int, str] = {}
        self.taken: dict[str, int] = {}
        self.locations = locations

    def unique(self, obj: Any, base: str) -> str:
        """The name of a slot or array; two with one name get a suffix by order of appearance."""
        name = self.objects.get(id(obj))
        if name is None:
            n = self.taken.get(base, 0)
            self.taken[base] = n + 1
            name = self.objects[id(obj)] = base if n == 0 else f"{base}.{n}"
        return name

    def value(self, node: Node) -> str:
        return self.names.get(node, "%?")

    def attr(self, value: Any, type_: Any) -> str:
        if isinstance(value, Slot):
            return self.unique(value, value.name)
        if isinstance(value, Array | Tile):
            return self.unique(value, value.name)
        if isinstance(value, Function):
            return "@" + self.unique(value, value.name)
        if isinstance(value, Node):
            return self.value(value)
        if isinstance(value, tuple):
            return "(" + ", ".join(self.attr(v, None) for v in value) + ")"
        if isinstance(value, str):
            return value if value.replace("_", "").replace(".", "").isalnum() else repr(value)
        return _literal(value, type_)

    def node(self, node: Node, indent: str) -> None:
        info = node.info
        head = ""
        if node.type is not None or node.op == "call":  # call_result names its call
            head = self.names.setdefault(node, f"%{len(self.names)}") + " = "
        if node.op == "const":
            text = f"const {self.attr(node.attrs['value'], node.type)}: {node.type}"
        elif node.op in ("load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store"):
            text = self.memory(node)
        else:
            words = ["unchecked"] * (not node.checked)
            named = [a for a in info.attrs if a != "unchecked" and node.attrs.get(a) is not None]
            words += [self.attr(node.attrs[a], None) for a in named]
            words += [self.value(a) for a in node.args]
            text = node.op + (" " + ", ".join(words) if words else "")
            if info.result == "given" and node.type is not None:
                text += f": {node.type}"
        suffix = ""
        if self.locations and node.loc is not None:
            suffix = f"  # {os.path.basename(node.loc.file)}:{node.loc.line}"
        if not node.regions:
            self.lines.append(f"{indent}{head}{text}{suffix}")
            return
        self.lines.append(f"{indent}{head}{text} {{{suffix}")
        self.region(node.regions[0], indent + "  ")
        for name, region in zip(info.regions[1:], node.regions[1:], strict=True):
            if region:
                self.lines.append(f"{indent}}} {name} {{")
                self.region(region, indent + "  ")
        self.lines.append(indent + "}")

    def memory(self, node: Node) -> str:
        array: Array = node.attrs["array"]
        rank = array.rank
        where = self.attr(array, None) + "[" + ", ".join(self.value(a) for a in node.args[:rank]) + "]"
        type_: Any = array.type
        for position in node.attrs.get("field") or ():
            where += "." + type_.fields[position].name
            type_ = type_.fields[position].type
        rest = [self.value(a) for a in node.args[rank:]]
        words = [str(node.attrs[k]) for k in ("kind", "order", "scope") if node.attrs.get(k) is not None]
        words += ["unchecked"] * (not node.checked)
        return " ".join([node.op, *words]) + " " + ", ".join([where, *rest])

    def region(self, region: Region, indent: str) -> None:
        for node in region:
            self.node(node, indent)


def _host_shape(shape: tuple[int | HostExpr, ...]) -> str:
    return ", ".join(print_expr(n) for n in shape)


def print_kernel(kernel: Kernel, locations: bool = True) -> str:
    """The whole module: signature, facts, arrays, functions, body."""
    p = Printer(locations)
    for param in kernel.params:
        if isinstance(param, Buffer):
            p.unique(param, param.name)
    params = ", ".join(
        f"{q.name}: array<{print_type(q.type)}, {q.rank}> {q.access}"
        if isinstance(q, Buffer)
        else f"{q.name}: {print_type(q.type)}"
        for q in kernel.params
    )
    size = f" workgroup{kernel.workgroup}" if kernel.workgroup else ""
    p.lines.append(f"kernel {kernel.name}({params}){size}")
    if kernel.requires:
        p.lines.append("  requires " + ", ".join(sorted(kernel.requires)))
    if kernel.fastmath:
        p.lines.append("  fastmath")
    facts = kernel.facts
    shown = [f"contiguous({', '.join(sorted(facts.contiguous))})"] if facts.contiguous else []
    shown += [f"aligned({', '.join(sorted(facts.aligned))})"] if facts.aligned else []
    shown += ["noalias"] if facts.noalias else []
    shown += ["small"] if facts.small else []
    shown += [f"workgroup{facts.workgroup}"] if facts.workgroup else []
    if shown:
        p.lines.append("  facts " + " ".join(shown))
    for s in kernel.shared:
        p.lines.append(f"  shared {p.unique(s, s.name)}: {print_type(s.type)}[{_host_shape(s.shape)}]")
    for a in kernel.locals:
        p.lines.append(f"  local {p.unique(a, a.name)}: {print_type(a.type)}[{_host_shape(a.shape)}]")
    for c in kernel.consts:
        values = ", ".join(_literal(v, c.type) for v in c.values)
        p.lines.append(f"  const {p.unique(c, c.name)}: {c.type}[{_host_shape(c.shape)}] = {values}")
    for t in kernel.tiles:
        p.lines.append(f"  tile {p.unique(t, t.name)}: {t.role} {t.type}[{t.rows}, {t.cols}]")
    for f in kernel.functions:
        inner = ", ".join(f"{q.name}: {print_type(q.type)}" for q in f.params)
        results = ", ".join(print_type(t) for t in f.results)
        p.lines.append(f"  func @{p.unique(f, f.name)}({inner}) -> ({results}) {{")
        p.region(f.body, "    ")
        p.lines.append("  }")
    p.region(kernel.body, "  ")
    return "\n".join(p.lines) + "\n"
