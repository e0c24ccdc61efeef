"""Stores past the cache: which stores may, which launches do, and that readers wait for them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import magpie as mp
from magpie.backends.cpu import pipeline
from magpie.backends.llvm import codegen
from magpie.runtime import hostmem

F = np.float32

pytestmark = pytest.mark.skipif(not codegen.host_target().is_x86, reason="only x86 has stores that wait for a fence")


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")


def make_scale():
    @mp.kernel
    def scale(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < out.shape[0]:
            out[i] = x[i] * 2.0

    return scale


def placed(shape, dtype, at, fill=0):
    """A NumPy array whose address is ``at`` modulo 64."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 128, np.uint8)
    start = (at - memory.ctypes.data) % 64
    array = memory[start : start + size].view(dtype).reshape(shape)
    array[...] = fill
    return array


@pytest.fixture
def marked(monkeypatch):
    """Compile so that a store past the cache writes zeros: what a launch has streamed can then be seen."""
    original = codegen.compile_object

    def compile_object(text, *args, **options):
        text = re.sub(r"store (<\d+ x \w+>) %\w+, (.*!nontemporal)", r"store \1 zeroinitializer, \2", text)
        return original(text, *args, **options)

    monkeypatch.setenv("MAGPIE_CACHE", "0")
    monkeypatch.setenv("MAGPIE_CPU_GANG", "16")
    monkeypatch.setattr(pipeline.codegen, "compile_object", compile_object)


# --- which launches do -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(
    ("limit", "streams"), [("0", True), ("4096", True), ("4K", True), ("4097", False), ("1G", False)]
)
def test_only_outputs_of_the_size_given_go_past_the_cache(monkeypatch, limit, streams):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", limit)
    x, out = placed(1024, F, 0, 1), placed(1024, F, 0)
    make_scale()[4, 256](x, out)
    assert out.tolist() == [0.0 if streams else 2.0] * 1024


@pytest.mark.usefixtures("marked")
def test_the_size_is_read_at_every_launch(monkeypatch):
    scale = make_scale()
    x, out = placed(1024, F, 0, 1), placed(1024, F, 0)
    for limit, found in (("4096", 0.0), ("4097", 2.0), ("1", 0.0)):
        monkeypatch.setenv("MAGPIE_CPU_STREAM", limit)
        scale[4, 256](x, out)
        assert (out == found).all()


@pytest.mark.usefixtures("marked")
def test_a_launch_that_writes_a_part_counts_that_part(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "4096")
    x, out = placed(4096, F, 0, 1), placed(4096, F, 0)
    scale = make_scale()
    scale[3, 256](x, out)
    assert (out[:768] == 2).all()
    scale[4, 256](x, out)
    assert (out[:1024] == 0).all()


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(
    ("at", "block", "streams"),
    [
        (0, 256, True),
        (0, 32, True),
        (16, 256, True),
        (48, 128, True),
        (16, 64, False),
        (32, 32, False),
        (4, 256, False),
    ],
)
def test_whole_lines_only(monkeypatch, at, block, streams):
    """At a multiple of 64 bytes each gang writes whole lines; elsewhere the next gang must, and pieces need 16 bytes."""
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")
    x, out = placed(1024, F, at, 1), placed(1024, F, at)
    make_scale()[1024 // block, block](x, out)
    assert (out == (0 if streams else 2)).all()


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("any_size", ["0", "8"])  # also in code that does not know the workgroup's size
@pytest.mark.parametrize(
    ("at", "block", "streams"), [(0, (32, 8), True), (16, (256, 1), True), (16, (256, 2), False), (16, (64, 4), False)]
)
def test_rows_that_do_not_go_on_need_whole_lines(monkeypatch, any_size, at, block, streams):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")
    monkeypatch.setenv("MAGPIE_STATIC_WORKGROUPS", any_size)

    @mp.kernel
    def plane(x: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
        i, j = mp.global_id(1), mp.global_id(0)
        out[i, j] = x[i, j]

    x, out = placed((32, 256), F, at, 3), placed((32, 256), F, at)
    plane[(256 // block[0], 32 // block[1]), block](x, out)
    assert (out == (0 if streams else 3)).all()


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(("block", "streams"), [(512, True), (256, False)])
def test_gangs_of_less_than_a_line_need_a_long_row(monkeypatch, block, streams):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")

    @mp.kernel
    def narrow(x: mp.Array[mp.u8], out: mp.Array[mp.u8]):
        i = mp.global_id(0)
        out[i] = x[i]

    x, out = placed(1024, np.uint8, 0, 3), placed(1024, np.uint8, 0)
    narrow[1024 // block, block](x, out)
    assert (out == (0 if streams else 3)).all()


@pytest.mark.usefixtures("marked")
def test_a_partial_gang_and_overlapping_arrays_take_ordinary_stores(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")
    scale = make_scale()
    x, out = placed(1000, F, 0, 1), placed(1000, F, 0)
    scale[4, 256](x, out)
    assert out.tolist() == [0.0] * 992 + [2.0] * 8
    scale[4, 256](x, x)
    assert (x == 2).all()
    line = placed(1256, F, 0, 1)
    scale[1, 256](line[:1000], line[256:])
    assert line.tolist() == [1.0] * 256 + [2.0] * 256 + [1.0] * 744


@mp.struct
class Point:
    x: mp.f32
    y: mp.f32
    z: mp.f32


@mp.kernel
def k_points(a: mp.Array[mp.f32], out: mp.Array[Point]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i].x = a[i]
        out[i].y = a[i] + 1.0
        out[i].z = a[i] + 2.0


@mp.kernel
def k_channels(a: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < a.shape[0]:
        for c in mp.static_range(3):
            out[3 * i + c] = a[i] + c


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("kernel", [k_points, k_channels], ids=["fields", "channels"])
@pytest.mark.parametrize(("at", "block", "streams"), [(0, 32, True), (16, 256, True), (16, 32, False)])
def test_elements_that_are_stored_together(monkeypatch, kernel, at, block, streams):
    fields = kernel is k_points
    kernel = mp.kernel(kernel.fn)  # code of its own, which shows what was streamed
    a = placed(250, F, 0, 5)
    a[...] = np.arange(1, 251)
    expected = (a[:, None] + np.arange(3, dtype=F)).reshape(-1)
    for limit, mark in (("1G", False), ("0", streams)):
        monkeypatch.setenv("MAGPIE_CPU_STREAM", limit)
        out = placed(750, F, at)
        kernel[-(-250 // block), block](a, out.view([(n, F) for n in "xyz"]) if fields else out)
        whole = 750 if not mark else 0
        assert np.array_equal(out[:whole], expected[:whole])
        if mark:
            assert not out[: 3 * 240].any()
            assert np.array_equal(out[3 * 240 :], expected[3 * 240 :])


@pytest.mark.usefixtures("marked")
def test_rows_of_a_transposed_tile(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")

    @mp.kernel(workgroup=(16, 16))
    def transpose(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
        tile = mp.shared((16, 17), mp.f32)
        tx, ty = mp.thread_id(0), mp.thread_id(1)
        x0, y0 = mp.workgroup_id(0) * 16, mp.workgroup_id(1) * 16
        tile[ty, tx] = a[y0 + ty, x0 + tx]
        mp.barrier()
        out[x0 + ty, y0 + tx] = tile[tx, ty]

    a = placed((64, 32), F, 0)
    a[...] = np.arange(1, a.size + 1).reshape(a.shape)
    for at, streams in ((0, True), (16, False)):
        out = placed((32, 64), F, at)
        transpose[(2, 4), None](a, out)
        assert np.array_equal(out, np.zeros_like(out) if streams else a.T)


# --- which stores may ------------------------------------------------------------------------------------------------


@mp.func
def put_positive(out, i, v):
    if v < 0.0:
        return
    out[i] = v


@mp.kernel
def k_plain(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    out[i] = x[i]


@mp.kernel
def k_reads(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    out[i] = x[i] + out[i]


@mp.kernel
def k_atomic(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    out[i] = x[i]
    mp.atomic_add(out, 0, 1.0)


@mp.kernel
def k_stride(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    while i < out.shape[0]:
        out[i] = x[i]
        i += mp.num_workgroups(0) * mp.workgroup_size(0)


@mp.kernel
def k_rewrites(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    s = mp.f32(0)
    for k in range(x.shape[0]):
        s += x[k]
        out[i] = s


@mp.kernel
def k_rewrites_rows(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    s = mp.f32(0)
    for k in range(x.shape[0]):
        for j in range(4):
            s += x[k]
            out[i + j * 1024] = s


@mp.kernel
def k_inlined(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.workgroup_id(0)
    if x[i] > 1.0:
        put_positive(out, mp.global_id(0), x[i])


@mp.kernel
def k_scatter(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    out[2 * i] = x[i]


@pytest.mark.parametrize(
    ("kernel", "lines", "pieces"),
    [
        (k_plain, True, True),
        (k_reads, False, False),
        (k_atomic, False, False),
        (k_stride, True, False),  # the next trip is far away: only whole lines
        (k_rewrites, False, False),
        (k_rewrites_rows, False, False),
        (k_inlined, True, True),  # its loop is an early return
        (k_scatter, False, False),
    ],
    ids=lambda v: v.__name__ if isinstance(v, mp.Kernel) else "",
)
def test_stores_that_may(kernel, lines, pieces):
    text = kernel.compile(backend="cpu", gang=16).text
    assert ("align 64, !nontemporal" in re.sub(r", !alias.scope !\d+, !noalias !\d+", "", text)) == lines
    assert ("align 16, !nontemporal" in re.sub(r", !alias.scope !\d+, !noalias !\d+", "", text)) == pieces
    assert ("@llvm.x86.sse.sfence()" in text) == lines
    assert "!nontemporal" not in kernel.compile(backend="cpu", gang=16, variant="general").text


def test_llvm_keeps_the_kinds_of_stores_apart():
    listing = k_plain.inspect("asm", backend="cpu")
    assert len(re.findall(r"\bv?movntp[sd]\b", listing)) >= 2
    assert re.search(r"\bv?movup[sd]\t%[xyz]mm\d+, \(", listing)
    assert "sfence" in listing


# --- readers wait ----------------------------------------------------------------------------------------------------


def blocks(text):
    """Label -> lines of the entry point."""
    body = text[text.index("@kernel_range(") :]
    found = {}
    label = "entry"
    for line in body.splitlines()[1:]:
        if line.startswith("}"):
            break
        if line.endswith(":"):
            label = line[:-1]
        found.setdefault(label, []).append(line.strip())
    return found


def waits_before(text, what):
    """Whether each block that has an instruction with ``what`` begins behind the wait for streaming stores."""
    found = blocks(text)
    behind = {
        re.findall(r"label %([\w.]+)", lines[-1])[0]
        for lines in found.values()
        if any("sse.sfence" in x for x in lines)
    }
    places = [label for label, lines in found.items() if any(what in x for x in lines)]
    assert places
    return all(label in behind for label in places)


@mp.kernel
def k_publish(x: mp.Array[mp.f32], out: mp.Array[mp.f32], flag: mp.Array[mp.i32]):
    i = mp.global_id(0)
    out[i] = x[i]
    mp.fence("device", "release")
    mp.atomic_store(flag, 0, 1)


@mp.kernel
def k_release(x: mp.Array[mp.f32], out: mp.Array[mp.f32], flag: mp.Array[mp.i32]):
    i = mp.global_id(0)
    out[i] = x[i]
    mp.atomic_store(flag, 0, 1, order="release")


@mp.kernel
def k_endless(x: mp.Array[mp.f32], out: mp.Array[mp.f32], flag: mp.Array[mp.i32]):
    i = mp.global_id(0)
    out[i] = x[i]
    while mp.atomic_load(flag, 0) == 0:
        pass


def test_whoever_may_look_waits():
    for kernel in (k_plain, k_publish, k_release, k_endless):
        text = kernel.compile(backend="cpu", gang=16).text
        assert waits_before(text, "ret void"), kernel
    assert waits_before(k_publish.compile(backend="cpu", gang=16).text, "fence release")
    assert waits_before(k_release.compile(backend="cpu", gang=16).text, " release, align")
    endless = blocks(k_endless.compile(backend="cpu", gang=16).text)
    (cancelled,) = [lines for label, lines in endless.items() if label.startswith("cancelled")]
    assert cancelled[-1].startswith("br label %done"), "a launch that Ctrl-C ends waits too"


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.int64], ids=lambda d: d.__name__)
def test_values_at_every_width_and_place(monkeypatch, dtype, gang):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")

    @mp.kernel
    def twice(x, out):
        i = mp.global_id(0)
        if i < out.shape[0]:
            out[i] = x[i] + x[i]

    size = np.dtype(dtype).itemsize
    for n, block in ((1000, 256), (1024, 32), (2047, 512), (63, 64)):
        for at in sorted({0, size, 16, 32, 48}):
            guard = placed(n + 256, dtype, at, 7)
            x, out = (np.arange(n) % 50).astype(dtype), guard[: n + 128][:n]
            twice.launch(grid=-(-n // block), block=block, args=(x, out), gang=gang)
            assert np.array_equal(out, x + x)
            assert (guard[n:] == 7).all()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_next_kernel_reads_what_went_past_the_cache(monkeypatch, threads):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "1")
    scale = make_scale()

    @mp.kernel
    def backwards(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
        i = mp.global_id(0)
        out[i] = x[x.shape[0] - 1 - i] + 1.0

    n = 1 << 16
    x = np.arange(n, dtype=F)
    for make in (mp.asarray, lambda a: placed(a.shape, F, 16, a)):
        a, b, c = make(x), make(x * 0), make(x * 0)
        for _ in range(20):
            scale[n // 256, 256](a, b)
            backwards[n // 256, 256](b, c)
            assert np.array_equal(np.asarray(c), (x * F(2))[::-1] + F(1))
            a, c = c, a
            x = (x * F(2))[::-1] + F(1)
            x -= x.min()
            np.asarray(a)[...] = x


def test_the_last_workgroup_sees_what_the_others_streamed(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "1")
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "2")

    @mp.kernel(workgroup=(64, 1, 1))
    def total(x: mp.Array[mp.i32], out: mp.Array[mp.i32], copy: mp.Array[mp.i32], done: mp.Array[mp.i32]):
        last = mp.shared(1, mp.i32)
        i = mp.global_id(0)
        copy[i] = x[i]
        mp.fence("device", "release")
        mp.barrier()
        if mp.thread_id(0) == 0:
            last[0] = mp.atomic_add(done, 0, 1)
        mp.barrier()
        if last[0] == mp.num_workgroups(0) - 1:
            mp.fence("device", "acquire")
            k = mp.thread_id(0)
            while k < x.shape[0]:
                mp.atomic_add(out, 0, mp.atomic_load(out, 1) + x[k])
                k += 64

    n = 1 << 13
    x = np.arange(n, dtype=np.int32)
    copy, out, done = np.zeros(n, np.int32), np.zeros(2, np.int32), np.zeros(1, np.int32)
    total[n // 64](x, out, copy, done)
    assert np.array_equal(copy, x)
    assert out[0] == x.sum()


def test_overlapping_arrays_have_the_values_of_the_order_of_workgroups(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_STREAM", "0")
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "1")
    line = np.arange(4096, dtype=F)
    expected = line.copy()
    expected[:2048] = line[1024:3072] * F(2)
    make_scale()[8, 256](line[1024:3072], line[:2048])  # reads ahead of what it writes
    assert np.array_equal(line, expected)


@pytest.mark.parametrize(
    ("caches", "threads", "expected"),
    [
        ((8 << 20, 8, 1 << 20), 8, 8 << 20),  # a laptop: all of its last level
        ((16 << 20, 4, 0), 5, 32 << 20),  # two last levels
        ((300 << 20, 16, 2 << 20), 1, 34 << 20),  # part of a server: what one may hope for, and its own
        ((300 << 20, 16, 2 << 20), 16, 64 << 20),
    ],
)
def test_how_much_the_caches_keep(monkeypatch, caches, threads, expected):
    monkeypatch.setattr(hostmem, "_caches", lambda: caches)
    assert hostmem.cache_bytes(threads) == expected


def test_the_sizes_of_the_caches_are_read():
    last, sharing, own = hostmem._caches()
    assert 1 << 18 <= last <= 1 << 32
    assert own <= last
    assert sharing >= 1
    assert [hostmem._count(t) for t in ("0", "0-3", "0-3,8-11\n", "0,2,4-5")] == [1, 4, 8, 4]
