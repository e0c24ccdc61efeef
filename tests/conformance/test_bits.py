"""Bit operations, shifts, counts, bitcasts and logic on bool."""

from __future__ import annotations

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import BOOL, INTS, map1, map2, pairs, values


@mp.kernel
def k_and(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] & y[i]


@mp.kernel
def k_or(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] | y[i]


@mp.kernel
def k_xor(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] ^ y[i]


@mp.kernel
def k_invert(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = ~x[i]


@mp.kernel
def k_shl(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] << y[i]


@mp.kernel
def k_shr(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] >> y[i]


@mp.kernel
def k_shift_literals(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = ((x[i] << 3) ^ (x[i] >> 2)) | (x[i] << 0)


@mp.kernel
def k_counts(x, pop, lead, trail):
    i = mp.global_id(0)
    if i < x.shape[0]:
        pop[i] = mp.popcount(x[i])
        lead[i] = mp.clz(x[i])
        trail[i] = mp.ctz(x[i])


@mp.kernel
def k_rotate(x, out, n: mp.i32):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        out[i] = (v << n) | (v >> (32 - n))


@mp.kernel
def k_bitcast(x, out, T: mp.constexpr):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.bitcast(x[i], T)


@mp.kernel
def k_hash(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        h = x[i]
        h ^= h >> 16
        h *= 0x85EBCA6B
        h ^= h >> 13
        h *= 0xC2B2AE35
        h ^= h >> 16
        out[i] = h


@mp.kernel
def k_xorshift64(seed, out, rounds: mp.i32):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = seed[i]
        for _ in range(rounds):
            s ^= s << 13
            s ^= s >> 7
            s ^= s << 17
        out[i] = s


@mp.kernel
def k_bool_ops(x, y, a, b, c, d):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a[i] = x[i] and y[i]
        b[i] = x[i] or not y[i]
        c[i] = x[i] ^ y[i]
        d[i] = (x[i] & y[i]) | (x[i] == y[i])


@mp.kernel
def k_int_bits_by_hand(x, out):
    # popcount by Kernighan's loop, of a varying trip count
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        n = 0
        while v != 0:
            v = v & (v - 1)
            n += 1
        out[i] = n


@case(dtypes=INTS)
def test_and(t):
    x, y = pairs(t)
    return Run(k_and, (x, y, empty(x.size, t)), {2: map2(lambda a, b: a & b, x, y, t)})


@case(dtypes=INTS)
def test_or(t):
    x, y = pairs(t)
    return Run(k_or, (x, y, empty(x.size, t)), {2: map2(lambda a, b: a | b, x, y, t)})


@case(dtypes=INTS)
def test_xor(t):
    x, y = pairs(t)
    return Run(k_xor, (x, y, empty(x.size, t)), {2: map2(lambda a, b: a ^ b, x, y, t)})


@case(dtypes=(BOOL,))
def test_bitwise_on_bool(t):
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    return [
        Run(k_and, (x, y, empty(4, t)), {2: x & y}),
        Run(k_or, (x, y, empty(4, t)), {2: x | y}),
        Run(k_xor, (x, y, empty(4, t)), {2: x ^ y}),
    ]


@case(dtypes=INTS)
def test_invert(t):
    x = values(t, 67)
    return Run(k_invert, (x, empty(67, t)), {1: map1(lambda a: ~a, x, t)})


@case(dtypes=INTS)
def test_shift_left_takes_the_count_modulo_the_width(t):
    x, y = pairs(t)
    return Run(k_shl, (x, y, empty(x.size, t)), {2: map2(lambda a, b: a << (b % t.bits), x, y, t)})


@case(dtypes=INTS)
def test_shift_right_takes_the_count_modulo_the_width(t):
    x, y = pairs(t)
    return Run(k_shr, (x, y, empty(x.size, t)), {2: map2(lambda a, b: a >> (b % t.bits), x, y, t)})


@case(dtypes=INTS)
def test_shift_by_literals(t):
    x = values(t, 70)
    f = lambda a: (o.wrap(a << 3, t) ^ (a >> 2)) | a  # noqa: E731
    return Run(k_shift_literals, (x, empty(70, t)), {1: map1(f, x, t)})


@case(dtypes=INTS)
def test_popcount_clz_ctz(t):
    x = values(t, 120)
    outs = tuple(empty(120, mp.i32) for _ in range(3))
    return Run(
        k_counts,
        (x, *outs),
        {
            1: map1(lambda a: o.popcount(a, t), x, mp.i32),
            2: map1(lambda a: o.clz(a, t), x, mp.i32),
            3: map1(lambda a: o.ctz(a, t), x, mp.i32),
        },
    )


@case(dtypes=(mp.u32,))
def test_rotate(t):
    x = values(t, 64)
    f = lambda n: map1(lambda a: (a << n) | (a >> (32 - n) % 32), x, t)  # noqa: E731
    return [Run(k_rotate, (x, empty(64, t), n), {1: f(n)}) for n in (1, 7, 31)]


_SAME_WIDTH = [
    (mp.f32, mp.u32),
    (mp.f32, mp.i32),
    (mp.u32, mp.f32),
    (mp.f64, mp.u64),
    (mp.i64, mp.f64),
    (mp.f16, mp.u16),
    (mp.u16, mp.f16),
    (mp.bf16, mp.i16),
    (mp.i16, mp.bf16),
    (mp.i8, mp.u8),
    (mp.u64, mp.i64),
]


@case(dtypes=_SAME_WIDTH)
def test_bitcast(t):
    source, target = t
    x = values(source, 99)
    if source.is_float:  # NaN is one value in the bit contract: leave its payload out
        x = x[~np.isnan(x.astype(np.float64))]
    else:
        with np.errstate(all="ignore"):
            x = x[~np.isnan(x.view(target.numpy).astype(np.float64))] if target.is_float else x
    return Run(k_bitcast, (x, empty(x.size, target), target), {1: x.view(target.numpy)})


@case(dtypes=(mp.u32,), gangs=True)
def test_murmur_finalizer(t):
    x = values(t, 130)

    def f(h):
        h ^= h >> 16
        h = h * 0x85EBCA6B % 2**32
        h ^= h >> 13
        h = h * 0xC2B2AE35 % 2**32
        return h ^ (h >> 16)

    return Run(k_hash, (x, empty(130, t)), {1: map1(f, x, t)})


@case(dtypes=(mp.u64,))
def test_xorshift64(t):
    x = values(t, 50, 3)

    def f(s):
        for _ in range(9):
            s ^= s << 13 & (2**64 - 1)
            s ^= s >> 7
            s ^= s << 17 & (2**64 - 1)
        return s

    return Run(k_xorshift64, (x, empty(50, t), 9), {1: map1(f, x, t)})


@case(dtypes=(BOOL,))
def test_logic_on_bool(t):
    x = np.array([False, False, True, True] * 5)
    y = np.array([False, True, False, True] * 5)
    outs = tuple(empty(20, t) for _ in range(4))
    return Run(k_bool_ops, (x, y, *outs), {2: x & y, 3: x | ~y, 4: x ^ y, 5: (x & y) | (x == y)})


@case(dtypes=INTS, gangs=True)
def test_kernighan_popcount(t):
    x = values(t, 75)
    return Run(k_int_bits_by_hand, (x, empty(75, mp.i32)), {1: map1(lambda a: o.popcount(a, t), x, mp.i32)})
