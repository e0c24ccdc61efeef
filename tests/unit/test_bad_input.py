# ruff: noqa: F401, F841
"""Bad input: each is refused with its code before anything runs, and every array stays as it was."""

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

DEVICES = ("interp", "cpu")
EVERY = pytest.mark.parametrize("device", DEVICES)


@mp.kernel
def axpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def fill(out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = 1


@mp.kernel
def image(src, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = src[i, 0]


@mp.kernel(workgroup=(16, 16))
def fixed(out):
    out[mp.global_id(1), mp.global_id(0)] = 1


@mp.kernel
def scalars(out, n: mp.u8, m: mp.i32, f: mp.f32, b: mp.bool_):
    out[0] = n + m


@mp.kernel
def tile(out, n: mp.i32):
    s = mp.shared(n, mp.f32)
    s[mp.thread_id(0)] = 1.0
    mp.barrier()
    out[0] = s[0]


@mp.kernel
def static(out, n: mp.constexpr):
    out[0] = n


def ones(n=100, dtype=np.float32):
    return np.ones(n, dtype)


def refused(call, error, code, *arrays):
    """The call raises ``error`` with ``code`` in its text, and no array changes."""
    before = [np.array(a, copy=True) if isinstance(a, np.ndarray) else None for a in arrays]
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert code in text, text
    assert "help:" in text
    assert not any("/magpie/" in str(frame.path) and "test" not in str(frame.path) for frame in caught.traceback[1:-1]) or os.environ.get(
        "MAGPIE_DEBUG"
    ) or len(caught.traceback) <= 3, "no internal frame reaches a user"
    for a, old in zip(arrays, before, strict=True):
        if old is not None:
            assert np.array_equal(a, old)
    return caught.value


# --- arguments ----------------------------------------------------------------------------------------------------------
@EVERY
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_wrong_number_of_arguments(device, count):
    args = (2.0, ones(), ones(), ones())[:count]
    error = refused(lambda: axpy.launch(grid=1, block=64, args=args, device=device), mp.GpuError, "MPG_LAUNCH_1001", *args[1:])
    assert isinstance(error, TypeError)
    assert error.kind is mp.GpuErrorKind.ValidationFailed


@EVERY
def test_unknown_and_repeated_keywords(device):
    x, y = ones(), ones()
    refused(lambda: axpy.launch(grid=1, block=64, args=(2.0, x), kwargs={"z": y}, device=device), TypeError, "MPG_LAUNCH_1001", x, y)
    refused(
        lambda: axpy.launch(grid=1, block=64, args=(2.0, x, y), kwargs={"y": y}, device=device), TypeError, "MPG_LAUNCH_1001", x, y
    )


@EVERY
@pytest.mark.parametrize("bad", [[1.0, 2.0], 3.0, "text", None, object(), {"a": 1}], ids=lambda v: type(v).__name__)
def test_no_array_where_one_is_taken(device, bad):
    y = ones()
    refused(lambda: axpy.launch(grid=1, block=64, args=(2.0, bad, y), device=device), TypeError, "MPG_LAUNCH_1002", y)


@EVERY
@pytest.mark.parametrize("bad", [np.ones(3), "text", None, [1], 1 + 2j], ids=repr)
def test_no_number_where_one_is_taken(device, bad):
    x, y = ones(), ones()
    refused(lambda: axpy.launch(grid=1, block=64, args=(bad, x, y), device=device), TypeError, "MPG_LAUNCH_1002", x, y)


@EVERY
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16, np.uint8, np.bool_])
def test_wrong_dtype(device, dtype):
    x, y = ones(dtype=dtype), ones()
    refused(lambda: axpy.launch(grid=1, block=64, args=(2.0, x, y), device=device), TypeError, "MPG_LAUNCH_1003", x, y)


@EVERY
@pytest.mark.parametrize("shape", [(), (10, 10), (1, 2, 3)])
def test_wrong_rank(device, shape):
    x, y = np.ones(shape, np.float32), ones()
    refused(lambda: axpy.launch(grid=1, block=64, args=(2.0, x, y), device=device), TypeError, "MPG_LAUNCH_1004", x, y)


@EVERY
@pytest.mark.parametrize("shape", [(100,), (10, 10, 1)])
def test_another_rank_than_the_kernel_indexes_with(device, shape):
    src, out = np.ones(shape, np.float32), ones()
    before = out.copy()
    with pytest.raises((mp.CompileError, mp.GpuError)) as caught:
        image.launch(grid=1, block=64, args=(src, out), device=device)
    assert "MPG_PY_1011" in str(caught.value) or "MPG_LAUNCH_1004" in str(caught.value)
    assert np.array_equal(out, before)


@EVERY
def test_a_read_only_array_that_is_written(device):
    frozen = ones()
    frozen.flags.writeable = False
    refused(lambda: fill.launch(grid=2, block=64, args=(frozen,), device=device), mp.GpuError, "MPG_LAUNCH_1005", frozen)
    wide = np.broadcast_to(np.float32(3), 100)
    refused(lambda: fill.launch(grid=2, block=64, args=(wide,), device=device), mp.GpuError, "MPG_LAUNCH_1005", wide)


@EVERY
def test_a_read_only_array_may_be_read(device):
    x, y = ones(), ones()
    x.flags.writeable = False
    axpy.launch(grid=2, block=64, args=(2.0, x, y), device=device)
    assert np.array_equal(y, np.full(100, 3, np.float32))


@EVERY
def test_a_foreign_byte_order(device):
    x, y = np.ones(100, ">f4"), ones()
    refused(lambda: axpy.launch(grid=1, block=64, args=(2.0, x, y), device=device), TypeError, "MPG_LAUNCH_1009", y)


@EVERY
@pytest.mark.parametrize("dtype", [np.complex64, "U3", object, "M8[s]", np.longdouble, "S4"])
def test_element_types_that_kernels_do_not_have(device, dtype):
    bad = np.zeros(10, dtype)
    refused(lambda: fill.launch(grid=1, block=64, args=(bad,), device=device), TypeError, "MPG_LAUNCH_1017")


@EVERY
def test_a_rank_above_four(device):
    refused(lambda: fill.launch(grid=1, block=64, args=(np.zeros((1,) * 5, np.float32),), device=device), mp.GpuError, "MPG_LAUNCH_1018")


@EVERY
def test_strides_that_are_no_multiple_of_the_element(device):
    base = np.zeros(90, np.uint8)
    odd = np.ndarray((10,), np.float32, base, 0, (6,))
    refused(lambda: fill.launch(grid=1, block=64, args=(odd,), device=device), mp.GpuError, "MPG_LAUNCH_1018", base)


@EVERY
@pytest.mark.parametrize(
    "args",
    [(256, 0, 0.0, True), (-1, 0, 0.0, True), (0, 2**31, 0.0, True), (0, -(2**31) - 1, 0.0, True), (0, 10**30, 0.0, False)],
    ids=repr,
)
def test_a_scalar_out_of_range(device, args):
    out = ones(3)
    refused(lambda: scalars.launch(grid=1, block=1, args=(out, *args), device=device), mp.GpuError, "MPG_LAUNCH_1014", out)


@EVERY
def test_a_float_where_an_integer_is_declared(device):
    out = ones(3)
    refused(lambda: scalars.launch(grid=1, block=1, args=(out, 1.5, 0, 0.0, True), device=device), mp.GpuError, "MPG_LAUNCH_10", out)


@EVERY
@pytest.mark.parametrize("value", [np.zeros(2), [1, 2], {"a": 1}], ids=repr)
def test_a_constant_that_is_none(device, value):
    out = ones(3)
    refused(lambda: static.launch(grid=1, block=1, args=(out, value), device=device), mp.GpuError, "MPG_LAUNCH_1019", out)


# --- sizes --------------------------------------------------------------------------------------------------------------
@EVERY
@pytest.mark.parametrize("grid", [-1, (1, -1), (1, 1, -2), (1, 1, 1, 1), (), 1.5, "2", None, (2, 2.5)], ids=repr)
def test_an_invalid_grid(device, grid):
    out = ones()
    refused(lambda: fill.launch(grid=grid, block=64, args=(out,), device=device), mp.GpuError, "MPG_LAUNCH_1006", out)


@EVERY
@pytest.mark.parametrize("block", [0, -1, (16, 0), (1, 1, 1, 1), (), 2.5, "64", None], ids=repr)
def test_an_invalid_workgroup(device, block):
    out = ones()
    refused(lambda: fill.launch(grid=1, block=block, args=(out,), device=device), mp.GpuError, "MPG_LAUNCH_1006", out)


@EVERY
@pytest.mark.parametrize("block", [(64, 64), 10**6, (1, 1, 5000), 2**40], ids=repr)
def test_a_workgroup_over_the_limit(device, block):
    out = ones()
    error = refused(lambda: fill.launch(grid=1, block=block, args=(out,), device=device), mp.GpuError, "MPG_LAUNCH_1007", out)
    assert error.kind in (mp.GpuErrorKind.ResourceExhausted, mp.GpuErrorKind.ValidationFailed)


@EVERY
def test_a_workgroup_that_differs_from_the_declared_one(device):
    out = np.zeros((16, 16), np.float32)
    refused(lambda: fixed.launch(grid=1, block=(8, 8), args=(out,), device=device), mp.GpuError, "MPG_LAUNCH_1013", out)
    fixed.launch(grid=1, args=(out,), device=device)
    assert out.all()


@EVERY
def test_a_zero_grid_is_a_no_op(device):
    out = ones(dtype=np.int32) * 5
    for grid in (0, (0, 4), (3, 0, 1)):
        fill.launch(grid=grid, block=64, args=(out,), device=device)
    assert (out == 5).all()


@EVERY
def test_shared_bytes_that_are_too_small(device):
    out = ones(3)
    refused(
        lambda: tile.launch(grid=1, block=64, args=(out, 64), device=device, shared_bytes=100), mp.GpuError, "MPG_LAUNCH_1011", out
    )


@EVERY
def test_shared_memory_over_the_limit(device):
    out = ones(3)
    refused(lambda: tile.launch(grid=1, block=64, args=(out, 2**31 - 1), device=device), mp.GpuError, "MPG_LAUNCH_1012", out)


@EVERY
def test_a_negative_length_of_shared_memory(device):
    out = ones(3)
    before = out.copy()
    with pytest.raises(mp.GpuError):
        tile.launch(grid=1, block=64, args=(out, -5), device=device)
    assert np.array_equal(out, before)


# --- devices, memory ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["gpu0", "cpu:99", "", "cuda:x", "nonsense"])
def test_an_unknown_device(name):
    out = ones()
    with pytest.raises(mp.GpuError) as caught:
        fill.launch(grid=1, block=64, args=(out,), device=name)
    assert "help:" in str(caught.value)
    assert (out == 1).all()


def test_an_unknown_backend_in_the_environment(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "nonsense")
    out = ones()
    with pytest.raises(mp.MagpieError):
        fill[1, 64](out)
    assert (out == 1).all()


@EVERY
def test_an_array_that_cannot_be_allocated(device):
    with pytest.raises(mp.GpuError) as caught:
        mp.empty(2**61, mp.f32, device=device)
    assert caught.value.kind is mp.GpuErrorKind.OutOfMemory
    x, y = ones(), ones()
    axpy.launch(grid=2, block=64, args=(2.0, x, y), device=device)  # the process is usable
    assert np.array_equal(y, np.full(100, 3, np.float32))


@EVERY
def test_an_array_that_was_freed(device):
    a = mp.zeros(100, mp.f32, device=device)
    a.free()
    refused(lambda: fill.launch(grid=1, block=64, args=(a,), device=device), mp.GpuError, "MPG_LAUNCH_1015")


def test_a_kernel_is_not_called():
    out = ones()
    refused(lambda: fill(out), TypeError, "MPG_LAUNCH_1006", out)


def test_kernel_names_on_the_host():
    for call in (lambda: mp.global_id(0), mp.barrier, lambda: mp.shared(4, mp.f32), lambda: mp.atomic_add(ones(), 0, 1)):
        with pytest.raises(mp.MagpieError) as caught:
            call()
        assert "MPG_PY_1027" in str(caught.value)


# --- kernels that cannot compile -------------------------------------------------------------------------------------------
def _compile_error(kernel, code, *args):
    with pytest.raises(mp.CompileError) as caught:
        kernel.compile(*args, backend="interp")
    error = caught.value
    assert error.code == code, str(error)
    first = next(d for d in error.diagnostics if d.code == code)
    assert first.loc is not None
    assert first.loc.file == __file__
    assert first.help
    text = str(error)
    assert f"test_bad_input.py:{first.loc.line}" in text
    assert "^" in text
    assert "help:" in text
    return error


F = np.zeros(8, np.float32)
I = np.zeros(8, np.int32)


def test_python_that_a_kernel_cannot_hold():
    @mp.kernel
    def k_list(x):
        parts = [1.0, 2.0]
        x[0] = parts[0]

    @mp.kernel
    def k_try(x):
        try:
            x[0] = 1.0
        except ValueError:
            x[0] = 2.0

    @mp.kernel
    def k_with(x):
        with open("f") as f:
            x[0] = f

    @mp.kernel
    def k_lambda(x):
        f = lambda v: v + 1  # noqa: E731
        x[0] = f(1.0)

    @mp.kernel
    def k_comprehension(x):
        x[0] = sum(x[j] for j in range(4))

    @mp.kernel
    def k_string(x):
        s = "text" + "more"
        x[0] = s[0]

    @mp.kernel
    def k_for_each(x):
        for v in x:
            x[0] = v

    @mp.kernel
    def k_dict(x):
        d = {1: 2}
        x[0] = 1.0

    @mp.kernel
    def k_class(x):
        class C:
            pass

        x[0] = 1.0

    @mp.kernel
    def k_inner(x):
        def f(v):
            return v

        x[0] = f(1.0)

    @mp.kernel
    def k_del(x):
        v = 1.0
        del v
        x[0] = 1.0

    @mp.kernel
    def k_global(x):
        global F
        x[0] = 1.0

    @mp.kernel
    def k_import(x):
        import os

        x[0] = 1.0

    @mp.kernel
    def k_raise(x):
        raise ValueError

    @mp.kernel
    def k_yield(x):
        yield x[0]

    @mp.kernel
    def k_star(x):
        a, *b = 1.0, 2.0, 3.0
        x[0] = a

    @mp.kernel
    def k_complex(x):
        x[0] = 1.0 + 2j

    kernels = [k for name, k in locals().items() if name.startswith("k_")]
    for kernel in kernels:
        with pytest.raises(mp.CompileError) as caught:
            kernel.compile(F, backend="interp")
        first = caught.value.diagnostics[0]
        assert first.code in ("MPG_PY_1001", "MPG_CORE_1100", "MPG_CORE_1104", "MPG_PY_1026", "MPG_CORE_1106", "MPG_PY_1012", "MPG_PY_1018"), str(caught.value)
        assert first.loc is not None, kernel
        assert first.help, kernel


def test_an_unknown_name():
    @mp.kernel
    def k(x):
        x[0] = alpha  # noqa: F821

    _compile_error(k, "MPG_PY_1002", F)


def test_two_types_of_one_variable():
    @mp.kernel
    def k(x, d):
        v = x[0]
        v = d[0]
        x[1] = v

    error = _compile_error(k, "MPG_PY_1004", F, np.zeros(8))
    assert any(loc is not None for d in error.diagnostics for _, loc in d.notes), "both places are shown"


def test_a_float_as_an_index():
    @mp.kernel
    def k(x):
        i = mp.global_id(0)
        x[i / 2] = 1.0

    _compile_error(k, "MPG_PY_1007", F)


def test_a_float_stored_in_an_integer_array():
    @mp.kernel
    def k(x):
        x[0] = 2.5

    _compile_error(k, "MPG_PY_1008", I)


def test_a_literal_out_of_range():
    @mp.kernel
    def k(x):
        x[0] = 256

    _compile_error(k, "MPG_PY_1009", np.zeros(8, np.uint8))

    @mp.kernel
    def k2(x):
        x[0] = x[0] + -1

    _compile_error(k2, "MPG_PY_1009", np.zeros(8, np.uint32))


def test_a_negative_literal_index():
    @mp.kernel
    def k(x):
        x[0] = x[-1]

    _compile_error(k, "MPG_PY_1010", F)


def test_a_wrong_number_of_indices():
    @mp.kernel
    def k(x):
        x[0] = 1.0

    _compile_error(k, "MPG_PY_1011", np.zeros((3, 3), np.float32))

    @mp.kernel
    def k2(x):
        x[0, 0] = 1.0

    _compile_error(k2, "MPG_PY_1011", F)


def test_wrong_arguments_of_a_builtin():
    @mp.kernel
    def k(x):
        mp.atomic_add(x, 1)

    _compile_error(k, "MPG_PY_1012", I)


def test_a_length_that_is_not_known():
    @mp.kernel
    def k(x, n: mp.i32):
        a = mp.local(n, mp.f32)
        x[0] = a[0]

    _compile_error(k, "MPG_PY_1013", F, 3)


def test_an_unknown_attribute():
    @mp.kernel
    def k(x):
        x[0] = x.length

    _compile_error(k, "MPG_PY_1014", F)


def test_operations_without_meaning():
    @mp.kernel
    def k(x):
        x[0] = x[0] << 2

    _compile_error(k, "MPG_PY_1018", F)

    @mp.kernel
    def k2(x, y):
        x[0] = x + y

    _compile_error(k2, "MPG_PY_1018", F, F)


def test_assignment_to_what_cannot_change():
    @mp.kernel
    def k(x):
        x.shape[0] = 5

    _compile_error(k, "MPG_PY_1019", F)


def test_a_shared_array_whose_length_only_the_device_knows():
    @mp.kernel
    def k(x):
        s = mp.shared(x[0], mp.f32)
        s[0] = 1.0

    _compile_error(k, "MPG_PY_1020", I)


def test_a_dimension_out_of_range():
    @mp.kernel
    def k(x):
        x[mp.global_id(3)] = 1.0

    _compile_error(k, "MPG_PY_1021", F)


def test_a_captured_array():
    table = np.arange(8)

    @mp.kernel
    def k(x):
        x[0] = table[0]

    _compile_error(k, "MPG_PY_1023", F)


def test_a_kernel_that_returns_a_value():
    @mp.kernel
    def k(x):
        return x[0]

    _compile_error(k, "MPG_PY_1024", F)


def test_a_plain_function_is_called():
    def square(v):
        return v * v

    @mp.kernel
    def k(x):
        x[0] = square(x[0])

    _compile_error(k, "MPG_PY_1026", F)

    @mp.kernel
    def k2(x):
        x[0] = np.sin(x[0])

    _compile_error(k2, "MPG_PY_1026", F)


def test_recursion():
    _compile_error(k_recursive, "MPG_CORE_1103", F)


@mp.func
def down(v):
    if v < 1.0:
        return v
    return down(v - 1.0)


@mp.kernel
def k_recursive(x):
    x[0] = down(x[0])


def test_a_number_of_values_that_does_not_fit():
    @mp.kernel
    def k(x):
        a, b, c = x[0], x[1]
        x[2] = a + b + c

    _compile_error(k, "MPG_PY_1030", F)


def test_break_out_of_an_unrolled_loop():
    @mp.kernel
    def k(x):
        for j in mp.static_range(4):
            if x[j] < 0.0:
                break

    _compile_error(k, "MPG_PY_1031", F)


def test_an_unrolled_loop_that_is_too_long():
    @mp.kernel
    def k(x):
        for j in mp.static_range(100000):
            x[j] = 1.0

    _compile_error(k, "MPG_PY_1025", F)


def test_an_annotation_that_means_nothing():
    @mp.kernel
    def k(x: list[float]):
        x[0] = 1.0

    _compile_error(k, "MPG_PY_1022", F)


def test_a_function_without_source():
    space = {"mp": mp}
    exec("def k(x):\n    x[0] = 1.0", space)
    kernel = mp.kernel(space["k"])
    with pytest.raises(mp.CompileError) as caught:
        kernel.compile(F, backend="interp")
    assert caught.value.code == "MPG_PY_1017"


def test_an_error_in_a_function_shows_the_call():
    @mp.kernel
    def k(x):
        x[0] = outer(x[0])

    with pytest.raises(mp.CompileError) as caught:
        k.compile(F, backend="interp")
    text = str(caught.value)
    assert "v << 1" in text
    assert "inner(v)" in text
    assert "outer(x[0])" in text


@mp.func
def inner(v):
    return v << 1


@mp.func
def outer(v):
    return inner(v)


@EVERY
def test_a_compile_error_at_a_launch_leaves_the_arrays(device):
    @mp.kernel
    def k(x):
        x[0] = 5.0
        x[1] = unknown_name  # noqa: F821

    x = ones()
    with pytest.raises(mp.CompileError):
        k.launch(grid=1, block=1, args=(x,), device=device)
    assert (x == 1).all()


# --- interruption ------------------------------------------------------------------------------------------------------------
_LONG = """
    import sys, time, signal
    import numpy as np
    sys.path.insert(0, {root!r})
    from tests.unit.test_bad_input import {kernel} as spin, fill
    out = np.zeros(64, np.int64)
    spin.launch(grid=1, block=64, args=(out, 1), device={device!r})
    print("ready", flush=True)
    try:
        spin.launch(grid={grid}, block=64, args=(np.zeros(64, np.int64), {trips}), device={device!r})
    except KeyboardInterrupt:
        x = np.zeros(100, np.int32)
        fill.launch(grid=2, block=64, args=(x,), device={device!r})
        assert (x == 1).all()
        print("interrupted", flush=True)
    """


@mp.kernel
def spin(out, n: mp.i64):
    i = mp.thread_id(0)
    s = out[i]
    for j in range(n):
        s = s * 3 + mp.i64(j)
    out[i] = s


@mp.kernel
def spin_while(out, n: mp.i64):
    i = mp.thread_id(0)
    s = out[i]
    j = n - n
    while j < n:
        s = s * 3 + j
        j += 1 + (s & 0)
    out[i] = s


@pytest.mark.parametrize(
    ("device", "kernel", "grid", "trips"),
    [
        *(pytest.param(d, "spin", 2**30, 500, id=f"{d}-groups") for d in DEVICES),
        *(pytest.param(d, "spin_while", 1, 2**40, id=f"{d}-while") for d in DEVICES),
        *(pytest.param(d, "spin", 64, 2**40, id=f"{d}-for") for d in DEVICES),
    ],
)
def test_ctrl_c_during_a_long_launch_leaves_the_process_usable(device, kernel, grid, trips):
    code = textwrap.dedent(_LONG.format(root=os.getcwd(), device=device, kernel=kernel, grid=grid, trips=trips))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(25, process.kill)
    watchdog.start()
    try:
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        watchdog.cancel()
        process.kill()
    assert out.strip() == "interrupted", err


# --- right results where others go wrong ----------------------------------------------------------------------------------------
@EVERY
def test_nan_and_inf(device):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    y = np.array([1, 1, np.inf, np.nan, -0.0], np.float32)
    want = np.float32(2) * x + y
    axpy.launch(grid=1, block=64, args=(2.0, x, y), device=device)
    assert np.array_equal(y, want, equal_nan=True)


@EVERY
def test_empty_arrays(device):
    x, y = ones(0), ones(0)
    axpy.launch(grid=0, block=64, args=(2.0, x, y), device=device)
    axpy.launch(grid=3, block=64, args=(2.0, x, y), device=device)


@EVERY
def test_an_index_far_above_2_31(device):
    out = np.zeros(64, np.int64)
    far.launch(grid=1, block=64, args=(out, 2**40), device=device)
    assert np.array_equal(out, (np.arange(64) + 2**40) * 3)


@mp.kernel
def far(out, n: mp.i64):
    i = mp.global_id(0)
    out[i] = (i + n) * 3
