"""Matrix tiles without a GPU: the definition of a product to the bit, what is refused, the IR, the PTX."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from ptx_tools import assemble, ptxas

import magpie as mp
from magpie.backends.interp.backend import BACKEND as INTERP
from magpie.dtypes import bf16, f16, f32, f64, i8, i32, index, u8
from magpie.frontend.python import lower, signature_of
from magpie.frontend.signature import ArrayArg, ConstArg
from magpie.ir.builder import Builder
from magpie.ir.nodes import Kernel, Node, Slot, walk
from magpie.ir.printer import print_kernel
from magpie.ir.tiles import Tile
from magpie.ir.verify import VerifyError, verify
from magpie.passes.divisors import Divisors
from magpie.passes.lower_tiles import LOWERED, lower_tiles
from tests.conformance import oracle as o

HELD = {f16: f32, bf16: f32, f32: f32, f64: f64, i8: i32, u8: i32}


@mp.kernel(workgroup=(64, 1, 1))
def k_product(x, y, out, held: mp.constexpr):
    if mp.subgroup.id() == 0:
        acc = mp.mma.load(out, (0, 0), (16, 16))
        for k in range(0, x.shape[1], 16):
            mp.mma(acc, mp.mma.load_a(x, (0, k), (16, 16)), mp.mma.load_b(y, (k, 0), (16, 16)))
        mp.mma.store(acc, out, (0, 0))


def to_tf32(value: float) -> Fraction:
    """10 bits of fraction, nearest, ties away from zero."""
    x = Fraction(value)
    if not x:
        return x
    exponent = max(math.frexp(value)[1] - 11, -126 - 10)
    scaled = abs(x) / Fraction(2) ** exponent
    return (1 if x > 0 else -1) * Fraction(int(scaled + Fraction(1, 2))) * Fraction(2) ** exponent


@pytest.mark.parametrize(
    "options", [{"backend": "interp"}, *({"backend": "cpu", "gang": g} for g in (4, 16, 64))], ids=str
)
@pytest.mark.parametrize("t", [f16, bf16, f32, f64])
def test_a_product_is_a_chain_of_fused_steps_in_the_order_of_k(t, options):
    held = HELD[t]
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((16, 32)) * np.exp2(rng.integers(-8, 8, (16, 32)))).astype(np.float32).astype(t.numpy)
    y = (rng.standard_normal((32, 16)) * np.exp2(rng.integers(-8, 8, (32, 16)))).astype(np.float32).astype(t.numpy)
    x[0, :3], y[:3, 0] = 2.0**-14, 2.0**-10
    start = rng.standard_normal((16, 16)).astype(held.numpy)
    exact = to_tf32 if t is f32 else Fraction
    left, right = ([[exact(float(v)) for v in row] for row in a] for a in (x, y))
    want = start.astype(np.float64)
    for i in range(16):
        for j in range(16):
            total = float(start[i, j])
            for k in range(32):
                total = o.round_to(Fraction(total) + left[i][k] * right[k][j], held)
            want[i, j] = total
    out = start.copy()
    k_product.launch(grid=1, block=64, args=(x, y, out, held), **options)
    assert out.tobytes() == want.astype(held.numpy).tobytes()


def test_tf32_ties_go_away_from_zero_and_infinities_stay():
    x, y = np.zeros((16, 16), np.float32), np.eye(16, dtype=np.float32)
    tie, below = 1 + 2.0**-11, np.nextafter(np.float32(1 + 2.0**-11), np.float32(0))
    most = np.finfo(np.float32).max
    x[0, :8] = tie, -tie, below, np.inf, -np.inf, most, 2.0**-140, 3.0
    for backend in ("interp", "cpu"):
        for column in range(8):  # alone: an infinity in a row makes NaN of every sum
            one, out = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
            one[0, 0] = x[0, column]
            k_product.launch(grid=1, block=64, backend=backend, args=(one, y, out, f32))
            want = (1 + 2.0**-10, -1 - 2.0**-10, 1.0, np.inf, -np.inf, np.inf, 2.0**-136 * 0, 3.0)[column]
            assert out[0, 0] == want, (backend, column)


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_integers_wrap(backend):
    x = np.full((16, 32), 127, np.int8)
    out = np.full((16, 16), np.iinfo(np.int32).max, np.int32)
    k_product.launch(grid=1, block=64, backend=backend, args=(x, np.full((32, 16), 127, np.int8), out, i32))
    assert (out == np.iinfo(np.int32).min + 32 * 127 * 127 - 1).all()


# --- what is refused ----------------------------------------------------------------------------------------------------
def codes(kernel, *args, backend):
    with pytest.raises(mp.CompileError) as caught:
        kernel.compile(*args, backend=backend)
    return [d.code for d in caught.value.diagnostics]


@mp.kernel
def k_no_size(x):
    mp.mma.store(mp.mma.zeros((16, 16), mp.f32), x, (0, 0))


@mp.kernel(workgroup=(48, 1, 1))
def k_odd_size(x):
    mp.mma.store(mp.mma.zeros((16, 16), mp.f32), x, (0, 0))


@mp.kernel(workgroup=(64, 1, 1))
def k_divergent(x):
    acc = mp.mma.zeros((16, 16), mp.f32)
    if mp.thread_id(0) < 16:
        mp.mma.store(acc, x, (0, 0))


@mp.kernel(workgroup=(64, 1, 1))
def k_different(x):
    mp.mma.store(mp.mma.zeros((16, 16), mp.f32), x, (mp.thread_id(0), 0))


@mp.kernel(workgroup=(64, 1, 1))
def k_copy_by_subgroups(x):
    tile = mp.shared((16, 16), mp.f32)
    mp.copy_async(tile, x, (mp.subgroup.id() * 16, 0))
    mp.copy_wait()


@mp.kernel(workgroup=(64, 1, 1))
def k_uniform(x):
    acc = mp.mma.zeros((16, 16), mp.f32)
    if mp.thread_id(0) // 32 == 1:
        mp.mma.store(acc, x, (mp.subgroup.id() * 16, 0))


@pytest.mark.parametrize("backend", ["interp", "cpu", "ptx"])
@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (k_no_size, "MPG_CORE_1407"),
        (k_odd_size, "MPG_CORE_1407"),
        (k_divergent, "MPG_CORE_1406"),
        (k_different, "MPG_CORE_1406"),
        (k_copy_by_subgroups, "MPG_CORE_1406"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_all_of_a_subgroup_come_to_a_tile_operation(kernel, code, backend):
    assert codes(kernel, mp.Array[f32, 2], backend=backend) == [code]


def test_what_is_the_same_for_a_subgroup_is_accepted_where_subgroups_have_that_size():
    k_uniform.compile(mp.Array[f32, 2], backend="ptx", arch="sm_90")
    with pytest.raises(mp.CompileError) as caught:  # 32 work-items are half of a subgroup there
        k_uniform.compile(mp.Array[f32, 2], backend="cpu", gang=64)
    assert {d.code for d in caught.value.diagnostics} == {"MPG_CORE_1406"}


@mp.kernel(workgroup=(64, 1, 1), requires=("cuda.tensor_cores",))
def k_on_tensor_cores(x):
    mp.mma.store(mp.mma.zeros((16, 16), mp.f32), x, (0, 0))


def test_tensor_cores_are_needed_only_where_they_are_required():
    for backend in ("cpu", "interp"):
        assert codes(k_on_tensor_cores, mp.Array[f32, 2], backend=backend) == ["MPG_CORE_1200"]
    assert codes(k_on_tensor_cores, mp.Array[f32, 2], backend="ptx") == ["MPG_CORE_1200"], "sm_70 by default"
    k_on_tensor_cores.compile(mp.Array[f32, 2], backend="ptx", arch="sm_80")


@mp.kernel(workgroup=(64, 1, 1))
def k_outside(x):
    if mp.subgroup.id() == 0:
        acc = mp.mma.load(x, (8, 0), (16, 16))
        mp.mma.store(acc, x, (8, 0))


def test_the_sanitizer_looks_into_tiles():
    found = k_outside.sanitize(grid=1, block=64, args=(np.zeros((16, 16), np.float32),))
    assert {r.kind for r in found} == {"bounds"}
    assert all(r.loc is not None and r.loc.file.endswith("test_tiles.py") for r in found)


@mp.kernel(workgroup=(64, 1, 1))
def k_race(x, out):
    tile = mp.shared((16, 16), mp.f32)
    mp.copy_async(tile, x, (0, 0))
    mp.copy_wait()
    acc = mp.mma.load(tile, (0, 0), (16, 16))
    if mp.subgroup.id() == 0:
        mp.mma.store(acc, out, (0, 0))


def test_a_missing_barrier_behind_a_copy_is_a_race():
    x = np.ones((16, 16), np.float32)
    assert {r.kind for r in k_race.sanitize(grid=1, block=64, args=(x, x.copy()))} == {"race"}


# --- the IR -------------------------------------------------------------------------------------------------------------
def ir_of(kernel, *args) -> Kernel:
    return lower(kernel.fn, args, workgroup=kernel.workgroup).kernel


def test_the_printed_form():
    kernel = ir_of(k_product, ArrayArg(bf16, 2), ArrayArg(bf16, 2), ArrayArg(f32, 2), ConstArg(f32))
    assert [p.name for p in signature_of(k_product.fn)] == ["x", "y", "out", "held"]
    text = print_kernel(kernel, locations=False)
    assert "  tile acc: acc f32[16, 16]\n" in text
    assert "  tile tile_a: a bf16[16, 16]\n" in text
    assert "tile_mma acc, tile_a, tile_b\n" in text
    assert re.search(r"tile_load tile_a, x, \(0, 1\), false, %\d+, %\d+\n", text)
    assert [b.access for b in kernel.buffers] == ["read", "read", "read_write"]


def test_lowering_leaves_plain_operations():
    kernel = ir_of(k_product, ArrayArg(bf16, 2), ArrayArg(bf16, 2), ArrayArg(f32, 2), ConstArg(f32))
    for lanes in (4, 16, 32):
        lowered = lower_tiles(kernel, lanes)
        verify(lowered)
        assert not any(n.op in LOWERED for n in walk(lowered.body)) and not lowered.tiles
        assert INTERP.validate(lowered) == []


def test_the_verifier_looks_at_tiles():
    def verified(*tiles: Tile, **attrs: Tile) -> None:
        kernel = Kernel("k", tiles=list(tiles), workgroup=(32, 1, 1))
        kernel.body.append(Node("tile_mma", (), None, attrs))
        verify(kernel)

    acc, a, b = Tile("acc", f32, "acc", 16, 32), Tile("a", f16, "a", 16, 16), Tile("b", f16, "b", 16, 32)
    verified(acc, a, b, tile=acc, a=a, b=b)
    wrong = {
        "is not declared": ((acc, a), {"tile": acc, "a": a, "b": b}),
        "product of b and a": ((acc, a, b), {"tile": acc, "a": b, "b": a}),
        "times": ((acc, a, t := Tile("b", bf16, "b", 16, 32)), {"tile": acc, "a": a, "b": t}),
        "into": ((acc, a, t := Tile("b", f16, "b", 32, 32)), {"tile": acc, "a": a, "b": t}),
        "no multiples": ((acc, a, t := Tile("b", f16, "b", 16, 24)), {"tile": acc, "a": a, "b": t}),
    }
    for text, (tiles, attrs) in wrong.items():
        with pytest.raises(VerifyError, match=text):
            verified(*tiles, **attrs)


def test_what_divides_a_value():
    kernel = Kernel("k")
    b = Builder(kernel.body)
    x = b.emit("thread_id", dim=0)

    def number(value: int) -> Node:
        return b.const(value, index)

    def times(a: Node, value: int) -> Node:
        return b.emit("mul", a, number(value))

    steps, odd = Slot("steps", index), Slot("odd", index)
    b.set(steps, number(64))
    b.set(steps, b.emit("add", b.get(steps), number(16)))
    b.set(odd, b.get(steps))
    b.set(odd, b.emit("add", b.get(odd), times(x, 4)))
    b.set(steps, b.emit("sub", b.get(steps), times(b.get(odd), 2)))
    wanted = {
        number(0): 1 << 20,
        number(48): 16,
        x: 1,
        times(times(x, 8), 6): 16,
        b.emit("add", times(x, 8), number(24)): 8,
        b.emit("shl", x, number(5)): 32,
        b.emit("and", x, number(48)): 16,
        b.emit("mod", times(x, 32), number(24)): 8,
        b.emit("floordiv", times(x, 32), number(2)): 1,
        b.select(b.emit("lt", x, number(3)), number(16), times(x, 32)): 16,
        b.get(steps): 8,
        b.get(odd): 4,
    }
    found = Divisors(kernel)
    assert {n: found.of(n) for n in wanted} == wanted


# --- PTX ----------------------------------------------------------------------------------------------------------------
@mp.kernel(workgroup=(64, 1, 1))
def k_staged(x, y, out, t: mp.constexpr, held: mp.constexpr, pad: mp.constexpr, flip: mp.constexpr):
    left, right = mp.shared((32, 32 + pad), t), mp.shared((32, 32 + pad), t)
    mp.copy_async(left[:, :32], x, (mp.workgroup_id(0) * 32, 0))
    mp.copy_async(right[:, :32], y, (0, 0))
    mp.copy_wait()
    mp.barrier()
    acc = mp.mma.zeros((32, 32), held)
    at = mp.subgroup.id() * 0
    a = mp.mma.load_a(left, (at, 0), (32, 32), transposed=flip)
    b = mp.mma.load_b(right, (0, at), (32, 32), transposed=flip)
    mp.mma(acc, a, b)
    mp.mma.store(acc, out, (0, 0))


def staged(t, arch="sm_90", pad=None, flip=False, **options):
    held = HELD[t]
    args = (*(mp.Array[t, 2],) * 2, mp.Array[held, 2], t, held, 16 // t.itemsize if pad is None else pad, flip)
    return k_staged.compile(*args, backend="ptx", arch=arch, **options).text


PRODUCTS = {
    f16: ("m16n8k16.row.col.f32.f16.f16.f32", 16),
    bf16: ("m16n8k16.row.col.f32.bf16.bf16.f32", 16),
    f32: ("m16n8k8.row.col.f32.tf32.tf32.f32", 32),
    f64: ("m8n8k4.row.col.f64.f64.f64.f64", 128),
    i8: ("m16n8k32.row.col.s32.s8.s8.s32", 8),
    u8: ("m16n8k32.row.col.s32.u8.u8.s32", 8),
}


@pytest.mark.parametrize("t", PRODUCTS, ids=str)
def test_products_are_those_of_the_tensor_cores(t):
    shape, count = PRODUCTS[t]
    text = staged(t)
    assert text.count("mma.sync.aligned." + shape) == count == text.count("mma.sync")
    assert text.count("fma.rn") == 0


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("t", "straight", "turned"), [(f16, 4, 4), (bf16, 4, 4), (f32, 8, 0), (i8, 2, 0), (f64, 0, 0)], ids=str
)
def test_matrix_loads_where_rows_are_aligned(t, straight, turned, flip):
    """Rows along k are read as they lie, others turned, which exists for 16 bits only. The straight operand is the
    left one, or the right one where both are transposed."""
    text = staged(t, flip=flip)
    assert len(re.findall(r"ldmatrix\S*\.x4\.shared", text)) == straight
    assert len(re.findall(r"ldmatrix\S*\.x4\.trans", text)) == turned
    assert "ldmatrix" not in staged(t, pad=1, flip=flip)


def test_copies_are_asynchronous_where_chunks_are_aligned():
    text = staged(bf16)
    assert text.count("cp.async.commit_group") == 2 and text.count("cp.async.wait_group") == 1
    # 128 chunks by 64 work-items, for blocks inside and for those beyond the edge, of two operands
    assert text.count("cp.async.cg.shared.global") == 2 * 2 * 2
    text = staged(bf16, pad=1)
    assert "cp.async.cg" not in text and text.count("st.shared") >= 2


@mp.kernel(workgroup=(64, 1, 1))
def k_narrow_index(x, out, column: mp.i32):
    tile = mp.shared((16, 24), x.dtype)
    mp.copy_async(tile[:, :16], x, (0, column))
    mp.copy_wait()
    mp.barrier()
    if mp.subgroup.id() == 0:
        mp.mma.store(mp.mma.load(tile, (0, 0), (16, 16)), out, (column, 0))


def test_places_may_be_of_any_integer_type():
    """The column is asked about at run time: 16 bytes must begin there."""
    args = (mp.Array[f32, 2], mp.Array[f32, 2])
    assert "cp.async.cg.shared.global" in k_narrow_index.compile(*args, backend="ptx", arch="sm_90").text


def test_older_architectures_and_checked_code_take_plain_operations():
    for text in (staged(bf16, arch="sm_75"), staged(bf16, checked=True)):
        assert "mma.sync" not in text and "ldmatrix" not in text and "cp.async" not in text
        assert "fma.rn.f32" in text


@pytest.mark.skipif(ptxas() is None, reason="no ptxas: pip install nvidia-cuda-nvcc-cu12")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_ptxas_accepts_all_types_and_layouts(arch, tmp_path: Path):
    texts = [staged(t, arch=arch, pad=pad, flip=flip) for t in HELD for pad in (None, 1) for flip in (False, True)]
    said = assemble(texts, arch, tmp_path)
    assert said == "", said[:2000]
