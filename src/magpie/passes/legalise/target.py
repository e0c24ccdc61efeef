"""What a target computes itself, and the ops that are left when `legalise` is done."""

from __future__ import annotations

from collections.abc import Iterator

from magpie.dtypes import DType, f16, f32, u32
from magpie.ir.nodes import Kernel, Node, walk
from magpie.records import record

__all__ = ["CORE", "LEAVES", "Target", "left_over"]


@record
class Target:
    """What a target has as values in registers, and does exactly as the op table says. What is not said is false.

    i64: 64-bit integers, `index` among them.  i16, i8: integers of these widths.  f64, f16: these floats, with +, -, *
    and conversions rounded to nearest even; of f16 its subnormal numbers are kept. (bf16 is always computed in f32.)
    fma: `fma` rounds once, on f32 and f64.  div: division of f32 and f64 is correctly rounded.  sqrt32, sqrt64: so is
    the square root of f32, or of f64.
    u32_to_f32: that conversion rounds once (SwiftShader adds the top bit to the rounded rest).
    denormals: subnormal f32 and f64 are kept (else they may be flushed, as operands and as results).
    """

    i64: bool = False
    i16: bool = False
    i8: bool = False
    f64: bool = False
    f16: bool = False
    fma: bool = False
    div: bool = False
    sqrt32: bool = False
    sqrt64: bool = False
    u32_to_f32: bool = False
    denormals: bool = False

    def exact(self, op: str, t: DType) -> bool:
        """Whether ``op`` of f32 or f64 is correctly rounded."""
        root = self.sqrt64 if t.bits == 64 else self.sqrt32
        return {"div": self.div, "sqrt": root}.get(op, True)

    def has(self, t: DType) -> bool:
        """Whether registers hold values of this scalar type."""
        if t.is_bool or t.bits == 32:
            return True
        return {"f16": self.f16, "f64": self.f64, "bf16": False}.get(
            t.name, {8: self.i8, 16: self.i16, 64: self.i64}[t.bits]
        )


_ANY = frozenset(["const", "param", "select", "slot_get", "slot_set", "uniform", "cast", "bitcast"])
_COMPARE = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
_INT = frozenset(["add", "sub", "mul", "neg", "and", "or", "xor", "not", "shl", "shr", "min", "max", "tdiv", "trem"])
_FLOAT = frozenset(["add", "sub", "mul", "neg", "abs"])
_WIDE_FLOAT = frozenset(["div", "fma", "sqrt", "floor", "ceil", "trunc", "round", "min", "max"])
_BITS = frozenset(["popcount", "clz", "ctz"])
_BOOL = frozenset(["and", "or", "xor", "not", "eq", "ne"])

#: The pure ops on scalars that may be left; the others of the table belong to memory, subgroups and control flow.
CORE = _ANY | _COMPARE | _INT | _FLOAT | _WIDE_FLOAT | _BITS | _BOOL
_IDS = frozenset(["thread_id", "workgroup_id", "workgroup_size", "num_workgroups", "global_id", "linear_local_id"])
_LANES = frozenset(["subgroup_size", "subgroup_lane", "subgroup_id", "subgroup_count"])
#: What a launch gives.
LEAVES = _IDS | _LANES | {"extent", "stride"}


def left_over(kernel: Kernel, target: Target) -> Iterator[tuple[Node, str]]:
    """The nodes of ``kernel`` that `legalise` would have replaced, each with what is wrong: none of a legal kernel."""
    for node in walk(kernel.body):
        if not node.info.pure or node.op in LEAVES:
            continue
        if (
            node.op not in CORE
            and "rough" not in node.attrs
            and not (kernel.fastmath and node.args and node.args[0].type is f32)
        ):
            yield node, "is no op of the core"
            continue
        problem = _problem(kernel, node, target)
        if problem:
            yield node, problem


def _problem(kernel: Kernel, node: Node, target: Target) -> str:
    t = node.type
    if isinstance(t, DType) and not target.has(t) and not _edge(node):
        return f"{t} is no type of the target"
    if not node.args:
        return ""
    if node.op in ("cast", "bitcast", "select", "uniform", "rsqrt") or not isinstance(node.args[0].type, DType):
        return ""
    first = node.args[0].dtype
    if first.is_bool:
        allowed = _BOOL
    elif first.is_int:
        allowed = _INT | _COMPARE | (_BITS if first is u32 else frozenset())
    elif first is f16:
        allowed = _FLOAT | _COMPARE
    else:
        allowed = _FLOAT | _COMPARE | _WIDE_FLOAT
        if node.op in ("min", "max") and not _fast(kernel, node):
            return "float min and max have rules that the target lacks"
        if node.op == "fma" and not target.fma and not _fast(kernel, node):
            return "fma does not round once"
        if not (target.exact(node.op, first) or "rough" in node.attrs or _fast(kernel, node)):
            return "is not correctly rounded"
    if kernel.fastmath and first is f32:
        return ""
    if node.op not in allowed | _ANY:
        return f"is not done on {first}"
    if node.op == "trem" and first.kind == "int":
        return "signed remainder"
    return ""


def _fast(kernel: Kernel, node: Node) -> bool:
    return kernel.fastmath and "strict" not in node.attrs


def _edge(node: Node) -> bool:
    """Whether a value of a type that the target lacks may stand here: see the package's documentation."""
    if node.dtype.bits < 32 or not node.args:
        return node.op in ("param", "const", "cast", "bitcast") or node.op in LEAVES
    if node.op == "or":
        return node.args[0].op == "cast" and node.args[1].op == "shl" and _edge(node.args[1])
    if node.op in ("shl", "shr"):
        return node.args[1].op == "const" and node.args[1].attrs["value"] == 32
    return (node.op == "cast" and node.args[0].type is u32) or node.op == "bitcast"
