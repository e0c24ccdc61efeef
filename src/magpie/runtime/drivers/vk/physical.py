"""Physical devices: what Vulkan tells of one, and which of its features are enabled."""

from __future__ import annotations

import ctypes
from typing import Any

from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import chain, make
from magpie.runtime.drivers.vk.library import API_VERSION, Instance, enumerated

__all__ = ["EXTENSION_FEATURES", "PhysicalDevice", "version_text"]

#: Extension -> the struct of its features.
EXTENSION_FEATURES = {
    "VK_EXT_shader_atomic_float": "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT",
    "VK_KHR_shader_maximal_reconvergence": "VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR",
    "VK_KHR_shader_subgroup_uniform_control_flow": "VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR",
    "VK_KHR_cooperative_matrix": "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
    "VK_KHR_shader_bfloat16": "VkPhysicalDeviceShaderBfloat16FeaturesKHR",
}
_EXTENSION_PROPERTIES = {
    "VK_KHR_push_descriptor": "VkPhysicalDevicePushDescriptorProperties",
    "VK_KHR_cooperative_matrix": "VkPhysicalDeviceCooperativeMatrixPropertiesKHR",
    "VK_NV_shader_sm_builtins": "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV",
    "VK_AMD_shader_core_properties": "VkPhysicalDeviceShaderCorePropertiesAMD",
}
#: Extensions that are enabled where there are, besides those with features of their own.
_ENABLED = ("VK_KHR_push_descriptor", "VK_EXT_memory_budget", "VK_KHR_portability_subset")

_CORE_FEATURES = (
    "VkPhysicalDeviceVulkan11Features",
    "VkPhysicalDeviceVulkan12Features",
    "VkPhysicalDeviceVulkan13Features",
)
_CORE_PROPERTIES = (
    "VkPhysicalDeviceVulkan11Properties",
    "VkPhysicalDeviceVulkan12Properties",
    "VkPhysicalDeviceVulkan13Properties",
)

#: What kernels and the driver use, by struct: all of it is enabled where a device has it, and nothing else. Robust
#: access stays off: it costs time, and checked mode finds what it would hide.
_WANTED: dict[str, tuple[str, ...]] = {
    "VkPhysicalDeviceFeatures": ("shaderFloat64", "shaderInt64", "shaderInt16"),
    "VkPhysicalDeviceVulkan11Features": ("storageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess"),
    "VkPhysicalDeviceVulkan12Features": (
        "storageBuffer8BitAccess", "uniformAndStorageBuffer8BitAccess", "shaderBufferInt64Atomics",
        "shaderSharedInt64Atomics", "shaderFloat16", "shaderInt8", "shaderSubgroupExtendedTypes", "timelineSemaphore",
        "vulkanMemoryModel", "vulkanMemoryModelDeviceScope", "scalarBlockLayout",
    ),
    "VkPhysicalDeviceVulkan13Features": (
        "subgroupSizeControl", "computeFullSubgroups", "synchronization2", "maintenance4",
        "shaderZeroInitializeWorkgroupMemory", "shaderIntegerDotProduct",
    ),
    "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT": (
        "shaderBufferFloat32Atomics", "shaderBufferFloat32AtomicAdd", "shaderBufferFloat64Atomics",
        "shaderBufferFloat64AtomicAdd", "shaderSharedFloat32Atomics", "shaderSharedFloat32AtomicAdd",
        "shaderSharedFloat64Atomics", "shaderSharedFloat64AtomicAdd",
    ),
    "VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR": ("shaderMaximalReconvergence",),
    "VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR": ("shaderSubgroupUniformControlFlow",),
    "VkPhysicalDeviceCooperativeMatrixFeaturesKHR": ("cooperativeMatrix",),
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR": (
        "shaderBFloat16Type", "shaderBFloat16CooperativeMatrix",
    ),
}  # fmt: skip


def version_text(version: int) -> str:
    """A version of Vulkan's as people write it."""
    return f"{version >> 22 & 0x7F}.{version >> 12 & 0x3FF}.{version & 0xFFF}"


class PhysicalDevice:
    """What a driver tells of one device; nothing is created on it."""

    def __init__(self, instance: Instance, handle: int) -> None:
        self.instance = instance
        self.handle = handle
        call = instance.functions
        head = make("VkPhysicalDeviceProperties2")
        call["vkGetPhysicalDeviceProperties2"](handle, ctypes.byref(head))
        self.api_version: int = head.properties.apiVersion
        listed = enumerated(call["vkEnumerateDeviceExtensionProperties"], "VkExtensionProperties", handle, None)
        self.extensions = frozenset(each.extensionName.decode() for each in listed)
        #: Whether this driver can use the device at all.
        self.new_enough = self.api_version >= API_VERSION
        properties = "vkGetPhysicalDeviceProperties2"
        self._properties = self._chained(properties, head, _CORE_PROPERTIES, _EXTENSION_PROPERTIES)
        self.properties = head.properties
        self.limits = head.properties.limits
        features = make("VkPhysicalDeviceFeatures2")
        self._features = self._chained("vkGetPhysicalDeviceFeatures2", features, _CORE_FEATURES, EXTENSION_FEATURES)
        self._features["VkPhysicalDeviceFeatures"] = features.features
        memory = make("VkPhysicalDeviceMemoryProperties2")
        call["vkGetPhysicalDeviceMemoryProperties2"](handle, ctypes.byref(memory))
        self.memory = memory.memoryProperties
        self.families = [
            each.queueFamilyProperties
            for each in enumerated(
                call["vkGetPhysicalDeviceQueueFamilyProperties2"], "VkQueueFamilyProperties2", handle
            )
        ]

    def _chained(self, function: str, head: Any, core: tuple[str, ...], more: dict[str, str]) -> dict[str, Any]:
        wanted = list(core) if self.new_enough else []
        wanted += [name for extension, name in more.items() if extension in self.extensions]
        parts = {name: make(name) for name in wanted}
        chain(head, *parts.values())
        self.instance.functions[function](self.handle, ctypes.byref(head))
        return parts

    # --- facts -------------------------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """The device's name."""
        text: bytes = self.properties.deviceName
        return text.decode("utf-8", "replace")

    def tells(self, struct: str, field: str, default: Any = 0) -> Any:
        """A property by its struct (without VkPhysicalDevice) and name; ``default`` where the device does not tell."""
        found = self._properties.get(f"VkPhysicalDevice{struct}")
        return default if found is None else getattr(found, field)

    def has(self, feature: str) -> bool:
        """Whether the device has a feature that the driver enables."""
        return any(
            feature in fields and bool(getattr(self._features[struct], feature))
            for struct, fields in _WANTED.items()
            if struct in self._features
        )

    @property
    def is_cpu(self) -> bool:
        """A driver that runs on the processor, such as lavapipe and SwiftShader."""
        return bool(self.properties.deviceType == vk.VK_PHYSICAL_DEVICE_TYPE_CPU)

    @property
    def driver_id(self) -> int:
        """VkDriverId."""
        found: int = self.tells("Vulkan12Properties", "driverID")
        return found

    @property
    def uuid(self) -> str:
        """The device's UUID as hexadecimal text, the same in all vendor's APIs; empty where it has none."""
        raw = bytes(self.tells("Vulkan11Properties", "deviceUUID", b""))
        return raw.hex() if any(raw) else ""

    @property
    def cache_uuid(self) -> bytes:
        """What a pipeline cache is for."""
        return bytes(self.properties.pipelineCacheUUID)

    @property
    def subgroup_size(self) -> int:
        """Work-items of a subgroup, where the pipeline asks for no other."""
        found: int = self.tells("Vulkan11Properties", "subgroupSize")
        return found

    @property
    def subgroup_sizes(self) -> tuple[int, ...]:
        """The sizes that a pipeline may ask for, smallest first; the only one where it cannot."""
        fields = ("minSubgroupSize", "maxSubgroupSize", "requiredSubgroupSizeStages")
        low, high, stages = (self.tells("Vulkan13Properties", f) for f in fields)
        if not (self.has("subgroupSizeControl") and stages & vk.VK_SHADER_STAGE_COMPUTE_BIT and low):
            return (self.subgroup_size,)
        return tuple(1 << n for n in range(8) if low <= 1 << n <= high)

    @property
    def largest_buffer(self) -> int:
        """Bytes of the largest buffer."""
        found = self.tells("Vulkan13Properties", "maxBufferSize")
        return int(found) or 1 << 32

    @property
    def largest_allocation(self) -> int:
        """Bytes of the largest allocation."""
        found = self.tells("Vulkan11Properties", "maxMemoryAllocationSize")
        return int(found) or 1 << 30

    @property
    def multiprocessors(self) -> int:
        """How many multiprocessors (compute units) the device has; 0 where it does not tell."""
        core = "ShaderCorePropertiesAMD"
        units = self.tells(core, "shaderEngineCount") * self.tells(core, "shaderArraysPerEngineCount")
        units *= self.tells(core, "computeUnitsPerShaderArray")
        return int(self.tells("ShaderSMBuiltinsPropertiesNV", "shaderSMCount") or units)

    @property
    def threads(self) -> int:
        """How many work-items the device holds at once; 0 where it does not tell."""
        core = "ShaderCorePropertiesAMD"
        waves = self.tells(core, "simdPerComputeUnit") * self.tells(core, "wavefrontsPerSimd")
        each = waves * self.tells(core, "wavefrontSize")
        return self.multiprocessors * int(self.tells("ShaderSMBuiltinsPropertiesNV", "shaderWarpsPerSM") * 32 or each)

    @property
    def memory_total(self) -> int:
        """Bytes of the heap that arrays lie in."""
        sizes = [(bool(h.flags & vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT), h.size) for h in self.heaps]
        return int(max(sizes, default=(False, 0))[1])

    @property
    def heaps(self) -> list[Any]:
        """The heaps."""
        return list(self.memory.memoryHeaps[: self.memory.memoryHeapCount])

    def matrix_shapes(self) -> list[tuple[int, int, int, int, int, int]]:
        """Cooperative matrices of a subgroup: M, N, K and the component types of A, C and the result."""
        call = self.instance.functions.get("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
        if call is None or not self.has("cooperativeMatrix"):
            return []
        found = enumerated(call, "VkCooperativeMatrixPropertiesKHR", self.handle)
        return [
            (p.MSize, p.NSize, p.KSize, p.AType, p.CType, p.ResultType)
            for p in found
            if p.scope == vk.VK_SCOPE_SUBGROUP_KHR and p.AType == p.BType
        ]

    # --- what a logical device enables -------------------------------------------------------------------------------
    def enabled_extensions(self) -> list[str]:
        """Extensions to enable."""
        return [e for e in (*_ENABLED, *EXTENSION_FEATURES) if e in self.extensions]

    def enabled_features(self) -> Any:
        """The chain of features to enable."""
        parts: list[Any] = []
        for name, found in self._features.items():
            part = make(name) if name != "VkPhysicalDeviceFeatures" else None
            head = make("VkPhysicalDeviceFeatures2") if part is None else part
            target = head.features if part is None else part
            for field in _WANTED.get(name, ()):
                setattr(target, field, getattr(found, field))
            parts.insert(0 if part is None else len(parts), head)
        return chain(*parts)

    def compute_family(self) -> tuple[int, Any]:
        """The queue family to compute on, one that does nothing else before others, and what it is like."""
        families = [(n, f) for n, f in enumerate(self.families) if f.queueFlags & vk.VK_QUEUE_COMPUTE_BIT]
        # NVIDIA's and AMD's families without graphics give compute work queues of its own.
        families.sort(key=lambda each: bool(each[1].queueFlags & vk.VK_QUEUE_GRAPHICS_BIT))
        return families[0]

    def push_descriptors(self) -> int:
        """How many descriptors can be pushed into a command buffer; 0: none."""
        found: int = self.tells("PushDescriptorProperties", "maxPushDescriptors")
        return found
