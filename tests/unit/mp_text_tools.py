"""Runs of the conformance suite with the kernel's `.mp` text in place of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import magpie as mp
from magpie.dtypes import StructType
from magpie.frontend.mp.canonical import format_source
from magpie.frontend.mp.emit import kernel_text
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.ir.nodes import Buffer, Kernel
from magpie.mpir import parse_module, print_module, verify
from magpie.mpir.emit import emit_kernel
from magpie.runtime.arguments import bind
from magpie.runtime.inspection import _lowered
from tests.conformance.harness import Run


class Left(Exception):  # noqa: N818 - no error: the reason why the text of a kernel cannot stand in for it
    """A run whose arguments `.mp` text does not take."""


def lowered(run: Run) -> Kernel:
    """The Kernel IR of a run's arguments."""
    return _lowered(run.kernel, run.args, {}, warn=False).kernel


def text_of(kernel: Kernel) -> str:
    """The text of a kernel; it is in the canonical form, and there is nothing to say of it, nor of its MPIR."""
    module = emit_kernel(kernel)
    assert verify(module) == []
    printed = print_module(module, locations=False)
    assert print_module(parse_module(printed), locations=False) == printed
    text = kernel_text(kernel)
    source = Source(text, f"{kernel.name}.mp")
    assert [str(d) for d in check_source(source).diagnostics] == []
    assert format_source(source) == text
    return text


def in_text(run: Run, folder: Path) -> Run:
    """The run with a kernel loaded from its text. Raises Left, or CompileError for what the language cannot say."""
    kernel = lowered(run)
    names = [p.name for p in run.kernel.parameters]
    values = bind(run.kernel.__name__, run.kernel.parameters, run.args, {})
    places: dict[int, int] = {}  # of each argument where it stands in the text's
    args: list[Any] = []
    dims: list[int] = []
    for param in kernel.params:
        at = names.index(param.name)
        value = values[at]
        if isinstance(param, Buffer):
            if not isinstance(value, np.ndarray):
                raise Left(f"an argument that is a {type(value).__name__}")
            if not value.flags.c_contiguous:
                raise Left("strided arrays")
            dims += value.shape if value.ndim > 1 else ()
            value = value.reshape(-1)
        elif isinstance(param.type, StructType) and not isinstance(value, np.void):
            value = _fields(value, param.type)
        places[at] = len(args)
        args.append(value)
    text = text_of(kernel)
    path = folder / f"{kernel.name}.mp"
    path.write_text(text)
    module = mp.load_module(path)
    (name,) = module
    expect: Any = run.expect
    if callable(expect):
        expect = _moved(expect, run.args, places)
    else:
        expect = {places[k]: v for k, v in expect.items()}
    grid = run.grid
    if grid is None:
        size = run.block if isinstance(run.block, int) else run.block[0]
        grid = mp.cdiv(np.asarray(next(iter(run.expect.values()))).size, size)  # type: ignore[union-attr]
    return replace(run, kernel=module[name], args=(*args, *dims), expect=expect, grid=grid)


def _fields(value: Any, type_: StructType) -> tuple[Any, ...]:
    """A struct value as the tuple of its fields: the text's struct is another class."""
    parts = [(getattr(value, f.name), f.type) for f in type_.fields]
    return tuple(_fields(v, t) if isinstance(t, StructType) else v for v, t in parts)


def _moved(expect: Callable[..., Any], args: tuple[Any, ...], places: dict[int, int]) -> Callable[..., Any]:
    return lambda *_: {places[k]: v for k, v in expect(*args).items()}
