"""The math library (`magpie.lib.math`) as functions of lanes, interpreted like any other Kernel IR.

Every target of the bit contract runs the same functions, so constants, the interpreter and compiled code agree. A
function is compiled to closures when it is first called and kept for the process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from magpie.backends.interp.context import Chunk, Launch
from magpie.backends.interp.memory import owned_window
from magpie.backends.interp.numerics.lanes import Lanes, scalar
from magpie.backends.interp.reports import Collector
from magpie.dtypes import DType, by_name
from magpie.ir.builder import Builder
from magpie.ir.nodes import ConstArray, Kernel, Scalar, Slot

__all__ = ["library_function", "library_kernel"]


@lru_cache(maxsize=64)
def _chunk(lanes: int) -> Chunk:
    """A place to run ``lanes`` work-items that report nothing."""
    launch = Launch((1, 1, 1), (lanes, 1, 1), 1, Collector())
    launch.checks = frozenset()
    return Chunk(launch, np.zeros(1, np.int64))


def library_kernel(op: str, type_: DType) -> tuple[Kernel, list[str], Slot]:
    """The library's ``op`` on f32 or f64 as a kernel without calls; the names of its parameters, and the slot with its
    result."""
    from magpie.passes.inline import inline_calls
    from magpie.passes.math_library import math_function

    function = math_function(op, type_)
    (result,) = function.results
    assert isinstance(result, DType)
    names = [f"a{k}" for k in range(len(function.params))]
    kernel = Kernel(f"{op}_{type_}", [Scalar(n, p.type) for n, p in zip(names, function.params, strict=True)])
    kernel.functions = [function]
    b = Builder(kernel.body)
    out = Slot("out", result)
    args = [b.emit("param", type=p.type, name=n) for n, p in zip(names, function.params, strict=True)]
    call = b.emit("call", *args, function=function)
    b.set(out, b.emit("call_result", type=result, call=call, index=0))
    return inline_calls(kernel), names, out


@lru_cache(maxsize=256)
def library_function(op: str, type_name: str) -> Callable[..., Lanes]:
    """The library's ``op`` on registers of f32 or f64, scalars or arrays. Safe to call from several threads."""
    from magpie.backends.interp.compiler import compile_kernel

    kernel, names, out = library_kernel(op, by_name(type_name))
    code = compile_kernel(kernel, False)
    where = {node.attrs["name"]: register for register, node in code.leaves if node.op == "param"}
    inputs = [where.get(n) for n in names]
    tables = [(register, array) for (array, _), register in code.arrays.items() if isinstance(array, ConstArray)]
    output = code.slots[out]

    def run(*values: Lanes) -> Lanes:
        frame = list(code.initial)
        size = max((v.size for v in values), default=1)
        frame[0] = _chunk(size)
        for register, value in zip(inputs, values, strict=True):
            if register is not None:
                frame[register] = value
        for register, table in tables:
            frame[register] = _table(table)
        code.body(frame, True)
        return frame[output]

    return run


@lru_cache(maxsize=256)
def _table(table: ConstArray) -> Any:
    assert isinstance(table.type, DType)
    window = owned_window(table.name, table.type, table.shape)
    window.put(slice(None), np.array([scalar(table.type, v) for v in table.values]))
    return window
