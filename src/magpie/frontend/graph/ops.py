"""The one table of ops of Graph IR: operands, attributes, kind, rule and reference.

Parser, printer, verifier, evaluator, importer, passes and lowering read it. A row without a rule or a reference cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magpie.dtypes import DType, bf16, bool_, f16, f32, i8, i32, u8
from magpie.frontend.graph import rules as r
from magpie.frontend.graph.nodes import Value
from magpie.frontend.graph.numerics import REFERENCE
from magpie.records import record

__all__ = ["DTYPES", "OPS", "Attr", "OpInfo", "infer"]

#: The dtypes of values. Arithmetic on integers gives i32; i8 and u8 are how they are stored.
DTYPES: dict[str, DType] = {t.name: t for t in (i8, u8, i32, f32, f16, bf16, bool_)}


@record
class Attr:
    """One attribute: ``kind`` is int, ints, float, bool or dtype; without a default it must be given."""

    name: str
    kind: str
    default: Any = None
    required: bool = False


@record
class OpInfo:
    """One row. ``operands`` is the least and the most number of them.

    kind: ``elementwise`` (each element of the result from one of each operand), ``reduce``, ``row`` (a result for a row,
    as softmax), ``matmul``, ``conv``, ``pool``, ``move`` (elements in other places), ``view`` (the same memory) and
    ``const``.
    """

    name: str
    operands: tuple[int, int]
    kind: str
    attrs: dict[str, Attr]
    rule: r.Rule
    doc: str


OPS: dict[str, OpInfo] = {}


def _attr(text: str) -> Attr:
    name, _, rest = text.partition(":")
    kind, _, default = rest.partition("=")
    if not default:
        return Attr(name, kind, None, True)
    values: dict[str, Any] = {"true": True, "false": False, "inf": float("inf"), "-inf": float("-inf"), "()": ()}
    if default in values:
        return Attr(name, kind, values[default])
    if kind == "ints":
        return Attr(name, kind, tuple(map(int, default.split(","))))
    return Attr(name, kind, float(default) if kind == "float" else int(default))


def _op(name: str, kind: str, operands: int | tuple[int, int], attrs: str, rule: r.Rule, doc: str) -> None:
    count = (operands, operands) if isinstance(operands, int) else operands
    assert name in REFERENCE or kind == "const", name
    OPS[name] = OpInfo(name, count, kind, {a.name: a for a in map(_attr, attrs.split())}, rule, doc)


def _const(x: Sequence[Value], attrs: dict[str, Any]) -> r.RuleType:
    data = attrs["data"]
    return attrs["dtype"], tuple(data.shape)


# fmt: off
# ruff: noqa: E501 - a row is a line
_op("const", "const", 0, "", _const, "A constant: `const [[1, 2], [3, 4]]`, `const 0.5` (everywhere), `const \"weights.npy\"`.")

_op("add", "elementwise", 2, "", r.arithmetic("add"), "Operands broadcast. Integers wrap at 32 bits.")
_op("sub", "elementwise", 2, "", r.arithmetic("sub"), "As add.")
_op("mul", "elementwise", 2, "", r.arithmetic("mul"), "As add.")
_op("div", "elementwise", 2, "", r.arithmetic("div"), "Of integers: toward zero, x / 0 = 0.")
_op("minimum", "elementwise", 2, "", r.choosing("minimum"), "The smaller one; of one dtype.")
_op("maximum", "elementwise", 2, "", r.choosing("maximum"), "The larger one; of one dtype.")
_op("pow", "elementwise", 2, "", r.floats("pow", 2), "Of floats.")
_op("neg", "elementwise", 1, "", r.negated, "Integers give i32.")
_op("abs", "elementwise", 1, "", r.negated, "Integers give i32.")
_op("relu", "elementwise", 1, "", r.number("relu"), "x where x > 0, else 0.")
_op("clip", "elementwise", 1, "min:float=-inf max:float=inf", r.clip, "Not below min, then not above max.")
for _name in ("sqrt", "exp", "log", "tanh", "erf", "sigmoid"):
    _op(_name, "elementwise", 1, "", r.floats(_name, 1), "Of floats.")
_op("floor", "elementwise", 1, "", r.floats("floor", 1), "Of floats.")
_op("round", "elementwise", 1, "", r.floats("round", 1), "To the nearest integer, ties to even; of floats.")
_op("cast", "elementwise", 1, "to:dtype", r.cast, "Float to integer toward zero, saturating, NaN gives 0; integers wrap; to bool: != 0.")
_op("quantize", "elementwise", 3, "to:dtype", r.quantize, "x, scale, zero point: round(x / scale) + zero, ties to even, saturated.")
_op("dequantize", "elementwise", 3, "", r.dequantize, "x, scale, zero point: (x - zero) * scale in f32.")
_op("equal", "elementwise", 2, "", r.compared("equal"), "Gives bool.")
_op("less", "elementwise", 2, "", r.compared("less"), "Gives bool.")
_op("greater", "elementwise", 2, "", r.compared("greater"), "Gives bool.")
_op("not", "elementwise", 1, "", r.logical("not", 1), "Of bools.")
_op("and", "elementwise", 2, "", r.logical("and", 2), "Of bools.")
_op("or", "elementwise", 2, "", r.logical("or", 2), "Of bools.")
_op("where", "elementwise", 3, "", r.where, "The second operand where the first is true, else the third.")
_op("bias", "elementwise", 2, "axis:int=-1", r.bias, "x plus a vector along one dimension.")
_op("broadcast", "elementwise", 1, "shape:ints", r.broadcast, "Repeated to a shape.")

_op("matmul", "matmul", 2, "", r.matmul, "[..., M, K] by [..., K, N]; leading dimensions broadcast. Integers give i32.")
_op("gemm", "matmul", (2, 3), "alpha:float=1 beta:float=1 trans_a:bool=false trans_b:bool=false", r.gemm, "alpha * a @ b + beta * c, of matrices.")
_op("conv2d", "conv", 2, "strides:ints=1,1 pads:ints=0,0,0,0 dilations:ints=1,1 groups:int=1", r.conv2d, "[N, C, H, W] with weights [O, C / groups, KH, KW]; pads are top, left, bottom, right. Integers give i32.")
_op("maxpool", "pool", 1, "kernel:ints strides:ints=1,1 pads:ints=0,0,0,0 dilations:ints=1,1", r.pool("maxpool"), "The largest of each window; padding is below everything, and NaN are passed over.")
_op("avgpool", "pool", 1, "kernel:ints strides:ints=1,1 pads:ints=0,0,0,0 dilations:ints=1,1 include_pad:bool=false", r.pool("avgpool"), "The mean of each window, over what lies in the image or (include_pad) over the whole window.")
for _name, _doc in (("sum", "Integers give i32, wrapped."), ("max", "NaN are passed over."), ("min", "NaN are passed over."), ("mean", "Of floats.")):
    _op(f"reduce_{_name}", "reduce", 1, "axes:ints=() keepdims:bool=false", r.reduce(f"reduce_{_name}"), f"Over the axes, all if none are named. {_doc}".strip())
_op("argmax", "reduce", 1, "axis:int=-1 keepdims:bool=false", r.argmax, "The first place of the largest, as i32. NaN are passed over.")
_op("softmax", "row", 1, "axis:int=-1", r.softmax, "exp(x - max) over its sum, along one dimension.")
_op("layernorm", "row", 3, "epsilon:float=1e-5", r.layernorm, "x, scale, bias: (x - mean) / sqrt(variance + epsilon) * scale + bias along the last dimension.")

_op("reshape", "view", 1, "shape:ints", r.reshape, "The same elements in another shape; one extent may be -1.")
_op("transpose", "move", 1, "perm:ints=()", r.transpose, "Dimensions in another order; reversed without perm.")
_op("slice", "move", 1, "starts:ints stops:ints steps:ints=()", r.slice_, "A part, one start, stop and step a dimension.")
_op("concat", "move", (1, 64), "axis:int=0", r.concat, "Values behind each other along one dimension.")
_op("gather", "move", 2, "axis:int=0", r.gather, "Rows by their numbers; negative ones count from the end, those out of range are the nearest.")
_op("pad", "move", 1, "pads:ints value:float=0", r.pad, "More elements before and behind: pads are all before, then all behind.")
# fmt: on


def infer(name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> r.RuleType:
    """The dtype and shape of an op's result. ``attrs`` are completed with defaults and brought into one form.

    Raises `magpie.frontend.graph.rules.Mismatch` for operands and attributes that do not fit.
    """
    info = OPS[name]
    least, most = info.operands
    if not least <= len(operands) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise r.Mismatch("MPG_GRAPH_1004", f"{name} takes {wanted} operands; got {len(operands)}")
    for attr in info.attrs.values():
        if attr.name not in attrs:
            if attr.required:
                raise r.Mismatch("MPG_GRAPH_1004", f"{name} needs {attr.name}", f"write {name}{{{attr.name}=...}}")
            attrs[attr.name] = attr.default
    return r.checked(info.rule(operands, attrs))
