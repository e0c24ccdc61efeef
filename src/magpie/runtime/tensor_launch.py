"""A tensor graph as a launch document for tiny-gpu: one kernel an op, addresses from the graph's memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magpie.diagnostics import CompileError, Diagnostic
from magpie.frontend.graph.lower import Lowered
from magpie.frontend.graph.nodes import Graph, Value
from magpie.frontend.graph.passes.memory import Plan, plan_memory
from magpie.runtime.tensor_graph import lowered
from magpie.runtime.tensor_targets import target_of

if TYPE_CHECKING:
    from magpie.backends.tgpu.launch import Launch

__all__ = ["launch_document"]


def launch_document(graph: Graph, opt: int = 2) -> Launch:
    """The document with its estimate. Raises CompileError: MPG_GRAPH_1020 for values that words of 32 bits do not hold,
    and the codes of the tgpu backend for what its instructions cannot compute."""
    found = [
        Diagnostic("MPG_GRAPH_1020", f"tiny-gpu has 32-bit integers only, and %{v.name} is {v.type}", v.loc)
        for v in graph.values()
        if v.dtype.is_float
    ]
    if found:
        raise CompileError(found[:20])
    ir, kernels = lowered(graph, target_of("tgpu", opt), opt)
    return _document(ir, kernels, plan_memory(ir, lambda v: v.size))


def _document(graph: Graph, kernels: list[Lowered], plan: Plan) -> Launch:
    from magpie.backends.tgpu.kernel import compile_for
    from magpie.backends.tgpu.launch import Buffer, Kernel, Launch
    from magpie.backends.tgpu.specialise import Binding, Place

    offsets, end = dict(plan.offsets), plan.size
    constants = {op.result: op.attrs["data"] for op in graph.ops if op.name == "const"}
    for item in kernels:
        for value, data in item.packed:
            offsets[value], constants[value] = end, data
            end += value.size
    used = dict.fromkeys([*graph.inputs, *constants, *(v for item in kernels for v in item.args), *graph.outputs])
    buffers = {v.name: Buffer(offsets[v], v.dtype.name, v.shape, _kind(v, graph, constants)) for v in used}
    for value, data in constants.items():
        found = buffers[value.name]
        words = tuple(int(n) for n in data.reshape(-1))
        buffers[value.name] = Buffer(found.addr, found.dtype, found.shape, "const", words)
    made = []
    for item in kernels:
        places = {
            parameter.name: Place.contiguous(offsets[value], (value.size,))
            for parameter, value in zip(item.kernel.buffers, item.args, strict=True)
        }
        code = compile_for(item.kernel, Binding(item.grid, item.block, places, {}), strict=True)
        shared = code.shared_size
        assert isinstance(shared, int)
        grid = (item.grid[0], item.block[0])
        made.append((code.num_registers, item, grid, shared, code.text))
    registers = max((n for n, *_ in made), default=16)
    programs = tuple(
        Kernel(item.kernel.name, item.op.result.name, item.op.name, grid, shared, text, registers)
        for _, item, grid, shared, text in made
    )
    names = tuple(v.name for v in graph.inputs), tuple(v.name for v in graph.outputs)
    return Launch(graph.name, registers, end, buffers, *names, programs).with_estimate()


def _kind(value: Value, graph: Graph, constants: dict[Value, object]) -> str:
    if value in graph.inputs:
        return "input"
    return "const" if value in constants else "output" if value in graph.outputs else "temp"
