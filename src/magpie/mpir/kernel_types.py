"""Types of MPIR as kernels and buffers have them."""

from __future__ import annotations

import re

from magpie.dtypes import StructType, Type
from magpie.mpir.nodes import Module
from magpie.mpir.prelude import fields_of
from magpie.mpir.types import Ty, scalar

__all__ = ["kernel_type"]


def kernel_type(module: Module, type_: Ty, known: dict[str, StructType]) -> Type | None:
    """A scalar or a value struct of these, laid out as in C; None for what no kernel computes with.

    ``known`` keeps the structs by their types as text, so that one struct is one object. TPair<f32> is called TPair_f32
    there, or by another name that no struct has.
    """
    found = scalar(type_.owned)
    if found is not None:
        return found
    declared = module.struct(type_.name)
    declared_fields = fields_of(module, type_.owned)
    if declared is None or declared.heap or declared_fields is None:
        return None
    key = str(type_.owned)
    if key not in known:
        fields: list[tuple[str, Type]] = []
        for name, field in declared_fields:
            inner = kernel_type(module, field, known)
            if inner is None:
                return None
            fields.append((name, inner))
        known[key] = StructType.build(_name(module, key), fields)
    return known[key]


def _name(module: Module, key: str) -> str:
    if key.isidentifier():
        return key
    found = "_".join(re.findall(r"\w+", key))
    while module.struct(found) is not None:
        found += "_"
    return found
