"""The error of every function of the math library: the table in docs/MATH.md.

    python benchmarks/bench_math_accuracy.py --full          # everything: about an hour of one core
    python benchmarks/bench_math_accuracy.py                 # a sample of all functions
    python benchmarks/bench_math_accuracy.py --full sin pow  # everything about some

f32 functions of one argument run over all 2**32 bit patterns on the cpu backend, against the library's own f64
functions, which mpmath checks below, or against NumPy (``--reference numpy``); mpmath decides the worst case, and all
cases within 0.1 ulp of the bound of 2. Functions of two arguments, and f64, run over random arguments of several kinds
(10**6 of them) and all special ones: 80-bit results of NumPy choose the 1,000 worst cases for mpmath (f32: f64
results; erf, which NumPy lacks: mpmath for all).
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import magpie as mp

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from math_reference import (
    BINARY,
    EXACT,
    UNARY,
    device_kernel,
    exact_error,
    library_function,
    numpy_f64,
    random_f64,
    specials,
)

CHUNK = 1 << 18  # arguments at a time: what is kept of them fits in the cache
BOUND = 2.0
SUSPECTS = 1000
PARITY = dict.fromkeys(("sin", "tan", "asin", "atan", "sinh", "tanh", "erf", "cbrt"), "odd")
PARITY |= dict.fromkeys(("cos", "cosh"), "even")
os.environ.setdefault("MAGPIE_CPU_THREADS", "1")  # processes share the work


def apply(op: str, dtype: Any, *args: Any) -> Any:
    """``op`` of the library over arrays, on the cpu backend."""
    out = np.empty(args[0].shape, dtype.numpy)
    device_kernel(op, dtype).launch(grid=mp.cdiv(max(len(out), 1), 256), block=256, args=(*args, out), device="cpu")
    return out


@mp.func
def error_in_ulps(got: mp.f32, r: mp.f64):
    """The error in ulps of f32; infinite where the kind of value or the sign is wrong."""
    g = mp.f64(got)
    e = mp.max(mp.min((mp.bitcast(mp.abs(r), mp.i64) >> 52) - 1023, 127), -126)
    scale = mp.bitcast((1023 + 23 - e) << 52, mp.f64)
    # beyond the largest number an infinity counts as the next power of two would
    limited = mp.select(mp.isinf(g), mp.copysign(3.402823669209385e38, g), g)
    d = mp.abs(limited - r) * scale
    d = mp.select(mp.abs(r) >= 3.402823669209385e38, mp.select(mp.isinf(g), 0.0, mp.inf), d)
    d = mp.select((mp.bitcast(g, mp.i64) ^ mp.bitcast(r, mp.i64)) < 0, mp.inf, d)
    bad = mp.select(mp.isnan(g) & mp.isnan(r), 0.0, mp.inf)
    return mp.f32(mp.select(mp.isnan(g) | mp.isnan(r), bad, d))


@mp.kernel
def ulps_f32(got: mp.Array[mp.f32], reference: mp.Array[mp.f64], error: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < got.shape[0]:
        error[i] = error_in_ulps(got[i], reference[i])


def errors_f32(got: Any, reference: Any) -> Any:
    """Errors of f32 results in ulps against an f64 reference."""
    error = np.empty(len(got), np.float32)
    ulps_f32.launch(grid=mp.cdiv(len(got), 256), block=256, args=(got, reference, error), device="cpu")
    return error


@functools.cache
def own_reference(op: str) -> Any:
    """A kernel that measures bit patterns start, start + stride, ... against the library's f64 function."""
    single, double = library_function(op, mp.f32), library_function(op, mp.f64)

    @mp.kernel
    def measure(start: mp.i64, stride: mp.i64, error: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < error.shape[0]:
            x = mp.bitcast(mp.u32(start + i * stride), mp.f32)
            error[i] = error_in_ulps(single(x), double(mp.f64(x)))

    return measure


def close_calls(op: str, args: tuple[Any, ...], got: Any, error: Any) -> tuple[float, tuple[float, ...]]:
    """The largest error, by mpmath for the worst argument and those near the bound."""
    worst, at = 0.0, tuple(float(a[0]) for a in args)
    suspects = {int(np.argmax(error)), *np.flatnonzero(error > BOUND - 0.1)[:1000].tolist()}
    for i in suspects:
        xs = tuple(float(a[i]) for a in args)
        found = exact_error(op, xs, float(got[i]), 24)
        if found > worst:
            worst, at = found, xs
    return worst, at


def _unary_part(op: str, stride: int, numpy: bool, span: tuple[int, int]) -> tuple[float, tuple[float, ...]]:
    """The worst case among every ``stride``-th bit pattern of ``span``.

    For odd and even functions these are positive, and the negative ones must give the same bits but for the sign.
    """
    parity = PARITY.get(op)
    best: tuple[float, tuple[float, ...]] = (0.0, (0.0,))
    for start in range(span[0], span[1], CHUNK * stride):
        bits = np.arange(start, min(start + CHUNK * stride, span[1]), stride, dtype=np.int64).astype(np.uint32)
        x = bits.view(np.float32)
        if numpy or parity is not None:
            got = apply(op, mp.f32, x)
        if numpy:
            with np.errstate(all="ignore"):
                error = errors_f32(got, numpy_f64(op)(x.astype(np.float64)))
        else:
            error = np.empty(len(bits), np.float32)
            own_reference(op).launch(grid=mp.cdiv(len(bits), 256), block=256, args=(start, stride, error), device="cpu")
        if error.max() > best[0]:
            best = max(best, close_calls(op, (x,), apply(op, mp.f32, x), error))
        if parity is not None:
            mirrored = apply(op, mp.f32, (bits | np.uint32(1 << 31)).view(np.float32)).view(np.uint32)
            differ = mirrored != (got.view(np.uint32) ^ np.uint32((1 << 31) * (parity == "odd")))
            wrong = np.flatnonzero(differ & ~np.isnan(got))
            if len(wrong):
                return math.inf, (float(x[wrong[0]]),)
    return best


def unary_f32(op: str, stride: int, numpy: bool, processes: int) -> tuple[float, tuple[float, ...], int]:
    total = 1 << (31 if op in PARITY else 32)
    step = -(-total // 64) // stride * stride or stride
    spans = [(s, min(s + step, total)) for s in range(0, total, step)]
    count = len(range(0, total, stride)) * (2 if op in PARITY else 1)
    if processes == 1:
        return *max(map(functools.partial(_unary_part, op, stride, numpy), spans)), count
    with ProcessPoolExecutor(processes) as pool:
        return *max(pool.map(functools.partial(_unary_part, op, stride, numpy), spans)), count


def binary_f32(op: str, count: int) -> tuple[float, tuple[float, ...], int]:
    x64, y64 = random_f64(op, count, 11, 2)
    rng = np.random.default_rng(5)
    any_bits = rng.integers(0, 1 << 32, (2, count), dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        # the exponents of the f64 pairs, an eighth as large: the same mix of relations in the range of f32
        x = np.ldexp(np.frexp(x64)[0], np.frexp(x64)[1] // 8).astype(np.float32)
        y = (y64 if op == "pow" else np.ldexp(np.frexp(y64)[0], np.frexp(y64)[1] // 8)).astype(np.float32)
    special = specials(24)
    pairs = np.meshgrid(special, special)
    x = np.concatenate([x, any_bits[0], pairs[0].ravel()])
    y = np.concatenate([y, any_bits[1], pairs[1].ravel()])
    with np.errstate(all="ignore"):
        wide = numpy_f64(op)(x.astype(np.float64), y.astype(np.float64))
    got = apply(op, mp.f32, x, y)
    return *close_calls(op, (x, y), got, errors_f32(got, wide)), len(x)


def _mpmath_part(op: str, part: tuple[list[Any], Any]) -> tuple[float, tuple[float, ...]]:
    args, got = part
    worst: tuple[float, tuple[float, ...]] = (0.0, (0.0,))
    for *xs, g in zip(*(a.tolist() for a in args), got.tolist(), strict=True):
        error = exact_error(op, xs, g, 53)
        if error > worst[0]:
            worst = (error, tuple(xs))
    return worst


def rough_errors(got: Any, wide: Any) -> Any:
    """Errors in ulps of f64 against 80-bit results, to a thousandth or two.

    Infinite where the kind of value differs.
    """
    with np.errstate(all="ignore"):
        exponent = np.frexp(wide)[1] - 1
        error = np.abs(got - wide) * np.ldexp(np.longdouble(1), 52 - exponent.clip(-1022, 1023))
        rounded = wide.astype(np.float64)
        error = np.where((got == rounded) & (np.isinf(rounded) | (rounded == 0)), 0, error)
        error = np.where(np.signbit(got) != np.signbit(wide), np.inf, error)
        nan = np.isnan(wide) | np.isnan(got)
        return np.where(nan, np.where(np.isnan(wide) & np.isnan(got), 0, np.inf), error).astype(np.float64)


def any_f64(op: str, count: int, processes: int) -> tuple[float, tuple[float, ...], int]:
    """The worst of random and special arguments.

    Where NumPy has 80-bit floats, these choose which ones mpmath computes.
    """
    arguments = 2 if op in BINARY else 1
    args = random_f64(op, count, 3, arguments)
    special = specials(53)
    grid = [special] if arguments == 1 else [g.ravel() for g in np.meshgrid(special, special)]
    args = [np.concatenate(pair) for pair in zip(args, grid, strict=True)]
    got = apply(op, mp.f64, *args)
    total = len(got)
    if np.finfo(np.longdouble).nmant == 63 and op != "erf":
        with np.errstate(all="ignore"):
            rough = rough_errors(got, numpy_f64(op)(*(a.astype(np.longdouble) for a in args)))
        chosen = np.argsort(-rough)[:SUSPECTS]
        args, got = [a[chosen] for a in args], got[chosen]
    parts = [([a[k :: 8 * processes] for a in args], got[k :: 8 * processes]) for k in range(8 * processes)]
    if processes == 1:
        return *max(map(functools.partial(_mpmath_part, op), parts)), total
    with ProcessPoolExecutor(processes) as pool:
        return *max(pool.map(functools.partial(_mpmath_part, op), parts)), total


def exact_cases(op: str, dtype: Any, count: int) -> int:
    """How many results of an exact function differ from NumPy's."""
    bits = 24 if dtype is mp.f32 else 53
    t = dtype.numpy
    rng = np.random.default_rng(9)
    u = np.uint32 if bits == 24 else np.uint64
    x = np.concatenate([rng.integers(0, np.iinfo(u).max, count, dtype=u).view(t), specials(bits)])
    y = np.concatenate([rng.integers(0, np.iinfo(u).max, count, dtype=u).view(t), rng.permutation(specials(bits))])
    with np.errstate(all="ignore"):
        if op == "ldexp":
            n = np.concatenate([rng.integers(-3000, 3000, len(x) - 2), [2**31 - 1, -(2**31)]]).astype(np.int32)
            got, want = apply(op, dtype, x, n), np.ldexp(x, n)
        elif op == "fmod":
            got, want = apply(op, dtype, x, y), np.fmod(x, y)
        elif op == "remainder":
            got = apply(op, dtype, x, y)
            want = np.array([_remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], t)
        else:
            got = apply(op, dtype, x)
            m, e = np.frexp(x)
            want = m if op == "frexp_mantissa" else np.where(np.isfinite(x), e, 0).astype(t)
    same = (got == want) & (np.signbit(got) == np.signbit(want))
    return int(np.count_nonzero(~(same | (np.isnan(got) & np.isnan(want)))))


def _remainder(a: float, b: float) -> float:
    try:
        return math.remainder(a, b)
    except ValueError:
        return math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="functions to measure (default: all)")
    parser.add_argument("--full", action="store_true", help="all of f32, and 10**6 random arguments")
    parser.add_argument("--stride", type=int, help="every n-th bit pattern of f32 (default: 4099, with --full 1)")
    parser.add_argument("--count", type=int, help="random arguments (default: 20,000, with --full 10**6)")
    parser.add_argument("--only", choices=["f32", "f64"], help="one format")
    parser.add_argument(
        "--reference", choices=["magpie", "numpy"], default="magpie", help="of f32: whose f64 functions"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    options.stride = options.stride or (1 if options.full else 4099)
    options.count = options.count or (10**6 if options.full else 20_000)
    failed = False
    for dtype in (mp.f32, mp.f64):
        if options.only not in (None, dtype.name):
            continue
        for op in options.ops or [*UNARY, *BINARY, *EXACT]:
            start = time.perf_counter()
            if op in EXACT:
                wrong = exact_cases(op, dtype, options.count)
                failed |= wrong > 0
                print(
                    f"| {op} | {dtype.name} | {'exact' if not wrong else f'{wrong} wrong'} | {options.count:,} | |",
                    flush=True,
                )
                continue
            if dtype is mp.f64:
                worst, at, count = any_f64(op, options.count, options.processes)
            elif op in BINARY:
                worst, at, count = binary_f32(op, options.count)
            else:
                worst, at, count = unary_f32(op, options.stride, options.reference == "numpy", options.processes)
            failed |= worst > BOUND
            shown = ", ".join(float(x).hex() for x in at)
            seconds = time.perf_counter() - start
            print(f"| {op} | {dtype.name} | {worst:.3f} | {count:,} | {shown} |  {seconds:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
