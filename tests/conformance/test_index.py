"""Index arithmetic beyond 32 bits, on arrays that are large in address space and small in memory."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from .harness import Run, case, empty, targets

EVERY = pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)


@mp.kernel
def k_triangle(out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = i * (i - 1) // 2


@case(requires=("int64",))
def test_triangular_numbers_of_70000_elements():
    i = np.arange(70_000, dtype=np.int64)
    return Run(k_triangle, (empty(70_000, mp.i64),), {0: i * (i - 1) // 2}, block=256)


@mp.kernel
def k_triangle_store(tri, n: mp.i32):
    i = mp.global_id(0)
    if i < n and (i % 1000 == 7 or i > 69990):
        tri[i * (i - 1) // 2] = i % 251


@EVERY
def test_store_at_a_triangular_index(target):
    n = 70_000
    tri = np.zeros(n * (n - 1) // 2 + 1, np.uint8)  # 2.4 GB of zeros, of which 80 pages are ever touched
    k_triangle_store.launch(grid=mp.cdiv(n, 256), block=256, args=(tri, n), device=target.device)
    for i in [*range(7, n, 1000), *range(69991, n)]:
        at = i * (i - 1) // 2
        assert tri[at] == i % 251
        assert tri[at + 1] == 0


@mp.kernel
def k_copy(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i]


@EVERY
@pytest.mark.parametrize("step", [2**28, -(2**28), 2**28 - 1])
def test_strided_view_that_spans_more_than_2_31(target, step):
    base = np.zeros(2**32 + 100, np.uint8)
    view = base[::step]
    view[:] = np.arange(view.size) + 1
    out = np.zeros(view.size, np.uint8)
    k_copy.launch(grid=1, block=64, args=(view, out), device=target.device)
    assert np.array_equal(out, np.arange(view.size) + 1)
    k_copy.launch(grid=1, block=64, args=((out * 2), view), device=target.device)
    assert np.array_equal(view, out * 2)
    assert base[1] == 0


@mp.kernel
def k_rows(x, out):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j] + 1


@EVERY
def test_rows_that_are_far_apart(target):
    # 5 rows of 40 elements in a 2-D array of 5 x 2^30: the row stride alone passes 2^31 bytes, the span 2^32 elements
    base = np.zeros((5, 2**30), np.uint16)
    view = base[:, 1000:1040]
    view[:] = np.arange(200).reshape(5, 40)
    out = np.zeros((5, 40), np.uint16)
    k_rows.launch(grid=(3, 5), block=(16, 1), args=(view, out), device=target.device)
    assert np.array_equal(out, np.arange(200).reshape(5, 40) + 1)
    k_rows.launch(grid=(3, 5), block=(16, 1), args=(out, view), device=target.device)
    assert np.array_equal(view, np.arange(200).reshape(5, 40) + 2)


@mp.kernel
def k_products(a, b, out):
    # index arithmetic that passes 2^31 in between and comes back
    i = mp.global_id(0)
    if i < out.shape[0]:
        big = (i + 100000) * 100000
        out[i] = a[big // 100000 - 100000] + b[(big * 3 - big * 2) % 100000]


@case()
def test_intermediate_products_beyond_32_bits():
    a, b = np.arange(70, dtype=np.int32), np.full(100_000, 5, np.int32)
    return Run(k_products, (a, b, empty(70, mp.i32)), {2: a + 5})


@mp.kernel
def k_i32_index(x, k: mp.i32, out):
    # a declared i32 wraps at its own width, before it becomes an index
    i = mp.global_id(0)
    if i < out.shape[0]:
        j = k * 65536 + mp.i32(i)
        out[i] = x[j & 63]


@case()
def test_a_declared_i32_wraps_at_its_own_width():
    x = np.arange(64, dtype=np.int32)
    want = x[((70_000 * 65536 + np.arange(64)) & 63)]
    return Run(k_i32_index, (x, 70_000, empty(64, mp.i32)), {2: want}, grid=1)


@mp.kernel
def k_loop_to_a_large_bound(out, start: mp.i64, n: mp.i64):
    i = mp.global_id(0)
    s = 0
    for j in range(start, start + n):
        s += j - start + i
    out[i] = s


@case(requires=("int64",), gangs=True)
def test_loops_far_beyond_32_bits():
    i = np.arange(64)
    return [
        Run(k_loop_to_a_large_bound, (empty(64, mp.i64), start, 9), {0: 36 + 9 * i}, grid=1)
        for start in (2**31 - 5, 2**32 - 3, 2**40, -(2**31) - 4)
    ]


def _random_expression(rng, depth):
    """Source of an index expression over i (0..99), n (a large i64 scalar) and k (a loop variable), below 2^62."""
    if depth == 0:
        return str(rng.choice(["i", "i", "k", "n", "x.shape[0]", str(int(rng.integers(0, 70000))), "65536", "2147483647"]))
    a, b = _random_expression(rng, depth - 1), _random_expression(rng, depth - 1)
    form = int(rng.integers(0, 11))
    small = int(rng.integers(2, 9))
    return (
        f"({a} + {b})",
        f"({a} - {b})",
        f"({a} * {int(rng.integers(2, 40000))})",
        f"({a} // {small})",
        f"({a} % {int(rng.integers(2, 1000003))})",
        f"({a} >> {small})",
        f"(({a}) << {small})",
        f"min({a}, {b})",
        f"max({a}, -{b})",
        f"({a} if {a} > {b} else {b} + 1)",
        f"(({a}) ^ ({b}))",
    )[form]


_MANY = """import magpie as mp


@mp.kernel
def kernel(x, out, n: mp.i64):
    i = mp.global_id(0)
    if i < x.shape[0]:
        for k in range(2):
{body}
"""


def _bounded(source, env):
    """The value of an expression, or None where some part of it leaves 62 bits."""
    import ast

    def go(node):
        value = eval(compile(ast.Expression(node), "", "eval"), {}, env)
        if abs(value) >= 2**62:
            raise OverflowError
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and not isinstance(child, (ast.Compare, ast.Name, ast.Attribute)):
                go(child)
        return value

    return go(ast.parse(source, mode="eval").body)


@EVERY
@pytest.mark.parametrize("seed", range(4))
def test_random_index_expressions(target, seed, tmp_path):
    """Narrowing an index to 32 bits is only allowed where that cannot be seen: Python's integers are the judge."""
    from .fuzz import load
    from .fuzzgen import Program

    rng = np.random.default_rng(seed)
    items, n = 100, int(rng.integers(2**31, 2**40))
    x = np.arange(items, dtype=np.int32)
    shape = type("X", (), {"shape": (items,)})()
    lines, want = [], []
    while len(lines) < 24:
        source = _random_expression(rng, int(rng.integers(1, 4)))
        try:
            rows = [[_bounded(source, {"i": i, "k": k, "n": n, "x": shape, "min": min, "max": max}) for k in range(2)] for i in range(items)]
        except OverflowError:
            continue
        lines.append(f"            out[i, k, {len(lines)}] = {source}")
        want.append(rows)
    program = Program(_MANY.format(body="\n".join(lines)), (), (), False, False, False)
    kernel = load(program, tmp_path).kernel
    out = np.zeros((items, 2, len(lines)), np.int64)
    kernel.launch(grid=2, block=64, args=(x, out, n), device=target.device)
    expect = np.moveaxis(np.array(want, np.int64), 0, -1)
    bad = np.argwhere(out != expect)
    assert not bad.size, f"{lines[bad[0][2]].strip()} at i={bad[0][0]}, k={bad[0][1]}, n={n}: got {out[tuple(bad[0])]}, expected {expect[tuple(bad[0])]}"


@mp.kernel
def k_extended(x, out, steps):
    # whichever way it came, `part` is a number of 32 bits in 64, which a compiler may know
    i = mp.global_id(0)
    if i < x.shape[0]:
        part = mp.i64(x[i])
        for _ in range(steps):
            while part < 32:
                part += 2**31
            part = mp.i64(x[i])
        out[i] = mp.select(part < 32, 1, 0) + mp.select(part >= -5, 2, 0)


@case(requires=("int64",), gangs=True)
def test_extended_numbers_compare_with_constants():
    x = np.array([0, 31, 32, 33, -5, -6, 2**31 - 1, -(2**31), 100] * 9, np.int32)
    return Run(k_extended, (x, empty(81, mp.i32), 2), {1: (x < 32) + 2 * (x >= -5)})
