"""From what a user passes to what a kernel is specialised on: one descriptor a parameter, and values ready to pack.

Everything is checked here, before anything is compiled or run, and no array is touched: an error leaves the world as it
was. The common cases never come here (`magpie.runtime.fastpath`): this code may take its time.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, StructType, Type
from magpie.errors import LaunchTypeError, LaunchValueError
from magpie.frontend.python.annotations import NO_DEFAULT, Parameter
from magpie.frontend.signature import Arg, ArrayArg, ConstArg, ScalarArg, WeakArg
from magpie.records import record
from magpie.runtime.arrays import foreign_array, is_array_like
from magpie.runtime.buffer import Buffer, freed_error, type_name
from magpie.runtime.foreign import remember
from magpie.runtime.keys import FREED, MAX_RANK, ArrayKey, array_key, is_small
from magpie.runtime.types import struct_type, type_of

if TYPE_CHECKING:
    import numpy

__all__ = ["Signature", "bind", "numpy_key", "signature"]


@record
class Signature:
    """A checked argument list: `args` for the frontend, `keys` (None for what is no array), and the values themselves.

    An array among `values` is a `Buffer` or a plain `numpy.ndarray`; a scalar is as the user passed it.
    """

    args: tuple[Arg, ...]
    keys: tuple[ArrayKey | None, ...]
    values: tuple[Any, ...]


def bind(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The values in parameter order, defaults filled in. Raises LaunchTypeError (MPG_LAUNCH_1001)."""
    positional = [p for p in parameters if not p.keyword_only]
    if len(args) > len(positional):
        raise _count(kernel, parameters, f"takes {len(positional)} arguments, and {len(args)} were passed")
    given = dict(zip((p.name for p in positional), args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise _count(kernel, parameters, f"got two values for {name!r}")
        if all(p.name != name for p in parameters):
            raise _count(kernel, parameters, f"has no parameter {name!r}")
        given[name] = value
    values = tuple(given.get(p.name, p.default) for p in parameters)
    missing = [p.name for p, v in zip(parameters, values, strict=True) if v is NO_DEFAULT]
    if missing:
        raise _count(kernel, parameters, f"got no value for {', '.join(map(repr, missing))}")
    return values


def _count(kernel: str, parameters: Sequence[Parameter], what: str) -> LaunchTypeError:
    shown = ", ".join(describe_parameter(p) for p in parameters)
    return LaunchTypeError(
        f"kernel {kernel!r} {what}", diagnostic="MPG_LAUNCH_1001", help=f"its signature is {kernel}({shown})"
    )


def describe_parameter(p: Parameter) -> str:
    """A parameter as its author wrote it."""
    if p.kind == "array":
        parts = [] if p.type is None else [type_name(p.type)]
        inner = ", ".join(parts if p.rank is None else [*parts, str(p.rank)])
        return f"{p.name}: mp.Array[{inner}]" if inner else f"{p.name}: mp.Array"
    if p.kind == "scalar" and p.type is not None:
        return f"{p.name}: {type_name(p.type)}"
    return f"{p.name}: mp.constexpr" if p.kind == "constexpr" else p.name


def signature(parameters: Sequence[Parameter], values: Sequence[Any]) -> Signature:
    """Check and describe the arguments. Raises LaunchTypeError or LaunchValueError naming the parameter."""
    from magpie.runtime.scalars import convert

    args: list[Arg] = []
    keys: list[ArrayKey | None] = []
    out: list[Any] = []
    for p, value in zip(parameters, values, strict=True):
        key: ArrayKey | None = None
        arg: Arg
        if p.kind == "constexpr":
            arg = ConstArg(check_constant(value, p.name))
        elif value is None and p.default is None:  # optional, and not there
            arg = ConstArg(None)
        elif p.kind == "scalar":
            assert p.type is not None
            if _is_array(value) and getattr(value, "shape", None) != ():
                raise LaunchTypeError(
                    f"argument {p.name!r} must be a {_kind(p.type)}; got an array of shape {tuple(value.shape)}",
                    diagnostic="MPG_LAUNCH_1002",
                    help=f"the kernel declares {describe_parameter(p)}",
                )
            if isinstance(value, Buffer):
                value = value.item()
            convert(value, p.type, p.name)
            arg = ScalarArg(p.type)
        elif p.kind == "array" or _is_array(value):
            value, key = _array(p, value)
            assert key.arg is not None
            arg = key.arg
        else:
            arg, value = _by_value(p, value)
        args.append(arg)
        keys.append(key)
        out.append(value)
    return Signature(tuple(args), tuple(keys), tuple(out))


def _kind(type_: Type) -> str:
    return f"struct {type_.name}" if isinstance(type_, StructType) else f"number of type {type_.name}"


def _is_array(value: Any) -> bool:
    kind = type(value)
    if kind is Buffer:
        return True
    if kind in (bool, int, float, str, type(None), tuple, list):
        return False
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.ndarray):
            return True
        if isinstance(value, numpy.generic):
            return False
    return struct_type(value) is None and is_array_like(value)


# --- arrays ----------------------------------------------------------------------------------------------------------
def _array(p: Parameter, value: Any) -> tuple[Any, ArrayKey]:
    if type(value) is Buffer:
        key = value._key
        if key is FREED:
            raise freed_error()
    else:
        value = value if _plain(value) else _foreign(p, value)
        key = value._key if type(value) is Buffer else numpy_key(value, p.name)
    assert key.arg is not None
    if p.type is not None and not _same_type(p.type, key.arg.type):
        found = type_name(key.arg.type)
        raise LaunchTypeError(
            f"argument {p.name!r} is an array of {found}, and the kernel declares {type_name(p.type)}",
            diagnostic="MPG_LAUNCH_1003",
            help=f"convert it ({p.name}.astype({_numpy_name(p.type)})), or leave the type out of the annotation",
        )
    if p.rank is not None and key.arg.rank != p.rank:
        raise LaunchTypeError(
            f"argument {p.name!r} has {key.arg.rank} dimensions (shape {tuple(value.shape)}), not {p.rank}",
            diagnostic="MPG_LAUNCH_1004",
            help="reshape the array, or leave the rank out of the annotation",
        )
    if p.type is not None and key.arg.type != p.type:
        # A structured dtype knows no name: the declared struct of the same layout gives it one.
        key = array_key(
            p.type,
            key.arg.rank,
            contiguous=key.contiguous,
            aligned=key.aligned,
            small=key.small,
            writable=key.writable,
            device=key.device,
        )
    return value, key


def _plain(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _foreign(p: Parameter, value: Any) -> numpy.ndarray[Any, Any] | Buffer:
    if not _is_array(value):
        hint = None
        if value is None:
            hint = f"give {p.name!r} the default None in the kernel's signature if it may be left out"
        if isinstance(value, list | tuple):
            hint = f"make an array of it: np.array({p.name}, {_numpy_name(p.type) if p.type else 'np.float32'})"
        raise LaunchTypeError(
            f"argument {p.name!r} must be an array; got {_shown(value)}", diagnostic="MPG_LAUNCH_1002", help=hint
        )
    # (torch first: its tensors that require grad raise RuntimeError where the other is asked for)
    if getattr(value, "is_cuda", False) is True or hasattr(value, "__cuda_array_interface__"):
        from magpie.runtime.drivers.gpu.arrays import device_array

        found = device_array(value, p.name)
        if found is not None:
            remember(value, found)
            return found
    array = foreign_array(value, p.name)
    remember(value, array)
    return array


def numpy_key(array: numpy.ndarray[Any, Any], name: str) -> ArrayKey:
    """The key of a NumPy array. Raises LaunchTypeError or LaunchValueError for one that kernels cannot address."""
    type_ = type_of(array.dtype, f"argument {name!r}")
    if array.ndim > MAX_RANK:
        raise LaunchValueError(
            f"argument {name!r} has {array.ndim} dimensions; kernels take at most {MAX_RANK}",
            diagnostic="MPG_LAUNCH_1018",
            help="merge dimensions with reshape",
        )
    flags = array.flags
    size = array.itemsize
    uneven = any(s % size for s in array.strides)
    if uneven or not flags.aligned:
        what = f"has strides {array.strides}, no multiples of {size} bytes" if uneven else "lies at an odd address"
        raise LaunchValueError(
            f"argument {name!r} {what}, so its elements cannot be addressed",
            diagnostic="MPG_LAUNCH_1018",
            help=f"pass np.ascontiguousarray({name})" if uneven else f"pass {name}.copy()",
        )
    span = sum((n - 1) * abs(s // size) for n, s in zip(array.shape, array.strides, strict=True)) + 1
    return array_key(
        type_,
        array.ndim,
        contiguous=flags.c_contiguous,
        aligned=False,
        small=is_small(array.shape, span),
        writable=flags.writeable,
        device=None,
    )


def _same_type(declared: Type, found: Type) -> bool:
    if declared is found or declared == found:
        return True
    if isinstance(declared, StructType) and isinstance(found, StructType):
        return declared.numpy == found.numpy
    return isinstance(declared, DType) and isinstance(found, DType) and {declared.name, found.name} == {"i64", "index"}


def _numpy_name(type_: Type | None) -> str:
    if not isinstance(type_, DType):
        return "P.numpy" if isinstance(type_, StructType) else "np.float32"
    return "ml_dtypes.bfloat16" if type_.name == "bf16" else f"np.{'bool_' if type_.is_bool else type_.numpy.name}"


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} of type {type(value).__name__}"


# --- values ----------------------------------------------------------------------------------------------------------
def _by_value(p: Parameter, value: Any) -> tuple[Arg, Any]:
    """A scalar or a struct for a parameter without annotation."""
    kind = type(value)
    if kind in (bool, int, float):
        return WeakArg(kind.__name__), value
    own = struct_type(kind)
    if own is not None:
        from magpie.runtime.scalars import convert

        convert(value, own, p.name)
        return ScalarArg(own), value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return ScalarArg(type_of(value.dtype, f"argument {p.name!r}")), value
    if isinstance(value, bool | int | float):  # subclasses: IntEnum and the like
        base = bool if isinstance(value, bool) else int if isinstance(value, int) else float
        return WeakArg(base.__name__), base(value)
    hint = "pass an array, a number or a struct"
    if isinstance(value, list | tuple):
        hint = f"make an array of it (np.array({p.name})), or declare {p.name}: mp.constexpr for a tuple of constants"
    elif isinstance(value, str | FunctionType | DType):
        hint = f"declare {p.name}: mp.constexpr"
    raise LaunchTypeError(
        f"argument {p.name!r} is {_shown(value)}, which no kernel can take", diagnostic="MPG_LAUNCH_1002", help=hint
    )


def check_constant(value: Any, name: str) -> Any:
    """`value` if it can be a compile-time constant. NumPy scalars become Python numbers. Raises LaunchTypeError."""
    if value is None or isinstance(value, bool | int | float | str | DType | FunctionType | BuiltinFunctionType):
        return value
    if isinstance(value, tuple):
        return tuple(check_constant(v, name) for v in value)
    if hasattr(value, "fn") and isinstance(value.fn, FunctionType):  # @mp.func
        return value
    if isinstance(value, type) and struct_type(value) is not None:
        return value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and isinstance(value.item(), bool | int | float):
        return value.item()
    raise LaunchTypeError(
        f"argument {name!r} is a compile-time constant and cannot be {_shown(value)}",
        diagnostic="MPG_LAUNCH_1019",
        help="use a number, a bool, a string, a dtype, a function, or a tuple of these",
    )


def constant_key(value: Any) -> Any:
    """A hashable stand-in for a constant that keeps 1, 1.0 and True apart, and 0.0 from -0.0."""
    if type(value) is tuple:
        return tuple(constant_key(v) for v in value)
    if type(value) is float:
        return float, struct.pack("d", value)
    return type(value), value


def describe_args(args: Sequence[Arg]) -> str:
    """A signature for people: ``(f32, array<f32, 1>, array<f32, 1>)``."""
    parts = []
    for arg in args:
        if isinstance(arg, ArrayArg):
            parts.append(f"array<{type_name(arg.type)}, {arg.rank}>")
        elif isinstance(arg, ScalarArg):
            parts.append(type_name(arg.type))
        elif isinstance(arg, WeakArg):
            parts.append(arg.kind)
        else:
            parts.append(f"constexpr {arg.value!r}")
    return f"({', '.join(parts)})"
