"""Errors in `.mp` text: each at its place, with its code, and several in one run."""

from __future__ import annotations

import time

import pytest

from magpie.diagnostics import CompileError, lookup, render
from magpie.frontend.mp import MAX_BYTES, Source, decode, parse

HEAD = "module t\n"


def errors(text):
    found = parse(Source(text, "t.mp"))
    assert found.module is None
    return found.diagnostics


def in_body(line):
    """The errors of a function whose first block begins with ``line``, which is line 4, from column 0."""
    return errors(HEAD + "fn @f(%a: i32) -> i32 {\nbb0:\n" + line + "\n    ret %a\n}\n")


CASES = [
    ("%x = f.neg { v=%a }", "MPP0005", 0, "%x: i32 = ..."),
    ("%x: = f.neg { v=%a }", "MPP0005", 4, "expected a type, found `=`"),
    ("%x: i32 = f.add { a=%a b=%a }", "MPP0005", 23, "expected `,` or `}`, found `b`"),
    ("%x: i32 = f.add { a=a, }", None, 0, ""),
    ("%x: i32 = f.add { a=%a, b=1 }", "MPP0011", 26, "const.i32 1"),
    ("%x: i32 = f.add { a=%a, b=-1.5 }", "MPP0011", 26, "const.f32 -1.5"),
    ("%x: bool = b.not { v=true }", "MPP0011", 21, "const.bool true"),
    ("%x: i32 = f.add { a=%a, a=%a }", "MPP0010", 24, "argument a is given twice"),
    ("%x: i32 = const.i32", "MPP0005", 4, "found `ret`"),
    ("%x: u8 = const.u8 256", "MPP0007", 18, "u8 holds 0 to 255"),
    ("%x: u8 = const.u8 -1", "MPP0007", 18, "u8 holds 0 to 255"),
    ("%x: i1 = const.i1 2", "MPP0007", 18, "i1 holds -1 to 1"),
    ("%x: i128 = const.i128 170141183460469231731687303715884105728", "MPP0007", 22, "out of range"),
    ("%x: i32 = const.i32 1.5", "MPP0007", 20, "1.5 is not a literal of i32"),
    ("%x: bool = const.bool 1", "MPP0007", 22, "not a literal of bool"),
    ('%x: i32 = const.i32 "s"', "MPP0007", 20, "not a literal of i32"),
    ("%x: Str = const.Str 1", "MPP0007", 20, "not a literal of Str"),
    ("%x: f16 = const.f16 65520.0", "MPP0007", 20, "the largest f16 is 65504"),
    ("%x: f32 = const.f32 3.5e38", "MPP0007", 20, "the largest f32"),
    ("%x: bf16 = const.bf16 3.4e38", "MPP0007", 22, "the largest bf16"),
    ("%x: f64 = const.f64 1e309", "MPP0007", 20, "out of range of f64"),
    ("%x: i32 = const.foo 1", "MPP0007", 20, "not a literal of foo"),
    ('%x: Str = const.Str "abc', "MPP0006", 20, 'close it with "'),
    ('%x: Str = const.Str "a\\qc"', "MPP0006", 22, "\\q is not an escape"),
    ('%x: Str = const.Str "\\u{d800}"', "MPP0006", 21, "not a character"),
    ("%x: i32 = const.i32 12ab", "MPP0005", 20, "`12ab` is not a number"),
    ("# comment", "MPP0005", 0, "comments begin with ;"),
    ("é", "MPP0005", 0, "`é` does not belong here"),
    ("foo(%a)", "MPP0005", 3, "found `(`"),
    ("br bb9", "MPP0009", 4, "nothing follows the end of block bb0"),
    ("cbr %a bb0", "MPP0005", 4, "expected a block (bb0), found `ret`"),
    ("unsafe { ret }", "MPP0005", 9, "found `ret`"),
    ("%x: i32 = phi i32 { bb0: %a }", "MPP0005", 20, "expected `[`"),
    ("call f {}", "MPP0005", 5, "a function has an at sign: @f"),
    ("%x: i32 = try r", "MPP0005", 14, "a value has a percent sign: %r"),
    ("%x: i64 = try str.parse_i64 { s=%s }", "MPP0005", 14, "try that: %r: TResult<...> = str.parse_i64 { ... }, try %r"),
    ("%x: i32 = call i.add { a=%y, b=%y }", "MPP0005", 15, "stands without `call`: i.add { ... }"),
    ("bb1\n", "MPP0005", 0, "a label ends with a colon: bb1:"),
    ("bb1:", "MPP0009", 0, "block bb0 has no end"),
    ("%x: Array<i32 = foo", "MPP0005", 14, "found `=`"),
]


@pytest.mark.parametrize(("line", "code", "col", "words"), [case for case in CASES if case[1]])
def test_error_of_a_line(line, code, col, words):
    first = in_body(line)[0]
    assert first.code == code
    assert words in first.message + " " + (first.help or "")
    at = 5 if first.loc.line == 5 else 4  # what is missing is seen where the next line begins
    assert (first.loc.line, first.loc.col) == (at, col), first
    if at == 5:
        assert "found `ret`" in first.message or code == "MPP0009"


def test_a_bare_word_is_an_argument():
    assert parse(Source(HEAD + "fn @f() -> unit {\nbb0:\nfoo { hint=Auto }\nret\n}", "t")).diagnostics == ()


@pytest.mark.parametrize(
    ("text", "code", "line", "col", "words"),
    [
        ("", "MPP0005", 1, 0, "module a.b"),
        ("fn @f() -> unit { bb0: ret }", "MPP0005", 1, 0, "expected `module`"),
        (HEAD + "exports { f( }", "MPP0005", 2, 11, "found `(`"),
        (HEAD + 'digest "12"', "MPP0012", 2, 7, "64"),
        (HEAD + "fn @f() -> unit {\n}", "MPP0008", 3, 0, "at least one block"),
        (HEAD + "fn @f() -> unit {\nret\n}", "MPP0008", 3, 0, "begins with its label"),
        (HEAD + "fn @f() -> unit {\nbb0:\nret", "MPP0005", 4, 3, "a closing brace is missing"),
        (HEAD + "fn f() -> unit {\nbb0:\nret }", "MPP0005", 2, 3, "a function has an at sign"),
        (HEAD + "gpu fn @k() -> unit {\nbb0:\nret }", "MPP0005", 2, 20, "expected `target`"),
        (HEAD + "unsafe gpu fn @k() -> unit target(ptx) {\nbb0:\nret }", "MPP0013", 2, 14, "does not say"),
        (HEAD + "gpu fn @k() -> unit target(ptx) requires(recursion) {\nbb0:\nret }", "MPP0013", 2, 7, "portable"),
        (HEAD + "fn @f() -> unit {\nbb0:\nbr bb1\nbb2:\nret }", "MPP0014", 4, 0, "@f has no block bb1"),
        (HEAD + "fn @f() -> unit {\nbb0:\nret\nbb0:\nret }", "MPP0014", 5, 0, "two blocks bb0"),
        (HEAD + "struct T {\nfild x: i32\n}", "MPP0005", 3, 0, "expected `field` or `}`"),
        (HEAD + "struct T {\nfield x i32\n}", "MPP0005", 3, 8, "expected `:`"),
        (HEAD + "}", "MPP0005", 2, 0, "found `}`"),
        (HEAD + "sig T() -> " + "A<" * 65, "MPP0004", 2, 11 + 2 * 64 + 1, "64 deep"),
    ],
)
def test_error_of_a_file(text, code, line, col, words):
    first = errors(text)[0]
    assert first.code == code
    assert words in first.message + " " + (first.help or "")
    assert (first.loc.line, first.loc.col) == (line, col)


def test_one_run_reports_the_errors_of_several_declarations():
    text = HEAD + "\n".join(
        [
            "fn @f() -> unit {",  # 2
            "bb0:",
            "    %x i32 = foo",  # 4
            "    %y: i32 = const.u8 300",  # 5
            "    bar { a=[%x %y] }",  # 6
            "    gpu.launch {",
            "        a=1,",  # 8
            "        b %x",  # 9
            "    }",
            "    ret",
            "}",
            "enum T { A B C( }",  # 13
            "fn @g() -> {",  # 14
            "bb0: ret",
            "}",
            "fn @h() -> unit {",
            "bb0:",
            "    %z: i32 = i.add { a=%x, b=2 }",  # 19
            "}",  # 20
        ]
    )
    assert [(item.code, item.loc.line) for item in errors(text)] == [
        ("MPP0005", 4),
        ("MPP0007", 5),
        ("MPP0005", 6),
        ("MPP0011", 8),
        ("MPP0005", 9),
        ("MPP0005", 13),
        ("MPP0005", 14),
        ("MPP0011", 19),
        ("MPP0009", 20),
    ]


def test_a_file_without_its_module_line_is_read_on():
    text = "fn @f() -> unit {\nbb0:\n    foo { a=1 }\n    ret\n}\nfn @g( {\n"
    assert [(item.code, item.loc.line) for item in errors(text)] == [("MPP0005", 1), ("MPP0011", 3), ("MPP0005", 6)]


def test_at_most_twenty_errors():
    text = HEAD + "fn @f() -> unit {\nbb0:\n" + "%x i32\n" * 100 + "ret }"
    lines = [item.loc.line for item in errors(text)]
    assert lines == list(range(4, 24))


def test_rendered_error_shows_the_line(tmp_path):
    file = tmp_path / "bad.mp"
    file.write_text("module t\nfn @f() -> unit {\nbb0:\n    %x: u8 = const.u8 256\n    ret\n}\n")
    (error,) = parse(Source(file.read_text(), str(file))).diagnostics
    assert render(error).splitlines()[-2:] == ["4 |     %x: u8 = const.u8 256", "  |                       ^^^"]


def refused(data, **options):
    with pytest.raises(CompileError) as caught:
        decode(data, "t.mp", **options)
    (error,) = caught.value.diagnostics
    return error


def test_large_sources_are_refused_before_they_are_read():
    assert refused(b"\xff" * (MAX_BYTES + 1)).code == "MPP0001"
    assert refused(b"module a", max_bytes=7).code == "MPP0001"
    assert decode(b";" * MAX_BYTES, "t.mp").text == ";" * MAX_BYTES
    assert decode(b";" * (MAX_BYTES + 1), "t.mp", max_bytes=2 * MAX_BYTES)


def test_bytes_that_are_no_text():
    error = refused("; é\nmodule é".encode() + b"\xe9\n")
    assert error.code == "MPP0002" and (error.loc.line, error.loc.col) == (2, 8)
    error = refused(b"module a\r\n;\0")
    assert error.code == "MPP0003" and (error.loc.line, error.loc.col) == (2, 1)


def test_line_ends_and_byte_order_mark():
    text = decode("\ufeffmodule a\r\n\r; x\r\n".encode(), "t.mp").text
    assert text == "module a\n\n; x\n"


@pytest.mark.parametrize(
    "text",
    [
        "{" * 990_000,
        "} " * 490_000,
        ";\n" * 490_000,
        "\n" * 990_000,
        "a." * 490_000,
        '"\\' * 490_000,
        "1" * 990_000,
        "x } " * 240_000,
        "%x\n" * 330_000,
        "fn @f() -> unit {\nbb0:\n" + "gpu.barrier\n" * 80_000,
        "fn @f() -> unit {\nbb0:\n%x: i128 = const.i128 " + "1" * 900_000 + "\nret }",
        "fn @f() -> unit {\nbb0:\nret\n" + "bb1:\nret\n" * 100_000 + "}",
        "fn @f() -> unit {\nbb0:\nfoo { a=[" + "%x, " * 240_000 + "] }\nret }",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_megabyte_of_anything_is_read_in_time(text):
    parse(Source("module warm", "t"))
    start = time.process_time()
    parsed = parse(Source(HEAD + text, "t.mp"))
    assert time.process_time() - start < 4.0  # of a machine that does other things too; 1 s on its own
    assert parsed.module is not None or all(item.loc is not None for item in parsed.diagnostics)


@pytest.mark.parametrize("number", range(1, 15))
def test_every_code_explains_itself(number):
    row = lookup(f"MPP{number:04}")
    assert row.family == "MPP"
    assert "wrong:" in row.text and "right:" in row.text
