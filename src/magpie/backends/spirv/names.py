"""What ids are called in text: their OpName, or what they are, as spirv-dis has it."""

from __future__ import annotations

import re
import struct

from magpie.backends.spirv.encode import form
from magpie.backends.spirv.table import ENUMS

__all__ = ["Names", "number_text", "text_of"]

_SIGNED = {8: "char", 16: "short", 32: "int", 64: "long"}
_FLOATS = {16: "half", 32: "float", 64: "double"}

# What GLSL calls the variables that the device fills.
_BUILTINS = {
    "NumWorkgroups": "gl_NumWorkGroups",
    "WorkgroupSize": "gl_WorkGroupSize",
    "WorkgroupId": "gl_WorkGroupID",
    "LocalInvocationId": "gl_LocalInvocationID",
    "GlobalInvocationId": "gl_GlobalInvocationID",
    "LocalInvocationIndex": "gl_LocalInvocationIndex",
} | {name: name for name in ENUMS["BuiltIn"] if "Subgroup" in name}
_BUILTIN_NAMES = {ENUMS["BuiltIn"][name][0]: text for name, text in _BUILTINS.items()}
_STORAGE = {row[0]: name for name, row in ENUMS["StorageClass"].items()}

_ODD = re.compile(rb"[^A-Za-z0-9_]")
_BUILTIN = ENUMS["Decoration"]["BuiltIn"][0]


def text_of(words: list[int]) -> tuple[str, int]:
    """A literal string at the start of ``words``, and how many of them it takes."""
    raw = struct.pack(f"<{len(words)}I", *words)
    end = raw.index(0)
    return raw[:end].decode("utf-8", "replace"), end // 4 + 1


def _sane(text: str) -> str:
    return _ODD.sub(b"_", text.encode()).decode() or "_"


class Names:
    """Id -> name with its %, of a whole module. ``types``: id of a number's type -> ("Int" or "Float", bits, more)."""

    def __init__(self, instructions: list[tuple[int, list[int]]]) -> None:
        self.of: dict[int, str] = {}
        self.types: dict[int, tuple[str, int, int]] = {}
        self._used: set[str] = set()
        makers = {form(name).number: make for name, make in _MAKERS.items()}
        results = _RESULTS
        for number, words in instructions:
            make = makers.get(number)
            if make is not None:
                make(self, words)
            else:
                at = results.get(number)
                if at is not None and words[at] not in self.of:
                    self.save(words[at], str(words[at]))

    def save(self, id_: int, wanted: str) -> None:
        """Call an id this, with a number behind it where another one is called so, unless it has a name already."""
        if id_ in self.of:
            return
        name, count = wanted, 0
        while name in self._used:
            name = f"{wanted}_{count}"
            count += 1
        self._used.add(name)
        self.of[id_] = f"%{name}"

    def bare(self, id_: int) -> str:
        """A name without its %."""
        return self.of[id_][1:] if id_ in self.of else str(id_)

    def name(self, words: list[int]) -> None:
        self.save(words[0], _sane(text_of(words[1:])[0]))

    def decorate(self, words: list[int]) -> None:
        if words[1] == _BUILTIN and words[2] in _BUILTIN_NAMES:
            self.save(words[0], _BUILTIN_NAMES[words[2]])

    def void_type(self, words: list[int]) -> None:
        self.save(words[0], "void")

    def boolean(self, words: list[int]) -> None:
        self.save(words[0], "bool")

    def integer(self, words: list[int]) -> None:
        id_, bits, signed = words
        self.types[id_] = ("Int", bits, signed)
        self.save(id_, ("" if signed else "u") + _SIGNED[bits])

    def floating(self, words: list[int]) -> None:
        id_, bits, *encoding = words
        self.types[id_] = ("Float", bits, len(encoding))
        self.save(id_, "bfloat16" if encoding else _FLOATS[bits])

    def vector(self, words: list[int]) -> None:
        self.save(words[0], f"v{words[2]}{self.bare(words[1])}")

    def array(self, words: list[int]) -> None:
        self.save(words[0], f"_arr_{self.bare(words[1])}_{self.bare(words[2])}")

    def runtime_array(self, words: list[int]) -> None:
        self.save(words[0], f"_runtimearr_{self.bare(words[1])}")

    def pointer(self, words: list[int]) -> None:
        self.save(words[0], f"_ptr_{_STORAGE[words[1]]}_{self.bare(words[2])}")

    def struct(self, words: list[int]) -> None:
        self.save(words[0], f"_struct_{words[0]}")

    def constant_true(self, words: list[int]) -> None:
        self.save(words[1], "true")

    def constant_false(self, words: list[int]) -> None:
        self.save(words[1], "false")

    def constant(self, words: list[int]) -> None:
        if words[1] not in self.of:
            value = number_text(self.types[words[0]], words[2:]).replace("-", "n")
            self.save(words[1], f"{self.bare(words[0])}_{_sane(value)}")


_MAKERS = {
    "Name": Names.name,
    "Decorate": Names.decorate,
    "TypeVoid": Names.void_type,
    "TypeBool": Names.boolean,
    "TypeInt": Names.integer,
    "TypeFloat": Names.floating,
    "TypeVector": Names.vector,
    "TypeArray": Names.array,
    "TypeRuntimeArray": Names.runtime_array,
    "TypePointer": Names.pointer,
    "TypeStruct": Names.struct,
    "ConstantTrue": Names.constant_true,
    "ConstantFalse": Names.constant_false,
    "Constant": Names.constant,
}


def number_text(type_: tuple[str, int, int], words: list[int]) -> str:
    """A number of ("Int", bits, signed) or ("Float", bits, 1 for bfloat16) as it is written: exactly."""
    what, width, more = type_
    bits = words[0] | (words[1] << 32 if width == 64 else 0)
    if what == "Int":
        bits &= (1 << width) - 1
        return str(bits - (1 << width) if more and bits >> (width - 1) else bits)
    mantissa = 7 if more else {16: 10, 32: 23, 64: 52}[width]
    exponent = width - 1 - mantissa
    raw = bits >> mantissa & (1 << exponent) - 1
    fraction = bits & (1 << mantissa) - 1
    if width > 16 and (0 < raw < (1 << exponent) - 1 or bits << 1 & (1 << width) - 1 == 0):
        if width == 32:
            return f"{struct.unpack('<f', struct.pack('<I', bits))[0]:.9g}"
        return f"{struct.unpack('<d', struct.pack('<Q', bits))[0]:.17g}"
    return ("-" if bits >> (width - 1) & 1 else "") + _hexadecimal(raw, fraction, mantissa, exponent)


def _hexadecimal(raw: int, fraction: int, mantissa: int, exponent: int) -> str:
    """0x1.8p+3; what is beyond the largest exponent (infinity, NaN) is written as if it were a number."""
    if raw == fraction == 0:
        return "0x0p+0"
    power = raw - (1 << exponent - 1) + 1
    if raw == 0:
        shift = mantissa + 1 - fraction.bit_length()
        fraction = fraction << shift & (1 << mantissa) - 1
        power = 1 - shift - (1 << exponent - 1) + 1
    digits = -(-mantissa // 4)
    text = f"{fraction << digits * 4 - mantissa:0{digits}x}".rstrip("0")
    return f"0x1{'.' if text else ''}{text}p{power:+d}"


def _results() -> dict[int, int]:
    from magpie.backends.spirv.table import OPS

    return {(f := form(name)).number: int(f.typed) for name in OPS if form(name).result}


_RESULTS = _results()
