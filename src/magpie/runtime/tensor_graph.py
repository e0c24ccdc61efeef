"""`mp.graph.load`: tensor graphs from `.tg` text and ONNX files, compiled for a target and run there.

    net = mp.graph.load("net.onnx")
    net.compile(target="cuda").run({"X": x})        # {"Y": array}

Values that ops make share one block of memory by the graph's plan; inputs and constants lie in front of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.errors import LaunchValueError, public
from magpie.frontend.graph.lower import Lowered, lower_graph
from magpie.frontend.graph.lower.target import Target
from magpie.frontend.graph.nodes import Graph as TensorIR
from magpie.frontend.graph.nodes import Value
from magpie.frontend.graph.ops import OPS
from magpie.frontend.graph.passes import optimise
from magpie.frontend.graph.passes.memory import plan_memory
from magpie.frontend.graph.printer import print_graph
from magpie.frontend.graph.reference import evaluate
from magpie.frontend.python.annotations import Parameter
from magpie.frontend.signature import Arg
from magpie.ir.nodes import Kernel as KernelIR
from magpie.ir.nodes import walk
from magpie.ir.printer import print_kernel
from magpie.ir.verify import verify
from magpie.runtime.buffer import Buffer, Memory
from magpie.runtime.creation import asarray
from magpie.runtime.device import Device
from magpie.runtime.device import device as find_device
from magpie.runtime.driver import MemoryHint
from magpie.runtime.fingerprint import Fingerprint
from magpie.runtime.kernel import Kernel
from magpie.runtime.launcher import Launcher, LaunchOptions
from magpie.runtime.shapes import row_major
from magpie.runtime.specialise import Lowering, Specialiser
from magpie.runtime.tensor_targets import named, target_of

if TYPE_CHECKING:
    import numpy

__all__ = ["CompiledGraph", "GraphKernel", "TensorGraph", "load"]

#: Bytes to which values are aligned in the memory of a graph: the widest vector, and what GPUs ask of a binding.
_ALIGN = 256


@public
def load(path: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> TensorGraph:
    """A graph from a `.tg` file, or a `.onnx` file (which needs the package onnx).

    ``sizes`` gives the symbolic extents of an ONNX model's inputs by name. Raises CompileError with every error found,
    and OSError for a file that cannot be read.
    """
    return TensorGraph(read_graph(Path(path), sizes))


def read_graph(path: Path, sizes: Mapping[str, int] | None = None) -> TensorIR:
    """The graph of a file, by its extension."""
    if path.suffix.lower() == ".onnx":
        from magpie.frontend.graph.onnx import import_onnx

        return import_onnx(path, sizes or {})
    if sizes:
        text = f"{path.name} is text, whose shapes are numbers; sizes are for ONNX models"
        raise CompileError(Diagnostic("MPG_GRAPH_1013", text, Loc(str(path), 0)))
    from magpie.frontend.graph.parser import parse
    from magpie.frontend.graph.text import read

    return parse(read(path), path.parent)


class TensorGraph:
    """A tensor program: `inputs` and `outputs` are (name, dtype, shape)."""

    def __init__(self, ir: TensorIR) -> None:
        self.ir = ir

    @property
    def name(self) -> str:
        return self.ir.name

    @property
    def inputs(self) -> list[tuple[str, Any, tuple[int, ...]]]:
        return [(v.name, v.dtype, v.shape) for v in self.ir.inputs]

    @property
    def outputs(self) -> list[tuple[str, Any, tuple[int, ...]]]:
        return [(v.name, v.dtype, v.shape) for v in self.ir.outputs]

    @public
    def compile(self, target: str | None = None, *, opt: int = 2, device: str | Device | None = None) -> CompiledGraph:
        """Kernels and memory on a device: of ``target`` (cpu, cuda, vulkan, gpu: tiny-gpu, ...), or ``device`` itself.

        ``opt`` is 0 (an op a kernel), 1 (ops are fused) or 2 (and products are computed in tiles). Raises CompileError
        for what the target cannot do, and GpuError where it is not there.
        """
        found = find_device(named(target) if device is None and target is not None else device)
        return CompiledGraph(self.ir, found, opt)

    @public
    def reference(self, inputs: Mapping[str, Any]) -> dict[str, numpy.ndarray[Any, Any]]:
        """The outputs by name, computed op by op in NumPy: what every target is tested against."""
        return evaluate(self.ir, checked_inputs(self.ir.inputs, inputs))

    @public
    def run(self, inputs: Mapping[str, Any], target: str | None = None) -> dict[str, numpy.ndarray[Any, Any]]:
        """Compile and run once; keep the result of `compile` to run often."""
        return self.compile(target).run(inputs)

    def __str__(self) -> str:
        return print_graph(self.ir)

    def __repr__(self) -> str:
        return f"<tensor graph {self.name}: {len(self.ir.ops)} ops>"


class CompiledGraph:
    """A graph on a device. `run` may be called from several threads, one at a time has its turn."""

    def __init__(self, graph: TensorIR, device: Device, opt: int) -> None:
        self.device = device
        self.target = target_of(device.backend, opt)
        self.ir, self.kernels = lowered(graph, self.target, opt)
        self.plan = plan_memory(self.ir, lambda v: v.nbytes, _ALIGN)
        self._lock = threading.Lock()
        self._made: dict[str, GraphKernel] = {}
        self._buffers = self._place()
        self._steps = [self._step(item) for item in self.kernels]
        self._recorded: Callable[[], None] | None = None
        # Where the host sees the memory, its views are made once: a run of a small graph is short.
        visible = (*self.ir.inputs, *self.ir.outputs) if device.driver.host_memory else ()
        self._views = {v: self._buffers[v]._view() for v in visible}

    def _place(self) -> dict[Value, Buffer]:
        memory = Memory(self.device, max(self.plan.size, 1), MemoryHint.Auto, False)
        found: dict[Value, Buffer] = {}
        for value in self.ir.values():
            shape = (value.size,)
            found[value] = Buffer(memory, value.dtype, shape, row_major(shape), self.plan.offsets[value])
        for op in self.ir.ops:
            if op.name == "const":
                found[op.result][...] = op.attrs["data"].reshape(-1)
        for item in self.kernels:
            for value, data in item.packed:
                found[value] = asarray(data.reshape(-1), device=self.device)
        return found

    def _step(self, item: Lowered) -> tuple[Launcher, tuple[Buffer, ...]]:
        # Layers of a network are alike: kernels that differ in their number alone are one, and compiled once.
        kernel_ir = replace(item.kernel, name=item.op.name)
        text = print_kernel(kernel_ir, locations=False)
        kernel = self._made.get(text)
        if kernel is None:
            kernel = self._made[text] = GraphKernel(self.ir.name, kernel_ir)
        subgroups = any(node.op.startswith("subgroup_") for node in walk(item.kernel.body))
        size = self.target.subgroup if subgroups and len(self.device.subgroup_sizes) > 1 else None
        options = LaunchOptions(device=self.device, subgroup_size=size)
        return Launcher(kernel, item.grid, None, options), tuple(self._buffers[v] for v in item.args)

    @public
    def run(self, inputs: Mapping[str, Any]) -> dict[str, numpy.ndarray[Any, Any]]:
        """The outputs by name for an array for each input. Raises LaunchValueError for arrays that do not fit."""
        arrays = checked_inputs(self.ir.inputs, inputs)
        with self._lock:
            for value in self.ir.inputs:
                (self._views or self._buffers)[value][...] = arrays[value.name].reshape(-1)
            self.launch()
            if self._views:
                self.device.synchronize()
                return {v.name: self._views[v].reshape(v.shape).copy() for v in self.ir.outputs}
            return {v.name: self._buffers[v].to_numpy().reshape(v.shape) for v in self.ir.outputs}

    def launch(self) -> None:
        """Run the kernels on what the inputs' memory holds; on a GPU they are queued as one."""
        if self.device.driver.host_memory:
            for launcher, arguments in self._steps:
                launcher(*arguments)
            return
        if self._recorded is None:
            from magpie.runtime.graph import graph

            with graph(self.device) as recording:
                for launcher, arguments in self._steps:
                    launcher(*arguments)
            self._recorded = recording.launch
        self._recorded()

    def buffer(self, name: str) -> Buffer:
        """The memory of an input or output, flat: what the next `launch` reads, or the last one wrote."""
        for value in (*self.ir.inputs, *self.ir.outputs):
            if value.name == name:
                return self._buffers[value]
        raise LaunchValueError(f"the graph has no input or output {name!r}", diagnostic="MPG_GRAPH_1021")

    def __repr__(self) -> str:
        return f"<graph {self.ir.name} on {self.device.id}: {len(self.kernels)} kernels, {self.plan.size} bytes>"


def lowered(graph: TensorIR, target: Target, opt: int) -> tuple[TensorIR, list[Lowered]]:
    """The optimised graph and its kernels; constants that are written into the code are no longer in the graph."""
    if not 0 <= opt <= 2:
        raise LaunchValueError(f"opt= is 0, 1 or 2; got {opt}", diagnostic="MPG_LAUNCH_1001")
    done = optimise(graph, opt, target)
    kernels = lower_graph(done, target)
    needed = {v for item in kernels for v in item.args} | set(done.outputs)
    needed |= {v for op in done.ops if OPS[op.name].kind == "view" for v in op.reads}
    done.ops = [op for op in done.ops if op.name != "const" or op.result in needed]
    return done, kernels


def checked_inputs(values: Sequence[Value], inputs: Mapping[str, Any]) -> dict[str, numpy.ndarray[Any, Any]]:
    """The arrays of all inputs in their dtypes. Raises LaunchValueError (MPG_GRAPH_1021)."""
    import numpy as np

    if not isinstance(inputs, Mapping):
        raise _wrong(f"inputs are arrays by name, {{name: array}}; got {type(inputs).__name__}")
    names = {v.name for v in values}
    for name in inputs:
        if name not in names:
            raise _wrong(f"the graph has no input {name!r}; it has {', '.join(sorted(names)) or 'none'}")
    found = {}
    for value in values:
        if value.name not in inputs:
            raise _wrong(f"input {value.name!r}, {value.type}, is missing")
        array = np.asarray(inputs[value.name])
        wanted = value.dtype.numpy
        if array.shape != value.shape:
            raise _wrong(f"input {value.name!r} is {value.type}; got an array of shape {list(array.shape)}")
        if array.dtype != wanted:
            array = _converted(array, value)
        found[value.name] = np.ascontiguousarray(array).reshape(value.shape)
    return found


def _converted(array: numpy.ndarray[Any, Any], value: Value) -> numpy.ndarray[Any, Any]:
    dtype, kind = value.dtype, array.dtype.kind
    if dtype.is_float and (kind in "fiu" or array.dtype.name in ("bfloat16", "float16")):
        return array.astype(dtype.numpy)
    if dtype.is_int and kind in "iu":
        if array.size and (int(array.min()) < dtype.min or int(array.max()) > dtype.max):
            raise _wrong(f"input {value.name!r} is {value.type}, and the array has {array.min()} to {array.max()}")
        return array.astype(dtype.numpy)
    raise _wrong(f"input {value.name!r} is {value.type}; got an array of {array.dtype.name}")


def _wrong(message: str) -> LaunchValueError:
    return LaunchValueError(message, diagnostic="MPG_GRAPH_1021")


class GraphKernel(Kernel):
    """One kernel of a graph. See `Kernel`."""

    def __init__(self, graph: str, ir: KernelIR) -> None:
        verify(ir)
        self.__name__ = ir.name
        self.__qualname__ = f"{graph}.{ir.name}"
        self.__module__ = graph
        self.__doc__ = None
        self._setup(ir.workgroup, ir.fastmath, ir.requires, None)
        self._made["parameters"] = tuple(Parameter(b.name, "array", b.type, b.rank) for b in ir.buffers)
        self._made["specialiser"] = _GraphSpecialiser(ir)


class _GraphSpecialiser(Specialiser):
    """What was compiled of one kernel of a graph: its IR is there, and captures nothing."""

    def __init__(self, ir: KernelIR) -> None:
        super().__init__(None, ir.workgroup, ir.fastmath, ir.requires)
        self._ir = ir
        self._text = f"graph {print_kernel(ir, locations=False)}"

    def _lower(self, args: tuple[Arg, ...]) -> Lowering:
        return Lowering(self._ir, (), None)

    def _fingerprint(self) -> Fingerprint | None:
        from magpie.frontend.python.dependencies import Dependencies

        return Fingerprint(self._text, Dependencies())
