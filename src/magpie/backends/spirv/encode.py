"""How SPIR-V's instructions are made of words: what `table` says, in the form that writing them needs.

Section numbers are those of the SPIR-V specification, 1.6.
"""

from __future__ import annotations

import functools
import struct

from magpie.backends.spirv.table import ENUMS, MASKS, OPS
from magpie.records import record

__all__ = ["IDS", "Form", "enumerant", "first_word", "float_bits", "form", "literal_words", "parse_kinds", "text_words"]

#: Kinds of operands that are an id.
IDS = frozenset(("IdRef", "IdResultType", "IdResult", "IdScope", "IdMemorySemantics"))

# Operands of two parts.
PAIRS = {
    "PairIdRefIdRef": ("IdRef", "IdRef"),
    "PairIdRefLiteralInteger": ("IdRef", "LiteralInteger"),
    "PairLiteralIntegerIdRef": ("LiteralInteger", "IdRef"),
}


@record
class Form:
    """One instruction. ``kinds`` are (quantifier, kind) of the operands behind result type and result.

    ``least`` and ``most`` (-1: any) count these operands where all are ids (``ids``), so that they can be written as
    they are.
    """

    name: str
    number: int
    kinds: tuple[tuple[str, str], ...]
    typed: bool
    result: bool
    ids: bool
    least: int
    most: int
    capabilities: tuple[str, ...]
    extension: str


def first_word(count: int, number: int) -> int:
    """The first word of an instruction of ``count`` words. Raises ValueError where there are too many (2.3)."""
    if count > 0xFFFF:
        raise ValueError(f"an instruction of SPIR-V has at most 65,535 words, not {count}")
    return count << 16 | number


def parse_kinds(text: str) -> tuple[tuple[str, str], ...]:
    """``IdRef ?MemoryAccess *IdRef`` as (quantifier, kind) pairs."""
    found: list[tuple[str, str]] = []
    for word in text.split():
        quantifier = word[0] if word[0] in "?*" else ""
        kind = word[len(quantifier) :]
        pair = PAIRS.get(kind)
        found += [(quantifier, kind)] if pair is None else [(quantifier, pair[0]), ("", pair[1])]
    return tuple(found)


@functools.cache
def form(name: str) -> Form:
    """The instruction called ``name``, without Op. Raises KeyError for one that the table does not have."""
    number, text, capabilities, extension = OPS[name]
    kinds = parse_kinds(text)
    typed = ("", "IdResultType") in kinds[:1]
    result = ("", "IdResult") in kinds[: 1 + typed]
    kinds = kinds[typed + result :]
    ids = all(kind in IDS for _, kind in kinds)
    least = sum(not quantifier for quantifier, _ in kinds)
    most = -1 if any(quantifier == "*" for quantifier, _ in kinds) else len(kinds)
    return Form(name, number, kinds, typed, result, ids, least, most, tuple(capabilities.split()), extension)


@functools.cache
def enumerant(kind: str, text: str) -> tuple[int, tuple[tuple[str, str], ...], tuple[tuple[tuple[str, ...], str], ...]]:
    """A value of ``kind``, or several of a mask with ``|`` between: its number, the operands behind it, and what it
    needs as (capabilities of which one is needed, extension). Raises KeyError for an unknown name."""
    names = text.split("|") if kind in MASKS else [text]
    # The operands of several bits follow in the order of the bits (2.3, "Mask").
    rows = sorted(ENUMS[kind][name] for name in names)
    number = 0
    for row in rows:
        number |= row[0]
    kinds = tuple(k for row in rows for k in parse_kinds(row[1]))
    return number, kinds, tuple((tuple(row[2].split()), row[3]) for row in rows if row[2] or row[3])


def text_words(text: str) -> list[int]:
    """A literal string: UTF-8 with a zero behind it, in whole words (2.2.1). What UTF-8 has no bytes for, as in the
    name of a file of another encoding, and a zero in the text become question marks."""
    raw = text.replace("\0", "?").encode("utf-8", "replace")
    raw += bytes(4 - len(raw) % 4)
    return list(struct.unpack(f"<{len(raw) // 4}I", raw))


def literal_words(bits: int, width: int, signed: bool = False) -> list[int]:
    """A literal number of ``width`` bits (2.2.1): narrow ones in the low bits of a word, signed ones with their sign
    above them, wide ones with the low word first."""
    bits &= (1 << width) - 1
    if width < 32 and signed and bits >> (width - 1):
        bits |= 0xFFFFFFFF & -1 << width
    return [bits & 0xFFFFFFFF] if width <= 32 else [bits & 0xFFFFFFFF, bits >> 32]


def float_bits(value: float, width: int, bfloat: bool = False) -> int:
    """The bits of ``value``, which is rounded to nearest even; what is too large becomes infinity."""
    x = float(value)
    if width == 64:
        return int(struct.unpack("<Q", struct.pack("<d", x))[0])
    code, form_ = ("<e", "<H") if width == 16 and not bfloat else ("<f", "<I")
    try:
        bits = int(struct.unpack(form_, struct.pack(code, x))[0])
    except OverflowError:
        infinity = float("inf") if x > 0 else float("-inf")
        bits = int(struct.unpack(form_, struct.pack(code, infinity))[0])
    if not bfloat:
        return bits
    if x != x:
        return bits >> 16 | 0x40
    # By way of f32 this is one rounding only for what f32 holds, which every bf16 does.
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF
