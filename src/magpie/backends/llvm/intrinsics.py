"""The intrinsics of LLVM itself that GPU targets select: the part of their lists that they share."""

from __future__ import annotations

__all__ = ["OVERLOADED", "types_of"]

_FLOATS = ("f32", "f64")
_INTS = ("i8", "i16", "i32", "i64")

#: Name without the prefix llvm. -> the types that it is overloaded on.
OVERLOADED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fabs", "fma", "sqrt", "floor", "ceil", "trunc", "roundeven", "copysign"), _FLOATS),
    **dict.fromkeys(("minimumnum", "maximumnum", "minimum", "maximum"), _FLOATS),
    **dict.fromkeys(("abs", "smin", "smax", "umin", "umax", "ctpop", "ctlz", "cttz"), _INTS),
    **dict.fromkeys(("fptosi.sat", "fptoui.sat"), tuple(f"{i}.{f}" for i in _INTS for f in _FLOATS)),
}


def types_of(name: str) -> tuple[str, str]:
    """An intrinsic's name as a key of `OVERLOADED`, and its types."""
    kind, _, rest = name.removeprefix("llvm.").partition(".")
    if rest.startswith("sat."):
        return f"{kind}.sat", rest.removeprefix("sat.")
    return kind, rest
