"""What stands around kernels: array annotations, device functions, value structs. These work on the host."""

from __future__ import annotations

import operator
from types import FunctionType
from typing import Any, NoReturn, TypeVar, cast

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, StructType, Type
from magpie.language._builtin import host_error
from magpie.language.special import constexpr

__all__ = ["Array", "ArrayAnnotation", "DeviceFunction", "cdiv", "func", "struct", "struct_type"]

_C = TypeVar("_C", bound=type)


class ArrayAnnotation:
    """``Array[dtype]`` or ``Array[dtype, rank]``; ``type`` or ``rank`` None means any."""

    __slots__ = ("rank", "type")

    def __init__(self, type_: Type | None, rank: int | None) -> None:
        self.type = type_
        self.rank = rank

    def __repr__(self) -> str:
        inner = [repr(self.type)] if self.type is not None else []
        inner += [str(self.rank)] if self.rank is not None else []
        return f"mp.Array[{', '.join(inner)}]" if inner else "mp.Array"


class Array:
    """Annotation of an array parameter: ``Array`` (any), ``Array[dtype]``, ``Array[dtype, rank]`` with rank 0 to 4."""

    def __new__(cls, *args: object, **kwargs: object) -> Array:
        raise TypeError("mp.Array is an annotation; make arrays with mp.empty, mp.zeros or mp.asarray, or with NumPy")

    def __class_getitem__(cls, item: Any) -> ArrayAnnotation:
        type_, rank = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        element = type_ if isinstance(type_, DType) else struct_type(type_)
        if element is None:
            raise TypeError(f"mp.Array[...] takes a dtype such as mp.f32 or an @mp.struct class, not {type_!r}")
        if rank is not None and (type(rank) is not int or not 0 <= rank <= 4):
            raise TypeError(f"the rank in mp.Array[dtype, rank] is an int from 0 to 4, not {rank!r}")
        return ArrayAnnotation(element, rank)


class DeviceFunction:
    """A function marked ``@mp.func``: kernels and other device functions call it, compiled for what they pass."""

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __repr__(self) -> str:
        return f"<device function {self.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise host_error(f"the device function {self.__name__}", "call it from a function marked @mp.kernel") from None


def func(fn: FunctionType) -> DeviceFunction:
    """Mark a device function. It is specialised for each combination of argument types, arrays and constants."""
    if isinstance(fn, DeviceFunction):
        return fn
    if not isinstance(fn, FunctionType):
        raise TypeError(f"@mp.func marks a function written with def, not {fn!r}")
    return DeviceFunction(fn)


def cdiv(a: Any, b: Any) -> Any:
    """``a / b`` rounded up, for integers: the number of workgroups of ``b`` that cover ``a``. Works in kernels too."""
    return -(operator.index(a) // -operator.index(b))


def struct_type(cls: object) -> StructType | None:
    """The layout behind an ``@mp.struct`` class or one of its instances; None for anything else."""
    found = getattr(cls, "__magpie_struct__", None)
    return found if isinstance(found, StructType) else None


def struct(cls: _C) -> _C:
    """Make a class of annotated fields a value struct, laid out as C does.

    Instances are made on the host (``P(1.0, y=2.0)``) and in kernels. ``P.numpy`` is the NumPy structured dtype for
    arrays of it. Raises CompileError (``MPG_PY_1029``).
    """
    fields: list[tuple[str, Type]] = []
    defaults: dict[str, Any] = {}
    if cls.__bases__ != (object,):
        raise _struct_error(
            cls,
            f"struct {cls.__name__} has the base class {cls.__bases__[0].__name__}",
            "name the fields of the base class again",
        )
    for name, value in cls.__dict__.items():
        if isinstance(value, FunctionType | staticmethod | classmethod | property):
            raise _struct_error(
                cls,
                f"struct {cls.__name__} has the method {name}",
                "write a function marked @mp.func that takes the struct",
            )
    for name, annotation in _annotations(cls).items():
        type_: Type | None = annotation if isinstance(annotation, DType) else struct_type(annotation)
        if type_ is None or annotation is constexpr:
            raise _struct_error(
                cls,
                f"field {name} of struct {cls.__name__} is annotated with {annotation!r}",
                "use a dtype such as mp.f32, or another @mp.struct class",
            )
        if name in ("numpy", "astuple") or name.startswith("__"):
            raise _struct_error(
                cls,
                f"a field of struct {cls.__name__} cannot be called {name}",
                "structs have an attribute of this name",
            )
        fields.append((name, type_))
        if name in cls.__dict__:
            default = cls.__dict__[name]
            if not isinstance(default, int | float):
                raise _struct_error(
                    cls,
                    f"the default of field {name} of struct {cls.__name__} is no number",
                    "use a number, or leave it out",
                )
            defaults[name] = default
    if not fields:
        raise _struct_error(cls, f"struct {cls.__name__} has no fields", "write them as `x: mp.f32`")
    return cast(_C, _host_class(cls, StructType.build(cls.__name__, fields), defaults))


def _annotations(cls: type) -> dict[str, Any]:
    """The annotations of ``cls``, strings evaluated where the class was written."""
    import sys

    raw = dict(getattr(cls, "__annotations__", {}))
    if any(isinstance(a, str) for a in raw.values()):
        frame = sys._getframe(2)
        scope = {**getattr(sys.modules.get(cls.__module__), "__dict__", {}), **frame.f_globals, **frame.f_locals}
        for name, text in raw.items():
            if isinstance(text, str):
                try:
                    raw[name] = eval(text, scope)
                except Exception as error:
                    raise _struct_error(
                        cls,
                        f"field {name} of struct {cls.__name__} is annotated with {text!r}: {error}",
                        "use a dtype such as mp.f32",
                    ) from None
    return raw


def _struct_error(cls: type, message: str, help: str) -> CompileError:
    import sys

    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return CompileError(Diagnostic("MPG_PY_1029", message, Loc(frame.f_code.co_filename, frame.f_lineno), help=help))


def _host_class(cls: Any, type_: StructType, defaults: dict[str, Any]) -> Any:
    names = tuple(f.name for f in type_.fields)

    def init_(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__} has {len(names)} fields, {len(args)} values were given")
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in values:
                raise TypeError(f"{cls.__name__}: unexpected or repeated field {name!r}; fields: {', '.join(names)}")
            values[name] = value
        missing = [n for n in names if n not in values and n not in defaults]
        if missing:
            raise TypeError(f"{cls.__name__}: no value for {', '.join(missing)}")
        for name in names:
            setattr(self, name, values.get(name, defaults.get(name)))

    def repr_(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    def eq_(self: Any, other: object) -> bool:
        return type(other) is cls and all(getattr(self, n) == getattr(other, n) for n in names)

    def astuple(self: Any) -> tuple[Any, ...]:
        """The field values in order, nested structs as tuples: what a NumPy record of ``.numpy`` takes."""
        return tuple(
            v.astuple() if struct_type(v) is not None and hasattr(v, "astuple") else v
            for v in (getattr(self, n) for n in names)
        )

    def array_(self: Any, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.array(self.astuple(), dtype=type_.numpy if dtype is None else dtype)

    methods = {"__init__": init_, "__repr__": repr_, "__eq__": eq_, "__array__": array_, "astuple": astuple}
    for name, method in methods.items():
        setattr(cls, name, method)
    cls.__hash__ = None
    cls.__magpie_struct__ = type_
    cls.__magpie_defaults__ = defaults
    cls.numpy = _NumpyDtype()
    return cls


class _NumpyDtype:
    """``P.numpy``: made when asked for, since NumPy is not loaded with Magpie."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        return owner.__magpie_struct__.numpy
