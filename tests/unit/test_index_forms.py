"""How much of 64-bit integers is asked for: small kernels, with what each use asks of the value."""

from __future__ import annotations

import pytest

from magpie.dtypes import f32, i32, i64, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Kernel, Node, Scalar, Slot
from magpie.passes.index_forms import index_forms


def kernel() -> tuple[Kernel, Builder, Buffer]:
    array = Buffer("x", f32, 1, "read_write")
    made = Kernel("k", [array, Scalar("n", i64)])
    return made, Builder(made.body), array


def unknown(b: Builder) -> Node:
    """A number of 64 bits of which nothing is known."""
    return b.emit("param", type=i64, name="n")


def test_what_makes_up_a_place_is_asked_for_its_low_bits():
    k, b, x = kernel()
    n = unknown(b)
    product = b.emit("mul", n, n)
    place = b.emit("sub", b.emit("shl", product, b.const(3, i64)), b.emit("neg", n))
    b.load(x, place)
    forms = index_forms(k)
    assert all(forms.low(v) and not forms.narrow(v) for v in (n, product, place))
    checked = index_forms(k, places=True)  # a check of bounds wants it all
    assert not any(checked.low(v) for v in (n, product, place))


@pytest.mark.parametrize("op", ["lt", "max", "tdiv", "shr", "store"])
def test_other_uses_ask_for_all_bits(op):
    k, b, x = kernel()
    n = unknown(b)
    total = b.emit("add", n, n)
    if op == "store":
        wide = Buffer("y", i64, 1, "write")
        k.params.append(wide)
        b.store(wide, (b.const(0, index),), total)
    else:
        b.load(x, b.cast(b.emit(op, total, b.const(5, i64)), i32))
    forms = index_forms(k)
    assert not forms.low(total) and not forms.low(n)


def test_a_narrower_type_asks_for_the_low_bits_and_a_float_for_all():
    k, b, _ = kernel()
    n, m = unknown(b), unknown(b)
    b.cast(b.emit("add", n, n), i32)
    b.cast(b.emit("add", m, m), f32)
    forms = index_forms(k)
    assert forms.low(n) and not forms.low(m)


def test_slots_pass_on_what_their_readers_ask():
    k, b, x = kernel()
    one, two = Slot("one", i64), Slot("two", i64)
    n, m = unknown(b), unknown(b)
    b.set(one, n)
    b.set(two, m)
    b.load(x, b.get(one))
    b.emit("lt", b.get(two), b.get(one))
    forms = index_forms(k)
    assert not forms.low_slot(two) and not forms.low(m)
    assert not forms.low_slot(one) and not forms.low(n)  # one reader asks for all of it
    k.body[-1:] = []
    forms = index_forms(k)
    assert forms.low_slot(one) and forms.low(n)


def test_what_fits_is_narrow_whoever_asks():
    k, b, x = kernel()
    t = b.emit("thread_id", dim=0)
    twice = b.emit("add", t, t)
    n = unknown(b)
    b.emit("lt", twice, n)
    slot = Slot("small", index)
    b.set(slot, b.const(7, index))
    got = b.get(slot)
    b.emit("lt", got, n)
    forms = index_forms(k)
    assert forms.narrow(twice) and forms.low(twice) and not forms.low(n)
    assert forms.narrow_slot(slot) and forms.narrow(got)
