"""The text of SPIR-V is that of spirv-dis, line by line. (So it is for every module of test_spirv_module.)"""

from __future__ import annotations

import random
import struct

import pytest

from magpie.backends.spirv.disassemble import disassemble
from magpie.backends.spirv.module import Module
from tests.unit.spirv_tools import assembled, disassembled, validate
from tests.unit.test_spirv_module import entry

FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-8, 1e30, 1e300, 1e-40, 5e-324, 65504.0, 6e-8, 123456789.0, float("inf"))


def same(m: Module) -> str:
    binary = m.binary()
    validate(binary)
    text = disassemble(binary)
    assert text == disassembled(binary)
    return text


@pytest.mark.parametrize(("bits", "encoding"), [(16, ""), (16, "BFloat16KHR"), (32, ""), (64, "")])
def test_floats(bits: int, encoding: str) -> None:
    m = Module()
    t = m.type_float(bits, encoding)
    for x in FLOATS:
        m.constant(t, x)
        m.constant(t, -x)
    mantissa = 7 if encoding else {16: 10, 32: 23, 64: 52}[bits]
    for raw in (1, 3, (1 << mantissa) - 1, 1 << mantissa - 1):  # the smallest, subnormals, then NaNs with a payload
        m.constant_bits(t, raw)
        m.constant_bits(t, (1 << bits - 1) - (1 << mantissa) + raw)
        m.constant_bits(t, (1 << bits) - (1 << mantissa) + raw)
    random_ = random.Random(4)
    for _ in range(200):
        m.constant_bits(t, random_.getrandbits(bits))
    entry(m).ret()
    text = same(m)
    # The text holds every bit: what spirv-as makes of it has the same constants.
    first = [line.split("= ")[1] for line in text.splitlines() if "OpConstant " in line]
    again = [line.split("= ")[1] for line in disassemble(assembled(text)).splitlines() if "OpConstant " in line]
    assert len(first) > 200 and first == again


def test_names_that_are_odd_or_taken() -> None:
    m = Module()
    f32 = m.type_float(32)
    wanted = ["same", "same", "2 odd-name", "é", "", "float", "17", "a.b", 'quo"te\\', "_struct_3"]
    for k, name in enumerate(wanted):
        m.name(m.constant(f32, k), name)
    m.source(file='folder "of" \\files/k.py')
    m.type_struct([f32, f32])
    m.type_struct([m.type_vector(f32, 4)], name="Known")
    m.type_pointer("Function", m.type_array(m.type_struct([f32], name="S"), m.u32(3)))
    entry(m).ret()
    assert "%same_0" in same(m)


def test_variables_of_the_device_are_called_as_in_glsl() -> None:
    m = Module()
    v3, u32 = m.type_vector(m.type_int(32), 3), m.type_int(32)
    for name, type_ in (
        ("GlobalInvocationId", v3), ("LocalInvocationId", v3), ("WorkgroupId", v3), ("NumWorkgroups", v3),
        ("LocalInvocationIndex", u32), ("SubgroupLocalInvocationId", u32), ("SubgroupSize", u32),
    ):  # fmt: skip
        m.decorate(m.variable("Input", type_), "BuiltIn", name)
    entry(m).ret()
    assert "%gl_GlobalInvocationID" in same(m)


@pytest.mark.parametrize("binary", [b"", b"not SPIR-V at all...", struct.pack("<6I", 0x07230203, 0x10600, 0, 1, 0, 0)])
def test_what_is_no_module(binary: bytes) -> None:
    with pytest.raises(ValueError):
        disassemble(binary)
