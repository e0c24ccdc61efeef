"""Types of MPIR as kernels and buffers have them."""

from __future__ import annotations

from magpie.dtypes import StructType, Type
from magpie.mpir.nodes import Module
from magpie.mpir.types import Ty, scalar

__all__ = ["kernel_type"]


def kernel_type(module: Module, type_: Ty, known: dict[str, StructType]) -> Type | None:
    """A scalar or a value struct of these, laid out as in C; None for what no kernel computes with.

    ``known`` keeps the structs by their names, so that one struct is one object.
    """
    found = scalar(type_.owned)
    if found is not None:
        return found
    declared = module.struct(type_.name)
    if declared is None or declared.heap or type_.args:
        return None
    if type_.name not in known:
        fields: list[tuple[str, Type]] = []
        for name, field in declared.fields:
            inner = kernel_type(module, field, known)
            if inner is None:
                return None
            fields.append((name, inner))
        known[type_.name] = StructType.build(type_.name, fields)
    return known[type_.name]
