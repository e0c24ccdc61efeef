"""The math library: elementary functions written once, in Magpie, for every target without better native ones.

`FUNCTIONS` says where each is; `magpie.passes.math_library` puts them in place of the math ops of a kernel. They
use only operations that round correctly on every target of the bit contract (+, -, *, /, sqrt, fma, conversions,
integers), so that these targets give the same bits. docs/MATH.md lists the measured errors.
"""

from __future__ import annotations

__all__ = ["FUNCTIONS"]

# op of the table -> module of this package that has <op>_f32 and <op>_f64
FUNCTIONS: dict[str, str] = {
    op: module
    for module, ops in {
        "exponential": "exp exp2 expm1",
        "logarithm": "log log2 log10 log1p",
        "power": "pow rsqrt cbrt hypot",
        "trigonometric": "sin cos tan",
        "inverse": "asin acos atan atan2",
        "hyperbolic": "sinh cosh tanh erf",
        "exact": "fmod remainder ldexp frexp_mantissa frexp_exponent",
    }.items()
    for op in ops.split()
}
