"""The spv backend without a device: profiles, refusals, padded structs, spirv-val, and files that spirv-dis shows."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.backends.registry import backend
from magpie.backends.spirv.needs import lacking, refusal
from magpie.backends.spirv.profile import FEATURES, GENERIC, Profile, profile
from magpie.diagnostics import CompileError
from magpie.diagnostics.explain import explain


@mp.struct
class Loose:
    flag: mp.u8
    value: mp.f64
    kind: mp.u8


@mp.struct
class Tight:
    value: mp.f64
    flag: mp.u8
    kind: mp.u8


@mp.struct
class Nested:
    small: mp.u8
    inner: Loose


@mp.kernel
def loose(x: mp.Array[Loose, 1], n: mp.i32):
    if mp.global_id(0) < n:
        x[mp.global_id(0)].value += 1.0


@mp.kernel
def tight(x: mp.Array[Tight, 1]):
    x[mp.global_id(0)].value += 1.0


@mp.kernel
def nested(x: mp.Array[Nested, 1]):
    x[mp.global_id(0)].inner.value += 1.0


@mp.kernel
def doubles(x: mp.Array[mp.f64, 1]):
    x[mp.global_id(0)] += 1.0


@mp.kernel
def halves(x: mp.Array[mp.f16, 1]):
    x[mp.global_id(0)] += mp.f16(1.0)


@mp.kernel
def wide_atomic(x: mp.Array[mp.u64, 1]):
    mp.atomic_add(x, 0, mp.u64(1))


@mp.kernel
def crossing(x: mp.Array[mp.i32, 1]):
    x[mp.global_id(0)] = mp.subgroup.sum(x[mp.global_id(0)])


@mp.kernel
def crossing_apart(x: mp.Array[mp.i32, 1]):
    i = mp.global_id(0)
    if x[i] > 3:
        x[i] = mp.subgroup.sum(x[i])


def codes(kernel, arch: str) -> list[str]:
    """The codes with which a kernel is refused for a profile."""
    with pytest.raises(CompileError) as caught:
        kernel.compile(backend="vulkan", arch=arch)
    for d in caught.value.diagnostics:
        assert d.loc is not None and d.loc.file == __file__, "a place in the kernel"
        assert d.help
    return [d.code for d in caught.value.diagnostics]


# --- structs with padding --------------------------------------------------------------------------------------------
def padding_warnings(kernel) -> list[str]:
    return [f"{d.message}; {d.help}" for d in kernel.check() if d.code == "MPG_SPV_2003"]


def test_padded_struct_is_a_warning_with_the_better_order() -> None:
    (text,) = padding_warnings(loose)
    # C's rule: 1 + 7 + 8 + 1 + 7 bytes, and 8 + 1 + 1 + 6 with the f64 first.
    assert "'Loose' in the array 'x' takes 24 bytes, of which 14 are padding" in text
    assert "in the order value, flag, kind it takes 16" in text
    aligned = np.dtype([("value", "f8"), ("flag", "u1"), ("kind", "u1")], align=True)
    assert aligned.itemsize == 16 and np.dtype([("f", "u1"), ("v", "f8"), ("k", "u1")], align=True).itemsize == 24


def test_no_warning_where_no_order_is_better() -> None:
    assert not padding_warnings(tight)


def test_structs_in_structs() -> None:
    (text,) = padding_warnings(nested)
    assert "'Loose'" in text


def test_the_warning_is_explained() -> None:
    for code in ("MPG_SPV_2001", "MPG_SPV_2002", "MPG_SPV_2003", "MPG_SPV_2004", "MPG_SPV_2005", "MPG_SPV_2006"):
        assert code in explain(code)


# --- tables of constants ---------------------------------------------------------------------------------------------
FITTING, LARGE = tuple(range(4096)), tuple(range(4097))


@mp.kernel
def fitting_table(x: mp.Array[mp.i32, 1]):
    x[mp.global_id(0)] = FITTING[x[mp.global_id(0)]]


@mp.kernel
def large_table(x: mp.Array[mp.i32, 1]):
    x[mp.global_id(0)] = LARGE[x[mp.global_id(0)]]


def test_tables_of_constants_have_a_limit() -> None:
    assert len(fitting_table.compile(backend="vulkan").blob) > 4096 * 4
    with pytest.raises(CompileError) as caught:
        large_table.compile(backend="vulkan")
    (d,) = caught.value.diagnostics
    assert d.code == "MPG_SPV_2006" and "4,097 constants takes 16,388 bytes" in d.message
    assert d.loc is not None and d.loc.file == __file__ and d.help is not None and "as an array" in d.help
    assert large_table.compile(backend="cpu").blob and not [d for d in large_table.check() if d.is_error]


# --- what a profile lacks --------------------------------------------------------------------------------------------
def test_types_and_atomics_that_a_profile_lacks() -> None:
    assert codes(doubles, "vulkan1.3+i64") == ["MPG_CORE_1200"]
    assert codes(wide_atomic, "vulkan1.3+i64") == ["MPG_CORE_1200"]
    assert codes(crossing, "vulkan1.3+i64") == ["MPG_CORE_1200"]


def test_the_message_names_the_profile_and_the_feature() -> None:
    with pytest.raises(CompileError) as caught:
        doubles.compile(backend="vulkan", arch="vulkan1.3+i8+i64")
    (d,) = caught.value.diagnostics
    assert "the capability 'f64', which the profile vulkan1.3+i64+i8 does not have" in d.message
    assert d.help is not None and "f64 (shaderFloat64)" not in d.message and "shaderFloat64" in d.help


def test_subgroup_operations_in_varying_flow_need_reconvergence() -> None:
    assert codes(crossing_apart, "") == ["MPG_CORE_1200"]
    assert codes(crossing_apart, "vulkan1.3+subgroups") == ["MPG_CORE_1200"]


def test_an_unknown_profile() -> None:
    assert codes(halves, "sm_90") == ["MPG_SPV_2004"]
    assert codes(halves, "vulkan1.3+warp") == ["MPG_SPV_2004"]


def test_capabilities_follow_from_features() -> None:
    everything = Profile("1.3", frozenset(FEATURES))
    assert lacking(everything) == frozenset()
    assert lacking(GENERIC) >= {"subgroups_varying", "atomics_int64"} and "f64" not in lacking(GENERIC)
    assert lacking(profile("vulkan1.3")) <= backend("vulkan").manifest.capabilities
    assert "subgroups_varying" not in lacking(profile("vulkan1.3+subgroups+lockstep"))
    assert "subgroups_varying" in lacking(profile("vulkan1.3+reconverge"))


@mp.kernel(requires=("denormals", "nonfinite"))
def particular(x: mp.Array[mp.f32, 1]):
    x[mp.global_id(0)] *= 0.5


def test_float_controls_are_capabilities() -> None:
    with pytest.raises(CompileError) as caught:
        particular.compile(backend="vulkan", arch="vulkan1.3+szinp32")
    assert ["'denormals'" in d.message for d in caught.value.diagnostics] == [True]
    made = particular.compile(backend="vulkan", arch="vulkan1.3+szinp32+denorm32")
    assert made.info["needs"] == ["denorm32", "szinp32"]
    assert "DenormPreserve 32" in made.text and "SignedZeroInfNanPreserve 32" in made.text


def test_why_code_cannot_be_loaded() -> None:
    assert refusal(["i64", "f16"], profile("vulkan1.3+i64+f16")) == ""
    assert refusal(["i64", "sg32"], profile("vulkan1.3+sg8")) == "i64 (64-bit integers (shaderInt64)), subgroups of 32"


def test_names_of_the_backend() -> None:
    assert backend("vulkan") is backend("spv") is backend("SPIRV")
    assert backend("spv").extension == ".spv" and backend("spv").id == "spv"
