"""Subgroups, atomics, the memory model and matrix tiles of modules, by spirv-dis and spirv-val."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conformance_kernels import distinct
from spirv_tools import disassembled, validate

import magpie as mp
from magpie.backends.spirv.profile import profile

LAVAPIPE = "vulkan1.3+i64+i16+i8+f16+f64+s8+s16+subgroups+subgroup_types+atomic_f32+atomic_i64+lockstep+sg8"
GPU = (
    "vulkan1.4+i64+i16+i8+f16+f64+s8+s16+bf16+subgroups+subgroup_types+atomic_f32+atomic_i64+fma+denorm16+rte16+rte32"
    "+reconverge+push256+coopmat+coopmat_bf16+coopmat_i8+sg32"
)
PLAIN = "vulkan1.3+subgroups+sg4"
F, I = np.zeros(64, np.float32), np.zeros(64, np.int32)


@pytest.fixture(autouse=True)
def one_workgroup_a_block(monkeypatch):
    """One entry a module."""
    monkeypatch.setenv("MAGPIE_COARSEN", "1")


def compiled(kernel, *args, arch, **options):
    """An artifact, and its text by spirv-dis."""
    artifact = kernel.compile(*args, backend="spv", arch=arch, **options)
    validate(artifact.blob)
    return artifact, disassembled(artifact.blob)


def without(arch, *features):
    return "+".join(part for part in arch.split("+") if part not in features)


# --- subgroups -----------------------------------------------------------------------------------------------------------
@mp.kernel
def k_sums(x, y, out):
    i = mp.global_id(0)
    out[i] = mp.subgroup.sum(x[i]) + mp.f32(mp.subgroup.scan(y[i], "max"))


@mp.kernel
def k_branch(x):
    i = mp.global_id(0)
    if x[i] > 0:
        x[i] = mp.subgroup.sum(x[i])


def test_floats_are_summed_over_shuffles_and_integers_by_the_device():
    artifact, text = compiled(k_sums, F, I, F, arch=GPU, workgroup=64)
    assert "OpGroupNonUniformSMax %uint %uint_3 InclusiveScan" in text
    assert "OpGroupNonUniformFAdd" not in text and "Ballot" not in text  # all lanes come
    assert text.count("OpGroupNonUniformShuffleXor") == 5
    assert {"subgroups", "sg32", "reconverge"} <= set(artifact.info["needs"])
    partial, text = compiled(k_sums, F, I, F, arch=GPU, workgroup=40)
    assert "OpGroupNonUniformBallot" in text and partial.info["subgroup_size"] == 32


def test_without_a_known_size_nothing_says_one():
    artifact, text = compiled(k_sums, F, I, F, arch="", workgroup=64)
    assert "BuiltIn SubgroupSize" in text
    assert "subgroups" in artifact.info["needs"] and not any(n.startswith("sg") for n in artifact.info["needs"])


def test_varying_flow_takes_a_promise():
    _, text = compiled(k_branch, I, arch=GPU)
    assert "MaximallyReconvergesKHR" in text and "SPV_KHR_maximal_reconvergence" in text
    _, text = compiled(k_branch, I, arch=LAVAPIPE)
    assert "MaximallyReconvergesKHR" not in text
    with pytest.raises(mp.CompileError, match="'subgroups_varying' here") as caught:
        k_branch.compile(I, backend="spv", arch=without(GPU, "reconverge"))
    assert [(d.code, d.loc.line) for d in caught.value.diagnostics] == [
        ("MPG_CORE_1200", k_branch.fn.__code__.co_firstlineno + 4)
    ]
    compiled(k_sums, F, I, F, arch=without(GPU, "reconverge"))  # all come


# --- atomics and the memory model ----------------------------------------------------------------------------------------
@mp.kernel
def k_add(x, out):
    i = mp.global_id(0)
    mp.atomic_add(out, i % 3, x[i])


@mp.kernel
def k_handshake(x, flag):
    i = mp.global_id(0)
    x[i] = mp.atomic_load(flag, 0, order="acquire")
    mp.fence(scope="workgroup", order="release")
    mp.atomic_store(flag, 0, 1, order="release")


@mp.kernel
def k_barrier(x, out):
    s = mp.shared(64, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[t]
    mp.barrier()
    out[t] = s[63 - t]


@pytest.mark.parametrize(
    ("t", "arch", "wanted", "element"),
    [
        (mp.i32, PLAIN, "AtomicIAdd %uint", "uint"),
        (mp.u64, GPU, "AtomicIAdd %ulong", "ulong"),
        (mp.f32, GPU, "AtomicFAddEXT %float", "float"),
        (mp.f32, PLAIN, "AtomicCompareExchange %uint", "uint"),
        (mp.f64, GPU, "AtomicCompareExchange %ulong", "ulong"),
        (mp.f16, GPU, "AtomicCompareExchange %uint", "ushort"),
        (mp.bf16, LAVAPIPE, "AtomicCompareExchange %uint", "ushort"),
        (mp.u8, GPU, "AtomicCompareExchange %uint", "uchar"),
        (mp.i16, PLAIN, "AtomicCompareExchange %uint", "uint"),
    ],
)
def test_atomics_of_a_type(t, arch, wanted, element):
    x = np.zeros(64, t.numpy)
    artifact, text = compiled(k_add, x, x, arch=arch)
    found = set(re.findall(r"Op(Atomic\w+ %\w+)", text))
    assert wanted in found
    assert all(f.split()[0] in wanted or f.startswith("AtomicLoad") for f in found)
    assert ("atomic_f32" in artifact.info["needs"]) == ("FAdd" in wanted)
    assert ("atomic_i64" in artifact.info["needs"]) == (element == "ulong")


def test_64_bit_atomics_are_refused_where_there_are_none():
    for t, name in ((mp.i64, "atomics_int64"), (mp.f64, "atomics_f64")):
        x = np.zeros(64, t.numpy)
        with pytest.raises(mp.CompileError, match=f"needs the capability '{name}'"):
            k_add.compile(x, x, backend="spv", arch=without(GPU, "atomic_i64"))


# Memory semantics (SPIR-V 1.6, 3.25): the bits.
ACQUIRE, RELEASE, ACQ_REL, UNIFORM, WORKGROUP, AVAILABLE, VISIBLE = 2, 4, 8, 0x40, 0x100, 0x2000, 0x4000


def test_orders_in_the_vulkan_memory_model():
    _, text = compiled(k_handshake, I, I, arch=GPU)
    assert "OpMemoryModel Logical Vulkan" in text and "Coherent" not in text
    both = UNIFORM | WORKGROUP
    assert f"OpAtomicLoad %uint %{{}} %uint_1 %uint_{ACQUIRE | both | VISIBLE}" in re.sub(
        r"(OpAtomicLoad %uint) %\w+", r"\1 %{}", text
    )
    assert f"OpMemoryBarrier %uint_2 %uint_{RELEASE | both | AVAILABLE}" in text
    assert re.search(rf"OpAtomicStore %\w+ %uint_1 %uint_{RELEASE | both | AVAILABLE} %uint_1", text)
    assert re.search(r"OpStore %\w+ %\w+ NonPrivatePointer", text)


def test_barriers_in_the_plain_memory_model():
    _, text = compiled(k_barrier, F, F, arch=GPU, workgroup=64)
    assert "OpMemoryModel Logical GLSL450" in text and "NonPrivatePointer" not in text
    assert f"OpControlBarrier %uint_2 %uint_2 %uint_{ACQ_REL | UNIFORM | WORKGROUP}" in text


# --- matrix tiles --------------------------------------------------------------------------------------------------------
@mp.kernel(workgroup=(64, 1, 1))
def k_tiles(x, y, out, held: mp.constexpr):
    acc = mp.mma.zeros((32, 48), held)
    a = mp.mma.load_a(x, (0, 0), (32, 32))
    b = mp.mma.load_b(y, (0, 0), (32, 48))
    mp.mma(acc, a, b)
    mp.mma.store(acc, out, (0, 0), clip=True)


def tiles_of(t, arch=GPU, out=None):
    held = mp.f32 if t.is_float else mp.i32
    x, y = np.zeros((32, 32), t.numpy), np.zeros((32, 48), t.numpy)
    return compiled(k_tiles, x, y, np.zeros((32, 48), (out or held).numpy), held, arch=arch)


@pytest.mark.parametrize(
    ("t", "depth", "feature"),
    [(mp.f16, 16, "coopmat"), (mp.bf16, 16, "coopmat_bf16"), (mp.i8, 32, "coopmat_i8"), (mp.u8, 32, "coopmat_i8")],
)
def test_tiles_are_cooperative_matrices(t, depth, feature):
    artifact, text = tiles_of(t)
    assert text.count("OpCooperativeMatrixMulAddKHR") == 2 * 3 * (32 // depth)
    assert ("MatrixASignedComponentsKHR" in text) == (t is mp.i8)
    assert {"coopmat", feature} <= set(artifact.info["needs"])
    for lacking in (feature, "coopmat"):
        lowered, text = tiles_of(t, without(GPU, lacking))
        assert "CooperativeMatrix" not in text and "coopmat" not in lowered.info["needs"]
        assert "sg32" in lowered.info["needs"]  # columns are spread over so many lanes
    assert "sg32" in tiles_of(t, without(GPU, "sg32"))[0].info["needs"]  # also where nobody says how many there are


def test_what_matrix_units_lack_is_lowered():
    for t in (mp.f32, mp.f64):
        x, y = np.zeros((32, 32), t.numpy), np.zeros((32, 48), t.numpy)
        _, text = compiled(k_tiles, x, y, np.zeros((32, 48), t.numpy), t, arch=GPU)
        assert "CooperativeMatrix" not in text
    assert "CooperativeMatrix" not in tiles_of(mp.f16, out=mp.f64)[1]
    for t in (mp.f16, mp.bf16):
        assert "CooperativeMatrix" in tiles_of(t, out=t)[1]


def test_every_kernel_with_tiles_is_valid_on_matrix_units():
    native = set()
    for run in distinct("test_tiles"):
        if run.args[0].itemsize <= 2:
            artifact = run.kernel.compile(*run.args, backend="spv", arch=GPU)
            validate(artifact.blob)
            native |= set(artifact.info["needs"])
    assert {"coopmat", "coopmat_bf16", "coopmat_i8"} <= native


def test_the_profiles_of_these_tests_are_profiles():
    assert all(profile(p).text for p in (LAVAPIPE, GPU, PLAIN))
