"""The runtime's own things on Vulkan devices: arrays, graphs, streams, reports, other processes' caches."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import magpie as mp


@pytest.fixture(params=["llvmpipe", "SwiftShader"])
def device(request):
    found = [d for d in mp.devices() if d.backend == "spv" and d.name.startswith(request.param)]
    if not found:
        pytest.skip(f"no {request.param} here")
    yield found[0]
    found[0].synchronize()
    assert found[0].driver.messages == []


@mp.kernel
def axpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def checked_store(x: mp.Array[mp.i32], n: mp.i32):
    i = mp.global_id(0)
    if i < n:
        x[i] = i


@mp.kernel
def says(x: mp.Array[mp.i32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.print("element", i, "is", x[i])


N = 1000


def test_a_graph_of_launches_copies_and_fills(device):
    x, y, z = mp.asarray(np.arange(N, dtype=np.float32), device=device), mp.ones(N, device=device), mp.zeros(N, device=device)
    with mp.graph(device) as graph:
        y[...] = 2.0
        axpy[4, 256](1.0, x, y)
        z[...] = y
        axpy[4, 256](3.0, y, z)
    assert (y.to_numpy() == 1).all()
    graph.launch()
    want = np.arange(N) + 2
    assert np.array_equal(y.to_numpy(), want) and np.array_equal(z.to_numpy(), 4 * want)
    other = mp.full(N, 5.0, mp.f32, device=device)
    graph.nodes[1].update(x=other, a=2.0)
    del other
    gc.collect()
    stream = mp.Stream(device)
    for _ in range(3):
        graph.launch(stream=stream)
    stream.synchronize()
    assert (y.to_numpy() == 12).all() and (z.to_numpy() == 48).all()


def test_a_kernel_that_reports_is_no_step_of_a_graph(device):
    x = mp.zeros(4, mp.i32, device=device)
    with pytest.raises(mp.GpuError, match=r"MPG_LAUNCH_1022.*'says'"), mp.graph(device):
        says[1, 4](x)


def test_events_around_work_in_streams(device):
    x, y = mp.ones(N, device=device), mp.zeros(N, device=device)
    streams = [mp.Stream(device) for _ in range(2)]
    first = streams[0].record()
    for n in range(20):
        axpy[4, 256, streams[n % 2]](0.0, x, y)
    ends = [s.record() for s in streams]
    for end in ends:
        end.synchronize(timeout=60)
        assert 0 < end.elapsed_ms(first) < 60_000


@pytest.mark.parametrize("memory", ["unified", "staging", "cached"])
def test_memory_that_the_host_sees(device, memory):
    x = mp.asarray(np.arange(10, dtype=np.float32), device=device, memory=memory)
    y = mp.zeros(10, mp.f32, device=device, memory=memory)
    view = np.asarray(y)
    axpy[1, 64](2.0, x, y)
    mp.synchronize(device)
    assert np.array_equal(view, 2 * np.arange(10))
    view[3] = 50
    y[4] = 7
    assert y.to_numpy().tolist() == [0, 2, 4, 50, 7, 10, 12, 14, 16, 18]
    local = mp.zeros(10, mp.f32, device=device)
    local.copy_from(y)
    assert np.array_equal(local.to_numpy(), view)


def test_host_arrays_that_overlap(device):
    base = np.arange(20, dtype=np.float32)
    want = base.copy()
    want[1:15:2] += 2 * base[2:16:2]  # between each other, so that no element is read and written
    axpy.launch(grid=1, block=16, args=(2.0, base[2:16:2], base[1:15:2]), device=device)
    assert np.array_equal(base, want)
    axpy.launch(grid=1, block=16, args=(2.0, base[16:2:-2], base[1:15:2]), device=device)
    want[1:15:2] += 2 * want[16:2:-2]
    assert np.array_equal(base, want)


def test_structs_of_host_arrays_that_overlap(device):
    point = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4")])  # 12 bytes: no power of two
    memory = np.zeros(40, point)
    memory["x"], memory["y"] = np.arange(40), 100

    @mp.kernel
    def move(p, q):
        i = mp.global_id(0)
        if i < p.shape[0]:
            q[i].y = p[i].x

    for first in (1, 2, 3):  # of the elements: it lies at any multiple of 4 bytes of a line
        memory["y"] = 100
        move.launch(grid=1, block=64, args=(memory[first : first + 10], memory[first + 4 : first + 14]), device=device)
        want = np.full(40, 100)
        want[first + 4 : first + 14] = np.arange(first, first + 10)
        assert memory["y"].tolist() == want.tolist()
    assert memory["x"].tolist() == list(range(40))


def test_checked_code_reports_the_line(device):
    x = mp.zeros(8, mp.i32, device=device)
    with pytest.raises(mp.GpuError, match=r"MPG_SAN_1003.*x\[8\], by thread \(8, 0, 0\)") as caught:
        checked_store.launch(grid=1, block=16, args=(x, 10), device=device, checked=True)
    assert "test_vulkan_runtime.py" in str(caught.value) and "2 faults" in str(caught.value)
    assert x.to_numpy().tolist() == list(range(8))
    checked_store.launch(grid=1, block=16, args=(x, 8), device=device, checked=True)


def test_prints_come_in_the_order_of_workgroups(device, capsys):
    x = mp.asarray(np.arange(6, dtype=np.int32) * 7, device=device)
    for _ in range(2):
        says[3, 2](x)
        assert capsys.readouterr().out.splitlines() == [f"element {i} is {7 * i}" for i in range(6)]


def test_an_array_goes_to_other_devices_and_back(device):
    x = mp.asarray(np.arange(N, dtype=np.int16), device=device)
    there = x.to("cpu")
    assert np.array_equal(there.to_numpy(), np.arange(N)) and there.device.backend == "cpu"
    assert np.array_equal(there.to(device).to_numpy(), np.arange(N))


def test_children_made_by_fork_end_well(device, tmp_path):
    """What a child has of its parent's arrays and kernels goes without a call to the device."""
    file = tmp_path / "program.py"
    file.write_text(
        "import multiprocessing\nimport sys\nimport numpy as np\nimport magpie as mp\n\n\n"
        "@mp.kernel\ndef twice(x: mp.Array[mp.f32]):\n    i = mp.global_id(0)\n    if i < x.shape[0]:\n"
        "        x[i] = x[i] * 2\n\n\n"
        "x = mp.ones(1 << 16, device=sys.argv[1])\ntwice[256, 256](x)\ntwice[256, 256](x)\n\n\n"
        "def child():\n    global x\n    y = np.ones(8, np.float32)\n    twice.launch(grid=1, block=8, args=(y,), device='cpu')\n"
        "    x = None\n    sys.exit(0 if y[0] == 2 else 1)\n\n\n"
        "p = multiprocessing.get_context('fork').Process(target=child)\np.start()\np.join(60)\n"
        "print(p.exitcode, x.to_numpy()[0])\n",
        encoding="utf-8",
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, str(file), device.id], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 4.0\n", "")


def test_a_program_may_end_with_work_under_way(device, tmp_path):
    """No message, no crash and no wait for ever: launches that nobody waits for, arrays and streams that are alive."""
    file = tmp_path / "program.py"
    file.write_text(
        "import sys\nimport magpie as mp\n\n\n"
        "@mp.kernel\ndef twice(x: mp.Array[mp.f32]):\n    i = mp.global_id(0)\n    if i < x.shape[0]:\n"
        "        x[i] = x[i] * 2\n\n\n"
        "x = mp.ones(1 << 16, device=sys.argv[1])\ns = mp.Stream(sys.argv[1])\n"
        "for _ in range(50):\n    twice[256, 256](x)\n    twice[256, 256, s](x)\n"
        "with mp.graph(sys.argv[1]) as g:\n    twice[256, 256](x)\ng.launch()\nprint('end')\n",
        encoding="utf-8",
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(file), device.id], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
