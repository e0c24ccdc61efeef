"""Launches: shapes, limits, variants, environment, threads, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import magpie as mp


@pytest.fixture(params=["interp", "cpu"])
def backend(request, monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", request.param)
    return request.param


@mp.kernel
def ids(out: mp.Array[mp.i32, 3]):
    x, y, z = mp.global_id(0), mp.global_id(1), mp.global_id(2)
    if z < out.shape[0] and y < out.shape[1] and x < out.shape[2]:
        out[z, y, x] = mp.i32((z * out.shape[1] + y) * out.shape[2] + x) + 1


@mp.kernel(workgroup=(8, 4))
def fixed(out: mp.Array[mp.i32]):
    i = mp.global_id(0) + mp.global_id(1) * mp.num_workgroups(0) * mp.workgroup_size(0)
    out[i] = mp.i32(mp.workgroup_size(0) * 10 + mp.workgroup_size(1))


@mp.kernel
def bump(x):
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] += 1


@mp.kernel
def tile(x: mp.Array[mp.f32], n: mp.i32):
    s = mp.shared(n * 2, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    x[mp.global_id(0)] = s[mp.workgroup_size(0) - 1 - t]


def one(n=1, dtype=np.float32):
    return np.zeros(n, dtype)


def test_grid_shapes(backend):
    for grid, block in (
        (2, 4),
        ((2,), (4,)),
        ((2, 3), (4, 1)),
        ((2, 3, 2), (2, 2, 2)),
        (np.int64(2), np.uint8(4)),
        ([2], [4]),
    ):
        out = np.zeros((4, 6, 8), np.int32)
        ids[grid, block](out)
        g, b = (tuple(v) if isinstance(v, tuple | list) else (v,) for v in (grid, block))
        sizes = [int(a) * int(c) for a, c in zip((*g, 1, 1), (*b, 1, 1))][:3]
        expected = np.arange(1, out.size + 1).reshape(out.shape)
        mask = np.zeros(out.shape, bool)
        mask[: sizes[2], : sizes[1], : sizes[0]] = True
        assert np.array_equal(out, np.where(mask, expected, 0))


@pytest.mark.parametrize(
    ("grid", "block", "text"),
    [
        (-1, 256, "negative"),
        ((1, -1), 256, "negative"),
        (1.0, 256, "float"),
        (True, 256, "bool"),
        (np.True_, 256, "bool"),
        ("1", 256, "str"),
        (None, 256, "NoneType"),
        ((), 256, "1 to 3"),
        ((1, 1, 1, 1), 256, "1 to 3"),
        (1, 0, "at least 1"),
        (1, -4, "at least 1"),
        (1, 2.0, "float"),
        (1, True, "bool"),
        (1, None, "no workgroup size"),
        (1, (64, 64), "4096"),
        (1, 1025, "1025"),
        (np.array([1, 2]), 1, "ndarray"),
        (1 << 62, 4, "counted"),
    ],
)
def test_bad_shapes(backend, grid, block, text):
    x = one()
    with pytest.raises((mp.LaunchTypeError, mp.LaunchValueError), match=text):
        bump[grid, block](x)
    assert x[0] == 0


def test_a_float_grid_is_refused_after_an_equal_int(backend):
    x = one()
    bump[1, 1](x)
    bump[(1,), (1,)](x)
    for grid in (1.0, True, (1.0,), (True,)):
        with pytest.raises(mp.LaunchTypeError):
            bump[grid, 1](x)
    assert x[0] == 2


def test_zero_grid_is_a_no_op(backend):
    x = one(0)
    bump[0, 256](x)
    bump[(4, 0), 256](x)
    bump[mp.cdiv(0, 256), 256](x)
    with pytest.raises(mp.LaunchTypeError):
        bump[0, 256](None)  # arguments are checked all the same


def test_call_without_grid():
    with pytest.raises(mp.LaunchTypeError, match=r"bump\[grid, block\]"):
        bump(one())


def test_declared_workgroup(backend):
    out = one(64, np.int32)
    fixed[2, (8, 4)](out)
    assert (out == 84).all()
    fixed[2](one(64, np.int32))
    fixed[2, None](one(64, np.int32))
    fixed.launch(grid=2, args=(out,))
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1013"):
        fixed[2, (4, 8)](out)
    with pytest.raises(mp.LaunchValueError, match="at least 1"):
        mp.kernel(workgroup=0)(lambda x: None)


def test_dynamic_shared_memory(backend):
    x = np.arange(8, dtype=np.float32)
    tile[1, 8](x, 8)
    assert x.tolist() == list(range(7, -1, -1))
    tile.launch(grid=1, block=8, args=(x, 8), shared_bytes=64)
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1011"):
        tile.launch(grid=1, block=8, args=(x, 8), shared_bytes=63)
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1012"):
        tile[1, 8](x, 1 << 28)
    with pytest.raises(mp.LaunchValueError, match="shape"):
        tile[1, 8](x, -1)
    with pytest.raises(mp.LaunchTypeError):
        tile.launch(grid=1, block=8, args=(x, 8), shared_bytes=1.5)
    assert x.tolist() == list(range(8))


def test_stream_forms(backend):
    x = one()
    stream = mp.Stream()
    bump[1, 1, stream](x)
    bump[1, 1, stream, 0](x)
    bump[1, 1, 0](x)
    first = stream.record()
    bump.launch(grid=1, block=1, args=(x,), stream=stream)
    assert stream.record().elapsed_ms(first) >= 0
    stream.synchronize()
    mp.synchronize()
    assert x[0] == 4
    with pytest.raises(mp.LaunchTypeError, match="stream"):
        bump[1, 1, "s"](x)


def test_variants_and_facts(backend):
    @mp.kernel
    def local_bump(x):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] += 1

    x = one(64)
    local_bump[1, 64](x)
    local_bump[2, 64](x)
    assert [v.facts for v in local_bump.variants()] == ["fast"]
    local_bump[1, 64](x[::2])
    assert [v.facts for v in local_bump.variants()] == ["fast", "general"]
    local_bump[1, 64](x.astype(np.int32))
    local_bump[1, 64](mp.zeros(64))
    assert [v.facts for v in local_bump.variants()] == ["fast", "general", "fast"]  # mp arrays run NumPy's code
    assert x.tolist() == [3, 2] * 32
    assert all("f32" in str(v) or "i32" in str(v) for v in local_bump.variants())


def test_environment_is_seen_at_every_launch(monkeypatch):
    @mp.kernel
    def env_bump(x):
        x[mp.global_id(0)] += 1

    x = one()
    for name in ("interp", "cpu", "interp"):
        monkeypatch.setenv("MAGPIE_BACKEND", name)
        env_bump[1, 1](x)
    assert [v.device for v in env_bump.variants()] == ["interp:0", "cpu:0"]
    monkeypatch.setenv("MAGPIE_BACKEND", "nonsense")
    with pytest.raises(mp.GpuError):
        env_bump[1, 1](x)
    assert x[0] == 3


def test_named_backend_and_device(monkeypatch):
    x = one()
    bump.launch(grid=1, block=1, args=(x,), backend="interp")
    bump.launch(grid=1, block=1, args=(x,), device="interp:0")
    bump.launch(grid=1, block=1, args=(x,), device=mp.device("interp"), backend="interp")
    with pytest.raises(mp.GpuError, match="belongs to"):
        bump.launch(grid=1, block=1, args=(x,), device="interp", backend="cpu")
    with pytest.raises(mp.LaunchValueError, match="gang"):
        bump.launch(grid=1, block=1, args=(x,), gang=5)
    assert x[0] == 3


def test_arrays_choose_the_device():
    @mp.kernel
    def local_bump(x):
        x[mp.global_id(0)] += 1

    local_bump[1, 1](mp.zeros(1, device="interp"))
    assert [v.device for v in local_bump.variants()] == ["interp:0"]


def test_many_threads(backend):
    @mp.kernel
    def thread_bump(x, n):
        i = mp.global_id(0)
        if i < n:
            x[i] += 1

    arrays = [mp.zeros(33) if k % 2 else one(66)[::2] for k in range(8)]
    errors = []
    start = threading.Barrier(len(arrays))

    def work(x):
        try:
            start.wait()
            for k in range(20):
                thread_bump[mp.cdiv(33, 8 + k % 3), 8 + k % 3](x, 33)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert all((np.asarray(a) == 20).all() for a in arrays)
    # compiled once a key
    sizes = {(8, 1, 1), (9, 1, 1), (10, 1, 1)} if backend == "cpu" else {None}
    found = [(v.facts, v.workgroup) for v in thread_bump.variants()]
    assert sorted(found, key=repr) == sorted([("general", None), *(("fast", s) for s in sizes)], key=repr)


def test_launches_are_bounded():
    @mp.kernel
    def many(x):
        x[0] = 1

    x = one()
    for n in range(1, 400):
        many[n, 1]
        many[(n, 1), 1]
    many.launch(grid=1, block=1, args=(x,), backend="interp")
    assert len(many._by_ints) <= 256
    assert len(many._bound) <= 256


def test_kernel_looks_like_its_function():
    @mp.kernel
    def documented(x):
        """Adds one."""
        x[0] += 1

    assert documented.__doc__ == "Adds one."
    assert documented.__name__ == "documented"
    assert "documented" in repr(documented)
    assert "documented" in repr(documented[1, 1])
    with pytest.raises(mp.LaunchTypeError):
        mp.kernel(documented)
    with pytest.raises(mp.LaunchTypeError):
        mp.kernel(256)
    with pytest.raises(mp.LaunchValueError):
        mp.kernel(fastmath="yes")(documented.fn)


def test_ctrl_c_leaves_the_process_usable(tmp_path):
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            import numpy as np
            import magpie as mp

            @mp.kernel
            def spin(x: mp.Array[mp.f32], n: mp.i64):
                i = mp.global_id(0)
                v = x[i]
                for k in range(n):
                    v = v * 0.5 + 1.0
                x[i] = v

            x = np.zeros(1 << 22, np.float32)
            spin[1 << 14, 256](x, 1)
            print("ready", flush=True)
            try:
                spin[1 << 14, 256](x, 1 << 17)
                print("not interrupted")
            except KeyboardInterrupt:
                y = np.zeros(1 << 14, np.float32)
                spin[64, 256](y, 1)
                print("usable", float(y[0]))
        """)
    )
    environment = {**os.environ, "MAGPIE_BACKEND": "cpu"}
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert child.stdout.readline().strip() == "ready", child.stderr.read()
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert out.strip() == "usable 1.0", err
    assert time.monotonic() - sent < 20


@mp.kernel
def printing(x, n):
    i = mp.global_id(0)
    if i < n:
        mp.print("i", i, "x", x[i], i < 2)


@mp.kernel
def shifted(x, n):
    i = mp.global_id(0)
    x[i + n] = x[i] // mp.i32(n - 60)


def test_print(backend, capfd):
    x = np.array([0.5, -1, 3], np.float32)
    printing[2, 2](x, 3)
    assert capfd.readouterr().out.split("\n") == ["i 0 x 0.5 True", "i 1 x -1.0 True", "i 2 x 3.0 False", ""]
    printing[2, 2](x.astype(np.int8), 3)
    out = capfd.readouterr().out
    assert "-1" in out
    assert out.count("\n") == 3


def test_checked_mode(backend, monkeypatch):
    x = np.arange(64, dtype=np.int32)
    with pytest.raises(mp.GpuError) as caught:
        shifted.launch(grid=4, block=16, args=(x, 61), checked=True)
    assert caught.value.kind is mp.GpuErrorKind.LaunchFailed
    assert caught.value.diagnostic in ("MPG_SAN_1003", "MPG_SAN_1004")
    assert "test_runtime_launch.py" in str(caught.value)
    assert "x[64]" in str(caught.value)
    assert "thread (3, 0, 0) of workgroup (0, 0, 0)" in str(caught.value)
    monkeypatch.setenv("MAGPIE_CHECKED", "1")
    with pytest.raises(mp.GpuError, match="MPG_SAN_1008"):
        shifted[1, 1](x, 60)
    monkeypatch.setenv("MAGPIE_CHECKED", "0")
    shifted[1, 1](x, 60)  # a division by zero gives 0, and is no fault
    assert x[60] == 0


def test_captured_values_are_followed(backend):
    scale = 2.0

    @mp.func
    def scaled(v):
        return v * scale

    @mp.kernel
    def captured(x):
        x[mp.global_id(0)] = scaled(1.0) + OFFSET

    global OFFSET
    OFFSET = 1.0
    x = one()
    captured[1, 1](x)
    assert x[0] == 3
    OFFSET = 10.0
    captured[1, 1](x)
    assert x[0] == 12
    scale = 5.0
    captured[1, 1](x)
    assert x[0] == 15
    count = len(captured.variants())
    scale = 2.0
    captured[1, 1](x)
    assert x[0] == 12
    assert len(captured.variants()) == count  # its code was still there


def test_dump(monkeypatch, tmp_path, capfd):
    @mp.kernel
    def dumped(x):
        x[0] = 1

    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    monkeypatch.setenv("MAGPIE_DUMP", "kir,llvm")
    dumped[1, 1](one())
    err = capfd.readouterr().err
    assert "kernel dumped" in err
    assert "define" in err
    monkeypatch.setenv("MAGPIE_DUMP_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv("MAGPIE_DUMP", "all")
    dumped[1, 1](one(1, np.int32))
    dumped[1, 1](one(4, np.int32)[::2])
    names = sorted(p.name for p in (tmp_path / "dump").iterdir())
    assert {"dumped.cpu.kir", "dumped.cpu.1.kir", "dumped.cpu.llvm", "dumped.cpu.asm"} <= set(names)
    monkeypatch.setenv("MAGPIE_DUMP", "nonsense")
    with pytest.warns(RuntimeWarning, match="MPG_ENV_1006"):
        dumped[1, 1](one(1, np.int64))


@pytest.mark.parametrize(("alignment", "facts"), [(1, ["fast"]), (64, ["aligned", "fast"])])
def test_alignment_is_a_fact_where_the_target_gains_from_it(monkeypatch, alignment, facts):
    @mp.kernel
    def bump(x):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] += 1

    assert mp.device("cpu").alignment == 1
    monkeypatch.setattr(type(mp.device("cpu")), "alignment", property(lambda self: alignment))
    x = mp.zeros(64, device="interp")  # of the memory, not of its device
    for start in range(3):
        bump.launch(grid=4, block=16, args=(x[start:],), device="cpu")
    assert [v.facts for v in bump.variants()] == facts
    assert np.asarray(x).tolist() == [1, 2] + [3] * 62


@pytest.mark.parametrize(
    ("shape", "start", "facts"),
    [((4, 16), 0, "aligned"), ((4, 15), 0, "fast"), ((15,), 0, "aligned"), ((5, 16), 1, "aligned"), ((2, 4, 4), 0, "fast")],
)
def test_an_array_is_aligned_with_all_its_rows(monkeypatch, shape, start, facts):
    @mp.kernel
    def touch(x):
        pass

    monkeypatch.setattr(type(mp.device("cpu")), "alignment", property(lambda self: 64))
    touch.launch(grid=1, block=1, args=(mp.zeros(shape, device="interp")[start:],), device="cpu")
    assert [v.facts for v in touch.variants()] == [facts]


def test_args_must_be_a_tuple(backend):
    with pytest.raises(mp.LaunchTypeError, match=r"args=\(x,\)"):
        bump.launch(grid=1, block=1, args=one())


def test_warnings_are_shown_once_a_specialisation(backend):
    @mp.kernel
    def warned(x):
        x[0] + 1
        x[0] = 2

    for dtype in (np.float32, np.int32):
        with pytest.warns(mp.CompileWarning, match="MPG_PY_1032") as caught:
            warned[1, 1](one(1, dtype))
        assert len(caught) == 1
        assert caught[0].filename == __file__
    warned[1, 1](one())  # said before; a warning would be an error here
    warned[2, 1](one())
