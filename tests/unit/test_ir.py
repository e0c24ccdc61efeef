"""The IR itself: op table, builder, printer, verifier."""

from __future__ import annotations

import pytest

from magpie.dtypes import (
    ALL_DTYPES,
    PromotionError,
    StructType,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    index,
    promote,
    u8,
    u32,
    u64,
)
from magpie.ir.builder import Builder
from magpie.ir.layout import HostEnv, KernelLayout, compute_layout, evaluate, folded, scalar_places
from magpie.ir.nodes import Buffer, Kernel, Node, Scalar, SharedArray, Slot, walk
from magpie.ir.ops import OPS, Effect
from magpie.ir.printer import print_kernel
from magpie.ir.verify import VerifyError, verify


def saxpy() -> Kernel:
    x, y = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "read_write")
    k = Kernel("saxpy", [Scalar("a", f32), x, y])
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    _, then, _ = b.if_(b.emit("lt", i, b.emit("extent", array=x, dim=0)))
    with b.into(then):
        v = b.emit("add", b.emit("mul", b.emit("param", type=f32, name="a"), b.load(x, i)), b.load(y, i))
        b.store(y, (i,), v)
    return k


def test_printed_form_is_stable() -> None:
    expected = """\
kernel saxpy(a: f32, x: array<f32, 1> read, y: array<f32, 1> read_write)
  %0 = global_id 0
  %1 = extent x, 0
  %2 = lt %0, %1
  if %2 {
    %3 = param a: f32
    %4 = load x[%0]
    %5 = mul %3, %4
    %6 = load y[%0]
    %7 = add %5, %6
    store y[%0], %7
  }
"""
    assert print_kernel(saxpy()) == expected
    assert print_kernel(saxpy()) == print_kernel(saxpy())


def test_printed_floats_read_back() -> None:
    k = Kernel("c")
    b = Builder(k.body)
    for v in (0.1, -0.0, 1e-45, float("inf"), float("nan")):
        b.const(v, f64)
    text = print_kernel(k)
    for shown in ("const 0.1:", "const -0.0:", "const 1e-45:", "const inf:", "const nan:"):
        assert shown in text


def test_every_row_is_consistent() -> None:
    for name, row in OPS.items():
        assert row.name == name
        assert row.result in ("same", "bool", "index", "u64", "u32", "i32", "given", "elem", "ptr", "none")
        assert ("array" in row.attrs) or row.result != "elem"
        if row.regions or row.terminator:
            assert row.effect is Effect.CONTROL
        if row.result == "same":
            assert row.operands, name


def _broken(change: str) -> Kernel:
    k = saxpy()
    (branch,) = [n for n in k.body if n.op == "if"]
    body = branch.regions[0]
    b = Builder(body)
    if change == "operands":
        body.append(Node("add", (body[1], k.body[0]), f32))
    elif change == "results":
        body.append(Node("lt", (body[1], body[1]), f32))
    elif change == "const range":
        body.append(Node("const", (), u8, {"value": 300}))
    elif change == "dominance":
        k.body.append(Node("neg", (body[1],), f32))
    elif change == "control":
        body.append(Node("break"))
    elif change == "followed":
        k.body.insert(0, Node("return"))
    elif change == "undeclared":
        b.load(Buffer("z", f32, 1), k.body[0])
    elif change == "rank":
        body.append(Node("load", (k.body[0], k.body[0]), f32, {"array": k.buffers[0], "field": None}))
    elif change == "slot type":
        body.append(Node("slot_set", (k.body[0],), None, {"slot": Slot("s", f32)}))
    elif change == "barrier in step":
        _, inner, step = b.loop()
        inner.append(Node("break"))
        step.append(Node("barrier"))
    elif change == "parameter":
        body.append(Node("param", (), f32, {"name": "nope"}))
    elif change == "twice":
        body.append(body[0])
    elif change == "unknown op":
        body.append(Node("frobnicate"))
    return k


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("operands", "operand types differ"),
        ("results", "result type"),
        ("const range", "out of range"),
        ("dominance", "not visible"),
        ("control", "outside of a loop"),
        ("followed", "followed by"),
        ("undeclared", "not declared"),
        ("rank", "indices for"),
        ("slot type", "sets a f32 slot to index"),
        ("barrier in step", "in a loop's step"),
        ("parameter", "no parameter nope"),
        ("twice", "stands in two places"),
        ("unknown op", "unknown op"),
    ],
)
def test_verifier_finds(change: str, text: str) -> None:
    verify(saxpy())
    with pytest.raises(VerifyError, match=text):
        verify(_broken(change))


def test_walk_is_in_program_order() -> None:
    k = saxpy()
    assert [n.op for n in walk(k.body)] == "global_id extent lt if param load mul load add store".split()


def test_promotion_table() -> None:
    assert promote(u8, u8) is u8
    assert promote(f32, i64) is f32
    assert promote(f16, i32) is f16
    assert promote(bf16, f32) is f32
    assert promote(i32, u8) is i32
    assert promote(index, i32) is index
    assert promote(index, u32) is index
    assert promote(index, i64) is i64
    assert promote(bool_, i8) is i8
    for a, b, reason in ((i32, u32, "sign"), (i32, u64, "sign"), (f16, bf16, "half"), (index, u64, "sign")):
        with pytest.raises(PromotionError) as e:
            promote(a, b)
        assert e.value.reason == reason
    for a in ALL_DTYPES:
        for b in ALL_DTYPES:
            try:
                assert promote(a, b) is promote(b, a)
            except PromotionError:
                with pytest.raises(PromotionError):
                    promote(b, a)


def test_struct_layout_is_numpys_aligned_layout() -> None:
    import numpy as np

    t = StructType.build("P", [("a", u8), ("b", f64), ("c", i32)])
    expected = np.dtype([("a", "u1"), ("b", "f8"), ("c", "i4")], align=True)
    assert [f.offset for f in t.fields] == [expected.fields[n][1] for n in expected.names]  # type: ignore[index, union-attr]
    assert t.itemsize == expected.itemsize
    assert t.numpy == expected


def test_layout_places_every_argument_and_survives_json() -> None:
    point = StructType.build("P", [("x", f32), ("n", i64)])
    k = Kernel("k", [Scalar("f", i8), Buffer("m", f16, 2, "read"), Scalar("p", point), Scalar("z", f64)])
    k.shared.append(SharedArray("s", f32, (("mul", ("extent", "m", 1), 2), 4)))
    layout = compute_layout(k)
    assert [p.offset for p in layout.params] == [0, 8, 48, 64]
    assert scalar_places(layout) == {"f": ("i8", 0), "p.x": ("f32", 48), "p.n": ("i64", 56), "z": ("f64", 64)}
    assert layout.size == 72
    assert KernelLayout.from_json(layout.to_json()) == layout
    import json

    assert KernelLayout.from_json(json.loads(json.dumps(layout.to_json()))) == layout


def test_host_expressions_wrap_like_index() -> None:
    env = HostEnv({"n": 5}, {"m": (3, 7)}, {"m": (7, 1)}, (64, 1, 1), (2, 1, 1))
    assert evaluate(("add", ("mul", ("extent", "m", 1), 2), ("param", "n")), env) == 19
    assert evaluate(("floordiv", -7, 2), env) == -4
    assert evaluate(("mod", -7, 0), env) == 0
    assert evaluate(("mul", ("const", 1 << 62), 4), env) == 0
    assert evaluate(("workgroup_size", 0), env) == 64


def test_host_expressions_that_a_workgroup_size_decides() -> None:
    both = ("mul", ("workgroup_size", 0), ("add", ("cast", "i32", ("workgroup_size", 1)), 1))
    assert folded(both, (8, 3, 1)) == 32
    assert folded(both, None) is None
    assert folded(5, None) == folded(("const", 5), (1, 1, 1)) == 5
    for leaf in (("param", "n"), ("extent", "m", 0), ("stride", "m", 0), ("num_workgroups", 0)):
        assert folded(("min", ("workgroup_size", 0), leaf), (8, 3, 1)) is None
