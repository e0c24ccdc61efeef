"""The binding of Vulkan against the registry: sizes and offsets by the rules of C, signatures, constants."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import pytest

from magpie.runtime.drivers.vk import constants
from magpie.runtime.drivers.vk.layouts import KINDS, fields, make, prototype, struct
from magpie.runtime.drivers.vk.structs import DEVICE, GLOBAL, INSTANCE, STRUCTS

vulkan_object = pytest.importorskip("vulkan_object")

# C's types on every 64-bit system (vk_platform.h, stdint.h).
SIZES = {
    "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "float": 4, "double": 8, "size_t": 8, "uint8_t": 1,
    "char": 1, "int": 4, "VkBool32": 4, "VkDeviceSize": 8, "VkFlags": 4, "VkFlags64": 8, "VkDeviceAddress": 8,
}


@pytest.fixture(scope="module")
def registry():
    return vulkan_object.get_vulkan_object()


def size_of(registry, member):
    """Bytes and alignment of what a member or a parameter is declared as."""
    if "*" in member.fullType or member.type.startswith("PFN_"):
        return 8, 8
    name = member.type
    if name in SIZES:
        size = align = SIZES[name]
    elif name in registry.handles:
        size = align = 8  # a pointer, or a uint64_t
    elif name in registry.enums:
        size = align = 4
    elif name in registry.flags or name in registry.bitmasks:
        found = registry.flags.get(name) or registry.bitmasks[name]
        size = align = found.bitWidth // 8
    else:
        size, align, _ = layout(registry, name)
    for n in member.fixedSizeArray:
        size *= int(registry.constants[n].value if n in registry.constants else n)
    return size, align


def layout(registry, name):
    """Size, alignment and offsets of a struct as a C compiler lays it out."""
    at, most, offsets = 0, 1, {}
    for m in registry.structs[name].members:
        assert m.bitFieldWidth is None
        size, align = size_of(registry, m)
        at += -at % align
        offsets[m.name] = (at, size)
        at += size
        most = max(most, align)
    return at + -at % most, most, offsets


def test_every_struct_lies_in_memory_as_in_c(registry):
    for name in STRUCTS:
        made = struct(name)
        size, align, offsets = layout(registry, name)
        assert (ctypes.sizeof(made), ctypes.alignment(made)) == (size, align), name
        here = {field: (getattr(made, field).offset, getattr(made, field).size) for field, _, _ in fields(name)}
        assert here == offsets, name


def test_sizes_that_are_well_known():
    # sizeof with vulkan_core.h on 64-bit systems, as people quote them: the rules above give the same
    known = {
        "VkPhysicalDeviceLimits": 504,
        "VkPhysicalDeviceProperties": 824,
        "VkPhysicalDeviceProperties2": 840,
        "VkPhysicalDeviceFeatures": 220,
        "VkPhysicalDeviceMemoryProperties": 520,
        "VkSubmitInfo": 72,
        "VkWriteDescriptorSet": 64,
        "VkComputePipelineCreateInfo": 96,
        "VkPipelineShaderStageCreateInfo": 48,
    }
    assert {name: ctypes.sizeof(struct(name)) for name in known} == known


def test_types_of_fields_are_signed_and_real_as_declared(registry):
    kinds = {"int32_t": "i", "int64_t": "q", "float": "f", "double": "d", "char": "c", "uint8_t": "B"}
    for name in STRUCTS:
        for (field, kind, _), m in zip(fields(name), registry.structs[name].members, strict=True):
            assert field == m.name
            pointer = "*" in m.fullType or m.type.startswith("PFN_")
            if pointer:
                assert kind == "P", (name, field)
            elif m.type in registry.structs:
                assert kind == m.type
            elif m.type in registry.enums:
                assert kind == "i"
            else:
                assert kind == kinds.get(m.type, {8: "Q", 4: "I"}.get(size_of(registry, m)[0] // _count(registry, m))) or (
                    kind in "ZP" and size_of(registry, m)[0] == 8
                ), (name, field)


def _count(registry, member):
    count = 1
    for n in member.fixedSizeArray:
        count *= int(registry.constants[n].value if n in registry.constants else n)
    return count


def test_structs_have_their_type(registry):
    types = {f.name: f.value for f in registry.enums["VkStructureType"].fields}
    for name, (number, _) in STRUCTS.items():
        wanted = registry.structs[name].sType
        assert number == (types[wanted] if wanted else -1), name
        if wanted:
            assert make(name).sType == number


def test_every_function_takes_what_the_registry_says(registry):
    for name, signature in {**GLOBAL, **INSTANCE, **DEVICE}.items():
        command = registry.commands[name]
        result, *parameters = signature.split()
        assert result == {"void": "v", "VkResult": "i", "PFN_vkVoidFunction": "P"}[command.returnType], name
        assert len(parameters) == len(command.params), name
        for kind, p in zip(parameters, command.params, strict=True):
            pointer = "*" in p.fullType or bool(p.fixedSizeArray)
            assert (kind == "P") == (pointer or (p.type in registry.handles and registry.handles[p.type].dispatchable)), name
            assert ctypes.sizeof(KINDS[kind]) == (8 if pointer else size_of(registry, p)[0]), (name, p.name)
        assert prototype(signature)._argtypes_ == tuple(KINDS[k] for k in parameters)


def test_constants_have_the_registry_s_values(registry):
    known = {}
    for enum in registry.enums.values():
        known |= {f.name: f.value for f in enum.fields}
    for bits in registry.bitmasks.values():
        known |= {f.name: f.value for f in bits.flags}
    ours = {name: value for name, value in vars(constants).items() if name.startswith("VK_")}
    assert len(ours) > 80
    assert ours == {name: known[name] for name in ours}


def test_the_files_are_what_the_tool_writes(tmp_path, monkeypatch):
    path = Path(__file__).parents[2] / "tools" / "gen_vulkan_binding.py"
    spec = importlib.util.spec_from_file_location("gen_vulkan_binding", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    here = tool.FOLDER
    version = f"version {vulkan_object.get_vulkan_object().headerVersionComplete}."
    if version not in (here / "structs.py").read_text(encoding="utf-8"):
        pytest.skip("written from another version of the registry")
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    tool.main()
    for name in ("structs.py", "constants.py"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (here / name).read_text(encoding="utf-8")
