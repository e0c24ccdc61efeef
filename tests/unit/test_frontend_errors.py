"""Every diagnostic of the Python frontend: its code, its line (marked `#!` in the source), and a help that says what to do."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from frontend_helpers import define, error_of, lowered

import magpie as mp
from magpie.diagnostics import CompileError

# (name, code, source); a source without `def` is the body of a kernel whose parameters are the names before `:`.
CASES: list[tuple[str, str, str]] = []


def case(code: str, params: str, body: str, before: str = "") -> None:
    lines = [f"def k({params}):"] + [f"    {line}" for line in body.splitlines()]
    CASES.append((code, params, "\n".join([*before.splitlines(), *lines])))


# --- Python that kernels do not have ------------------------------------------------------------------------------------
for text in (
    "v = [1, 2]",
    "v = {1: 2}",
    "v = {1, 2}",
    "v = [q for q in range(3)]",
    "v = {q for q in range(3)}",
    "v = {q: q for q in range(3)}",
    "v = (q for q in range(3))",
    "v = lambda q: q",
    "v = f'{n}'",
    "v = 2j",
    "v = b'ab'",
    "v = ...",
    "v = x @ y",
    "v = x[0] @ 2",
    "print(x[0])",
    "v = sum(x)",
    "v = list(x)",
    "v = sorted(x)",
    "v = isinstance(x, int)",
    "v = enumerate(x)",
    "v = range(n)",
    "v = x[None]",
    "v = x[::-1]",
    "v = n is x[0]",
    "v = n in x",
    "del n",
    "import math",
    "from math import sin",
    "global g",
    "raise ValueError",
    "assert n > 0, n",
    "assert n > 0, f'{n}'",
    "a, *b = 1, 2, 3",
    "v = square(*x)",
    "v = square(**x)",
    "class C: pass",
    "for q in x: pass",
    "for q in enumerate(x): pass",
    "for q in zip(x, y): pass",
    "for q in reversed(range(3)): pass",
    "for a, b in range(3): pass",
    "mp.print(f'{n:3d}')",
    "v = (1, 2, 3)[0:2]",
):
    case("MPG_PY_1001", "x, y, n", f"{text}  #!")
case("MPG_PY_1001", "x", "try:  #!\n    x[0] = 1.0\nexcept ValueError:\n    pass")
case("MPG_PY_1001", "x", "with x:  #!\n    pass")
case("MPG_PY_1001", "n", "match n:  #!\n    case 0: pass")
case("MPG_PY_1001", "x", "def inner(): pass  #!")

# --- names and variables --------------------------------------------------------------------------------------------------
case("MPG_PY_1002", "x, out", "out[0] = alpha * x[0]  #!")
case("MPG_PY_1003", "x, n, out", "if n > 0:\n    v = x[0]\nout[0] = v  #!")
case("MPG_PY_1003", "x, n, out", "for j in range(n):\n    v = x[j]\nout[0] = v  #!")
case("MPG_PY_1003", "x, n, out", "for j in range(n):\n    pass\nout[0] = j  #!")
case("MPG_PY_1003", "x, n, out", "while n > 3:\n    v = x[0]\n    break\nout[0] = v  #!")
case("MPG_PY_1003", "x, n, out", "for j in range(n):\n    out[j] = v  #!\n    v = x[j]")
case("MPG_PY_1003", "x, n, out", "v += 1.0  #!")
case("MPG_PY_1003", "x, n, out", "out[0] = v  #!\nv = 1.0")
case("MPG_PY_1003", "x, n, out", "if n > 0 and (v := x[0]) > 1.0:\n    pass\nout[0] = v  #!")
case("MPG_PY_1003", "x, n, out", "while True:\n    if n > 3:\n        break\n    v = x[0]\nout[0] = v  #!")
case("MPG_PY_1004", "x, d", "v = x[0]\nv = d[0]  #!")
case("MPG_PY_1004", "i32s, x", "v = i32s[0]\nv = x[0]  #!")
case("MPG_PY_1004", "i32s", "v = i32s[0]\nv /= 2  #!")
case("MPG_PY_1004", "x", "v = x[0]\nv = (1, 2)  #!")
case("MPG_PY_1004", "x", "v = (1, 2)\nv = (1, 2, 3)  #!")
case("MPG_PY_1004", "x, n, p", "v = p if n > 0 else x[0]  #!")
case("MPG_PY_1004", "n", "if n > 0:\n    t = mp.f32\nelse:\n    t = mp.f64  #!")
case("MPG_PY_1015", "x, y, n, out", "if n > 0:\n    v = x\nelse:\n    v = y  #!\nout[0] = v[0]")
case("MPG_PY_1015", "m, n, out", "v = m[0] if n > 0 else out  #!")
case("MPG_PY_1019", "x", "x.shape[0] = 5  #!")
case("MPG_PY_1019", "x", "x.shape = 5  #!")
case("MPG_PY_1019", "x", "mp.f = 5  #!")
case("MPG_PY_1019", "x", "T[0] = 5  #!", "T = (1, 2)")
case("MPG_PY_1019", "n", "p.x = 5.0  #!", "p = P(1.0, 2.0)")
case("MPG_PY_1023", "x", "x[0] = G[0]  #!", "G = __import__('numpy').arange(4)")
case("MPG_PY_1023", "x", "x[0] = G[0]  #!", "G = [1, 2]")
case("MPG_PY_1023", "x", "x[0] = G['a']  #!", "G = {'a': 1}")
case("MPG_PY_1023", "x", "v = G  #!", "class C: pass\nG = C()")
case("MPG_PY_1030", "x", "a, b = x[0]  #!")
case("MPG_PY_1030", "x", "a, b = 1, 2, 3  #!")
case("MPG_PY_1030", "m", "a, b, c = m.shape  #!")
case("MPG_PY_1030", "x", "a, b = square(x[0])  #!")

# --- types ----------------------------------------------------------------------------------------------------------------
case("MPG_PY_1005", "i32s, u32s", "v = i32s[0] + u32s[0]  #!")
case("MPG_PY_1005", "i64s, u64s", "v = i64s[0] * u64s[0]  #!")
case("MPG_PY_1005", "i32s, u32s", "v = max(i32s[0], u32s[0])  #!")
case("MPG_PY_1005", "i32s, u32s, n", "v = i32s[0] if n > 0 else u32s[0]  #!")
case("MPG_PY_1006", "h, bh", "v = h[0] * bh[0]  #!")
case("MPG_PY_1007", "x, n", "v = x[n / 2]  #!")
case("MPG_PY_1007", "x, f", "v = x[f]  #!")
case("MPG_PY_1007", "x, n", "v = x[n > 0]  #!")
case("MPG_PY_1007", "x, f", "for j in range(f):  #!\n    pass")
case("MPG_PY_1007", "x", "for j in mp.static_range(1.5):  #!\n    pass")
case("MPG_PY_1007", "x", "s = mp.local(2.5, mp.f32)  #!")
case("MPG_PY_1008", "i32s, f", "i32s[0] = f * 2.5  #!")
case("MPG_PY_1008", "i32s, f", "i32s[0] = 2.0  #!")
case("MPG_PY_1008", "i32s, f", "i32s[0] += 1.5  #!")
case("MPG_PY_1008", "bools, n", "bools[0] = n  #!")
case("MPG_PY_1008", "ps, f", "ps[0] = f  #!")
case("MPG_PY_1008", "ps, p, x", "x[0] = p  #!")
case("MPG_PY_1008", "qs, f", "q = Q(f, 1)  #!")
case("MPG_PY_1008", "qs, f", "q = qs[0]\nq.n = f  #!")
case("MPG_PY_1008", "i32s, f", "mp.atomic_add(i32s, 0, f)  #!")
case("MPG_PY_1008", "f", "v: mp.i32 = f  #!")
case("MPG_PY_1009", "u8s", "u8s[0] = 256  #!")
case("MPG_PY_1009", "u8s", "u8s[0] = -1  #!")
case("MPG_PY_1009", "un", "v = un + -1  #!")
case("MPG_PY_1009", "u8s", "v = u8s[0]\nv = 300  #!")
case("MPG_PY_1009", "h", "h[0] = 1e6  #!")
case("MPG_PY_1009", "h", "h[0] = h[0] * 70000  #!")
case("MPG_PY_1009", "n", "v = 2 ** 5000  #!")
case("MPG_PY_1018", "x, y", "v = x + y  #!")
case("MPG_PY_1018", "f", "v = f << 2  #!")
case("MPG_PY_1018", "f", "v = f & 1  #!")
case("MPG_PY_1018", "f", "v = ~f  #!")
case("MPG_PY_1018", "x", "v = -x  #!")
case("MPG_PY_1018", "x", "v = +x  #!")
case("MPG_PY_1018", "x, y", "v = x < y  #!")
case("MPG_PY_1018", "x", "if x:  #!\n    pass")
case("MPG_PY_1018", "n", "v = n and 3  #!")
case("MPG_PY_1018", "n", "v = n > 0 or n  #!")
case("MPG_PY_1018", "n", "v = n ** -2  #!")
case("MPG_PY_1018", "n", "v = n << 40  #!")
case("MPG_PY_1018", "n", "v = n << -1  #!")
case("MPG_PY_1018", "n", "v = 1 / 0  #!")
case("MPG_PY_1018", "n", "v = n + 'a'  #!")
case("MPG_PY_1018", "n", "v = 'a' + 'b'  #!")
case("MPG_PY_1018", "n", "v = n[0]  #!")
case("MPG_PY_1018", "n", "v = 'abc'[0]  #!")
case("MPG_PY_1018", "n", "v = len(n)  #!")
case("MPG_PY_1018", "p", "v = p + p  #!")
case("MPG_PY_1018", "ps", "ps[0] += 1  #!")
case("MPG_PY_1018", "x, y", "v = x.shape < y.shape  #!")
case("MPG_PY_1018", "f", "v = mp.popcount(f)  #!")
case("MPG_PY_1018", "f", "v = mp.bitcast(f, mp.u64)  #!")
case("MPG_PY_1018", "f", "v = mp.bitcast(1.0, mp.u32)  #!")
case("MPG_PY_1018", "f", "v = mp.ldexp(f, f)  #!")
case("MPG_PY_1018", "f", "v = mp.cdiv(f, 2)  #!")
case("MPG_PY_1018", "x", "v = mp.exp(x)  #!")
case("MPG_PY_1018", "x", "v = int(float('inf'))  #!")
case("MPG_PY_1018", "x", "v = float('abc')  #!")
case("MPG_PY_1018", "x", "v = (-1.0) ** 0.5  #!")
case("MPG_PY_1018", "x", "mp.atomic_or(x, 0, 1)  #!")
case("MPG_PY_1018", "bools", "mp.atomic_add(bools, 0, True)  #!")
case("MPG_PY_1018", "ps, p", "mp.atomic_add(ps, 0, p)  #!")
case("MPG_PY_1018", "n", "s = mp.local(4, mp.i32)\nmp.atomic_add(s, 0, 1)  #!")
case("MPG_PY_1018", "n", "v = mp.subgroup.sum(n > 0)  #!")
case("MPG_PY_1018", "f", "v = mp.subgroup.reduce(f, 'xor')  #!")

# --- arrays ---------------------------------------------------------------------------------------------------------------
case("MPG_PY_1010", "x", "v = x[-1]  #!")
case("MPG_PY_1010", "m", "v = m[0][-2]  #!")
case("MPG_PY_1010", "x", "v = x[-3:]  #!")
case("MPG_PY_1010", "i32s", "mp.atomic_add(i32s, -1, 1)  #!")
case("MPG_PY_1011", "x", "v = x[0, 1]  #!")
case("MPG_PY_1011", "x", "v = x[..., ...]  #!")
case("MPG_PY_1011", "s0", "v = s0[0]  #!")
case("MPG_PY_1011", "s0", "v = len(s0)  #!")
case("MPG_PY_1011", "m", "m[0] = 1.0  #!")
case("MPG_PY_1011", "m", "v = m.shape[2]  #!")
case("MPG_PY_1011", "m", "v = (1, 2)[5]  #!")
case("MPG_PY_1011", "m", "mp.atomic_add(m, 0, 1.0)  #!")
case("MPG_PY_1011", "m, out", "out[0] = m[0] + 1.0  #!")
case("MPG_PY_1013", "m, n", "v = m.shape[n]  #!")
case("MPG_PY_1013", "n", "s = mp.local(n, mp.f32)  #!")
case("MPG_PY_1013", "n", "for j in mp.static_range(n):  #!\n    pass")
case("MPG_PY_1013", "x, n", "v = x[0:8:n]  #!")
case("MPG_PY_1013", "n", "v = mp.global_id(n)  #!")
case("MPG_PY_1013", "x, n", "v = (n, 1)[n]  #!")
case("MPG_PY_1013", "n", "v = f(n)  #!", "@mp.func\ndef f(a: mp.constexpr): return a")
case("MPG_PY_1013", "x", "v = f(x)  #!", "@mp.func\ndef f(a: mp.constexpr): return 1")
case("MPG_PY_1014", "x", "v = x.length  #!")
case("MPG_PY_1014", "p", "v = p.z  #!")
case("MPG_PY_1014", "ps", "v = ps[0].z  #!")
case("MPG_PY_1014", "ps", "ps[0].z = 1.0  #!")
case("MPG_PY_1014", "p", "p.z = 1.0  #!")
case("MPG_PY_1014", "n", "v = n.real  #!")
case("MPG_PY_1014", "n", "v = mp.no_such_thing  #!")
case("MPG_PY_1014", "n", "v = (1, 2).index  #!")
case("MPG_PY_1020", "x", "s = mp.shared(int(x[0]), mp.f32)  #!")
case("MPG_PY_1020", "x", "s = mp.shared((1, 1, 1, 1, 1), mp.f32)  #!")
case("MPG_PY_1020", "n", "g(n)", "@mp.func\ndef g(a):\n    s = mp.shared(a, mp.f32)  #!")
case("MPG_PY_1020", "x", "s = mp.shared(4, 'f32')  #!")
case("MPG_PY_1020", "x", "s = mp.local(-4, mp.f32)  #!")
case("MPG_PY_1020", "n", "for j in range(n):\n    s = mp.local(4, mp.f32)  #!")
case("MPG_PY_1021", "x", "v = mp.global_id(3)  #!")
case("MPG_PY_1021", "x", "v = mp.thread_id(-1)  #!")
case("MPG_PY_1033", "x", "s = mp.shared(256, mp.f32)\ns[256] = 0.0  #!")

# --- loops and calls ------------------------------------------------------------------------------------------------------
case("MPG_PY_1016", "n", "for j in range(0, n, 0):  #!\n    pass")
case("MPG_PY_1016", "n", "for j in mp.static_range(0, 4, 0):  #!\n    pass")
case("MPG_PY_1025", "n", "for j in mp.static_range(100000):  #!\n    pass")
case("MPG_PY_1031", "x", "for j in mp.static_range(4):\n    if x[j] < 0.0:\n        break  #!")
case("MPG_PY_1031", "x", "for j in mp.static_range(4):\n    if x[j] < 0.0:\n        continue  #!")
case("MPG_PY_1012", "x", "mp.barrier  #!")
case("MPG_PY_1018", "x", "v = mp.global_id + 1  #!")
case("MPG_PY_1025", "x", "for a in mp.static_range(4096):\n    for b in mp.static_range(4096):  #!\n        pass")
case("MPG_PY_1012", "x", "mp.barrier(1)  #!")
case("MPG_PY_1012", "x", "mp.atomic_add(x, 1.0)  #!")
case("MPG_PY_1012", "x", "mp.atomic_add(x[0], 0, 1.0)  #!")
case("MPG_PY_1012", "x", "mp.atomic_add(x, 0, 1.0, scope='galaxy')  #!")
case("MPG_PY_1012", "x", "mp.atomic_load(x, 0, order='acq_rel')  #!")
case("MPG_PY_1012", "x", "mp.fence(scope='warp')  #!")
case("MPG_PY_1012", "x", "mp.fence(when=1)  #!")
case("MPG_PY_1012", "x", "v = mp.exp()  #!")
case("MPG_PY_1012", "x", "v = mp.exp(1.0, x=2.0)  #!")
case("MPG_PY_1012", "x", "v = mp.f32()  #!")
case("MPG_PY_1012", "x", "v = x[0].astype()  #!")
case("MPG_PY_1012", "x", "v = x[0].astype(3)  #!")
case("MPG_PY_1012", "n", "v = min(n)  #!")
case("MPG_PY_1012", "n", "v = round(n, 2)  #!")
case("MPG_PY_1012", "n", "v = abs(n, n)  #!")
case("MPG_PY_1012", "n", "v = int(n, 2)  #!")
case("MPG_PY_1012", "n", "v = divmod(n)  #!")
case("MPG_PY_1012", "n", "v = mp.cdiv(n)  #!")
case("MPG_PY_1012", "f", "v = mp.bitcast(f, 3)  #!")
case("MPG_PY_1012", "f", "mp.print(f, sep=1)  #!")
case("MPG_PY_1012", "f", "mp.free(f)  #!")
case("MPG_PY_1012", "f", "for j in range():  #!\n    pass")
case("MPG_PY_1012", "f", "mp.static_range(4)  #!")
case("MPG_PY_1012", "f", "v = square()  #!")
case("MPG_PY_1012", "f", "v = square(f, f)  #!")
case("MPG_PY_1012", "f", "v = square(f, v=f)  #!")
case("MPG_PY_1012", "f", "v = square(w=f)  #!")
case("MPG_PY_1012", "f", "v = g(f)  #!", "@mp.func\ndef g(a: mp.Array[mp.f32]): return a[0]")
case("MPG_PY_1012", "d", "v = g(d)  #!", "@mp.func\ndef g(a: mp.Array[mp.f32]): return a[0]")
case("MPG_PY_1012", "m", "v = g(m)  #!", "@mp.func\ndef g(a: mp.Array[mp.f32, 1]): return a[0]")
case("MPG_PY_1012", "f", "v = g(f)  #!", "@mp.func\ndef g(a: P): return a.x")
case("MPG_PY_1008", "f", "v = g(f)  #!", "@mp.func\ndef g(a: mp.i32): return a")
case("MPG_PY_1012", "f", "v = P(f)  #!")
case("MPG_PY_1012", "f", "v = P(f, f, f)  #!")
case("MPG_PY_1012", "f", "v = P(f, z=f)  #!")
case("MPG_PY_1022", "f", "v: 3 = f  #!")
case("MPG_PY_1024", "x", "return x[0]  #!")
case("MPG_PY_1024", "n, out", "out[0] = g(n)", "@mp.func\ndef g(a):\n    if a > 0:  #!\n        return 1")
case(
    "MPG_PY_1024",
    "n, out",
    "out[0] = g(n)",
    "@mp.func\ndef g(a):\n    if a > 0:\n        return 1.0, 2\n    return 1.0  #!",
)
case(
    "MPG_PY_1024",
    "n, x, d",
    "g(x, d, n)",
    "@mp.func\ndef g(x, d, a):\n    if a > 0:\n        return x[0]\n    return d[0]  #!",
)
case("MPG_PY_1024", "n", "g(n)", "@mp.func\ndef g(a):\n    if a > 0:\n        return\n    return 1  #!")
case("MPG_PY_1024", "n", "g(n)", "@mp.func\ndef g(a):\n    if a > 0:\n        return 1\n    return  #!")
case(
    "MPG_PY_1015",
    "m, n, x",
    "v = g(m, x, n)",
    "@mp.func\ndef g(a, b, n):\n    if n > 0:\n        return a[0]\n    return b  #!",
)
case("MPG_PY_1024", "n", "v = g(T, n)", "T = ((1, 2), (3, 4))\n@mp.func\ndef g(a, n):\n    return a[n]  #!")
case("MPG_PY_1026", "x", "v = g(x[0])  #!", "def g(a): return a")
case("MPG_PY_1026", "x", "v = np.sin(x[0])  #!", "import numpy as np")
case("MPG_PY_1026", "x", "v = math.dist((x[0],), (x[1],))  #!")
# --- matrix tiles (x is f32, d f64, m a matrix of f32, n an i32) ---------------------------------------------------------
TILE = "acc = mp.mma.zeros((16, 32), mp.f32)\na = mp.mma.load_a(m, (0, 0), (16, 16))\nb = mp.mma.load_b(m, (0, 0), (16, 32))\n"
for text in (
    "v = mp.mma.zeros((16, 20), mp.f32)  #!",
    "v = mp.mma.zeros((16, 16, 16), mp.f32)  #!",
    "v = mp.mma.zeros(16, mp.f32)  #!",
    "v = mp.mma.zeros((16, 16), mp.f16)  #!",
    "v = mp.mma.load_a(x, (0, 0), (16, 16))  #!",
    "v = mp.mma.load_a(x[0], (0, 0), (16, 16))  #!",
    "v = mp.mma.load_a(m[::2], (0, 0), (16, 16))  #!",
    "v = mp.mma.load_a(mp.shared((16, 16), mp.i32), (0, 0), (16, 16))  #!",
    "v = mp.mma.load_a(mp.local((16, 16), mp.f32), (0, 0), (16, 16))  #!",
    "v = mp.mma.load(m, (0, 0), (16, 16), dtype=mp.i32)  #!",
    TILE + "mp.mma(acc, b, a)  #!",
    TILE + "mp.mma(a, a, b)  #!",
    TILE + "mp.mma(acc, a, 1.0)  #!",
    TILE + "mp.mma(acc, a, mp.mma.load_b(m, (0, 0), (32, 32)))  #!",
    TILE + "mp.mma(acc, mp.mma.load_a(m, (0, 0), (32, 16)), b)  #!",
    TILE + "mp.mma(mp.mma.zeros((16, 32), mp.f64), a, b)  #!",
    TILE + "mp.mma(acc, a, mp.mma.load_b(mp.shared((16, 32), mp.f16), (0, 0), (16, 32)))  #!",
    TILE + "mp.mma.store(acc, mp.shared((16, 32), mp.i32), (0, 0))  #!",
    TILE + "mp.mma.store(a, m, (0, 0))  #!",
    TILE + "mp.mma.load_a(m, (0, 0), (16, 16), into=b)  #!",
    TILE + "mp.mma.load_a(m, (0, 0), (32, 16), into=a)  #!",
    TILE + "mp.mma.load_a(mp.shared((16, 16), mp.f16), (0, 0), (16, 16), into=a)  #!",
    TILE + "mp.mma.load_a(m, (0, 0), (16, 16), into=x)  #!",
    "mp.copy_async(m, m, (0, 0))  #!",
    "mp.copy_async(mp.shared((16, 16), mp.f16), m, (0, 0))  #!",
    "mp.copy_async(mp.shared((n, 16), mp.f32), m, (0, 0))  #!",
    "mp.copy_async(mp.shared((16, 16), mp.f32), mp.shared((16, 16), mp.f32), (0, 0))  #!",
    "mp.copy_wait(-1)  #!",
):
    case("MPG_PY_1035", "n, x, m", text)
case("MPG_PY_1011", "m", "v = mp.mma.load_a(m, 0, (16, 16))  #!")
case("MPG_PY_1024", "m", "v = g(m)", "@mp.func\ndef g(m):\n    return mp.mma.load_a(m, (0, 0), (16, 16))  #!")
case("MPG_PY_1014", "m", "v = mp.mma.tile(m)  #!")

case("MPG_PY_1034", "x", "v = math.gamma(x[0])  #!")
case("MPG_PY_1034", "x", "v = mp.erfc(x[0])  #!")
case("MPG_PY_1034", "x", "v = mp.asinh(x[0]) + 1.0  #!")
case("MPG_PY_1034", "x", "v = lgamma(x[0])  #!", "from math import lgamma")
case("MPG_PY_1034", "x", "v = np.arctanh(x[0])  #!", "import numpy as np")
case("MPG_PY_1034", "x", "v = f(x[0])  #!", "f = math.acosh")
case("MPG_PY_1026", "x", "v = x[0]()  #!")
case("MPG_PY_1026", "x", "g[1, 1](x)  #!", "@mp.kernel\ndef g(a): pass")
case("MPG_PY_1026", "x", "g(x)  #!", "@mp.kernel\ndef g(a): pass")
case("MPG_CORE_1103", "n", "g(n)", "@mp.func\ndef g(a):\n    return 1 if a < 2 else g(a - 1)  #!")
case("MPG_CORE_1103", "n", "g(n)", "@mp.func\ndef g(a):\n    return f(a)\n@mp.func\ndef f(a):\n    return g(a)  #!")
case("MPG_PY_1022", "n", "g(n)", "@mp.func\ndef g(a: list):  # the place is the function's\n    return a")


@pytest.mark.parametrize(
    ("code", "source"),
    [(c, s) for c, _, s in CASES],
    ids=[s.split("#!")[0].splitlines()[-1].strip()[:48] for _, _, s in CASES],
)
def test_error(code, source):
    error = error_of(source)
    found = error.diagnostics[0]
    assert found.code == code, str(error)
    assert found.help, "says what to write instead"
    if "#!" in source:
        assert found.loc is not None
        assert "#!" in linecache.getline(found.loc.file, found.loc.line), str(error)
    assert "Traceback" not in str(error)
    assert len(error.diagnostics) == 1, str(error)


def test_the_promised_cast_is_shown():
    assert "mp.i32(u32s[0])" in error_of("def k(i32s, u32s):\n    v = i32s[0] + u32s[0]").diagnostics[0].help
    assert "mp.i32(f * 2.5)" in error_of("def k(i32s, f):\n    i32s[0] = f * 2.5").diagnostics[0].help
    assert "x.shape[0] - 1" in error_of("def k(x):\n    v = x[-1]").diagnostics[0].help
    assert "n // 2" in error_of("def k(x, n):\n    v = x[n / 2]").diagnostics[0].help


def test_both_places_are_shown():
    note = error_of("def k(x, d):\n    v = x[0]\n    v = d[0]").diagnostics[0].notes[0]
    assert note[1].line == 2
    note = error_of("def k(x, n):\n    if n > 0:\n        v = x[0]\n    x[1] = v").diagnostics[0].notes[0]
    assert note[1].line == 3


def test_several_errors_are_reported_together():
    error = error_of(
        """
        def k(x, n, out):
            a = [1]
            out[0] = a[0]          # no second error about a
            out[1] = beta
            if n > 0:
                out[2] = x[-1]
            for j in range(0, n, 0):
                pass
            out[3] = x[1]
        """
    )
    assert [d.code for d in error.diagnostics] == ["MPG_PY_1001", "MPG_PY_1002", "MPG_PY_1010", "MPG_PY_1016"]


def test_columns_count_characters():
    error = error_of("def k(x, out):\n    größe = x[0]; out[0] = größe + ünbekannt\n")
    loc = error.diagnostics[0].loc
    assert (loc.col, loc.end_col) == (35, 44)


def test_an_error_in_a_device_function_names_the_call():
    error = error_of("@mp.func\ndef g(a):\n    return a[-1]\ndef k(x, out):\n    out[0] = g(x)\n")
    loc = error.diagnostics[0].loc
    assert (loc.line, loc.inlined_at.line) == (3, 5)
    assert "called from here" in str(error)


@pytest.mark.parametrize("build", ["lambda x: 0", "compile"])
def test_no_source(build):
    from magpie.frontend.python import lower

    scope: dict = {}
    exec("def k(x):\n    x[0] = 1.0\n", scope)
    fn = scope["k"] if build == "compile" else (lambda x: 0)
    with pytest.raises(CompileError) as caught:
        lower(fn, (mp.f32,))
    assert caught.value.code == "MPG_PY_1017"


def test_generators_and_coroutines():
    for text in ("def k(x):\n    yield 1\n", "async def k(x):\n    pass\n"):
        assert error_of(text).code == "MPG_PY_1001"


def test_star_parameters():
    from magpie.frontend.python import signature_of

    with pytest.raises(CompileError) as caught:
        signature_of(define("def k(*x): pass")["k"])
    assert caught.value.code == "MPG_PY_1001"


@pytest.mark.parametrize("text", ["list[float]", "'a count'", "3", "'nonsense'"])
def test_annotations_that_mean_nothing(text):
    from magpie.frontend.python import signature_of

    with pytest.raises(CompileError) as caught:
        signature_of(define(f"def k(x: {text}): pass")["k"])
    assert caught.value.code == "MPG_PY_1022"


STRUCTS = {
    "x: list": 3,
    "x: mp.f32 = 'a'": 3,
    "def f(self): pass": 3,
    "pass": 3,
    "numpy: mp.f32": 3,
}


@pytest.mark.parametrize("body", STRUCTS)
def test_struct_declarations(body):
    with pytest.raises(CompileError) as caught:
        define(f"@mp.struct\nclass S:\n    {body}\n")
    assert caught.value.code == "MPG_PY_1029"
    assert caught.value.diagnostics[0].loc.line in (1, 2)


def test_struct_with_a_base_class():
    with pytest.raises(CompileError) as caught:
        define("class B: pass\n@mp.struct\nclass S(B):\n    x: mp.f32\n")
    assert caught.value.code == "MPG_PY_1029"


def test_builtins_on_the_host():
    for call in (
        lambda: mp.global_id(0),
        lambda: mp.exp(1.0),
        lambda: mp.subgroup.sum(1),
        lambda: mp.barrier(),
        lambda: mp.func(define)(1),
    ):
        with pytest.raises(CompileError) as caught:
            call()
        assert caught.value.code == "MPG_PY_1027"


def test_warnings():
    found = lowered(
        "def k(x, n):\n    for i in range(n):\n        i += 2\n        x[i] = 1.0\n    x[0] == 2.0\n"
    ).warnings
    assert [(d.code, d.loc.line) for d in found] == [("MPG_PY_1028", 3), ("MPG_PY_1032", 5)]


def test_nothing_of_numpy_is_needed_for_an_error():
    assert np  # the helpers themselves use it in tests only


@pytest.mark.parametrize("name", ["erfc", "asinh", "acosh", "atanh"])
def test_what_to_write_for_a_function_that_is_not_there_is_right(name):
    import math
    import re
    from types import SimpleNamespace

    from magpie.frontend.python.errors import LATER

    formula = re.fullmatch(r"write (.*?)(?:, which.*)?", LATER[name])[1]
    shim = SimpleNamespace(**{f: getattr(math, f) for f in ("erf", "copysign", "log", "sqrt", "log1p")})
    for x in (-0.75, 0.25, 0.5) if name != "acosh" else (1.5, 2.0, 30.0):
        assert eval(formula, {"mp": shim, "abs": abs, "x": x}) == pytest.approx(getattr(math, name)(x), rel=1e-12)
