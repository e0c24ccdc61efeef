"""Host programs: branches, phis, calls, recursion, exit statuses."""

from __future__ import annotations

import math

import pytest
from host_tools import call, function, program, run

from magpie.host.machine import DEPTH
from magpie.host.panics import Panic


def test_the_exit_status_is_the_value_of_main():
    assert run("fn @main() -> i64 {\nbb0:\n    ret const.i64 42\n}").status == 42
    assert run("fn @main() -> u8 {\nbb0:\n    ret const.u8 7\n}").status == 7
    assert run("fn @main() -> unit {\nbb0:\n    ret\n}").status == 0


def test_a_result_of_main_is_a_status_or_an_error():
    good = "fn @main() -> TResult<i32, Str> {\nbb0:\n    %r: TResult<i32, Str> = enum.new<Ok> { v=const.i32 3 }\n    ret %r\n}"
    assert run(good).status == 3
    bad = good.replace("<Ok> { v=const.i32 3 }", '<Err> { v=const.Str "no such thing" }')
    ran = run(bad)
    assert ran.status == 1 and ran.out == "" and "no such thing" in ran.err


def test_output_is_utf8_and_in_order():
    text = function(
        "",
        "i64",
        r"""    call_void @println { text=const.Str "one \u{1f426}" }
    call_void @print { text=const.Str "two" }
    call_void @print { text=const.Str "\n" }
    call_void @eprintln { text=const.Str "beside" }
    ret const.i64 0""",
        "main",
    )
    ran = run(text)
    assert ran.out == "one \U0001f426\ntwo\n" and ran.err == "beside\n" and ran.status == 0


FIBONACCI = """fn @f(%n: i64) -> i64 {
bb0:
    br bb1
bb1:
    %k: i64 = phi [bb0: const.i64 0] [bb2: %next]
    %a: i64 = phi [bb0: const.i64 0] [bb2: %b]
    %b: i64 = phi [bb0: const.i64 1] [bb2: %sum]
    %more: bool = icmp.slt { a=%k, b=%n }
    cbr %more bb2 bb3
bb2:
    %sum: i64 = i.add { a=%a, b=%b }
    %next: i64 = i.add { a=%k, b=const.i64 1 }
    br bb1
bb3:
    ret %a
}
"""


def test_phis_are_all_read_before_one_is_set():
    assert call(FIBONACCI, 90) == 2880067194370816120


def test_two_phis_may_change_places():
    text = FIBONACCI.replace("[bb2: %b]", "[bb2: %b0]").replace("%b0", "%b").replace("[bb2: %sum]", "[bb2: %a]")
    assert [call(text, n) for n in range(4)] == [0, 1, 0, 1]


def test_two_phis_alone_change_places_too():
    text = """fn @f(%x: i64, %y: i64) -> i64 {
bb0:
    br bb1
bb1:
    %a: i64 = phi [bb0: %x] [bb2: %b]
    %b: i64 = phi [bb0: %y] [bb2: %a]
    %rises: bool = icmp.slt { a=%a, b=%b }
    cbr %rises bb2 bb3
bb2:
    br bb1
bb3:
    %d: i64 = i.sub { a=%a, b=%b }
    ret %d
}
"""
    assert call(text, 3, 10) == 7 and call(text, 10, 3) == 7


def test_a_conditional_edge_moves_the_phis_of_its_side():
    text = """fn @f(%c: bool, %x: i32, %y: i32) -> i32 {
bb0:
    cbr %c bb1 bb1
bb1:
    %r: i32 = phi [bb0: %x]
    %s: i32 = phi [bb0: %y]
    cbr %c bb2 bb3
bb2:
    br bb3
bb3:
    %u: i32 = phi [bb1: %s] [bb2: %r]
    %v: i32 = phi [bb1: %r] [bb2: %s]
    %d: i32 = i.sub { a=%u, b=%v }
    ret %d
}"""
    assert call(text, True, 10, 3) == 7 and call(text, False, 10, 3) == -7


def test_switch():
    text = """fn @f(%n: i8) -> i32 {
bb0:
    switch %n { case 1 -> bb1 case -128 -> bb2 } else bb3
bb1:
    ret const.i32 10
bb2:
    ret const.i32 20
bb3:
    ret const.i32 30
}"""
    assert [call(text, n) for n in (1, -128, 0, 127)] == [10, 20, 30, 30]


def test_unreachable_panics():
    with pytest.raises(Panic, match="unreachable"):
        call("fn @f() -> i32 {\nbb0:\n    unreachable\n}")


ACKERMANN = """fn @f(%m: i64, %n: i64) -> i64 {
bb0:
    %last: bool = icmp.eq { a=%m, b=const.i64 0 }
    %up: i64 = i.add { a=%n, b=const.i64 1 }
    cbr %last bb1 bb2
bb1:
    ret %up
bb2:
    %less: i64 = i.sub { a=%m, b=const.i64 1 }
    %empty: bool = icmp.eq { a=%n, b=const.i64 0 }
    cbr %empty bb3 bb4
bb3:
    %one: i64 = call @f { m=%less, n=const.i64 1 }
    ret %one
bb4:
    %down: i64 = i.sub { a=%n, b=const.i64 1 }
    %inner: i64 = call @f { m=%m, n=%down }
    %outer: i64 = call @f { args=[%less, %inner] }
    ret %outer
}
"""


def test_recursion():
    # A(2, n) = 2 n + 3, A(3, n) = 2**(n + 3) - 3
    assert call(ACKERMANN, 2, 20) == 43 and call(ACKERMANN, 3, 4) == 125


SUM = """fn @f(%n: i64) -> i64 {
bb0:
    %end: bool = icmp.eq { a=%n, b=const.i64 0 }
    cbr %end bb1 bb2
bb1:
    ret const.i64 0
bb2:
    %less: i64 = i.sub { a=%n, b=const.i64 1 }
    %rest: i64 = call @f { n=%less }
    %sum: i64 = i.add { a=%n, b=%rest }
    ret %sum
}
"""


def test_recursion_is_deep():
    n = DEPTH - 1
    assert call(SUM, n) == n * (n + 1) // 2


def test_recursion_without_an_end_panics():
    with pytest.raises(Panic, match="does the recursion end") as caught:
        call(SUM, -1)
    assert len(caught.value.trace) == DEPTH + 1
    shown = str(caught.value)
    assert shown.startswith("t.mp:11: panic: ") and len(shown.splitlines()) < 40 and "more ..." in shown


def test_a_loop_without_an_end_can_be_interrupted():
    import _thread
    import threading

    text = "fn @main() -> i64 {\nbb0:\n    br bb1\nbb1:\n    br bb1\n}\n"
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    ran = run(text)
    timer.join()
    assert ran.status == 130 and "interrupted" in ran.err


def test_a_call_from_python_has_as_many_arguments_as_parameters():
    with pytest.raises(TypeError, match="@f takes 1 arguments, and 2 were given"):
        call(SUM, 1, 2)


def test_a_function_is_prepared_once():
    ready = program(SUM)
    assert ready.call("f", (3,)) == 6
    entry = ready.codes["f"].entry
    assert ready.call("f", (4,)) == 10 and ready.codes["f"].entry is entry


def test_a_constant_is_rounded_to_its_type():
    assert call("fn @f() -> f32 {\nbb0:\n    ret const.f32 0.1\n}") == 13421773 / 2**27
    assert call("fn @f() -> i1 {\nbb0:\n    ret const.i1 -1\n}") == -1
    assert math.isnan(call("fn @f() -> f64 {\nbb0:\n    ret const.f64 nan\n}"))
