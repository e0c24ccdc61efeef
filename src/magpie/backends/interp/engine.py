"""Runs a compiled kernel over a grid, a chunk of workgroups at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from magpie.backends.interp.barriers import Barriers
from magpie.backends.interp.compiler import Compiled, compile_kernel
from magpie.backends.interp.context import Chunk, Launch, StopLaunch
from magpie.backends.interp.fpenv import keeping_denormals
from magpie.backends.interp.memory import Window, buffer_window, owned_window
from magpie.backends.interp.numerics import scalar
from magpie.backends.interp.reports import Collector, Dims, Outcome
from magpie.dtypes import DType, StructType, leaf_name, leaves
from magpie.errors import GpuError, GpuErrorKind
from magpie.ir.layout import HostEnv, evaluate
from magpie.ir.nodes import Array, Buffer, ConstArray, Kernel, LocalArray, Node, Scalar, SharedArray, walk

__all__ = ["LANES", "Program"]

#: Lanes of a chunk, about. Shorter arrays pay more for each call of NumPy (4,096 lanes were 1.8 times slower on an AVX2
#: machine), longer ones leave the second-level cache.
LANES = 16384

#: Bytes of shared and local memory that a chunk may take, about.
_CHUNK_BYTES = 1 << 26

_SYNC = frozenset({"atomic_load", "atomic_cas", "atomic_store"})


class Program:
    """A kernel that the interpreter can launch; immutable, so several threads may run it at once."""

    def __init__(self, kernel: Kernel, original: Kernel | None = None) -> None:
        """``kernel`` is prepared (no calls, no structs); ``original`` has the parameters as the caller passes them."""
        self.kernel = kernel
        self.params = (original or kernel).params
        self.alone = _needs_order(kernel)
        self.grid_sync = any(n.op == "grid_sync" for n in walk(kernel.body))
        self._compiled: dict[frozenset[str] | None, Compiled] = {}

    def compiled(self, checks: frozenset[str] | None = None) -> Compiled:
        """The closures, made when first needed; ``checks`` None leaves the sanitizer's hooks out."""
        found = self._compiled.get(checks)
        if found is None:
            found = compile_kernel(self.kernel, checks is not None, checks or frozenset())
            self._compiled[checks] = found
        return found

    def run(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        sanitize: Any = None,
        order: int | None = None,
        subgroup_size: int = 32,
    ) -> Outcome:
        """Execute ``grid`` workgroups of ``block`` work-items.

        ``args`` are NumPy arrays and scalars in the order of the parameters; a struct is an `np.void`, an object with
        its fields, or a sequence of them. ``sanitize`` is a `Checks`. ``order`` seeds a permutation of the lanes and
        workgroups at stores and atomics: a result that depends on it depends on a race or on rounding.
        """
        dims = [tuple(int(n) for n in (*shape, 1, 1))[:3] for shape in (grid, block)]
        collector = Collector()
        launch = Launch(_dims(dims[0]), _dims(dims[1]), subgroup_size, collector)
        launch.barriers = Barriers()
        if launch.groups == 0 or launch.group_size == 0:
            return Outcome()
        with np.errstate(all="ignore"), keeping_denormals():
            try:
                run = _Run(self, launch, args, sanitize, order)
                with suppress(StopLaunch):
                    run.all()
                    if launch.heap is not None and sanitize is not None and launch.wants("leak"):
                        launch.heap.report_leaks()
            except MemoryError as error:
                raise GpuError(
                    GpuErrorKind.OutOfMemory,
                    "interp",
                    f"the interpreter ran out of memory: {error}",
                    help="run it on smaller arrays: the sanitizer keeps up to 64 bytes for each element"
                    if sanitize
                    else None,
                ) from None
        return Outcome(collector.reports, launch.prints)


def _dims(values: tuple[int, ...]) -> Dims:
    x, y, z = values
    return x, y, z


def _needs_order(kernel: Kernel) -> bool:
    """Whether workgroups may wait for each other, or hand data on: then they run one after the other."""
    nodes = list(walk(kernel.body))
    if any(n.op in ("fence", "atomic_load", "atomic_store") for n in nodes):
        return True
    used = {a for n in nodes for a in n.args}
    for node in nodes:
        if node.op == "loop":
            for inner in (n for region in node.regions for n in walk(region)):
                if inner.op in _SYNC or (inner.op == "atomic_rmw" and inner in used):
                    return True
    return False


class _Run:
    """One launch: the frame, the memory and the loop over chunks."""

    def __init__(self, program: Program, launch: Launch, args: Sequence[Any], sanitize: Any, order: int | None) -> None:
        self.program = program
        self.launch = launch
        checks = None
        if sanitize is not None:
            from magpie.backends.interp.sanitizer import Sanitizer

            checks = sanitize.names
            launch.checks = checks
            launch.sanitizer = Sanitizer(launch, sanitize, program.kernel)
        self.compiled = program.compiled(checks)
        self.scalars: dict[str, Any] = {}
        self.buffers: dict[str, Any] = {}
        if len(args) != len(program.params):
            raise TypeError(f"{program.kernel.name} takes {len(program.params)} arguments, not {len(args)}")
        for param, value in zip(program.params, args, strict=True):
            if isinstance(param, Buffer):
                self.buffers[param.name] = np.asanyarray(value)
            else:
                self._scalar(param, value)
        self.shapes = self._shared_shapes()
        groups = max(1, min(LANES // launch.group_size, _CHUNK_BYTES // max(1, self._group_bytes())))
        if program.grid_sync:
            groups = launch.groups
        elif program.alone:
            groups = 1
        self.per_chunk = min(groups, launch.groups)
        if order is not None:
            rng = np.random.default_rng(order)
            launch.lane_order = rng.permutation(launch.group_size)
            if not program.alone:  # a workgroup may wait for lower ones only
                launch.group_order = rng.permutation(launch.groups)
        self.windows = self._fixed_windows()
        self.lane_windows: dict[tuple[int, Array], Window] = {}

    def _scalar(self, param: Scalar, value: Any) -> None:
        if isinstance(param.type, DType):
            self.scalars[param.name] = scalar(param.type, value)
            return
        for path, type_, _ in leaves(param.type):
            self.scalars[leaf_name(param.name, param.type, path)] = scalar(type_, _dig(param.type, value, path))

    def _shared_shapes(self) -> dict[Array, tuple[int, ...]]:
        env = HostEnv(
            {name: value.item() for name, value in self.scalars.items()},
            {name: a.shape for name, a in self.buffers.items()},
            {name: _element_strides(a) for name, a in self.buffers.items()},
            self.launch.block,
            self.launch.grid,
        )
        return {s: tuple(max(0, evaluate(n, env)) for n in s.shape) for s in self.program.kernel.shared}

    def _group_bytes(self) -> int:
        """Shared and local memory of one workgroup."""
        kernel = self.program.kernel
        shared = sum(prod(self.shapes[s]) * s.type.itemsize for s in kernel.shared)
        return shared + self.launch.group_size * sum(prod(x.shape) * x.type.itemsize for x in kernel.locals)

    def _fixed_windows(self) -> dict[int, Window]:
        """Windows that stay the same for all chunks: buffers and tables."""
        found = {}
        for (array, path), register in self.compiled.arrays.items():
            if isinstance(array, Buffer):
                found[register] = buffer_window(array.name, array.type, path, self.buffers[array.name])
            elif isinstance(array, ConstArray):
                window = owned_window(array.name, _leaf(array), array.shape)
                if array.values:
                    window.put(slice(None), np.array([scalar(_leaf(array), v) for v in array.values]))
                found[register] = window
        if self.launch.sanitizer is not None:
            arrays = {register: array for (array, _), register in self.compiled.arrays.items()}
            pairs = [(arrays[r], w) for r, w in found.items()]
            self.launch.sanitizer.watch([(a, w) for a, w in pairs if isinstance(a, Buffer)])
        return found

    def all(self) -> None:
        """Every workgroup."""
        launch = self.launch
        ids = launch.group_order
        for first in range(0, launch.groups, self.per_chunk):
            last = min(first + self.per_chunk, launch.groups)
            groups = np.arange(first, last) if ids is None else ids[first:last]
            self.chunk(Chunk(launch, groups))

    def chunk(self, chunk: Chunk) -> None:
        """The workgroups of one chunk."""
        if chunk.sanitizer is not None:
            chunk.sanitizer.begin(chunk)
        frame = list(self.compiled.initial)
        frame[0] = chunk
        for register, window in self.windows.items():
            frame[register] = window
        for (array, _), register in self.compiled.arrays.items():
            if isinstance(array, SharedArray | LocalArray):
                frame[register] = self._chunk_window(chunk, array)
        for register, node in self.compiled.leaves:
            frame[register] = self._leaf_value(chunk, node)
        self.compiled.body(frame, True)

    def _chunk_window(self, chunk: Chunk, array: Array) -> Window:
        shared = isinstance(array, SharedArray)
        shape = self.shapes[array] if shared else array.shape  # type: ignore[attr-defined]
        copies = chunk.k if shared else chunk.size
        key = (copies, array)
        window = self.lane_windows.get(key)
        if window is None:
            window = self.lane_windows[key] = owned_window(array.name, _leaf(array), shape, copies)
            count = int(np.prod(shape, dtype=np.int64))
            if shared and chunk.k > 1:
                window.lane_base = np.repeat(np.arange(chunk.k) * count, self.launch.group_size)
            elif not shared:
                window.lane_base = np.arange(chunk.size) * count
        else:
            window.flat[:] = 0
        if chunk.sanitizer is not None and isinstance(array, SharedArray):
            chunk.sanitizer.watch_shared(array, window)
        return window

    def _leaf_value(self, chunk: Chunk, node: Node) -> Any:
        """Ids, sizes, parameters and shapes for a chunk."""
        op, attrs, launch = node.op, node.attrs, self.launch
        if op == "param":
            return self.scalars[attrs["name"]]
        if op in ("extent", "stride"):
            array, dim = attrs["array"], attrs["dim"]
            return np.int64(self._extent(array, dim) if op == "extent" else self._stride(array, dim))
        dim = attrs.get("dim", 3)
        if op == "thread_id":
            return launch.thread_ids(chunk.k, dim)
        if op == "workgroup_id":
            return chunk.group_id(dim)
        if op == "workgroup_size":
            return np.int64(launch.block[dim])
        if op == "num_workgroups":
            return np.int64(launch.grid[dim])
        if op == "global_id":
            return chunk.group_id(dim) * np.int64(launch.block[dim]) + launch.thread_ids(chunk.k, dim)
        linear = launch.thread_ids(chunk.k, 3)
        size = np.int64(launch.subgroup_size)
        if op == "linear_local_id":
            return linear
        if op == "subgroup_size":
            return size
        if op == "subgroup_lane":
            return linear % size
        if op == "subgroup_id":
            return linear // size
        return np.int64(-(-launch.group_size // launch.subgroup_size))  # subgroup_count

    def _shape(self, array: Array) -> tuple[int, ...]:
        if isinstance(array, Buffer):
            shape: tuple[int, ...] = self.buffers[array.name].shape
            return shape
        if isinstance(array, SharedArray):
            return self.shapes[array]
        assert isinstance(array, LocalArray | ConstArray)
        return array.shape

    def _extent(self, array: Array, dim: int) -> int:
        return self._shape(array)[dim]

    def _stride(self, array: Array, dim: int) -> int:
        if isinstance(array, Buffer):
            return _element_strides(self.buffers[array.name])[dim]
        return int(np.prod(self._shape(array)[dim + 1 :], dtype=np.int64))


def _leaf(array: Array) -> DType:
    assert isinstance(array.type, DType), f"{array.name} is an array of structs in a prepared kernel"
    return array.type


def _element_strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def _dig(type_: StructType, value: Any, path: tuple[int, ...]) -> Any:
    """A leaf of a struct value: of `np.void` by name, of other sequences by position."""
    here: Any = type_
    for position in path:
        field = here.fields[position]
        if isinstance(value, np.void):
            value = value[field.name]
        elif hasattr(value, field.name):
            value = getattr(value, field.name)
        else:
            value = value[position]
        here = field.type
    return value
