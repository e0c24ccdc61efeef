"""Kernels of Python as `.mp` text: how it looks, what it declares, what it refuses, and that it loads."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from mp_text_tools import in_text, text_of
from typer.testing import CliRunner

import magpie as mp
from magpie.cli.app import app
from magpie.cli.kernels import annotated, kernels_in
from magpie.frontend.mp.emit import kernel_text
from magpie.frontend.mp.source import Source
from magpie.mpir.emit import emit_kernel
from magpie.runtime.inspection import _lowered
from magpie.runtime.modules import check_module
from tests.conformance.harness import Run

ROOT = Path(__file__).parents[2]
BACKENDS = ("interp", "cpu")


def loaded(kernel, tmp_path, *args):
    """The kernel of the text that `inspect` gives; the text has no diagnostics and is formatted."""
    text_of(_lowered(kernel, args, {}).kernel)
    path = tmp_path / "t.mp"
    path.write_text(kernel.inspect("mp", *args))
    found = check_module(Source(path.read_text(), str(path)))
    assert {d.code for d in found} <= {"MPG_CORE_1202"}, "the reminder of where a kernel with `requires` runs"
    module = mp.load_module(path)
    (name,) = module
    return module[name]


@mp.kernel(workgroup=(32, 1, 1))
def k_shown(x: mp.Array[mp.f32, 2], out: mp.Array[mp.f32], a: mp.f32):
    """Sums the positive numbers of each row.

    At most 100.
    """
    i = mp.global_id(0)
    if i < out.shape[0]:
        acc = 0.0
        for k in range(x.shape[1]):
            if x[i, k] < 0.0:
                continue
            if acc > 100.0:
                break
            acc += x[i, k] * a
        out[i] = acc


SHOWN = """\
gpu fn @k_shown(
    %x: gpu.TBuffer<f32>,
    %out: gpu.TBuffer<f32>,
    %a: f32,
    %x_dim0: i64,
    %x_dim1: i64
) -> unit target(spv) workgroup(32, 1, 1) {
bb0:
    %out_len: i64 = gpu.buffer_len<f32> { buf=%out }
    %i: i64 = gpu.global_id { dim=const.u32 0 }
    %v: bool = icmp.slt { lhs=%i, rhs=%out_len }
    cbr %v bb1 bb8
bb1:
    %v_1: i64 = i.trip_count { start=const.i64 0, stop=%x_dim1, step=const.i64 1 }
    br bb2
bb2:
    %acc: f32 = phi f32 { [bb1: const.f32 0.0], [bb6: %acc_2] }
    %k: i64 = phi i64 { [bb1: const.i64 0], [bb6: %k_1] }
    %v_2: bool = icmp.sge { lhs=%k, rhs=%v_1 }
    cbr %v_2 bb7 bb3
bb3:
    %v_3: i64 = i.mul { a=%i, b=%x_dim1 }
    %v_4: i64 = i.add { a=%v_3, b=%k }
    %v_5: f32 = gpu.buffer_load<f32> { buf=%x, idx=%v_4 }
    %v_6: bool = fcmp.olt { lhs=%v_5, rhs=const.f32 0.0 }
    cbr %v_6 bb6 bb4
bb4:
    %v_7: bool = fcmp.ogt { lhs=%acc, rhs=const.f32 100.0 }
    cbr %v_7 bb7 bb5
bb5:
    %v_8: i64 = i.mul { a=%i, b=%x_dim1 }
    %v_9: i64 = i.add { a=%v_8, b=%k }
    %v_10: f32 = gpu.buffer_load<f32> { buf=%x, idx=%v_9 }
    %v_11: f32 = f.mul { a=%v_10, b=%a }
    %acc_1: f32 = f.add { a=%acc, b=%v_11 }
    br bb6
bb6:
    %acc_2: f32 = phi f32 { [bb3: %acc], [bb5: %acc_1] }
    %k_1: i64 = i.add { a=%k, b=const.i64 1 }
    br bb2
bb7:
    gpu.buffer_store<f32> { buf=%out, idx=%i, v=%acc }
    br bb8
bb8:
    ret
}
"""


def test_how_it_looks():
    lines = k_shown.inspect("mp").splitlines()
    assert lines[:2] == ["module k_shown", "exports { @k_shown }"]
    docs = [line for line in lines if line.startswith(";;;")]
    assert docs[:4] == [";;; Sums the positive numbers of each row.", ";;;", ";;;     At most 100.", ";;;"]
    assert "%x has 2 dimensions, of extents %x_dim0, %x_dim1" in docs[-1] and "test_mp_text.py" in docs[-2]
    source = [line.strip() for line in lines if line.strip().startswith("; ")]
    assert any(line.endswith(": acc += x[i, k] * a") for line in source)
    code = [line for line in lines if not line.strip().startswith(";")]
    assert "\n".join(code[code.index("gpu fn @k_shown(") :]) + "\n" == SHOWN


def test_the_example_of_the_page(tmp_path):
    page = (ROOT / "docs" / "MP_LANGUAGE.md").read_text()
    chapter = page[page.index("## Kernels of Python as text") :]
    code, text = (re.search(rf"```{kind}\n(.*?)```", chapter, re.DOTALL)[1] for kind in ("python", "mp"))
    path = tmp_path / "saxpy.py"
    path.write_text(f"import magpie as mp\n\n{code}")
    (kernel,) = (kernels_in(path) or {}).values()
    assert re.sub('digest ".*"', f'digest "{"0" * 64}"', kernel.inspect("mp")) == text


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_computes(backend, tmp_path):
    k = loaded(k_shown, tmp_path)
    x = np.random.default_rng(1).integers(-9, 30, (70, 40)).astype(np.float32)
    out, wanted = np.zeros(70, np.float32), np.zeros(70, np.float32)
    for i, row in enumerate(x):
        for v in row[row >= 0]:
            wanted[i] += v * 2 if wanted[i] <= 100 else 0
    k.launch(grid=3, args=(x.reshape(-1), out, 2.0, *x.shape), backend=backend)
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("path", [ROOT / "examples" / "blur_sobel.py", *sorted((ROOT / "benchmarks").glob("*.py"))])
def test_examples_and_benchmarks(path):
    """Kernels with full annotations of files that people read."""
    if "@mp.kernel" in path.read_text():
        for kernel in (kernels_in(path) or {}).values():
            if annotated(kernel) and "mp.mma" not in path.read_text():
                text_of(_lowered(kernel, (), {}).kernel)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("near", [False, True])
def test_a_kernel_of_the_library(near, backend, tmp_path):
    from magpie.lib.reductions import _reduce

    x = np.arange(5000, dtype=np.int32) % 7
    run = Run(_reduce, (x, np.zeros(3, np.int64), 3, "add", mp.i64, 0, 4, near), {}, grid=3)
    text = in_text(run, tmp_path)
    text.kernel.launch(grid=3, args=text.args, backend=backend)
    assert text.args[1].sum() == x.sum()


def test_build_writes_the_text(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(
        "import magpie as mp\n"
        "@mp.kernel\ndef one(x: mp.Array[mp.i32]):\n    x[mp.global_id(0)] = 7\n"
        "@mp.kernel\ndef other(x):\n    pass\n"
        "@mp.kernel(requires=('cooperative_groups',))\ndef all_meet(x: mp.Array[mp.i32]):\n    mp.grid_sync()\n"
    )

    def build(*args):
        return CliRunner().invoke(app, ["build", str(path), "-o", str(tmp_path / "out"), "--emit", "mp", *args])

    done = build()
    assert done.exit_code == 0 and "2 kernels built" in done.output, done.output
    names = {p.name: p.read_text() for p in (tmp_path / "out").iterdir()}
    assert names.keys() == {"one.mp", "all_meet.mp"}, "the text alone"
    assert "target(spv) {" in names["one.mp"] and "\ngpu fn @one(" in names["one.mp"]
    assert "unsafe gpu fn @all_meet(" in names["all_meet.mp"]
    assert "target(ptx) requires(cooperative_groups)" in names["all_meet.mp"], "the first that has it"
    for text in (tmp_path / "out").iterdir():
        assert CliRunner().invoke(app, ["check", str(text)]).exit_code == 0
        assert CliRunner().invoke(app, ["fmt", "--check", str(text)]).exit_code == 0
    done = build("--backend", "interp")
    assert done.exit_code == 0 and (tmp_path / "out" / "one.interp.kir").exists()
    assert "target(interp)" in (tmp_path / "out" / "one.mp").read_text()


@mp.kernel
def k_tiles(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    acc = mp.mma.zeros((16, 16), mp.f32)
    mp.mma.store(acc, out, (0, 0))


@pytest.mark.parametrize(("kernel", "what", "line"), [(k_tiles, "tile_fill", 2)])
def test_what_it_cannot_say(kernel, what, line):
    with pytest.raises(mp.CompileError, match=what) as failed:
        kernel.inspect("mp")
    (found,) = failed.value.diagnostics
    assert found.code == "MPG_CORE_1411"
    assert found.loc is not None and found.loc.line == kernel.fn.__code__.co_firstlineno + line
    assert "mp" in kernel.stages("cpu")


# --- what a naive printer would get wrong -----------------------------------------------------------------------------
@mp.kernel
def k_exchange(x: mp.Array[mp.i32], out: mp.Array[mp.i32]):
    i = mp.global_id(0)
    a = x[i]
    b = mp.i32(1)
    for k in range(5):
        a, b = b, a + k  # phis that exchange values
    out[i] = a * 1000 + b


@mp.kernel
def k_zeros(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    zero = 0.0
    if x[i] > 0.0:
        zero = -0.0  # another value than 0.0
    out[i] = mp.copysign(1.0, zero)


@mp.kernel
def k_trips(x: mp.Array[mp.i32], out: mp.Array[mp.i32]):
    i = mp.global_id(0)
    last = mp.i32(-7)
    total = mp.i32(0)
    for k in range(x[i], -4, -3):
        last = mp.i32(k)
        if k == 2:
            break
        total += k
    else:
        total += 1000
    out[i] = total * 10 + last


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_that_loops_carry(backend, tmp_path):
    x = np.arange(-10, 22, dtype=np.int32)

    def run(kernel):
        out = np.zeros(32, np.int32)
        loaded(kernel, tmp_path, x, out).launch(grid=1, block=32, args=(x, out), backend=backend)
        return out.tolist()

    def exchanged(a):
        b = 1
        for k in range(5):
            a, b = b, a + k
        return a * 1000 + b

    def stepped(start):
        last, total = -7, 0
        for k in range(start, -4, -3):
            last = k
            if k == 2:
                break
            total += k
        else:
            total += 1000
        return total * 10 + last

    assert run(k_exchange) == [exchanged(int(v)) for v in x]
    assert run(k_trips) == [stepped(int(v)) for v in x]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_sign_of_zero(backend, tmp_path):
    x = np.array([-1, 1, -2, 2], np.float32)
    out = np.zeros(4, np.float32)
    loaded(k_zeros, tmp_path, x, out).launch(grid=1, block=4, args=(x, out), backend=backend)
    assert out.tolist() == [1, -1, 1, -1]


@mp.kernel
def k_leaves_with_a_sum(x: mp.Array[mp.u32], out: mp.Array[mp.u32]):
    """Who leaves sums among those that leave in the same trip, not among all."""
    i = mp.global_id(0)
    trip = mp.u32(0)
    while True:
        trip += mp.u32(1)
        if x[i] == trip:
            among = mp.subgroup.sum(mp.u32(1))
            if among > mp.u32(1):
                out[i] = among + trip * mp.u32(100)
                break
            out[i] = trip
            break
        if trip > mp.u32(50):
            return


@pytest.mark.parametrize("backend", BACKENDS)
def test_work_items_that_leave_a_loop_meet_those_of_their_trip(backend, tmp_path):
    k = loaded(k_leaves_with_a_sum, tmp_path, np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    x = np.random.default_rng(3).integers(1, 5, 64).astype(np.uint32)
    x[9] = 77
    out = np.zeros(64, np.uint32)
    k.launch(grid=1, block=64, args=(x, out), backend=backend, subgroup_size=8)
    rows = x.reshape(8, 8)
    count = (rows[:, :, None] == rows[:, None, :]).sum(2).ravel()
    wanted = np.where(count > 1, count + x * 100, x)
    wanted[9] = 0
    assert out.tolist() == wanted.tolist()


@mp.kernel(workgroup=(32, 1, 1))
def k_goes_on_early(out: mp.Array[mp.i32], n: mp.i32):
    """Some work-items go on to the next trip at once: not earlier than others, since nothing else is left."""
    t = mp.thread_id(0)
    s = mp.shared(32, mp.i32)
    u = mp.i32(0)
    total = mp.i32(0)
    while u < n:
        for k in range(t, 40, 7):  # of other trips for each, in front of one that all make together
            total += mp.i32(k)
        while u % 4 == 0:
            s[t] = u + mp.i32(t)
            mp.barrier()
            total += s[(t + 1) % 32]
            mp.barrier()
            u += 1
        u += 1
        if u % 3 == 0:
            if n > 5:
                u += 1
                if t < 7:
                    continue
    out[t] = total


@pytest.mark.parametrize("backend", BACKENDS)
def test_barriers_in_loops_that_work_items_go_on_with_early(backend, tmp_path):
    k = loaded(k_goes_on_early, tmp_path)
    for n in (3, 20):
        out = np.zeros(32, np.int32)
        k.launch(grid=1, args=(out, n), backend=backend)
        t, u, total = np.arange(32), 0, np.zeros(32, np.int64)
        while u < n:
            total += [sum(range(i, 40, 7)) for i in t]
            while u % 4 == 0:
                total += u + (t + 1) % 32
                u += 1
            u += 1
            u += u % 3 == 0 and n > 5
        assert out.tolist() == total.tolist()


@mp.kernel(workgroup=(32, 1, 1))
def k_leaves_trips_early(out: mp.Array[mp.i32], n: mp.i32):
    """What decides around the barrier is set in one trip only, and work-items go on early in others."""
    t = mp.thread_id(0)
    s = mp.shared(32, mp.i32)
    u = mp.i32(2)
    total = mp.i32(0)
    for k in range(5):
        if k % 2 == 0:
            if t >= 8:
                continue
            total += mp.i32(k)
        else:
            while u < n + k:
                s[t] = u + mp.i32(t)
                mp.barrier()
                total += s[(t + 1) % 32]
                mp.barrier()
                u += 1
        total += 1000
    out[t] = total


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_left_as_it_is_stays_uniform(backend, tmp_path):
    k = loaded(k_leaves_trips_early, tmp_path)
    out = np.zeros(32, np.int32)
    k.launch(grid=1, args=(out, 4), backend=backend)
    t, u, total = np.arange(32), 2, np.zeros(32, np.int64)
    for trip in range(5):
        if trip % 2 == 0:
            total[:8] += trip + 1000
            continue
        while u < 4 + trip:
            total += u + (t + 1) % 32
            u += 1
        total += 1000
    assert out.tolist() == total.tolist()


@mp.kernel(workgroup=(32, 1, 1))
def k_counts_after_a_choice(out: mp.Array[mp.i32]):
    """Where a choice of each work-item ends, a count begins that is the same for all."""
    t = mp.thread_id(0)
    s = mp.shared(32, mp.i32)
    total = mp.i32(0)
    if t % 3 == 0:
        total = mp.i32(5)
    k = mp.i32(0)
    while k < 3:
        k += 1
        s[t] = k * mp.i32(t)
        mp.barrier()
        total += s[31 - t]
        mp.barrier()
    out[t] = total


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_count_behind_a_choice_is_one_for_all(backend, tmp_path):
    k = loaded(k_counts_after_a_choice, tmp_path)
    out = np.zeros(32, np.int32)
    k.launch(grid=1, args=(out,), backend=backend)
    t = np.arange(32)
    assert out.tolist() == (np.where(t % 3 == 0, 5, 0) + 6 * (31 - t)).tolist()


def test_names(tmp_path):
    source = tmp_path / "named.py"
    source.write_text(
        "import magpie as mp\n"
        "@mp.struct\nclass bool:\n    phi: mp.f32\n    ret: mp.i8\n"
        "@mp.struct\nclass TPair:\n    a: bool\n"
        "@mp.kernel\n"
        "def größe(ret: mp.Array[mp.f32, 2], ret_dim1: mp.i32, bb0: TPair, m_dim0: mp.Array[mp.f32]):\n"
        "    α = bb0.a.phi\n"
        "    if ret_dim1 > 0:\n        α += 1.0\n"
        "    ret[0, ret_dim1] = α + m_dim0[0] + mp.f32(bb0.a.ret)\n"
    )
    (kernel,) = (kernels_in(source) or {}).values()
    text = text_of(_lowered(kernel, (), {}).kernel)
    assert "value struct TBool {" in text and "field phi: f32" in text and "value struct TPair {" in text
    path = tmp_path / "t.mp"
    path.write_text(text)
    (name,) = module = mp.load_module(path)
    ret = np.zeros((2, 3), np.float32)
    for backend in BACKENDS:
        module[name].launch(
            grid=1,
            block=1,
            args=(ret.reshape(-1), 2, (((0.5, 3)),), np.ones(1, np.float32), *ret.shape),
            backend=backend,
        )
        assert ret[0, 2] == 5.5


def test_long_kernels_need_no_recursion():
    """As many blocks one behind the other as an unrolled loop has."""

    @mp.kernel
    def k_long(x: mp.Array[mp.i32]):
        total = mp.i32(0)
        for k in mp.static_range(1500):
            if x[k] > 0:
                total += k
        x[0] = total

    module = emit_kernel(_lowered(k_long, (), {}).kernel)
    assert len(module.functions[0].blocks) == 3000


def test_constants_come_back_exactly():
    values = (0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308)

    @mp.kernel
    def k_constants(out: mp.Array[mp.f64]):
        for k in mp.static_range(7):
            out[k] = mp.f64(values[k])

    text = kernel_text(_lowered(k_constants, (), {}).kernel)
    for shown in ("0.1", "-0.0", "inf", "-inf", "nan", "5e-324", "1.7976931348623157e+308"):
        assert f"v=const.f64 {shown} }}" in text
