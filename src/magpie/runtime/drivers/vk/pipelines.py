"""Pipelines of a device, and the cache of what its driver compiled, which is kept on disk between processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct as bytes_of
import threading
import zlib
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.errors import GpuErrorKind
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import array, make, struct

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.descriptors import Bindings

__all__ = ["Pipelines"]

_MAGIC = b"MPGVKPC1"
_HEAD = bytes_of.Struct("<8sIQ")  # magic, crc32 of the data, their length
_MOST = 64 << 20  # bytes of a file that is read or written
#: New pipelines after which the file is written, besides at the end.
_OFTEN = 32


class Pipelines:
    """Makes pipelines. `created` counts them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.created = 0
        #: What is there now.
        self.live: set[int] = set()
        self.modules: set[int] = set()
        self._saved = 0
        self._layouts: dict[tuple[Bindings, int], int] = {}
        self._lock = threading.Lock()
        data = self._load()
        kept = ctypes.create_string_buffer(data, len(data)) if data else None
        info = make(
            "VkPipelineCacheCreateInfo",
            initialDataSize=len(data),
            pInitialData=None if kept is None else ctypes.addressof(kept),
        )
        self._cache = context.created("vkCreatePipelineCache", info)

    # --- making ------------------------------------------------------------------------------------------------------
    def layout(self, bindings: Bindings, push: int) -> int:
        """The pipeline layout for bindings and so many bytes of push constants. Needs the lock of the device."""
        key = bindings, push
        found = self._layouts.get(key)
        if found is None:
            ranges = array(struct("VkPushConstantRange"), [(vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, push)] if push else [])
            sets = array(ctypes.c_uint64, [bindings.layout])
            info = make(
                "VkPipelineLayoutCreateInfo",
                setLayoutCount=1,
                pSetLayouts=ctypes.addressof(sets),
                pushConstantRangeCount=len(ranges),
                pPushConstantRanges=ctypes.addressof(ranges),
            )
            found = self._layouts[key] = self.context.created("vkCreatePipelineLayout", info)
        return found

    def compile(
        self, module: int, entry: str, layout: int, constants: dict[int, int], subgroup: int, full: bool, kernel: str
    ) -> int:
        """A pipeline. ``constants`` are specialization constants by their numbers; ``subgroup`` is the size that
        subgroups must have (0: the device's own), ``full`` that none is partial. The driver compiles here; no lock is
        held."""
        context = self.context
        places = [(number, 4 * n, 4) for n, number in enumerate(constants)]
        entries = array(struct("VkSpecializationMapEntry"), places)
        data = array(ctypes.c_uint32, list(constants.values()))
        special = make(
            "VkSpecializationInfo",
            mapEntryCount=len(entries),
            pMapEntries=ctypes.addressof(entries),
            dataSize=4 * len(constants),
            pData=ctypes.addressof(data),
        )
        name = ctypes.create_string_buffer(entry.encode())
        info = make("VkComputePipelineCreateInfo", layout=layout, basePipelineIndex=-1)
        stage = make(
            "VkPipelineShaderStageCreateInfo",
            flags=vk.VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT if full else 0,
            stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            module=module,
            pName=ctypes.addressof(name),
            pSpecializationInfo=ctypes.addressof(special),
        )
        required = make("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo", requiredSubgroupSize=subgroup)
        if subgroup:
            stage.pNext = ctypes.addressof(required)
        info.stage = stage
        out = ctypes.c_uint64()
        create = context.call["vkCreateComputePipelines"]
        code = create(context.handle, self._cache, 1, ctypes.byref(info), None, ctypes.byref(out))
        if code:
            kind = None
            if code in (vk.VK_ERROR_INITIALIZATION_FAILED, vk.VK_ERROR_UNKNOWN):
                kind = GpuErrorKind.CompilationFailed  # that is how drivers say that they could not compile
            from magpie.runtime.drivers.vk.results import error

            failed = context.failed(code, f"compiling kernel {kernel!r}")
            raise failed if kind is None else error(code, f"compiling kernel {kernel!r}", kind)
        self.live.add(out.value)
        self.created += 1
        if self.created - self._saved >= _OFTEN:
            self.save()
        return out.value

    def destroy(self, pipeline: int) -> None:
        """Destroy a pipeline that no command uses."""
        self.live.discard(pipeline)
        self.context.call["vkDestroyPipeline"](self.context.handle, pipeline, None)

    def module(self, info: Any) -> int:
        """A new shader module."""
        made = self.context.created("vkCreateShaderModule", info)
        self.modules.add(made)
        return made

    def destroy_module(self, module: int) -> None:
        """Destroy a shader module."""
        self.modules.discard(module)
        self.context.call["vkDestroyShaderModule"](self.context.handle, module, None)

    # --- the cache on disk -------------------------------------------------------------------------------------------
    def path(self) -> str:
        """The file of this device and driver; empty where nothing is kept."""
        if not knobs.cache():
            return ""
        return os.path.join(knobs.cache_folder(), f"vulkan-{self.context.physical.cache_uuid.hex()}.bin")

    def _load(self) -> bytes:
        """What the file has for this driver. Anything else is as if there was no file."""
        path = self.path()
        if not path:
            return b""
        try:
            with open(path, "rb") as file:
                raw = file.read(_MOST + _HEAD.size)
        except OSError:
            return b""
        if len(raw) < _HEAD.size + 32:
            return b""
        magic, checksum, length = _HEAD.unpack_from(raw)
        data = raw[_HEAD.size :]
        if magic != _MAGIC or length != len(data) or zlib.crc32(data) != checksum:
            return b""
        # VkPipelineCacheHeaderVersionOne
        size, version, vendor, device = bytes_of.unpack_from("<4I", data)
        properties = self.context.physical.properties
        mine = (32, 1, properties.vendorID, properties.deviceID, self.context.physical.cache_uuid)
        return data if (size, version, vendor, device, data[16:32]) == mine else b""

    def save(self) -> None:
        """Write what the driver compiled, if there is something new; never fails."""
        path = self.path()
        with self._lock:
            if self.created == self._saved or not path:
                return
            self._saved = self.created
            data = self._data()
            if not 32 < len(data) <= _MOST:  # a header alone: the driver keeps nothing
                return
            temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
            try:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                with open(temporary, "wb") as file:
                    file.write(_HEAD.pack(_MAGIC, zlib.crc32(data), len(data)) + data)
                os.replace(temporary, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _data(self) -> bytes:
        context = self.context
        get, size = context.call["vkGetPipelineCacheData"], ctypes.c_size_t()
        if get(context.handle, self._cache, ctypes.byref(size), None) or not size.value:
            return b""
        out = ctypes.create_string_buffer(size.value)
        if get(context.handle, self._cache, ctypes.byref(size), out):
            return b""
        return out.raw[: size.value]

    def close(self) -> None:
        """Destroy everything."""
        context = self.context
        for pipeline in tuple(self.live):
            self.destroy(pipeline)
        for module in tuple(self.modules):
            self.destroy_module(module)
        for layout in self._layouts.values():
            context.call["vkDestroyPipelineLayout"](context.handle, layout, None)
        context.call["vkDestroyPipelineCache"](context.handle, self._cache, None)
