"""What single operations of `.mp` kernels compute on interp and cpu, against NumPy, Python's integers and mpmath.

One kernel computes many operations, each into a stretch of its own of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import magpie as mp
from magpie.dtypes import by_name
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.mpir import parse_module, print_module
from tests.conformance.harness import Run, compare

BACKENDS = ("interp", "cpu")
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def load(tmp_path):
    """Loads a text as a module; the text of its MPIR must mean the same."""

    def load(text):
        path = tmp_path / "t.mp"
        path.write_text("module t\n" + text)
        found = check_source(Source(path.read_text(), str(path)))
        if found.module is not None:
            printed = print_module(found.module)
            assert print_module(parse_module(printed)) == printed
        return mp.load_module(path)

    return load


def elementwise(t: str, rows: list[tuple[str, str]], inputs: str = "x") -> str:
    """A kernel with a buffer for each letter of ``inputs`` and one for each type of a result; %x and so on are the
    operands of the ``rows``: the type of a result and the operation."""
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    params = [f"%p{c}: gpu.TBuffer<{t}>" for c in inputs] + [f"%out_{kind}: gpu.TBuffer<{kind}>" for kind in kinds]
    lines = ["%g: u32 = gpu.global_id { dim=const.u32 0 }", f"%n: u32 = gpu.buffer_len<{t}> {{ buf=%p{inputs[0]} }}"]
    lines += ["%in: bool = icmp.ult { a=%g, b=%n }", "cbr %in bb1 bb2", "bb1:"]
    lines += [f"%{c}: {t} = gpu.buffer_load<{t}> {{ buf=%p{c}, idx=%g }}" for c in inputs]
    at = dict.fromkeys(kinds, 0)
    for k, (kind, op) in enumerate(rows):
        lines += [
            f"%r{k}: {kind} = {op}",
            f"%m{k}: u32 = i.mul {{ a=%n, b=const.u32 {at[kind]} }}",
            f"%i{k}: u32 = i.add {{ a=%m{k}, b=%g }}",
            f"gpu.buffer_store<{kind}> {{ buf=%out_{kind}, idx=%i{k}, v=%r{k} }}",
        ]
        at[kind] += 1
    body = "\n".join([*lines, "br bb2", "bb2:", "ret"])
    return f"gpu fn @k({', '.join(params)}) -> unit target(interp) {{\nbb0:\n{body}\n}}\n"


def numpy_type(name: str) -> Any:
    return by_name(name).numpy


def check(load, t, rows, given, ulps=None):
    """``rows``: (type of the result, operation, function of the inputs); ``ulps`` for those that are not exact."""
    module = load(elementwise(t, [(kind, op) for kind, op, _ in rows], "xyz"[: len(given)]))
    n = len(given[0])
    kinds = list(dict.fromkeys(kind for kind, _, _ in rows))
    with np.errstate(all="ignore"):
        wanted = [(kind, op, np.asarray(f(*given)).astype(numpy_type(kind))) for kind, op, f in rows]
    for backend in BACKENDS:
        outs = [np.zeros(n * sum(k == kind for k, _, _ in rows), numpy_type(kind)) for kind in kinds]
        module.k.launch(grid=mp.cdiv(n, 64), args=(*given, *outs), backend=backend)
        at = dict.fromkeys(kinds, 0)
        for kind, op, want in wanted:
            got = outs[kinds.index(kind)][at[kind] : at[kind] + n]
            at[kind] += n
            compare(got, want, Run(None, given, {}, ulps=ulps or 0), f"{backend}: {op} of {t}")


# --- integers ---------------------------------------------------------------------------------------------------------
def integers(t: str, seed: int, n: int = 200) -> np.ndarray:
    d = by_name(t)
    rng = np.random.default_rng(seed)
    corners = [d.min, d.max, 0, 1, d.max - 1, d.min + 1, 2, 7, d.max // 2]
    small = rng.integers(max(d.min, -20), 20, 60)
    wide = rng.integers(d.min, d.max, n - len(corners) - 60, dtype=numpy_type(t), endpoint=True)
    return np.concatenate([np.array(corners, numpy_type(t)), small.astype(numpy_type(t)), wide])


def in_python(t: str, f: Callable[..., int], signed: bool | None = None) -> Callable[..., np.ndarray]:
    """``f`` of Python's integers, of the sign that the operation names, and wrapped into the type."""
    d = by_name(t)
    own = d.min < 0

    def to(v: int, negative: bool) -> int:
        v %= 1 << d.bits
        return v - (1 << d.bits) if negative and v >> (d.bits - 1) else v

    def run(*arrays: np.ndarray) -> np.ndarray:
        sign = own if signed is None else signed
        rows = zip(*(a.tolist() for a in arrays), strict=True)
        return np.array([to(f(*(to(v, sign) for v in row)), own) for row in rows], numpy_type(t))

    return run


def power(a: int, b: int, bits: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << bits) if a >= 0 else pow(a % (1 << bits), b, 1 << bits)
    return 1 if a == 1 or (a == -1 and b % 2 == 0) else -1 if a == -1 else 0


@pytest.mark.parametrize("t", INTS)
def test_integers_of_two_operands(load, t):
    bits = by_name(t).bits
    named = {
        "i.smin": (min, True),
        "i.smax": (max, True),
        "i.umin": (min, False),
        "i.umax": (max, False),
        "i.floordiv": (lambda a, b: a // b if b else 0, True),
        "i.mod": (lambda a, b: a % b if b else 0, True),
        "i.spow": (lambda a, b: power(a, b, bits), True),
        "i.upow": (lambda a, b: power(a, b, bits), False),
    }
    rows = [(t, f"{op} {{ a=%x, b=%y }}", in_python(t, f, sign)) for op, (f, sign) in named.items()]
    y = integers(t, 2)
    rows.append((t, "select { cond=%in, a=%y, b=%x }", lambda x, y: y))
    check(load, t, rows, (np.random.default_rng(5).permutation(integers(t, 1)), y))


@pytest.mark.parametrize("t", INTS)
def test_integers_of_one_operand(load, t):
    bits = by_name(t).bits
    width = in_python(t, lambda a: bits - a.bit_length(), False)
    rows = [
        (t, "i.neg { v=%x }", in_python(t, lambda a: -a)),
        (t, "i.abs { v=%x }", in_python(t, abs, True)),
        (t, "i.not { v=%x }", in_python(t, lambda a: ~a)),
        (t, "i.popcount { v=%x }", in_python(t, lambda a: a.bit_count(), False)),
        (t, "i.clz { v=%x }", width),
        (t, "i.ctz { v=%x }", in_python(t, lambda a: (a & -a).bit_length() - 1 if a else bits, False)),
    ]
    check(load, t, rows, (integers(t, 3),))


@pytest.mark.parametrize(("t", "to"), [("u32", "f32"), ("i64", "f64"), ("f16", "u16"), ("bf16", "i16"), ("i8", "u8")])
def test_bitcast(load, t, to):
    x = integers(f"u{by_name(t).bits}", 4).view(numpy_type(t))
    for source, target, given in ((t, to, x), (to, t, x.view(numpy_type(to)))):
        if not by_name(target).is_float:  # a NaN is one value, and bits of another need not come through
            rows = [(target, f"bitcast<{source}, {target}> {{ v=%x }}", lambda v, k=target: v.view(numpy_type(k)))]
            given = given[~np.isnan(given.astype(np.float64))] if by_name(source).is_float else given
            check(load, source, rows, (given,))


def test_trip_counts_are_those_of_range(load):
    text = """gpu fn @k(%x: gpu.TBuffer<i64>, %out: gpu.TBuffer<i64>) -> unit target(interp) {
bb0:
    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %n: u32 = gpu.buffer_len<i64> { buf=%out }
    %in: bool = icmp.ult { a=%g, b=%n }
    cbr %in bb1 bb2
bb1:
    %k: u32 = i.mul { a=%g, b=const.u32 3 }
    %k1: u32 = i.add { a=%k, b=const.u32 1 }
    %k2: u32 = i.add { a=%k, b=const.u32 2 }
    %a: i64 = gpu.buffer_load<i64> { buf=%x, idx=%k }
    %b: i64 = gpu.buffer_load<i64> { buf=%x, idx=%k1 }
    %c: i64 = gpu.buffer_load<i64> { buf=%x, idx=%k2 }
    %r: i64 = i.trip_count { start=%a, stop=%b, step=%c }
    gpu.buffer_store<i64> { buf=%out, idx=%g, v=%r }
    br bb2
bb2:
    ret
}
"""
    big = 2**63 - 1
    rows = [(0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 1), (0, big, 1), (-big, 0, 7), (3, 90, 0), (-4, 9, 2)]
    k = load(text).k
    for backend in BACKENDS:
        out = np.zeros(len(rows), np.int64)
        k.launch(grid=1, args=(np.array(rows, np.int64).ravel(), out), backend=backend)
        assert out.tolist() == [len(range(*row)) if row[2] else 0 for row in rows]


# --- floats -----------------------------------------------------------------------------------------------------------
def floats(t: str, seed: int, n: int = 200, scale: float = 20.0) -> np.ndarray:
    kind = numpy_type(t)
    rng = np.random.default_rng(seed)
    corners = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 7.0, 0.1, 1e-3]
    return np.concatenate([np.array(corners), rng.standard_normal(n - len(corners)) * scale]).astype(kind)


def wide(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """``f`` computed in f64 of what every float type holds there exactly."""
    return lambda *arrays: np.asarray(f(*(a.astype(np.float64) for a in arrays)))


def pair(f: Callable[[float, float], Any]) -> Callable[..., np.ndarray]:
    return wide(lambda x, y: [f(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])


def least(a: float, b: float) -> float:
    """minimumNumber of IEEE 754-2019."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b) if a != b else a if math.copysign(1, a) < 0 else b


def python_mod(a: float, b: float) -> float:
    if b == 0 or math.isnan(a) or math.isnan(b) or math.isinf(a):
        return math.nan
    return a % b


@pytest.mark.parametrize("t", FLOATS)
def test_exact_operations_of_floats(load, t):
    kind = numpy_type(t)
    largest = lambda a, b: -least(-a, -b)  # noqa: E731
    both = lambda f: lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else f(a, b)  # noqa: E731
    rows = [
        (t, "f.neg { v=%x }", lambda x, y: -x),
        (t, "f.abs { v=%x }", lambda x, y: np.abs(x)),
        (t, "f.floor { v=%x }", wide(lambda x, y: np.floor(x))),
        (t, "f.ceil { v=%x }", wide(lambda x, y: np.ceil(x))),
        (t, "f.trunc { v=%x }", wide(lambda x, y: np.trunc(x))),
        (t, "f.round { v=%x }", wide(lambda x, y: np.rint(x))),
        (t, "f.sqrt { v=%x }", wide(lambda x, y: np.sqrt(x))),
        (t, "f.min { a=%x, b=%y }", pair(least)),
        (t, "f.max { a=%x, b=%y }", pair(largest)),
        (t, "f.minimum { a=%x, b=%y }", pair(both(least))),
        (t, "f.maximum { a=%x, b=%y }", pair(both(largest))),
        (t, "f.copysign { a=%x, b=%y }", wide(np.copysign)),
        (t, "f.rem.fast { a=%x, b=%y }", wide(np.fmod)),
        (t, "math.remainder { a=%x, b=%y }", pair(ieee_remainder)),
        (t, "math.frexp_mantissa { v=%x }", wide(lambda x, y: np.frexp(x)[0])),
        ("i32", "math.frexp_exponent { v=%x }", wide(lambda x, y: np.where(np.isfinite(x), np.frexp(x)[1], 0))),
        (t, "math.ldexp { v=%x, n=const.i32 3 }", wide(lambda x, y: np.ldexp(x, 3))),
        (t, "select { cond=%in, a=%y, b=%x }", lambda x, y: y),
        ("bool", "f.is_nan { v=%x }", wide(lambda x, y: np.isnan(x))),
        ("bool", "f.is_inf { v=%x }", wide(lambda x, y: np.isinf(x))),
        ("bool", "f.is_finite { v=%x }", wide(lambda x, y: np.isfinite(x))),
    ]
    if t == "f64":  # of the other types CPython has none
        rows += [
            (t, "f.mod { a=%x, b=%y }", pair(python_mod)),
            (t, "f.floordiv { a=%x, b=%y }", pair(lambda a, b: a // b if b else float(np.float64(a) / b))),
        ]
    x, y = floats(t, 1), np.random.default_rng(9).permutation(floats(t, 2, scale=3.0))
    assert x.dtype == kind
    check(load, t, rows, (x, y))


def ieee_remainder(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    return math.remainder(a, b)


@pytest.mark.parametrize("t", FLOATS)
def test_compares_of_floats_know_nan(load, t):
    compares = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "gt": np.greater, "le": np.less_equal}
    compares["ge"] = np.greater_equal
    nan = lambda x, y: np.isnan(x) | np.isnan(y)  # noqa: E731
    rows: list[Any] = []
    for name, f in compares.items():
        rows.append(("bool", f"fcmp.o{name} {{ a=%x, b=%y }}", wide(lambda x, y, f=f: f(x, y) & ~nan(x, y))))
        rows.append(("bool", f"fcmp.u{name} {{ a=%x, b=%y }}", wide(lambda x, y, f=f: f(x, y) | nan(x, y))))
    rows.append(("bool", "fcmp.uno { a=%x, b=%y }", wide(nan)))
    rows.append(("bool", "fcmp.ord { a=%x, b=%y }", wide(lambda x, y: ~nan(x, y))))
    some = [0.0, -0.0, 1.0, 2.0, math.inf, -math.inf, math.nan]
    x, y = (a.ravel().astype(numpy_type(t)) for a in np.meshgrid(some, some))
    check(load, t, rows, (x, y))


@pytest.mark.parametrize("t", FLOATS)
def test_fma_rounds_once(load, t):
    kind = numpy_type(t)
    rng = np.random.default_rng(11)
    x, y = (rng.standard_normal(200).astype(kind) for _ in range(2))
    z = (-(x.astype(np.float64) * y.astype(np.float64))).astype(kind)  # what is left over is what was rounded off
    with mpmath.workprec(2000):
        exact = [mpmath.mpf(float(a)) * float(b) + float(c) for a, b, c in zip(x, y, z, strict=True)]
        want = np.array([float(v) for v in exact])
    check(load, t, [(t, "f.fma { a=%x, b=%y, c=%z }", lambda *_: want.astype(kind))], (x, y, z))


def cbrt(v: Any) -> Any:
    return mpmath.cbrt(v) if v >= 0 else -mpmath.cbrt(-v)


MATH: dict[str, tuple[Callable[..., Any], float, float]] = {
    "rsqrt": (lambda v: 1 / mpmath.sqrt(v), 0.01, 50),
    "cbrt": (cbrt, -50, 50),
    "exp": (mpmath.exp, -5, 5),
    "exp2": (lambda v: mpmath.mpf(2) ** v, -5, 5),
    "expm1": (mpmath.expm1, -3, 3),
    "log": (mpmath.log, 0.01, 50),
    "log2": (lambda v: mpmath.log(v, 2), 0.01, 50),
    "log10": (lambda v: mpmath.log(v, 10), 0.01, 50),
    "log1p": (mpmath.log1p, -0.9, 9),
    "sin": (mpmath.sin, -9, 9),
    "cos": (mpmath.cos, -9, 9),
    "tan": (mpmath.tan, -1.5, 1.5),
    "asin": (mpmath.asin, -1, 1),
    "acos": (mpmath.acos, -1, 1),
    "atan": (mpmath.atan, -20, 20),
    "sinh": (mpmath.sinh, -4, 4),
    "cosh": (mpmath.cosh, -4, 4),
    "tanh": (mpmath.tanh, -4, 4),
    "erf": (mpmath.erf, -3, 3),
    "pow": (lambda a, b: mpmath.mpf(a) ** b, 0.1, 5),
    "atan2": (mpmath.atan2, -5, 5),
    "hypot": (mpmath.hypot, -50, 50),
}


def test_every_function_of_the_math_library_is_tested():
    from magpie.mpir.ops import OPS

    others = {"remainder", "ldexp", "frexp_mantissa", "frexp_exponent"}
    assert {name[5:] for name in OPS if name.startswith("math.")} == MATH.keys() | others


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("half", [0, 1])
def test_math_library(load, t, half):
    kind = numpy_type(t)
    names = list(MATH)[half::2]
    rng = np.random.default_rng(13)
    for count in (1, 2):
        chosen = [n for n in names if (n in ("pow", "atan2", "hypot")) == (count == 2)]
        lows, highs = max(MATH[n][1] for n in chosen), min(MATH[n][2] for n in chosen)
        given = tuple((lows + rng.random(60) * (highs - lows)).astype(kind) for _ in range(count))
        operands = "v=%x" if count == 1 else "a=%x, b=%y"
        rows = []
        with mpmath.workprec(200):
            for name in chosen:
                f = MATH[name][0]
                want = [float(f(*map(float, row))) for row in zip(*given, strict=True)]
                rows.append((t, f"math.{name} {{ {operands} }}", lambda *_, w=want: np.array(w)))
        check(load, t, rows, given, ulps=4)


def test_f64_to_bf16_rounds_once(load):
    import ml_dtypes

    above = 1 + 2.0**-8 + 2.0**-40  # through f32 it would be a tie, and go to the even number below
    x = np.array([above, -above, 3.0, math.inf, 1 + 2.0**-8])
    up = 1 + 2.0**-7
    want = np.array([up, -up, 3.0, math.inf, 1.0]).astype(ml_dtypes.bfloat16)
    check(load, "f64", [("bf16", "f64.to_bf16 { v=%x }", lambda x: want)], (x,))
