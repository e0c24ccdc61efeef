"""The one table of operations of Kernel IR.

Builder, verifier, printer, interpreter and passes read it; nobody keeps a second list. A row says what an op takes and
gives, what it does to memory, how uniformity flows through it and which capability it needs. Every pure op is *total*:
it has a defined result for every input (the `doc` column states the corner cases), so that it may run for work-items
that are masked off.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

from magpie.records import record

if TYPE_CHECKING:
    from magpie.dtypes import DType

__all__ = ["ELEMENTARY", "MOST_ELEMENTS", "OPS", "REDUCTIONS", "RMW_KINDS", "Effect", "OpInfo", "Uniform", "identity"]


class Effect(enum.Enum):
    """What an op does besides computing a value."""

    PURE = "pure"
    SLOT_READ = "slot read"
    SLOT_WRITE = "slot write"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    CROSS_LANE = "cross lane"  # reads other work-items of the subgroup: depends on who is active
    SYNC = "sync"
    DEBUG = "debug"  # assert, print: must run exactly for the active work-items
    CONTROL = "control"


class Uniform(enum.Enum):
    """How the uniformity of a result follows from its operands."""

    CONST = "const"  # the same for the whole launch
    WORKGROUP = "workgroup"
    SUBGROUP = "subgroup"
    VARYING = "varying"
    JOIN = "join"  # the join over the operands
    SPECIAL = "special"  # slots, loads, calls: the uniformity pass knows


@record
class OpInfo:
    """One row: ``operands`` and ``result`` name rules that the verifier implements (see `magpie.ir.verify`).

    operands: a tuple with one class per operand: ``num`` (int or float), ``int``, ``float``, ``bool``, ``any``, ``idx``
    (any integer), ``ptr``; a final ``"*"`` repeats the class before it. Operands of the classes in ``same`` positions
    must have one type.
    result: ``same`` (type of the first operand), ``bool``, ``index``, ``u64``, ``u32``, ``i32``, ``given`` (stands on
    the node), ``elem`` (element type of the array attribute) or ``none``.
    """

    name: str
    operands: tuple[str, ...]
    result: str
    effect: Effect
    uniform: Uniform
    attrs: tuple[str, ...] = ()
    same: bool = True
    capability: str | None = None
    regions: tuple[str, ...] = ()
    terminator: bool = False
    doc: str = ""

    @property
    def pure(self) -> bool:
        """No effect and no dependence on memory or on other work-items: may be moved, merged, dropped, speculated."""
        return self.effect is Effect.PURE


OPS: dict[str, OpInfo] = {}

#: The most elements that `malloc` can be asked for; more, and a negative number, gives null.
MOST_ELEMENTS = 1 << 38

RMW_KINDS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")


def identity(kind: str, type_: DType) -> int | float | bool:
    """The value that changes no number under ``kind``, one of `REDUCTIONS`: what an exclusive scan starts with.

    Of a float sum it is -0.0, since x + -0.0 is x, also for -0.0. A NaN, which ``min`` and ``max`` drop, meets an infinity
    here: where all values may be NaN, it takes another NaN to change nothing.
    """
    if type_.is_bool:
        return kind in ("and", "min", "mul")
    if type_.is_float:
        return {"add": -0.0, "mul": 1.0, "min": math.inf, "max": -math.inf}[kind]
    if kind in ("min", "max"):
        return type_.max if kind == "min" else type_.min
    return {"mul": 1, "and": -1 if type_.min < 0 else type_.max}.get(kind, 0)


def _op(
    name: str,
    operands: str,
    result: str,
    doc: str,
    *,
    effect: Effect = Effect.PURE,
    uniform: Uniform = Uniform.JOIN,
    attrs: str = "",
    same: bool = True,
    capability: str | None = None,
    regions: str = "",
    terminator: bool = False,
) -> None:
    assert name not in OPS, name
    OPS[name] = OpInfo(
        name,
        tuple(operands.split()),
        result,
        effect,
        uniform,
        tuple(attrs.split()),
        same,
        capability,
        tuple(regions.split()),
        terminator,
        doc,
    )


# fmt: off
# ruff: noqa: E501 - a row is a line
# --- leaves -----------------------------------------------------------------------------------------------------------
_op("const", "", "given", "A literal `value` (Python int, float or bool; already in range).", uniform=Uniform.CONST, attrs="value")
_op("param", "", "given", "The scalar or struct parameter called `name`.", uniform=Uniform.CONST, attrs="name")
_op("thread_id", "", "index", "Work-item id within its workgroup along `dim`.", uniform=Uniform.VARYING, attrs="dim")
_op("workgroup_id", "", "index", "Workgroup id along `dim`.", uniform=Uniform.WORKGROUP, attrs="dim")
_op("workgroup_size", "", "index", "Work-items of a workgroup along `dim`.", uniform=Uniform.CONST, attrs="dim")
_op("num_workgroups", "", "index", "Workgroups of the launch along `dim`.", uniform=Uniform.CONST, attrs="dim")
_op("global_id", "", "index", "workgroup_id * workgroup_size + thread_id along `dim`.", uniform=Uniform.VARYING, attrs="dim")
_op("linear_local_id", "", "index", "Work-item number within the workgroup, x fastest.", uniform=Uniform.VARYING)
_op("subgroup_size", "", "index", "Work-items of a full subgroup.", uniform=Uniform.CONST, capability="subgroups")
_op("subgroup_lane", "", "index", "linear_local_id % subgroup_size.", uniform=Uniform.VARYING, capability="subgroups")
_op("subgroup_id", "", "index", "linear_local_id // subgroup_size.", uniform=Uniform.SUBGROUP, capability="subgroups")
_op("subgroup_count", "", "index", "Subgroups of a workgroup, the last may be partial.", uniform=Uniform.CONST, capability="subgroups")
_op("extent", "", "index", "Extent of array `array` along `dim`.", uniform=Uniform.CONST, attrs="array dim")
_op("stride", "", "index", "Stride of `array` along `dim`, in elements.", uniform=Uniform.CONST, attrs="array dim")

# --- arithmetic -------------------------------------------------------------------------------------------------------
_op("add", "num num", "same", "Integers wrap.")
_op("sub", "num num", "same", "Integers wrap.")
_op("mul", "num num", "same", "Integers wrap.")
_op("div", "float float", "same", "IEEE division.")
_op("floordiv", "num num", "same", "Python's //: toward minus infinity. int x // 0 = 0, MIN // -1 = MIN; float as CPython's float //, but x // 0.0 is the IEEE quotient x / 0.0.", attrs="unchecked")
_op("mod", "num num", "same", "Python's %: sign of the divisor. int x % 0 = 0; float as CPython's, but x % 0.0 = NaN and x % inf as CPython.", attrs="unchecked")
_op("tdiv", "int int", "same", "C's /: toward zero. x / 0 = 0, MIN / -1 = MIN.", attrs="unchecked")
_op("trem", "int int", "same", "C's %: sign of the dividend. x % 0 = 0, MIN % -1 = 0.", attrs="unchecked")
_op("pow", "num num", "same", "Float: IEEE pow. Integer: exponentiation by squaring, wrapping; a negative exponent gives 0 except for bases 1 and -1.")
_op("min", "num num", "same", "Float: minimumNumber of IEEE 754-2019 (a NaN loses, -0 < +0).")
_op("max", "num num", "same", "Float: maximumNumber of IEEE 754-2019 (a NaN loses, -0 < +0).")
_op("minimum", "float float", "same", "IEEE 754-2019 minimum: propagates NaN, -0 < +0.")
_op("maximum", "float float", "same", "IEEE 754-2019 maximum: propagates NaN, -0 < +0.")
_op("neg", "num", "same", "Integers wrap.")
_op("abs", "num", "same", "Integers wrap: abs(MIN) = MIN.")
_op("fma", "float float float", "same", "a * b + c with one rounding.")

# --- bits and logic ---------------------------------------------------------------------------------------------------
_op("and", "bits bits", "same", "Bitwise, or logical on bool.")
_op("or", "bits bits", "same", "Bitwise, or logical on bool.")
_op("xor", "bits bits", "same", "Bitwise, or logical on bool.")
_op("not", "bits", "same", "Bitwise complement, or logical not on bool.")
_op("shl", "int int", "same", "The count is taken modulo the width.")
_op("shr", "int int", "same", "Arithmetic for signed types, logical for unsigned; the count is taken modulo the width.")
_op("popcount", "int", "same", "Number of set bits.")
_op("clz", "int", "same", "Leading zeros; clz(0) is the width.")
_op("ctz", "int", "same", "Trailing zeros; ctz(0) is the width.")

# --- comparison and selection -----------------------------------------------------------------------------------------
for _name, _doc in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _op(_name, "any any", "bool", f"{_doc}; signedness from the operand type; a NaN compares false, but `ne` true. Bool: eq and ne only.")
_op("select", "bool any any", "given", "The second operand where the first is true, else the third.", same=False)
_op("cast", "any", "given", "Value conversion. Float to int saturates, NaN gives 0; int to int wraps; to bool: != 0; every narrowing to a float rounds once, to nearest even.", same=False)
_op("bitcast", "any", "given", "Same bits, other type of the same width.", same=False)
_op("trip_count", "index index index", "index", "Trips of range(start, stop, step), computed without overflow, at most 2^63 - 1; step 0 gives 0.")

# --- math -------------------------------------------------------------------------------------------------------------
for _name in ["sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "floor", "ceil", "trunc"]:
    _op(_name, "float", "same", f"{_name}(x); f16 and bf16 compute in f32 and round once." + (" Correctly rounded." if _name in ("sqrt", "floor", "ceil", "trunc") else ""))
_op("round", "float", "same", "To the nearest integer, ties to even (Python's round).")
_op("atan2", "float float", "same", "atan2(y, x).")
_op("hypot", "float float", "same", "sqrt(x*x + y*y) without undue overflow.")
_op("fmod", "float float", "same", "C's fmod: exact, sign of the dividend.")
_op("remainder", "float float", "same", "IEEE remainder: x - n*y, n nearest to x/y, ties to even.")
_op("copysign", "float float", "same", "Magnitude of the first, sign of the second.")
_op("ldexp", "float i32", "same", "x * 2**n with one rounding.", same=False)
_op("frexp_mantissa", "float", "same", "m of x = m * 2**e with 0.5 <= |m| < 1; 0, inf and NaN give themselves.")
_op("frexp_exponent", "float", "i32", "e of x = m * 2**e; 0 for 0, inf and NaN.")
_op("isnan", "float", "bool", "")
_op("isinf", "float", "bool", "")
_op("isfinite", "float", "bool", "")

# --- structs and slots ------------------------------------------------------------------------------------------------
_op("struct_make", "any *", "given", "A struct value from its fields in order.", same=False)
_op("struct_get", "any", "given", "Field number `field` of a struct value.", attrs="field", same=False)
_op("slot_get", "", "given", "The value of `slot` (a mutable local; zero before the first set).", effect=Effect.SLOT_READ, uniform=Uniform.SPECIAL, attrs="slot")
_op("slot_set", "any", "none", "Set `slot`.", effect=Effect.SLOT_WRITE, uniform=Uniform.SPECIAL, attrs="slot")

# --- memory -----------------------------------------------------------------------------------------------------------
_op("load", "idx *", "elem", "Read `array` at one index per dimension. With `field` (a path), that leaf of a struct element.", effect=Effect.READ, uniform=Uniform.SPECIAL, attrs="array field unchecked", same=False)
_op("store", "idx * any", "none", "Write the last operand to `array` at the indices before it.", effect=Effect.WRITE, attrs="array field unchecked", same=False)
_op("atomic_rmw", "idx * any", "elem", "Read-modify-write of `kind`; gives the old value. Relaxed.", effect=Effect.ATOMIC, uniform=Uniform.VARYING, attrs="array kind scope unchecked", same=False)
_op("atomic_cas", "idx * any any", "elem", "Compare-exchange (expected, desired); gives the old value. Relaxed.", effect=Effect.ATOMIC, uniform=Uniform.VARYING, attrs="array scope unchecked", same=False)
_op("atomic_load", "idx *", "elem", "Atomic read with `order` (relaxed, acquire).", effect=Effect.ATOMIC, uniform=Uniform.VARYING, attrs="array order scope unchecked", same=False)
_op("atomic_store", "idx * any", "none", "Atomic write with `order` (relaxed, release).", effect=Effect.ATOMIC, attrs="array order scope unchecked", same=False)
_op("ptr", "idx *", "ptr", "Pointer to an element of `array` (shared-memory pointers of other frontends; resolved to array and offset before a backend sees it).", attrs="array", same=False)
_op("ptr_add", "ptr idx", "ptr", "Pointer moved by a number of elements.", same=False)
_op("ptr_valid", "ptr", "bool", "False for a null pointer: what `malloc` gives where it has no memory.", same=False)
_op("ptr_load", "ptr", "given", "Read through a pointer.", effect=Effect.READ, uniform=Uniform.SPECIAL, attrs="unchecked", same=False)
_op("ptr_store", "ptr any", "none", "Write through a pointer.", effect=Effect.WRITE, attrs="unchecked", same=False)

# --- synchronisation --------------------------------------------------------------------------------------------------
_op("barrier", "", "none", "All work-items of the workgroup arrive; orders shared and buffer memory within it.", effect=Effect.SYNC)
_op("subgroup_barrier", "", "none", "All active work-items of the subgroup arrive; orders memory within it.", effect=Effect.SYNC, capability="subgroups")
_op("fence", "", "none", "Memory fence of `scope` (workgroup, device) and `order` (acquire, release, acq_rel).", effect=Effect.SYNC, attrs="scope order")
_op("grid_sync", "", "none", "All work-items of the launch arrive.", effect=Effect.SYNC, capability="cooperative_groups")
_op("uniform", "any", "same", "The operand, which the author asserts to be the same for the whole workgroup; checked by the sanitizer.", uniform=Uniform.WORKGROUP)

# --- subgroups --------------------------------------------------------------------------------------------------------
# A shuffle or broadcast with the attribute `there` is one for which nobody uses what an inactive lane, or none, gives.
_X = Effect.CROSS_LANE
_op("subgroup_reduce", "any", "same", "Reduction of `kind` over the active work-items, in a tree over their ranks (adjacent pairs first, absent partners skipped).", effect=_X, uniform=Uniform.SUBGROUP, attrs="kind", capability="subgroups")
_op("subgroup_scan", "any", "same", "Prefix reduction of `kind` over the active work-items in lane order; `exclusive` starts at the identity.", effect=_X, uniform=Uniform.VARYING, attrs="kind exclusive", capability="subgroups")
_op("subgroup_shuffle", "any idx", "same", "The value of the given lane; unspecified (here: own value) if that lane is inactive or out of range.", effect=_X, uniform=Uniform.VARYING, attrs="there", same=False, capability="subgroups")
_op("subgroup_shuffle_xor", "any idx", "same", "The value of lane ^ mask.", effect=_X, uniform=Uniform.VARYING, attrs="there", same=False, capability="subgroups")
_op("subgroup_shuffle_up", "any idx", "same", "The value of lane - delta; own value where that is negative.", effect=_X, uniform=Uniform.VARYING, attrs="there", same=False, capability="subgroups")
_op("subgroup_shuffle_down", "any idx", "same", "The value of lane + delta; own value where that is past the end.", effect=_X, uniform=Uniform.VARYING, attrs="there", same=False, capability="subgroups")
_op("subgroup_broadcast", "any idx", "same", "The value of the given lane, which must be the same for all.", effect=_X, uniform=Uniform.SUBGROUP, attrs="there", same=False, capability="subgroups")
_op("subgroup_ballot", "bool", "u64", "Bit i is set where lane i is active and its operand true.", effect=_X, uniform=Uniform.SUBGROUP, capability="subgroups")
_op("subgroup_ballot_word", "bool", "u32", "Bits 32 * `word` to 32 * `word` + 31 of `subgroup_ballot`; made for targets that have it in words of 32 bits.", effect=_X, uniform=Uniform.SUBGROUP, attrs="word", capability="subgroups")
_op("subgroup_any", "bool", "bool", "True if any active operand is.", effect=_X, uniform=Uniform.SUBGROUP, capability="subgroups")
_op("subgroup_all", "bool", "bool", "True if every active operand is.", effect=_X, uniform=Uniform.SUBGROUP, capability="subgroups")
_op("subgroup_elect", "", "bool", "True for the lowest active lane only.", effect=_X, uniform=Uniform.VARYING, capability="subgroups")

# --- matrix tiles (`magpie.ir.tiles`): all work-items of a subgroup, together ---------------------------------------
_op("tile_fill", "num", "none", "Set every element of `tile`.", effect=_X, attrs="tile", capability="subgroups")
_op("tile_load", "idx *", "none", "Read `tile` from `array`, from the given element on: `dims` are the dimensions along which its rows and columns go. With `clip`, what lies outside of the array is zero.", effect=_X, attrs="tile array dims clip", same=False, capability="subgroups")
_op("tile_mma", "", "none", "Add the product of `a` and `b` to `tile`. Definition: for k = 0, 1, ...: tile[i, j] = fma(a[i, k], b[k, j], tile[i, j]), in the type that the tile holds; integers wrap. A matrix unit may sum in another order and with less care: see docs/LANGUAGE.md.", effect=_X, attrs="tile a b", capability="subgroups")
_op("tile_store", "idx *", "none", "Write `tile` to `array`, after all that the subgroup read before, each element rounded once to its type. With `clip`, what lies outside of the array is left out.", effect=_X, attrs="tile array dims clip", same=False, capability="subgroups")
_op("copy_async", "idx *", "none", "The workgroup begins to copy `shape` elements from `array`, from the element of the first indices on, to the shared array `target`, from the element of the last ones on; `dims` and `target_dims` are the dimensions that the shape goes along. What lies outside of the source is zero.", effect=Effect.SYNC, attrs="array dims target target_dims shape", same=False)
_op("copy_wait", "", "none", "Wait until at most the last `pending` copies of this work-item's workgroup are under way; others see them after a barrier.", effect=Effect.SYNC, attrs="pending")

# --- device memory -------------------------------------------------------------------------------------------------------
_op("malloc", "idx", "given", "Memory for a number of elements of `dtype` from the device's heap, with unspecified contents; null where there is no room, and for numbers below 1 or above 2^38. No other work-item can reach it.", effect=Effect.ATOMIC, uniform=Uniform.VARYING, attrs="dtype", capability="device_malloc", same=False)
_op("free", "ptr", "none", "Give memory of `malloc` back; nothing for a null pointer.", effect=Effect.ATOMIC, capability="device_malloc", same=False)

# --- debugging --------------------------------------------------------------------------------------------------------
_op("assert", "bool", "none", "Report `message` where the operand is false.", effect=Effect.DEBUG, attrs="message")
_op("print", "any *", "none", "Print the operands between the pieces of `pieces` (one more piece than operands).", effect=Effect.DEBUG, attrs="pieces", same=False)
_op("trap", "", "none", "Stop the launch with an error.", effect=Effect.DEBUG, attrs="message")

# --- control ----------------------------------------------------------------------------------------------------------
_C = Effect.CONTROL
_op("if", "bool", "none", "Run `then` or `else`.", effect=_C, regions="then else")
_op("loop", "", "none", "Run `body`, then `step`, until a break. `counted` is None or (slot, trips): a hint that slot counts 0..trips. `rolled`: it is rare, and shall stay a loop.", effect=_C, attrs="counted rolled", regions="body step")
_op("break", "", "none", "Leave the innermost loop.", effect=_C, terminator=True)
_op("break_if", "bool", "none", "Leave the innermost loop where the operand is true.", effect=_C)
_op("continue", "", "none", "Go to `step` of the innermost loop.", effect=_C, terminator=True)
_op("return", "any *", "none", "End the work-item, or leave the function with these results.", effect=_C, terminator=True, same=False)
_op("call", "any *", "none", "Call `function`; `call_result` reads its results.", effect=_C, uniform=Uniform.SPECIAL, attrs="function", same=False)
_op("call_result", "", "given", "Result number `index` of `call`.", uniform=Uniform.SPECIAL, attrs="call index", effect=Effect.SLOT_READ)

# fmt: on
# Functions that take a library: a dozen instructions and more, while sqrt, floor and the like are one on most targets.
ELEMENTARY = frozenset(
    ["cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "pow", "atan2", "hypot", "remainder"]
)
assert OPS.keys() >= ELEMENTARY
