"""What the parameters of a kernel or device function are annotated with. Cheap: reads no source."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, Type
from magpie.language.declare import Array, ArrayAnnotation, struct_type
from magpie.language.special import constexpr
from magpie.records import record

__all__ = ["NO_DEFAULT", "Parameter", "namespace", "read_annotation", "signature_of"]

NO_DEFAULT: Any = type("_NoDefault", (), {"__repr__": lambda self: "<no default>"})()


@record
class Parameter:
    """One parameter. ``kind`` is ``array``, ``scalar`` (also structs), ``constexpr`` or ``any`` (as the argument is).

    ``type`` and ``rank`` are None where the annotation leaves them open; ``default`` is ``NO_DEFAULT`` without one.
    With the default None an argument may be left out, or be None, which is a compile-time constant then.
    """

    name: str
    kind: str
    type: Type | None = None
    rank: int | None = None
    default: Any = NO_DEFAULT
    keyword_only: bool = False


def namespace(fn: FunctionType) -> dict[str, Any]:
    """The names of ``fn``'s closure with their present values."""
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def read_annotation(annotation: Any) -> tuple[str, Type | None, int | None] | None:
    """(kind, type, rank) of an annotation object, or None if it means nothing here."""
    if isinstance(annotation, DType):
        return "scalar", annotation, None
    if isinstance(annotation, ArrayAnnotation):
        return "array", annotation.type, annotation.rank
    if annotation is Array:
        return "array", None, None
    if annotation is constexpr:
        return "constexpr", None, None
    if annotation in (int, float, bool):
        return "any", None, None
    found = struct_type(annotation)
    return ("scalar", found, None) if found is not None else None


def signature_of(fn: FunctionType) -> tuple[Parameter, ...]:
    """The parameters of ``fn``. Raises CompileError (``MPG_PY_1022``, ``MPG_PY_1001``)."""
    code = fn.__code__
    here = Loc(code.co_filename, code.co_firstlineno)
    if code.co_flags & 0x0C:  # *args, **kwargs
        raise CompileError(
            Diagnostic(
                "MPG_PY_1001", f"{code.co_name} has a *args or **kwargs parameter", here, help="name each parameter"
            )
        )
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = fn.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(positional) : code.co_argcount], positional, strict=True))
    defaults |= fn.__kwdefaults__ or {}
    annotations = fn.__annotations__
    out = []
    for i, name in enumerate(names):
        kind: str = "any"
        type_: Type | None = None
        rank: int | None = None
        if name in annotations:
            annotation = annotations[name]
            while isinstance(annotation, str):  # twice where a quoted one meets `from __future__ import annotations`
                try:
                    annotation = eval(annotation, fn.__globals__, namespace(fn))
                except Exception as error:
                    raise _bad(name, f"{annotation!r} ({type(error).__name__}: {error})", here) from None
            read = read_annotation(annotation)
            if read is None:
                raise _bad(name, repr(annotation), here)
            kind, type_, rank = read
        out.append(Parameter(name, kind, type_, rank, defaults.get(name, NO_DEFAULT), i >= code.co_argcount))
    return tuple(out)


def _bad(name: str, what: str, loc: Loc) -> CompileError:
    return CompileError(
        Diagnostic(
            "MPG_PY_1022",
            f"the annotation of parameter {name} is not understood: {what}",
            loc,
            help="use a dtype such as mp.f32, mp.Array[mp.f32], mp.Array[mp.f32, 2], a struct class, mp.constexpr, "
            "or no annotation",
        )
    )
