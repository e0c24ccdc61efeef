"""What users may write for an element type, as Magpie's own type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie import dtypes
from magpie.dtypes import DType, StructType, Type
from magpie.errors import LaunchTypeError

if TYPE_CHECKING:
    import numpy

__all__ = ["as_type", "numpy_type", "type_of"]

_PYTHON = {bool: dtypes.bool_, int: dtypes.i64, float: dtypes.f64}


def as_type(spec: Any) -> Type:
    """The type for an mp dtype, a `@mp.struct` class, a NumPy dtype or scalar type, or a name such as "f32".

    Raises LaunchTypeError for what kernels have no type for.
    """
    if isinstance(spec, DType | StructType):
        return spec
    struct = struct_type(spec)
    if struct is not None:
        return struct
    if isinstance(spec, str):
        try:
            return dtypes.by_name(spec)
        except KeyError:
            pass
    if spec in _PYTHON if isinstance(spec, type) else False:
        return _PYTHON[spec]
    import numpy as np

    try:
        dtype = np.dtype(spec)
    except TypeError:
        raise LaunchTypeError(
            f"{spec!r} is no element type; write mp.f32, a NumPy dtype or an @mp.struct class",
            diagnostic="MPG_LAUNCH_1017",
        ) from None
    return type_of(dtype)


def struct_type(spec: Any) -> StructType | None:
    """The type of a `@mp.struct` class or instance; None for anything else."""
    found = getattr(spec, "__magpie_struct__", None)
    return found if isinstance(found, StructType) else None


def type_of(dtype: numpy.dtype[Any], what: str = "the array") -> Type:
    """The type of a NumPy dtype. Raises LaunchTypeError naming what is wrong with it."""
    if dtype.fields is None and not dtype.isnative:
        raise LaunchTypeError(
            f"{what} has dtype {dtype.str}, which is not in the byte order of this machine",
            diagnostic="MPG_LAUNCH_1009",
            help=f"convert it once with .astype({dtype.newbyteorder('=').name!r})",
        )
    try:
        return dtypes.from_numpy(dtype)
    except TypeError as error:
        raise LaunchTypeError(f"{what}: {error}", diagnostic="MPG_LAUNCH_1017") from None


def numpy_type(type_: Type) -> numpy.dtype[Any]:
    """The NumPy dtype of the same memory layout."""
    return type_.numpy
