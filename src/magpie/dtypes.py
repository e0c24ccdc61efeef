"""Scalar types, value structs and the promotion rules of kernel code.

The rules (the language reference in docs/ARCHITECTURE.md states them for users):

* a float wins over an integer; two floats, or two integers of one signedness, take the wider;
* ``int / int`` is f32; f16 with bf16 is an error, since neither holds the other;
* mixing signed and unsigned is an error unless the signed side is wider, so that every value survives;
* ``index`` is a signed integer of 64 bits in *meaning* on every target; passes narrow it where that is proven right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from magpie.records import record

if TYPE_CHECKING:  # numpy is heavy and `import magpie` must stay light
    import numpy

__all__ = [
    "ALL_DTYPES",
    "DType",
    "PromotionError",
    "StructField",
    "StructType",
    "Type",
    "bf16",
    "bool_",
    "by_name",
    "f16",
    "f32",
    "f64",
    "from_numpy",
    "i8",
    "i16",
    "i32",
    "i64",
    "index",
    "is_struct",
    "leaf_name",
    "leaves",
    "promote",
    "u8",
    "u16",
    "u32",
    "u64",
]


@record
class DType:
    """A scalar type. There is exactly one object per type, so ``is`` and ``==`` agree.

    ``kind`` is one of ``"bool"``, ``"int"`` (signed), ``"uint"`` and ``"float"``; ``bits`` is the width in registers
    (1 for bool, which occupies one byte in memory).
    """

    name: str
    kind: str
    bits: int

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:  # keeps identity across pickling (multiprocessing, the disk cache)
        return (by_name, (self.name,))

    def __deepcopy__(self, memo: dict[int, Any]) -> DType:
        return self

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers and ``index``; false for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(1, self.bits // 8)

    @property
    def min(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max(self) -> int:
        """Largest value of an integer or bool type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    @property
    def numpy(self) -> numpy.dtype[Any]:
        """The NumPy dtype of the same memory layout. bf16 needs ``ml_dtypes``; without it this is ``uint16`` bits."""
        import numpy as np

        name: Any = _NUMPY_NAMES.get(self.name, "uint16")
        if self is bf16:
            try:
                import ml_dtypes

                name = ml_dtypes.bfloat16
            except ImportError:
                pass
        found: numpy.dtype[Any] = np.dtype(name)
        return found

    def __call__(self, value: Any = 0) -> Any:
        """On the host, a NumPy scalar of this type; in a kernel, a cast (the frontend handles it there)."""
        return self.numpy.type(value)


_NUMPY_NAMES = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "index": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}

bool_ = DType("bool", "bool", 1)
i8 = DType("i8", "int", 8)
i16 = DType("i16", "int", 16)
i32 = DType("i32", "int", 32)
i64 = DType("i64", "int", 64)
u8 = DType("u8", "uint", 8)
u16 = DType("u16", "uint", 16)
u32 = DType("u32", "uint", 32)
u64 = DType("u64", "uint", 64)
index = DType("index", "int", 64)
f16 = DType("f16", "float", 16)
bf16 = DType("bf16", "float", 16)
f32 = DType("f32", "float", 32)
f64 = DType("f64", "float", 64)

ALL_DTYPES = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
_BY_NAME = {t.name: t for t in (*ALL_DTYPES, index)}
_FROM_NUMPY = {_NUMPY_NAMES[t.name]: t for t in ALL_DTYPES if t is not bf16} | {"bfloat16": bf16}


def by_name(name: str) -> DType:
    """The scalar type called ``name`` (``"f32"``, ``"index"``, ...). Raises KeyError."""
    return _BY_NAME[name]


@record
class StructField:
    """One field of a value struct; ``offset`` in bytes from the start of the struct."""

    name: str
    type: Type
    offset: int


@record
class StructType:
    """A value struct: named fields at fixed byte offsets, the layout of the NumPy structured dtype it came from."""

    name: str
    fields: tuple[StructField, ...]
    itemsize: int
    align: int

    def __repr__(self) -> str:
        return self.name

    def field(self, name: str) -> StructField | None:
        return next((f for f in self.fields if f.name == name), None)

    def position(self, name: str) -> int:
        return next(i for i, f in enumerate(self.fields) if f.name == name)

    @property
    def numpy(self) -> numpy.dtype[Any]:
        import numpy as np

        return np.dtype(
            {
                "names": [f.name for f in self.fields],
                "formats": [f.type.numpy for f in self.fields],
                "offsets": [f.offset for f in self.fields],
                "itemsize": self.itemsize,
            },
            align=False,
        )

    @staticmethod
    def build(name: str, fields: list[tuple[str, Type]]) -> StructType:
        """Lay ``fields`` out as C does: each at a multiple of its alignment, the whole padded to the largest."""
        placed, offset, align = [], 0, 1
        for field_name, type_ in fields:
            a = type_.align if isinstance(type_, StructType) else type_.itemsize
            offset = (offset + a - 1) // a * a
            placed.append(StructField(field_name, type_, offset))
            offset += type_.itemsize
            align = max(align, a)
        return StructType(name, tuple(placed), max(1, (offset + align - 1) // align * align), align)


Type = DType | StructType


def is_struct(type_: object) -> bool:
    return isinstance(type_, StructType)


def leaves(type_: Type, path: tuple[int, ...] = (), offset: int = 0) -> Iterator[tuple[tuple[int, ...], DType, int]]:
    """Every scalar inside ``type_`` in declaration order: (path of field positions, scalar type, byte offset)."""
    if isinstance(type_, DType):
        yield path, type_, offset
        return
    for i, f in enumerate(type_.fields):
        yield from leaves(f.type, (*path, i), offset + f.offset)


def leaf_name(name: str, type_: Type, path: tuple[int, ...]) -> str:
    """``p.inner.x`` for a path of field positions inside ``p``."""
    for position in path:
        assert isinstance(type_, StructType)
        name += "." + type_.fields[position].name
        type_ = type_.fields[position].type
    return name


def from_numpy(dtype: numpy.dtype[Any], name: str = "struct") -> Type:
    """The Magpie type of a NumPy dtype (byte order must be native). Raises TypeError naming what is not supported."""
    if dtype.names is not None:
        fields = []
        for field_name in dtype.names:
            assert dtype.fields is not None
            sub, offset = dtype.fields[field_name][:2]
            fields.append(StructField(field_name, from_numpy(sub, f"{name}.{field_name}"), offset))
        return StructType(name, tuple(fields), dtype.itemsize, dtype.alignment)
    found = _FROM_NUMPY.get(dtype.name)
    if found is None:
        raise TypeError(f"dtype {dtype.name} is not supported in kernels; use one of {', '.join(_FROM_NUMPY)}")
    if not dtype.isnative:
        raise TypeError(
            f"dtype {dtype.str} is not in the byte order of this machine; convert with .astype({dtype.name!r})"
        )
    return found


class PromotionError(TypeError):
    """Two types have no common type. ``reason`` is ``"sign"`` or ``"half"``; ``cast`` is a type that helps."""

    def __init__(self, message: str, reason: str, cast: DType) -> None:
        super().__init__(message)
        self.reason = reason
        self.cast = cast


def promote(a: DType, b: DType) -> DType:
    """The type of ``a + b`` for two strongly typed operands. Raises PromotionError where a value could be lost."""
    if a is b:
        return a
    if a.is_bool or b.is_bool:
        other = b if a.is_bool else a
        return i32 if other.is_bool else other
    if a.is_float and b.is_float:
        if a.bits == b.bits:  # f16 with bf16: neither range nor precision contains the other
            raise PromotionError(f"{a} and {b} have no common type", "half", f32)
        return a if a.bits > b.bits else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.kind == b.kind:
        if a.bits == b.bits:  # i64 with index: the same values; the declared type wins
            return b if a is index else a
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    wider = {8: i16, 16: i32, 32: i64}.get(unsigned.bits, i64)
    raise PromotionError(f"{a} and {b} mix signed and unsigned", "sign", wider)
