"""Operations on integers of any width. The default ones, and `.checked`, panic where the result does not fit; `.wrap`
keeps its low bits. There is no x / 0 and no shift by the width or more: they panic always.

The name of an operation decides whether it takes its operands as signed: `i.udiv` of an i32 divides its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.host.builtins import Site, Step, operation
from magpie.host.panics import Panic
from magpie.mpir.types import Ty

__all__ = ["limits"]

Binary = Callable[[int, int], int]


def limits(type_: Ty) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    return _range(type_.bits, not type_.is_unsigned)


def _range(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _overflow(site: Site) -> Callable[[], int]:
    def fail() -> int:
        raise Panic(f"{site.instr.op} overflows {site.type}")

    return fail


# --- + - * : these run often, and have closures of their own ----------------------------------------------------------
@operation("i.add", "i.add.checked")
def _add(site: Site) -> Step:
    a, b, (low, high), fail = site.slots["lhs"], site.slots["rhs"], limits(site.of("lhs")), _overflow(site)

    def step(frame: list[Any]) -> Any:
        found = frame[a] + frame[b]
        return found if low <= found <= high else fail()

    return step


@operation("i.sub", "i.sub.checked")
def _sub(site: Site) -> Step:
    a, b, (low, high), fail = site.slots["lhs"], site.slots["rhs"], limits(site.of("lhs")), _overflow(site)

    def step(frame: list[Any]) -> Any:
        found = frame[a] - frame[b]
        return found if low <= found <= high else fail()

    return step


@operation("i.mul", "i.mul.checked")
def _mul(site: Site) -> Step:
    a, b, (low, high), fail = site.slots["lhs"], site.slots["rhs"], limits(site.of("lhs")), _overflow(site)

    def step(frame: list[Any]) -> Any:
        found = frame[a] * frame[b]
        return found if low <= found <= high else fail()

    return step


@operation("i.add.wrap")
def _add_wrap(site: Site) -> Step:
    a, b, (low, high) = site.slots["lhs"], site.slots["rhs"], limits(site.of("lhs"))
    mask = high - low
    return lambda frame: ((frame[a] + frame[b] - low) & mask) + low


@operation("i.sub.wrap")
def _sub_wrap(site: Site) -> Step:
    a, b, (low, high) = site.slots["lhs"], site.slots["rhs"], limits(site.of("lhs"))
    mask = high - low
    return lambda frame: ((frame[a] - frame[b] - low) & mask) + low


@operation("i.mul.wrap")
def _mul_wrap(site: Site) -> Step:
    a, b, (low, high) = site.slots["lhs"], site.slots["rhs"], limits(site.of("lhs"))
    mask = high - low
    return lambda frame: ((frame[a] * frame[b] - low) & mask) + low


# --- operations whose name says the sign ------------------------------------------------------------------------------
def _binary(site: Site, signed: bool, fn: Binary) -> Step:
    """A step of two operands that ``fn`` takes as signed or not; its result is of the operands' type again."""
    a, b, type_ = site.slots["lhs"], site.slots["rhs"], site.of("lhs")
    if type_.is_unsigned != signed:
        return lambda frame: fn(frame[a], frame[b])
    low = _range(type_.bits, signed)[0]
    own, mask = limits(type_)[0], (1 << type_.bits) - 1

    def step(frame: list[Any]) -> Any:
        x, y = ((frame[a] - low) & mask) + low, ((frame[b] - low) & mask) + low
        return ((fn(x, y) - own) & mask) + own

    return step


def _divided(x: int, y: int) -> int:
    """The quotient toward zero."""
    found = abs(x) // abs(y)
    return found if (x < 0) == (y < 0) else -found


def _remainder(x: int, y: int) -> int:
    """What `_divided` leaves, with the sign of x."""
    found = abs(x) % abs(y)
    return -found if x < 0 else found


#: Whether each takes its operands as signed, and what it gives for a divisor that is not 0.
_DIVISIONS: dict[str, tuple[bool, Binary]] = {
    "sdiv": (True, _divided),
    "srem": (True, _remainder),
    "udiv": (False, lambda x, y: x // y),
    "urem": (False, lambda x, y: x % y),
    "floordiv": (True, lambda x, y: x // y),
    "mod": (True, lambda x, y: x % y),
}


def _division(name: str, wraps: bool) -> Callable[[Site], Step]:
    signed, quotient = _DIVISIONS[name]

    def make(site: Site) -> Step:
        high = _range(site.of("lhs").bits, signed)[1]
        fail = _overflow(site)

        def divide(x: int, y: int) -> int:
            if y == 0:
                raise Panic(f"{site.instr.op} divides by zero")
            found = quotient(x, y)
            if found > high:  # of the least integer and -1; what is left over is 0, which fits
                return -high - 1 if wraps else fail()
            return found

        return _binary(site, signed, divide)

    return make


for _name in _DIVISIONS:
    operation(f"i.{_name}")(_division(_name, False))
    if _name not in ("floordiv", "mod"):
        operation(f"i.{_name}.checked")(_division(_name, False))
        operation(f"i.{_name}.wrap")(_division(_name, True))


def _named(name: str, signed: bool, fn: Callable[[Site], Binary]) -> None:
    operation(name)(lambda site: _binary(site, signed, fn(site)))


def _power(signed: bool) -> Callable[[Site], Binary]:
    def make(site: Site) -> Binary:
        bits = site.of("lhs").bits
        low, high = _range(bits, signed)
        fail = _overflow(site)

        def power(x: int, y: int) -> int:
            if y < 0:
                if x == 0:
                    raise Panic(f"{site.instr.op} divides by zero")
                return (x if y % 2 else 1) if x in (1, -1) else 0  # 1 / x**-y toward zero
            if x in (0, 1, -1):
                y = y % 2 or (2 if y else 0)
            found: int = x**y if y <= bits else high + 1
            return found if low <= found <= high else fail()

        return power

    return make


for _name, _signed in (("s", True), ("u", False)):
    _named(f"i.{_name}min", _signed, lambda site: min)
    _named(f"i.{_name}max", _signed, lambda site: max)
    _named(f"i.{_name}pow", _signed, _power(_signed))


# --- bits ------------------------------------------------------------------------------------------------------------
@operation("i.and")
def _and(site: Site) -> Step:
    a, b = site.slots["lhs"], site.slots["rhs"]
    return lambda frame: frame[a] & frame[b]


@operation("i.or")
def _or(site: Site) -> Step:
    a, b = site.slots["lhs"], site.slots["rhs"]
    return lambda frame: frame[a] | frame[b]


@operation("i.xor")
def _xor(site: Site) -> Step:
    a, b = site.slots["lhs"], site.slots["rhs"]
    return lambda frame: frame[a] ^ frame[b]


@operation("i.not")
def _not(site: Site) -> Step:
    a, type_ = site.slots["v"], site.of("v")
    if type_.is_bool:
        return lambda frame: not frame[a]
    low, high = limits(type_)
    return lambda frame: high + low - frame[a]  # ~x of a signed integer is -1 - x, of an unsigned one the rest to high


def _shift(name: str) -> Callable[[Site], Step]:
    def make(site: Site) -> Step:
        type_ = site.of("lhs")
        bits, fail = type_.bits, f"{name} shifts a value of {type_.bits} bits by"
        a, b = site.slots["lhs"], site.slots["rhs"]
        mask, (low, _) = (1 << bits) - 1, limits(type_)
        half = 1 << (bits - 1)

        def step(frame: list[Any]) -> int:
            x, count = frame[a] & mask, frame[b] & mask
            if count >= bits:
                raise Panic(f"{fail} {count}")
            if name == "i.shl":
                x <<= count
            elif name == "i.ashr" and x & half:
                x = (x - mask - 1) >> count
            else:
                x >>= count
            found: int = ((x - low) & mask) + low
            return found

        return step

    return make


for _name in ("i.shl", "i.lshr", "i.ashr"):
    operation(_name)(_shift(_name))


def _unary(name: str, fn: Callable[[int, int], int]) -> None:
    """An operation on the bits of a value, and their number."""

    def make(site: Site) -> Step:
        a, type_ = site.slots["v"], site.of("v")
        bits, (low, _) = type_.bits, limits(type_)
        mask = (1 << bits) - 1
        return lambda frame: ((fn(frame[a] & mask, bits) - low) & mask) + low

    operation(name)(make)


_unary("i.popcount", lambda x, bits: x.bit_count())
_unary("i.clz", lambda x, bits: bits - x.bit_length())
_unary("i.ctz", lambda x, bits: (x & -x).bit_length() - 1 if x else bits)


@operation("i.neg")
def _neg(site: Site) -> Step:
    a, (low, high), fail = site.slots["v"], limits(site.of("v")), _overflow(site)
    return lambda frame: -frame[a] if low <= -frame[a] <= high else fail()


@operation("i.abs")
def _abs(site: Site) -> Step:
    a, type_, fail = site.slots["v"], site.of("v"), _overflow(site)
    low, high = _range(type_.bits, True)
    mask = (1 << type_.bits) - 1

    def step(frame: list[Any]) -> Any:
        found = abs(((frame[a] - low) & mask) + low)
        return found if found <= high else fail()

    return step


@operation("i.trip_count")
def _trip_count(site: Site) -> Step:
    start, stop, by = site.slots["start"], site.slots["stop"], site.slots["step"]
    most = (1 << 63) - 1

    def step(frame: list[Any]) -> int:
        size = frame[by]
        span = frame[stop] - frame[start]
        return max(0, min(-(-span // size), most)) if size else 0

    return step


# --- comparisons -----------------------------------------------------------------------------------------------------
@operation("icmp.eq")
def _eq(site: Site) -> Step:
    a, b = site.slots["lhs"], site.slots["rhs"]
    return lambda frame: frame[a] == frame[b]


@operation("icmp.ne")
def _ne(site: Site) -> Step:
    a, b = site.slots["lhs"], site.slots["rhs"]
    return lambda frame: frame[a] != frame[b]


def _lt(a: int, b: int) -> Step:
    return lambda frame: frame[a] < frame[b]


def _le(a: int, b: int) -> Step:
    return lambda frame: frame[a] <= frame[b]


def _compare(make_step: Callable[[int, int], Step], signed: bool, turned: bool) -> Callable[[Site], Step]:
    def make(site: Site) -> Step:
        a, b = site.slots["lhs"], site.slots["rhs"]
        type_ = site.of("lhs")
        if turned:
            a, b = b, a
        if type_.is_bool or type_.is_unsigned != signed:
            return make_step(a, b)
        # the other sign: moving the range by half turns the order of one into that of the other
        half = 1 << (type_.bits - 1)
        mask = (1 << type_.bits) - 1
        compare = make_step(0, 1)
        return lambda frame: (
            compare([(frame[a] + half) & mask, (frame[b] + half) & mask])
            if signed
            else compare([frame[a] & mask, frame[b] & mask])
        )

    return make


for _letter, _signed in (("s", True), ("u", False)):
    for _name, _make, _turned in (("lt", _lt, False), ("gt", _lt, True), ("le", _le, False), ("ge", _le, True)):
        operation(f"icmp.{_letter}{_name}")(_compare(_make, _signed, _turned))
