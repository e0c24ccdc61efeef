"""Kernels on a device: a shader module, its pipelines, and launches that are recorded with few calls.

A bound launch is a function made as text for its kernel: it finds the memory of each array, puts a barrier before the
dispatch where memory was written since the last one, and gives Vulkan what differs from the launch before.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind, LaunchValueError
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.driver import Call, Dims, LaunchShape
from magpie.runtime.drivers.gpu.launch import choose_entry, dynamic_bytes
from magpie.runtime.drivers.vk.context import Doomed
from magpie.runtime.drivers.vk.descriptors import Bindings, Writes
from magpie.runtime.drivers.vk.lane import Lane
from magpie.runtime.drivers.vk.layouts import make
from magpie.runtime.drivers.vk.modules import check_module
from magpie.runtime.drivers.vk.results import BACKEND
from magpie.runtime.drivers.vk.windows import window
from magpie.runtime.generated import code_of

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context

__all__ = ["VulkanKernel"]

# Bytes of local arrays that some driver is known to refuse (NVIDIA's takes 12,000, and not 16,000), and none less.
_LARGE_LOCAL = 8 << 10


class VulkanKernel:
    """A module on one device, with its pipelines. Raises GpuError."""

    def __init__(self, context: Context, artifact: Artifact, profile: Any) -> None:
        self.layout: KernelLayout = artifact.layout
        self.info = artifact.info
        self.reports = bool(self.info.get("records"))
        self.context = context
        self.name = artifact.kernel
        self._lock = threading.Lock()
        self._pipelines: dict[Any, int] = {}
        self._module = 0
        check_module(artifact)
        self._check_needs(profile)
        self._check_buffers()
        with context.lock:
            context.check()
            uniform = self.info["block_kind"] == "uniform" and self.info["block_size"] > 0
            self.bindings = context.descriptors.bindings(self.info["buffers"] + self.reports, uniform)
            self.push = 0 if uniform else int(self.info["block_size"])
            self.pipeline_layout = context.pipelines.layout(self.bindings, self.push)
        code = ctypes.create_string_buffer(artifact.blob, len(artifact.blob))
        info = make("VkShaderModuleCreateInfo", codeSize=len(artifact.blob), pCode=ctypes.addressof(code))
        self._module = context.pipelines.module(info)

    def _check_needs(self, profile: Any) -> None:
        from magpie.backends.spirv.needs import refusal

        sizes = {f"sg{n}" for n in self.context.physical.subgroup_sizes}  # a pipeline can ask for any of these
        missing = refusal([need for need in self.info["needs"] if need not in sizes], profile)
        if missing:
            raise GpuError(
                GpuErrorKind.Unsupported,
                BACKEND,
                f"kernel {self.name!r} needs what {self.context.name} does not have: {missing}",
                diagnostic="MPG_CORE_1200",
                help=f"compile it for this device: arch={profile.text!r}",
            )

    def _check_buffers(self) -> None:
        count, most = self.info["buffers"] + self.reports, self.context.descriptors.most
        if count > most:
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                BACKEND,
                f"kernel {self.name!r} has {self.info['buffers']} arrays"
                f"{', and checks report through one more' if self.reports else ''}: {self.context.name} takes {most}",
                help="put several arrays into one, as its rows",
            )

    def __del__(self) -> None:
        if not getattr(self, "_module", 0):
            return
        context, module, pipelines = self.context, self._module, list(self._pipelines.values())

        def destroy() -> None:  # (batches keep the kernels that they launch)
            for pipeline in pipelines:
                context.pipelines.destroy(pipeline)
            context.pipelines.destroy_module(module)

        context.bury(Doomed(destroy))

    # --- checks ------------------------------------------------------------------------------------------------------
    def _check(self, grid: Dims, block: Dims, shared: int) -> None:
        context = self.context
        limits = context.physical.limits
        for axis, n, most in zip("xyz", grid, limits.maxComputeWorkGroupCount, strict=True):
            if n > most:
                raise LaunchValueError(
                    f"the grid has {n} workgroups along {axis}; {context.name} takes {most}",
                    backend=BACKEND,
                    diagnostic="MPG_LAUNCH_1006",
                    help="give a workgroup more to do, for example in a loop over the elements, or use more dimensions",
                )
        x, y, z = block
        size = (x * y * z, 1, 1) if self.info.get("linear") else block
        for axis, n, most in zip("xyz", size, limits.maxComputeWorkGroupSize, strict=True):
            if n > most:
                raise LaunchValueError(
                    f"the workgroup has {n} work-items along {axis}; {context.name} takes {most}",
                    backend=BACKEND,
                    diagnostic="MPG_LAUNCH_1007",
                )
        if shared > limits.maxComputeSharedMemorySize:
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                BACKEND,
                f"the shared arrays of kernel {self.name!r} need {shared:,} bytes, and {context.name} has "
                f"{limits.maxComputeSharedMemorySize:,} for a workgroup",
                diagnostic="MPG_SPV_2001",
            )

    def _subgroup(self, block: Dims) -> tuple[int, bool]:
        """The size that subgroups must have, and whether all of them are full; 0: what the device does."""
        physical = self.context.physical
        if not self.info.get("subgroups") or len(physical.subgroup_sizes) < 2:
            size = physical.subgroup_size
            required = 0
        else:
            size = required = int(self.info.get("subgroup_size") or physical.subgroup_size)
        row = block[0] * block[1] * block[2] if self.info.get("linear") else block[0]
        full = bool(self.info.get("subgroups")) and physical.has("computeFullSubgroups") and row % size == 0
        return required, full

    def _pipeline(self, info: dict[str, Any], block: Dims, extents: Sequence[int], rows: Sequence[int]) -> int:
        """The pipeline for a workgroup size, extents of dynamic shared arrays, and a grid that is folded into rows."""
        constants = dict(enumerate((*block, *extents))) | dict(zip(self.info.get("rows", ()), rows, strict=False))
        key = info["entry"], *constants.items()
        found = self._pipelines.get(key)
        if found is None:
            with self._lock:
                found = self._pipelines.get(key)
                if found is None:
                    found = self._pipelines[key] = self._compiled(info["entry"], block, constants)
        return found

    def _compiled(self, entry: str, block: Dims, constants: dict[int, int]) -> int:
        required, full = self._subgroup(block)
        compile_ = self.context.pipelines.compile
        try:
            return compile_(self._module, entry, self.pipeline_layout, constants, required, full, self.name)
        except GpuError as error:
            size = int(self.info.get("local_bytes", 0))
            if error.kind is not GpuErrorKind.CompilationFailed or size < _LARGE_LOCAL:
                raise
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                BACKEND,
                f"the local arrays of kernel {self.name!r} take {size:,} bytes a work-item, and the compiler of "
                f"{self.context.name} does not take the kernel ({error.message})",
                error.code,
                diagnostic="MPG_SPV_2007",
                help="use smaller local arrays, or an array in which each work-item has a row",
            ) from None

    def _rows(self, grid: Dims) -> tuple[Dims, tuple[int, ...]]:
        """A grid of one dimension that is longer than the device's are, as rows; with how many workgroups a row has,
        and all of them together."""
        x, y, z = grid
        most = self.context.physical.limits.maxComputeWorkGroupCount
        if x <= most[0] or (y, z) != (1, 1) or "rows" not in self.info or x > most[0] * most[1]:
            return grid, ()
        count = -(-x // most[0])
        length = -(-x // count)
        return (length, count, 1), (length, x)

    # --- launches ----------------------------------------------------------------------------------------------------
    def bind(self, shape: LaunchShape) -> Call:
        context, block = self.context, shape.block
        extents = [n for f, ns in zip(self.layout.shared, shape.shared, strict=True) if f.dynamic for n in ns]
        physical = context.physical
        # A grid that is too large may be one whose blocks run several workgroups each.
        most = physical.limits.maxComputeWorkGroupCount
        large = any(n > m for n, m in zip(shape.grid, most, strict=True))
        threads = 0 if large else physical.threads or _THREADS
        room = int(physical.limits.maxComputeSharedMemorySize)
        info, grid = choose_entry(self.info, shape.grid, block, extents, lambda: threads, room)
        grid, rows = self._rows(grid)
        self._check(grid, block, dynamic_bytes(info, extents))
        pipeline = self._pipeline(info, block, extents, rows)
        groups = shape.grid[info["dim"]] if info is not self.info else 0
        stream = context.default if shape.stream is None else shape.stream
        stream = getattr(stream, "lane", stream)
        call = _Text(self, pipeline, grid, stream, {info.get("dim", -1): groups}).function()
        if not self.reports:
            return call
        from magpie.runtime.drivers.vk.reporting import reporting

        return reporting(self, call, shape)


_THREADS = 1 << 17  # where a device does not tell how many work-items it runs at once


class _Text:
    """Makes the function of a bound launch."""

    def __init__(self, kernel: VulkanKernel, pipeline: int, grid: Dims, stream: Any, groups: dict[int, int]) -> None:
        self.kernel = kernel
        self.context = kernel.context
        self.info = kernel.info
        self.pipeline = pipeline
        self.grid = grid
        self.stream = stream
        self.groups = groups
        self.words: list[str] = []
        self.arrays: list[tuple[str, BufferField]] = []
        for p in kernel.layout.params:
            start = len(self.words)
            count = 1 + 2 * p.rank if isinstance(p, BufferField) else 1
            self.words += [f"w{start + n}" for n in range(count)]
            if isinstance(p, BufferField):
                self.arrays.append((f"w{start}", p))
        self.names: dict[str, Any] = {}

    def function(self) -> Call:
        """The function: it takes the layout's words, and the record buffer where the kernel reports."""
        kernel = self.kernel
        bindings = kernel.bindings
        count = len(self.arrays)
        parameters = [*self.words, *(["records"] if kernel.reports else [])]
        body: list[str] = []
        pieces = [f"p{n}" for n in range(count)]
        for n in range(count):
            body += self._place(n)
        if kernel.reports:
            body.append("pr = find(records)")
            pieces.append("pr")
        reads = [p for p, (_, f) in zip(pieces, self.arrays, strict=False) if f.access == "read"]
        writes = [p for p, (_, f) in zip(pieces, self.arrays, strict=False) if f.access != "read"]
        writes += ["pr"] if kernel.reports else []
        body.append("r = open_()")
        for piece in pieces:
            body.append(f"if {piece}.last is not r: r.touch({piece})")
        body += self._barrier(reads, writes)
        body.append("cmd = r.commands")
        body += ["if r.pipeline != pipeline:", "    bind_pipeline(cmd, 1, pipeline)", "    r.pipeline = pipeline"]
        body += ["    context.last = kernel"]
        body += ["    r.keep.add(keep)"]
        values, form = self._block()
        infos = [f"i{n}" for n in range(count)] + (["pr.info"] if kernel.reports else [])
        offset = ""
        if bindings.uniform:
            body.append(f"u, at, host = r.uniforms({form.size})")
            body.append(f"pack_into(char_array.from_address(host), 0, {', '.join(values)})")
            self.names["char_array"] = ctypes.c_char * max(1, form.size)
            if bindings.pushed:
                infos.append(f"(u.buffer, at, {form.size})")
            else:
                infos.append(f"(u.buffer, u.offset, {form.size})")
                pieces.append("u")
                offset = "dynamic[0] = at - u.offset"
        body += self._bind(infos, pieces, offset)
        if not bindings.uniform and values:
            body.append(f"pack_into(block, 0, {', '.join(values)})")
            body.append(f"push_constants(cmd, layout, 32, 0, {form.size}, block_at)")
        body.append("dispatch(cmd, gx, gy, gz)")
        body.append("full = done(r)")
        text = f"def call({', '.join([*parameters, '*', 'keep=keep'])}):\n    with lock:\n"
        text += "".join(f"        {line}\n" for line in body)
        if isinstance(self.stream, Lane):
            text += "    if full: throttle()\n"
            self.names["throttle"] = self.stream.throttle
        self._names(form, bindings)
        exec(code_of(text, "<magpie vulkan launch>"), self.names)
        found: Call = self.names.pop("call")  # (a cycle would keep the kernel)
        return found

    def _names(self, form: struct.Struct, bindings: Bindings) -> None:
        context, call = self.context, self.context.call
        block = ctypes.create_string_buffer(max(1, form.size))
        writes = Writes(bindings)
        dynamic = (ctypes.c_uint32 * 1)()
        sets = (ctypes.c_uint64 * 1)()
        gx, gy, gz = self.grid
        self.names |= {
            "lock": context.lock,
            "keep": self.kernel,
            "starts": context.memory.starts,
            "find": context.memory.find,
            "open_": self.stream.open,
            "done": self.stream.recorded,
            "pipeline": self.pipeline,
            "layout": self.kernel.pipeline_layout,
            "bindings": bindings,
            "pack_into": form.pack_into,
            "block": block,
            "block_at": ctypes.addressof(block),
            "infos": writes.infos,
            "writes": writes,  # (kept: its address is passed)
            "writes_at": writes.address,
            "put": struct.Struct(f"<{3 * bindings.count}Q").pack_into,
            "dynamic": dynamic,
            "dynamic_at": ctypes.addressof(dynamic),
            "sets": sets,
            "sets_at": ctypes.addressof(sets),
            "kept": context.descriptors.kept,
            "bind_pipeline": call["vkCmdBindPipeline"],
            "bind_sets": call["vkCmdBindDescriptorSets"],
            "push_descriptors": call.get("vkCmdPushDescriptorSetKHR"),
            "push_constants": call["vkCmdPushConstants"],
            "dispatch": call["vkCmdDispatch"],
            "gx": gx,
            "gy": gy,
            "gz": gz,
            "kernel": self.kernel.name,
            "context": context,
        }

    def _barrier(self, reads: list[str], writes: list[str]) -> list[str]:
        """A barrier where this launch touches what was written since the last one, or writes what was read."""
        tests = [f"{p} in written" for p in (*reads, *writes)] + [f"{p} in read" for p in writes]
        if not tests:
            return []
        lines = ["written = r.written", "read = r.read", f"if {' or '.join(tests)}: r.barrier()"]
        lines += [f"written.add({p})" for p in writes] + [f"read.add({p})" for p in reads]
        return lines

    def _place(self, n: int) -> list[str]:
        """Find an array's memory, what its descriptor says, and where in that the first element is."""
        word, field = self.arrays[n]
        size = int(self.info["item_sizes"][n])
        first = self.words.index(word)
        words = ", ".join(self.words[first : first + 1 + 2 * field.rank])
        self.names[f"window{n}"] = partial(window, self.context, self.kernel.name, field, size)
        # Elements of a size that is no power of two may lie at any multiple of a smaller one.
        odd = f" or ({word} - p{n}.address) % {size}" if size & (size - 1) else ""
        return [
            f"p{n} = starts.get({word}) or find({word})",
            f"i{n} = p{n}.info",
            f"if i{n} is None{odd}: i{n}, o{n} = window{n}(p{n}, {words})",
            f"else: o{n} = 0 if {word} == p{n}.address else ({word} - p{n}.address) // {size}",
        ]

    def _bind(self, infos: list[str], pieces: list[str], offset: str) -> list[str]:
        bindings = self.kernel.bindings
        if not infos:
            return []
        lines = [f"infos_now = ({', '.join(infos)},)"]
        key = "(layout, infos_now)"
        flat = ", ".join(f"*{info}" for info in infos)
        if bindings.pushed:
            lines += [
                f"if r.bound != {key}:",
                f"    put(infos, 0, {flat})",
                f"    push_descriptors(cmd, 1, layout, 0, {bindings.count}, writes_at)",
                f"    r.bound = {key}",
            ]
            return lines
        number = 1 if offset else 0
        change = [
            f"sets[0] = kept(bindings, infos_now, ({', '.join(pieces)},))",
            f"bind_sets(cmd, 1, layout, 0, 1, sets_at, {number}, {'dynamic_at' if offset else 'None'})",
        ]
        if offset:  # bound anew each time, and whoever comes next has to do so as well
            return [*lines, offset, *change, "r.bound = None"]
        return [*lines, f"if r.bound != {key}:", *(f"    {c}" for c in change), f"    r.bound = {key}"]

    def _block(self) -> tuple[list[str], struct.Struct]:
        """The values of the block of numbers in order, and its form."""
        values: list[str] = []
        parts = ["<"]
        at = 0
        for source, code, offset in sorted(self.info["block"], key=lambda entry: entry[2]):
            parts.append(f"{offset - at}x{code}" if offset > at else code)
            at = offset + struct.calcsize("<" + code)
            values.append(self._value(*source))
        size = int(self.info["block_size"])
        parts.append(f"{size - at}x" if size > at else "")
        return values, struct.Struct("".join(parts))

    def _value(self, kind: str, number: int) -> str:
        if kind == "word":
            return str(self.words[number])
        if kind == "groups":
            return str(self.groups.get(number, 0))
        return f"o{number}"
