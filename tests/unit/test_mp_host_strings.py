"""Text in host programs: bytes of UTF-8, numbers as text and back, builders."""

from __future__ import annotations

import pytest
from host_tools import call, function, program
from hypothesis import given
from hypothesis import strategies as st

from magpie.host.panics import Panic
from magpie.host.values import ArrayValue
from magpie.mpir.types import Ty

TEXTS = st.text(st.sampled_from("ab é€\U0001f426"), max_size=8)


def op(name, result, **operands):
    """@f of one operation, whose operands are its parameters."""
    params = ", ".join(f"%{k}: {t}" for k, t in operands.items())
    given_ = ", ".join(f"{k}=%{k}" for k in operands)
    return program(function(params, result, f"    %r: {result} = {name} {{ {given_} }}\n    ret %r"))


LEN = op("str.len", "i64", s="Str")
SLICE = op("str.slice", "Str", s="Str", start="i64", end="i64")
FIND = op("str.find", "TOption<i64>", s="Str", sub="Str")
CMP = op("str.cmp", "i32", a="Str", b="Str")
SPLIT = op("str.split", "Array<Str>", s="Str", sep="Str")
REPLACE = op("str.replace", "Str", s="Str", sub="Str", **{"with": "Str"})


@given(TEXTS)
def test_lengths_count_bytes(s):
    assert LEN.call("f", (s,)) == len(s.encode())


@given(TEXTS, st.integers(-1, 20), st.integers(-1, 20))
def test_slices_count_bytes(s, start, end):
    data = s.encode()
    borders = {len(s[:k].encode()) for k in range(len(s) + 1)}
    want = data[start:end].decode() if start <= end and {start, end} <= borders else None
    if want is None:
        with pytest.raises(Panic, match="no bytes|inside a character"):
            SLICE.call("f", (s, start, end))
    else:
        assert SLICE.call("f", (s, start, end)) == want


@given(TEXTS, TEXTS)
def test_finding_and_comparing(s, sub):
    found = FIND.call("f", (s, sub))
    at = s.encode().find(sub.encode())
    assert (found.variant, found.fields) == (("Some", (at,)) if at >= 0 else ("None", ()))
    a, b = s.encode(), sub.encode()
    assert CMP.call("f", (s, sub)) == (a > b) - (a < b)


@given(TEXTS, TEXTS, TEXTS)
def test_parts(s, sub, other):
    if not sub:
        for ready, arguments in ((SPLIT, (s, sub)), (REPLACE, (s, sub, other))):
            with pytest.raises(Panic, match="empty"):
                ready.call("f", arguments)
        return
    parts = SPLIT.call("f", (s, sub))
    assert [p.encode() for p in parts.items] == s.encode().split(sub.encode())
    assert REPLACE.call("f", (s, sub, other)).encode() == s.encode().replace(sub.encode(), other.encode())


def test_the_rest():
    s = "  Äpfel und Öl \n"
    assert op("str.trim", "Str", s="Str").call("f", (s,)) == "Äpfel und Öl"
    assert op("str.upper", "Str", s="Str").call("f", ("straße",)) == "STRASSE"
    assert op("str.lower", "Str", s="Str").call("f", ("ÄB",)) == "äb"
    assert op("str.repeat", "Str", s="Str", count="u8").call("f", ("ab", 3)) == "ababab"
    assert op("str.concat", "Str", a="Str", b="Str").call("f", ("a", "é")) == "aé"
    assert op("str.eq", "bool", a="Str", b="Str").call("f", ("a", "a")) is True
    assert op("str.starts_with", "bool", s="Str", sub="Str").call("f", ("abc", "ab")) is True
    assert op("str.ends_with", "bool", s="Str", sub="Str").call("f", ("abc", "ab")) is False
    assert op("str.contains", "bool", s="Str", sub="Str").call("f", ("abc", "bc")) is True
    joined = op("str.join", "Str", parts="Array<Str>", sep="Str")
    assert joined.call("f", (ArrayValue(Ty("Str"), ["a", "b", "c"]), ", ")) == "a, b, c"
    with pytest.raises(Panic, match="-1 times"):
        op("str.repeat", "Str", s="Str", count="i64").call("f", ("ab", -1))
    with pytest.raises(Panic, match="out of memory"):
        op("str.repeat", "Str", s="Str", count="i64").call("f", ("ab", 10**15))


def test_bytes_and_back():
    array = op("str.bytes", "Array<u8>", s="Str").call("f", ("aé",))
    assert array.items == [0x61, 0xC3, 0xA9] and array.element == Ty("u8")
    back = op("str.from_bytes", "TResult<Str, TParseError>", bytes="Array<u8>")
    assert back.call("f", (array,)).fields == ("aé",)
    bad = back.call("f", (ArrayValue(Ty("u8"), [0x61, 0xC3]),))
    assert bad.variant == "Err" and "byte 1" in bad.fields[0].fields["message"]


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("i8", -128, "-128"),
        ("u128", 2**128 - 1, "340282366920938463463374607431768211455"),
        ("bool", True, "true"),
        ("f64", 0.1, "0.1"),
        ("f64", 1e22, "1e+22"),
        ("f32", 0.10000000149011612, "0.1"),
        ("f32", 16777216.0, "16777216.0"),
        ("f16", 65504.0, "65500.0"),
        ("bf16", 3.140625, "3.14"),
        ("f32", float("inf"), "inf"),
        ("f32", float("-inf"), "-inf"),
        ("f64", float("nan"), "nan"),
        ("f32", -0.0, "-0.0"),
        ("f32", 1.401298464324817e-45, "1e-45"),
    ],
)
def test_numbers_as_text(type_, value, text):
    assert op("str.from", "Str", v=type_).call("f", (value,)) == text


def parsed(kind, text):
    found = op(f"str.parse_{kind}", f"TResult<{kind}, TParseError>", s="Str").call("f", (text,))
    return found.fields[0] if found.variant == "Ok" else found.fields[0].fields["message"]


def test_numbers_from_text():
    assert parsed("i64", "-9223372036854775808") == -(2**63) and parsed("i64", "+007") == 7
    assert parsed("u64", "18446744073709551615") == 2**64 - 1 and parsed("u64", "-0") == 0
    assert parsed("f64", "1e308") == 1e308 and parsed("f64", "-.5") == -0.5 and parsed("f64", "7") == 7.0
    assert parsed("f64", "-inf") == float("-inf") and parsed("f64", "nan") != parsed("f64", "nan")
    assert parsed("bool", "true") is True and parsed("bool", "false") is False
    for kind, text in (
        *(("i64", t) for t in ("", "-", "1.0", " 1", "1 ", "1_000", "0x10", "١", "1\n")),
        *(("u64", t) for t in ("", "a")),
        *(("f64", t) for t in ("", ".", "1e", "e5", "0x1p3", "1_0.0", "infinity", "1 ")),
        *(("bool", t) for t in ("True", "1", "")),
    ):
        assert isinstance(parsed(kind, text), str), (kind, text)
    for kind, text in (("i64", "9223372036854775808"), ("u64", "-1"), ("i64", "9" * 5000)):
        assert "out of range" in parsed(kind, text)


def test_a_builder():
    text = function(
        "%n: i64",
        "Str",
        """    %b: TStrBuilder = str.builder.new
    str.builder.append { b=%b, v=const.Str "n=" }
    str.builder.append { b=%b, v=%n }
    str.builder.append { b=%b, v=const.f32 0.1 }
    str.builder.append { b=%b, v=const.bool true }
    %len: i64 = str.builder.len { b=%b }
    str.builder.append { b=%b, v=%len }
    %s: Str = str.builder.build { b=%b }
    ret %s""",
    )
    assert call(text, -3) == "n=-30.1true11"
