"""The structs, enums and handles that every module has, and the fields and variants of a type.

Those of gpu.* and mlx.* are the specification's (sections 4.2, 4.3, 8.2 to 8.7, 9.3, 11.2 and 11.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from magpie.errors import GpuErrorKind
from magpie.mpir.nodes import Enum, Module, Struct
from magpie.mpir.types import Ty

__all__ = ["ENUMS", "HANDLES", "MLX_ELEMENTS", "STRUCTS", "Fields", "field_type", "fields_of", "replace", "variants_of"]

Fields = list[tuple[str, Ty]]


def _choices(name: str, *variants: str) -> Enum:
    return Enum(name, [(v, []) for v in variants])


def _u64(*names: str) -> Fields:
    return [(name, Ty("u64")) for name in names]


def _layer(name: str, fields: str) -> Struct:
    return Struct(f"mlx.nn.{name}", [("handle", Ty("mlx.nn.TLayerHandle")), *_u64(*fields.split())], heap=True)


def _optimizer(name: str, *fields: str) -> Struct:
    handle = ("handle", Ty("mlx.optim.TOptimizerHandle"))
    return Struct(f"mlx.optim.{name}", [handle, *((field, Ty("f32")) for field in fields)], heap=True)


def _arrays(name: str, *fields: str) -> Struct:
    return Struct(name, [(field, Ty("mlx.TArray", (Ty("T"),))) for field in fields], heap=True, params=("T",))


_LAYERS = {
    "TLinear": "in_features out_features",
    "TConv1d": "in_ch out_ch kernel_size",
    "TConv2d": "in_ch out_ch kernel_size",
    "TLayerNorm": "dims",
    "TBatchNorm": "num_features",
    "TRnn": "input_size hidden_size",
    "TLstm": "input_size hidden_size",
    "TGru": "input_size hidden_size",
    "TTransformerEncoderLayer": "d_model nhead",
    "TEmbedding": "num_embeddings dim",
    "TMultiHeadAttention": "d_model nhead",
}
_OPTIMIZERS = {
    "TAdam": ("learning_rate",),
    "TSgd": ("learning_rate", "momentum"),
    "TAdamW": ("learning_rate", "weight_decay"),
}
_T, _E, _STR = Ty("T"), Ty("E"), Ty("Str")
ENUMS: dict[str, Enum] = {
    e.name: e
    for e in (
        Enum("TOption", [("Some", [("v", _T)]), ("None", [])], ("T",)),
        Enum("TResult", [("Ok", [("v", _T)]), ("Err", [("v", _E)])], ("T", "E")),
        _choices("gpu.ErrorKind", *(kind.name for kind in GpuErrorKind)),
        _choices("gpu.MemoryHint", "Auto", "DeviceLocal", "Unified", "Staging", "Cached"),
    )
}
STRUCTS: dict[str, Struct] = {
    s.name: s
    for s in (
        Struct(
            "gpu.TError",
            [("kind", Ty("gpu.ErrorKind")), ("backend", _STR), ("message", _STR), ("code", Ty("i32"))],
            heap=True,
        ),
        Struct(
            "gpu.TProfileEvent",
            [("name", _STR), *_u64("start_ns", "end_ns"), ("metadata", Ty("Map", (_STR, _STR)))],
            heap=True,
        ),
        Struct(
            "gpu.TMemoryStats",
            _u64(
                *("allocated_bytes", "peak_allocated_bytes", "num_allocations", "num_frees"),
                *("device_total_bytes", "device_available_bytes"),
            ),
            heap=True,
        ),
        Struct("TParseError", [("text", _STR), ("message", _STR)], heap=True),
        Struct("TIoError", [("path", _STR), ("message", _STR)], heap=True),
        *(_layer(name, fields) for name, fields in _LAYERS.items()),
        *(_optimizer(name, *fields) for name, fields in _OPTIMIZERS.items()),
        _arrays("mlx.TSvdResult", "u", "s", "vt"),
        _arrays("mlx.TGradResult", "value", "grad"),
        _arrays("mlx.TComplex", "re", "im"),
    )
}

#: Types that nobody looks into, with the number of their arguments.
HANDLES: dict[str, int] = {
    "gpu.TDevice": 0,
    "gpu.TBuffer": 1,
    "gpu.TFence": 0,
    "gpu.TProfileSession": 0,
    "mlx.TArray": 1,
    "mlx.nn.TLayerHandle": 0,
    "mlx.optim.TOptimizerHandle": 0,
    "TStrBuilder": 0,
}


#: What an array of MLX holds (specification, section 8.2).
MLX_ELEMENTS = frozenset(["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"])


def replace(type_: Ty, names: Mapping[str, Ty]) -> Ty:
    """The type with types in place of names."""
    found = names.get(type_.name)
    if found is not None and not type_.args:
        return Ty(found.name, found.args, type_.mode or found.mode)
    return Ty(type_.name, tuple(replace(a, names) for a in type_.args), type_.mode) if type_.args else type_


def fields_of(module: Module, type_: Ty) -> Fields | None:
    """The fields of a struct; None for what is no struct, or has another number of arguments. Not to be changed."""
    known: Fields | None = module.memo.get(("fields", type_))
    if known is not None:
        return known
    struct = module.struct(type_.name) or STRUCTS.get(type_.name)
    if struct is None or len(struct.params) != len(type_.args):
        return None
    names = dict(zip(struct.params, type_.args, strict=True))
    made = [(name, replace(field, names)) for name, field in struct.fields]
    module.memo["fields", type_] = made
    return made


def field_type(module: Module, fields: Fields, name: str) -> Ty | None:
    """The type of one of the ``fields`` that `fields_of` or `variants_of` gave; None where none has the name."""
    known: tuple[Fields, dict[str, Ty]] | None = module.memo.get(("names", id(fields)))
    if known is None:
        known = module.memo["names", id(fields)] = (fields, dict(fields))  # the list stays, and its id with it
    return known[1].get(name)


def variants_of(module: Module, type_: Ty) -> dict[str, Fields] | None:
    """The variants of an enum in their order, with their fields; None for what is no enum. Not to be changed."""
    known: dict[str, Fields] | None = module.memo.get(("variants", type_))
    if known is not None:
        return known
    enum = module.enum(type_.name) or ENUMS.get(type_.name)
    if enum is None or len(enum.params) != len(type_.args):
        return None
    names = dict(zip(enum.params, type_.args, strict=True))
    made = {variant: [(name, replace(field, names)) for name, field in fields] for variant, fields in enum.variants}
    module.memo["variants", type_] = made
    return made
