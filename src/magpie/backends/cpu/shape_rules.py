"""How the shape of a value across lanes follows from those of its operands, op by op."""

from __future__ import annotations

import math
from typing import NamedTuple

from magpie.backends.cpu.plain import plain
from magpie.dtypes import DType
from magpie.ir.nodes import Node
from magpie.passes.narrow_index import Ranges, full

__all__ = ["UNIFORM", "VARYING", "Layout", "Shape", "transfer"]

_TOP = 1 << 16  # a multiple that is as good as any


class Shape(NamedTuple):
    """kind 0 uniform, 1 linear, 2 varying. ``stride`` of a linear value in units of the value, None if it is only known
    at run time. ``multiple`` is a power of two that divides the value of lane 0 (of all lanes, if uniform)."""

    kind: int
    stride: int | None = 0
    multiple: int = 1

    @property
    def uniform(self) -> bool:
        return self.kind == 0

    @property
    def linear(self) -> bool:
        return self.kind == 1

    @property
    def varying(self) -> bool:
        return self.kind == 2


UNIFORM = Shape(0)
VARYING = Shape(2)


@plain
class Layout:
    """How work-items are dealt to lanes. ``rows``: a gang stays in one row of x; else lanes run on in linear ids.
    ``workgroup``: the size where it is known."""

    width: int
    rows: bool
    workgroup: tuple[int, int, int] | None

    @property
    def x_linear(self) -> bool:
        """Whether thread_id(0) grows by one from lane to lane, and the other two are the same in all."""
        return self.rows or (self.workgroup is not None and self.workgroup[0] % self.width == 0)


def _power(n: int) -> int:
    """The largest power of two that divides ``n``, capped."""
    return min(n & -n, _TOP) if n else _TOP


_UNIFORM_OPS = frozenset(
    [
        "param",
        "workgroup_id",
        "workgroup_size",
        "num_workgroups",
        "subgroup_size",
        "subgroup_id",
        "subgroup_count",
        "extent",
        "stride",
        "subgroup_reduce",
        "subgroup_ballot",
        "subgroup_any",
        "subgroup_all",
        "subgroup_broadcast",
        "uniform",
    ]
)
_VARYING_OPS = frozenset(
    [
        "atomic_rmw",
        "atomic_cas",
        "atomic_load",
        "subgroup_scan",
        "subgroup_shuffle",
        "subgroup_shuffle_xor",
        "subgroup_shuffle_up",
        "subgroup_shuffle_down",
        "subgroup_elect",
        "malloc",
        "ptr_load",
    ]
)


def transfer(node: Node, args: list[Shape], layout: Layout, ranges: Ranges) -> Shape:
    """The shape of a value node other than `slot_get`."""
    op = node.op
    if op == "const":
        value = node.attrs["value"]
        return Shape(0, 0, _power(value)) if isinstance(value, int) else UNIFORM
    if op in _UNIFORM_OPS:
        return UNIFORM
    if op in _VARYING_OPS:
        return VARYING
    if op in ("thread_id", "global_id", "linear_local_id", "subgroup_lane"):
        return _coordinate(op, node.attrs.get("dim", 0), layout)
    if op == "load":
        private = node.attrs["array"].space == "local"
        return VARYING if private or any(a.kind for a in args) else UNIFORM
    if not any(a.kind for a in args):
        return Shape(0, 0, _multiple(op, node, args))
    if isinstance(node.type, DType) and node.type.is_int and all(isinstance(a.type, DType) for a in node.args):
        return _linear(op, node, args, layout, ranges)
    return VARYING


def _coordinate(op: str, dim: int, layout: Layout) -> Shape:
    width, size = layout.width, layout.workgroup
    x = _power(size[0]) if size else 1
    if op == "subgroup_lane":
        return Shape(1, 1, _TOP)
    if op == "linear_local_id":
        one_row = size is not None and size[1] == size[2] == 1
        return Shape(1, 1, min(width, _TOP) if not layout.rows or one_row else min(x, width))
    if not layout.x_linear:
        return VARYING
    if dim != 0:
        return UNIFORM
    return Shape(1, 1, width if op == "thread_id" else min(x, width))


def _multiple(op: str, node: Node, args: list[Shape]) -> int:
    """The multiple of a uniform result."""
    if not args or not (isinstance(node.type, DType) and node.type.is_int):
        return 1
    if op in ("add", "sub", "neg"):
        return min(a.multiple for a in args)
    if op == "mul":
        return min(args[0].multiple * args[1].multiple, _TOP)
    if op in ("cast", "uniform"):
        return args[0].multiple
    return 1


def _constant(node: Node) -> int | None:
    value = node.attrs["value"] if node.op == "const" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _linear(op: str, node: Node, args: list[Shape], layout: Layout, ranges: Ranges) -> Shape:
    """Linear results of integer ops on at least one operand that is not uniform."""
    if any(a.varying for a in args):
        return VARYING
    a = args[0]
    if op == "neg":
        return _made(None if a.stride is None else -a.stride, a.multiple)
    if op == "cast":
        source = node.args[0].dtype
        if not source.is_int:
            return VARYING
        if node.dtype.bits > source.bits and ranges.of(node.args[0]) == full(source):
            return VARYING  # may wrap around within a gang
        return a
    if op == "select":
        same = args[0].uniform and args[1].kind == args[2].kind and args[1].stride == args[2].stride is not None
        return Shape(1, args[1].stride, min(args[1].multiple, args[2].multiple)) if same else VARYING
    if len(args) != 2:
        return VARYING
    b = args[1]
    if op in ("add", "sub"):
        stride = None
        if a.stride is not None and b.stride is not None:
            stride = a.stride + b.stride if op == "add" else a.stride - b.stride
        return _made(stride, min(a.multiple, b.multiple))
    if op in ("mul", "shl"):
        line, other, factor = (a, b, node.args[1]) if b.uniform else (b, a, node.args[0])
        if not other.uniform or (op == "shl" and not b.uniform):
            return VARYING
        known = _constant(factor)
        if op == "shl":
            if known is None:
                return VARYING
            known = 1 << (known & (node.dtype.bits - 1))
        stride = None if known is None or line.stride is None else line.stride * known
        return _made(stride, min(line.multiple * (other.multiple if op == "mul" else _power(known or 1)), _TOP))
    if op in ("floordiv", "tdiv", "mod", "trem", "shr", "and") and b.uniform and a.stride is not None:
        return _within(op, node, a, layout, ranges)
    return VARYING


def _made(stride: int | None, multiple: int) -> Shape:
    return Shape(0, 0, multiple) if stride == 0 else Shape(1, stride, multiple)


def _within(op: str, node: Node, a: Shape, layout: Layout, ranges: Ranges) -> Shape:
    """Quotients and remainders by a constant that no gang straddles: uniform, and linear."""
    number = _constant(node.args[1])
    if number is None or a.stride is None or a.stride < 0:
        return VARYING
    if op == "shr":
        number = 1 << (number & (node.dtype.bits - 1))
    elif op == "and":
        number += 1
        if number & (number - 1):
            return VARYING
    if number <= 0:
        return VARYING
    low = ranges.of(node.args[0])[0]
    if op in ("tdiv", "trem") and low < 0:
        return VARYING
    step = math.gcd(a.multiple, number)
    if a.stride * (layout.width - 1) >= step:
        return VARYING
    return UNIFORM if op in ("floordiv", "tdiv", "shr") else Shape(1, a.stride, _power(step))
