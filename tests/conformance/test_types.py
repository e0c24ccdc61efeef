"""Static typing: the promotion table, weak literals, joins over assignments, and index."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty, targets
from .oracle import BOOL, FLOATS, INTS, NUMS, SIGNED, UNSIGNED, values

GREAT = 1 << 20


@mp.kernel
def k_mixed_add(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] + y[i]


@mp.kernel
def k_mixed_mul(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * y[i]


@mp.kernel
def k_bool_arithmetic(x, y, a, b, c):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a[i] = x[i] + y[i]
        b[i] = x[i] * y[i] - 3
        c[i] = x[i] + 1.5


@mp.kernel
def k_weak_accumulator(x, out):
    # acc is a literal first and takes the type of x
    acc = 0
    for j in range(x.shape[0]):
        acc += x[j]
    out[0] = acc


@mp.kernel
def k_weak_float_accumulator(x, out):
    acc = 0.0
    for j in range(x.shape[0]):
        acc += x[j]
    out[0] = acc


@mp.kernel
def k_weak_scalars(x, out, a, b):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = a * x[i] + b


@mp.kernel
def k_typed_scalars(x, out, a: mp.f32, n: mp.i32, flag: mp.bool_):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if flag:
            out[i] = a * x[i] + n
        else:
            out[i] = -a


@mp.kernel
def k_every_scalar(a: mp.i8, b: mp.u8, c: mp.i16, d: mp.u16, e: mp.i32, f: mp.u32, g: mp.i64, h: mp.u64, k: mp.f16, l: mp.bf16, m: mp.f32, n: mp.f64, p: mp.bool_, ints, floats):
    ints[0] = a
    ints[1] = b
    ints[2] = c
    ints[3] = d
    ints[4] = e
    ints[5] = f
    ints[6] = g
    ints[7] = mp.i64(h)
    ints[8] = p
    floats[0] = k
    floats[1] = l
    floats[2] = m
    floats[3] = n


@mp.kernel
def k_int_literals_alone(out):
    # a variable that meets only integer literals is i32 and wraps there
    a = 2147483646
    for _ in range(2):
        a = a + 1
    out[0] = a


@mp.kernel
def k_index_is_wide(out):
    i = mp.global_id(0)
    big = (i + 1) * 1048576
    out[i] = big * 4096


@mp.kernel
def k_two_assignments_join(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if x[i] > 0:
            v = x[i]
        else:
            v = 1
        out[i] = v


@mp.kernel
def k_u8_stays_u8(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = (x[i] + 200) // 2


@mp.kernel
def k_shape_and_strides(x, out):
    out[0] = x.shape[0]
    out[1] = x.shape[1]
    out[2] = x.strides[0]
    out[3] = x.strides[1]
    out[4] = x.size
    out[5] = x.ndim
    out[6] = len(x)


@mp.kernel
def k_negative_constants(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * -3 + (-7 // 2) + (-7 % 4) + -(2**3)


@mp.kernel
def k_constant_folding(out):
    out[0] = 7 // 2 + 7 % 3
    out[1] = -7 // 2
    out[2] = -7 % 3
    out[3] = 2**10
    out[4] = 1 << 20
    out[5] = 0xFF & ~0x0F
    out[6] = (3 < 5) + (5 < 3)
    out[7] = abs(-5) + min(3, 4) + max(7, 2)


def promoted(a, b):
    """DESIGN section 7, written out again."""
    if a is b:
        return a
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    fa, fb = a.is_float, b.is_float
    if fa and fb:
        return None if a.bits == b.bits else max(a, b, key=lambda t: t.bits)
    if fa or fb:
        return a if fa else b
    if a.kind == b.kind:
        return max(a, b, key=lambda t: t.bits)
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    return signed if signed.bits > unsigned.bits else None


_TYPES = (BOOL, *NUMS)
_DEFINED = [(a, b) for a in _TYPES for b in _TYPES if promoted(a, b) is not None and not (a is b is BOOL)]
_UNDEFINED = [(a, b) for a in NUMS for b in NUMS if promoted(a, b) is None]


def _widest(t):
    return mp.f64 if t.is_float else mp.u64 if t.kind == "uint" else mp.i64


@case(dtypes=_DEFINED)
def test_promotion(t):
    a, b = t
    p = promoted(a, b)
    x, y = o.pairs(a, b, extra=20)
    keep = np.isfinite(x.astype(np.float64)) & np.isfinite(y.astype(np.float64))
    x, y = x[keep], y[keep]
    out = _widest(p)

    rows = [(o.cast(u, p), o.cast(v, p)) for u, v in zip(o.items(x), o.items(y), strict=True)]
    if p.is_float:
        left, right = (o.array(c, p) for c in zip(*rows, strict=True))
        expect = o.in_f32(np.add, p, left, right).astype(np.float32 if p is mp.bf16 else p.numpy).astype(np.float64)
    else:
        expect = o.array([o.wrap(u + v, p) for u, v in rows], out)
    return Run(k_mixed_add, (x, y, empty(x.size, out)), {2: expect})


@pytest.mark.parametrize("pair", _UNDEFINED, ids=lambda p: f"{p[0]}-{p[1]}")
def test_no_common_type_is_an_error_with_the_cast_to_write(pair):
    a, b = pair
    with pytest.raises(mp.CompileError) as caught:
        k_mixed_mul.compile(np.zeros(1, a.numpy), np.zeros(1, b.numpy), np.zeros(1), backend="interp")
    assert caught.value.code == ("MPG_PY_1006" if a.is_float else "MPG_PY_1005")
    assert caught.value.diagnostics[0].help


@case()
def test_bool_arithmetic_is_i32():
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    xi, yi = x.astype(np.int32), y.astype(np.int32)
    return Run(
        k_bool_arithmetic,
        (x, y, empty(4, mp.i32), empty(4, mp.i32), empty(4, mp.f32)),
        {2: xi + yi, 3: xi * yi - 3, 4: x + np.float32(1.5)},
    )


@case(dtypes=NUMS)
def test_accumulator_from_an_integer_literal(t):
    x = o.plain(t, 30) if t.is_int else np.arange(-8, 9).astype(np.float32).astype(t.numpy)
    expect = o.array([o.cast(sum(o.items(x)), t)], t)
    return Run(k_weak_accumulator, (x, empty(1, t)), {1: expect}, grid=1, block=1)


@case(dtypes=FLOATS)
def test_accumulator_from_a_float_literal(t):
    x = np.arange(-8, 9).astype(np.float32).astype(t.numpy)
    return Run(k_weak_float_accumulator, (x, empty(1, t)), {1: np.zeros(1, t.numpy)}, grid=1, block=1)


@case(dtypes=FLOATS)
def test_python_scalars_are_weak(t):
    x = o.plain(t, 40)
    c = lambda v: np.full(40, v, t.numpy)  # noqa: E731
    expect = o.in_f32(np.add, t, o.in_f32(np.multiply, t, c(2.5), x), c(1))
    return Run(k_weak_scalars, (x, empty(40, t), 2.5, 1), {1: expect})


@case(dtypes=INTS)
def test_python_integers_are_weak(t):
    x = values(t, 40)
    expect = o.map1(lambda v: 3 * v + 5, x, t)
    return Run(k_weak_scalars, (x, empty(40, t), 3, 5), {1: expect})


@case(dtypes=(mp.f32, mp.f64))
def test_declared_scalars(t):
    x = o.plain(t, 50)
    first = Run(k_typed_scalars, (x, empty(50, t), 1.5, -3, True), {1: t.numpy.type(1.5) * x + t.numpy.type(-3)})
    second = Run(k_typed_scalars, (x, empty(50, t), 1.5, -3, False), {1: np.full(50, -1.5, t.numpy)})
    return [first, second]


@case(requires=("int64", "f64", "f16_arithmetic", "bf16"))
def test_scalars_of_every_type():
    args = (-128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**63), 2**63 - 1, 0.1, 0.1, 0.1, 0.1, True)
    ints, floats = np.zeros(9, np.int64), np.zeros(4)
    want = [o.round_to(0.1, t) for t in (mp.f16, mp.bf16, mp.f32, mp.f64)]
    return Run(k_every_scalar, (*args, ints, floats), {13: np.array([*args[:8], 1]), 14: np.array(want)}, grid=1, block=1)


@case()
def test_an_integer_literal_alone_is_i32():
    return Run(k_int_literals_alone, (empty(1, mp.i64),), {0: np.array([-(2**31)])}, grid=1, block=1)


@case(requires=("int64",))
def test_index_has_64_bits():
    out = empty(64, mp.i64)
    return Run(k_index_is_wide, (out,), {0: (np.arange(64, dtype=np.int64) + 1) * 2**32}, grid=1)


@case(dtypes=NUMS)
def test_a_variable_joins_its_assignments(t):
    x = values(t, 60)
    return Run(k_two_assignments_join, (x, empty(60, t)), {1: o.map1(lambda v: v if v > 0 else 1, x, t)})


@case()
def test_u8_arithmetic_stays_u8():
    x = np.arange(256).astype(np.uint8)
    return Run(k_u8_stays_u8, (x, empty(256, mp.u8)), {1: (x + np.uint8(200)) // 2})


@case()
def test_shape_strides_size_ndim_len():
    x = np.zeros((3, 10), np.float32)
    return Run(k_shape_and_strides, (x, empty(7, mp.i64)), {1: np.array([3, 10, 10, 1, 30, 2, 3])}, grid=1, block=1)


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
def test_strides_are_those_of_the_view(target):
    # (a device with memory of its own gets a compact copy of a NumPy array, which has the strides of the copy)
    x = mp.zeros((12, 40), mp.f32, device=target.device)[2:8:2, ::4]
    out = mp.zeros(7, mp.i64, device=target.device)
    k_shape_and_strides[1, 1](x, out)
    assert mp.to_numpy(out).tolist() == [3, 10, 80, 4, 30, 2, 3]


@case(dtypes=(*SIGNED, mp.f32))
def test_negative_constants(t):
    x = o.plain(t, 30)
    if t.is_float:
        c = lambda v: np.float32(v)  # noqa: E731
        expect = ((x * c(-3) + c(-4)) + c(1)) + c(-8)
    else:
        expect = o.map1(lambda v: v * -3 + (-7 // 2) + (-7 % 4) + -(2**3), x, t)
    return Run(k_negative_constants, (x, empty(30, t)), {1: expect})


@case()
def test_constant_expressions_have_pythons_meaning():
    expect = np.array([7 // 2 + 7 % 3, -7 // 2, -7 % 3, 2**10, 1 << 20, 0xFF & ~0x0F, 1, 15], np.int32)
    return Run(k_constant_folding, (empty(8, mp.i32),), {0: expect}, grid=1, block=1)


def test_the_lists_of_types_are_complete():
    assert {*SIGNED, *UNSIGNED} == set(INTS)
