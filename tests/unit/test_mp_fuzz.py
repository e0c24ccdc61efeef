"""The front end of `.mp` on files that are nearly right, and on some that are no text at all.

Each input is one of a corpus (`tests/unit/mp`, `examples/mp`) with a few changes, of its bytes or of its words. Whatever
it is, there is an answer in time: errors that stand somewhere in the file, or a module whose text can be written again
and whose kernels are Kernel IR.
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from magpie import knobs
from magpie.diagnostics import CompileError, Diagnostic
from magpie.frontend.mp import Source, canonical, decode, format_module, parse
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.lexer import MAX_ERRORS
from magpie.mpir.ops import OPS
from magpie.runtime.modules import check_module

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/unit/mp", "tests/unit/mp/codes", "tests/unit/mp/corpus", "examples/mp")
FILES = [file for folder in FOLDERS for file in sorted((ROOT / folder).glob("*.mp"))]
CORPUS = [file.read_bytes() for file in FILES]
PARTS = 6
COUNT = (10_200 if knobs.test_all() else 1_500) // PARTS
BUDGET = 2.0  # seconds of the processor

MARKS = b'{}[]()<>%@:;,="\n.-\\\0\xff'
WORDS = [
    *b'fn gpu unsafe ret br bb0 bb0: bb1 %x %x: struct field phi try const.i32 1 1.5 "s" @f case -> :: switch borrow }'.split(),
    *b"heap value enum sig global impl extern module exports imports digest async target(ptx) workgroup(0,1,1)".split(),
]
TYPES = b"i1 i8 i16 i32 i64 i128 u8 u32 u64 f16 bf16 f32 f64 bool unit Str ptr T gpu.TBuffer<f32> Array<i32>".split()
TYPES += [b"gpu.TBuffer<TPoint>", b"TResult<i32, Str>", b"TOption<T>", b"rawptr<f32>", b"borrow Str", b"Map<i32, Str>"]
NUMBERS = b"0 1 -1 2 3 64 255 256 1024 1025 2147483647 2147483648 -9223372036854775808 0xff 0b11 1_000".split()
NUMBERS += b"1.5 -0.0 1e308 1e309 inf -inf nan 0.1 340282346638528859811704183484516925440 99999999999999999999".split()
NAMES = [name.encode() for name in OPS]
TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|;[^\n]*|%[\w.]+:?|[\w.]*@?[\w.]+:?|\s+|.', re.DOTALL)


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.randrange(1, 40))
    lines = data.split(b"\n")
    line, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(10):
        case 0:
            return data[:at] + data[end:]
        case 1:
            return data[:at] + rng.randbytes(rng.randrange(1, 5)) + data[at:]
        case 2:
            mark = rng.randrange(len(MARKS))
            return data[:at] + MARKS[mark : mark + 1] * rng.choice([1, 1, 2, 100]) + data[at:]
        case 3:
            return data[:end] + data[at:end] + data[end:]
        case 4:
            source = rng.choice(CORPUS)
            start = rng.randrange(len(source) + 1)
            return data[:at] + source[start : start + rng.randrange(200)] + data[end:]
        case 5:
            return data[:at]
        case 6:
            lines[line], lines[other] = lines[other], lines[line]
        case 7:
            del lines[line]
        case 8:
            return data[:at] + b" " + rng.choice(WORDS) + b" " + data[at:]
        case 9:
            flipped = bytes([data[at] ^ (1 << rng.randrange(8))]) if at < len(data) else b""
            return data[:at] + flipped + data[at + 1 :]
    return b"\n".join(lines)


def changed_words(rng: random.Random, data: bytes) -> bytes:
    """Another number, type, operation, value or block in place of one, or words left out, doubled, exchanged."""
    words = TOKEN.findall(data)
    if not words:
        return data

    def some(pattern: bytes) -> list[int]:
        return [k for k, word in enumerate(words) if re.fullmatch(pattern, word)]

    kind = rng.randrange(9)
    patterns = [rb"-?[0-9][\w.]*", rb"[iuf][0-9]+|bf16|bool|Str|unit|T\w*", rb"\w+\.[\w.]+", rb"%\w+", rb"bb\w+", rb"\w+@\w+|@\w+"]
    places = some(patterns[kind]) if kind < len(patterns) else list(range(len(words)))
    if not places:
        return data
    at, other = rng.choice(places), rng.choice(places)
    match kind:
        case 0:
            words[at] = rng.choice(NUMBERS)
        case 1:
            words[at] = rng.choice(TYPES)
        case 2:
            words[at] = rng.choice(NAMES) if rng.random() < 0.7 else words[other]
        case 3 | 4 | 5:
            words[at] = words[other]
        case 6:
            del words[at]
        case 7:
            words[at:at] = [words[at], b" "]
        case 8:
            words[at], words[other] = words[other], words[at]
    return b"".join(words)


def spliced(rng: random.Random, data: bytes) -> bytes:
    """A declaration of another file behind those of this one."""
    other = rng.choice(CORPUS)
    starts = [m.start() for m in re.finditer(rb"^(?:gpu |unsafe |async |heap |value )*(?:fn|struct|enum|global|sig)\b", other, re.M)]
    if not starts:
        return data
    at = rng.choice(starts)
    end = min((s for s in starts if s > at), default=len(other))
    return data + b"\n" + other[at:end]


def made(rng: random.Random) -> bytes:
    """One input: of a file, with one to four changes."""
    data = rng.choice(CORPUS)
    if rng.random() < 0.2:
        data = spliced(rng, data)
    change = changed_bytes if rng.random() < 0.35 else changed_words
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = change(rng, data)
    return data


def assert_placed(found: list[Diagnostic], data: bytes) -> None:
    """Each diagnostic stands at a line and a column of the file."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    assert sum(d.is_error for d in found) <= MAX_ERRORS, data
    for d in found:
        assert d.loc is not None and d.loc.file == "t.mp", (d, data)
        assert 1 <= d.loc.line <= len(lines) and 0 <= d.loc.col <= len(lines[d.loc.line - 1]), (d, data)


def answer(data: bytes) -> bool:
    """Ask everything that there is to ask of an input; whether it is right."""
    start = time.process_time()
    try:
        source = decode(data, "t.mp")
    except CompileError as error:
        assert_placed(list(error.diagnostics), data)
        return False
    found = check_module(source)
    assert time.process_time() - start < BUDGET, data
    assert_placed(found, data)
    parsed = parse(source)
    if parsed.module is None:
        assert any(d.is_error for d in found), data
        return False
    form = format_module(parsed.module)
    again = parse(Source(form, "t.mp")).checked
    assert format_module(again) == form, data
    assert [canonical(again).decls] == [canonical(parsed.module).decls], data
    if any(d.is_error for d in found):
        return False
    checked = check_source(source)
    assert checked.module is not None, data
    assert set(checked.kernels) == {f.name for f in checked.module.functions if f.gpu_meta is not None}, data
    return True


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_file_of_the_corpus_has_an_answer(file: Path) -> None:
    right = answer(file.read_bytes())
    if file.parent.name == "corpus":
        assert right == file.stem.startswith("right_")


@pytest.mark.parametrize("part", range(PARTS))
def test_changed_files_have_an_answer(part: int) -> None:
    rng = random.Random(knobs.test_seed() * PARTS + part)
    right = sum(answer(made(rng)) for _ in range(COUNT))
    assert COUNT // 50 < right < COUNT  # some changes leave a file right, and hardly all do


@pytest.mark.parametrize("part", range(2))
def test_noise_has_an_answer(part: int) -> None:
    rng = random.Random(knobs.test_seed() * 2 + part)
    for _ in range(COUNT // 4):
        words = [*WORDS, *TYPES, *NUMBERS, *NAMES, b"\n", b" ", b"{", b"}", b"\0", b"\xc3\x28", b"\xed\xa0\x80"]
        head = rng.choice([b"", b"module t\n", b"module t\nfn @f() -> unit {\nbb0:\n", b"\xef\xbb\xbfmodule t\n"])
        answer(head + b" ".join(rng.choice(words) for _ in range(rng.randrange(60))))
