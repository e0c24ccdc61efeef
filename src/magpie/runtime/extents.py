"""Lengths of dynamic shared arrays, computed at every launch: host expressions as one small Python function.

`ir.layout.evaluate` says what an expression means. Walking it costs 10 us a launch, so the usual operations become text
that is compiled once; an expression with any other is left to `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.dtypes import by_name
from magpie.ir.layout import BufferField, HostEnv, KernelLayout, evaluate
from magpie.runtime.driver import Dims
from magpie.runtime.generated import code_of
from magpie.runtime.packing import Packer

__all__ = ["Extents", "extents_function"]

Extents = tuple[tuple[int, ...], ...]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_HALF = 1 << 63


class _Other(Exception):
    """An operation that has no text here."""


def _wrap(value: int) -> int:
    return value if -_HALF <= value < _HALF else (value + _HALF) % (2 * _HALF) - _HALF


def _cast(name: str) -> Callable[[int], int]:
    type_ = by_name(name)
    low, high, span = type_.min, type_.max, 1 << type_.bits
    return lambda value: value if low <= value <= high else (value - low) % span + low


def _div(a: int, b: int) -> int:
    return a // b if b else 0


def _mod(a: int, b: int) -> int:
    return a % b if b else 0


def extents_function(layout: KernelLayout, grid: Dims, block: Dims) -> Callable[[tuple[Any, ...]], Extents]:
    """From the words of a launch to the extents of every shared array."""
    places: dict[tuple[Any, ...], int] = {}
    at = 0
    for p in layout.params:
        if isinstance(p, BufferField):
            for d in range(p.rank):
                places["extent", p.name, d] = at + 1 + d
                places["stride", p.name, d] = at + 1 + p.rank + d
            at += 1 + 2 * p.rank
        else:
            places["param", p.name] = at
            at += 1
    names: dict[str, Any] = {"wrap": _wrap, "div": _div, "mod": _mod}
    sizes = {"workgroup_size": block, "num_workgroups": grid}

    def text(expr: Any) -> str:
        if isinstance(expr, int):
            return repr(int(expr))
        head = expr[0]
        if head == "const":
            return repr(int(expr[1]))
        if head in ("param", "extent", "stride"):
            return f"int(w[{places[expr]}])" if head == "param" else f"w[{places[expr]}]"
        if head in sizes:
            return repr(sizes[head][expr[1]])
        if head == "cast":
            names[f"to_{expr[1]}"] = _cast(expr[1])
            return f"to_{expr[1]}({text(expr[2])})"
        operands = [text(e) for e in expr[1:]]
        if head in _INFIX:
            return f"wrap({operands[0]} {_INFIX[head]} {operands[1]})"
        if head in ("min", "max", "floordiv", "mod"):
            name = {"floordiv": "div"}.get(head, head)
            return f"wrap({name}({', '.join(operands)}))"
        if head == "neg":
            return f"wrap(-{operands[0]})"
        raise _Other

    try:
        arrays = [f"({''.join(text(n) + ', ' for n in s.extents)})" for s in layout.shared]
    except (_Other, KeyError):
        return _general(layout, grid, block)
    exec(code_of(f"def extents(w):\n    return ({''.join(a + ', ' for a in arrays)})\n", "<magpie extents>"), names)
    found: Callable[[tuple[Any, ...]], Extents] = names["extents"]
    return found


def _general(layout: KernelLayout, grid: Dims, block: Dims) -> Callable[[tuple[Any, ...]], Extents]:
    packer = Packer(layout)
    names = {p.name for p in layout.params if isinstance(p, BufferField)}

    def extents(words: tuple[Any, ...]) -> Extents:
        values = packer.split(words)
        env = HostEnv(
            scalars={n: v for n, v in values.items() if n not in names},
            extents={n: values[n][1] for n in names},
            strides={n: values[n][2] for n in names},
            workgroup_size=block,
            num_workgroups=grid,
        )
        return tuple(tuple(evaluate(n, env) for n in s.extents) for s in layout.shared)

    return extents
