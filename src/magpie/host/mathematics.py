"""Functions of std.math, and the operations on numbers that kernels have besides: what Kernel IR says they are.

They are those of the interpreter of kernels, so a host program and a kernel get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from magpie.dtypes import DType, bool_, by_name
from magpie.host.builtins import Call, Site, Step, builtin, operation
from magpie.host.integers import limits
from magpie.host.library import fma32, fma64, library_function, square_root
from magpie.host.rounding import rounding
from magpie.mpir.ops import MATH
from magpie.mpir.types import Ty

__all__: list[str] = []


_FMA: dict[str, Callable[..., Any]] = {"f32": fma32, "f64": fma64}
_LIBRARY = frozenset((*MATH, "pow", "atan2", "hypot"))


@cache
def _function(op: str, result: DType, operands: tuple[DType, ...]) -> Callable[..., Any]:
    """An op of Kernel IR on Python numbers."""
    if op == "fma" and result.name in _FMA:
        return _FMA[result.name]
    if op in _LIBRARY:
        return library_function(op, result.name)
    from magpie.backends.interp.numerics import fold  # takes a while to load, and few programs need it

    return lambda *values: fold(op, result, operands, values)


def _step(op: str, keys: Sequence[str], result: str = "") -> Callable[[Site], Step]:
    """The operation of MPIR that is ``op`` of its operands; its result has the type of the first without ``result``."""

    def make(site: Site) -> Step:
        types = tuple(by_name(site.of(key).name) for key in keys)
        found = by_name(result) if result else types[0]
        slots = [site.slots[key] for key in keys]
        if len(slots) == 1:
            a = slots[0]
            return lambda frame: _function(op, found, types)(frame[a])
        return lambda frame: _function(op, found, types)(*[frame[k] for k in slots])

    return make


for _name in ("min", "max", "minimum", "maximum", "floordiv", "mod", "copysign"):
    operation(f"f.{_name}")(_step(_name, ("lhs", "rhs")))
for _name in ("floor", "ceil", "trunc", "round"):
    operation(f"f.{_name}")(_step(_name, ("v",)))
operation("f.fma")(_step("fma", ("a", "b", "c")))
for _name in MATH:
    operation(f"math.{_name}")(_step(_name, ("v",)))
for _name in ("pow", "atan2", "hypot", "remainder"):
    operation(f"math.{_name}")(_step(_name, ("lhs", "rhs")))
operation("math.ldexp")(_step("ldexp", ("v", "n")))
operation("math.frexp_mantissa")(_step("frexp_mantissa", ("v",)))
operation("math.frexp_exponent")(_step("frexp_exponent", ("v",), "i32"))


@operation("f.sqrt")
def _sqrt(site: Site) -> Step:
    a, rounds = site.slots["v"], rounding(site.of("v").name)
    return lambda frame: rounds(square_root(frame[a]))


# --- std.math --------------------------------------------------------------------------------------------------------
def _type(call: Call, *keys: str) -> Ty:
    found = call.types[keys[0]]
    assert found is not None
    return found.owned


def _real(name: str, op: str, result: DType | None = None) -> None:
    """A function of one real number."""

    @builtin(f"std.math.@{name}")
    def function(call: Call, x: float) -> Any:
        type_ = by_name(_type(call, "x").name)
        return _function(op, result or type_, (type_,))(x)


for _name in sorted({*MATH, "floor", "ceil", "trunc", "round"} - {"rsqrt", "erf"}):
    _real(_name, _name)
_real("is_nan", "isnan", bool_)
_real("is_finite", "isfinite", bool_)


@builtin("std.math.@sqrt")
def sqrt(call: Call, x: float) -> float:
    return rounding(_type(call, "x").name)(square_root(x))


def _two(name: str, first: str, second: str) -> None:
    """A function of two real numbers, whose operands have these names."""

    def evaluate(call: Call, a: float, b: float) -> Any:
        type_ = by_name(_type(call, first).name)
        return _function(name, type_, (type_, type_))(a, b)

    if first == "x":

        @builtin(f"std.math.@{name}")
        def of_x_and_y(call: Call, x: float, y: float) -> Any:
            return evaluate(call, x, y)

    else:

        @builtin(f"std.math.@{name}")
        def of_y_and_x(call: Call, y: float, x: float) -> Any:
            return evaluate(call, y, x)


for _name in ("pow", "hypot", "copysign"):
    _two(_name, "x", "y")
_two("atan2", "y", "x")


@builtin("std.math.@fma")
def fma(call: Call, a: float, b: float, c: float) -> Any:
    type_ = by_name(_type(call, "a").name)
    return _function("fma", type_, (type_,) * 3)(a, b, c)


@builtin("std.math.@abs")
def abs_(call: Call, x: Any) -> Any:
    type_ = _type(call, "x")
    if type_.is_int and -x > limits(type_)[1]:
        raise call.panic(f"std.math.@abs overflows {type_}")
    return abs(x)


def _choice(name: str, fn: Callable[..., Any]) -> None:
    @builtin(f"std.math.@{name}")
    def function(call: Call, a: Any, b: Any) -> Any:
        type_ = _type(call, "a")
        if type_.is_int:
            return fn(a, b)
        real = by_name(type_.name)
        return _function(name, real, (real, real))(a, b)


_choice("min", min)
_choice("max", max)
