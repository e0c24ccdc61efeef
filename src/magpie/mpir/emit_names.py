"""Names and types of what is emitted as MPIR."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable

from magpie.diagnostics import Loc
from magpie.dtypes import StructType, Type, leaves
from magpie.ir.nodes import Kernel
from magpie.mpir import nodes as m
from magpie.mpir.types import TYPE_IDS, Ty

__all__ = ["Names", "assigned", "same", "word"]

_TAKEN = frozenset([*TYPE_IDS, "unit", "Str", "Array", "Map", "TOption", "TResult", "TCallable", "ptr", "rawptr"])


def word(text: str) -> str:
    """``text`` as a name: letters, digits and ``_``; other characters by their numbers."""
    made = re.sub("[^0-9A-Za-z_]", lambda found: "_" if found[0] == "." else f"_u{ord(found[0]):x}", text)
    return made or "_"


def same(a: m.Operand, b: m.Operand) -> bool:
    """Whether two operands are one value; 0.0 and -0.0 are two, and a NaN is one."""
    if isinstance(a, m.Const) and isinstance(b, m.Const):
        return a.type == b.type and repr(a.value) == repr(b.value)
    return a == b


_ASSIGNMENT = re.compile(r"\s*([^\W\d]\w*)\s*(?::[^=]*)?=(?!=)\s*")


def assigned(loc: Loc | None) -> str:
    """The variable of Python that an expression is assigned to, where a line says nothing else; else empty."""
    if loc is None or loc.end_line not in (0, loc.line):
        return ""
    text = linecache.getline(loc.file, loc.line)
    found = _ASSIGNMENT.match(text)
    rest = text[loc.end_col :].strip()
    return found[1] if found and found.end() == loc.col and (not rest or rest.startswith("#")) else ""


class Names:
    """Unique names of values, blocks and structs. ``params`` are those of the kernel's parameters."""

    def __init__(self, kernel: Kernel) -> None:
        self.used: dict[str, int] = {}
        self.labels = 0
        name = word(kernel.name)
        self.kernel = name if name[0].isalpha() or name[0] == "_" else f"k{name}"
        self.params = {p.name: self.fresh(p.name) for p in kernel.params}
        self.structs: list[m.Struct] = []
        self.declared: dict[StructType, str | None] = {}

    def fresh(self, hint: str) -> str:
        """A name that no value has."""
        base = word(hint)
        made = base
        while made in self.used:
            self.used[base] += 1
            made = f"{base}_{self.used[base]}"
        self.used[made] = self.used.get(made, 0)
        return made

    def label(self) -> str:
        self.labels += 1
        return f"bb{self.labels}"

    def struct(self, type_: StructType, types: Callable[[Type], Ty]) -> str | None:
        """The name of a declared value struct; None where no declaration has its layout."""
        if type_ not in self.declared:
            fields = [(f.name, types(f.type)) for f in type_.fields]
            natural = StructType.build(type_.name, [(f.name, f.type) for f in type_.fields])
            name = word(type_.name)
            name = name if re.match("T[A-Z]", name) else f"T{name[:1].upper()}{name[1:]}"
            taken = {*_TAKEN, *(s.name for s in self.structs)}
            base, count = name, 1
            while name in taken:
                count += 1
                name = f"{base}{count}"
            good = _layout(natural) == _layout(type_) and all(word(f) == f and not f[0].isdigit() for f, _ in fields)
            self.declared[type_] = name if good else None
            if good:
                self.structs.append(m.Struct(name, fields))
        return self.declared[type_]


def _layout(type_: StructType) -> tuple[object, ...]:
    return (type_.itemsize, *((path, leaf.name, offset) for path, leaf, offset in leaves(type_)))
