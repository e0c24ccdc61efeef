"""tiny-gpu as a device: its simulator. Code is made for each launch, since tiny-gpu has no kernel arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magpie.backends.registry import backend
from magpie.backends.tgpu.specialise import Binding, Place
from magpie.backends.tgpu.words import from_words, to_words
from magpie.errors import GpuError, GpuErrorKind
from magpie.ir.layout import BufferField
from magpie.ir.nodes import Buffer
from magpie.runtime import hostmem
from magpie.runtime.driver import Call, DeviceInfo, LaunchShape
from magpie.runtime.drivers.host import HostDriver, host_view
from magpie.runtime.drivers.interp import host_arguments

if TYPE_CHECKING:
    from magpie.backends.base import Artifact
    from magpie.backends.tgpu.kernel import Assembly
    from magpie.backends.tgpu.launch import Launch
    from magpie.backends.tgpu.machine import Result
    from magpie.ir.nodes import Kernel

__all__ = ["Image", "TgpuDriver", "binding_of"]

#: Launches of one kernel that differ in sizes or scalars and whose code is kept.
_KEPT = 64


class TgpuDriver(HostDriver):
    """One device, which is simulated. ``last`` is what the last launch of this process gave: cycles and counts;
    `last_launch` is that launch as a document."""

    id = "tgpu"

    def __init__(self) -> None:
        super().__init__()
        self.last: Result | None = None
        self._record: tuple[Kernel, Assembly, Binding, Any] | None = None

    def probe(self) -> str | None:
        return None

    def devices(self) -> Sequence[DeviceInfo]:
        return (
            DeviceInfo(
                name="tiny-gpu simulator",
                index=0,
                manifest=backend("tgpu").manifest,
                subgroup_size=1,
                memory_total=hostmem.total_bytes(),
                backends=("tgpu",),
                properties={"software": True},
            ),
        )

    def last_launch(self) -> tuple[Launch, dict[str, Any]]:
        """The last launch of this process as a launch document, with what its arrays held before it.

        Each array is an input, and those that the kernel writes are outputs. Raises GpuError where there was no launch,
        or one whose arrays overlap, which documents cannot say.
        """
        if self._record is None:
            raise self.unsupported("nothing was launched on tiny-gpu yet")
        return _document(*self._record)

    def load(self, device: int, artifact: Artifact, **options: Any) -> _Loaded:
        if artifact.payload is None:
            raise self.unsupported("an artifact for tiny-gpu only runs in the process that made it")
        return _Loaded(self, artifact.payload, artifact)


class _Loaded:
    def __init__(self, driver: TgpuDriver, kernel: Kernel, artifact: Artifact) -> None:
        self.driver = driver
        self.kernel = kernel
        self.layout = artifact.layout
        self.reports = False
        self.made: dict[Any, Assembly] = {}

    def bind(self, shape: LaunchShape) -> Call:
        """A function that makes the code of this launch, if it is not there yet, and simulates it."""
        params, layout = self.kernel.params, self.layout

        def call(*words: Any) -> None:
            from magpie.backends.tgpu.simulator import simulate

            arguments = dict(zip((p.name for p in params), host_arguments(params, layout, words), strict=True))
            arrays = {f.name: arguments[f.name] for f in layout.params if isinstance(f, BufferField)}
            written = {p.name for p in params if isinstance(p, Buffer) and p.writes}
            image = Image(arrays, written)
            binding = binding_of(shape, image.places, arguments)
            assembly = self.code(binding)
            blocks, threads = _flat(shape.grid), _flat(shape.block)
            assert isinstance(assembly.shared_size, int)
            memory = image.words()
            result = simulate(
                assembly.program,
                (blocks, threads),
                memory,
                num_registers=assembly.num_registers,
                shared_size=assembly.shared_size,
            )
            assert result.reserved_intact, "the allocator gave R5, R6 or R7 away"
            image.write_back(result.memory, written)
            self.driver.last = result
            self.driver._record = self.kernel, assembly, binding, memory

        return call

    def code(self, binding: Binding) -> Assembly:
        """The code of one launch. Raises CompileError."""
        key = (binding.grid, binding.block, tuple(binding.buffers.items()), tuple(binding.scalars.items()))
        found = self.made.get(key)
        if found is None:
            from magpie.backends.tgpu.kernel import compile_for
            from magpie.runtime.compiling import show_warning

            found = compile_for(self.kernel, binding)
            for warning in found.warnings:
                show_warning(warning)
            if len(self.made) >= _KEPT:
                self.made.clear()
            self.made[key] = found
        return found


def _flat(dims: tuple[int, int, int]) -> int:
    return dims[0] * dims[1] * dims[2]


def _document(kernel: Kernel, assembly: Assembly, binding: Binding, memory: Any) -> tuple[Launch, dict[str, Any]]:
    """A launch as a document, and its inputs."""
    from magpie.backends.tgpu.launch import Buffer as Stretch
    from magpie.backends.tgpu.launch import Kernel as Step
    from magpie.backends.tgpu.launch import Launch

    buffers: dict[str, Stretch] = {}
    inputs: dict[str, Any] = {}
    end = 0
    for array in kernel.buffers:
        place = binding.buffers[array.name]
        if place.addr < end or place.strides != Place.contiguous(place.addr, place.shape).strides:
            raise GpuError(GpuErrorKind.Unsupported, "tgpu", "the arrays of the last launch overlap")
        made = buffers[array.name] = Stretch(place.addr, array.type.name, place.shape, "input")
        end = made.addr + made.size
        inputs[array.name] = from_words(memory[made.addr : end], array.type.numpy, made.shape)
    written = tuple(b.name for b in kernel.buffers if b.writes)
    if not written:
        raise GpuError(GpuErrorKind.Unsupported, "tgpu", "the last launch wrote to no array")
    assert isinstance(assembly.shared_size, int)
    grid, registers = (_flat(binding.grid), _flat(binding.block)), assembly.num_registers
    step = Step(kernel.name, written[0], "kernel", grid, assembly.shared_size, assembly.text, registers)
    names = tuple(buffers)
    return Launch(kernel.name, registers, len(memory), buffers, names, written, (step,)).with_estimate(), inputs


def binding_of(shape: LaunchShape, places: Mapping[str, Place], arguments: Mapping[str, Any]) -> Binding:
    """What a launch decides, of its shape, where its arrays lie, and its arguments by name."""
    scalars: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in places:
            scalars.update(_leaves(name, value))
    return Binding(shape.grid, shape.block, places, scalars)


def _leaves(name: str, value: Any) -> dict[str, Any]:
    """A scalar under its name, the fields of a struct under dotted ones."""
    fields = getattr(getattr(value, "dtype", None), "names", None)
    if fields is None:
        return {name: value.item() if hasattr(value, "item") else value}
    found: dict[str, Any] = {}
    for field in fields:
        found.update(_leaves(f"{name}.{field}", value[field]))
    return found


class Image:
    """Arrays of a launch as the words of its memory. Those that overlap, one of them written, lie in the same words, so
    that a kernel sees there what it wrote."""

    def __init__(self, arrays: Mapping[str, Any], written: set[str]) -> None:
        self.places: dict[str, Place] = {}
        self.parts: list[tuple[Any, list[str]]] = []  # what is copied as a whole, and the arrays in it
        self.size = 0
        for group in _overlapping(arrays, written):
            if len(group) == 1:
                (name,) = group
                array = arrays[name]
                place = Place.contiguous(self.size, array.shape)
                strides = tuple(s // array.itemsize for s in array.strides)
                self.places[name] = Place(place.addr, place.shape, place.strides, strides)
                self.parts.append((array, group))
                self.size += array.size
            else:
                self._together({name: arrays[name] for name in group})

    def _together(self, group: Mapping[str, Any]) -> None:
        """One stretch of memory for arrays that overlap."""
        arrays = list(group.values())
        low, high = min(_bounds(a)[0] for a in arrays), max(_bounds(a)[1] for a in arrays)
        dtype, width = arrays[0].dtype, arrays[0].itemsize
        if any(a.dtype != dtype or (a.ctypes.data - low) % width for a in arrays):
            raise GpuError(
                GpuErrorKind.Unsupported,
                "tgpu",
                f"arguments {', '.join(group)} overlap, and differ in type or by a part of an element",
                help="pass copies of them",
            )
        whole = host_view(low, ((high - low) // width,), (1,), dtype)
        for name, array in group.items():
            strides = tuple(s // width for s in array.strides)
            self.places[name] = Place(self.size + (array.ctypes.data - low) // width, array.shape, strides, strides)
        self.parts.append((whole, list(group)))
        self.size += whole.size

    def words(self) -> Any:
        """The memory before the launch."""
        import numpy as np

        return np.concatenate([np.zeros(0, np.int32), *(to_words(part) for part, _ in self.parts)])

    def write_back(self, memory: Any, written: Iterable[str]) -> None:
        """Copy what the launch left in memory to the arrays that it writes."""
        names = set(written)
        at = 0
        for part, group in self.parts:
            if names & set(group):
                part[...] = from_words(memory[at : at + part.size], part.dtype, part.shape)
            at += part.size


def _bounds(array: Any) -> tuple[int, int]:
    """The first byte of an array, and the one behind its last."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for n, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
    return low, high + array.itemsize


def _overlapping(arrays: Mapping[str, Any], written: set[str]) -> list[list[str]]:
    """The names of arrays, those together that overlap where one of them is written."""
    groups: list[tuple[int, int, list[str]]] = []
    for name, array in arrays.items():
        low, high = _bounds(array)
        mine, apart = [name], []
        for other in groups:
            if low < other[1] and other[0] < high and written & {*mine, *other[2]}:
                low, high, mine = min(low, other[0]), max(high, other[1]), [*other[2], *mine]
            else:
                apart.append(other)
        groups = [*apart, (low, high, mine)]
    return [names for _, _, names in groups]
