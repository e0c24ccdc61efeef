"""The verbs of `mp.workgroup`: every type, ragged workgroups of 1 to 3 dimensions, loops, several calls, any subgroup size.

Sums are compared bit for bit with the documented tree over the work-items' linear numbers, at every subgroup size.
"""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import NUMS
from .test_subgroups import kogge_stone, tree

SG = ("subgroups",)


def adder(t):
    """Addition in ``t``, with one rounding."""
    if t.is_float:
        return lambda a, b: np.asarray(o.in_f32(np.add, t, np.asarray(a), np.asarray(b)))[()]
    return lambda a, b: t.numpy.type(o.wrap(int(a) + int(b), t))


def spread(rows, block):
    """One value a workgroup for each of its work-items."""
    return np.repeat(np.asarray(rows), block)


@mp.kernel
def k_reductions(x, total, low, high):
    i = mp.global_id(0)
    total[i] = mp.workgroup.sum(x[i])
    low[i] = mp.workgroup.min(x[i])
    high[i] = mp.workgroup.max(x[i])


@case(dtypes=NUMS, requires=SG, subgroups=True)
def test_sum_min_max(t):
    block, grid = 100, 2
    x = o.plain(t, block * grid)
    groups = x.reshape(grid, block)
    total = np.array([tree(g, adder(t)) for g in groups], t.numpy)
    expect = {1: spread(total, block), 2: spread([min(g) for g in groups], block), 3: spread([max(g) for g in groups], block)}
    return Run(k_reductions, (x, *(empty(x.size, t) for _ in range(3))), expect, grid=grid, block=block)


@mp.kernel
def k_linear(x, total, through, before, one):
    t = mp.thread_id(0) + mp.workgroup_size(0) * (mp.thread_id(1) + mp.workgroup_size(1) * mp.thread_id(2))
    n = mp.workgroup_size(0) * mp.workgroup_size(1) * mp.workgroup_size(2)
    i = mp.workgroup_id(0) * n + t
    total[i] = mp.workgroup.sum(x[i])
    through[i] = mp.workgroup.scan(x[i])
    before[i] = mp.workgroup.scan(x[i], exclusive=True)
    one[i] = mp.workgroup.broadcast(x[i], n // 2)


BLOCKS = (1, 2, 7, 31, 32, 33, 100, 256, 1000, 1024, (8, 4), (5, 7), (33, 3), (3, 5, 7), (16, 8, 8))


@case(dtypes=(mp.i32,), requires=SG, blocks=BLOCKS, grids=(3,), subgroups=True)
def test_workgroups_of_every_shape(t, block, grid):
    n = int(np.prod(block))
    x = np.random.default_rng(n).integers(-(1 << 31), 1 << 31, n * grid).astype(np.int32)
    groups = x.reshape(grid, n)
    through = np.cumsum(groups, 1, dtype=np.int32)
    expect = {
        1: spread(through[:, -1], n),
        2: through,
        3: through - groups,
        4: spread(groups[:, n // 2], n),
    }
    return Run(k_linear, (x, *(empty(n * grid, t) for _ in range(4))), expect, grid=grid, block=block)


@mp.kernel
def k_sum(x, out):
    i = mp.global_id(0)
    out[i] = mp.workgroup.sum(x[i])


@case(dtypes=(mp.f32,), requires=SG, blocks=(1, 5, 64, 100, 1000), subgroups="all")
def test_the_order_of_a_sum_does_not_depend_on_the_subgroups(t, block):
    x = (np.random.default_rng(block).standard_normal(block) * 1e4).astype(np.float32)
    total = tree(x, lambda a, b: a + b)
    if block >= 64:
        assert total != x.sum(dtype=np.float64), "the rounding must show"
    return Run(k_sum, (x, empty(block, t)), {1: np.full(block, total)}, grid=1, block=block)


@mp.kernel
def k_scans(x, size, through, before):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    through[i] = mp.workgroup.scan(x[i])
    before[i] = mp.workgroup.scan(x[i], exclusive=True)


@case(dtypes=NUMS, requires=SG, subgroups=True)
def test_scans(t):
    block, grid = 90, 2
    x = np.random.default_rng(0).integers(0, 3, block * grid).astype(np.float32).astype(t.numpy)
    v = np.array(o.items(x)).reshape(grid, block)
    through = np.cumsum(v, 1)  # at most 180: exact in every type but i8, which wraps
    a, b = (o.array([o.cast(k, t) for k in want.ravel().tolist()], t) for want in (through, through - v))

    def expect(x, size, *_):
        return {1: size, 2: a, 3: b}

    args = (x, np.zeros(1, np.int32), *(empty(block * grid, t) for _ in range(2)))
    return Run(k_scans, args, expect, grid=grid, block=block, zero_sign=False)


@case(dtypes=(mp.f32,), requires=SG, subgroups="all", blocks=(100, 1000))
def test_the_order_of_a_scan(t, block):
    # Kogge-Stone within a subgroup, then over runs of as many subgroups, each run behind all before it
    x = np.random.default_rng(block).standard_normal(block).astype(t.numpy)

    def plus(a, b):
        return a + b

    def expect(x, size, *_):
        w = int(size[0])
        inner = [kogge_stone(x[k : k + w], plus) for k in range(0, block, w)]
        sums = [part[-1] for part in inner[:-1]]
        below: list = []
        for base in range(0, len(sums), w):
            run = kogge_stone(sums[base : base + w], plus)
            below += [plus(below[base - 1], v) for v in run] if base else run
        through = [inner[0], *([plus(carry, v) for v in part] for carry, part in zip(below, inner[1:], strict=True))]
        a = np.concatenate([np.array(part, t.numpy) for part in through])
        b = a.copy()
        for k, part in enumerate(inner):
            start = k * w
            b[start] = below[k - 1] if k else 0.0
            b[start + 1 : start + len(part)] = a[start : start + len(part) - 1]
        return {1: size, 2: a, 3: b}

    args = (x, np.zeros(1, np.int32), *(empty(block, t) for _ in range(2)))
    return Run(k_scans, args, expect, grid=1, block=block, zero_sign=False)


@mp.kernel
def k_nan(x, low, high, through, before):
    i = mp.global_id(0)
    low[i] = mp.workgroup.min(x[i])
    high[i] = mp.workgroup.max(x[i])
    through[i] = mp.workgroup.scan(x[i], "max")
    before[i] = mp.workgroup.scan(x[i], "max", exclusive=True)


@case(dtypes=(mp.bf16, mp.f32), requires=SG, subgroups=True)
def test_nan_loses_against_numbers_and_stays_where_all_are(t):
    n, first = 75, 70  # numbers come last: whole subgroups of NaN stand before them
    x = np.full(n, np.nan, t.numpy)
    x[first:] = np.array([3, 1, 5, 4, 2], np.float32).astype(t.numpy)
    through = np.full(n, np.nan, t.numpy)
    through[first:] = np.array([3, 3, 5, 5, 5], np.float32).astype(t.numpy)
    before = np.concatenate([np.array([-np.inf], np.float32).astype(t.numpy), through[:-1]])
    one = np.ones(n, np.float32)
    expect = {1: one.astype(t.numpy), 2: (5 * one).astype(t.numpy), 3: through, 4: before}
    return Run(k_nan, (x, *(empty(n, t) for _ in range(4))), expect, grid=1, block=n)


@mp.kernel
def k_bits(x, a, b, c, d, e, f):
    i = mp.global_id(0)
    a[i] = mp.workgroup.reduce(x[i], "and")
    b[i] = mp.workgroup.reduce(x[i], op="or")
    c[i] = mp.workgroup.reduce(x[i], "xor")
    d[i] = mp.workgroup.reduce(x[i], "mul")
    e[i] = mp.workgroup.scan(x[i], "xor")
    f[i] = mp.workgroup.scan(x[i], op="min", exclusive=True)


@case(dtypes=(mp.i8, mp.u16, mp.i32, mp.u64), requires=SG, subgroups=True)
def test_every_operation(t):
    n = 70
    x = o.values(t, n) | t.numpy.type(1)
    v = [int(k) for k in x]
    fold = {"and": -1, "or": 0, "xor": 0, "mul": 1}
    running = []
    for k in v:
        fold = {"and": fold["and"] & k, "or": fold["or"] | k, "xor": fold["xor"] ^ k, "mul": fold["mul"] * k}
        running.append(fold["xor"])
    want = [np.full(n, o.wrap(fold[op], t), t.numpy) for op in ("and", "or", "xor", "mul")]
    scan = np.array([o.wrap(k, t) for k in running], t.numpy)
    low = np.array([t.max, *np.minimum.accumulate(x)[:-1]], t.numpy)
    expect = {1: want[0], 2: want[1], 3: want[2], 4: want[3], 5: scan, 6: low}
    return Run(k_bits, (x, *(empty(n, t) for _ in range(6))), expect, grid=1, block=n)


@mp.kernel
def k_conditions(x, some, every, seen, first, count):
    i = mp.global_id(0)
    big = x[i] > 50
    some[i] = mp.workgroup.reduce(big, "or")
    every[i] = mp.workgroup.reduce(big, "and")
    seen[i] = mp.workgroup.scan(big, "or")
    first[i] = mp.workgroup.broadcast(big)
    count[i] = mp.workgroup.sum(int(big)) + mp.workgroup.max(i) + mp.workgroup.sum(1)


@case(requires=SG, subgroups=True)
def test_conditions_ids_and_literals():
    n = 48
    x = (np.arange(n) * 7 % 53).astype(np.int32)
    big = x > 50
    assert big.any() and not big.all() and not big[0]
    expect = {
        1: np.full(n, True),
        2: np.full(n, False),
        3: np.logical_or.accumulate(big),
        4: np.full(n, False),
        5: np.full(n, big.sum() + n - 1 + n),
    }
    outs = [np.zeros(n, bool) for _ in range(4)]
    return Run(k_conditions, (x, *outs, empty(n, mp.i64)), expect, grid=1, block=n)


@mp.kernel
def k_loop(x, out, trips):
    i = mp.global_id(0)
    v = x[i]
    n = mp.workgroup_size(0)
    acc = 0.0
    k = 0
    while mp.workgroup.max(v) >= 1.0:  # the same for all: it may decide a loop with barriers
        acc += mp.workgroup.sum(v) - mp.workgroup.broadcast(v, min(k, n - 1))
        if mp.workgroup.min(v) < 0.5:
            acc += mp.workgroup.scan(v)
        v *= 0.5
        k += 1
    out[i] = acc
    trips[i] = k


@case(requires=SG, blocks=(40, 256), subgroups=True)
def test_calls_in_a_uniform_loop_reuse_their_memory_safely(block):
    x = np.random.default_rng(block).integers(1, 64, block).astype(np.float32)
    v, acc, k = x.astype(np.float64), np.zeros(block), 0
    while v.max() >= 1.0:
        acc += v.sum() - v[min(k, block - 1)]
        if v.min() < 0.5:
            acc += np.cumsum(v)
        v, k = v * 0.5, k + 1
    assert np.array_equal(acc.astype(np.float32), acc), "every step is exact in f32"
    args = (x, empty(block, mp.f32), empty(block, mp.i32))
    return Run(k_loop, args, {1: acc.astype(np.float32), 2: np.full(block, k)}, grid=1, block=block)


@mp.func
def variance(v, n):
    mean = mp.workgroup.sum(v) / n
    d = v - mean
    return mp.workgroup.sum(d * d) / n


@mp.kernel
def k_function(x, out):
    i = mp.global_id(0)
    n = mp.workgroup_size(0)
    a = variance(x[i], n)
    b = variance(2.0 * x[i], n)
    if mp.workgroup_id(0) % 2 == 1:  # uniform: barriers may stand here
        b = variance(4.0 * x[i], n)
    out[i] = b - a


@case(requires=SG, subgroups=True)
def test_in_functions_and_uniform_branches():
    block, grid = 64, 3
    x = np.random.default_rng(1).integers(-8, 8, block * grid).astype(np.float32)
    x = x.reshape(grid, block)
    x -= x.mean(1, keepdims=True).round()
    x[:, 0] -= x.sum(1)  # mean 0: squares and their sums are exact
    var = (x.astype(np.float64) ** 2).mean(1)
    want = np.where(np.arange(grid) % 2 == 1, 15.0, 3.0) * var
    assert np.array_equal(want.astype(np.float32), want)
    return Run(k_function, (x.ravel(), empty(x.size, mp.f32)), {1: spread(want, block)}, grid=grid, block=block)


@pytest.mark.parametrize("size", [4, 16, 32])
@pytest.mark.parametrize("block", [1, 33, 256, (5, 7, 3)])
def test_the_sanitizer_has_nothing_to_report(size, block):
    n = int(np.prod(block))
    x = np.arange(2 * n, dtype=np.int32)
    outs = [np.zeros(2 * n, np.int32) for _ in range(4)]
    assert k_linear.sanitize(grid=2, block=block, args=(x, *outs), subgroup_size=size, race="strict") == []
    if isinstance(block, int):
        loop = (np.arange(1, n + 1, dtype=np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32))
        assert k_loop.sanitize(grid=1, block=block, args=loop, subgroup_size=size, race="strict") == []


@mp.kernel
def k_far(x, out):
    i = mp.global_id(0)
    out[i] = mp.workgroup.broadcast(x[i], 70)


def test_a_broadcast_from_an_item_that_there_is_not_is_reported():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    (report,) = k_far.sanitize(grid=1, block=64, args=(x, out))
    assert report.code == "MPG_SAN_1005" and report.file == __file__


@mp.kernel
def k_in_a_branch(x: mp.Array[mp.f32], verb: mp.constexpr):
    i = mp.global_id(0)
    if x[i] > 0.5:
        if verb == "sum":
            x[i] = mp.workgroup.sum(x[i])
        elif verb == "scan":
            x[i] = mp.workgroup.scan(x[i])
        else:
            x[i] = mp.workgroup.broadcast(x[i])


@mp.kernel
def k_in_a_loop(x: mp.Array[mp.f32], verb: mp.constexpr):
    i = mp.global_id(0)
    for k in range(i):
        x[i] += mp.workgroup.max(x[i])


@mp.kernel
def k_after_a_return(x: mp.Array[mp.f32], verb: mp.constexpr):
    i = mp.global_id(0)
    if i >= 30:
        return
    x[i] = mp.workgroup.min(x[i])


@pytest.mark.parametrize("backend", ["cpu", "interp"])
@pytest.mark.parametrize(
    ("kernel", "verb"),
    [(k_in_a_branch, "sum"), (k_in_a_branch, "scan"), (k_in_a_branch, "broadcast"), (k_in_a_loop, ""), (k_after_a_return, "")],
)
def test_in_divergent_code_it_is_a_numbered_error_at_the_users_line(kernel, verb, backend):
    x = np.ones(64, np.float32)
    with pytest.raises(mp.CompileError) as caught:
        kernel.launch(grid=1, block=64, args=(x, verb), backend=backend)
    (found,) = caught.value.diagnostics
    assert found.code == "MPG_CORE_1400"
    places = [found.loc, *(loc for _, loc in found.notes)]
    assert all(loc.file == __file__ for loc in places), "nobody sees a line of the library"
    assert (x == 1).all()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("mp.workgroup.sum(x[i] > 0.0)", "MPG_PY_1018"),
        ("mp.workgroup.reduce(x[i], 'or')", "MPG_PY_1018"),
        ("mp.workgroup.scan(x[i], 'nand')", "MPG_PY_1012"),
        ("mp.workgroup.sum(x)", "MPG_PY_1018"),
        ("mp.workgroup.broadcast(x[i], 0.5)", "MPG_PY_1007"),
        ("mp.workgroup.max()", "MPG_PY_1012"),
    ],
)
def test_wrong_arguments(text, code, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(f"import magpie as mp\n@mp.kernel\ndef k(x: mp.Array[mp.f32]):\n    i = mp.global_id(0)\n    x[i] = {text}\n")
    scope: dict = {"__name__": "wrong"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    (found,) = scope["k"].check()
    assert (found.code, found.loc.file, found.loc.line) == (code, str(path), 5)


def test_on_the_host_it_is_an_error():
    with pytest.raises(mp.CompileError, match="MPG_PY_1027"):
        mp.workgroup.sum(1)
