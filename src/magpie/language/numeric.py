"""Numbers in kernels: bits, selection and mathematical functions.

Mathematical functions take f16, bf16, f32 or f64 and give the same type; an integer is converted to f32 first. The
functions of the same name in Python's ``math`` may be used as well.
"""

from __future__ import annotations

from typing import Any

from magpie.language._builtin import builtin

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "bitcast",
    "cbrt",
    "ceil",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "ctz",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fma",
    "fmod",
    "frexp",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "maximum",
    "min",
    "minimum",
    "popcount",
    "pow",
    "remainder",
    "round",
    "rsqrt",
    "select",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip


@builtin
def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of ``x`` as a value of ``dtype``, which has the same width."""


@builtin
def popcount(x: Any) -> Any:
    """Number of set bits of an integer, in the type of ``x``."""


@builtin
def clz(x: Any) -> Any:
    """Leading zero bits of an integer; ``clz(0)`` is the width."""


@builtin
def ctz(x: Any) -> Any:
    """Trailing zero bits of an integer; ``ctz(0)`` is the width."""


@builtin
def select(cond: Any, a: Any, b: Any) -> Any:
    """``a`` where ``cond`` is true, else ``b``. Both are evaluated."""


@builtin
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers; NaN if one is NaN (``min`` drops it)."""


@builtin
def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers; NaN if one is NaN (``max`` drops it)."""


@builtin
def min(a: Any, b: Any, *more: Any) -> Any:
    """The smallest of the numbers; a NaN loses, and -0.0 is below 0.0."""


@builtin
def max(a: Any, b: Any, *more: Any) -> Any:
    """The largest of the numbers; a NaN loses, and -0.0 is below 0.0."""


@builtin
def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` with one rounding."""


@builtin
def abs(x: Any) -> Any:
    """Absolute value, in the type of ``x``."""


@builtin
def round(x: Any) -> Any:
    """The nearest integer, ties to even, as a float of the type of ``x``."""


@builtin
def pow(x: Any, y: Any) -> Any:
    """``x ** y``."""


@builtin
def sqrt(x: Any) -> Any:
    """Square root, correctly rounded."""


@builtin
def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``."""


@builtin
def cbrt(x: Any) -> Any:
    """Cube root."""


@builtin
def exp(x: Any) -> Any:
    """``e ** x``."""


@builtin
def exp2(x: Any) -> Any:
    """``2 ** x``."""


@builtin
def expm1(x: Any) -> Any:
    """``exp(x) - 1`` without loss near 0."""


@builtin
def log(x: Any) -> Any:
    """Natural logarithm."""


@builtin
def log2(x: Any) -> Any:
    """Logarithm to base 2."""


@builtin
def log10(x: Any) -> Any:
    """Logarithm to base 10."""


@builtin
def log1p(x: Any) -> Any:
    """``log(1 + x)`` without loss near 0."""


@builtin
def sin(x: Any) -> Any:
    """Sine of an angle in radians."""


@builtin
def cos(x: Any) -> Any:
    """Cosine of an angle in radians."""


@builtin
def tan(x: Any) -> Any:
    """Tangent of an angle in radians."""


@builtin
def asin(x: Any) -> Any:
    """Arc sine, in radians."""


@builtin
def acos(x: Any) -> Any:
    """Arc cosine, in radians."""


@builtin
def atan(x: Any) -> Any:
    """Arc tangent, in radians."""


@builtin
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), in radians."""


@builtin
def sinh(x: Any) -> Any:
    """Hyperbolic sine."""


@builtin
def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""


@builtin
def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""


@builtin
def erf(x: Any) -> Any:
    """Error function."""


@builtin
def floor(x: Any) -> Any:
    """The largest integer not above ``x``, as a float."""


@builtin
def ceil(x: Any) -> Any:
    """The smallest integer not below ``x``, as a float."""


@builtin
def trunc(x: Any) -> Any:
    """``x`` without its fraction, as a float."""


@builtin
def hypot(x: Any, y: Any) -> Any:
    """``sqrt(x * x + y * y)`` without undue overflow."""


@builtin
def fmod(x: Any, y: Any) -> Any:
    """C's fmod: exact, with the sign of ``x``."""


@builtin
def remainder(x: Any, y: Any) -> Any:
    """IEEE remainder: ``x - n * y`` with n the integer nearest to ``x / y``."""


@builtin
def copysign(x: Any, y: Any) -> Any:
    """The magnitude of ``x`` with the sign of ``y``."""


@builtin
def ldexp(x: Any, n: Any) -> Any:
    """``x * 2 ** n`` with one rounding."""


@builtin
def frexp(x: Any) -> Any:
    """``(m, e)`` with ``x == m * 2 ** e`` and 0.5 <= abs(m) < 1."""


@builtin
def isnan(x: Any) -> Any:
    """True for a NaN."""


@builtin
def isinf(x: Any) -> Any:
    """True for an infinity."""


@builtin
def isfinite(x: Any) -> Any:
    """True for neither an infinity nor a NaN."""
