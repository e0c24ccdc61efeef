"""Value structs: as parameters, locals, results, elements of arrays of every kind, nested."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty

# That padding wastes memory is said once a kernel, on some backends.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*MPG_SPV_2003")


@mp.struct
class Vec2:
    x: mp.f32
    y: mp.f32


@mp.struct
class Particle:
    pos: Vec2
    vel: Vec2
    kind: mp.u8
    mass: mp.f64


@mp.struct
class Padded:
    flag: mp.bool_
    big: mp.i64
    small: mp.i16


@mp.func
def add(a, b):
    return Vec2(a.x + b.x, a.y + b.y)


@mp.func
def dot(a, b):
    return a.x * b.x + a.y * b.y


@mp.kernel
def k_fields(p, x, y):
    i = mp.global_id(0)
    if i < p.shape[0]:
        x[i] = p[i].x
        y[i] = p[i].y


@mp.kernel
def k_make(x, y, p):
    i = mp.global_id(0)
    if i < p.shape[0]:
        p[i] = Vec2(x[i], y[i])


@mp.kernel
def k_store_field(p, v):
    i = mp.global_id(0)
    if i < p.shape[0]:
        p[i].y = v[i]
        p[i].x += 1.0


@mp.kernel
def k_step(p, dt: mp.f32):
    i = mp.global_id(0)
    if i < p.shape[0]:
        q = p[i]
        q.pos.x += q.vel.x * dt
        q.pos.y += q.vel.y * dt
        if q.kind == 1:
            q.mass = q.mass * 2.0
        p[i] = q


@mp.kernel
def k_nested_store(p):
    i = mp.global_id(0)
    if i < p.shape[0]:
        p[i].pos = add(p[i].pos, p[i].vel)
        p[i].vel.x = dot(p[i].pos, p[i].vel)


@mp.kernel
def k_parameter(p: Vec2, q: Particle, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = p.x * i + p.y + q.pos.y + mp.f32(q.mass) + q.kind


@mp.kernel
def k_local_struct(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        a = Vec2(x[i], 1.0)
        b = a
        b.x = 100.0
        if x[i] > 0.0:
            a = Vec2(a.y, a.x)
        for _ in range(3):
            a = add(a, Vec2(1.0, 2.0))
        out[i] = a.x * 1000.0 + a.y + b.x * 0.0


@mp.kernel
def k_shared_struct(p, out):
    t = mp.thread_id(0)
    s = mp.shared(64, Vec2)
    s[t] = p[t]
    mp.barrier()
    v = s[63 - t]
    s2 = add(v, Vec2(1.0, -1.0))
    mp.barrier()
    s[t].x = s2.y
    s[t].y = s2.x
    mp.barrier()
    out[t] = s[(t + 1) % 64]


@mp.kernel
def k_local_array_of_structs(x, out):
    i = mp.global_id(0)
    a = mp.local(4, Vec2)
    if i < out.shape[0]:
        for k in range(4):
            a[k] = Vec2(x[i] + k, k * 2)
        best = a[0]
        for k in range(1, 4):
            if dot(a[k], a[k]) > dot(best, best):
                best = a[k]
        out[i] = best.x + best.y


@mp.kernel
def k_padded(p, out):
    i = mp.global_id(0)
    if i < p.shape[0]:
        out[i] = p[i].big + p[i].small if p[i].flag else -1
        p[i].big = p[i].big + 1


@mp.kernel
def k_any_struct(p, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = p[i].a + p[i].b


@mp.func
def minmax(a, b):
    if a < b:
        return a, b
    return b, a


@mp.func
def normalised(v):
    n = dot(v, v)
    if n == 0.0:
        return v
    return Vec2(v.x / n, v.y / n)


@mp.kernel
def k_struct_results(p, out):
    i = mp.global_id(0)
    if i < p.shape[0]:
        out[i] = normalised(p[i])


@mp.kernel
def k_conditional_struct(p, q, out):
    i = mp.global_id(0)
    if i < p.shape[0]:
        v = p[i] if p[i].x > q[i].x else q[i]
        out[i] = v


VEC = np.dtype([("x", np.float32), ("y", np.float32)])


def vecs(n, seed=0):
    rng = np.random.default_rng(seed)
    p = np.zeros(n, VEC)
    p["x"], p["y"] = rng.integers(-9, 9, n), rng.integers(-9, 9, n)
    return p


def particles(n):
    p = np.zeros(n, Particle.numpy)
    rng = np.random.default_rng(1)
    for f in ("pos", "vel"):
        for c in "xy":
            p[f][c] = rng.integers(-9, 9, n)
    p["kind"], p["mass"] = rng.integers(0, 3, n), rng.standard_normal(n)
    return p


@case(gangs=True)
def test_fields_of_an_array_of_structs():
    p = vecs(101)
    return Run(k_fields, (p, empty(101, mp.f32), empty(101, mp.f32)), {1: p["x"].copy(), 2: p["y"].copy()})


@case(gangs=True)
def test_struct_elements_are_stored_whole():
    x, y = o.plain(mp.f32, 101, 1), o.plain(mp.f32, 101, 2)
    want = np.zeros(101, VEC)
    want["x"], want["y"] = x, y
    return Run(k_make, (x, y, np.zeros(101, VEC)), {2: want})


@case()
def test_one_field_of_an_element_is_stored():
    p, v = vecs(101), o.plain(mp.f32, 101)
    want = p.copy()
    want["y"] = v
    want["x"] += 1
    return Run(k_store_field, (p, v), {0: want})


@case()
def test_strided_array_of_structs():
    p, v = vecs(202)[::-2], o.plain(mp.f32, 101)
    want = p.copy()
    want["y"] = v
    want["x"] += 1
    return Run(k_store_field, (p, v), {0: want}, grid=2)


@case(requires=("f64",), gangs=True)
def test_nested_structs_with_padding():
    p = particles(90)
    want = p.copy()
    for c in "xy":
        want["pos"][c] += p["vel"][c] * np.float32(0.5)
    want["mass"] = np.where(p["kind"] == 1, p["mass"] * 2, p["mass"])
    return Run(k_step, (p, 0.5), {0: want})


@case(requires=("f64",))
def test_a_struct_field_of_a_struct_is_stored_whole():
    p = particles(90)
    want = p.copy()
    for c in "xy":
        want["pos"][c] = p["pos"][c] + p["vel"][c]
    want["vel"]["x"] = want["pos"]["x"] * p["vel"]["x"] + want["pos"]["y"] * p["vel"]["y"]
    return Run(k_nested_store, (p,), {0: want})


@case(requires=("f64",))
def test_struct_parameters():
    q = Particle(Vec2(1, 2), Vec2(3, 4), 5, 0.5)
    want = (np.float32(2) * np.arange(70, dtype=np.float32) + np.float32(3)) + np.float32(2) + np.float32(0.5) + np.float32(5)
    return Run(k_parameter, (Vec2(2, 3), q, empty(70, mp.f32)), {2: want})


@case(gangs=True)
def test_local_structs_are_values():
    x = np.random.default_rng(0).integers(-9, 9, 99).astype(np.float32)
    ax, ay = np.where(x > 0, 1, x), np.where(x > 0, x, 1)
    return Run(k_local_struct, (x, empty(99, mp.f32)), {1: (ax + 3) * 1000 + ay + 6})


@case(gangs=True)
def test_structs_in_shared_memory():
    p = vecs(64)
    want = np.zeros(64, VEC)
    r = p[::-1]
    want["x"], want["y"] = np.roll(r["y"] - 1, -1), np.roll(r["x"] + 1, -1)
    return Run(k_shared_struct, (p, np.zeros(64, VEC)), {1: want}, grid=1)


@case(gangs=True)
def test_local_array_of_structs():
    x = np.random.default_rng(0).integers(-9, 9, 80).astype(np.float32)

    def f(v):
        best = (v, 0)
        for k in range(1, 4):
            c = (v + k, k * 2)
            if c[0] ** 2 + c[1] ** 2 > best[0] ** 2 + best[1] ** 2:
                best = c
        return best[0] + best[1]

    return Run(k_local_array_of_structs, (x, empty(80, mp.f32)), {1: np.array([f(v) for v in x])})


@case(requires=("int64",))
def test_struct_with_padding_keeps_its_layout():
    assert Padded.numpy.itemsize == 24
    p = np.zeros(50, Padded.numpy)
    p["flag"] = np.arange(50) % 2
    p["big"] = 2**40 + np.arange(50)
    p["small"] = -np.arange(50)
    want = p.copy()
    want["big"] += 1
    out = np.where(p["flag"], p["big"] + p["small"], -1)
    return Run(k_padded, (p, empty(50, mp.i64)), {0: want, 1: out})


@case()
def test_any_numpy_structured_dtype():
    # packed, with fields out of C's order and a hole at the end: the layout is NumPy's
    dt = np.dtype({"names": ["a", "b"], "formats": [np.int32, np.int16], "offsets": [4, 0], "itemsize": 12})
    p = np.zeros(60, dt)
    p["a"], p["b"] = np.arange(60) * 1000, -np.arange(60)
    return Run(k_any_struct, (p, empty(60, mp.i32)), {1: p["a"] + p["b"]})


@case(gangs=True)
def test_struct_results_of_a_function_with_early_return():
    p = vecs(77)
    n = p["x"] * p["x"] + p["y"] * p["y"]
    want = np.zeros(77, VEC)
    with np.errstate(all="ignore"):
        want["x"], want["y"] = np.where(n == 0, p["x"], p["x"] / n), np.where(n == 0, p["y"], p["y"] / n)
    return Run(k_struct_results, (p, np.zeros(77, VEC)), {1: want})


@case(gangs=True)
def test_conditional_expression_of_structs():
    p, q = vecs(77, 1), vecs(77, 2)
    return Run(k_conditional_struct, (p, q, np.zeros(77, VEC)), {2: np.where(p["x"] > q["x"], p, q)})


def test_structs_on_the_host():
    v = Vec2(1.5, 2)
    assert (v.x, v.y) == (1.5, 2)
    v.x = 4
    assert v.x == 4
    assert Vec2.numpy == VEC
    assert Particle.numpy.itemsize == 32
