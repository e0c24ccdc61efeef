"""Kernels as text: lowered for arguments that their parameter names stand for."""

from __future__ import annotations

import itertools
import linecache
import math
import textwrap
from typing import Any

import magpie as mp
from magpie.diagnostics import CompileError
from magpie.frontend.python import Lowered, lower
from magpie.frontend.python.annotations import signature_of
from magpie.frontend.signature import Arg, ArrayArg, ConstArg, ScalarArg, WeakArg
from magpie.language.declare import struct_type

_number = itertools.count()


@mp.struct
class P:
    x: mp.f32
    y: mp.f32


@mp.struct
class Q:
    p: P
    n: mp.i32


@mp.func
def square(v):
    return v * v


# What a parameter of this name is given.
ARGS: dict[str, Arg] = {
    "x": ArrayArg(mp.f32, 1),
    "y": ArrayArg(mp.f32, 1),
    "z": ArrayArg(mp.f32, 1),
    "out": ArrayArg(mp.f32, 1),
    "m": ArrayArg(mp.f32, 2),
    "m2": ArrayArg(mp.f32, 2),
    "t3": ArrayArg(mp.f32, 3),
    "s0": ArrayArg(mp.f32, 0),
    "d": ArrayArg(mp.f64, 1),
    "i32s": ArrayArg(mp.i32, 1),
    "u32s": ArrayArg(mp.u32, 1),
    "u8s": ArrayArg(mp.u8, 1),
    "i8s": ArrayArg(mp.i8, 1),
    "i64s": ArrayArg(mp.i64, 1),
    "u64s": ArrayArg(mp.u64, 1),
    "bools": ArrayArg(mp.bool_, 1),
    "h": ArrayArg(mp.f16, 1),
    "bh": ArrayArg(mp.bf16, 1),
    "ps": ArrayArg(struct_type(P), 1),  # type: ignore[arg-type]
    "qs": ArrayArg(struct_type(Q), 1),  # type: ignore[arg-type]
    "n": ScalarArg(mp.i32),
    "n64": ScalarArg(mp.i64),
    "un": ScalarArg(mp.u32),
    "f": ScalarArg(mp.f32),
    "flag": ScalarArg(mp.bool_),
    "p": ScalarArg(struct_type(P)),  # type: ignore[arg-type]
    "wi": WeakArg("int"),
    "wf": WeakArg("float"),
    "wb": WeakArg("bool"),
    "c3": ConstArg(3),
}


def define(source: str, **names: Any) -> dict[str, Any]:
    """Run ``source`` as a module whose lines the frontend can find; its names."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    file = f"<kernel {next(_number)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = {"__name__": file, "mp": mp, "math": math, "P": P, "Q": Q, "square": square, **names}
    exec(compile(source, file, "exec", dont_inherit=True), scope)  # without this file's __future__
    return scope


def lowered(
    source: str,
    workgroup: Any = None,
    args: dict[str, Arg] | None = None,
    requires: frozenset[str] = frozenset(),
    **names: Any,
) -> Lowered:
    """The function ``k`` of ``source``, lowered."""
    fn = define(source, **names)["k"]
    table = {**ARGS, **(args or {})}
    return lower(fn, tuple(table[p.name] for p in signature_of(fn)), workgroup=workgroup, requires=requires)


def error_of(source: str, **names: Any) -> CompileError:
    """The CompileError of lowering ``k``."""
    try:
        lowered(source, **names)
    except CompileError as error:
        return error
    raise AssertionError("no error")
