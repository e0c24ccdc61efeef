"""Matrix tiles: every element type, both layouts, blocks beyond an array's edges, shared memory, views, copies.

The numbers are small integers, so that every product and sum is exact and a result has one value, whatever the order in
which a matrix unit sums. What it rounds is looked at in `tests/unit/test_tiles.py` and `tests/gpu/test_tiles.py`.
"""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty

SG = ("subgroups",)
HELD = {mp.f16: mp.f32, mp.bf16: mp.f32, mp.f32: mp.f32, mp.f64: mp.f64, mp.i8: mp.i32, mp.u8: mp.i32}
TYPES = tuple(HELD)


def matrix(t, rows, cols, seed):
    """Integers that the type holds and whose products of up to 256 terms f32 holds."""
    low, high = (0, 16) if t is mp.u8 else (-8, 8)
    return np.random.default_rng([seed, rows, cols]).integers(low, high, (rows, cols)).astype(t.numpy)


def product(x, y, t):
    return (x.astype(np.float64) @ y.astype(np.float64)).astype(t.numpy)


@mp.kernel(workgroup=(64, 1, 1))
def k_product(x, y, out, held: mp.constexpr):
    i = mp.subgroup.id() * 16
    while i < x.shape[0]:
        acc = mp.mma.zeros((16, 32), held)
        for k in range(0, x.shape[1], 16):
            a = mp.mma.load_a(x, (i, k), (16, 16))
            b = mp.mma.load_b(y, (k, 0), (16, 32))
            mp.mma(acc, a, b)
        mp.mma.store(acc, out, (i, 0))
        i += mp.subgroup.count() * 16


@case(dtypes=TYPES, requires=SG, gangs=True, subgroups=True, software=3)
def test_product(t):
    x, y, held = matrix(t, 80, 48, 1), matrix(t, 48, 32, 2), HELD[t]
    return Run(k_product, (x, y, empty((80, 32), held), held), {2: product(x, y, held)}, grid=1)


@mp.kernel(workgroup=(64, 1, 1))
def k_shapes(x, y, out, m: mp.constexpr, n: mp.constexpr, k: mp.constexpr, held: mp.constexpr):
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((m, n), held)
        mp.mma(acc, mp.mma.load_a(x, (0, 0), (m, k)), mp.mma.load_b(y, (0, 0), (k, n)))
        mp.mma.store(acc, out, (0, 0))


@case(dtypes=(mp.bf16, mp.f32, mp.f64, mp.i8), requires=SG, gangs=True, software=0)
def test_shapes(t):
    for m, n, k in ((16, 16, 16), (48, 16, 32), (16, 48, 64), (64, 64, 16), (32, 16, 48)):
        x, y, held = matrix(t, m, k, 3), matrix(t, k, n, 4), HELD[t]
        yield Run(k_shapes, (x, y, empty((m, n), held), m, n, k, held), {2: product(x, y, held)}, grid=1)


@mp.kernel(workgroup=(64, 1, 1))
def k_transposed(x, y, out, held: mp.constexpr):
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((32, 16), held)
        for k in range(0, x.shape[0], 16):
            a = mp.mma.load_a(x, (k, 0), (32, 16), transposed=True)
            b = mp.mma.load_b(y, (0, k), (16, 16), transposed=True)
            mp.mma(acc, a, b)
        mp.mma.store(acc, out, (0, 0), transposed=True)


@case(dtypes=TYPES, requires=SG, gangs=True, software=3)
def test_transposed(t):
    x, y, held = matrix(t, 48, 32, 5), matrix(t, 16, 48, 6), HELD[t]
    return Run(k_transposed, (x, y, empty((16, 32), held), held), {2: product(x.T, y.T, held).T}, grid=1)


@mp.kernel(workgroup=(64, 1, 1))
def k_clipped(x, y, c, out, held: mp.constexpr):
    if mp.subgroup.id() == 0:
        i, j = mp.workgroup_id(1) * 32, mp.workgroup_id(0) * 32
        acc = mp.mma.load(c, (i, j), (32, 32), dtype=held, clip=True)
        for k in range(0, x.shape[1], 16):
            a = mp.mma.load_a(x, (i, k), (32, 16), clip=True)
            b = mp.mma.load_b(y, (k, j), (16, 32), clip=True)
            mp.mma(acc, a, b)
        mp.mma.store(acc, out, (i, j), clip=True)


@case(dtypes=TYPES, requires=SG, gangs=True, software=3)
def test_clipped(t):
    held = HELD[t]
    for m, n, k in ((1, 1, 1), (33, 50, 21), (64, 31, 16)):
        x, y, c = matrix(t, m, k, 7), matrix(t, k, n, 8), matrix(held, m, n, 9)
        grid = (mp.cdiv(n, 32), mp.cdiv(m, 32), 1)
        out = (product(x, y, held).astype(np.float64) + c).astype(held.numpy)
        yield Run(k_clipped, (x, y, c, empty((m, n), held), held), {3: out}, grid=grid)


@mp.kernel(workgroup=(64, 1, 1))
def k_strided(x, y, out, held: mp.constexpr):
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((16, 16), held)
        for k in range(0, x.shape[2], 16):
            mp.mma(acc, mp.mma.load_a(x[1], (0, k), (16, 16)), mp.mma.load_b(y[:, 1, 3:], (k, 0), (16, 16)))
        mp.mma.store(acc, out[:, 2], (1, 0))


@case(dtypes=TYPES, requires=SG)
def test_views_and_strides(t):
    """Slices with fixed dimensions and offsets inside the kernel, arrays with gaps outside."""
    held = HELD[t]
    x = matrix(t, 3 * 20 * 2, 48, 10).reshape(3, 40, 48)[:, ::2]
    y = matrix(t, 32 * 3, 60, 11).reshape(32, 3, 60)[:, :, ::2]
    out = empty((17, 4, 16), held)
    want = np.full((17, 4, 16), 77, held.numpy)
    want[1:, 2] = product(x[1, :16, :32], y[:, 1, 3:19], held)
    return Run(k_strided, (x[:, :, :32], y, out, held), {2: want}, grid=1)


@mp.kernel(workgroup=(64, 1, 1))
def k_staged(x, y, out, t: mp.constexpr, held: mp.constexpr):
    left, right = mp.shared((2, 32, 24), t), mp.shared((2, 16, 40), t)
    i, j, first = mp.workgroup_id(1) * 32, mp.workgroup_id(0) * 32, mp.subgroup.id() * 16
    steps = mp.cdiv(x.shape[1], 16)
    acc = mp.mma.zeros((16, 32), held)
    more = mp.mma.zeros((16, 32), held)
    mp.copy_async(left[0, :, :16], x, (i, 0))
    mp.copy_async(right[0, :, 4:36], y, (0, j))
    for step in range(steps):
        now = step % 2
        mp.copy_async(left[1 - now, :, :16], x, (i, step * 16 + 16))
        mp.copy_async(right[1 - now, :, 4:36], y, (step * 16 + 16, j))
        mp.copy_wait(2)
        mp.barrier()
        part = first
        while part < 32:
            a = mp.mma.load_a(left[now], (part, 0), (16, 16))
            b = mp.mma.load_b(right[now], (0, 4), (16, 32))
            if part == first:
                mp.mma(acc, a, b)
            else:
                mp.mma(more, a, b)
            part += mp.subgroup.count() * 16
        mp.barrier()
    mp.copy_wait(0)
    if first < 32:
        mp.mma.store(acc, out, (i + first, j), clip=True)
    if first + mp.subgroup.count() * 16 < 32:
        mp.mma.store(more, out, (i + first + mp.subgroup.count() * 16, j), clip=True)


@case(dtypes=TYPES, requires=SG, gangs=True, software=3)
def test_copies_to_shared_memory(t):
    """Two stages, padded rows, edges that the blocks go beyond, and rows that no vector access may touch."""
    held = HELD[t]
    for m, n, k in ((32, 32, 64), (40, 70, 33), (64, 64, 16), (5, 3, 50)):
        x, y = matrix(t, m, k, 12), matrix(t, k, n, 13)
        grid = (mp.cdiv(n, 32), mp.cdiv(m, 32), 1)
        yield Run(k_staged, (x, y, empty((m, n), held), t, held), {2: product(x, y, held)}, grid=grid)


@mp.func
def add_product(acc, x, y, k):
    mp.mma(acc, mp.mma.load_a(x, (0, k), (16, 16)), mp.mma.load_b(y, (k, 0), (16, 16)))


@mp.kernel(workgroup=(64, 1, 1))
def k_functions(x, y, out):
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((16, 16), mp.f32)
        for again in mp.static_range(2):
            mp.mma.fill(acc, 3 - again)
            add_product(acc, x, y, 0)
            add_product(acc, x, y, 16)
            mp.mma.store(acc, out[again], (0, 0))


@case(dtypes=(mp.f16,), requires=SG, gangs=True)
def test_functions_and_fill(t):
    x, y = matrix(t, 16, 32, 14), matrix(t, 32, 16, 15)
    want = product(x, y, mp.f32)
    return Run(k_functions, (x, y, empty((2, 16, 16), mp.f32)), {2: np.stack([want + 3, want + 2])}, grid=1)


@mp.kernel(workgroup=(64, 1, 1))
def k_converted(x, y, out):
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((16, 16), mp.f32)
        mp.mma(acc, mp.mma.load_a(x, (0, 0), (16, 16)), mp.mma.load_b(y, (0, 0), (16, 16)))
        mp.mma.store(acc, out, (0, 0))


@case(dtypes=(mp.f16, mp.bf16, mp.f32, mp.f64), requires=SG)
def test_stores_round_once(t):
    """37 x 7 needs 9 bits: f16 holds it, bf16 rounds it to even."""
    x, y = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    x[:, 0], y[0, :] = np.arange(37, 53), np.arange(7, 23)
    want = np.outer(x[:, 0].astype(np.float64), y[0].astype(np.float64)).astype(np.float32).astype(t.numpy)
    return Run(k_converted, (x, y, empty((16, 16), t)), {2: want}, grid=1)


@mp.kernel(workgroup=(64, 1, 1))
def k_mixed(x, y, out):
    if mp.subgroup.id() == 0:
        acc = mp.mma.zeros((16, 16), mp.i32)
        for k in range(0, 64, 32):
            mp.mma(acc, mp.mma.load_a(x, (0, k), (16, 32)), mp.mma.load_b(y, (k, 0), (32, 16)))
        mp.mma.store(acc, out, (0, 0))


@case(dtypes=((mp.i8, mp.u8), (mp.u8, mp.i8), (mp.i8, mp.i8), (mp.u8, mp.u8)), requires=SG)
def test_bytes_of_all_values(t):
    rng = np.random.default_rng(16)
    x, y = (
        rng.integers(u.min, u.max, shape, endpoint=True).astype(u.numpy)
        for u, shape in zip(t, ((16, 64), (64, 16)), strict=True)
    )
    return Run(k_mixed, (x, y, empty((16, 16), mp.i32)), {2: x.astype(np.int32) @ y.astype(np.int32)}, grid=1)
