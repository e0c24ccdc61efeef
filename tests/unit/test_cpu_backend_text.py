"""What the cpu backend emits: memory forms, masks, code for processors other than this one."""

from __future__ import annotations

import pytest

from magpie.backends.base import Options
from magpie.backends.cpu import BACKEND
from magpie.backends.cpu.lane_shapes import analyse_shapes, forward_slots
from magpie.backends.cpu.pipeline import llvm_text
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.llvm import codegen
from magpie.dtypes import f32, index
from magpie.ir.builder import Builder
from magpie.ir.layout import compute_layout
from magpie.ir.nodes import Buffer, Facts, Kernel, Node, Slot
from magpie.ir.ops import OPS
from magpie.passes import prepare
from magpie.passes.narrow_index import ranges

AVX512 = codegen.make_target(
    "x86_64-unknown-linux-gnu",
    "skylake-avx512",
    dict.fromkeys("avx512f avx512vl avx512bw avx512dq avx2 fma f16c".split(), True),
)
AVX2 = codegen.make_target("x86_64-unknown-linux-gnu", "haswell", dict.fromkeys(["avx2", "fma", "f16c"], True))
SSE = codegen.make_target("x86_64-unknown-linux-gnu", "x86-64", {})
ARM = codegen.make_target("aarch64-unknown-linux-gnu", "generic", {})


def guarded_copy() -> Kernel:
    x, y = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "write")
    k = Kernel("copy", [x, y], facts=Facts(frozenset(("x", "y")), frozenset(), True, True))
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    _, then, _ = b.if_(b.emit("lt", i, b.emit("extent", array=x, dim=0)))
    with b.into(then):
        b.store(y, (i,), b.load(x, i))
    return k


def divergent_loop() -> tuple[Kernel, dict[str, Slot]]:
    """k and v advance until v > 1; k and v are dead behind the loop, n is not."""
    x, y = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "write")
    k = Kernel("loop", [x, y], facts=Facts(frozenset(("x", "y")), frozenset(), True, True))
    slots = {name: Slot(name, f32 if name != "k" else index) for name in ("k", "v", "n")}
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    b.set(slots["k"], b.const(0, index))
    b.set(slots["v"], b.load(x, i))
    b.set(slots["n"], b.const(0.0, f32))
    _, body, step = b.loop()
    with b.into(body):
        b.emit("break_if", b.emit("gt", b.get(slots["v"]), b.const(1.0, f32)))
        b.set(slots["v"], b.emit("add", b.get(slots["v"]), b.cast(b.get(slots["k"]), f32)))
        b.set(slots["n"], b.emit("add", b.get(slots["n"]), b.const(1.0, f32)))
    with b.into(step):
        b.set(slots["k"], b.emit("add", b.get(slots["k"]), b.const(1, index)))
    b.store(y, (i,), b.get(slots["n"]))
    return k, slots


def text(kernel: Kernel, target: codegen.HostTarget, **options: int) -> str:
    return llvm_text(kernel, compute_layout(kernel), Options(**options), target).text


def test_a_full_gang_is_one_plain_access_and_the_rest_is_masked() -> None:
    shown = text(guarded_copy(), AVX2, gang=8)
    assert shown.count("load <8 x float>, ptr") == 1
    assert shown.count("call <8 x float> @llvm.masked.load") == 1
    assert "gather" not in shown


def test_a_store_under_a_condition_is_masked_only_where_lanes_differ() -> None:
    x, y = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "write")
    k = Kernel("some", [x, y], workgroup=(64, 1, 1), facts=Facts(contiguous=frozenset({"x", "y"})))
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    v = b.load(x, i)
    _, then, _ = b.if_(b.emit("gt", v, b.const(0.5, f32)))
    with b.into(then):
        b.store(y, (i,), v)
    for target, plain in ((AVX2, 1), (AVX512, 0)):  # AVX-512 masks cost nothing
        shown = text(k, target, gang=8)
        assert shown.count("call void @llvm.masked.store") == 1
        assert shown.count("store <8 x float> %") == plain


def test_slots_that_die_with_the_loop_take_no_select() -> None:
    kernel, slots = divergent_loop()
    ready = forward_slots(prepare(kernel))
    shapes = analyse_shapes(ready, Layout(8, True, None), ranges(ready))
    kind = {s.name: shape.kind for s, shape in shapes.slots.items()}
    covered = {s.name for s in shapes.covered}
    assert kind == {"k": 0, "v": 2, "n": 2}, "a counter that is dead outside stays a scalar"
    assert {"k", "v"} <= covered
    assert "n" not in covered
    assert slots["n"].type is f32


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("make", [guarded_copy, lambda: divergent_loop()[0]], ids=["copy", "loop"])
def test_code_for_other_processors(target: codegen.HostTarget, make) -> None:
    listing = codegen.emit_assembly(text(make(), target), target)
    assert "kernel_range:" in listing
    if target is AVX512:
        assert "%zmm" in listing
        assert "{%k" in listing
    if target is SSE:
        assert "%ymm" not in listing


def test_masks_across_blocks_are_full_width_without_mask_registers() -> None:
    kernel, _ = divergent_loop()
    assert "alloca <16 x i32>" in text(kernel, AVX2, gang=16)
    assert "alloca <16 x i1>" in text(kernel, AVX512, gang=16)


def test_stages_are_in_order_and_show_text() -> None:
    assert list(BACKEND.stages) == ["kir", "prepared", "regions", "llvm", "llvm-opt", "asm"]
    for show in BACKEND.stages.values():
        assert show(guarded_copy(), Options())


def test_a_long_expression_needs_no_recursion() -> None:
    x, y = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "write")
    k = Kernel("long", [x, y])
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    v: Node = b.load(x, i)
    for _ in range(3000):
        v = b.emit("add", v, v)
    b.store(y, (i,), v)
    assert text(k, AVX2).count("fadd") >= 3000


def test_an_unknown_op_is_a_numbered_error() -> None:
    k = Kernel("k", [])
    b = Builder(k.body)
    b.emit("grid_sync")  # a capability that the cpu lacks
    x = Buffer("x", f32, 1, "read_write")
    k.params.append(x)
    pointer = b.emit("ptr", b.emit("global_id", dim=0), array=x)
    b.emit("ptr_store", pointer, b.const(1.0, f32))  # an op that is resolved before a backend sees it
    assert {d.code for d in BACKEND.validate(k)} == {"MPG_CORE_1200", "MPG_CPU_1001"}


def test_the_manifest_has_every_capability_of_the_op_table_but_those_of_gpus() -> None:
    ops = {row.capability for row in OPS.values() if row.capability}
    assert ops - BACKEND.manifest.capabilities == {"cooperative_groups"}
