"""Casts to and from f16 and bf16 as LLVM text, each with one rounding.

Halves are integers of 16 bits here, in memory and in registers: LLVM's own `half` and `bfloat` become calls of library
functions (__truncsfhf2 and the like) on CPUs that lack the instruction, and those exist in no JIT.

A cast from f64 goes through f32 rounded to odd, which keeps what the second rounding needs to know: Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 57(4), 2008.
"""

from __future__ import annotations

from magpie.backends.llvm.snippet import Text, bits, const, element, retype

__all__ = ["float_to_half", "half_to_float", "int_to_half"]


def float_to_half(out: str, a: str, source: str, kind: str, *, native_f16: bool) -> list[str]:
    """`out`: 16-bit integers with the bits of `kind` ("f16" or "bf16"), to nearest even; `source` is float or double.

    `native_f16` says that the target converts f32 to f16 itself (`HostTarget.has_f16c`).
    """
    text = Text(out)
    single = retype(source, "float")
    value = _to_odd(text, a, source) if element(source) == "double" else a
    if kind == "f16" and native_f16:
        half = text.let(f"fptrunc {single} {value} to {retype(source, 'half')}")
        return text.done(f"bitcast {retype(source, 'half')} {half} to {retype(source, 'i16')}")
    integer = retype(source, "i32")
    raw = text.let(f"bitcast {single} {value} to {integer}")
    narrow = (_bits_to_bf16 if kind == "bf16" else _bits_to_f16)(text, raw, integer, single)
    return text.done(f"trunc {integer} {narrow} to {retype(source, 'i16')}")


def half_to_float(out: str, a: str, source: str, kind: str, to: str, *, native_f16: bool) -> list[str]:
    """The exact value of half bits (`source` is i16 lanes) as float or double lanes (`to`)."""
    text = Text(out)
    single, integer = retype(source, "float"), retype(source, "i32")
    if kind == "f16" and native_f16:
        half = text.let(f"bitcast {source} {a} to {retype(source, 'half')}")
        value = f"fpext {retype(source, 'half')} {half} to {single}"
    elif kind == "f16":
        wide = text.let(f"zext {source} {a} to {integer}")
        value = _f16_to_bits(text, wide, integer, single)
    else:
        wide = text.let(f"zext {source} {a} to {integer}")
        value = f"bitcast {integer} {text.let(f'shl {integer} {wide}, {const(integer, 16)}')} to {single}"
    if element(to) == "float":
        return text.done(value)
    return text.done(f"fpext {single} {text.let(value)} to {to}")


def int_to_half(out: str, a: str, source: str, kind: str, *, signed: bool, native_f16: bool) -> list[str]:
    """Integers of any width to half bits, rounded once."""
    text = Text(out)
    width = bits(source)
    op = "sitofp" if signed else "uitofp"
    # Up to 24 bits f32 is exact, up to 53 f64 is.
    real = retype(source, "float" if width <= 16 else "double")
    if width == 64:
        a = _jam(text, a, source, signed)
    value = text.let(f"{op} {source} {a} to {real}")
    inner = float_to_half(f"{out}.h", value, real, kind, native_f16=native_f16)
    text.lines += inner
    return text.done(f"bitcast {retype(source, 'i16')} {out}.h to {retype(source, 'i16')}")


def _jam(text: Text, a: str, ty: str, signed: bool) -> str:
    """64-bit integers that f64 cannot hold, rounded to odd at bit 12, which it can hold."""
    low = text.let(f"and {ty} {a}, {const(ty, 0xFFF)}")
    some = text.compare("ne", ty, low, const(ty, 0))
    odd = text.select(ty, some, const(ty, 0x1000), const(ty, 0))
    jammed = text.let(f"or {ty} {text.let(f'and {ty} {a}, {const(ty, ~0xFFF)}')}, {odd}")
    if signed:
        moved = text.let(f"add {ty} {a}, {const(ty, 1 << 53)}")
        large = text.compare("ugt", ty, moved, const(ty, 1 << 54))
    else:
        large = text.compare("ugt", ty, a, const(ty, 1 << 53))
    return text.select(ty, large, jammed, a)


def _to_odd(text: Text, a: str, source: str) -> str:
    """f64 to f32, rounded to odd: toward zero, and the last bit set if anything was lost."""
    single, integer = retype(source, "float"), retype(source, "i32")
    near = text.let(f"fptrunc {source} {a} to {single}")
    back = text.let(f"fpext {single} {near} to {source}")
    # Ordered: NaN stays as it is. An overflow to infinity is too large by one step like any other.
    lost = text.compare("one", source, back, a)
    larger = text.compare("ogt", source, text.call("fabs", source, back), text.call("fabs", source, a))
    raw = text.let(f"bitcast {single} {near} to {integer}")
    step = text.select(integer, larger, const(integer, -1), const(integer, 0))
    toward_zero = text.let(f"add {integer} {raw}, {step}")
    sticky = text.select(integer, lost, const(integer, 1), const(integer, 0))
    return text.let(f"bitcast {integer} {text.let(f'or {integer} {toward_zero}, {sticky}')} to {single}")


def _round_even(text: Text, raw: str, integer: str, dropped: int) -> str:
    """`raw` without its lowest bits, to nearest even; a carry into the exponent is what it should be."""
    last = text.let(
        f"and {integer} {text.let(f'lshr {integer} {raw}, {const(integer, dropped)}')}, {const(integer, 1)}"
    )
    moved = text.let(
        f"add {integer} {text.let(f'add {integer} {raw}, {last}')}, {const(integer, (1 << dropped - 1) - 1)}"
    )
    return text.let(f"lshr {integer} {moved}, {const(integer, dropped)}")


def _bits_to_bf16(text: Text, raw: str, integer: str, single: str) -> str:
    rounded = _round_even(text, raw, integer, 16)
    # The carry of a NaN's payload would make an infinity.
    quiet = text.let(f"or {integer} {text.let(f'lshr {integer} {raw}, {const(integer, 16)}')}, {const(integer, 0x40)}")
    magnitude = text.let(f"and {integer} {raw}, {const(integer, 0x7FFFFFFF)}")
    return text.select(integer, text.compare("ugt", integer, magnitude, const(integer, 0x7F800000)), quiet, rounded)


def _bits_to_f16(text: Text, raw: str, integer: str, single: str) -> str:
    magnitude = text.let(f"and {integer} {raw}, {const(integer, 0x7FFFFFFF)}")
    sign = text.let(
        f"and {integer} {text.let(f'lshr {integer} {raw}, {const(integer, 16)}')}, {const(integer, 0x8000)}"
    )
    rebiased = text.let(f"sub {integer} {magnitude}, {const(integer, (127 - 15) << 23)}")
    normal = _round_even(text, rebiased, integer, 13)
    # Below 2^-14: adding 0.5, whose last place is f16's smallest number, rounds in the right place.
    value = text.let(f"bitcast {integer} {magnitude} to {single}")
    shifted = text.let(f"bitcast {single} {text.let(f'fadd {single} {value}, {const(single, 0.5)}')} to {integer}")
    tiny = text.let(f"sub {integer} {shifted}, {const(integer, 126 << 23)}")
    result = text.select(integer, text.compare("ult", integer, magnitude, const(integer, 113 << 23)), tiny, normal)
    large = text.compare("uge", integer, magnitude, const(integer, 143 << 23))
    result = text.select(integer, large, const(integer, 0x7C00), result)
    payload = text.let(f"lshr {integer} {magnitude}, {const(integer, 13)}")
    payload = text.let(f"and {integer} {payload}, {const(integer, 0x3FF)}")
    quiet = text.let(f"or {integer} {payload}, {const(integer, 0x7E00)}")
    result = text.select(integer, text.compare("ugt", integer, magnitude, const(integer, 0x7F800000)), quiet, result)
    return text.let(f"or {integer} {result}, {sign}")


def _f16_to_bits(text: Text, wide: str, integer: str, single: str) -> str:
    """The float value of f16 bits that stand in 32-bit integers, as an expression."""
    sign = text.let(
        f"shl {integer} {text.let(f'and {integer} {wide}, {const(integer, 0x8000)}')}, {const(integer, 16)}"
    )
    magnitude = text.let(f"and {integer} {wide}, {const(integer, 0x7FFF)}")
    moved = text.let(f"shl {integer} {magnitude}, {const(integer, 13)}")
    normal = text.let(f"add {integer} {moved}, {const(integer, (127 - 15) << 23)}")
    # Infinity and NaN: the exponent is all ones in both formats.
    special = text.let(f"or {integer} {moved}, {const(integer, 0x7F800000)}")
    quiet = text.let(f"or {integer} {special}, {const(integer, 1 << 22)}")
    # Subnormals are whole numbers of 2^-24.
    count = text.let(f"uitofp {integer} {magnitude} to {single}")
    small = text.let(f"bitcast {single} {text.let(f'fmul {single} {count}, {const(single, 2.0**-24)}')} to {integer}")
    result = text.select(integer, text.compare("ult", integer, magnitude, const(integer, 0x400)), small, normal)
    result = text.select(integer, text.compare("uge", integer, magnitude, const(integer, 0x7C00)), special, result)
    result = text.select(integer, text.compare("ugt", integer, magnitude, const(integer, 0x7C00)), quiet, result)
    return f"bitcast {integer} {text.let(f'or {integer} {result}, {sign}')} to {single}"
