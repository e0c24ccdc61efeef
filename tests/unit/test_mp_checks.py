"""What is refused of `.mp` files: kernels, host programs and declarations, with the codes and the lines."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

import magpie as mp
from magpie.diagnostics import lookup
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.runtime.modules import check_module

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "mp"
SPEC = Path(__file__).parent / "mp"

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def load(tmp_path):
    """Loads a text as a module."""

    def load(text):
        path = tmp_path / "t.mp"
        path.write_text("module t\n" + text)
        return mp.load_module(path)

    return load


def kernel(params, body, head="target(spv)"):
    return f"gpu fn @k({params}) -> unit {head} {{\nbb0:\n{body}\n}}\n"


def errors(text):
    """(code, line) of each error."""
    return [(d.code, d.loc.line) for d in check_source(Source(text, "t.mp")).diagnostics if d.is_error]


LINES = [
    ("%x: float32 = const.f32 1.0", "MPT0001"),
    ("%x: f32 = cast<i32, float> { v=%a }", "MPT0001"),
    ("%x: gpu.TBufer<f32> = gpu.buffer_len<f32> { buf=%p }", "MPT0001"),
    ("%x: f32<i32> = const.f32 1.0", "MPT0002"),
    ("%x: gpu.TBuffer = const.i32 1", "MPT0002"),
    ("%x: i32 = @limit", "MPT0003"),
    ("%x: i32 = call @id { args=[%a, %a] }", "MPT0004"),
    ("%x: i32 = call @id { args=[] }", "MPT0004"),
    ("%x: i32 = call @same { n=%a }", None),
    ("%x: f32 = f.add { a=%f, b=%a }", "MPS0004"),
    ("%x: f32 = f.add { a=%a, b=%a }", "MPS0004"),
    ("%x: f32 = const.f64 1.0", "MPS0004"),
    ("%x: i64 = i.add { a=%a, b=%a }", "MPS0004"),
    ("%x: i32 = call @id { n=%f }", "MPS0004"),
    ("%x: f64 = gpu.buffer_load<f64> { buf=%p, idx=%a }", "MPS0004"),
    ("gpu.buffer_store<f32> { buf=%p, idx=%a, v=%a }", "MPS0004"),
    ("%x: f32 = f.add { a=%f, c=%f }", "MPS0001"),
    ("%x: f32 = f.add { a=%f, lhs=%f }", "MPS0001"),
    ("%x: f32 = f.add { a=%f }", "MPS0001"),
    ("%x: u32 = gpu.global_id { dim=const.u32 3 }", "MPS0001"),
    ("%x: i32 = call @id { m=%a }", "MPS0001"),
    ("%x: f32 = f.add { a=%g, b=%f }", "MPS0002"),
    ("%a: f32 = const.f32 1.0", "MPS0003"),
    ("%x: f32 = f.plus { a=%f, b=%f }", "MPS0007"),
    ("%x: i32 = call @ident { n=%a }", "MPS0007"),
    ("%x: i32 = call @k { n=%a }", "MPS0007"),
    ("%x: TBox = new TBox { v=%a }", "MPG_CORE_1100"),
    ("%x: i32 = call @puts { n=%a }", "MPG_CORE_1405"),
    ("%x: gpu.TDevice = gpu.host.@device_default {}", "MPG_CORE_1405"),
    ("%x: i32 = try @id { n=%a }", "MPG_CORE_1405"),
    ('call_void @println { text=const.Str "a" }', "MPG_CORE_1405"),
    ("%x: i32 = call @same_of<i32, i32> { n=%a }", "MPT0002"),
    ("%x: Array<f32> = arr.new {}", "MPG_CORE_1100"),
    ("%x: TCallable<TSig> = callable.capture @id {}", "MPG_CORE_1100"),
    ('%x: Str = const.Str "a"', "MPG_CORE_1104"),
    ("%x: i128 = const.i128 1", "MPG_CORE_1404"),
    ("%x: f32 = ptr.load<f32> { p=%q }", "MPT0009"),
    ("unsafe { %x: f32 = ptr.load<f32> { p=%f } }", "MPS0004"),
    ("unsafe { %x: f32 = ptr.load<bool> { p=%f } }", "MPS0004"),
    ("%x: rawptr<f32> = gpu.malloc<f32> { count=%a }", "MPG_CORE_1201"),
    ("gpu.grid_barrier", "MPS0007"),
]
REST = """
fn @id(%n: i32) -> i32 {
bb0:
    ret %n
}
fn @same(%n: i32) -> i32 {
bb0:
    ret %n
}
fn @same_of<T: type>(%n: T) -> T {
bb0:
    ret %n
}
heap struct TBox {
    field v: i32
}
sig TSig(i32) -> i32
extern "c" module libc {
    fn @puts(%n: i32) -> i32
}
"""


@pytest.mark.parametrize(("line", "code"), LINES)
def test_errors_stand_at_their_line(line, code):
    found = errors(
        "module t imports { std.io::{@println} }\ngpu fn @k(%a: i32, %f: f32, %p: gpu.TBuffer<f32>) -> unit "
        f"target(spv) {{\nbb0:\n    {line}\n    ret\n}}\n{REST}"
    )
    if code is None:
        assert found == []
    elif code == "MPS0003":
        assert (code, 4) in found
    else:
        assert found and {f for f in found if f[1] == 4} == {(code, 4)}, found
        assert [f for f in found if f[1] != 4] == []


def test_helps_name_what_is_near_and_what_is_wanted():
    def text(line):
        source = f"module t\nfn @id(%n: i32) -> i32 {{\nbb0:\n    ret %n\n}}\n{kernel('%a: i32', line)}"
        return "\n".join(map(str, check_source(Source(source, "t.mp")).diagnostics))

    assert "did you mean f32?" in text("    %x: f23 = const.f32 1.0\n    ret")
    assert "it takes (%n: i32)" in text("    %x: i32 = call @id { args=[] }\n    ret")


def test_cases_phis_and_declarations():
    body = "    switch %n {\n        case const.i64 1 -> bb1\n        case 2 -> bb1\n    } else bb1\nbb1:\n    ret"
    assert errors("module t\n" + kernel("%n: i32", body)) == [("MPT0005", 5)]
    body = "    br bb1\nbb1:\n    %y: i32 = i.add { a=%n, b=%n }\n    %x: i32 = phi { [bb0: %n] }\n    ret"
    assert errors("module t\n" + kernel("%n: i32", body)) == [("MPT0006", 7)]
    twice = "fn @f() -> unit {\nbb0:\n    ret\n}\n"
    assert errors("module t\n" + twice + twice) == [("MPT0007", 6)]
    assert errors("module t\nglobal @f: i32 = const.i32 1\n" + twice) == [("MPT0007", 3)]
    assert errors("module t\nsig TA(i32) -> unit\nvalue struct TA {\n    field x: i32\n}\n") == [("MPT0007", 3)]
    assert errors("module t\ngpu fn @g<T: type>(%n: T) -> unit target(spv) {\nbb0:\n    ret\n}\n") == [("MPT0008", 2)]
    assert errors("module t\nexports { @f, @g }\n" + twice) == [("MPT0003", 2)]
    assert errors("module t\nexports { @f, i64, gpu.TError, f }\n" + twice) == [("MPT0003", 2)] * 3
    assert errors("module t\nexports { @f, TE }\nenum TE { A }\n" + twice) == []
    assert errors("module t\nvalue struct TA {\n    field x: TB\n    field y: Map<i32>\n}\n") == [
        ("MPT0001", 3),
        ("MPT0002", 4),
    ]


def test_rules_of_kernels():
    def head(text, params="%n: i32"):
        return errors("module t\n" + kernel(params, "    ret", text))

    assert head("target(spv) workgroup(0, 1, 1)") == [("MPG_CORE_1302", 2)]
    assert head("target(spv) workgroup(64, 32, 1)") == [("MPG_CORE_1302", 2)]
    assert head("target(spirit)") == [("MPG_CORE_1300", 2)]
    for type_, code in {
        "Str": "MPG_CORE_1104",
        "Array<f32>": "MPG_CORE_1105",
        "Map<i32, f32>": "MPG_CORE_1106",
        "TCallable<TSig>": "MPG_CORE_1107",
    }.items():
        found = errors("module t\n" + kernel(f"%n: {type_}", "    ret") + "sig TSig(i32) -> i32\n")
        assert found == [(code, 2)]
    unsafe = "unsafe gpu fn @k(%n: i32) -> unit target(wgsl) requires(device_maloc) {\nbb0:\n    ret\n}\n"
    assert errors("module t\n" + unsafe) == [("MPG_WGSL_1004", 2), ("MPG_CORE_1200", 2)]


def test_recursion_and_faults_of_called_functions_stand_in_those():
    text = "module t\n" + kernel("%n: i32", "    %x: i32 = call @f { n=%n }\n    ret")
    loop = "fn @f(%n: i32) -> i32 {\nbb0:\n    %x: i32 = call @f { n=%n }\n    ret %x\n}\n"
    assert errors(text + loop) == [("MPG_CORE_1103", 9)]
    chain = "".join(
        f"fn @f{k}(%n: i32) -> i32 {{\nbb0:\n    %x: i32 = call @f{k + 1} {{ n=%n }}\n    ret %x\n}}\n"
        for k in range(80)
    )
    chain += "fn @f80(%n: i32) -> i32 {\nbb0:\n    ret %n\n}\n"
    assert {code for code, _ in errors(text.replace("@f", "@f0") + chain)} == {"MPG_CORE_1409"}
    heap = 'fn @f(%n: i32) -> i32 {\nbb0:\n    %s: Str = const.Str "a"\n    ret %n\n}\n'
    assert errors(text + heap) == [("MPG_CORE_1104", 9)]


def test_memory_is_of_its_element_type_and_known_where_it_is_used():
    shared = "    %s: ptr = gpu.shared<8, i32>\n    %x: f32 = gpu.buffer_load<f32> { buf=%s, idx=const.u32 0 }\n    ret"
    assert errors("module t\n" + kernel("%n: u32", shared)) == [("MPS0004", 5)]
    two = (
        "    %s: ptr = gpu.shared<8, i32>\n    %r: ptr = gpu.shared<8, i32>\n    cbr %c bb1 bb2\nbb1:\n    br bb2\nbb2:\n"
        "    %p: ptr = phi { [bb0: %s], [bb1: %r] }\n    ret"
    )
    assert errors("module t\n" + kernel("%c: bool", two)) == [("MPG_CORE_1405", 10)]


def test_check_applies_the_rules_of_the_declared_target():
    def check(text):
        return {(d.code, d.loc.line) for d in check_module(Source("module t\n" + text, "t.mp"))}

    divergent = (
        "    %i: u32 = gpu.thread_id { dim=const.u32 0 }\n    %c: bool = icmp.eq { a=%i, b=%n }\n    cbr %c bb1 bb2\n"
        "bb1:\n    gpu.barrier\n    br bb2\nbb2:\n    ret"
    )
    for target in ("spv", "ptx", "hip", "msl", "wgsl", "cpu", "interp"):
        assert check(kernel("%n: u32", divergent, f"target({target})")) == {("MPG_CORE_1400", 6)}, "at the branch"
    needs = kernel("%n: u32", "    ret", "target(ptx) requires(device_malloc)")
    assert check(f"unsafe {needs}") == {("MPG_CORE_1202", 2)}
    assert check(kernel("%n: u32", "    ret")) == set()


def test_errors_of_several_functions_in_one_run():
    text = "module t\n"
    for k in range(3):
        text += (
            f"gpu fn @k{k}(%n: i32) -> unit target(spv) {{\nbb0:\n    %x: f32 = f.add {{ a=%n, b=%n }}\n    ret\n}}\n"
        )
    text += kernel("%n: i32", "    %x: foo = const.i32 1\n    ret")
    assert errors(text) == [("MPS0004", 4), ("MPS0004", 9), ("MPS0004", 14), ("MPT0001", 19)]


def test_load_module_raises_all_errors_and_warns_of_a_digest(tmp_path, load):
    with pytest.raises(mp.CompileError) as error:
        load(kernel("%n: i32", "    %x: f32 = const.i32 1\n    %y: f32 = @z\n    ret"))
    assert [d.code for d in error.value.diagnostics] == ["MPT0003"] or len(error.value.diagnostics) == 2
    with pytest.raises(mp.CompileError, match="MPP0005"):
        load("gpu k")
    with pytest.raises(FileNotFoundError):
        mp.load_module(tmp_path / "none.mp")
    with pytest.warns(mp.CompileWarning, match="MPL0001"):
        load(f'digest "{"1" * 64}"\n' + kernel("%n: i32", "    ret"))


# --- host programs ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mp")), ids=lambda p: p.stem)
def test_programs_that_are_right_have_no_errors(path):
    assert errors(path.read_text()) == []


def test_programs_of_the_specification_that_leave_parts_out():
    wanted = {1: [("MPS0002", 29)] * 3, 9: [("MPS0006", 22), ("MPS0002", 50)]}
    wanted |= {k: [("MPT0003", 2)] for k in (6, 7, 8)}  # they export a @main that is not there
    for k in range(1, 11):
        assert errors((SPEC / f"spec_17_{k:02}.mp").read_text()) == wanted.get(k, []), k


HOST = [
    ("%x: i32 = i.add { a=%a, b=%a }", None),
    ("%x: i32 = i.add { a=%a, b=%b }", "MPS0004"),
    ("%x: i64 = i.add { a=%a, b=%a }", "MPS0004"),
    ("%x: i32 = i.add { a=%a, c=%a }", "MPS0001"),
    ("%x: i32 = i.plus { a=%a, b=%a }", "MPS0007"),
    ("%x: i32 = i.add { a=%a, b=%z }", "MPS0002"),
    ("%x: i64 = arr.len { arr=%z }", "MPS0002"),
    ("call_void @println { text=%z }", "MPS0002"),
    ('call_void @println { text=const.Str "a" }', None),
    ("%x: i32 = call @other { n=%a }", None),
    ("%x: i32 = call @other { n=%b }", "MPS0004"),
    ("%x: i64 = call @other { n=%a }", "MPS0004"),
    ("%x: i32 = call @other { m=%a }", "MPS0001"),
    ("%x: i32 = call @other { args=[%a, %a] }", "MPT0004"),
    ("%x: i32 = call @othr { n=%a }", "MPS0007"),
    ("call_void @k { x=%d, n=%a }", "MPS0007"),
    ("%x: i32 = try @result { n=%a }", "MPT0015"),
    ("%x: i32 = try %z", "MPS0002"),
    ("%a: i32 = const.i32 1", "MPS0003"),
    ("%x: i32 = @limit", "MPS0004"),
    ("%x: i64 = @limit", None),
    ("%x: i64 = @lim", "MPT0003"),
    ("%x: f32 = const.f64 1.0", "MPS0004"),
    ("%x: TPoint = new TPoint { x=%a }", None),
    ("%x: TPoint = new TPoint { y=%a }", "MPS0001"),
    ("%x: TPoint = new TPoint { x=%b }", "MPS0004"),
    ("%x: TUnknown = arr.get { arr=%a }", "MPT0001"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%d, %a] }", None),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u], block=[%u, %u, %u], args=[%d, %a] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%d] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%a, %d] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%d, const.i64 1] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@other, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%a] }", "MPT0010"),
    ("ptr.store<i32> { p=%q, v=%a }", "MPT0009"),
    ("unsafe { ptr.store<i32> { p=%q, v=%a } }", None),
    ("unsafe { ptr.store<i32> { p=%q, v=%b } }", "MPS0004"),
]
HOST_REST = """
fn @other(%n: i32) -> i32 {
bb0:
    ret %n
}
fn @result(%n: i32) -> TResult<i32, Str> {
bb0:
    %r: TResult<i32, Str> = enum.new<Ok> { v=%n }
    ret %r
}
heap struct TPoint {
    field x: i32
}
global @limit: i64 = const.i64 9
gpu fn @k(%x: gpu.TBuffer<f32>, %n: i32) -> unit target(spv) {
bb0:
    ret
}
"""


@pytest.mark.parametrize(("line", "code"), HOST)
def test_errors_of_hosts_stand_at_their_line(line, code):
    text = "module t imports { std.io::{@println} }\nfn @f(%a: i32, %b: i64, %d: gpu.TBuffer<f32>, "
    text += "%u: u32, %q: rawptr<i32>, %dev: gpu.TDevice) "
    found = errors(f"{text}-> unit {{\nbb0:\n    {line}\n    ret\n}}\n{HOST_REST}")
    assert set(found) == ({(code, 4)} if code else set())


def test_results_and_phis_of_hosts():
    def text(phi, end="%x"):
        return (
            "module t\nfn @f(%r: TResult<i32, Str>, %c: bool) -> Str {\nbb0:\n    %v: i32 = try %r bb_fail\n"
            f"    cbr %c bb1 bb_fail\nbb1:\n    br bb1\nbb_fail:\n    %x: Str = {phi}\n    ret {end}\n}}\n"
        )

    assert errors(text("phi { [bb0: %r.err] }")) == []
    assert errors(text("phi { [bb0: %v] }")) == [("MPS0002", 9)]  # not there where the `try` found an error
    assert errors(text("phi { [bb1: %r.err] }")) == [("MPS0006", 9)]
    assert errors(text("phi { [bb0: %c.err] }")) == [("MPS0004", 9)]
    assert errors(text("phi { [bb0: %r.err] }", "%v")) == [("MPS0002", 10)]
    assert errors(text("phi { [bb0: %r.err] }", "%c")) == [("MPS0004", 10)]
    assert errors(text("phi i32 { [bb0: %r.err] }")) == [("MPS0004", 9)]


def test_changed_programs_never_break_the_checks():
    """Words of programs in each other's places: most still parse, few are right, and all get an answer."""
    corpus = [p.read_text() for p in [*sorted(EXAMPLES.glob("*.mp")), *sorted(SPEC.glob("*.mp"))]]
    pieces = re.compile(r"[%@]?[\w.]+|\s+|.")
    rng = random.Random(11)
    codes: set[str] = set()
    for _ in range(300):
        words = pieces.findall(rng.choice(corpus))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(words))
            kind = words[at][0] if words[at][0] in "%@" else words[at][:2]
            words[at] = rng.choice([w for w in words if w.startswith(kind)])
        found = check_source(Source("".join(words), "t.mp")).diagnostics
        codes |= {d.code[:3] for d in found}
        assert all(d.loc is not None and d.loc.line >= 1 for d in found)
    assert {"MPP", "MPS", "MPT"} <= codes


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("enum TE {\n    A\n    B\n    A\n}\n", "MPS0003", 5),
        ("enum TE {\n    A {\n        field x: i64\n        field x: i64\n    }\n}\n", "MPS0003", 5),
        ("fn @f<T: type, T: type>(%x: T) -> unit {\nbb0:\n    ret\n}\n", "MPS0003", 2),
        ("value struct TP<T: type, T: type> {\n    field x: T\n}\n", "MPS0003", 2),
        ("enum TP<A: type, A: type> {\n    Some\n}\n", "MPS0003", 2),
        ("value struct TOption {\n    field x: i64\n}\n", "MPT0007", 2),
        ("heap struct Str {\n    field x: i64\n}\n", "MPT0007", 2),
        ("value struct i64 {\n    field x: i32\n}\n", "MPT0007", 2),
        ("enum gpu.ErrorKind {\n    Fine\n}\n", "MPT0007", 2),
        ("sig gpu.TError() -> unit\n", "MPT0007", 2),
        ("fn @f<i64: type>(%x: i64) -> unit {\nbb0:\n    ret\n}\n", "MPT0007", 2),
        ("enum TE<TE: type> {\n    A\n}\n", "MPT0007", 2),
        ("fn @f<T: int>(%x: T) -> unit {\nbb0:\n    ret\n}\n", "MPT0001", 2),
        ("fn std.io.@print(%text: Str) -> unit {\nbb0:\n    ret\n}\n", "MPP0005", 2),
        ("global other.@g: i64 = const.i64 1\n", "MPP0005", 2),
    ],
)
def test_declarations_and_their_parts_have_names_of_their_own(text, code, line):
    assert errors("module t\n" + text) == [(code, line)]


def test_value_structs_have_an_end_and_fields_of_their_own():
    def fields(kind, *lines):
        return f"{kind} struct TA {{\n" + "".join(f"    field {line}\n" for line in lines) + "}\n"

    assert errors("module t\n" + fields("value", "x: f32", "x: f32")) == [("MPS0003", 4)]
    assert errors("module t\n" + fields("value", "x: TA")) == [("MPT0011", 2)]
    assert errors("module t\n" + fields("heap", "x: TA")) == []
    wide = fields("value", *(f"x{k}: f32" for k in range(4096)))
    assert errors("module t\n" + wide) == []
    assert errors("module t\n" + wide + "value struct TB {\n    field x: TA\n    field y: f32\n}\n") == [
        ("MPT0011", 4100)
    ]
    for count, twice in ((64, False), (65, False), (3000, False), (40, True)):
        text = "module t\n" + kernel("%s: TA0", "    ret")
        for k in range(count):
            inner = f"TA{k + 1}" if k < count - 1 else "i32"
            text += f"value struct TA{k} {{\n    field x: {inner}\n" + f"    field y: {inner}\n" * twice + "}\n"
        assert {code for code, _ in errors(text)} == ({"MPT0011"} if count != 64 else set())


def test_long_modules_are_checked_in_time():
    """10,000 lines in under 3 seconds of the processor, right or wrong in every line."""
    text = (EXAMPLES / "reduce_sum.mp").read_text()
    one = text[text.index("gpu fn") : text.index("\n}\n") + 3]
    many = "module t\n" + "".join(one.replace("@reduce_sum", f"@k{k}") for k in range(10_000 // one.count("\n") + 1))
    wrong = "module t\n" + kernel(
        "%n: i32", "".join(f"    %v{k}: i32 = i.add {{ a=%w{k}, b=%n }}\n" for k in range(9990)) + "    ret"
    )
    host = wrong.replace("gpu fn", "fn").replace(" target(spv)", "")
    for source, count in ((many, 0), (wrong, 20), (host, 20)):
        assert source.count("\n") > 9990
        start = time.process_time()
        found = errors(source)
        assert time.process_time() - start < 3
        assert len(found) == count


def test_every_code_of_names_and_types_shows_what_is_wrong_and_right():
    from magpie.diagnostics import table

    assert all("wrong:" in lookup(code).text for code in table() if code.startswith("MPT"))


def test_memory_holds_no_structs_without_numbers():
    head = "module t\nvalue struct TA {\n}\nvalue struct TB {\n    field a: TA\n    field b: TA\n}\n"
    for params, body, line in [
        ("%b: gpu.TBuffer<TA>", "    ret", 8),
        ("%b: gpu.TBuffer<TB>", "    ret", 8),
        ("", "    %s: ptr = gpu.shared<4, TB>\n    ret", 10),
        ("", "    %s: ptr = gpu.local<4, TA>\n    ret", 10),
    ]:
        found = errors(head + kernel(params, body))
        assert ("MPG_CORE_1404", line) in found and {code for code, _ in found} == {"MPG_CORE_1404"}
    assert errors(head + kernel("%a: TB", "    %e: TA = new TA {}\n    ret")) == []


@pytest.mark.parametrize(
    ("type_", "cases", "helped"),
    [
        ("bool", "case true -> bb1 case const.bool false -> bb1", "branch on it with cbr"),
        ("TE", "case 0 -> bb1", "switch on what enum.tag gives"),
        ("Str", 'case "a" -> bb1', None),
        ("f32", "", None),
    ],
)
def test_a_switch_is_of_an_integer(type_, cases, helped):
    text = f"enum TE {{ A B }} fn @f(%x: {type_}) -> unit {{ bb0: switch %x {{ {cases} }} else bb1 bb1: ret }}"
    (found,) = check_source(Source(f"module t\n{text}", "t.mp")).diagnostics
    assert (found.code, found.help) == ("MPS0004", helped) and f"an integer, not {type_}" in found.message


def test_a_kernel_may_be_called_main_and_no_host_program_calls_kernels():
    body = "    %g: u32 = gpu.global_id { dim=const.u32 0 }\n    ret"
    assert errors("module t\n" + kernel("%n: i32", body).replace("@k(", "@main(")) == []
    host = "fn @main() -> unit {\nbb0:\n    call_void @k { n=const.i32 1 }\n    ret\n}\n"
    assert errors("module t\n" + host + kernel("%n: i32", body)) == [("MPS0007", 4)]
