"""The hip backend without a GPU: what the code says, what is refused, and that a crash of LLVM is an error."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hip_tools import ARCHS, TRIPLE, compiled

import magpie as mp
from magpie.backends.hip import pipeline
from magpie.backends.hip.arch import ARCHS as KNOWN
from magpie.backends.hip.arch import arch
from magpie.backends.hip.intrinsics import NEWER, PLAIN, unknown
from magpie.backends.hip.metadata import metadata
from magpie.backends.llvm import worker
from magpie.backends.llvm.intrinsics import OVERLOADED
from magpie.backends.registry import backend

# Kernels that require a capability of one target are warned of, each time.
not_portable = pytest.mark.filterwarnings("ignore::magpie.diagnostics.CompileWarning")

F = np.zeros(4, np.float32)
I = np.zeros(4, np.int32)


def asm(kernel, *args, arch="gfx1100", **options):
    return kernel.inspect("asm", *args, backend="hip", arch=arch, **options)


def plain(text):
    """The first entry of a listing: that which runs one workgroup."""
    return text[: text.index(".Lfunc_end0")]


def facts(artifact):
    """The metadata of the plain entry."""
    return metadata(artifact.blob)["amdhsa.kernels"][0]


@mp.kernel
def k_multiply_add(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * x[i] + 1.0


@mp.kernel(fastmath=True)
def k_multiply_add_fast(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * x[i] + 1.0


@mp.kernel
def k_divide(x, y):
    i = mp.global_id(0)
    y[i] = mp.sqrt(x[i]) / (x[i] + 3.0)


@mp.kernel(fastmath=True)
def k_functions_fast(x, y):
    i = mp.global_id(0)
    y[i] = mp.exp(x[i]) / mp.sqrt(x[i]) + mp.sin(x[i]) + mp.log(x[i])


# --- numbers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ARCHS)
def test_strict_code_contracts_nothing_and_keeps_denormals(name):
    text = asm(k_multiply_add, F, F, arch=name)
    assert "v_mul_f32" in text and "v_add_f32" in text and not re.search(r"v_(pk_|dual_)?(fma|mad|fmac)\w*_f32", text)
    text = asm(k_divide, F, F, arch=name)
    # The exact division: scaled, refined, and fixed up; an approximate one is the reciprocal and a product.
    assert "v_div_scale_f32" in text and "v_div_fixup_f32" in text
    # 3 keeps the denormals of operands and results (AMDGPU usage, Floating Point Denorm Mode Enumeration Values).
    assert ".amdhsa_float_denorm_mode_32 3" in text and ".amdhsa_float_denorm_mode_16_64 3" in text
    assert ".amdhsa_float_round_mode_32 0" in text


@pytest.mark.parametrize("name", ARCHS)
def test_fastmath_contracts_and_uses_the_transcendental_unit(name):
    assert re.search(r"v_(pk_|dual_)?(fma|mad|fmac)\w*_f32", asm(k_multiply_add_fast, F, F, arch=name))
    text = asm(k_functions_fast, F, F, arch=name)
    for unit in ("v_exp_f32", "v_sin_f32", "v_log_f32"):
        assert unit in text
    assert "v_div_scale" not in text and "math.exp" not in text


# --- architectures and waves ------------------------------------------------------------------------------------------
def test_the_default_is_gfx1030_and_names_of_devices_are_understood():
    made = k_multiply_add.compile(F, F, backend="hip")
    assert made.info["arch"] == "gfx1030" and made.extension == ".hsaco" and made.blob[:4] == b"\x7fELF"
    assert arch("gfx90a:sramecc+:xnack-") is KNOWN["gfx90a"]


def test_an_architecture_that_nobody_knows():
    with pytest.raises(mp.CompileError, match="MPG_HIP_2002") as caught:
        k_multiply_add.compile(F, F, backend="hip", arch="gfx803")
    assert "gfx1100" in str(caught.value)


@mp.kernel(requires=("hip.wave64",))
def k_wide(x):
    x[mp.global_id(0)] = mp.i32(mp.subgroup.size())


@mp.kernel
def k_size(x):
    x[mp.global_id(0)] = mp.i32(mp.subgroup.size())


@not_portable
@pytest.mark.parametrize("name", KNOWN)
def test_waves(name):
    own = 64 if name.startswith("gfx9") else 32
    made = k_size.compile(I, backend="hip", arch=name)
    assert facts(made)[".wavefront_size"] == made.info["wave"] == own
    made = k_wide.compile(I, backend="hip", arch=name)
    assert facts(made)[".wavefront_size"] == made.info["wave"] == 64
    for size in (32, 64):
        if size == 64 or own == 32:
            made = k_size.compile(I, backend="hip", arch=name, subgroup_size=size)
            assert facts(made)[".wavefront_size"] == made.info["wave"] == size
        else:
            with pytest.raises(mp.CompileError, match="waves of 64 work-items, not of 32"):
                k_size.compile(I, backend="hip", arch=name, subgroup_size=size)
    with pytest.raises(mp.CompileError, match="MPG_HIP_2002"):
        k_size.compile(I, backend="hip", arch=name, subgroup_size=16)


@not_portable
def test_a_kernel_that_requires_waves_of_64_gets_no_others():
    with pytest.raises(mp.CompileError, match=r"requires hip\.wave64, and a subgroup size of 32"):
        k_wide.compile(I, backend="hip", arch="gfx1100", subgroup_size=32)


@not_portable
def test_the_manifest_has_the_capability():
    assert "hip.wave64" in backend("hip").manifest.capabilities
    with pytest.raises(mp.CompileError, match="MPG_CORE_1200"):
        k_wide.compile(I, backend="cpu")


# --- the entry --------------------------------------------------------------------------------------------------------
@mp.struct
class Pair:
    a: mp.i8
    b: mp.f64


@mp.kernel
def k_parameters(
    flag: mp.bool_, p: Pair, h: mp.f16, x: mp.Array[mp.f32, 2], n: mp.i32, d: mp.f64, s: mp.Array[mp.f32, 1]
):
    m = mp.shared(n + 1, mp.f32)
    m[0] = mp.f32(h)
    if flag:
        x[0, 0] = mp.f32(p.b) + mp.f32(d) + m[n] + mp.f32(p.a) + s[0]
    mp.print("n", n)


def test_parameters_lie_where_the_layout_says():
    made = k_parameters.compile(backend="hip")
    found = [(a[".offset"], a[".size"]) for a in facts(made)[".args"] if not a[".value_kind"].startswith("hidden_")]
    at = {f.name: f for f in made.layout.params}
    expected = [(at["flag"].offset, 1), (at["p"].offset, 16), (at["h"].offset, 2)]
    x, s = at["x"], at["s"]
    expected += [(x.offset + 8 * k, 8) for k in range(5)]
    expected += [(at["n"].offset, 4), (at["d"].offset, 8)]
    expected += [(s.offset + 8 * k, 8) for k in range(3)]
    # behind the layout: one extent of the shared array, and the record buffer
    expected += [(made.layout.size, 8), (made.layout.size + 8, 8)]
    assert found == expected
    assert made.info["records"] and made.info["dynamic_shared"] == [(4, [0])]


@mp.kernel
def k_sizes(x):
    i = mp.thread_id(0) + mp.workgroup_size(0) * (mp.workgroup_id(0) + mp.num_workgroups(0) * mp.workgroup_id(1))
    x[i] = mp.i32(mp.workgroup_size(2)) + mp.i32(mp.num_workgroups(1))


def test_what_a_kernel_asks_of_the_runtime_is_where_a_driver_writes_it():
    """The hidden arguments of code object version 5, at their distances from the first one (AMDGPU usage)."""
    made = k_sizes.compile(I, backend="hip")
    hidden = {a[".value_kind"]: a[".offset"] for a in facts(made)[".args"] if a[".value_kind"].startswith("hidden_")}
    start = hidden["hidden_block_count_x"]
    assert start == made.layout.size
    assert [hidden[f"hidden_block_count_{d}"] - start for d in "xyz"] == [0, 4, 8]
    assert [hidden[f"hidden_group_size_{d}"] - start for d in "xyz"] == [12, 14, 16]
    assert not {"hidden_hostcall_buffer", "hidden_heap_v1", "hidden_queue_ptr", "hidden_default_queue"} & hidden.keys()
    assert metadata(made.blob)["amdhsa.version"] == [1, 2]  # of code object version 5


def test_a_known_workgroup_size_is_said():
    made = k_multiply_add.compile(F, F, backend="hip", workgroup=(8, 4, 2))
    assert facts(made)[".reqd_workgroup_size"] == [8, 4, 2] and facts(made)[".max_flat_workgroup_size"] == 64
    made = k_multiply_add.compile(F, F, backend="hip")
    assert ".reqd_workgroup_size" not in facts(made) and facts(made)[".max_flat_workgroup_size"] == 1024


def test_the_artifact_says_what_the_descriptor_says():
    made = k_parameters.compile(backend="hip", arch="gfx90a")
    kernel = facts(made)
    names = {
        "kernarg_bytes": ".kernarg_segment_size",
        "lds_bytes": ".group_segment_fixed_size",
        "private_bytes": ".private_segment_fixed_size",
        "vgprs": ".vgpr_count",
        "sgprs": ".sgpr_count",
        "max_workgroup": ".max_flat_workgroup_size",
    }
    assert {name: made.info[name] for name in names} == {name: kernel[key] for name, key in names.items()}
    assert made.info["entry"] == kernel[".name"] == "magpie_k_parameters"


# --- memory -----------------------------------------------------------------------------------------------------------
@mp.kernel
def k_tile(x, n: mp.constexpr):
    t = mp.shared(n, mp.f32)
    i = mp.thread_id(0)
    t[i] = x[i]
    mp.barrier()
    x[i] = t[n - 1 - i]


@pytest.mark.parametrize("name", ARCHS)
def test_shared_memory_up_to_64_kilobytes(name):
    made = k_tile.compile(F, 16 * 1024, backend="hip", arch=name)
    assert facts(made)[".group_segment_fixed_size"] == made.info["static_shared"] == 65536
    assert made.info["fixed_shared"] == 0 and made.info["dynamic_shared"] == []
    with pytest.raises(mp.CompileError, match="MPG_HIP_2001") as caught:
        k_tile.compile(F, 16 * 1024 + 1, backend="hip", arch=name)
    assert "65536" in str(caught.value) and name in str(caught.value)


def test_a_barrier_orders_memory():
    text = k_tile.inspect("llvm", F, 64, backend="hip", workgroup=64)
    fences = r'fence syncscope\("workgroup"\) release\n.*s\.barrier\(\)\n.*fence syncscope\("workgroup"\) acquire'
    assert re.search(fences, text)
    # Stores to global memory are complete for the workgroup before its barrier, on architectures that count them apart.
    assert re.search(r"s_waitcnt_vscnt null, 0x0\n(?:.*s_delay.*\n)?\s+s_barrier", asm(k_tile, F, 256, workgroup=256))


@mp.kernel
def k_add(n, x):
    mp.atomic_add(n, 0, x[mp.global_id(0)])


@pytest.mark.parametrize(
    ("name", "bits"), [(a, b) for a in ("gfx90a", "gfx942", "gfx1100", "gfx1201") for b in (32, 64)]
)
def test_float_additions_are_one_instruction_where_there_is_one(name, bits):
    x = np.zeros(4, f"f{bits // 8}")
    text = asm(k_add, x, x, arch=name, workgroup=1)
    has = bits == 32 or name in ("gfx90a", "gfx942")
    assert bool(re.search(rf"global_atomic_add_f{bits}", text)) is has
    assert ("global_atomic_cmpswap" in text) is not has


def test_float_additions_are_a_loop_elsewhere():
    text = asm(k_add, F, F, arch="gfx1030", workgroup=1)
    assert "global_atomic_cmpswap" in text and "atomic_add_f32" not in text


@mp.kernel
def k_wait(flag, out):
    while mp.atomic_load(flag, 0) == 0:
        pass
    out[mp.global_id(0)] = 1


def test_what_is_waited_for_is_read_past_the_caches_of_the_compute_unit():
    assert re.search(r"global_load_b32 .* glc|global_load_b32 .* scope:SCOPE_DEV", asm(k_wait, I, I))


# --- subgroups --------------------------------------------------------------------------------------------------------
@mp.kernel
def k_sum(x):
    i = mp.global_id(0)
    x[i] = mp.subgroup.sum(x[i])


@mp.kernel(requires=("hip.wave64",))
def k_sum64(x, k):
    i = mp.global_id(0)
    x[i] = mp.subgroup.sum(x[i]) + mp.subgroup.shuffle(x[i], k[i])


def test_full_waves_sum_by_dpp():
    text = plain(asm(k_sum, F, workgroup=64))
    assert text.count("_dpp") == 4 and "permlanex16" in text and "bpermute" not in text
    text = plain(asm(k_sum, F, arch="gfx90a", workgroup=64))
    assert text.count("_dpp") == 4 and "ds_swizzle" in text and "v_readlane" in text and "bpermute" not in text


@not_portable
def test_waves_of_64_reach_across_their_halves():
    """ds_bpermute sees 32 lanes on RDNA 1 to 3 (RDNA 3 ISA, DS_BPERMUTE_B32) and all of them before and after."""
    text = plain(asm(k_sum64, F, I, arch="gfx1100", workgroup=64))
    assert "v_permlane64" in text and text.count("ds_bpermute") == 2
    text = plain(asm(k_sum64, F, I, arch="gfx1030", workgroup=64))
    assert "v_readfirstlane" in text and "bpermute" not in text
    for name in ("gfx90a", "gfx942", "gfx1201"):
        text = plain(asm(k_sum64, F, I, arch=name, workgroup=64))
        assert text.count("ds_bpermute") == 1 and "permlane64" not in text


# --- the worker -------------------------------------------------------------------------------------------------------
def _declaration(name):
    base, _, rest = name.removeprefix("llvm.").partition(".")
    if rest.startswith("sat."):
        to, source = rest.removeprefix("sat.").split(".")
        return _type(to), [_type(source)]
    t = _type(rest)
    count = {"fma": 3, "fabs": 1, "sqrt": 1, "floor": 1, "ceil": 1, "trunc": 1, "roundeven": 1, "ctpop": 1}.get(base, 2)
    if base in ("abs", "ctlz", "cttz"):
        return t, [t, "i1"]
    return t, [t] * count


def _type(code):
    return {"f32": "float", "f64": "double"}.get(code, code)


# The operands of AMD's intrinsics, %x a varying i32, %f a float, %c an i1; and their results.
_TARGET = {
    **{f"{what}.id.{d}": ("i32", []) for what in ("workitem", "workgroup") for d in "xyz"},
    "implicitarg.ptr": ("ptr addrspace(4)", []),
    "s.barrier": ("void", []),
    "wave.barrier": ("void", []),
    "mbcnt.lo": ("i32", ["i32 %x", "i32 0"]),
    "mbcnt.hi": ("i32", ["i32 %x", "i32 0"]),
    "ballot.i32": ("i32", ["i1 %c"]),
    "ballot.i64": ("i64", ["i1 %c"]),
    "readfirstlane.i32": ("i32", ["i32 %x"]),
    "readlane.i32": ("i32", ["i32 %x", "i32 5"]),
    "ds.bpermute": ("i32", ["i32 %x", "i32 %x"]),
    "ds.swizzle": ("i32", ["i32 %x", "i32 16415"]),
    "update.dpp.i32": ("i32", ["i32 poison", "i32 %x", "i32 320", "i32 15", "i32 15", "i1 true"]),
    "permlanex16.i32": ("i32", ["i32 poison", "i32 %x", "i32 0", "i32 0", "i1 true", "i1 true"]),
    "permlane64.i32": ("i32", ["i32 %x"]),
    **{f"{f}.f32": ("float", ["float %f"]) for f in ("exp2", "log", "sin", "cos")},
}


@pytest.mark.parametrize(("name", "wave"), [(a, w) for a in ARCHS for w in KNOWN[a].waves])
def test_each_listed_intrinsic_is_selected(name, wave):
    assert _TARGET.keys() == PLAIN | NEWER.keys()
    lines, declared = [], []
    for n, full in enumerate(f"llvm.{base}.{t}" for base, types in OVERLOADED.items() for t in types):
        result, operands = _declaration(full)
        declared.append(f"declare {result} @{full}({', '.join(operands)})")
        values = [f"{t} {'false' if t == 'i1' else f'%{t}{k}'}" for k, t in enumerate(operands)]
        lines += [f"  %r{n} = call {result} @{full}({', '.join(values)})"]
        lines += [f"  store volatile {result} %r{n}, ptr addrspace(1) %p"]
    for base, (result, operands) in _TARGET.items():
        if unknown([f"llvm.amdgcn.{base}"], KNOWN[name].generation):
            assert base in NEWER
            continue
        if base == "ballot.i64" and wave == 32 or base == "ballot.i32" and wave == 64:
            continue  # each is for its own size
        declared.append(f"declare {result} @llvm.amdgcn.{base}({', '.join(o.split()[0] for o in operands)})")
        call = f"call {result} @llvm.amdgcn.{base}({', '.join(operands)})"
        if result == "void":
            lines.append(f"  {call}")
        else:
            lines += [f"  %t.{base} = {call}", f"  store volatile {result} %t.{base}, ptr addrspace(1) %p"]
    types = ("i8", "i16", "i32", "i64", "float", "double")
    params = ", ".join(["ptr addrspace(1) %p", *(f"{t} %{t}{k}" for t in types for k in range(3))])
    start = [
        "  %x = load volatile i32, ptr addrspace(1) %p",
        "  %f = load volatile float, ptr addrspace(1) %p",
        "  %c = icmp sgt i32 %x, 3",
    ]
    body = "\n".join([*start, *lines, "  ret void", "}", *declared])
    features = f"+wavefrontsize{wave}" if len(KNOWN[name].waves) > 1 else ""
    assert compiled(f"define amdgpu_kernel void @all({params}) {{\n{body}", name, features)[:4] == b"\x7fELF"


def test_what_is_not_listed_never_reaches_llvm():
    names = ["llvm.exp.f32", "llvm.fabs.f32", "llvm.fabs.bf16", "llvm.fptosi.sat.i8.f64", "llvm.amdgcn.tanh.f32"]
    assert unknown(names, 12) == ["llvm.exp.f32", "llvm.fabs.bf16", "llvm.amdgcn.tanh.f32"]
    assert unknown(["llvm.amdgcn.permlane64.i32"], 10) == ["llvm.amdgcn.permlane64.i32"]
    assert unknown(["llvm.amdgcn.permlane64.i32"], 11) == []


_EXP = """define amdgpu_kernel void @k(ptr addrspace(1) %p, double %x) {
  %y = call double @llvm.exp.f64(double %x)
  store double %y, ptr addrspace(1) %p
  ret void
}
declare double @llvm.exp.f64(double)
"""


def test_a_crash_while_a_kernel_is_compiled_is_core_1301(monkeypatch):
    real = pipeline.generate
    monkeypatch.setattr(pipeline, "generate", lambda text, *rest: real(_EXP, *rest))
    with pytest.raises(mp.CompileError, match="MPG_CORE_1301") as caught:
        k_multiply_add.compile(F, F, backend="hip")
    assert "exp" in str(caught.value) and "k_multiply_add" in str(caught.value)
    monkeypatch.undo()
    assert k_multiply_add.compile(F, F, backend="hip").blob


_ELSEWHERE = """@elsewhere = external addrspace(1) global i32
define amdgpu_kernel void @magpie_k_multiply_add() {
  store i32 1, ptr addrspace(1) @elsewhere
  ret void
}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_ELSEWHERE, "'elsewhere' is not defined"),
        ("define amdgpu_kernel void @other() {\n  ret void\n}\n", "do not name the kernel"),
        ("define amdgpu_kernel void @k() {\n  %x = add i32 1, 2.5\n  ret void\n}\n", "2.5"),
    ],
)
def test_code_that_cannot_be_made_or_linked_is_hip_2002(text, words, monkeypatch):
    real = pipeline.generate
    monkeypatch.setattr(pipeline, "generate", lambda _, *rest: real(text, *rest))
    with pytest.raises(mp.CompileError, match="MPG_HIP_2002") as caught:
        k_multiply_add.compile(F, F, backend="hip")
    assert words in str(caught.value) and "k_multiply_add" in str(caught.value)


@mp.kernel
def k_library(x, y):
    i = mp.global_id(0)
    y[i] = mp.pow(x[i], 3.3) + mp.sin(x[i]) % 2.0
    mp.print("y", y[i])


@pytest.mark.parametrize("opt", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize("name", ARCHS)
def test_functions_are_called_at_every_level(name, opt):
    """Below the optimiser's levels nothing is taken in, and what a callee asks for is what the entry has."""
    made = k_library.compile(F, F, backend="hip", arch=name, opt=opt)
    hidden = [a[".value_kind"] for a in facts(made)[".args"]]
    assert "hidden_hostcall_buffer" not in hidden


def test_the_same_kernel_gives_the_same_bytes():
    first = k_parameters.compile(backend="hip").blob
    worker.generate("define amdgpu_kernel void @k() {\n  ret void\n}\n", TRIPLE, "gfx1100", "")
    assert k_parameters.compile(backend="hip").blob == first


def test_stages():
    stages = backend("hip").stages
    assert list(stages) == [*stages] and {"kir", "prepared", "llvm", "llvm-opt", "asm"} <= stages.keys()
    assert "amdgpu_kernel" in k_sum.inspect("llvm-opt", F, backend="hip", arch="gfx942")
