"""Subgroup operations on all types, full and partial masks, and partial last subgroups.

The subgroup size is the target's own: kernels write it out, and the oracle computes with what they wrote.
"""

from __future__ import annotations

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import INTS, NUMS

SG = ("subgroups",)


def lanes(size, block, grid=1):
    """For each subgroup of each group: the flat positions of its work-items in lane order."""
    return [list(range(g * block + a, g * block + min(a + size, block))) for g in range(grid) for a in range(0, block, size)]


def tree(values, f):
    """The reduction order of the op table: adjacent pairs first, absent partners skipped."""
    level = list(values)
    while len(level) > 1:
        level = [f(level[k], level[k + 1]) if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level[0]


@mp.kernel
def k_ids(size, lane, sid, count):
    i = mp.global_id(0)
    if i == 0:
        size[0] = mp.subgroup.size()
    lane[i] = mp.subgroup.lane()
    sid[i] = mp.subgroup.id()
    count[i] = mp.subgroup.count()


@case(requires=SG, subgroups="all", blocks=(1, 16, 33, 64, 256))
def test_ids(block):
    def expect(size, *_):
        w, t = int(size[0]), np.arange(block * 2) % block
        assert w in (1, 2, 4, 8, 16, 32, 64, 128)
        return {0: size, 1: t % w, 2: t // w, 3: np.full(block * 2, -(-block // w))}

    args = (np.zeros(1, np.int32), *(empty(block * 2, mp.i32) for _ in range(3)))
    return Run(k_ids, args, expect, grid=2, block=block)


@mp.kernel
def k_reductions(x, size, total, low, high):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    total[i] = mp.subgroup.sum(x[i])
    low[i] = mp.subgroup.min(x[i])
    high[i] = mp.subgroup.max(x[i])


@case(dtypes=NUMS, requires=SG, gangs=True, subgroups=True)
def test_sum_min_max(t):
    block, grid = 40, 2
    x = o.plain(t, block * grid)

    def expect(x, size, *_):
        total, low, high = (empty(block * grid, t) for _ in range(3))
        for group in lanes(int(size[0]), block, grid):
            part = [x[k] for k in group]
            with np.errstate(all="ignore"):
                add = lambda a, b: np.asarray(o.in_f32(np.add, t, np.asarray(a), np.asarray(b)))[()] if t.is_float else t.numpy.type(o.wrap(int(a) + int(b), t))  # noqa: E731
                total[group] = tree(part, add)
            low[group], high[group] = min(part), max(part)
        return {1: size, 2: total, 3: low, 4: high}

    args = (x, np.zeros(1, np.int32), *(empty(block * grid, t) for _ in range(3)))
    return Run(k_reductions, args, expect, grid=grid, block=block)


@mp.kernel
def k_bit_reductions(x, size, a, b, c, d):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    a[i] = mp.subgroup.reduce(x[i], "and")
    b[i] = mp.subgroup.reduce(x[i], "or")
    c[i] = mp.subgroup.reduce(x[i], "xor")
    d[i] = mp.subgroup.prod(x[i])


@case(dtypes=INTS, requires=SG)
def test_bitwise_reductions_and_product(t):
    block = 40
    x = o.values(t, block)

    def expect(x, size, *_):
        outs = [empty(block, t) for _ in range(4)]
        for group in lanes(int(size[0]), block):
            part = [int(x[k]) for k in group]
            for out, f in zip(outs, (lambda p, q: p & q, lambda p, q: p | q, lambda p, q: p ^ q, lambda p, q: p * q), strict=True):
                out[group] = o.wrap(tree(part, f), t)
        return {1: size, 2: outs[0], 3: outs[1], 4: outs[2], 5: outs[3]}

    return Run(k_bit_reductions, (x, np.zeros(1, np.int32), *(empty(block, t) for _ in range(4))), expect, grid=1, block=block)


@mp.kernel
def k_partial_mask(x, size, out):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    out[i] = 0
    if x[i] % 3 != 0:
        out[i] = mp.subgroup.sum(x[i])
    else:
        out[i] = -mp.subgroup.max(x[i])


@case(dtypes=(mp.i32, mp.i64, mp.i16), requires=SG, gangs=True, subgroups=True, blocks=(16, 33, 64))
def test_reduction_under_a_partial_mask(t, block):
    x = np.random.default_rng(0).integers(0, 99, block).astype(t.numpy)

    def expect(x, size, out):
        want = np.zeros(block, np.int64)
        for group in lanes(int(size[0]), block):
            a = [k for k in group if x[k] % 3 != 0]
            b = [k for k in group if x[k] % 3 == 0]
            if a:
                want[a] = o.wrap(sum(int(x[k]) for k in a), t)
            if b:
                want[b] = -max(int(x[k]) for k in b)
        return {1: size, 2: want}

    return Run(k_partial_mask, (x, np.zeros(1, np.int32), empty(block, mp.i64)), expect, grid=1, block=block)


@mp.kernel
def k_float_order(x, size, total, scan):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    if x[i] > -0.5:
        total[i] = mp.subgroup.sum(x[i])
        scan[i] = mp.subgroup.scan(x[i])


def kogge_stone(values, f):
    v = list(values)
    d = 1
    while d < len(v):
        v = [f(v[k - d], v[k]) if k >= d else v[k] for k in range(len(v))]
        d *= 2
    return v


@case(dtypes=(mp.f32, mp.f64), requires=SG, subgroups="all")
def test_float_sum_and_scan_have_a_fixed_order(t):
    # RULES 10: active lanes are compacted; reduce is a binary tree over ranks, scan is Kogge-Stone over ranks
    block = 56
    x = np.random.default_rng(0).standard_normal(block).astype(t.numpy)

    def expect(x, size, total, scan):
        want, prefix = empty(block, t), empty(block, t)
        for group in lanes(int(size[0]), block):
            active = [k for k in group if x[k] > -0.5]
            if active:
                part = [x[k] for k in active]
                want[active] = tree(part, lambda a, b: a + b)
                prefix[active] = kogge_stone(part, lambda a, b: a + b)
        return {1: size, 2: want, 3: prefix}

    args = (x, np.zeros(1, np.int32), empty(block, t), empty(block, t))
    return Run(k_float_order, args, expect, grid=1, block=block)


@mp.kernel
def k_scans(x, size, a, b, c, d):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    a[i] = mp.subgroup.scan(x[i])
    b[i] = mp.subgroup.scan(x[i], exclusive=True)
    c[i] = mp.subgroup.scan(x[i], "max")
    d[i] = mp.subgroup.scan(x[i], op="min", exclusive=True)


@case(dtypes=NUMS, requires=SG)
def test_scans(t):
    block = 40
    x = np.random.default_rng(0).integers(0, 5, block).astype(np.float32).astype(t.numpy)
    top = o.array([t.max if t.is_int else np.inf], t)[0]

    def expect(x, size, *_):
        a, b, c, d = (empty(block, t) for _ in range(4))
        v = np.array(o.items(x))
        for group in lanes(int(size[0]), block):
            for n, k in enumerate(group):
                before, here = v[group[:n]], v[group[: n + 1]]
                a[k], b[k], c[k] = here.sum(), before.sum(), here.max()
                d[k] = before.min() if n else top
        return {1: size, 2: a, 3: b, 4: c, 5: d}

    args = (x, np.zeros(1, np.int32), *(empty(block, t) for _ in range(4)))
    return Run(k_scans, args, expect, grid=1, block=block, zero_sign=False)


@mp.kernel
def k_shuffles(x, size, a, b, c, d, e):
    i = mp.global_id(0)
    lane = mp.subgroup.lane()
    w = mp.subgroup.size()
    size[0] = w
    v = x[i]
    a[i] = mp.subgroup.shuffle(v, (lane * 3 + 1) % w)
    b[i] = mp.subgroup.shuffle_xor(v, 1)
    c[i] = mp.subgroup.shuffle_up(v, 1)
    d[i] = mp.subgroup.shuffle_down(v, 2)
    e[i] = mp.subgroup.broadcast(v, 0)


@case(dtypes=o.ALL, requires=SG, gangs=True, subgroups=True)
def test_shuffles(t):
    block = 64
    x = o.values(t, block)

    def expect(x, size, *_):
        w = int(size[0])
        outs = [empty(block, t) for _ in range(5)]
        for group in lanes(w, block):
            for lane, k in enumerate(group):
                outs[0][k] = x[group[(lane * 3 + 1) % w]]
                outs[1][k] = x[group[lane ^ 1]]
                outs[2][k] = x[group[lane - 1]] if lane >= 1 else x[k]
                outs[3][k] = x[group[lane + 2]] if lane + 2 < len(group) else x[k]
                outs[4][k] = x[group[0]]
        return {1: size, **{2 + n: out for n, out in enumerate(outs)}}

    args = (x, np.zeros(1, np.int32), *(empty(block, t) for _ in range(5)))
    return Run(k_shuffles, args, expect, grid=1, block=block)


@mp.kernel
def k_far_shuffles(x, size, far, a, b, c):
    # lane numbers of a narrow type that wraps, of one without a sign, and far beyond 32 bits
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    lane = mp.subgroup.lane()
    a[i] = mp.subgroup.shuffle(x[i], mp.u8(lane) + mp.u8(254))
    b[i] = mp.subgroup.shuffle_up(x[i], far[0] - mp.u32(1)) + mp.subgroup.shuffle_down(x[i], mp.u32(lane) + far[0])
    c[i] = mp.subgroup.shuffle(x[i], mp.i64(lane) + (mp.i64(1) << 32)) + mp.subgroup.shuffle_up(x[i], mp.u8(200))


@case(requires=SG, gangs="all")
def test_shuffles_from_far_lanes_give_the_own_value():
    x, far = np.arange(64, dtype=np.int32), np.array([2**32 - 1], np.uint32)

    def expect(x, size, *_):
        w, lane = int(size[0]), np.arange(64) % int(size[0])
        near = (lane + 254) % 256
        one = np.where(near < w, x - lane + np.minimum(near, w - 1), x)
        # lane + 2^32 - 1 wraps to lane - 1: from there on it is a distance like any other
        step = (lane - 1) % 2**32
        down = np.where(lane + step < w, x + np.minimum(step, w), x)
        return {1: size, 3: one, 4: x + down, 5: x + x}

    args = (x, np.zeros(1, np.int32), far, *(empty(64, mp.i32) for _ in range(3)))
    return Run(k_far_shuffles, args, expect, grid=1)


@mp.kernel
def k_votes(x, size, ballot, any_, all_, elect, count, rank, first):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    c = x[i] > 2
    if x[i] != 0:
        ballot[i] = mp.subgroup.ballot(c)
        any_[i] = mp.subgroup.any(x[i] == 7)
        all_[i] = mp.subgroup.all(x[i] < 9)
        elect[i] = mp.subgroup.elect()
        count[i] = mp.subgroup.ballot_count(c)
        rank[i] = mp.subgroup.ballot_rank(c)
        first[i] = mp.subgroup.is_first()


@case(requires=SG, subgroups="all", blocks=(1, 16, 33, 64))
def test_votes_under_a_partial_mask(block):
    x = np.random.default_rng(block).integers(0, 10, block).astype(np.int32)

    def expect(x, size, *_):
        ballot, count, rank = np.full(block, 77, np.uint64), np.full(block, 77, np.int32), np.full(block, 77, np.int32)
        any_, all_, elect, first = (np.ones(block, bool) for _ in range(4))
        for group in lanes(int(size[0]), block):
            active = [(lane, k) for lane, k in enumerate(group) if x[k] != 0]
            bits = sum(1 << lane for lane, k in active if x[k] > 2)
            for n, (lane, k) in enumerate(active):
                ballot[k] = bits
                any_[k] = any(x[j] == 7 for _, j in active)
                all_[k] = all(x[j] < 9 for _, j in active)
                elect[k] = n == 0
                count[k] = bits.bit_count()
                rank[k] = (bits & ((1 << lane) - 1)).bit_count()
                first[k] = lane == 0  # elect is the lowest active lane, this is lane 0
        return {1: size, 2: ballot, 3: any_, 4: all_, 5: elect, 6: count, 7: rank, 8: first}

    args = (
        x,
        np.zeros(1, np.int32),
        empty(block, mp.u64),
        *(empty(block, mp.bool_) for _ in range(3)),
        empty(block, mp.i32),
        empty(block, mp.i32),
        empty(block, mp.bool_),
    )
    return Run(k_votes, args, expect, grid=1, block=block)


@mp.kernel
def k_in_divergent_loop(x, size, out):
    # lanes leave the loop at different trips; each trip's sum is over those that are left
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    acc = 0
    for j in range(x[i]):
        acc += mp.subgroup.sum(j + 1)
    out[i] = acc


@case(requires=SG, subgroups="all", blocks=(16, 33, 64))
def test_reduction_in_a_divergent_loop(block):
    x = np.random.default_rng(0).integers(0, 9, block).astype(np.int32)

    def expect(x, size, out):
        want = np.zeros(block, np.int64)
        for group in lanes(int(size[0]), block):
            for j in range(9):
                active = [k for k in group if j < x[k]]
                want[active] += (j + 1) * len(active)
        return {1: size, 2: want}

    return Run(k_in_divergent_loop, (x, np.zeros(1, np.int32), empty(block, mp.i64)), expect, grid=1, block=block)


@mp.kernel
def k_ways_to_the_next_trip(x, size, out, rounds: mp.i32, skip: mp.constexpr):
    # those that are left go on to the next trip from one or two places; some leave before, and an inner loop might return
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    total = 0
    trip = 0
    while True:
        trip += 1
        if trip > 6 or trip > x[i]:
            break
        if skip:
            if trip == skip:
                continue
        for k in range(rounds):
            total += 1000
            if k > x[i] + 100:
                return
        if x[i] % 5 == trip:
            break
        total += mp.subgroup.sum(trip)
    out[i] = total


@case(requires=SG, subgroups="all", blocks=(16, 33, 64))
def test_several_ways_to_the_next_trip(block):
    return _ways_to_the_next_trip(block, 3)


@case(requires=SG, subgroups="all", blocks=(16, 33, 64))
def test_one_way_to_the_next_trip(block):
    return _ways_to_the_next_trip(block, 0)


def _ways_to_the_next_trip(block, skip):
    x = np.random.default_rng(5).integers(0, 12, block).astype(np.int32)
    rounds = 2

    def expect(x, size, *_):
        want = np.zeros(block, np.int64)
        for group in lanes(int(size[0]), block):
            active = list(group)
            for trip in range(1, 7):
                active = [k for k in active if trip <= x[k]]
                if trip == skip:
                    continue
                want[active] += 1000 * rounds
                active = [k for k in active if x[k] % 5 != trip]
                want[active] += trip * len(active)
        return {1: size, 2: want}

    args = (x, np.zeros(1, np.int32), empty(block, mp.i64), mp.i32(rounds), skip)
    return Run(k_ways_to_the_next_trip, args, expect, grid=1, block=block)


@mp.kernel
def k_after_return(x, size, out):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    out[i] = -1
    if x[i] % 4 == 0:
        return
    out[i] = mp.subgroup.sum(x[i]) * 100 + mp.subgroup.ballot_count(True)


@case(requires=SG, gangs=True, blocks=(16, 33))
def test_reduction_after_some_have_returned(block):
    x = np.random.default_rng(0).integers(0, 30, block).astype(np.int32)

    def expect(x, size, out):
        want = np.full(block, -1, np.int64)
        for group in lanes(int(size[0]), block):
            active = [k for k in group if x[k] % 4 != 0]
            want[active] = x[active].sum() * 100 + len(active)
        return {1: size, 2: want}

    return Run(k_after_return, (x, np.zeros(1, np.int32), empty(block, mp.i64)), expect, grid=1, block=block)


@mp.kernel
def k_subgroups_2d(size, out):
    # numbering is x fastest, whatever the shape of the group
    l = mp.thread_id(0) + mp.workgroup_size(0) * mp.thread_id(1)
    size[0] = mp.subgroup.size()
    out[l] = mp.subgroup.id() * 1000 + mp.subgroup.lane()


@case(requires=SG, gangs="all", blocks=((4, 8), (5, 7), (16, 2), (3, 3)))
def test_subgroups_are_runs_of_the_linear_numbering(block):
    n = block[0] * block[1]

    def expect(size, out):
        l = np.arange(n)
        return {0: size, 1: l // size[0] * 1000 + l % size[0]}

    return Run(k_subgroups_2d, (np.zeros(1, np.int32), empty(n, mp.i32)), expect, grid=1, block=block)


@mp.func
def sg_in_func(v, lo):
    if v > lo:
        return mp.subgroup.sum(v)
    return mp.subgroup.ballot_count(v == lo)


@mp.kernel
def k_func(x, size, out):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    out[i] = mp.i64(sg_in_func(x[i], 4))


@case(requires=SG, gangs=True)
def test_subgroup_ops_in_both_arms_of_a_function():
    block = 40
    x = np.random.default_rng(0).integers(0, 9, block).astype(np.int32)

    def expect(x, size, out):
        want = np.zeros(block, np.int64)
        for group in lanes(int(size[0]), block):
            high, low = [k for k in group if x[k] > 4], [k for k in group if x[k] <= 4]
            want[high] = x[high].sum()
            want[low] = sum(x[k] == 4 for k in low)
        return {1: size, 2: want}

    return Run(k_func, (x, np.zeros(1, np.int32), empty(block, mp.i64)), expect, grid=1, block=block)


@mp.kernel
def k_operation(x, size, total, through, before, op: mp.constexpr):
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    total[i] = mp.subgroup.reduce(x[i], op)
    through[i] = mp.subgroup.scan(x[i], op)
    before[i] = mp.subgroup.scan(x[i], op, exclusive=True)


FOLDS = {
    "add": (0, lambda a, b: a + b),
    "mul": (1, lambda a, b: a * b),
    "min": (np.inf, min),
    "max": (-np.inf, max),
    "and": (-1, lambda a, b: a & b),
    "or": (0, lambda a, b: a | b),
    "xor": (0, lambda a, b: a ^ b),
}


@case(dtypes=o.ALL, requires=SG, subgroups=True)
def test_every_operation_on_every_type(t):
    block = 40
    if t.is_float:  # products and sums that are exact in every type and order
        x = np.where(np.arange(block) % 16 == 5, 2.0, np.random.default_rng(0).choice([-1.0, 1.0], block)).astype(t.numpy)
        ops = ("add", "mul", "min", "max")
    else:
        x = o.values(t, block)
        ops = ("and", "or", "xor") if t.is_bool else tuple(FOLDS)
    for op in ops:
        start, f = FOLDS[op]
        if t.is_bool:
            start = op == "and"
        elif op in ("min", "max") and t.is_int:
            start = t.max if op == "min" else t.min

        def expect(x, size, *_, start=start, f=f):
            out = [empty(block, t) for _ in range(3)]
            for group in lanes(int(size[0]), block):
                running = [start]
                for k in group:
                    running.append(f(running[-1], o.items(x[k : k + 1])[0]))
                values = o.array([v if t.is_float or t.is_bool else o.wrap(v, t) for v in running], t)
                out[0][group], out[1][group], out[2][group] = values[-1], values[1:], values[:-1]
            return {1: size, 2: out[0], 3: out[1], 4: out[2]}

        args = (x, np.zeros(1, np.int32), *(empty(block, t) for _ in range(3)), op)
        yield Run(k_operation, args, expect, grid=1, block=block, zero_sign=False)
