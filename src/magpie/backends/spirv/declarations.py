"""What a SPIR-V module declares: ids, capabilities, types, constants, decorations and names.

Section numbers are those of the SPIR-V specification, 1.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from magpie.backends.spirv.encode import Form, enumerant, first_word, float_bits, form, literal_words, text_words
from magpie.backends.spirv.table import ENUMS, GLSL

__all__ = ["Declarations", "Operand"]

#: An id or a literal number, the name of an enumerant (several of a mask with ``|`` between), a literal string.
Operand = int | str

# Types whose first operand is the type of their parts.
_COMPOSITES = frozenset(("Array", "RuntimeArray", "Vector", "CooperativeMatrixKHR"))

# With one of these a type may be declared too.
_OF_BUFFERS = {
    "Int8": ("StorageBuffer8BitAccess", "UniformAndStorageBuffer8BitAccess", "StoragePushConstant8"),
    "Int16": ("StorageBuffer16BitAccess", "UniformAndStorageBuffer16BitAccess", "StoragePushConstant16"),
}
_OF_BUFFERS["Float16"] = _OF_BUFFERS["Int16"]


class Declarations:
    """The part of a module that stands before its functions; each type and each constant is declared once."""

    def __init__(self) -> None:
        self._bound = 1
        self._declared: dict[str, None] = {}
        self._have: set[str] = set()
        self._extensions: dict[str, None] = {}
        self._names: list[int] = []
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._interned: dict[object, int] = {}
        #: Type id -> what it is made of: ("Int", 32, 1), ("Pointer", "Function", id), ...
        self.definitions: dict[int, tuple[str | int, ...]] = {}
        #: Id of a value -> id of its type.
        self.types: dict[int, int] = {}
        #: Types of 8 and 16 bits -> the capability that anything but loads, stores and conversions of them needs.
        self.narrow: dict[int, str] = {}
        self._device_scope = False

    # --- ids, capabilities, operands -----------------------------------------------------------------------------
    def id(self) -> int:
        """A new id."""
        self._bound += 1
        return self._bound - 1

    def capability(self, name: str) -> None:
        """Declare a capability, with the extension that it needs."""
        if name in self._declared:
            return
        self._declared[name] = None
        self._add_implied(name)

    def _add_implied(self, name: str) -> None:
        _, _, implied, extension = ENUMS["Capability"][name]
        if name not in self._have:
            self._have.add(name)
            for other in implied.split():
                self._add_implied(other)
        if extension:
            self.extension(extension.split()[0])

    def extension(self, name: str) -> None:
        """Declare an extension such as SPV_KHR_bfloat16."""
        self._extensions[name] = None

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities that are needed so far, without those that these imply."""
        for capability in self.narrow.values():  # a type that is in no buffer may be one of conversions only
            self.need((capability, *_OF_BUFFERS[capability]))
        return tuple(self._declared)

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions declared so far."""
        return tuple(self._extensions)

    def need(self, any_of: Sequence[str], extension: str = "") -> None:
        """Declare the first of these capabilities unless one of them is there."""
        if any_of and self._have.isdisjoint(any_of):
            self.capability(any_of[0])
        if extension:
            self.extension(extension.split()[0])

    def encode(self, what: Form, operands: Sequence[Operand]) -> Sequence[int]:
        """The words of an instruction's operands, with what they need declared.

        Raises ValueError where there are too few or too many, KeyError for the name of an enumerant that is not known.
        """
        words: list[int] = []
        queue = list(reversed(what.kinds))
        at = 0
        while queue:
            quantifier, kind = queue.pop()
            if at == len(operands):
                if quantifier:
                    break
                raise ValueError(f"Op{what.name} needs another operand, {kind}")
            if quantifier == "*":  # what stands behind a * belongs to it: the second part of a pair
                queue = [*queue, (quantifier, kind), *queue]
            given = operands[at]
            at += 1
            if isinstance(given, int):
                words.append(given & 0xFFFFFFFF)
                if kind in ENUMS:
                    raise ValueError(f"Op{what.name} takes the name of a {kind}")
            elif kind in ENUMS:
                number, more, needs = enumerant(kind, given)
                words.append(number)
                queue += reversed(more)
                for capabilities, extension in needs:
                    self.need(capabilities, extension)
            else:
                words += self._text_operand(kind, given)
        if at != len(operands):
            raise ValueError(f"Op{what.name} has {len(operands) - at} operands too many")
        return words

    def _text_operand(self, kind: str, text: str) -> list[int]:
        if kind == "LiteralString":
            return text_words(text)
        if kind == "LiteralExtInstInteger":
            function = GLSL[text]
            self.need(function[2].split())
            return [function[0]]
        if kind == "IdScope":
            self._device_scope |= text == "Device"
        elif kind != "IdMemorySemantics":
            raise ValueError(f"{text!r} is no {kind}")
        number, _, needs = enumerant(kind[2:], text)
        for capabilities, extension in needs:
            self.need(capabilities, extension)
        return [self.u32(number)]

    def _write(self, into: list[int], name: str, head: tuple[int, ...], operands: Sequence[Operand]) -> None:
        what = form(name)
        words = self.encode(what, operands)
        self.need(what.capabilities, what.extension)
        into.append(first_word(1 + len(head) + len(words), what.number))
        into += head
        into += words

    # --- types ---------------------------------------------------------------------------------------------------
    def _type(self, name: str, *operands: Operand, key: object = None) -> int:
        """The type of these operands, which is declared once; ``key`` tells types of other decorations apart."""
        known = (name, operands, key)
        found = self._interned.get(known)
        if found is None:
            found = self._interned[known] = self.id()
            self._write(self._globals, f"Type{name}", (found,), operands)
            self.definitions[found] = (name, *operands)
        return found

    def type_void(self) -> int:
        return self._type("Void")

    def type_bool(self) -> int:
        return self._type("Bool")

    def type_int(self, bits: int, signed: bool = False) -> int:
        """An integer of 8, 16, 32 or 64 bits."""
        found = self._type("Int", bits, int(signed))
        if bits == 64:
            self.capability("Int64")
        elif bits < 32:
            self.narrow[found] = f"Int{bits}"
        return found

    def type_float(self, bits: int, encoding: str = "") -> int:
        """A float of 16, 32 or 64 bits; ``encoding`` "BFloat16KHR" for the other one of 16."""
        found = self._type("Float", bits, *((encoding,) if encoding else ()))
        if bits == 64:
            self.capability("Float64")
        elif bits == 16 and not encoding:
            self.narrow[found] = "Float16"
        return found

    def type_vector(self, component: int, count: int) -> int:
        found = self._type("Vector", component, count)
        if component in self.narrow:
            self.narrow[found] = self.narrow[component]
        return found

    def type_array(self, element: int, length: int, stride: int = 0) -> int:
        """An array; ``length`` is the id of a constant, ``stride`` is in bytes where it lies in a buffer, else 0."""
        return self._strided("Array", element, length, stride=stride)

    def type_runtime_array(self, element: int, stride: int) -> int:
        """The array that is the last member of a buffer's block."""
        return self._strided("RuntimeArray", element, stride=stride)

    def _strided(self, name: str, *operands: int, stride: int) -> int:
        before = self._bound
        found = self._type(name, *operands, key=stride)
        if stride and found >= before:
            self.decorate(found, "ArrayStride", stride)
        return found

    def type_struct(
        self,
        members: Sequence[int],
        offsets: Sequence[int] | None = None,
        names: Sequence[str] = (),
        name: str = "",
        block: bool = False,
    ) -> int:
        """A struct; with ``offsets`` in bytes it has a layout, and with ``block`` it is what a binding shows."""
        key = (None if offsets is None else tuple(offsets), tuple(names), name, block)
        before = self._bound
        found = self._type("Struct", *members, key=key)
        if found < before:
            return found
        if name:
            self.name(found, name)
        for k, text in enumerate(names):
            self.member_name(found, k, text)
        for k, offset in enumerate(offsets or ()):
            self.member_decorate(found, k, "Offset", offset)
        if block:
            self.decorate(found, "Block")
        return found

    def type_pointer(self, storage: str, pointee: int) -> int:
        return self._type("Pointer", storage, pointee)

    def type_function(self, result: int, *parameters: int) -> int:
        return self._type("Function", result, *parameters)

    def type_cooperative_matrix(self, component: int, scope: str, rows: int, columns: int, use: int) -> int:
        """``rows``, ``columns`` and ``use`` are ids of constants (SPV_KHR_cooperative_matrix)."""
        found = self._type("CooperativeMatrixKHR", component, scope, rows, columns, use)
        if component in self.narrow:
            self.narrow[found] = self.narrow[component]
        return found

    def type_of(self, value: int) -> int:
        """The id of a value's type."""
        return self.types[value]

    def pointee(self, pointer: int) -> int:
        """The id of the type that a pointer, given by a value's id, points at."""
        return int(self.definitions[self.types[pointer]][2])

    # --- constants -----------------------------------------------------------------------------------------------
    def constant(self, type_: int, value: int | float | bool) -> int:
        """A scalar constant. Integers wrap to their width; floats are rounded to nearest even, once."""
        what, *more = self.definitions[type_]
        if what == "Bool":
            return self._constant("ConstantTrue" if value else "ConstantFalse", type_)
        width = int(more[0])
        if what == "Float":
            return self.constant_bits(type_, float_bits(float(value), width, bfloat=len(more) > 1))
        return self.constant_bits(type_, int(value))

    def constant_bits(self, type_: int, bits: int) -> int:
        """A number by its bits."""
        what, width, *more = self.definitions[type_]
        return self._constant("Constant", type_, *literal_words(bits, int(width), what == "Int" and more[0] == 1))

    def constant_composite(self, type_: int, *members: int) -> int:
        return self._constant("ConstantComposite", type_, *members)

    def null(self, type_: int) -> int:
        """The constant that is zero in all its parts."""
        return self._constant("ConstantNull", type_)

    def undef(self, type_: int) -> int:
        """A value that may be any; one for each type."""
        return self._constant("Undef", type_)

    def u32(self, value: int) -> int:
        """A constant of 32 bits without sign, as scopes, semantics and indices are."""
        return self.constant_bits(self.type_int(32), value)

    def _constant(self, name: str, type_: int, *words: int) -> int:
        known = (name, type_, words)
        found = self._interned.get(known)
        if found is None:
            self.need_narrow(type_)
            found = self._interned[known] = self.id()
            self.types[found] = type_
            self._globals += [first_word(3 + len(words), form(name).number), type_, found, *words]
        return found

    def spec_constant(self, type_: int, default: int | float | bool, spec_id: int, name: str = "") -> int:
        """The constant that a pipeline gives a value to by its number ``spec_id``; there is one of each number."""
        found = self._interned.get(("spec", spec_id))
        if found is not None:
            return found
        what, *more = self.definitions[type_]
        self.need_narrow(type_)
        found = self._interned[("spec", spec_id)] = self.id()
        self.types[found] = type_
        if what == "Bool":
            kind, words = "SpecConstantTrue" if default else "SpecConstantFalse", []
        else:
            width = int(more[0])
            bits = int(default) if what == "Int" else float_bits(default, width, bfloat=len(more) > 1)
            kind, words = "SpecConstant", literal_words(bits, width, what == "Int" and more[1] == 1)
        self._globals += [3 + len(words) << 16 | form(kind).number, type_, found, *words]
        self.decorate(found, "SpecId", spec_id)
        if name:
            self.name(found, name)
        return found

    def spec_composite(self, type_: int, *members: int) -> int:
        """A composite of which a member is a specialization constant."""
        return self._constant("SpecConstantComposite", type_, *members)

    def spec_op(self, name: str, type_: int, *operands: Operand) -> int:
        """What an instruction makes of specialization constants, computed with the pipeline."""
        inner = form(name)
        return self._constant("SpecConstantOp", type_, inner.number, *self.encode(inner, operands))

    def _parts(self, type_: int) -> set[int]:
        """The scalar types of less than 32 bits that a type is made of."""
        what, *more = self.definitions[type_]
        if what in ("Int", "Float"):
            return {type_} if int(more[0]) < 32 else set()
        members = more if what == "Struct" else more[:1] if what in _COMPOSITES else ()
        return set().union(*(self._parts(int(m)) for m in members))

    def need_narrow(self, type_: int) -> None:
        """Declare what arithmetic on a type of 8 or 16 bits, or a composite of them, needs."""
        if self.narrow:
            for inner in sorted(self._parts(type_)):
                if inner in self.narrow:
                    self.capability(self.narrow[inner])

    # --- decorations and names -----------------------------------------------------------------------------------
    def decorate(self, target: int, decoration: str, *operands: Operand) -> None:
        self._write(self._decorations, "Decorate", (), (target, decoration, *operands))

    def member_decorate(self, struct: int, member: int, decoration: str, *operands: Operand) -> None:
        self._write(self._decorations, "MemberDecorate", (), (struct, member, decoration, *operands))

    def name(self, target: int, text: str) -> None:
        """What disassemblers and debuggers call an id."""
        self._write(self._names, "Name", (), (target, text))

    def member_name(self, struct: int, member: int, text: str) -> None:
        self._write(self._names, "MemberName", (), (struct, member, text))
