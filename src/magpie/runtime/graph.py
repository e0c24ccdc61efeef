"""Graphs: launches and copies that are recorded once and run together, at the cost of one launch.

    with mp.graph(device="cuda") as g:
        half[n // 256, 256](x, y)
        z[...] = y
    g.launch()                    # or g(), or g.launch(stream=s)
    g.nodes[0].update(x=other)    # the next launch has another argument

Nothing runs while a graph is recorded. At its end a GPU captures the recorded steps into a graph of its own; the host's
devices run them one after the other, so that a program is the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError, LaunchTypeError, LaunchValueError, public
from magpie.runtime.buffer import Buffer, freed_error
from magpie.runtime.keys import FREED
from magpie.runtime.recording import active, refused
from magpie.runtime.stream import Stream

if TYPE_CHECKING:
    from magpie.runtime.arguments import Signature
    from magpie.runtime.device import Device
    from magpie.runtime.driver import Recorded
    from magpie.runtime.launcher import Launcher
    from magpie.runtime.tensor_graph import TensorGraph

__all__ = ["Graph", "GraphNode", "graph"]

Step = Callable[[], None]


class _RecordingStream(Stream):
    """The stream that a graph's steps are captured from."""

    __slots__ = ()
    records = True

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = device.driver.create_recording_stream(device.index)


class GraphNode:
    """One recorded step: a launch (`kernel` is its name) or a copy (`kernel` is empty)."""

    __slots__ = ("_arguments", "_graph", "_index", "_launcher", "_step")

    def __init__(self, graph: Graph, index: int, step: Step, launcher: Launcher | None, arguments: list[Any]) -> None:
        self._graph = graph
        self._index = index
        self._step = step
        self._launcher = launcher
        self._arguments = arguments

    @property
    def kernel(self) -> str:
        """The name of the kernel that is launched."""
        return "" if self._launcher is None else self._launcher.kernel.__name__

    @public
    def update(self, **arguments: Any) -> None:
        """Give a launch other arguments, by the names of its parameters; the graph's next launch has them.

        Grid and workgroup size stay as they are. A launch of the graph that is under way keeps the old arguments.
        """
        if self._launcher is None:
            raise LaunchTypeError("only a launch has arguments to update, and this node is a copy")
        self._graph._update(self, arguments)

    def __repr__(self) -> str:
        what = f"launch of kernel {self.kernel!r}" if self._launcher is not None else "copy"
        return f"<node {self._index} of a graph: {what}>"


class Graph:
    """What was launched and copied in a `with mp.graph()` block. `nodes` has the steps in order."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nodes: tuple[GraphNode, ...] = ()
        self._nodes: list[GraphNode] = []
        self._stream = _RecordingStream(device)
        self._recorded: Recorded | None = None
        # Launchers of this graph by the one that was called: a loop of launches plans its arguments once.
        self._bound: dict[Launcher, Launcher] = {}
        self._thread = 0

    # --- recording ---------------------------------------------------------------------------------------------------
    def __enter__(self) -> Graph:
        if self._recorded is not None or self._thread:
            raise LaunchValueError("a graph is recorded once; make another one with mp.graph()")
        thread = get_ident()
        if thread in active:
            raise LaunchValueError("this thread records a graph already, and graphs do not contain each other")
        self._thread = thread
        active[thread] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del active[self._thread]
        if kind is None:
            self._recorded = self.device.driver.record(
                self.device.index, self._stream.handle, [node._step for node in self._nodes]
            )
            self.nodes = tuple(self._nodes)
        self._nodes = []

    def record_launch(self, launcher: Launcher, found: Signature) -> None:
        """Called by a launcher in the place of a launch; everything about it is checked now."""
        bound = self._bound.get(launcher)
        if bound is None:
            bound = self._bound[launcher] = launcher.recorded_in(self._stream)
        self._add(self._step(bound, found), bound, list(found.values))

    def record_assignment(self, to: Buffer, value: Any) -> None:
        """Called in the place of a copy or a fill of an array of this device."""
        import numpy as np

        from magpie.runtime.copies import copier, filler

        if isinstance(value, Buffer):
            if value.freed:
                raise freed_error()
            if value.device is not self.device:
                raise self._refused("a copy from another device", "copy it before the graph, to an array of its own")
        elif np.ndim(value):
            raise self._refused("a copy of host data", "put it into an mp array before the graph")
        if self.device.driver.host_memory:
            source = value._view() if isinstance(value, Buffer) else value
            self._add(partial(to._view().__setitem__, ..., source), None, [to, value])
            return
        queue = copier(to, value) if isinstance(value, Buffer) else filler(to, value)
        if queue is None:
            raise self._refused(
                "a copy that the device cannot do by itself",
                "copy contiguous arrays of one shape and dtype, or write a kernel for it",
            )
        self._add(partial(queue, stream=self._stream.handle), None, [to, value])

    def _step(self, bound: Launcher, found: Signature) -> Step:
        for parameter, value in zip(bound.kernel.parameters, found.values, strict=True):
            if type(value) is not Buffer and getattr(value, "shape", ()) != ():
                raise self._refused(
                    f"argument {parameter.name!r}, an array of the host,",
                    f"make an mp array of it before: mp.asarray({parameter.name}, device={self.device.id!r})",
                )
        # What another library has queued is not part of a graph: its replays run where they are launched.
        self.device.driver.followed()
        if 0 in bound.grid:
            return _nothing
        return partial(bound.plan(found), *found.values)

    def _add(self, step: Step, launcher: Launcher | None, arguments: list[Any]) -> None:
        self._nodes.append(GraphNode(self, len(self._nodes), step, launcher, arguments))

    def _refused(self, what: str, help: str) -> GpuError:
        return refused(self.device, what, help)

    # --- running -----------------------------------------------------------------------------------------------------
    @public
    def launch(self, stream: Stream | None = None) -> None:
        """Run all steps in their order, after what the stream (the default one) has queued."""
        if self._recorded is None:
            raise LaunchValueError("the graph is not recorded yet: its block must end, without an error, first")
        if stream is not None and (not isinstance(stream, Stream) or stream.device is not self.device):
            raise LaunchValueError(f"stream= takes an mp.Stream of {self.device.id}; got {stream!r}")
        for node in self.nodes:
            for value in node._arguments:
                if type(value) is Buffer and value._key is FREED:
                    raise freed_error()
        self._recorded.launch(None if stream is None else stream.handle)

    __call__ = launch

    def _update(self, node: GraphNode, arguments: dict[str, Any]) -> None:
        from magpie.runtime.arguments import signature

        launcher = node._launcher
        assert launcher is not None
        if self._recorded is None:
            raise LaunchValueError("the graph is not recorded yet: its block must end, without an error, first")
        names = [p.name for p in launcher.kernel.parameters]
        values = list(node._arguments)
        for name, value in arguments.items():
            if name not in names:
                raise LaunchTypeError(
                    f"kernel {node.kernel!r} has no parameter {name!r}; it has {', '.join(names)}",
                    diagnostic="MPG_LAUNCH_1001",
                )
            values[names.index(name)] = value
        found = signature(launcher.kernel.parameters, values)
        step = self._step(launcher, found)
        self._recorded.update(node._index, step)
        node._step = step
        node._arguments = list(found.values)

    def __repr__(self) -> str:
        state = f"{len(self.nodes)} steps" if self._recorded is not None else "not recorded"
        return f"<mp.Graph on {self.device.id}: {state}>"


class Graphs:
    """`mp.graph`: called, a graph of launches to record; `mp.graph.load` reads a tensor graph from a file."""

    @public
    def __call__(self, device: str | Device | None = None) -> Graph:
        """A graph to record in a `with` block, on `device` (the default one); see `Graph`."""
        from magpie.runtime.device import device as find_device

        return Graph(find_device(device))

    def load(self, path: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> TensorGraph:
        """A tensor graph from a `.tg` or `.onnx` file; see `magpie.runtime.tensor_graph.load`."""
        from magpie.runtime.tensor_graph import load

        return load(path, sizes=sizes)


graph = Graphs()


def _nothing() -> None:
    """A launch over a grid with a zero."""
