"""The math library as LLVM functions from vectors to vectors, each made when a kernel first uses it (RULES 28).

The functions are written in Magpie (`magpie.lib.math`), so they are emitted like a kernel: one full gang, whose loads
are the operands. Out of line they cost code once, however often and in how many copies a kernel calls them; LLVM takes
the small ones in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from magpie.backends.cpu.gang import Coordinates, Env
from magpie.backends.cpu.lane_shapes import analyse_shapes, forward_slots
from magpie.backends.cpu.plain import copy_with
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.cpu.spmd import Gang
from magpie.backends.cpu.values import MaskOps, Value
from magpie.backends.llvm.emitter import Code, element
from magpie.dtypes import DType, by_name
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Kernel, Node
from magpie.passes.narrow_index import ranges

__all__ = ["library_call"]


@cache
def _as_kernel(op: str, type_name: str) -> tuple[Kernel, list[Node]]:
    """A kernel that loads the operands, calls the function and stores its result last; and the loads."""
    from magpie.passes import prepare
    from magpie.passes.math_library import math_function

    t = by_name(type_name)
    function = math_function(op, t)
    inputs = [Buffer(f"a{k}", p.type, 1, "read") for k, p in enumerate(function.params)]
    out = Buffer("out", function.results[0], 1, "write")
    kernel = Kernel(f"math.{op}.{t}", [*inputs, out], functions=[function])
    b = Builder(kernel.body)
    i = b.emit("thread_id", dim=0)
    call = b.emit("call", *(b.load(a, i) for a in inputs), function=function)
    b.store(out, (i,), b.emit("call_result", type=function.results[0], call=call, index=0))
    ready = forward_slots(prepare(kernel))
    loads: list[Node | None] = [None] * len(inputs)
    for node in ready.body:
        if node.op == "load" and node.attrs["array"] in inputs:
            loads[inputs.index(node.attrs["array"])] = node
    return ready, [n if n is not None else Node("load") for n in loads]


def library_call(env: Env, fast: str) -> Callable[[str, DType, list[str], int], str]:
    """What calls a function of the library on scalars or vectors of ``env``'s kernel."""
    width = env.layout.width

    def call(op: str, t: DType, args: list[str], lanes: int) -> str:
        c = env.code
        name = f"math.{op}.{t}.{width}"
        kernel, loads = _as_kernel(op, t.name)
        c.module.helper(name, lambda: _emit(name, kernel, loads, env, fast))
        types = [f"<{width} x {element(_type(n, t))}>" for n in loads]
        vt = f"<{width} x {element(t)}>"
        if lanes == 1:
            args = [
                c.op(f"insertelement {v} zeroinitializer, {element(_type(n, t))} {a}, i64 0")
                for v, n, a in zip(types, loads, args, strict=True)
            ]
        operands = ", ".join(f"{v} {a}" for v, a in zip(types, args, strict=True))
        out = c.op(f"call {vt} @{name}({operands})")
        return out if lanes > 1 else c.op(f"extractelement {vt} {out}, i64 0")

    return call


def _type(load: Node, t: DType) -> DType:
    return load.dtype if isinstance(load.type, DType) else t


def _emit(name: str, kernel: Kernel, loads: list[Node], env: Env, fast: str) -> str:
    """The function's text."""
    width = env.layout.width
    code = Code(env.code.module)
    layout = Layout(width, True, None)
    known = ranges(kernel)
    shapes = analyse_shapes(kernel, layout, known)
    old = env.masks
    masks = MaskOps(code, width, old.bits, old.register_lanes)
    inner = copy_with(
        env,
        code=code,
        kernel=kernel,
        shapes=shapes,
        ranges=known,
        layout=layout,
        masks=masks,
        checked=False,
        fast=fast,
        spills=[],
        regular={},
    )
    inner.polling = False
    at = Coordinates(("0", "0", "0"), "0", "0", "0", "0", code.entry, code.entry)
    start = code.block("start")
    code.place(start)
    gang = Gang(inner, at, None, code.block("end"))
    for k, node in enumerate(loads):
        gang.map[node] = Value(2, f"%a{k}", element(node.dtype) if isinstance(node.type, DType) else "")
    store = kernel.body[-1]
    gang.region(kernel.body[:-1])
    result = store.args[-1]
    elem = element(result.dtype)
    code.ret(f"<{width} x {elem}> {gang.lanes(gang.map[result], elem)}")
    code.entry.end = f"  br label %{start.label}"
    args = ", ".join(f"<{width} x {element(n.dtype)}> %a{k}" for k, n in enumerate(loads))
    return code.function(f"define internal <{width} x {elem}> @{name}({args}) nounwind")
