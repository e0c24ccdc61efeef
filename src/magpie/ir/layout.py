"""How a kernel's arguments lie in memory: computed in one place, written into the artifact, read by drivers.

A driver packs arguments from the layout alone and never sees Kernel IR. A layout is plain data (`to_json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, StructType, Type, by_name, index, leaf_name, leaves
from magpie.records import record

if TYPE_CHECKING:  # a launch that finds its code in the cache needs layouts, and no IR
    from magpie.ir.nodes import HostExpr, Kernel

__all__ = [
    "WORD8",
    "BufferField",
    "HostEnv",
    "KernelLayout",
    "Rule",
    "ScalarField",
    "SharedField",
    "compute_layout",
    "evaluate",
    "folded",
    "scalar_places",
]


@record
class Rule:
    """A target's packing rule. Sizes in bytes; `scalar_align` 0 means natural alignment."""

    name: str
    pointer: int = 8
    index: int = 8
    scalar_align: int = 0
    round_to: int = 8


# Every argument in 8-byte words, structs rounded up to words: the cpu and interp rule.
WORD8 = Rule("word8", scalar_align=8)


@record
class BufferField:
    """A buffer argument: pointer at `offset`, then `rank` extents and `rank` strides (in elements), index-sized."""

    name: str
    type: str  # dtype name, or "struct"
    itemsize: int
    rank: int
    access: str
    offset: int
    extents: int
    strides: int


@record
class ScalarField:
    """A by-value argument of `size` bytes at `offset`.

    `leaves` of a struct: (dotted name, dtype name, byte offset in the argument block).
    """

    name: str
    type: str
    size: int
    offset: int
    leaves: tuple[tuple[str, str, int], ...] = ()


@record
class SharedField:
    """A shared array; `extents` are ints or HostExprs that the host evaluates at launch."""

    name: str
    itemsize: int
    extents: tuple[int | HostExpr, ...]

    @property
    def dynamic(self) -> bool:
        return any(not isinstance(n, int) for n in self.extents)


@record
class KernelLayout:
    """Everything a driver must know of a kernel to launch it."""

    kernel: str
    rule: str
    params: tuple[BufferField | ScalarField, ...]
    size: int
    shared: tuple[SharedField, ...]
    workgroup: tuple[int, int, int] | None
    requires: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        data: dict[str, Any] = _plain(self)
        for entry, param in zip(data["params"], self.params, strict=True):
            entry["kind"] = "buffer" if isinstance(param, BufferField) else "scalar"
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> KernelLayout:
        params: list[BufferField | ScalarField] = []
        for entry in data["params"]:
            fields = {k: _tuples(v) for k, v in entry.items() if k != "kind"}
            params.append(BufferField(**fields) if entry["kind"] == "buffer" else ScalarField(**fields))
        return KernelLayout(
            data["kernel"],
            data["rule"],
            tuple(params),
            data["size"],
            tuple(SharedField(s["name"], s["itemsize"], _tuples(s["extents"])) for s in data["shared"]),
            _tuples(data["workgroup"]),
            tuple(data["requires"]),
        )


def scalar_places(layout: KernelLayout) -> dict[str, tuple[str, int]]:
    """Where each by-value scalar lies: name (dotted for struct leaves) -> (dtype name, byte offset)."""
    places: dict[str, tuple[str, int]] = {}
    for p in layout.params:
        if isinstance(p, ScalarField):
            if p.leaves:
                places |= {name: (type_, offset) for name, type_, offset in p.leaves}
            else:
                places[p.name] = (p.type, p.offset)
    return places


def _plain(value: Any) -> Any:
    """Records as dicts, all the way down."""
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, KernelLayout | BufferField | ScalarField | SharedField):
        return {name: _plain(getattr(value, name)) for name in value.__match_args__}
    return value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _align(offset: int, to: int) -> int:
    return (offset + to - 1) // to * to


def _alignment(type_: Type) -> int:
    return type_.align if isinstance(type_, StructType) else type_.itemsize


def compute_layout(kernel: Kernel, rule: Rule = WORD8) -> KernelLayout:
    """Lay the parameters out in declaration order under ``rule``."""
    from magpie.ir.nodes import Buffer

    offset = 0
    params: list[BufferField | ScalarField] = []
    for p in kernel.params:
        name = p.type.name if isinstance(p.type, DType) else "struct"
        if isinstance(p, Buffer):
            offset = _align(offset, rule.pointer)
            extents = offset + rule.pointer
            strides = extents + rule.index * p.rank
            params.append(BufferField(p.name, name, p.type.itemsize, p.rank, p.access, offset, extents, strides))
            offset = strides + rule.index * p.rank
        else:
            offset = _align(offset, rule.scalar_align or _alignment(p.type))
            inner: tuple[tuple[str, str, int], ...] = ()
            if isinstance(p.type, StructType):
                inner = tuple((leaf_name(p.name, p.type, path), t.name, offset + at) for path, t, at in leaves(p.type))
            params.append(ScalarField(p.name, name, p.type.itemsize, offset, inner))
            offset += p.type.itemsize
    shared = tuple(SharedField(s.name, s.type.itemsize, s.shape) for s in kernel.shared)
    return KernelLayout(
        kernel.name,
        rule.name,
        tuple(params),
        _align(offset, rule.round_to),
        shared,
        kernel.workgroup,
        tuple(sorted(kernel.requires)),
    )


@record
class HostEnv:
    """What a HostExpr may ask at launch."""

    scalars: dict[str, Any]
    extents: dict[str, tuple[int, ...]]
    strides: dict[str, tuple[int, ...]]
    workgroup_size: tuple[int, int, int]
    num_workgroups: tuple[int, int, int]


def _wrap(value: int, type_: DType = index) -> int:
    return (value - type_.min) % (1 << type_.bits) + type_.min


_HOST_OPS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "neg": lambda a: -a,
    "shl": lambda a, b: a << (b & 63),
    "shr": lambda a, b: a >> (b & 63),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "select": lambda c, a, b: a if c else b,
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
}
HOST_OPS: Iterable[str] = _HOST_OPS.keys()


def evaluate(expr: int | HostExpr, env: HostEnv) -> int:
    """The value of ``expr`` as a 64-bit signed integer, by the meaning of the op table."""
    if isinstance(expr, int):
        return expr
    head = expr[0]
    if head == "const":
        return int(expr[1])
    if head == "param":
        return int(env.scalars[expr[1]])
    if head == "extent":
        return env.extents[expr[1]][expr[2]]
    if head == "stride":
        return env.strides[expr[1]][expr[2]]
    if head in ("workgroup_size", "num_workgroups"):
        return int(getattr(env, head)[expr[1]])
    if head == "cast":  # ("cast", dtype name, operand)
        return _wrap(evaluate(expr[2], env), by_name(expr[1]))
    return _wrap(int(_HOST_OPS[head](*(evaluate(e, env) for e in expr[1:]))))


def folded(expr: int | HostExpr, workgroup: tuple[int, int, int] | None) -> int | None:
    """The value of an expression that asks for nothing but a workgroup size which is known; None for any other."""
    if isinstance(expr, int):
        return expr
    if workgroup is None or not _of_workgroup(expr):
        return None
    return evaluate(expr, HostEnv({}, {}, {}, workgroup, (0, 0, 0)))


def _of_workgroup(expr: HostExpr) -> bool:
    if expr[0] in ("param", "extent", "stride", "num_workgroups"):
        return False
    return expr[0] in ("const", "workgroup_size") or all(_of_workgroup(e) for e in expr if isinstance(e, tuple))
