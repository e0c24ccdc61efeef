"""The spv backend without a device: what modules say, by spirv-dis and spirv-val."""

from __future__ import annotations

import inspect
import linecache
import re

import numpy as np
import pytest
from spirv_tools import disassembled, validate

import magpie as mp

F = np.zeros(4, np.float32)
F2 = np.zeros((4, 8), np.float32)
I = np.zeros(4, np.int32)


@pytest.fixture(autouse=True)
def one_workgroup_a_block(monkeypatch):
    """One entry a module, but where a test says more."""
    monkeypatch.setenv("MAGPIE_COARSEN", "1")


def compiled(kernel, *args, arch="", **options):
    """An artifact, and its text by spirv-dis."""
    artifact = kernel.compile(*args, backend="spv", arch=arch, **options)
    validate(artifact.blob)
    return artifact, disassembled(artifact.blob)


@mp.kernel
def k_multiply_add(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * x[i] + 1.0


@mp.kernel(fastmath=True)
def k_multiply_add_fast(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * x[i] + 1.0


@mp.kernel
def k_loop(x, y):
    i = mp.global_id(0)
    if i >= y.shape[0]:
        return
    total = 0.0
    for k in range(x.shape[1]):
        if x[i, k] < 0.0:
            continue
        total += x[i, k]
        if total > 100.0:
            break
    y[i] = total


@mp.kernel
def k_barrier(x):
    s = mp.shared(64, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    x[mp.global_id(0)] = s[63 - t]


@mp.kernel
def k_dynamic(x, n: mp.i32):
    s = mp.shared((n, mp.workgroup_size(0)), mp.f32)
    t = mp.thread_id(0)
    s[0, t] = x[t]
    mp.barrier()
    x[t] = s[0, 63 - t]


@mp.kernel
def k_quotients(x, y):
    i = mp.global_id(0)
    x[i] = x[i] // y[i] + x[i] % y[i] + x[i] // 3


@mp.kernel
def k_until(x):
    t = mp.thread_id(0)
    done = mp.shared(1, mp.i32)
    for _ in range(50):
        mp.barrier()
        if t == 0:
            done[0] = 1 if x[0] > 5.0 else 0
        mp.barrier()
        if done[0] == 1:
            break
        mp.barrier()
        x[t] += 1.0


@mp.kernel
def k_print(x):
    i = mp.global_id(0)
    mp.print("x =", x[i], i)


def test_strict_arithmetic_is_not_contracted():
    _, strict = compiled(k_multiply_add, F, F)
    (product,) = re.findall(r"(%\w+) = OpFMul ", strict)
    (total,) = re.findall(r"(%\w+) = OpFAdd ", strict)
    assert f"OpDecorate {product} NoContraction" in strict
    assert f"OpDecorate {total} NoContraction" in strict
    _, fast = compiled(k_multiply_add_fast, F, F)
    assert "OpFMul" in fast and "NoContraction" not in fast


def test_float_controls_are_asked_for_where_the_profile_has_them():
    modes = ["DenormPreserve 32", "RoundingModeRTE 32", "SignedZeroInfNanPreserve 32"]
    arch = "vulkan1.3+i64+denorm32+denorm64+rte32+rte64+szinp32+szinp64"
    artifact, text = compiled(k_multiply_add, F, F, arch=arch)
    assert [m for m in modes if f"OpExecutionMode %magpie_k_multiply_add {m}" in text] == modes
    assert {"denorm32", "rte32", "szinp32"} <= set(artifact.info["needs"])
    assert " 64\n" not in "".join(re.findall(r"OpExecutionMode .*\n", text))  # there is no f64 in it
    artifact, text = compiled(k_multiply_add, F, F)
    assert "OpExecutionMode " not in text and artifact.info["needs"] == []


def test_a_loop_has_a_header_of_nothing_but_its_merge():
    _, text = compiled(k_loop, F2, F)
    lines = [line for line in text.splitlines() if "OpLine" not in line]
    (at,) = [k for k, line in enumerate(lines) if "OpLoopMerge" in line]
    assert "OpLabel" in lines[at - 1] and re.search("OpBranch %", lines[at + 1])
    exit_, step = re.findall(r"OpLoopMerge (%\w+) (%\w+)", lines[at])[0]
    # `continue` and the end of the body go to the step, the test of the range and `break` to the end.
    assert len(re.findall(rf"OpBranch {step}\b", text)) == 2
    assert len(re.findall(rf"OpBranchConditional %\w+ {exit_}\b|OpBranch {exit_}\b", text)) == 2


def test_index_arithmetic_of_a_small_launch_has_32_bits():
    artifact, text = compiled(k_loop, F2, F)
    assert "OpTypeInt 64" not in text and "i64" not in artifact.info["needs"]


def test_a_barrier_orders_shared_memory_and_arrays():
    _, text = compiled(k_barrier, F)
    workgroup, scope, semantics = re.findall(r"OpControlBarrier %uint_(\d+) %uint_(\d+) %uint_(\d+)", text)[0]
    # SPIR-V 3.27, 3.25: scope Workgroup; AcquireRelease | UniformMemory | WorkgroupMemory
    assert (int(workgroup), int(scope)) == (2, 2)
    assert int(semantics) == 0x8 | 0x40 | 0x100
    assert "OpDecorate %x Coherent" in text


def test_dynamic_shared_arrays_are_sized_by_spec_constants():
    artifact, text = compiled(k_dynamic, F, 4)
    assert artifact.info["dynamic_shared"] == [(4, [0, 1])]
    ids = {int(n): name for name, n in re.findall(r"OpDecorate (%\w+) SpecId (\d+)", text)}
    assert ids.keys() == {0, 1, 2, 3, 4, *artifact.info["rows"]}
    assert re.search(rf"OpSpecConstantOp %uint IMul ({ids[3]} {ids[4]}|{ids[4]} {ids[3]})", text)


def test_workgroup_sizes_are_spec_constants():
    artifact, text = compiled(k_barrier, F, workgroup=(16, 4, 1))
    names = dict(re.findall(r"OpDecorate (%\w+) SpecId (\d)", text))
    sizes = re.findall(r"OpExecutionModeId %\w+ LocalSizeId (%\w+) (%\w+) (%\w+)", text)[0]
    assert [names[s] for s in sizes] == ["0", "1", "2"]
    defaults = {name: int(n) for name, n in re.findall(r"(%\w+) = OpSpecConstant %uint (\d+)", text)}
    assert [defaults[s] for s in sizes] == [16, 4, 1]
    assert artifact.info["linear"] is False


def test_the_block_has_what_is_used_alone():
    artifact, _ = compiled(k_loop, F2, F)
    # words: x's address, two extents and two strides; y's address, extent and stride
    assert artifact.info["block"] == [
        (("word", 2), "i", 0),
        (("word", 6), "i", 4),
        (("offset", 0), "I", 8),
        (("offset", 1), "I", 12),
    ]
    assert (artifact.info["block_size"], artifact.info["block_kind"]) == (16, "push")


def test_many_scalars_go_through_a_uniform_buffer():
    names = [f"a{k}" for k in range(40)]
    space = {"mp": mp}
    source = f"def k_many(out, {', '.join(f'{n}: mp.i32' for n in names)}):\n    out[0] = {' + '.join(names)}\n"
    path = "many.py"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    exec(compile(source, path, "exec"), space)
    kernel = mp.kernel(space["k_many"])
    artifact, text = compiled(kernel, I, *range(40))
    assert artifact.info["block_kind"] == "uniform" and artifact.info["block_size"] == 176
    (variable,) = re.findall(r"(%\w+) = OpVariable %_ptr_Uniform_Numbers Uniform", text)
    assert f"OpDecorate {variable} Binding 1" in text  # behind the array
    more, text = compiled(kernel, I, *range(40), arch="vulkan1.3+push256")
    assert more.info["block_kind"] == "push" and "push256" in more.info["needs"]


def test_places_and_names():
    _, text = compiled(k_loop, F2, F)
    assert re.search(r'OpEntryPoint GLCompute %magpie_k_loop "magpie_k_loop"', text)
    assert re.search(r'OpString ".*test_spirv.py"', text)
    source, first = inspect.getsourcelines(k_loop.fn)
    body = range(first + 3, first + len(source))  # the first line asks for what stands at the start
    assert {int(n) for n in re.findall(r"OpLine %\w+ (\d+) \d+", text)} == set(body)
    assert "%total = OpVariable" in text and "%x = OpVariable" in text


def test_records_have_the_next_binding():
    artifact, text = compiled(k_print, F)
    assert artifact.info["records"] and artifact.info["sites"][0]["types"] == ["f32", "index"]
    assert "OpDecorate %records Binding 1" in text


def test_checked_mode_asks_for_places_and_divisors():
    artifact, text = compiled(k_quotients, I, I, checked=True)
    line = inspect.getsourcelines(k_quotients.fn)[1] + 3
    sites = [(s["kind"], s["line"]) for s in artifact.info["sites"]]
    # y is loaded once for each quotient; 3 is no divisor to ask for
    assert sites.count(("divide", line)) == 2 and {kind for kind, _ in sites} == {"divide", "bounds"}
    assert compiled(k_quotients, I, I)[0].info["sites"] == []


def test_loops_with_barriers_are_left_as_the_subgroup_agrees_where_empty_lanes_disagree():
    _, text = compiled(k_until, F, arch="vulkan1.3+i64+subgroups+lockstep+sg8")
    assert len(re.findall("OpGroupNonUniformAny ", text)) == 1  # not for the count, not for `t == 0`
    _, text = compiled(k_until, F, arch="vulkan1.3+i64+subgroups+reconverge+sg32")
    assert "OpGroupNonUniform" not in text


def test_an_array_may_be_written_under_another_name_unless_a_launch_says_no():
    def decorations(text, name):
        return set(re.findall(rf"OpDecorate %{name} (Restrict|Aliased|NonWritable)", text))

    _, text = compiled(k_multiply_add, F, F)
    assert decorations(text, "x") == {"Restrict", "NonWritable"} and decorations(text, "y") == {"Restrict"}
    _, text = compiled(k_multiply_add, F, F, variant="general")
    assert decorations(text, "x") == decorations(text, "y") == {"Aliased"}


def test_coarsened_code_is_a_second_entry(monkeypatch):
    monkeypatch.setenv("MAGPIE_COARSEN", "4")
    artifact, text = compiled(k_multiply_add, F, F, workgroup=64)
    coarse = artifact.info["coarse"]
    assert (coarse["factor"], coarse["dim"], coarse["always"]) == (4, 0, True)
    assert {"magpie_k_multiply_add", coarse["entry"]} == set(re.findall(r'OpEntryPoint GLCompute %\w+ "(\w+)"', text))
    assert (("groups", 0), "I") in [(source, code) for source, code, _ in artifact.info["block"]]


def test_the_same_kernel_gives_the_same_bytes():
    assert compiled(k_loop, F2, F)[0].blob == compiled(k_loop, F2, F)[0].blob
