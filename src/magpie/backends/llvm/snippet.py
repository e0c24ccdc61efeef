"""Pieces that write LLVM text: types as the text spells them, constants, and a list of lines with fresh names."""

from __future__ import annotations

import re
import struct

__all__ = ["Text", "bits", "const", "element", "lanes", "mangle", "retype"]

_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_MANGLED = {"float": "f32", "double": "f64", "half": "f16"}


def lanes(ty: str) -> int:
    """The lane count of "<8 x float>" (8); 0 for a scalar type."""
    found = _VECTOR.fullmatch(ty)
    return int(found.group(1)) if found else 0


def element(ty: str) -> str:
    """The type of one lane: "float" for "<8 x float>" and for "float"."""
    found = _VECTOR.fullmatch(ty)
    return found.group(2) if found else ty


def retype(ty: str, scalar: str) -> str:
    """The type with the same lanes and another element."""
    count = lanes(ty)
    return f"<{count} x {scalar}>" if count else scalar


def mangle(ty: str) -> str:
    """How intrinsic names spell a type: v8f32, i32."""
    scalar = element(ty)
    count = lanes(ty)
    return (f"v{count}" if count else "") + _MANGLED.get(scalar, scalar)


def bits(ty: str) -> int:
    """The width of one lane."""
    scalar = element(ty)
    return {"float": 32, "double": 64, "half": 16}.get(scalar) or int(scalar[1:])


def const(ty: str, value: float) -> str:
    """A constant of every lane. Floats are written as bits, so inf, NaN and -0.0 are fine."""
    scalar = element(ty)
    if scalar in ("float", "double"):
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    else:
        # As a signed number of the width: the parser refuses others.
        half = 1 << bits(ty) - 1
        text = str((int(value) + half) % (2 * half) - half)
    return f"splat ({scalar} {text})" if lanes(ty) else text


class Text:
    """Lines that compute `out` (a name with its %); temporaries are called after it, so `out` must be unique."""

    __slots__ = ("_count", "_out", "lines")

    def __init__(self, out: str) -> None:
        self._out = out
        self._count = 0
        self.lines: list[str] = []

    def name(self) -> str:
        """A fresh temporary."""
        self._count += 1
        return f"{self._out}.{self._count}"

    def let(self, expression: str) -> str:
        """The name of a new value."""
        name = self.name()
        self.lines.append(f"{name} = {expression}")
        return name

    def done(self, expression: str) -> list[str]:
        """Give `out` its value; all lines."""
        self.lines.append(f"{self._out} = {expression}")
        return self.lines

    def compare(self, predicate: str, ty: str, a: str, b: str) -> str:
        """icmp or fcmp, by the type."""
        op = "fcmp" if element(ty) in ("float", "double", "half") else "icmp"
        return self.let(f"{op} {predicate} {ty} {a}, {b}")

    def both(self, op: str, ty: str, a: str, b: str) -> str:
        """and, or, xor of two masks with the lanes of `ty`."""
        return self.let(f"{op} {retype(ty, 'i1')} {a}, {b}")

    def select(self, ty: str, mask: str, a: str, b: str) -> str:
        """Lanes of `a` where the mask is set, else of `b`."""
        return self.let(self.pick(ty, mask, a, b))

    @staticmethod
    def pick(ty: str, mask: str, a: str, b: str) -> str:
        """The expression of `select`, for `done`."""
        return f"select {retype(ty, 'i1')} {mask}, {ty} {a}, {ty} {b}"

    def call(self, intrinsic: str, ty: str, *arguments: str) -> str:
        """llvm.`intrinsic` on operands of one type, which is also the result's."""
        return self.let(self.invoke(intrinsic, ty, *arguments))

    @staticmethod
    def invoke(intrinsic: str, ty: str, *arguments: str) -> str:
        """The expression of `call`, for `done`."""
        return f"call {ty} @llvm.{intrinsic}.{mangle(ty)}({', '.join(f'{ty} {a}' for a in arguments)})"
