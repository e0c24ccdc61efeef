"""The typing rules of kernel code: of operators, of variables, of parameters without a declared type."""

from __future__ import annotations

import numpy as np
import pytest
from frontend_helpers import ARGS, error_of, lowered

import magpie as mp
from magpie.ir.nodes import Node, walk


def shown(expression: str, **names) -> Node:
    """The operand of mp.print(expression), whose parameters are all the names in it that ARGS knows."""
    params = ", ".join(name for name in ARGS if _uses(expression, name))
    kernel = lowered(f"def k({params}):\n    mp.print({expression})", **names).kernel
    return [n for n in walk(kernel.body) if n.op == "print"][-1].args[0]


def _uses(expression: str, name: str) -> bool:
    import re

    return re.search(rf"(?<![\w.]){name}\b", expression) is not None


TYPES = {
    # one strong type
    "x[0] + x[1]": "f32",
    "u8s[0] + u8s[1]": "u8",
    "h[0] * h[1]": "f16",
    "i32s[0] // i32s[1]": "i32",
    "bools[0] + bools[1]": "i32",
    "bools[0] & bools[1]": "bool",
    "~bools[0]": "bool",
    "-bools[0]": "i32",
    "not n": "bool",
    # int / int is f32; a float wins
    "i32s[0] / i32s[1]": "f32",
    "i64s[0] / i64s[1]": "f32",
    "n64 * x[0]": "f32",
    "u8s[0] + h[0]": "f16",
    "bh[0] + x[0]": "f32",
    "h[0] + d[0]": "f64",
    # the wider
    "x[0] + d[0]": "f64",
    "i8s[0] + i32s[0]": "i32",
    "u8s[0] + i32s[0]": "i32",
    "un + n64": "i64",
    "bools[0] + u8s[0]": "u8",
    # index
    "mp.global_id(0)": "index",
    "mp.global_id(0) + n": "index",
    "mp.global_id(0) + n64": "i64",
    "mp.global_id(0) + un": "index",
    "mp.global_id(0) * x[0]": "f32",
    "x.shape[0]": "index",
    "m.strides[1]": "index",
    "len(m)": "index",
    "m.size": "index",
    # literals adapt
    "u8s[0] + 1": "u8",
    "1 + u8s[0]": "u8",
    "bh[0] * 2.0": "bf16",
    "h[0] + 1": "f16",
    "d[0] * 0.1": "f64",
    "n + 0.5": "f32",
    "n * 1": "i32",
    "mp.global_id(0) + 1": "index",
    "bools[0] + 1": "i32",
    "u8s[0] + True": "u8",
    "n64 + 1.0": "f32",
    # alone they are i32, f32, or as wide as they must be
    "1 + n": "i32",
    "3000000000 + n64": "i64",
    # shifts keep the type of the left side
    "un << n": "u32",
    "u8s[0] >> 1": "u8",
    "1 << un": "u32",
    "1 << mp.global_id(0)": "index",
    "n & 255": "i32",
    # powers
    "n ** 2": "i32",
    "n ** n": "i32",
    "x[0] ** 2": "f32",
    "x[0] ** n": "f32",
    "x[0] ** 0.5": "f32",
    "n ** 0.5": "f32",
    "2 ** n": "i32",
    "d[0] ** 3": "f64",
    "un ** n": "u32",
    # comparisons
    "n < un": "bool",
    "x[0] == 1": "bool",
    "0 < n < 5": "bool",
    # casts
    "mp.f64(n)": "f64",
    "x[0].astype(mp.i8)": "i8",
    "int(x[0])": "i32",
    "int(d[0])": "i64",
    "int(u8s[0])": "i32",
    "int(un)": "u32",
    "int(n64)": "i64",
    "int(mp.global_id(0))": "index",
    "float(n)": "f32",
    "float(h[0])": "f32",
    "float(d[0])": "f64",
    "bool(n)": "bool",
    "np.float64(n)": "f64",
    # functions
    "abs(n)": "i32",
    "abs(un)": "u32",
    "min(x[0], 1)": "f32",
    "max(n, mp.global_id(0))": "index",
    "mp.exp(x[0])": "f32",
    "math.exp(d[0])": "f64",
    "mp.sin(n)": "f32",
    "mp.sin(h[0])": "f16",
    "mp.sqrt(bh[0])": "bf16",
    "mp.atan2(x[0], d[0])": "f64",
    "round(x[0])": "f32",
    "mp.floor(x[0])": "f32",
    "math.floor(x[0])": "i32",
    "mp.floor(n)": "i32",
    "mp.isnan(x[0])": "bool",
    "mp.popcount(u64s[0])": "u64",
    "mp.bitcast(x[0], mp.u32)": "u32",
    "mp.select(n > 0, x[0], 1)": "f32",
    "mp.cdiv(n, 4)": "i32",
    "mp.subgroup.ballot(n > 0)": "u64",
    "mp.subgroup.lane()": "index",
    "mp.subgroup.sum(x[0])": "f32",
    "mp.atomic_add(u32s, 0, 1)": "u32",
    "x[0] if n > 0 else 0": "f32",
    "n if n > 0 else mp.global_id(0)": "index",
    "bools[0] if n > 0 else False": "bool",
    # a table takes the type that it meets
    "(1.5, 2.5)[n] + d[0]": "f64",
    "(1.5, 2.5)[n] + h[0]": "f16",
    "(1, 2)[n] + u8s[0]": "u8",
    # weak parameters adapt, too
    "wf * x[0]": "f32",
    "wf * d[0]": "f64",
    "wi * x[0]": "f32",
    "wi + n": "i32",
    "wi + u8s[0]": "u8",
    "wi + mp.global_id(0)": "index",
    "(wi + 1) * n": "i32",
    "wb + n": "i32",
    # arrays and structs
    "ps[0].x": "f32",
    "p.y * 2": "f32",
    "qs[0].p.x": "f32",
    "qs[0].n": "i32",
    "square(n)": "i32",
    "square(h[0])": "f16",
}


@pytest.mark.parametrize("expression", TYPES)
def test_type_of(expression):
    assert shown(expression, np=np).type.name == TYPES[expression]


def slots(source: str) -> dict[str, str]:
    """The type of each variable that has a slot."""
    found = {}
    for node in walk(lowered(source).kernel.body):
        if node.op == "slot_set":
            found[node.attrs["slot"].name] = node.attrs["slot"].type.name
    return found


VARIABLES = {
    ("x", "v = 0.0\nfor j in range(3):\n    v += x[j]"): "f32",
    ("d", "v = 0.0\nfor j in range(3):\n    v += d[j]"): "f64",
    ("x", "v = 0\nfor j in range(3):\n    v += x[j]"): "f32",
    ("i32s", "v = 0\nfor j in range(3):\n    v += i32s[j]"): "i32",
    ("u8s", "v = 0\nfor j in range(3):\n    v += u8s[j]"): "u8",
    ("i32s", "v = 0.0\nfor j in range(3):\n    v += i32s[j]"): "f32",
    ("n", "v = 0\nwhile v < n:\n    v += 1"): "i32",
    ("x", "v = 0\nwhile v < x.shape[0]:\n    v += 1"): "index",
    ("x", "v = 0\nwhile x[v] < 1.0:\n    v += 1"): "index",
    ("x", "v = 1\nfor j in range(3):\n    v *= 2"): "i32",
    ("x", "v = 1\nfor j in range(3):\n    v /= 2"): "f32",
    (
        "i32s, n",
        "v = 0\nw = i32s[v]\nfor j in range(n):\n    v, w = w, v\n    v, w = w, v\n    v = mp.global_id(0)",
    ): "index",
    (
        "i32s, n",
        "w = 0\nv = 1\nv, w = w, v\nfor j in range(n):\n    if i32s[v] == w:\n        v, w = w, v\n    w = max(n, 3)",
    ): "index",
    ("d, n", "v = 0.1\nif n > 0:\n    v = 0.2\nd[0] = v * d[1]"): "f64",
    ("h, n", "v = 0.1\nif n > 0:\n    v = 0.2\nh[0] = v * h[1]"): "f32",
    ("x", "v = 1\nv = 5000000000"): "index",
    ("i32s", "v = mp.global_id(0)\nv = i32s[v]"): "index",
    ("i32s", "v = i32s[0]\nv = mp.global_id(0)"): "index",
    ("i64s", "v = i64s[0]\nv = mp.global_id(0)"): "i64",
    ("n", "v = False\nif n > 0:\n    v = n < 3"): "bool",
    ("n", "v = 0\nif n > 0:\n    v = n < 3"): "i32",
    ("n", "v: mp.f64 = 0\nv += n"): "f64",
    ("n, h", "v = 1\nw = 0\nfor j in range(3):\n    w = v\n    v = w * h[0]"): "f16",
    ("wi", "v = wi\nwhile v > 1:\n    v = v // 2"): "i32",
    ("wf, d", "v = wf\nv = v * d[0]"): "f64",
}


@pytest.mark.parametrize(("params", "body"), VARIABLES)
def test_a_variable_has_the_join_of_its_assignments(params, body):
    source = f"def k({params}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert slots(source)["v"] == VARIABLES[params, body]


def scalars(source: str) -> dict[str, str]:
    return {s.name: s.type.name for s in lowered(source).kernel.scalars}


WEAK = {
    "x[0] = wf * x[1]": {"wf": "f32"},
    "x[0] = 2 * wf * x[1] + wf / 3": {"wf": "f32"},
    "d[0] = wf * d[1]": {"wf": "f64"},
    "d[0] = wf\nx[0] = wf": {"wf": "f64"},
    "x[0] = mp.exp(wf) * x[0]": {"wf": "f32"},
    "x[0] = wi * x[1]": {"wi": "f32"},
    "x[wi] = 1.0": {"wi": "index"},
    "i32s[wi] = i32s[0] + wi": {"wi": "i32"},
    "for j in range(wi):\n    x[j] = 1.0": {"wi": "index"},
    "u8s[0] = wi": {"wi": "u8"},
    "u8s[0] += 1\nbools[0] = u8s[0] < wi": {"wi": "index"},
    "bools[0] = wb": {"wb": "bool"},
    "x[0] = x[1] if wb else 2.0": {"wb": "bool"},
}


@pytest.mark.parametrize("body", WEAK)
def test_a_weak_parameter_has_the_type_that_it_meets(body):
    params = ", ".join(name for name in ARGS if _uses(body, name))
    source = f"def k({params}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert scalars(source) == WEAK[body]


def test_two_strong_types_need_a_cast():
    assert error_of("def k(x, d):\n    v = x[0]\n    v = d[0]").code == "MPG_PY_1004"
    assert error_of("def k(i32s, u32s):\n    v = i32s[0]\n    v = u32s[0]").code == "MPG_PY_1004"
    assert error_of("def k(u64s):\n    v = mp.global_id(0)\n    v = u64s[0]").code == "MPG_PY_1004"


def test_a_local_name_may_be_reused_by_loops_of_both_kinds():
    source = "def k(out):\n    for j in range(2):\n        out[j] = 1.0\n    for j in mp.static_range(2):\n        out[j] = 2.0\n"
    kernel = lowered(source).kernel
    assert [n.args[0].attrs.get("value") for n in walk(kernel.body) if n.op == "store"][1:] == [0, 1]


def test_float_to_integer_constants_saturate():
    node = shown("mp.i8(1000.0)")
    assert node.attrs["value"] == 127
    assert shown("mp.u8(-1)").attrs["value"] == 255
    assert shown("mp.i32(mp.nan)").attrs["value"] == 0


def test_a_bool_type_of_python_is_an_annotation():
    assert scalars("def k(x, wf: float):\n    x[0] = wf\n") == {"wf": "f32"}
    assert mp.f32 is mp.f32
