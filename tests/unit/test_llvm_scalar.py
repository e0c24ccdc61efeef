"""The total operations as LLVM text, against Python's integers, fractions, CPython's floats and NumPy's f16 casts."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from magpie.backends.cpu import loader
from magpie.backends.llvm import codegen, halves, scalar

pytestmark = pytest.mark.skipif(not codegen.llvm_version(), reason="llvmlite is not installed")

# 0: a scalar. "baseline" is a CPU with SSE2 alone: no fma, no f16c, no rounding instructions.
CONFIGURATIONS = ((0, "host"), (4, "host"), (8, "host"), (16, "host"), (4, "baseline"))
Array = np.ndarray[Any, Any]
Lines = Callable[..., list[str]]
DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "float": np.float32, "double": np.float64}


def typed(width: int, element: str) -> str:
    return f"<{width} x {element}>" if width else element


class Op:
    """One operation: its name, the types of operands and result, and what writes its lines.

    `types` are the function's type parameters by name, `options` its others.
    """

    def __init__(
        self, name: str, operands: list[str], result: str, function: Lines, types: dict[str, str], **options: Any
    ) -> None:
        self.name, self.operands, self.result = name, operands, result
        self._function, self._types, self._options = function, types, options

    def lines(self, width: int) -> list[str]:
        names = ("%a", "%b", "%c")[: len(self.operands)]
        types = {name: typed(width, element) for name, element in self._types.items()}
        return self._function("%r", *names, **types, **self._options)

    def text(self, width: int) -> str:
        """void @name(ptr out, i64 n, ptr a, ...): the operation over arrays of n elements, n a multiple of 16."""
        names = "abc"[: len(self.operands)]
        body = "".join(
            f"%{n}.p = getelementptr {e}, ptr %{n}.in, i64 %i\n"
            f"%{n} = load {typed(width, e)}, ptr %{n}.p, align {np.dtype(DTYPES[e]).itemsize}\n"
            for n, e in zip(names, self.operands, strict=True)
        )
        arguments = "".join(f", ptr %{n}.in" for n in names)
        align = np.dtype(DTYPES[self.result]).itemsize
        return (
            f"define void @{self.name}(ptr %out, i64 %n{arguments}) nounwind {{\nentry:\nbr label %loop\nloop:\n"
            f"%i = phi i64 [ 0, %entry ], [ %j, %loop ]\n{body}" + "\n".join(self.lines(width)) + "\n"
            f"%out.p = getelementptr {self.result}, ptr %out, i64 %i\n"
            f"store {typed(width, self.result)} %r, ptr %out.p, align {align}\n"
            f"%j = add i64 %i, {max(width, 1)}\n%more = icmp slt i64 %j, %n\n"
            "br i1 %more, label %loop, label %done\ndone:\nret void\n}\n"
        )


def shifted(out: str, a: str, count: str, ty: str, op: str) -> list[str]:
    return scalar.shift(out, op, a, count, ty)


def operations(native: bool) -> list[Op]:
    ops: list[Op] = []
    for element in ("i8", "i16", "i32", "i64"):
        own = {"ty": element}
        for signed in (True, False):
            tag = f"{'s' if signed else 'u'}{element}"
            for name in ("div", "rem", "floordiv", "mod"):
                ops.append(Op(f"{name}.{tag}", [element] * 2, element, getattr(scalar, name), own, signed=signed))
            for real in ("float", "double"):
                types = {"source": real, "to": element}
                ops.append(Op(f"to.{tag}.{real}", [real], element, scalar.float_to_int, types, signed=signed))
            for kind in ("f16", "bf16"):
                types, options = {"source": element}, {"kind": kind, "signed": signed, "native_f16": native}
                ops.append(Op(f"int.{tag}.{kind}", [element], "i16", halves.int_to_half, types, **options))
        for name in ("shl", "lshr", "ashr"):
            ops.append(Op(f"{name}.{element}", [element] * 2, element, shifted, own, op=name))
        for name in ("popcount", "clz", "ctz"):
            ops.append(Op(f"{name}.{element}", [element], element, getattr(scalar, name), own))
    two = ["fmod", "float_floordiv", "float_mod", "ieee_remainder"]
    two += [f"{which}_{kind}" for which in ("min", "max") for kind in ("number", "propagate")]
    for element in ("float", "double"):
        own = {"ty": element}
        ops += [Op(f"{name}.{element}", [element] * 2, element, getattr(scalar, name), own) for name in two]
        ops.append(Op(f"fma.{element}", [element] * 3, element, scalar.fma, own))
        for kind, hard in itertools.product(("f16", "bf16"), sorted({native, False})):
            options = {"kind": kind, "native_f16": hard}
            tail = f"{kind}.{element}.{hard}"
            ops.append(Op(f"narrow.{tail}", [element], "i16", halves.float_to_half, {"source": element}, **options))
            types = {"source": "i16", "to": element}
            ops.append(Op(f"widen.{tail}", ["i16"], element, halves.half_to_float, types, **options))
    return ops


def target(cpu: str) -> codegen.HostTarget:
    host = codegen.host_target()
    if cpu == "host":
        return host
    if not host.is_x86:
        pytest.skip("x86 only")
    if cpu == "baseline":
        return codegen.make_target(host.triple, "x86-64", {})
    features = ["avx2", "fma", "f16c", *(f"avx512{part}" for part in ("f", "vl", "bw", "dq", "cd"))]
    return codegen.make_target(host.triple, cpu, dict.fromkeys(features, True))


@functools.cache
def module(width: int, cpu: str) -> tuple[loader.Image, dict[str, Op]]:
    ops = operations(target(cpu).has_f16c)
    text = "".join(op.text(width) for op in ops)
    obj = codegen.compile_object(text + scalar.helpers(text), target(cpu), opt_level=1, unroll=False)
    return loader.prepare(obj), {op.name: op for op in ops}


class Runner:
    """Calls the operations of one width on arrays. `forms` are the values of native_f16 to try."""

    def __init__(self, width: int, cpu: str) -> None:
        image, self._ops = module(width, cpu)
        # A call of a half-precision or 128-bit helper is refused right here.
        self._image = image.load()
        self.forms = sorted({target(cpu).has_f16c, False})

    def __call__(self, name: str, *operands: Array) -> Array:
        op = self._ops[name]
        count = len(operands[0])
        padded = -(-count // 16) * 16
        ready = [
            np.resize(np.ascontiguousarray(x).view(DTYPES[e]), padded)
            for x, e in zip(operands, op.operands, strict=True)
        ]
        out = np.empty(padded, DTYPES[op.result])
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * len(ready))
        prototype(self._image.address(name))(out.ctypes.data, padded, *[x.ctypes.data for x in ready])
        return out[:count]


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=lambda p: f"{p[1]}{p[0]}")
def run(request: pytest.FixtureRequest) -> Runner:
    return Runner(*request.param)


def test_avx512_needs_no_unknown_function() -> None:
    image, _ = module(16, "skylake-avx512")
    assert all(loader.runtime_symbol(name) for name in image.undefined)
    assert not image.undefined  # everything is an instruction there


def same_floats(got: Array, expected: Array) -> None:
    """Equal bits, but any NaN equals any."""
    unsigned = {4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    expected = expected.astype(got.dtype)
    bad = (got.view(unsigned) != expected.view(unsigned)) & ~(np.isnan(got) & np.isnan(expected))
    assert not bad.any(), [(int(i), float(got[i]), float(expected[i])) for i in np.flatnonzero(bad)[:5]]


# Integers


@functools.cache
def integer_pairs(width: int) -> tuple[list[int], list[int]]:
    """Pairs of signed numbers: all special ones with each other, and random ones of random magnitudes."""
    top = 1 << (width - 1)
    special = sorted(
        {0, 1, -1, 2, -2, 3, -3, 7, -7, 10, top - 1, top - 2, -top, -top + 1, top // 2, -top // 2, top // 3}
    )
    rng = random.Random(width)
    pairs = list(itertools.product(special, special))
    for _ in range(700):
        a, b = (rng.randrange(-top, top) >> rng.randrange(width) for _ in range(2))
        pairs += [(a, b), (max(-top, min(top - 1, a * b)), b)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def wrap(value: int, width: int) -> int:
    return (value + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


INTEGER: dict[str, Callable[[int, int], int]] = {
    "div": truncated,
    "rem": lambda a, b: a - b * truncated(a, b),
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
}


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", list(INTEGER))
def test_integer_division_is_total(run: Runner, name: str, width: int, signed: bool) -> None:
    a, b = integer_pairs(width)
    dtype = DTYPES[f"i{width}"]
    got = run(f"{name}.{'s' if signed else 'u'}i{width}", np.array(a, dtype), np.array(b, dtype))
    mask = -1 if signed else (1 << width) - 1
    values = [(x & mask, y & mask) if not signed else (x, y) for x, y in zip(a, b, strict=True)]
    expected = [wrap(INTEGER[name](x, y), width) if y else 0 for x, y in values]
    assert got.tolist() == expected


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_shifts_and_bit_counts(run: Runner, width: int) -> None:
    a, b = integer_pairs(width)
    dtype, mask = DTYPES[f"i{width}"], (1 << width) - 1
    x, y = np.array(a, dtype), np.array(b, dtype)
    counts = [v & (width - 1) for v in b]
    shifted = {
        "shl": [wrap(v << n, width) for v, n in zip(a, counts, strict=True)],
        "lshr": [wrap((v & mask) >> n, width) for v, n in zip(a, counts, strict=True)],
        "ashr": [v >> n for v, n in zip(a, counts, strict=True)],
    }
    for name, expected in shifted.items():
        assert run(f"{name}.i{width}", x, y).tolist() == expected
    unsigned = [v & mask for v in a]
    assert run(f"popcount.i{width}", x).tolist() == [v.bit_count() for v in unsigned]
    assert run(f"clz.i{width}", x).tolist() == [width - v.bit_length() for v in unsigned]
    assert run(f"ctz.i{width}", x).tolist() == [(v & -v).bit_length() - 1 if v else width for v in unsigned]


# Floats


def floats(dtype: Any, count: int = 1500) -> Array:
    """Special values and random ones of every magnitude, subnormals included."""
    info = np.finfo(dtype)
    special = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        3.0,
        7.0,
        0.1,
        1e-3,
        255.5,
        65504.0,
        65519.9,
        65520.0,
        2.0**31,
        2.0**32,
        2.0**63,
    ]
    special += [2.0**64, 127.5, 128.0, 255.0, 256.0, 32767.9, 32768.0, 65535.5, 65536.0, 2.0**31 - 1, 2.0**31 - 0.5]
    special += [float(x) for x in (info.max, info.tiny, info.smallest_subnormal, info.eps, np.inf, np.nan)]
    rng = np.random.default_rng(3)
    kind = np.uint32 if dtype is np.float32 else np.uint64
    spread = rng.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=True).view(dtype)
    near = (rng.standard_normal(count) * 10.0 ** rng.integers(-6, 7, count)).astype(dtype)
    values = np.array(special, dtype)
    with np.errstate(over="ignore"):
        beside = [np.nextafter(values, dtype(0)), np.nextafter(values, dtype(np.inf))]
    return np.concatenate([values, -values, spread, near, *beside])


def float_pairs(dtype: Any) -> tuple[Array, Array]:
    values = floats(dtype, 400)
    special = values[:66]
    grid = np.array(list(itertools.product(special, special)), dtype)
    rng = np.random.default_rng(5)
    a, b = rng.permutation(values), rng.permutation(values)
    near = (rng.standard_normal(800)).astype(dtype)
    with np.errstate(all="ignore"):
        multiple = (near * rng.integers(-50, 50, 800)).astype(dtype)
    return np.concatenate([grid[:, 0], a, multiple]), np.concatenate([grid[:, 1], b, near])


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("name", ["fmod", "float_floordiv", "float_mod", "ieee_remainder"])
def test_float_division_is_exact(run: Runner, name: str, element: str) -> None:
    dtype = DTYPES[element]
    a, b = float_pairs(dtype)
    same_floats(run(f"{name}.{element}", a, b), float_expected(name, element))


@functools.cache
def float_expected(name: str, element: str) -> Array:
    dtype = DTYPES[element]
    a, b = float_pairs(dtype)
    if name in ("fmod", "ieee_remainder"):
        # Both are exact, so f64 arithmetic gives f32's results too.
        function = math.fmod if name == "fmod" else math.remainder
        return np.array([_or_nan(function, float(x), float(y)) for x, y in zip(a, b, strict=True)], dtype)
    with np.errstate(all="ignore"):
        if element == "float":  # NumPy has CPython's algorithm in f32
            return np.floor_divide(a, b) if name == "float_floordiv" else np.remainder(a, b)
        quotient = a / b
    if name == "float_floordiv":
        return np.array([x // y if y else float(q) for x, y, q in zip(a.tolist(), b.tolist(), quotient, strict=True)])
    return np.array([x % y if y else math.nan for x, y in zip(a.tolist(), b.tolist(), strict=True)])


def _or_nan(function: Callable[[float, float], float], x: float, y: float) -> float:
    try:
        return function(x, y)
    except ValueError:
        return math.nan


def test_the_known_cases(run: Runner) -> None:
    one = np.array([7.0, -7.0, 1.0, -1.0, 5.0, -0.0])
    two = np.array([0.1, 0.1, np.inf, np.inf, 0.0, 3.0])
    same_floats(run("float_floordiv.double", one, two), np.array([69.0, -70.0, 0.0, -1.0, np.inf, -0.0]))
    same_floats(run("float_mod.double", one[2:], two[2:]), np.array([1.0, np.inf, np.nan, 0.0]))


@pytest.mark.parametrize("element", ["float", "double"])
def test_minimum_and_maximum(run: Runner, element: str) -> None:
    a, b = float_pairs(DTYPES[element])

    def order(x: float) -> tuple[float, float]:
        return x, math.copysign(1.0, x)

    for name, pick in (("min", min), ("max", max)):
        number, propagate = [], []
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            ordered = [v for v in (x, y) if v == v]
            number.append(pick(ordered, key=order) if ordered else math.nan)
            propagate.append(number[-1] if len(ordered) == 2 else math.nan)
        same_floats(run(f"{name}_number.{element}", a, b), np.array(number))
        same_floats(run(f"{name}_propagate.{element}", a, b), np.array(propagate))


def test_fma_rounds_once(run: Runner) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal(200), rng.standard_normal(200)
    c = -(a * b) * rng.choice([1.0, 1.0, 0.5, 1e-17], 200)
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a, b, c, strict=True)]
    same_floats(run("fma.double", a, b, c), np.array([x.numerator / x.denominator for x in exact]))
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = -(a * b)
    # The exact sum of a 48-bit product and a nearby float fits f64.
    wide = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    same_floats(run("fma.float", a, b, c), wide.astype(np.float32))


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_float_to_int_saturates(run: Runner, element: str, signed: bool, width: int) -> None:
    edge = np.array(
        [float(s * (1 << k) + d) for k in (7, 8, 15, 16, 31, 32, 63) for s in (1, -1) for d in (-1, -0.5, 0, 0.5)]
    )
    values = np.concatenate([floats(DTYPES[element], 300), edge.astype(DTYPES[element])])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)

    def convert(x: float) -> int:
        if x != x:
            return 0
        return (high if x > 0 else low) if math.isinf(x) else max(low, min(high, int(x)))

    got = run(f"to.{'s' if signed else 'u'}i{width}.{element}", values)
    assert got.tolist() == [wrap(convert(x), width) for x in values.tolist()]


# Halves

FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127)}  # bits of precision, exponents of the normal range


def half_bits(value: Fraction, negative: bool, kind: str) -> int:
    """The bits of the nearest value of a format, ties to even, from the definition."""
    precision, low, high = FORMATS[kind]
    sign = 0x8000 if negative else 0
    size = abs(value)
    if not size:
        return sign
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    place = max(exponent, low) - (precision - 1)
    count = round(size / Fraction(2) ** place)  # ties to even
    if count >= 1 << precision:
        count, place = count >> 1, place + 1
    if place + precision - 1 > high:
        return sign | ((2 * high + 1) << (precision - 1))
    if count < 1 << (precision - 1):
        return sign | count
    return sign | ((place + precision - 1 - low + 1) << (precision - 1)) | (count - (1 << (precision - 1)))


def halfway(kind: str, dtype: Any) -> Array:
    """Values in the middle between two halves, and the nearest on both sides: where rounding twice goes wrong."""
    precision = FORMATS[kind][0]
    rng = np.random.default_rng(13)
    odd = 2 * rng.integers(1 << (precision - 1), 1 << precision, 150) + 1
    scale = 2.0 ** rng.integers(-34, 6, 150) if kind == "f16" else 2.0 ** rng.integers(-145, 110, 150)
    middle = (odd * scale).astype(dtype)
    return np.concatenate([middle, np.nextafter(middle, dtype(0)), np.nextafter(middle, dtype(np.inf)), -middle])


@functools.cache
def narrowing(kind: str, element: str) -> tuple[Array, list[int]]:
    dtype = DTYPES[element]
    values = np.concatenate([floats(dtype, 400), halfway(kind, dtype)])
    exponent = 0x7C00 if kind == "f16" else 0x7F80
    expected = []
    for x in values.tolist():
        if math.isinf(x):
            expected.append(exponent | (0x8000 if x < 0 else 0))
        else:
            expected.append(-1 if x != x else half_bits(Fraction(x), math.copysign(1.0, x) < 0, kind))
    return values, expected


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_narrowing_rounds_once(run: Runner, kind: str, element: str) -> None:
    values, expected = narrowing(kind, element)
    exponent = 0x7C00 if kind == "f16" else 0x7F80
    for native in run.forms:
        got = run(f"narrow.{kind}.{element}.{native}", values).view(np.uint16)
        # Any quiet NaN is the NaN.
        seen = [-1 if (g & 0x7FFF) > exponent and g & (exponent >> 1 & ~exponent | 0x40) else g for g in got.tolist()]
        assert seen == expected
    if kind == "f16":
        with np.errstate(over="ignore"):
            numpy = values.astype(np.float16).view(np.uint16)
        numbers = ~np.isnan(values)
        assert numpy[numbers].tolist() == [e for e in expected if e >= 0]


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_widening_is_exact(run: Runner, kind: str, element: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        expected = (
            every.view(np.float16).astype(np.float32)
            if kind == "f16"
            else (every.astype(np.uint32) << 16).view(np.float32)
        )
        wide = expected.astype(DTYPES[element])
    for native in run.forms:
        same_floats(run(f"widen.{kind}.{element}.{native}", every), wide)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integers_to_halves_round_once(run: Runner, kind: str, signed: bool, width: int) -> None:
    values, expected = integers_to_half(kind, signed, width)
    got = run(f"int.{'s' if signed else 'u'}i{width}.{kind}", values).view(np.uint16)
    assert got.tolist() == expected


@functools.cache
def integers_to_half(kind: str, signed: bool, width: int) -> tuple[Array, list[int]]:
    rng = random.Random(width)
    mask = (1 << width) - 1
    values = integer_pairs(width)[0][:700]
    for _ in range(200):  # one off the middle, far below f64's last place
        middle = (2 * rng.randrange(128, 256) + 1) << rng.randrange(max(width - 9, 1))
        values = [*values, *(wrap(s * (middle + d), width) for d in (-1, 0, 1) for s in (1, -1))]
    chosen = [v if signed else v & mask for v in values]
    return np.array(values, DTYPES[f"i{width}"]), [half_bits(Fraction(v), v < 0, kind) for v in chosen]
