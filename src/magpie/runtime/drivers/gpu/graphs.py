"""Graphs of a GPU driver: steps captured from a stream into a graph of the vendor's, and its replays.

Nothing but the recorded steps runs while a stream is captured, so the relaxed mode is right: what a step may do besides
(load a module) is no part of the graph. A step is a launch or a copy, and becomes one node, that which the stream
depends on after it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver

__all__ = ["DeviceGraph"]

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed
_NODE_PARAMETERS = 256  # more than CUDA's or HIP's parameters of a kernel node take; they are only passed on

Step = Callable[[], None]


class DeviceGraph:
    """Captured steps, ready to run."""

    def __init__(self, driver: GpuDriver, device: int, stream: Any, steps: Sequence[Step]) -> None:
        self._driver = driver
        self._device = device
        self._stream = stream
        self._executable = 0
        self._graph, self._nodes = self._capture(steps)
        self._executable = driver.api.number("instantiate_graph", self._graph, 0, type_=ctypes.c_void_p)

    def launch(self, stream: Any) -> None:
        """Queue a replay."""
        self._driver.checked(self._device, "launch_graph", self._executable, 0 if stream is None else stream.handle)

    def update(self, index: int, step: Step) -> None:
        """Put the arguments of another launch, made by `step`, in the place of a step's."""
        graph, (node,) = self._capture([step])
        api = self._driver.api
        try:
            old = self._nodes[index]
            if old is None or node is None:
                return
            parameters = ctypes.create_string_buffer(_NODE_PARAMETERS)
            api.call("kernel_node_parameters", node, parameters)
            api.call("set_kernel_node_parameters", self._executable, old, parameters)
        finally:
            api.functions["destroy_graph"](graph)

    def _capture(self, steps: Sequence[Step]) -> tuple[int, list[int | None]]:
        """A graph of these steps, and the node of each; None for one that did nothing."""
        api = self._driver.enter(self._device)
        handle = self._stream.handle
        nodes: list[int | None] = []
        graph = ctypes.c_void_p()
        api.call("begin_capture", handle, _RELAXED)
        try:
            last = None
            for step in steps:
                step()
                node = self._last_node(handle)
                nodes.append(node if node != last else None)
                last = node
        except BaseException:
            if not api.functions["end_capture"](handle, ctypes.byref(graph)) and graph.value:
                api.functions["destroy_graph"](graph)
            raise
        api.call("end_capture", handle, ctypes.byref(graph))
        return graph.value or 0, nodes

    def _last_node(self, handle: int) -> int | None:
        status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
        nodes, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
        out = (ctypes.byref(each) for each in (status, number, graph, nodes, count))
        self._driver.api.call("capture_info", handle, *out)
        return nodes[0] if count.value else None

    def __del__(self) -> None:
        try:
            if self._device in self._driver.stuck:
                return
            functions = self._driver.enter(self._device).functions
            if self._executable:
                functions["destroy_executable_graph"](self._executable)
            if self._graph:
                functions["destroy_graph"](self._graph)
        except (GpuError, TypeError, AttributeError):
            return
