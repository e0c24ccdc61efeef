"""Control flow: divergent and nested loops, every exit, and what variables hold afterwards.

The oracle of most cases is the same text run by Python for each work-item.
"""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty

N = 131  # no multiple of a block or of a gang


def scalar(f, *arrays, n=N, out=1):
    """f(i, *arrays) -> value for each work-item, as an i64 or f64 array."""
    return np.array([f(i, *arrays) for i in range(n)])


def ints(n=N, lo=-20, hi=40, seed=0):
    return np.random.default_rng(seed).integers(lo, hi, n).astype(np.int32)


@mp.kernel
def k_if_elif_else(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        if v < -10:
            r = 1
        elif v < 0:
            r = 2
        elif v == 0:
            r = 3
        elif v % 2 == 0:
            if v > 20:
                r = 4
            else:
                r = 5
        else:
            r = 6
        out[i] = r


@case(gangs=True, blocks=(1, 16, 33, 64, 256))
def test_if_elif_else(block):
    x = ints()

    def f(v):
        return 1 if v < -10 else 2 if v < 0 else 3 if v == 0 else (4 if v > 20 else 5) if v % 2 == 0 else 6

    return Run(k_if_elif_else, (x, empty(N, mp.i32)), {1: np.array([f(v) for v in x])}, block=block)


@mp.kernel
def k_collatz(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        n = x[i]
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        out[i] = steps


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@case(dtypes=(mp.i32, mp.i64, mp.u32), gangs="all")
def test_collatz(t):
    x = np.arange(1, N + 1).astype(t.numpy)
    return Run(k_collatz, (x, empty(N, mp.i32)), {1: np.array([collatz(int(v)) for v in x])})


@mp.kernel
def k_mandelbrot(out, w: mp.i32, h: mp.i32, limit: mp.i32):
    px = mp.global_id(0)
    py = mp.global_id(1)
    if px < w and py < h:
        cx = -2.0 + px * (3.0 / w)
        cy = -1.5 + py * (3.0 / h)
        zx = 0.0
        zy = 0.0
        n = 0
        while zx * zx + zy * zy < 4.0 and n < limit:
            t = zx * zx - zy * zy + cx
            zy = 2.0 * zx * zy + cy
            zx = t
            n += 1
        out[py, px] = n


@case(gangs=True, blocks=((16, 4), (33, 1), (8, 8)))
def test_mandelbrot(block):
    w, h, limit = 40, 21, 60
    f = np.float32
    expect = np.zeros((h, w), np.int32)
    for py in range(h):
        for px in range(w):
            cx, cy = f(-2) + f(px) * (f(3) / f(w)), f(-1.5) + f(py) * (f(3) / f(h))
            zx, zy, n = f(0), f(0), 0
            while zx * zx + zy * zy < f(4) and n < limit:
                zx, zy = zx * zx - zy * zy + cx, f(2) * zx * zy + cy
                n += 1
            expect[py, px] = n
    grid = (mp.cdiv(w, block[0]), mp.cdiv(h, block[1]))
    return Run(k_mandelbrot, (empty((h, w), mp.i32), w, h, limit), {0: expect}, grid=grid, block=block)


@mp.kernel
def k_break(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        for j in range(100):
            if j * j > x[i]:
                break
            s += j
        out[i] = s


@case(gangs=True)
def test_break():
    x = ints(lo=-5, hi=2000)

    def f(v):
        s = 0
        for j in range(100):
            if j * j > v:
                break
            s += j
        return s

    return Run(k_break, (x, empty(N, mp.i32)), {1: np.array([f(v) for v in x])})


@mp.kernel
def k_continue(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        for j in range(50):
            if (j + x[i]) % 3 == 0:
                continue
            s += j
            if s % 2 == 1:
                continue
            s += 1
        out[i] = s


@case(gangs=True)
def test_continue():
    x = ints()

    def f(v):
        s = 0
        for j in range(50):
            if (j + v) % 3 == 0:
                continue
            s += j
            if s % 2 == 1:
                continue
            s += 1
        return s

    return Run(k_continue, (x, empty(N, mp.i32)), {1: np.array([f(int(v)) for v in x])})


@mp.kernel
def k_continue_in_while(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        k = 0
        s = 0
        while k < x[i]:
            k += 1
            if k % 4 == 2:
                continue
            s += k
            if s > 90:
                break
        out[i] = s * 100 + k


@case(gangs=True)
def test_continue_and_break_in_while():
    x = ints()

    def f(v):
        k = s = 0
        while k < v:
            k += 1
            if k % 4 == 2:
                continue
            s += k
            if s > 90:
                break
        return s * 100 + k

    return Run(k_continue_in_while, (x, empty(N, mp.i32)), {1: np.array([f(v) for v in x])})


@mp.kernel
def k_nested_loops(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        s = 0
        for a in range(v % 7 + 1):
            for b in range(a, v % 5 + 3):
                if (a + b) % 3 == 1:
                    continue
                k = b
                while k > 0:
                    s += k
                    k -= 2
                    if s % 11 == 5:
                        break
                if s > 150:
                    break
            if s % 13 == 7:
                continue
            s += 1
            if s > 300:
                break
        out[i] = s


def nested(v):
    s = 0
    for a in range(v % 7 + 1):
        for b in range(a, v % 5 + 3):
            if (a + b) % 3 == 1:
                continue
            k = b
            while k > 0:
                s += k
                k -= 2
                if s % 11 == 5:
                    break
            if s > 150:
                break
        if s % 13 == 7:
            continue
        s += 1
        if s > 300:
            break
    return s


@case(gangs="all", blocks=(1, 16, 33, 64, 256))
def test_nested_divergent_loops_with_every_exit(block):
    x = ints(lo=-100, hi=100)
    return Run(k_nested_loops, (x, empty(N, mp.i32)), {1: np.array([nested(int(v)) for v in x])}, block=block)


@mp.kernel
def k_early_return(x, out):
    i = mp.global_id(0)
    if i >= out.shape[0]:
        return
    out[i] = 1
    if x[i] < 0:
        return
    out[i] = 2
    for j in range(x[i]):
        if j == 10:
            out[i] = 3
            return
        if j * 3 == x[i]:
            return
        out[i] = 100 + j
    out[i] = out[i] + 1000


@case(gangs="all", blocks=(1, 16, 33, 64, 256))
def test_early_return_in_a_kernel(block):
    x = ints()

    def f(v):
        if v < 0:
            return 1
        o = 2
        for j in range(v):
            if j == 10:
                return 3
            if j * 3 == v:
                return o
            o = 100 + j
        return o + 1000

    return Run(k_early_return, (x, empty(N, mp.i32)), {1: np.array([f(v) for v in x])}, block=block)


@mp.kernel
def k_return_from_nested_loops(x, out):
    i = mp.global_id(0)
    if i >= out.shape[0]:
        return
    c = 0
    for a in range(6):
        for b in range(6):
            while True:
                c += 1
                if c > x[i]:
                    out[i] = a * 100 + b * 10
                    return
                if c % 3 == 0:
                    break
            if b > a:
                break
    out[i] = -1


@case(gangs="all")
def test_return_from_nested_loops():
    x = ints(lo=0, hi=120)

    def f(v):
        c = 0
        for a in range(6):
            for b in range(6):
                while True:
                    c += 1
                    if c > v:
                        return a * 100 + b * 10
                    if c % 3 == 0:
                        break
                if b > a:
                    break
        return -1

    return Run(k_return_from_nested_loops, (x, empty(N, mp.i32)), {1: np.array([f(v) for v in x])})


@mp.kernel
def k_search(p, tab, n, out):
    # RULES 8: with every lane gone, tab must not be read past its end
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        k = 0
        while True:
            if k >= p[i]:
                break
            s += tab[k]
            k += 1
        out[i] = s


@case(gangs="all", blocks=(1, 16, 33, 64))
def test_while_true_with_a_lookup_behind_the_break(block):
    tab = np.arange(1, 11, dtype=np.int32)
    p = np.random.default_rng(0).integers(-2, 11, N).astype(np.int32)
    expect = np.array([tab[: max(v, 0)].sum() for v in p])
    return Run(k_search, (p, tab, 0, empty(N, mp.i32)), {3: expect}, block=block)


@mp.kernel
def k_after_loop_value(x, out, last):
    i = mp.global_id(0)
    if i < out.shape[0]:
        j = -7
        for j in range(x[i]):
            if j == 9:
                break
        out[i] = j
        k = 0
        for k in range(3, 20, 4):
            pass
        last[i] = k


@case(gangs=True)
def test_the_loop_variable_holds_its_last_value_afterwards():
    x = ints()

    def f(v):
        j = -7
        for j in range(v):
            if j == 9:
                break
        return j

    return Run(
        k_after_loop_value,
        (x, empty(N, mp.i32), empty(N, mp.i32)),
        {1: np.array([f(v) for v in x]), 2: np.full(N, 19)},
    )


@mp.kernel
def k_range3(start, stop, step, count, total, last):
    i = mp.global_id(0)
    if i < count.shape[0]:
        n = 0
        s = 0
        l = -1
        for v in range(start[i], stop[i], step[i]):
            n += 1
            s += v
            l = v
        count[i] = n
        total[i] = s
        last[i] = l


def _ranges():
    rows = []
    for a in (0, 5, -5, 7):
        for b in (0, 5, -5, 11):
            for c in (1, 2, 3, -1, -2, -4, 7):
                rows.append((a, b, c))
    return rows


@case(dtypes=(mp.i32, mp.i64, mp.i8), gangs=True)
def test_range_of_every_sign(t):
    rows = _ranges()
    start, stop, step = (np.array(c, t.numpy) for c in zip(*rows, strict=True))
    lists = [list(range(*r)) for r in rows]
    outs = tuple(empty(len(rows), mp.i64) for _ in range(3))
    return Run(
        k_range3,
        (start, stop, step, *outs),
        {
            3: np.array([len(v) for v in lists]),
            4: np.array([sum(v) for v in lists]),
            5: np.array([v[-1] if v else -1 for v in lists]),
        },
    )


@mp.kernel
def k_uniform_ranges(out, a: mp.i32, b: mp.i32, c: mp.i32):
    i = mp.global_id(0)
    s = 0
    for v in range(a, b, c):
        s += v * (i + 1)
    for v in range(b):
        s += v
    for v in range(a, b):
        s -= v
    out[i] = s


@case(gangs=True)
def test_uniform_ranges():
    runs = []
    for a, b, c in ((0, 9, 2), (3, 11, 4), (9, 0, -2), (0, 0, 1), (5, 5, -1)):
        base = sum(range(a, b, c))
        expect = base * (np.arange(64) + 1) + sum(range(b)) - sum(range(a, b))
        runs.append(Run(k_uniform_ranges, (empty(64, mp.i64), a, b, c), {0: expect}, grid=1))
    return runs


@mp.kernel
def k_loop_carried(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        a = 0
        b = 1
        for _ in range(x[i] % 20):
            a, b = b, a + b
        out[i] = a


@case(dtypes=(mp.i32, mp.i64), gangs=True)
def test_swap_in_a_loop(t):
    x = ints().astype(t.numpy)

    def fib(n):
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        return a

    return Run(k_loop_carried, (x, empty(N, t)), {1: np.array([fib(int(v) % 20) for v in x])})


@mp.kernel
def k_while_with_and(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        a = x[i]
        b = y[i]
        while a > 0 and b > 0:
            if a > b:
                a -= b
            else:
                b -= a
        out[i] = a + b


@case(gangs=True)
def test_gcd_by_subtraction():
    x, y = ints(lo=1, hi=60), ints(lo=1, hi=60, seed=1)
    return Run(k_while_with_and, (x, y, empty(N, mp.i32)), {2: np.gcd(x, y)})


@mp.kernel
def k_uniform_branch(x, out, mode: mp.i32):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if mode == 0:
            out[i] = x[i]
        elif mode == 1:
            out[i] = -x[i]
        else:
            j = i % 8
            if mode > 5:
                j = 0
            out[i] = x[j]


@case(gangs=True)
def test_uniform_branches():
    x = ints()
    i = np.arange(N)
    want = {0: x, 1: -x, 2: x[i % 8], 9: np.full(N, x[0])}
    return [Run(k_uniform_branch, (x, empty(N, mp.i32), m), {1: w}) for m, w in want.items()]


@mp.kernel
def k_uniform_loop_divergent_break(x, out):
    # temporal divergence: s is stored in a loop that lanes leave at different trips
    i = mp.global_id(0)
    if i < out.shape[0]:
        u = 0
        for j in range(40):
            u = j * 2
            if x[i] == j:
                break
        out[i] = u


@case(gangs=True)
def test_temporal_divergence():
    x = ints()
    return Run(k_uniform_loop_divergent_break, (x, empty(N, mp.i32)), {1: np.where(x >= 0, x * 2, 78)})


@mp.kernel
def k_pass_and_else_free(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if x[i] > 3:
            pass
        else:
            out[i] = 5


@case()
def test_pass():
    x = ints()
    return Run(k_pass_and_else_free, (x, empty(N, mp.i32)), {1: np.where(x > 3, 77, 5)})


@mp.kernel
def k_float_loop(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        n = 0
        while v > 1.0:
            v = v * 0.5
            n += 1
        out[i] = n + v


@case(dtypes=(mp.f32, mp.f64, mp.f16, mp.bf16), gangs=True)
def test_float_controlled_loop(t):
    x = (2.0 ** np.random.default_rng(0).integers(-3, 9, N)).astype(np.float32).astype(t.numpy)

    def f(v):
        n = 0
        while v > 1.0:
            v, n = v * 0.5, n + 1
        return n + v

    return Run(k_float_loop, (x, empty(N, t)), {1: np.array([f(float(v)) for v in x])})


@mp.kernel
def k_mixed_uniform_and_varying(x, m, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        acc = 0
        for r in range(m.shape[0]):
            row = m[r, 0]
            if row > 0:
                for c in range(m.shape[1]):
                    if m[r, c] > x[i]:
                        acc += m[r, c]
                        if acc > 60:
                            break
            else:
                acc -= 1
        out[i] = acc


@case(gangs="all")
def test_uniform_loops_around_varying_exits():
    x = ints(lo=0, hi=10)
    m = np.random.default_rng(2).integers(-4, 12, (7, 9)).astype(np.int32)

    def f(v):
        acc = 0
        for r in range(7):
            if m[r, 0] > 0:
                for c in range(9):
                    if m[r, c] > v:
                        acc += int(m[r, c])
                        if acc > 60:
                            break
            else:
                acc -= 1
        return acc

    return Run(k_mixed_uniform_and_varying, (x, m, empty(N, mp.i32)), {2: np.array([f(v) for v in x])})


@mp.kernel
def k_store_in_divergent_loop(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        j = 0
        while j < x[i]:
            out[i, j] = i * 100 + j
            j += 1


@case(gangs=True)
def test_stores_in_a_divergent_loop():
    x = np.random.default_rng(0).integers(0, 13, N).astype(np.int32)
    expect = np.full((N, 12), 77, np.int32)
    for i in range(N):
        expect[i, : x[i]] = i * 100 + np.arange(x[i])
    return Run(k_store_in_divergent_loop, (x, empty((N, 12), mp.i32)), {1: expect}, grid=3)


@mp.kernel
def k_thread_dependent_trip(out):
    i = mp.global_id(0)
    s = 0
    for j in range(mp.thread_id(0) % 5, 20, mp.thread_id(0) % 3 + 1):
        s = s * 3 + j
    out[i] = s


@case(gangs=True, blocks=(1, 33, 64))
def test_ranges_that_depend_on_the_work_item(block):
    def f(t):
        s = 0
        for j in range(t % 5, 20, t % 3 + 1):
            s = s * 3 + j
        return s

    expect = np.array([f(i % block) for i in range(4 * block)])
    return Run(k_thread_dependent_trip, (empty(4 * block, mp.i64),), {0: expect}, grid=4, block=block)


@mp.kernel
def k_bubble(x, out):
    # a data-dependent loop nest over global memory, each item its own row
    i = mp.global_id(0)
    if i < x.shape[0]:
        n = x.shape[1]
        for j in range(n):
            out[i, j] = x[i, j]
        swapped = True
        while swapped:
            swapped = False
            for j in range(n - 1):
                a = out[i, j]
                b = out[i, j + 1]
                if a > b:
                    out[i, j] = b
                    out[i, j + 1] = a
                    swapped = True


@case(dtypes=(mp.i32, mp.f32, mp.u8), gangs=True)
def test_bubble_sort_of_rows(t):
    x = np.random.default_rng(1).integers(0, 50, (N, 9)).astype(t.numpy)
    return Run(k_bubble, (x, empty((N, 9), t)), {1: np.sort(x, axis=1)}, grid=3)


@mp.kernel
def k_binary_search(hay, x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        lo = 0
        hi = hay.shape[0]
        while lo < hi:
            mid = (lo + hi) // 2
            if hay[mid] < x[i]:
                lo = mid + 1
            else:
                hi = mid
        out[i] = lo


@case(dtypes=(mp.i32, mp.f64), gangs=True)
def test_binary_search(t):
    hay = np.sort(np.random.default_rng(3).integers(0, 500, 77)).astype(t.numpy)
    x = np.random.default_rng(4).integers(-5, 510, N).astype(t.numpy)
    return Run(k_binary_search, (hay, x, empty(N, mp.i32)), {2: np.searchsorted(hay, x)})


@mp.kernel
def k_loop_else(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        r = 0
        for j in range(2, 9):
            if x[i] % j == 0:
                r = j
                break
        else:
            r = -1
        k = 0
        while k < 5:
            if k * k == x[i]:
                r += 1000
                break
            k += 1
        else:
            r += 500
        out[i] = r


@case(gangs=True)
def test_else_of_loops():
    x = ints(lo=0, hi=60)

    def f(v):
        r = next((j for j in range(2, 9) if v % j == 0), -1)
        return r + (1000 if v in (0, 1, 4, 9, 16) else 500)

    return Run(k_loop_else, (x, empty(N, mp.i32)), {1: np.array([f(v) for v in x])})


@mp.kernel
def k_largest_from_a_constant(out, n: mp.i32, T: mp.constexpr):
    # a loop-carried minimum and maximum, each of a variable that starts as a constant, with a constant
    high = T(100)
    low = T(100)
    for k in range(n):
        high = max(high + T(7), T(31))
        low = min(low - T(7), T(110))
    out[mp.global_id(0), 0] = high
    out[mp.global_id(0), 1] = low


@case(dtypes=(mp.i32, mp.u32, mp.i64, mp.u8, mp.f32))
def test_a_maximum_of_what_starts_as_a_constant(t):
    want = np.tile(np.array([114, 86]), (5, 1)).astype(t.numpy)
    return Run(k_largest_from_a_constant, (empty((5, 2), t), 2, t), {0: want}, grid=1, block=5)


@mp.kernel
def k_leave_with_what_was_computed(out):
    # The lanes of a subgroup make their last trips at different times, and what a trip went out from is another number
    # by then; only what the last one computed is used afterwards.
    i = mp.global_id(0)
    if i < out.shape[0]:
        a = mp.u32(i)
        found = mp.u32(0)
        while True:
            found = a * mp.u32(1664525) + mp.u32(1013904223)
            a = found * mp.u32(1664525)
            if (a >> mp.u32(15)) % mp.u32(2) == mp.u32(0):
                break
        out[i] = found


@mp.kernel
def k_leave_with_an_element(out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        kept = mp.local(2, mp.u32)
        a = mp.u32(i)
        while True:
            kept[1] = a * mp.u32(1664525) + mp.u32(1013904223)
            a = kept[1] * mp.u32(1664525)
            if (a >> mp.u32(15)) % mp.u32(2) == mp.u32(0):
                break
        out[i] = kept[1]


def left_with(i):
    a = i
    while True:
        found = (a * 1664525 + 1013904223) % 2**32
        a = found * 1664525 % 2**32
        if (a >> 15) % 2 == 0:
            return found


@case(gangs="all", blocks=(1, 33, 64))
def test_leaving_a_loop_with_what_the_last_trip_computed(block):
    want = np.array([left_with(i) for i in range(N)], np.uint32)
    return Run(k_leave_with_what_was_computed, (empty(N, mp.u32),), {0: want}, block=block)


@case(gangs="all", blocks=(1, 33, 64))
def test_leaving_a_loop_with_an_element_that_the_last_trip_computed(block):
    want = np.array([left_with(i) for i in range(N)], np.uint32)
    return Run(k_leave_with_an_element, (empty(N, mp.u32),), {0: want}, block=block)
