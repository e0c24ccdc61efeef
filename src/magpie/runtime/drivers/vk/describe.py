"""A physical device in Magpie's words: its profile, its manifest and its `DeviceInfo`."""

from __future__ import annotations

from typing import Any

from magpie.runtime.driver import DeviceInfo
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.physical import PhysicalDevice, version_text

__all__ = ["device_info", "profile_of"]

# Drivers whose work-items run as the lanes of vector code on a processor, with masks: they come together again where
# control flow does.
_LOCKSTEP = (vk.VK_DRIVER_ID_MESA_LLVMPIPE, vk.VK_DRIVER_ID_GOOGLE_SWIFTSHADER)
# GPUs whose Fma has one rounding; lavapipe and SwiftShader multiply and add, but divide as the processor does, where
# these are off by a few units in the last place. What others do is not known here, so neither is taken for granted.
_FUSED = (
    vk.VK_DRIVER_ID_NVIDIA_PROPRIETARY,
    vk.VK_DRIVER_ID_MESA_NVK,
    vk.VK_DRIVER_ID_AMD_PROPRIETARY,
    vk.VK_DRIVER_ID_AMD_OPEN_SOURCE,
    vk.VK_DRIVER_ID_MESA_RADV,
    vk.VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS,
    vk.VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
    vk.VK_DRIVER_ID_MOLTENVK,
    vk.VK_DRIVER_ID_MESA_HONEYKRISP,
    vk.VK_DRIVER_ID_MESA_KOSMICKRISP,
)

_FEATURES = {
    "i64": "shaderInt64",
    "i16": "shaderInt16",
    "i8": "shaderInt8",
    "f16": "shaderFloat16",
    "f64": "shaderFloat64",
    "s8": "storageBuffer8BitAccess",
    "s16": "storageBuffer16BitAccess",
    "bf16": "shaderBFloat16Type",
    "subgroup_types": "shaderSubgroupExtendedTypes",
    "reconverge": "shaderMaximalReconvergence",
}
_FLOAT_CONTROLS = {
    f"{ours}{bits}": f"shader{theirs}Float{bits}"
    for ours, theirs in {
        "denorm": "DenormPreserve",
        "rte": "RoundingModeRTE",
        "szinp": "SignedZeroInfNanPreserve",
    }.items()
    for bits in (16, 32, 64)
}
_NEEDED_SUBGROUPS = (
    vk.VK_SUBGROUP_FEATURE_BASIC_BIT
    | vk.VK_SUBGROUP_FEATURE_VOTE_BIT
    | vk.VK_SUBGROUP_FEATURE_BALLOT_BIT
    | vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT
    | vk.VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT
)
_F32 = vk.VK_COMPONENT_TYPE_FLOAT32_KHR
_I32, _U32 = vk.VK_COMPONENT_TYPE_SINT32_KHR, vk.VK_COMPONENT_TYPE_UINT32_KHR
# Cooperative matrices: M, N, K and the types of A and B, C, and the result.
_MATRICES = {
    "coopmat": [(16, 16, 16, vk.VK_COMPONENT_TYPE_FLOAT16_KHR, _F32, _F32)],
    "coopmat_bf16": [(16, 16, 16, vk.VK_COMPONENT_TYPE_BFLOAT16_KHR, _F32, _F32)],
    "coopmat_i8": [
        (16, 16, 32, vk.VK_COMPONENT_TYPE_SINT8_KHR, _I32, _I32),
        (16, 16, 32, vk.VK_COMPONENT_TYPE_UINT8_KHR, _U32, _U32),
    ],
}


def profile_of(device: PhysicalDevice) -> Any:
    """The `Profile` of a device."""
    from magpie.backends.spirv.profile import Profile

    found = {ours for ours, theirs in _FEATURES.items() if device.has(theirs)}
    if all(device.has(f"shader{where}Float32Atomic{what}") for where in ("Buffer", "Shared") for what in ("Add", "s")):
        found.add("atomic_f32")
    if device.has("shaderBufferInt64Atomics") and device.has("shaderSharedInt64Atomics"):
        found.add("atomic_i64")
    if _has_subgroups(device):
        found.add("subgroups")
    if device.driver_id in _LOCKSTEP:
        found |= {"lockstep", "div", "sqrt32", "sqrt64"}
    if device.driver_id == vk.VK_DRIVER_ID_NVIDIA_PROPRIETARY:
        # measured on an H200, 4 million operands each; a root of f32 is off by a unit in one of eight cases
        found |= {"div", "sqrt64"}
    if device.driver_id in _FUSED:
        found.add("fma")
    found |= {ours for ours, theirs in _FLOAT_CONTROLS.items() if device.tells("Vulkan12Properties", theirs)}
    if device.limits.maxPushConstantsSize >= 256:
        found.add("push256")
    shapes = set(device.matrix_shapes())
    found |= {feature for feature, wanted in _MATRICES.items() if shapes.issuperset(wanted)}
    version = f"{device.api_version >> 22 & 0x7F}.{device.api_version >> 12 & 0x3FF}"
    return Profile(version, frozenset(found), device.subgroup_size, device.limits.maxComputeSharedMemorySize // 1024)


def _has_subgroups(device: PhysicalDevice) -> bool:
    operations = device.tells("Vulkan11Properties", "subgroupSupportedOperations")
    stages = device.tells("Vulkan11Properties", "subgroupSupportedStages")
    enough = operations & _NEEDED_SUBGROUPS == _NEEDED_SUBGROUPS
    return bool(enough and stages & vk.VK_SHADER_STAGE_COMPUTE_BIT)


def _unordered(device: PhysicalDevice) -> frozenset[str]:
    """SwiftShader hands workgroups out to its threads in runs of every n-th one, in any order."""
    return frozenset(("workgroup_order",) if device.driver_id == vk.VK_DRIVER_ID_GOOGLE_SWIFTSHADER else ())


def _driver_version(device: PhysicalDevice) -> str:
    """The driver's version as its vendor writes it."""
    number = device.properties.driverVersion
    if device.driver_id == vk.VK_DRIVER_ID_NVIDIA_PROPRIETARY:
        return f"{number >> 22}.{number >> 14 & 0xFF}.{number >> 6 & 0xFF:02}"
    return version_text(number)


def device_info(device: PhysicalDevice, index: int) -> DeviceInfo:
    """What the runtime is told of a device."""
    from magpie.backends.registry import backend
    from magpie.backends.spirv.needs import lacking
    from magpie.records import replaced

    own = backend("spv").manifest
    limits = device.limits
    profile = profile_of(device)
    manifest = replaced(
        own,
        capabilities=own.capabilities - lacking(profile) - _unordered(device),
        max_workgroup_size=min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]),
        max_shared_bytes=limits.maxComputeSharedMemorySize,
        # One may be the record buffer.
        max_buffers=min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers) - 1,
        flushes_denormals="denorm32" not in profile,
        subgroup_sizes=device.subgroup_sizes,
    )
    said = {"driver": "driverName", "driver_info": "driverInfo"}
    told = {name: device.tells("Vulkan12Properties", field, b"").decode() for name, field in said.items()}
    return DeviceInfo(
        name=device.name,
        index=index,
        manifest=manifest,
        subgroup_size=device.subgroup_size,
        memory_total=device.memory_total,
        backends=("spv",) if device.new_enough else (),
        properties={
            "arch": profile.text,
            "software": device.is_cpu,
            **({"multiprocessors": device.multiprocessors} if device.multiprocessors else {}),
            "vulkan": version_text(device.api_version),
            "driver_version": _driver_version(device),
            **{name: text for name, text in told.items() if text},
            **({"uuid": device.uuid} if device.uuid else {}),
        },
    )
