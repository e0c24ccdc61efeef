"""Writes `structs.py` and `constants.py` of `magpie.runtime.drivers.vk` from Vulkan's registry (PyPI vulkan-object).

Run it as `python tools/gen_vulkan_binding.py`. Only what the driver uses is written.
`tests/unit/test_vulkan_binding.py` computes sizes and offsets from the registry by the rules of C, and compares.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from vulkan_object import get_vulkan_object

FOLDER = Path(__file__).resolve().parents[1] / "src/magpie/runtime/drivers/vk"

STRUCTS = [
    "VkApplicationInfo",
    "VkInstanceCreateInfo",
    "VkLayerProperties",
    "VkExtensionProperties",
    "VkDebugUtilsMessengerCreateInfoEXT",
    "VkDebugUtilsMessengerCallbackDataEXT",
    "VkValidationFeaturesEXT",
    "VkPhysicalDeviceProperties2",
    "VkPhysicalDeviceVulkan11Properties",
    "VkPhysicalDeviceVulkan12Properties",
    "VkPhysicalDeviceVulkan13Properties",
    "VkPhysicalDevicePushDescriptorProperties",
    "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV",
    "VkPhysicalDeviceShaderCorePropertiesAMD",
    "VkPhysicalDeviceFeatures2",
    "VkPhysicalDeviceVulkan11Features",
    "VkPhysicalDeviceVulkan12Features",
    "VkPhysicalDeviceVulkan13Features",
    "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT",
    "VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR",
    "VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR",
    "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
    "VkPhysicalDeviceCooperativeMatrixPropertiesKHR",
    "VkCooperativeMatrixPropertiesKHR",
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR",
    "VkPhysicalDeviceMemoryProperties2",
    "VkPhysicalDeviceMemoryBudgetPropertiesEXT",
    "VkQueueFamilyProperties2",
    "VkDeviceQueueCreateInfo",
    "VkDeviceCreateInfo",
    "VkMemoryAllocateInfo",
    "VkBufferCreateInfo",
    "VkMemoryRequirements",
    "VkCommandPoolCreateInfo",
    "VkCommandBufferAllocateInfo",
    "VkCommandBufferBeginInfo",
    "VkMemoryBarrier",
    "VkBufferCopy",
    "VkSubmitInfo",
    "VkTimelineSemaphoreSubmitInfo",
    "VkSemaphoreCreateInfo",
    "VkSemaphoreTypeCreateInfo",
    "VkSemaphoreWaitInfo",
    "VkQueryPoolCreateInfo",
    "VkShaderModuleCreateInfo",
    "VkDescriptorSetLayoutBinding",
    "VkDescriptorSetLayoutCreateInfo",
    "VkPushConstantRange",
    "VkPipelineLayoutCreateInfo",
    "VkSpecializationMapEntry",
    "VkSpecializationInfo",
    "VkPipelineShaderStageCreateInfo",
    "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo",
    "VkComputePipelineCreateInfo",
    "VkPipelineCacheCreateInfo",
    "VkDescriptorPoolSize",
    "VkDescriptorPoolCreateInfo",
    "VkDescriptorSetAllocateInfo",
    "VkDescriptorBufferInfo",
    "VkWriteDescriptorSet",
]

# What is asked for before there is an instance, of an instance, and of a device.
FUNCTIONS = {
    "GLOBAL": """
vkCreateInstance vkEnumerateInstanceVersion vkEnumerateInstanceLayerProperties vkEnumerateInstanceExtensionProperties
""",
    "INSTANCE": """
vkDestroyInstance vkEnumeratePhysicalDevices vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties2
vkGetPhysicalDeviceFeatures2
vkGetPhysicalDeviceMemoryProperties2 vkGetPhysicalDeviceQueueFamilyProperties2 vkEnumerateDeviceExtensionProperties
vkCreateDevice vkGetDeviceProcAddr vkCreateDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT
vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
""",
    "DEVICE": """
vkDestroyDevice vkGetDeviceQueue vkDeviceWaitIdle vkAllocateMemory vkFreeMemory vkMapMemory vkCreateBuffer
vkDestroyBuffer
vkGetBufferMemoryRequirements vkBindBufferMemory vkCreateCommandPool vkDestroyCommandPool vkAllocateCommandBuffers
vkFreeCommandBuffers
vkBeginCommandBuffer vkEndCommandBuffer vkQueueSubmit vkCreateSemaphore vkDestroySemaphore vkGetSemaphoreCounterValue
vkWaitSemaphores vkCreateQueryPool vkDestroyQueryPool vkGetQueryPoolResults vkCreateShaderModule vkDestroyShaderModule
vkCreateDescriptorSetLayout vkDestroyDescriptorSetLayout vkCreatePipelineLayout vkDestroyPipelineLayout
vkCreatePipelineCache vkDestroyPipelineCache vkGetPipelineCacheData vkCreateComputePipelines vkDestroyPipeline
vkCreateDescriptorPool vkDestroyDescriptorPool vkAllocateDescriptorSets vkUpdateDescriptorSets vkCmdBindPipeline
vkCmdBindDescriptorSets vkCmdPushDescriptorSetKHR vkCmdPushConstants vkCmdDispatch vkCmdPipelineBarrier vkCmdCopyBuffer
vkCmdFillBuffer vkCmdResetQueryPool vkCmdWriteTimestamp
""",
}

# Constants by enumeration: the names that are used, or all.
CONSTANTS: dict[str, str | None] = {
    "VkResult": "SUCCESS NOT_READY TIMEOUT INCOMPLETE OUT_OF_HOST_MEMORY OUT_OF_DEVICE_MEMORY INITIALIZATION_FAILED "
    "DEVICE_LOST MEMORY_MAP_FAILED LAYER_NOT_PRESENT EXTENSION_NOT_PRESENT FEATURE_NOT_PRESENT INCOMPATIBLE_DRIVER "
    "TOO_MANY_OBJECTS FORMAT_NOT_SUPPORTED FRAGMENTED_POOL UNKNOWN VALIDATION_FAILED OUT_OF_POOL_MEMORY "
    "INVALID_EXTERNAL_HANDLE INVALID_OPAQUE_CAPTURE_ADDRESS FRAGMENTATION PIPELINE_COMPILE_REQUIRED NOT_PERMITTED "
    "INVALID_SHADER_NV",
    "VkDriverId": "AMD_PROPRIETARY AMD_OPEN_SOURCE MESA_RADV NVIDIA_PROPRIETARY INTEL_PROPRIETARY_WINDOWS "
    "INTEL_OPEN_SOURCE_MESA GOOGLE_SWIFTSHADER MESA_LLVMPIPE MOLTENVK MESA_NVK MESA_HONEYKRISP MESA_KOSMICKRISP",
    "VkPhysicalDeviceType": "OTHER INTEGRATED_GPU DISCRETE_GPU VIRTUAL_GPU CPU",
    "VkComponentTypeKHR": "FLOAT16 FLOAT32 BFLOAT16 SINT8 SINT32 UINT8 UINT32",
    "VkScopeKHR": "SUBGROUP",
    "VkMemoryPropertyFlagBits": "DEVICE_LOCAL HOST_VISIBLE HOST_COHERENT HOST_CACHED",
    "VkMemoryHeapFlagBits": "DEVICE_LOCAL",
    "VkQueueFlagBits": "GRAPHICS COMPUTE",
    "VkBufferUsageFlagBits": "TRANSFER_SRC TRANSFER_DST UNIFORM_BUFFER STORAGE_BUFFER",
    "VkCommandPoolCreateFlagBits": "RESET_COMMAND_BUFFER",
    "VkCommandBufferUsageFlagBits": "ONE_TIME_SUBMIT SIMULTANEOUS_USE",
    "VkPipelineStageFlagBits": "COMPUTE_SHADER TRANSFER HOST ALL_COMMANDS BOTTOM_OF_PIPE",
    "VkAccessFlagBits": "UNIFORM_READ SHADER_READ SHADER_WRITE TRANSFER_READ TRANSFER_WRITE HOST_READ",
    "VkPipelineBindPoint": "COMPUTE",
    "VkShaderStageFlagBits": "COMPUTE",
    "VkSubgroupFeatureFlagBits": "BASIC VOTE ARITHMETIC BALLOT SHUFFLE SHUFFLE_RELATIVE",
    "VkDescriptorType": "UNIFORM_BUFFER_DYNAMIC UNIFORM_BUFFER STORAGE_BUFFER",
    "VkDescriptorSetLayoutCreateFlagBits": "PUSH_DESCRIPTOR",
    "VkPipelineShaderStageCreateFlagBits": "REQUIRE_FULL_SUBGROUPS",
    "VkQueryType": "TIMESTAMP",
    "VkQueryResultFlagBits": "64 WAIT",
    "VkSemaphoreType": "TIMELINE",
    "VkInstanceCreateFlagBits": "ENUMERATE_PORTABILITY_BIT_KHR",
    "VkDebugUtilsMessageSeverityFlagBitsEXT": "WARNING ERROR",
    "VkDebugUtilsMessageTypeFlagBitsEXT": "GENERAL VALIDATION PERFORMANCE",
    "VkValidationFeatureEnableEXT": "SYNCHRONIZATION_VALIDATION",
    "VkShaderFloatControlsIndependence": None,
}  # fmt: skip

LETTERS = {
    "uint32_t": "I", "int32_t": "i", "uint64_t": "Q", "int64_t": "q", "float": "f", "double": "d", "size_t": "Z",
    "uint8_t": "B", "char": "c", "VkBool32": "I", "VkDeviceSize": "Q", "VkFlags": "I", "VkFlags64": "Q", "int": "i",
    "VkDeviceAddress": "Q", "VkSampleMask": "I", "void": "v",
}  # fmt: skip

WRITTEN = (
    "This file is written by `tools/gen_vulkan_binding.py` from Vulkan's registry, version {version}. Do not edit it."
)

CONSTANTS_HEAD = f'''"""Vulkan's constants, as far as the driver uses them.

{WRITTEN}
"""

from __future__ import annotations
'''

HEAD = f'''"""Vulkan's structs and functions, as far as the driver uses them.

{WRITTEN}

A field is ``name:kind``, with ``*n`` for arrays; a kind is a letter or another struct of this file. I and i are 32-bit
integers, Q and q 64-bit ones and handles, f and d floats, B bytes, c characters, Z a size_t and P a pointer. A function
is the kind of its result and those of its parameters.
"""

from __future__ import annotations

# fmt: off
'''


def kind(vk: Any, member: Any) -> str:
    """The letter of a field or parameter."""
    if member.pointer or "*" in member.fullType or member.type.startswith("PFN_"):
        return "P"
    name = member.type
    if name in LETTERS:
        return LETTERS[name]
    if name in vk.handles:
        return "P" if vk.handles[name].dispatchable else "Q"
    if name in vk.enums:
        return "i"
    if name in vk.bitmasks:
        return "Q" if vk.bitmasks[name].bitWidth == 64 else "I"
    if name in vk.flags:
        return "Q" if vk.flags[name].bitWidth == 64 else "I"
    if name in vk.structs:
        return str(name)
    raise SystemExit(f"no kind for {name}")


def field(vk: Any, member: Any) -> str:
    """``name:kind`` of a struct's member."""
    text = f"{member.name}:{kind(vk, member)}"
    for size in member.fixedSizeArray:
        text += f"*{vk.constants[size].value if size in vk.constants else size}"
    return text


def in_order(vk: Any, names: list[str]) -> list[str]:
    """The structs with those that they contain, each behind what it needs."""
    found: list[str] = []

    def add(name: str) -> None:
        if name in found:
            return
        for m in vk.structs[name].members:
            if not m.pointer and m.type in vk.structs:
                add(m.type)
        found.append(name)

    for name in names:
        add(name)
    return found


def wrapped(text: str, indent: str) -> str:
    """Text as string literals of lines that fit."""
    lines = textwrap.wrap(text, 110 - len(indent), break_long_words=False)
    return "\n".join(f'{indent}"{line}{" " if n < len(lines) - 1 else ""}"' for n, line in enumerate(lines))


def main() -> None:
    vk = get_vulkan_object()
    out = [HEAD.format(version=vk.headerVersionComplete)]
    out.append("#: Struct -> its VkStructureType (-1: it has none) and its fields.\n")
    out.append("STRUCTS: dict[str, tuple[int, str]] = {\n")
    types = {f.name: f.value for f in vk.enums["VkStructureType"].fields}
    for name in in_order(vk, STRUCTS):
        struct = vk.structs[name]
        number = types[struct.sType] if struct.sType else -1
        body = wrapped(" ".join(field(vk, m) for m in struct.members), " " * 8)
        out.append(f'    "{name}": (\n        {number},\n{body},\n    ),\n')
    out.append("}\n")
    for group, names in FUNCTIONS.items():
        out.append(f"\n{group}: dict[str, str] = {{\n")
        for name in names.split():
            command = vk.commands[name]
            result = {"void": "v", "PFN_vkVoidFunction": "P"}.get(command.returnType, "i")
            parts = [result, *(kind(vk, p) if not p.fixedSizeArray else "P" for p in command.params)]
            out.append(f'    "{name}": "{" ".join(parts)}",\n')
        out.append("}\n")
    (FOLDER / "structs.py").write_text("".join(out), encoding="utf-8")
    out = [CONSTANTS_HEAD.format(version=vk.headerVersionComplete)]
    for enum, wanted in CONSTANTS.items():
        fields = vk.enums[enum].fields if enum in vk.enums else vk.bitmasks[enum].flags
        out.append(f"\n# {enum}\n")
        for f in fields:
            short = f.name
            words = [] if wanted is None else wanted.split()
            ends = [w if w.endswith("_KHR") else f"{w}_BIT" for w in words] + words
            if wanted is None or any(short.endswith(("_" + e, f"_{e}_EXT", f"_{e}_KHR")) for e in ends):
                out.append(f"{short} = {f.value}\n")
    (FOLDER / "constants.py").write_text("".join(out), encoding="utf-8")


if __name__ == "__main__":
    main()
