"""The ptx backend without a GPU: what the PTX says, what is refused, and that a crash of LLVM is an error."""

from __future__ import annotations

import os
import re
import signal
import struct
from pathlib import Path

import numpy as np
import pytest
from ptx_tools import assemble, ptxas

import magpie as mp
from magpie.backends.llvm import worker
from magpie.backends.llvm.codegen import CodegenError
from magpie.backends.llvm.intrinsics import OVERLOADED
from magpie.backends.ptx.arch import ARCHS, arch, nearest
from magpie.backends.ptx.intrinsics import NEWER, PLAIN, unknown

F = np.zeros(4, np.float32)
I = np.zeros(4, np.int32)

needs_ptxas = pytest.mark.skipif(ptxas() is None, reason="no ptxas: pip install nvidia-cuda-nvcc-cu12")


@pytest.fixture(autouse=True)
def one_workgroup_a_block(monkeypatch):
    """One entry a module; test_coarsen has modules with two."""
    monkeypatch.setenv("MAGPIE_COARSEN", "1")


def ptx(kernel, *args, arch="", **options):
    return kernel.compile(*args, backend="ptx", arch=arch, **options).text


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
def k_exp_fast(x, y):
    i = mp.global_id(0)
    y[i] = mp.exp(x[i]) / mp.sqrt(x[i])


def test_strict_code_contracts_nothing_and_rounds_to_nearest():
    text = ptx(k_multiply_add, F, F)
    assert "mul.rn.f32" in text and "add.rn.f32" in text and "fma" not in text
    text = ptx(k_divide, F, F)
    assert "sqrt.rn.f32" in text and "div.rn.f32" in text
    assert ".ftz" not in text and "approx" not in text


def test_fastmath_contracts_and_uses_the_special_function_unit():
    assert "fma.rn.f32" in ptx(k_multiply_add_fast, F, F)
    text = ptx(k_exp_fast, F, F)
    assert "ex2.approx.ftz.f32" in text and "math_" not in text and "div.rn" not in text


@mp.kernel(fastmath=True)
def k_roots_fast(x, y):
    i = mp.global_id(0)
    y[i] = mp.rsqrt(x[i]) + mp.sqrt(x[i])


def test_fast_roots_are_one_instruction_each():
    text = ptx(k_roots_fast, F, F)
    assert "rsqrt.approx.ftz.f32" in text and "sqrt.approx.ftz.f32" in text
    assert "div" not in text and "rcp" not in text
    wide = ptx(k_roots_fast, F.astype(np.float64), F.astype(np.float64))
    assert "sqrt.rn.f64" in wide and ".ftz" not in wide


@mp.kernel(workgroup=64)
def k_rows(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 2], n: mp.constexpr):
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    held = mp.local(n // 64, mp.f32)
    for k in range(n // 256):
        for j in range(4):
            held[4 * k + j] = x[row, 256 * k + 4 * t + j]
    most = 0.0
    for k in range(n // 64):
        most = max(most, held[k])
    for k in range(n // 256):
        for j in range(4):
            y[row, 256 * k + 4 * t + j] = held[4 * k + j] - most


def test_rows_that_begin_aligned_are_read_16_bytes_at_a_time_and_held_in_registers():
    text = ptx(k_rows, n=1024, variant="aligned")
    assert len(re.findall(r"ld\.global\.nc\.v4", text)) == len(re.findall(r"st\.global\.v4", text)) == 4
    assert ".local" not in text
    text = ptx(k_rows, n=1024)  # as many rows of any length would be
    assert ".v4" not in text and ".local" not in text


def test_reads_of_what_nobody_writes_use_the_constant_cache_only_where_arrays_do_not_overlap():
    assert "ld.global.nc.b32" in ptx(k_multiply_add, F, F)
    assert ".nc" not in ptx(k_multiply_add, F, F, variant="general")


@mp.kernel
def k_wait(flag, out):
    while mp.atomic_load(flag, 0) == 0:
        pass
    out[mp.global_id(0)] = 1


def test_what_is_waited_for_is_read_anew():
    text = ptx(k_wait, I, I)
    assert "ld.relaxed.gpu.global.b32" in text and ".nc" not in text


def test_the_ptx_version_is_that_of_the_architecture():
    for name, version in (("", "6.0"), ("sm_75", "6.3"), ("sm_80", "7.0"), ("sm_90", "7.8"), ("sm_100", "8.6")):
        text = ptx(k_multiply_add, F, F, arch=name)
        assert f".version {version}\n.target {name or 'sm_70'}\n" in text
    assert max(a.ptx for a in ARCHS.values()) <= 88
    assert nearest(9, 0).name == "sm_90" and nearest(8, 8).name == "sm_87" and nearest(12, 1).name == "sm_120"


def test_an_architecture_that_nobody_knows():
    with pytest.raises(mp.CompileError, match="MPG_PTX_2002") as caught:
        ptx(k_multiply_add, F, F, arch="sm_61")
    assert "sm_70" in str(caught.value)


@mp.kernel(workgroup=64)
def k_grid_stride(x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 2]):
    s = 0.0
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * 64):
        if i % 7 < i // 5:
            s += x[i]
    y[mp.global_id(1), mp.thread_id(0)] = s


def test_indices_are_32_bits_where_every_span_is_small_and_64_elsewhere():
    wide = r"(?:setp\.lt|rem)\.[su]64|mul\.(?:lo|hi)\.s64"  # the trips are computed once, with a division of 64
    assert not re.findall(wide, ptx(k_grid_stride))
    assert len(re.findall(wide, ptx(k_grid_stride, variant="general"))) >= 3


@mp.kernel
def k_past_32_bits(x: mp.Array[mp.i64, 1], n: mp.i32):
    i = mp.global_id(0)
    k: mp.i64 = n
    for _ in range(3):
        k = k * k
    x[i] = k + i


def test_numbers_that_may_leave_32_bits_keep_64():
    assert len(re.findall(r"mul\.lo\.s64|mul\.wide\.s32", ptx(k_past_32_bits))) >= 2


def test_a_subgroup_is_a_warp():
    assert ptx(k_multiply_add, F, F, subgroup_size=32)
    for size in (8, 16, 64):
        with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1021.*has 32"):
            ptx(k_multiply_add, F, F, subgroup_size=size)


def test_a_known_workgroup_size_is_required_and_an_unknown_one_bounded():
    assert ".reqntid 8, 4, 2" in ptx(k_multiply_add, F, F, workgroup=(8, 4, 2))
    text = ptx(k_multiply_add, F, F)
    assert ".maxntid 1024" in text and ".reqntid" not in text


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
    made = k_parameters.compile(backend="ptx")
    sizes = {"u8": 1, "s8": 1, "b8": 1, "u16": 2, "b16": 2, "u32": 4, "b32": 4, "f32": 4, "u64": 8, "b64": 8, "f64": 8}
    offset, found = 0, []
    for align, kind, count in re.findall(
        r"\.param (?:\.align (\d+) )?\.(\w+).*?magpie_k_parameters_param_\d+(?:\[(\d+)\])?", made.text
    ):
        size = sizes[kind] * int(count or 1)
        offset += -offset % int(align or size)
        found.append((offset, size))
        offset += size
    at = {f.name: f for f in made.layout.params}
    expected = [(at["flag"].offset, 1), (at["p"].offset, 16), (at["h"].offset, 2)]
    x, s = at["x"], at["s"]
    expected += [(x.offset + 8 * k, 8) for k in range(5)]
    expected += [(at["n"].offset, 4), (at["d"].offset, 8)]
    expected += [(s.offset + 8 * k, 8) for k in range(3)]
    # behind the layout: one extent of the shared array, and the record buffer
    expected += [(made.layout.size, 8), (made.layout.size + 8, 8)]
    # What is declared in the order of the layout lies at the offsets of the layout.
    assert found == expected
    assert made.info["records"] and made.info["dynamic_shared"] == [(4, [0])]


@mp.kernel
def k_tile(x, n: mp.constexpr):
    t = mp.shared(n, mp.f32)
    i = mp.thread_id(0)
    t[i] = x[i]
    mp.barrier()
    x[i] = t[n - 1 - i]


def test_shared_memory_up_to_what_the_architecture_has():
    small = k_tile.compile(F, 12 * 1024, backend="ptx")
    assert ".shared .align 16 .b8 shared_$_0[49152]" in small.text and small.info["fixed_shared"] == 0
    large = k_tile.compile(F, 12 * 1024 + 4, backend="ptx")
    assert ".extern .shared" in large.text and large.info["fixed_shared"] == 49152 + 16
    for name, most in (("sm_70", 96), ("sm_75", 64), ("sm_80", 163), ("sm_90", 227)):
        ptx(k_tile, F, most * 256, arch=name)
        with pytest.raises(mp.CompileError, match="MPG_PTX_2001") as caught:
            ptx(k_tile, F, most * 256 + 1, arch=name)
        assert f"{most * 1024}" in str(caught.value)


@mp.kernel
def k_uniform_sum(x):
    i = mp.global_id(0)
    v = 0.0
    if i < x.shape[0]:
        v = x[i]
    s = mp.subgroup.sum(v)
    if i < x.shape[0]:
        x[i] = s


@mp.kernel
def k_branch_sum(x):
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] = mp.subgroup.sum(x[i])


@mp.kernel
def k_return_sum(x):
    i = mp.global_id(0)
    if i >= x.shape[0]:
        return
    x[i] = mp.subgroup.sum(x[i])


def ballots(text):
    return text.count("vote.sync.ballot")


def test_masks_are_computed_where_lanes_may_be_missing_and_nowhere_else():
    assert ballots(ptx(k_uniform_sum, F, workgroup=64)) == 0
    assert ballots(ptx(k_branch_sum, F, workgroup=64)) == 1
    assert ballots(ptx(k_return_sum, F, workgroup=64)) == 1
    for kernel in (k_uniform_sum, k_branch_sum, k_return_sum):
        text = ptx(kernel, F, workgroup=64)
        assert "activemask" not in text


@mp.kernel
def k_count(x, n):
    if x[mp.global_id(0)] > 0:
        mp.atomic_add(n, 0, mp.subgroup.sum(1))


def test_integers_reduce_in_one_instruction_where_there_is_one():
    assert "redux.sync.add.s32" in ptx(k_count, I, I, arch="sm_80")
    assert "redux" not in ptx(k_count, I, I, arch="sm_75")


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


@needs_ptxas
def test_each_listed_intrinsic_is_selected_on_the_oldest_architecture(tmp_path: Path):
    lines, declared = [], []
    for n, name in enumerate(f"llvm.{base}.{t}" for base, types in OVERLOADED.items() for t in types):
        result, operands = _declaration(name)
        declared.append(f"declare {result} @{name}({', '.join(operands)})")
        values = [f"{t} {'false' if t == 'i1' else f'%{t}{k}'}" for k, t in enumerate(operands)]
        lines += [f"  %r{n} = call {result} @{name}({', '.join(values)})"]
        lines += [f"  store volatile {result} %r{n}, ptr addrspace(1) %p"]
    types = ("i8", "i16", "i32", "i64", "float", "double")
    params = ", ".join(["ptr addrspace(1) %p", *(f"{t} %{t}{k}" for t in types for k in range(3))])
    module = f"define ptx_kernel void @magpie_all({params}) {{\n" + "\n".join([*lines, "  ret void", "}", *declared])
    text = worker.generate(module, "nvptx64-nvidia-cuda", "sm_70", "+ptx60").decode()
    assert assemble([text], "sm_70", tmp_path) == ""


def test_what_is_not_listed_never_reaches_llvm():
    assert unknown(["llvm.exp.f32", "llvm.fabs.f32", "llvm.fabs.bf16", "llvm.fptosi.sat.i8.f64"], 70) == [
        "llvm.exp.f32",
        "llvm.fabs.bf16",
    ]
    assert unknown([f"llvm.nvvm.{n}" for n in PLAIN], 70) == []
    assert unknown(["llvm.nvvm.redux.sync.add"], 75) == ["llvm.nvvm.redux.sync.add"]
    assert unknown([f"llvm.nvvm.{n}" for n in NEWER], 80) == []


# --- the worker -------------------------------------------------------------------------------------------------------
_EXP = """define ptx_kernel void @k(ptr addrspace(1) %p, float %x) {
  %y = call float @llvm.exp.f32(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
declare float @llvm.exp.f32(float)
"""
_FINE = "define ptx_kernel void @k() {\n  ret void\n}\n"
_NVPTX = ("nvptx64-nvidia-cuda", "sm_70", "+ptx60")


def test_a_crash_of_llvm_is_an_error_with_its_words_and_the_next_request_works():
    with pytest.raises(worker.WorkerCrash, match="no libcall available for fexp"):
        worker.generate(_EXP, *_NVPTX)
    assert b".entry k" in worker.generate(_FINE, *_NVPTX)


def test_a_crash_while_a_kernel_is_compiled_is_core_1301(monkeypatch):
    from magpie.backends.ptx import pipeline

    real = pipeline.generate
    monkeypatch.setattr(pipeline, "generate", lambda text, *rest: real(_EXP, *rest))
    with pytest.raises(mp.CompileError, match="MPG_CORE_1301") as caught:
        ptx(k_multiply_add, F, F)
    assert "fexp" in str(caught.value) and "k_multiply_add" in str(caught.value)
    monkeypatch.undo()
    assert "magpie_k_multiply_add" in ptx(k_multiply_add, F, F)


def test_a_module_that_llvm_refuses_is_shown_with_its_line():
    with pytest.raises(CodegenError) as caught:
        worker.generate("define void @k() {\n  %x = add i32 1, 2.5\n  ret void\n}\n", *_NVPTX)
    assert caught.value.line == 2 and "2.5" in str(caught.value)
    assert not isinstance(caught.value, worker.WorkerCrash)


def test_a_worker_that_misses_its_deadline_is_ended():
    mine = worker.Worker()
    assert b".entry k" in mine.request(_FINE, *_NVPTX, 2, "assembly")
    process = mine._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)  # it must not be the quicker one
    with pytest.raises(worker.WorkerCrash, match="in time"):
        mine.request(_FINE, *_NVPTX, 2, "assembly", deadline=0.0)
    assert process.poll() is not None
    assert b".entry k" in mine.request(_FINE, *_NVPTX, 2, "assembly")
    mine.close()


def test_a_forked_child_has_a_worker_of_its_own():
    assert b".entry k" in worker.generate(_FINE, *_NVPTX)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, struct.pack("<?", b".entry k" in worker.generate(_FINE, *_NVPTX)))
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b"\x01"
    os.close(read)
    os.waitpid(child, 0)
    assert b".entry k" in worker.generate(_FINE, *_NVPTX)


def test_the_same_kernel_gives_the_same_bytes():
    assert ptx(k_branch_sum, F) == ptx(k_branch_sum, F)
    assert arch("").name == "sm_70"


@mp.kernel(workgroup=32, fastmath=True)
def k_dot(x, y):
    a = mp.shared(32, mp.f32)
    i = mp.thread_id(0)
    a[i] = x[i]
    mp.barrier()
    s = 0.0
    for k in range(16):
        s += a[k] * y[k]
    y[i] = s


def test_short_loops_become_straight_code_with_wide_reads():
    text = ptx(k_dot, F, F)
    # the first product is added to zero
    assert text.count("ld.shared.v4") == 4 and text.count("fma.rn.f32") == 15
    assert "bra" not in text


def test_the_ptx_version_is_the_least_that_knows_the_architecture():
    # What ptxas 12.9, the one on PyPI that takes sm_70, reads.
    assert all(a.ptx <= 88 for a in ARCHS.values())

    @mp.kernel
    def plain(x: mp.Array[mp.f32, 1]):
        x[mp.global_id(0)] = 1.0

    for name, least in (("sm_70", "6.0"), ("sm_80", "7.0"), ("sm_90", "7.8"), ("sm_100", "8.6")):
        assert f".version {least}" in plain.compile(backend="ptx", arch=name).text
