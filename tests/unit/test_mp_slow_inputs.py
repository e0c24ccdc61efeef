"""No input makes the front end slow: large modules of many shapes (`mp_shapes`) are checked in time, with an answer.

Sizes stay below a megabyte, and what is asked is generous: twice the time that quadratic work would pass by is not
mistaken for it, and seconds are those of the processor.
"""

from __future__ import annotations

import gc
import time

import mp_shapes
import pytest

from magpie import knobs
from magpie.diagnostics import Diagnostic
from magpie.frontend.mp import Source, decode
from magpie.frontend.mp.collector import no_collection
from magpie.frontend.mp.lexer import MAX_ERRORS
from magpie.mpir.amount import MOST_OPERATIONS
from magpie.runtime.modules import check_module

BUDGET = 2.0  # seconds
LARGE = 2 if knobs.test_all() else 8  # parts of the size of a megabyte
SMALL = 4 * LARGE


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Load what the first check loads."""
    for target in ("spv", "ptx", "hip", "msl", "wgsl", "cpu"):
        text = f"module t\ngpu fn @k(%n: i32) -> unit target({target}) {{\nbb0:\n    ret\n}}\n"
        check_module(Source(text, "warm.mp"))


def checked(name: str, size: int) -> tuple[float, list[Diagnostic], Source]:
    """Seconds of the processor, what was found, and the source."""
    source = decode(mp_shapes.SHAPES[name][1](size).encode(), "t.mp", max_bytes=2_000_000)
    start = time.process_time()
    found = check_module(source)
    return time.process_time() - start, found, source


def assert_proper(found: list[Diagnostic], source: Source) -> None:
    """Every error has a place in the text, and no more are given than one run gives."""
    lines = source.text.split("\n")
    assert sum(d.is_error for d in found) <= MAX_ERRORS
    for d in found:
        assert d.loc is not None and d.loc.file == "t.mp", d
        assert 1 <= d.loc.line <= len(lines), d
        assert 0 <= d.loc.col <= len(lines[d.loc.line - 1]), d
        assert len(d.message) + len(d.help or "") < 2_000_000


@pytest.mark.parametrize("name", mp_shapes.SHAPES)
def test_a_shape_is_checked_in_time_that_grows_with_it(name: str) -> None:
    most = mp_shapes.SHAPES[name][0]
    size = most if most < 200 else most // LARGE  # small ones have a limit, or are large by themselves
    taken, found, source = checked(name, size)
    assert_proper(found, source)
    assert taken < BUDGET
    if size != most and taken > 0.2:
        before, *_ = checked(name, most // SMALL)
        assert taken < 9 * before + 0.1, f"four times the size took {taken / before:.1f} times as long"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nested_loops", "MPG_CORE_1409"),
        ("deep_ifs", "MPG_CORE_1409"),
        ("else_ifs", "MPG_CORE_1409"),
        ("calls_that_multiply", "MPG_CORE_1410"),
        ("kernels_that_call_one_long_function", "MPG_CORE_1410"),
        ("chain_of_functions_of_a_kernel", "MPG_CORE_1409"),
        ("structs_that_hold_the_next", "MPT0011"),
        ("structs_in_a_ring", "MPT0011"),
        ("brackets", "MPP0004"),
        ("names_that_are_not_there", "MPS0002"),
        ("labels_that_are_not_there", "MPP0014"),
        ("exports", "MPT0003"),
        ("long_number", "MPP0007"),
        ("barriers_in_branches", "MPG_CORE_1400"),
    ],
)
def test_what_is_refused_has_its_code(name: str, code: str) -> None:
    most = mp_shapes.SHAPES[name][0]
    _, found, _ = checked(name, most if most < 200 else max(most // 8, 200))
    assert found[0].code == code and found[0].is_error


@pytest.mark.parametrize(
    "name",
    [
        *("nested_loops_that_may_be", "counted_loops_in_each_other", "loops_in_a_row", "switch_of_many_cases"),
        *("ifs_with_phis_in_a_row", "chain_of_blocks", "irreducible_cycles", "long_block", "many_phis"),
        *("values_used_far_away", "functions_of_one_kernel", "small_kernels", "fields_that_a_kernel_sets"),
        *("structs", "exports_of_what_is_there", "variants_of_own_names", "comments_behind_code", "realistic"),
    ],
)
def test_what_is_right_is_accepted(name: str) -> None:
    most = mp_shapes.SHAPES[name][0]
    _, found, _ = checked(name, most if most < 200 else most // 64)
    assert not [d for d in found if d.is_error]


def test_ten_thousand_lines_are_checked_in_three_seconds() -> None:
    taken, found, source = checked("realistic", 10_000)
    assert source.text.count("\n") > 10_000
    assert not [d for d in found if d.is_error]
    assert taken < 3.0


def test_operations_of_kernels_are_counted_with_calls_and_fields() -> None:
    """Parameters, blocks, instructions; a struct counts as its fields, a call as what is called and itself."""
    head = "module t\nvalue struct TIn {\n    field a: f32\n    field b: f32\n}\nvalue struct TS {\n    field i: TIn\n    field c: f32\n}\n"
    adds = "".join(f"%v{k + 1}: f32 = f.add {{ a=%v{k}, b=%v{k} }}\n" for k in range(999))
    called = f"fn @f(%s: TS) -> f32 {{\nbb0:\n%v0: f32 = getfield {{ obj=%s, field=c }}\n{adds}ret %v999\n}}\n"  # 3 + 1 + 1000
    kernel = "gpu fn @k{}(%s: TS) -> unit target(spv) {{\nbb0:\n%r: f32 = call @f {{ s=%s }}\nret\n}}\n"  # 3 + 1 + 1
    each = 1004 + 5
    most = MOST_OPERATIONS // each
    right = check_module(Source(head + called + "".join(kernel.format(k) for k in range(most)), "t.mp"))
    assert not [d for d in right if d.is_error]
    (wrong,) = check_module(Source(head + called + "".join(kernel.format(k) for k in range(most + 1)), "t.mp"))
    assert wrong.code == "MPG_CORE_1410" and f"{each * (most + 1):,} operations" in wrong.message
    assert f"@k{most} " in wrong.message
    cases = "".join(f"case {k} -> bb1\n" for k in range(20_000))
    text = "gpu fn @s(%n: i32) -> unit target(spv) {\nbb0:\nswitch %n {\n" + cases + "} else bb2\nbb1:\nret\nbb2:\nret\n}\n"
    (wrong,) = check_module(Source("module t\n" + text, "t.mp"))
    assert wrong.code == "MPG_CORE_1410" and f"{1 + 3 + 6 * 20_000:,} operations" in wrong.message


def test_the_garbage_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    check_module(Source("module t\n", "t.mp"))
    check_module(Source("nothing", "t.mp"))
    assert gc.isenabled()
    with no_collection(), no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        check_module(Source("module t\n", "t.mp"))
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(("functions", "right"), [(1, True), (2, True), (3, False), (60, False)])
def test_calls_nest_with_the_control_flow_around_them(functions: int, right: bool) -> None:
    """Passes walk inlined calls by recursion: 50 ifs around a call of a function with 50 ifs are 100."""
    made = []
    for f in range(functions):
        inner = f"call_void @f{f + 1} {{ n=%n }}\n" if f + 1 < functions else "gpu.fence\n"
        tests = "".join(
            f"bb_{k}:\n%c{k}: bool = icmp.eq {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} bb_{k + 1} bb_e{k}\n" for k in range(50)
        )
        ends = "".join(f"bb_e{k}:\nbr bb_e{k - 1}\n" for k in range(49, 0, -1))
        body = f"bb0:\nbr bb_0\n{tests}bb_50:\n{inner}br bb_e49\n{ends}bb_e0:\nret\n"
        made.append(f"fn @f{f}(%n: i32) -> unit {{\n{body}}}\n")
    kernel = mp_shapes.KERNEL + "bb0:\ncall_void @f0 { n=%n }\nret\n}\n"
    found = [d.code for d in check_module(Source("module t\n" + "".join(made) + kernel, "t.mp")) if d.is_error]
    assert found == ([] if right else ["MPG_CORE_1409"])
