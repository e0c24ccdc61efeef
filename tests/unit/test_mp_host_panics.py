"""Panics and standard streams of host programs: what a user sees, in which order, and with which status."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from host_tools import HEAD, call, function, program, run

from magpie.host.panics import Panic

RUN = """import sys
from pathlib import Path
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import read
from magpie.host.program import Program
sys.exit(Program(check_source(read(Path(sys.argv[1]))).checked).main(sys.argv[2:]))
"""


def process(tmp_path, text, *argv, before="", **options):
    """A program in a process of its own."""
    path = tmp_path / "t.mp"
    path.write_text(HEAD + text)
    words = [sys.executable, "-c", RUN, str(path), *argv]
    if before:
        words = ["bash", "-c", before.replace("RUN", '"$@"'), "bash", *words]
    return subprocess.run(words, capture_output=True, timeout=120, **options)


TEXT = """fn @sum(%a: i32, %b: i32) -> i32 {
bb0:
    %s: i32 = i.add { a=%a, b=%b }
    ret %s
}
fn @main() -> i64 {
bb0:
    call_void @println { text=const.Str "before" }
    %x: i32 = call @sum { a=const.i32 2147483647, b=const.i32 1 }
    call_void @println { text=const.Str "after" }
    ret const.i64 0
}
"""


def test_a_panic_shows_the_place_the_operation_its_operands_and_the_callers():
    ran = run(TEXT)
    assert ran.status == 101 and ran.out == "before\n"
    assert ran.err == (
        "t.mp:5: panic: i.add overflows i32\n"
        "    %s: i32 = i.add { lhs=%a, rhs=%b }\n"
        "    %a = 2147483647\n"
        "    %b = 1\n"
        "  in @sum, t.mp:5\n"
        "  in @main, t.mp:11\n"
    )


def test_what_was_written_goes_out_before_the_panic(tmp_path):
    path = tmp_path / "both"
    with path.open("wb") as both:
        source = tmp_path / "t.mp"
        source.write_text(HEAD + TEXT)
        done = subprocess.run([sys.executable, "-c", RUN, str(source)], stdout=both, stderr=both)
    lines = path.read_text().splitlines()
    assert done.returncode == 101 and lines[0] == "before" and f"{source}:5: panic" in lines[1]


def test_values_are_shown_by_their_types():
    text = """value struct TPair {
    field name: Str
    field x: f32
}
fn @f(%x: f32, %s: Str, %o: TOption<i64>, %p: TPair) -> i64 {
bb0:
    %a: i64 = call @g { x=%x, s=%s, o=%o, p=%p, n=const.i64 1 }
    ret %a
}
fn @g(%x: f32, %s: Str, %o: TOption<i64>, %p: TPair, %n: i64) -> i64 {
bb0:
    %v: i64 = enum.payload<Some> { v=%o }
    ret %v
}
"""
    from magpie.host.text import display
    from magpie.host.values import ArrayValue, EnumValue, StructValue
    from magpie.mpir.types import Ty

    none = EnumValue(Ty("TOption", (Ty("i64"),)), "None", 1)
    pair = StructValue(Ty("TPair"), {"name": "a\n" * 60, "x": 0.10000000149011612})
    ready = program(text)
    with pytest.raises(Panic) as caught:
        ready.call("f", (0.10000000149011612, "x", none, pair))
    assert caught.value.values == [("o", "None")]
    assert [name for name, _ in caught.value.trace] == ["g", "f"]
    assert display(0.10000000149011612, Ty("f32"), ready.module) == "0.1"
    assert display(pair, None, ready.module) == 'TPair { name="' + "a\\n" * 40 + '"..., x=0.1 }'
    some = EnumValue(Ty("TOption", (Ty("TPair"),)), "Some", 0, (StructValue(Ty("TPair"), {"name": "", "x": 0.5}),))
    assert display(some, None, ready.module) == 'Some(TPair { name="", x=0.5 })'
    items = ArrayValue(Ty("f32"), [0.10000000149011612] * 10)
    assert display(items, None, ready.module) == "[" + "0.1, " * 8 + "... 10 in all]"


def test_a_fault_of_a_terminator_and_of_a_phi_has_its_line():
    with pytest.raises(Panic) as caught:
        call("fn @f() -> i64 {\nbb0:\n    br bb1\nbb1:\n    unreachable\n}\n")
    assert str(caught.value).startswith("t.mp:7: panic: ") and "unreachable" in str(caught.value)


def test_a_panic_in_a_callback_shows_both_functions():
    text = """sig TOne(i64) -> i64
fn @bad(%x: i64) -> i64 {
bb0:
    %y: i64 = i.sdiv { a=const.i64 1, b=%x }
    ret %y
}
fn @f() -> Array<i64> {
bb0:
    %a: Array<i64> = arr.new { v0=const.i64 1, v1=const.i64 0 }
    %bad: TCallable<TOne> = callable.capture @bad {}
    %b: Array<i64> = arr.map { arr=%a, fn=%bad }
    ret %b
}
"""
    with pytest.raises(Panic, match="i.sdiv divides by zero") as caught:
        call(text)
    assert [(n, loc.line) for n, loc in caught.value.trace] == [("bad", 6), ("f", 13)]


def test_a_panic_in_a_hash_shows_all_functions():
    text = """value struct TKey {
    field n: i64
}
impl hash for TKey = @hash
impl eq for TKey = @eq
fn @hash(%a: borrow TKey) -> u64 {
bb0:
    unreachable
}
fn @eq(%a: borrow TKey, %b: borrow TKey) -> bool {
bb0:
    ret const.bool true
}
fn @f() -> bool {
bb0:
    %m: Map<TKey, i64> = map.new
    %k: TKey = new TKey { n=const.i64 1 }
    %r: bool = map.contains { map=%m, key=%k }
    ret %r
}
"""
    with pytest.raises(Panic, match="unreachable") as caught:
        call(text)
    assert [(n, loc.line) for n, loc in caught.value.trace] == [("hash", 10), ("f", 20)]


# --- standard streams ------------------------------------------------------------------------------------------------
ECHO = """imports { std.io::{@println, @read_line}, std.env::{@args, @var} }
fn @main() -> i64 {
bb0:
    %args: Array<Str> = call @args {}
    %line: Str = str.join { parts=%args, sep="," }
    call_void @println { text=%line }
    br bb1
bb1:
    %next: TOption<Str> = call @read_line {}
    %some: bool = enum.is<Some> { v=%next }
    cbr %some bb2 bb3
bb2:
    %s: Str = enum.payload<Some> { v=%next }
    call_void @println { text=%s }
    br bb1
bb3:
    ret const.i64 3
}
"""


def test_arguments_and_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("one\r\ntwo é\n\nlast".encode())))
    ran = run(ECHO, ("a", "b c"), head="module t\n")
    assert ran.out == "a,b c\none\ntwo é\n\nlast\n" and ran.status == 3


def test_arguments_that_are_not_utf8(tmp_path):
    text = function(
        "",
        "i64",
        """    %a: Array<Str> = std.env.@args {}
    %s: Str = arr.get { arr=%a, idx=const.i64 0 }
    call_void @println { text=%s }
    %n: i64 = str.len { s=%s }
    ret %n""",
        "main",
    )
    done = process(tmp_path, text, b"a\xff", before="PYTHONIOENCODING=utf-8:strict RUN")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (4, "a\ufffd\n", b"")


def test_a_reader_that_goes_away_ends_the_program_quietly(tmp_path):
    text = """fn @main() -> i64 {
bb0:
    br bb1
bb1:
    call_void @println { text=const.Str "and so on, for ever" }
    br bb1
}
"""
    done = process(tmp_path, text, before="RUN | head -n 2; exit ${PIPESTATUS[0]}")
    assert done.returncode == 141 and done.stdout == b"and so on, for ever\n" * 2 and done.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize(
    ("to", "said"), [(">/dev/full", b"error: <stdout>: No space left on device\n"), ("2>/dev/full", b"")]
)
def test_output_that_is_full_ends_the_program_with_an_error(tmp_path, to, said):
    lines = '    call_void @println { text=const.Str "a" }\n    call_void @eprintln { text=const.Str "b" }\n    ret const.i64 3'
    for text in (function("", "i64", lines, "main"), TEXT):
        done = process(tmp_path, text, before=f"RUN {to}")
        assert done.returncode == 1 and done.stderr == said


def test_ctrl_c_ends_a_process_cleanly(tmp_path):
    import signal
    import time

    path = tmp_path / "t.mp"
    path.write_text(HEAD + 'fn @main() -> i64 {\nbb0:\n    call_void @println { text="on" }\n    br bb1\nbb1:\n    br bb1\n}\n')
    with subprocess.Popen([sys.executable, "-uc", RUN, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        assert p.stdout is not None and p.stderr is not None
        assert p.stdout.readline() == b"on\n"
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        assert p.wait(20) == 130 and p.stderr.read() == b"interrupted\n"


def test_output_is_utf8_in_any_locale(tmp_path):
    text = 'fn @main() -> i64 {\nbb0:\n    call_void @println { text=const.Str "é\\u{1f426}" }\n    ret const.i64 0\n}\n'
    done = process(tmp_path, text, before="PYTHONUTF8=0 PYTHONIOENCODING=ascii RUN")
    assert done.returncode == 0 and done.stdout.decode() == "é\U0001f426\n"


def test_a_closed_output_is_no_fault(tmp_path):
    text = 'fn @main() -> i64 {\nbb0:\n    call_void @println { text=const.Str "x" }\n    ret const.i64 4\n}\n'
    assert process(tmp_path, text, before="RUN >&-").returncode == 4


FILES = """imports { std.io::{@read_file, @write_file} }
fn @write(%path: Str, %text: Str) -> TResult<unit, TIoError> {
bb0:
    %r: TResult<unit, TIoError> = call @write_file { path=%path, text=%text }
    ret %r
}
fn @read(%path: Str) -> TResult<Str, TIoError> {
bb0:
    %r: TResult<Str, TIoError> = call @read_file { path=%path }
    ret %r
}
"""


def test_files(tmp_path):
    ready = program(FILES, "module t\n")
    path = str(tmp_path / "é.txt")
    assert ready.call("write", (path, "a\r\né\n")).variant == "Ok"
    assert (tmp_path / "é.txt").read_bytes() == "a\r\né\n".encode()
    assert ready.call("read", (path,)).fields == ("a\r\né\n",)
    (tmp_path / "bad").write_bytes(b"ab\xff")
    for bad in (str(tmp_path / "none"), str(tmp_path), str(tmp_path / "bad"), "a\0b", str(tmp_path / "no" / "x")):
        for name, arguments in (("read", (bad,)), ("write", (bad, ""))):
            if name == "write" and bad.endswith(("bad", "none")):
                continue
            found = ready.call(name, arguments)
            assert found.variant == "Err" and found.fields[0].fields["path"] == bad
            assert found.fields[0].fields["message"].startswith(f"{bad}: ")


def test_the_environment_and_the_clock(monkeypatch):
    monkeypatch.setenv("MP_TEST", "value")
    text = """imports { std.env::{@var}, std.time::{@now_ns} }
fn @f(%name: Str) -> TOption<Str> {
bb0:
    %r: TOption<Str> = call @var { name=%name }
    ret %r
}
fn @later() -> u64 {
bb0:
    %a: u64 = call @now_ns {}
    %b: u64 = call @now_ns {}
    %d: u64 = i.sub { a=%b, b=%a }
    ret %d
}
"""
    ready = program(text, "module t\n")
    assert ready.call("f", ("MP_TEST",)).fields == ("value",)
    assert all(ready.call("f", (name,)).variant == "None" for name in ("MP_NONE", "", "A=B", "a\0"))
    assert ready.call("later") < 10**9


def test_the_rest_of_std_math():
    import math

    names = {"abs": 1, "min": 2, "max": 2, "fma": 3, "sqrt": 1, "atan2": 2, "is_nan": 1, "exp": 1}
    keys = {1: ("x",), 2: ("a", "b"), 3: ("a", "b", "c")}
    text = ""
    for name, count in names.items():
        own = ("y", "x") if name == "atan2" else keys[count]
        result = "bool" if name == "is_nan" else "f64"
        params = ", ".join(f"%{k}: f64" for k in own)
        given = ", ".join(f"{k}=%{k}" for k in own)
        text += function(params, result, f"    %r: {result} = call std.math.@{name} {{ {given} }}\n    ret %r", name)
    text += function("%x: i8", "i8", "    %r: i8 = call std.math.@abs { x=%x }\n    ret %r", "iabs")
    text += function("%x: f32", "f32", "    %r: f32 = call std.math.@sqrt { x=%x }\n    ret %r", "root")
    ready = program(text, "module t\nimports { std.math }\n")
    assert ready.call("abs", (-2.5,)) == 2.5 and ready.call("sqrt", (2.0,)) == math.sqrt(2)
    assert math.isnan(ready.call("sqrt", (-1.0,))) and ready.call("atan2", (1.0, -1.0)) == math.atan2(1, -1)
    assert ready.call("min", (math.nan, 3.0)) == 3.0 and math.copysign(1, ready.call("max", (-0.0, 0.0))) == 1
    assert ready.call("fma", (1 + 2**-30, 1 - 2**-30, -1.0)) == -(2.0**-60)
    assert ready.call("is_nan", (math.nan,)) is True and ready.call("exp", (0.0,)) == 1.0
    assert ready.call("iabs", (-127,)) == 127 and ready.call("root", (2.0,)) == 1.4142135381698608
    with pytest.raises(Panic, match="overflows i8"):
        ready.call("iabs", (-128,))


def test_what_the_host_has_not_panics_where_it_is_called():
    text = function("", "u32", "    %r: u32 = gpu.thread_id { dim=const.u32 0 }\n    ret %r")
    with pytest.raises(Panic, match=r"host programs have no gpu\.thread_id"):
        call(text)
