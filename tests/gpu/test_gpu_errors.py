"""What goes wrong on a real device: the error says what it was and what to do, and the process goes on where it can."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuErrorKind
from tests.gpu.test_gpu import DEVICE, saxpy

pytestmark = pytest.mark.skipif(DEVICE is None, reason="no CUDA device")


def in_a_child(tmp_path, body: str, timeout: float = 60) -> str:
    """What a program prints that may lose the device."""
    file = tmp_path / "program.py"
    file.write_text("import numpy as np\nimport magpie as mp\n" + textwrap.dedent(body))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=timeout)
    return done.stdout + done.stderr


def device_works() -> bool:
    """Whether this process can use the device."""
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    saxpy.launch(grid=1, block=32, args=(1.0, x, y), device="cuda")
    return np.array_equal(y, [2, 2, 2, 2])


def test_gpu_a_wild_store_names_the_kernel_and_other_devices_go_on(tmp_path):
    said = in_a_child(
        tmp_path,
        """
        @mp.kernel
        def wild(x):
            x[(mp.global_id(0) + 1) * 1000000000000] = 1.0

        @mp.kernel
        def fill(x):
            x[mp.global_id(0)] = 7.0

        x = mp.zeros(4, mp.f32, device="cuda")
        wild[1, 32](x)
        try:
            mp.synchronize("cuda")
        except mp.GpuError as error:
            print("first", error.kind.name, error.code, error)
        try:
            fill[1, 4](x)
            mp.synchronize("cuda")
        except mp.GpuError as error:
            print("later", error.kind.name, error.code, error)
        y = np.zeros(4, np.float32)
        fill.launch(grid=1, block=4, args=(y,), device="cpu")
        print("host", y)
        """,
    )
    assert "first LaunchFailed 700" in said and "'wild'" in said and "CUDA_ERROR_ILLEGAL_ADDRESS" in said
    assert "later LaunchFailed 700" in said and "start it again" in said and "checked=True" in said
    assert "host [7. 7. 7. 7.]" in said
    assert device_works()


def test_gpu_a_failed_assert_names_line_and_work_item_and_the_process_goes_on():
    @mp.kernel(checked=True)
    def careful(x, out):
        i = mp.global_id(0)
        assert x[i] >= 0, "negative"
        out[i] = mp.sqrt(x[i])

    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    x[37] = -1
    with pytest.raises(mp.GpuError, match="negative") as caught:
        careful.launch(grid=2, block=32, args=(x, out), device="cuda")
    text = str(caught.value)
    assert caught.value.kind is GpuErrorKind.LaunchFailed and "test_gpu_errors.py" in text
    assert "thread (5, 0, 0) of workgroup (1, 0, 0)" in text
    assert device_works()


def test_gpu_checked_division_by_zero_goes_on():
    @mp.kernel(checked=True)
    def quotient(x, y, out):
        i = mp.global_id(0)
        out[i] = x[i] // y[i]

    x, y, out = (np.full(32, n, np.int32) for n in (7, 2, 0))
    y[3] = 0
    with pytest.raises(mp.GpuError) as caught:
        quotient.launch(grid=1, block=32, args=(x, y, out), device="cuda")
    assert caught.value.kind is GpuErrorKind.LaunchFailed and "test_gpu_errors.py" in str(caught.value)
    assert device_works()


def test_gpu_a_trap_is_an_error_of_the_launch(tmp_path):
    said = in_a_child(
        tmp_path,
        """
        @mp.kernel
        def stop(x):
            if x[mp.global_id(0)] == 3:
                mp.trap()
            x[mp.global_id(0)] = 1

        x = mp.asarray(np.arange(32, dtype=np.int32), device="cuda")
        try:
            stop[1, 32](x)
            mp.synchronize("cuda")
        except mp.GpuError as error:
            print(error.kind.name, error)
        """,
    )
    assert "LaunchFailed" in said and "help:" in said


def test_gpu_more_memory_than_there_is():
    with pytest.raises(mp.GpuError, match="CUDA_ERROR_OUT_OF_MEMORY") as caught:
        mp.empty(1 << 42, mp.f32, device="cuda")
    assert caught.value.kind is GpuErrorKind.OutOfMemory and "free arrays" in str(caught.value)
    assert device_works()


FOREVER = """
    import time

    @mp.kernel
    def forever(x):
        while mp.atomic_load(x, 0) == 0:
            pass

    x = mp.zeros(1, mp.i32, device="cuda")
    forever[1, 1](x)
"""


def test_gpu_waiting_for_a_kernel_that_never_ends_has_an_end_and_so_has_the_process(tmp_path):
    said = in_a_child(
        tmp_path,
        FOREVER
        + """
    start = time.monotonic()
    for n in range(2):
        try:
            mp.synchronize("cuda", timeout=1)
        except mp.GpuError as error:
            print(error.kind.name, error)
    print("seconds", round(time.monotonic() - start))
    """,
        timeout=30,
    )
    assert said.count("TimeoutExpired") == 4 and "'forever'" in said and "MAGPIE_SANITIZE=1" in said  # kind and text
    assert "seconds 2" in said
    assert device_works()


def test_gpu_a_kernel_that_never_ends_is_left_by_ending_the_process(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        in_a_child(tmp_path, FOREVER + '    mp.synchronize("cuda")\n', timeout=8)
    assert device_works()
