"""What a Vulkan device refuses at launch or load: with a code, the place in the kernel, and what to do; never a crash."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.backends.spirv.profile import profile
from magpie.diagnostics import CompileError


@mp.kernel
def doubles(x: mp.Array[mp.f64, 1]):
    x[mp.global_id(0)] = x[mp.global_id(0)] * 2.0


@mp.kernel
def scaled(x: mp.Array[mp.f32, 1]):
    x[mp.global_id(0)] = x[mp.global_id(0)] * 2.0


@mp.kernel
def wide_atomic(x: mp.Array[mp.u64, 1]):
    mp.atomic_add(x, 0, mp.u64(1))


@mp.kernel
def tile(x: mp.Array[mp.f32, 1], n: mp.constexpr):
    s = mp.shared(n, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[t]
    mp.barrier()
    x[t] = s[63 - t]


@mp.kernel
def dynamic_tile(x: mp.Array[mp.f32, 1], n: mp.i32):
    s = mp.shared(n, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[t]
    mp.barrier()
    x[t] = s[63 - t]


def devices() -> list[mp.Device]:
    found = [d for d in mp.devices() if d.backend == "spv"]
    if not found:
        pytest.skip("no Vulkan device")
    return found


def test_a_launch_on_a_device_that_lacks_a_type() -> None:
    lacking = [d for d in devices() if "f64" not in d.arch.split("+")]
    if not lacking:
        pytest.skip("every device here has f64")
    for device in lacking:
        with pytest.raises(CompileError) as caught:
            doubles.launch(grid=1, block=4, args=(np.ones(4),), device=device)
        (d,) = caught.value.diagnostics
        assert d.code == "MPG_CORE_1200" and "'f64'" in d.message and d.loc is not None and d.loc.file == __file__


def test_a_launch_with_atomics_that_a_device_lacks() -> None:
    for device in devices():
        x = np.zeros(1, np.uint64)
        if "atomics_int64" in device.capabilities:
            wide_atomic.launch(grid=2, block=4, args=(x,), device=device)
            assert x[0] == 8
            continue
        with pytest.raises(CompileError) as caught:
            wide_atomic.launch(grid=2, block=4, args=(x,), device=device)
        assert [d.code for d in caught.value.diagnostics] == ["MPG_CORE_1200"]


def test_code_for_another_device_is_refused_at_load() -> None:
    """Every feature that a device does not have, of those that a module can need without the kernel's asking."""
    for device in devices():
        has = profile(device.arch)
        for feature in ("denorm32", "szinp32", "rte32"):
            made = scaled.compile(backend="vulkan", arch=f"vulkan1.3+{feature}")
            assert made.info["needs"] == [feature]
            if feature in has:
                device.driver.load(device.index, made)
                continue
            with pytest.raises(mp.GpuError) as caught:
                device.driver.load(device.index, made)
            assert caught.value.diagnostic == "MPG_CORE_1200" and caught.value.kind is mp.GpuErrorKind.Unsupported
            assert feature in str(caught.value) and device.name in str(caught.value)


def test_shared_memory_beyond_the_device() -> None:
    for device in devices():
        most = device.max_shared_bytes // 4
        x = np.arange(64, dtype=np.float32)
        tile.launch(grid=1, block=64, args=(x, most), device=device)
        assert x.tolist() == list(range(63, -1, -1))
        with pytest.raises(CompileError) as caught:
            tile.launch(grid=1, block=64, args=(x, most + 1), device=device)
        (d,) = caught.value.diagnostics
        assert d.code == "MPG_SPV_2001" and f"a workgroup has {device.max_shared_bytes}" in d.message
        with pytest.raises(mp.LaunchValueError, match=f"{device.max_shared_bytes} for a workgroup"):
            dynamic_tile.launch(grid=1, block=64, args=(x, most + 1), device=device)
        dynamic_tile.launch(grid=1, block=64, args=(x, most), device=device)
        assert x.tolist() == list(range(64))


def test_a_module_with_more_shared_memory_than_the_device_has() -> None:
    """Compiled for another device: found where the launch is bound."""
    from magpie.runtime.driver import LaunchShape

    for device in devices():
        n = device.max_shared_bytes // 4 + 1
        made = tile.compile(mp.Array[mp.f32, 1], n, backend="vulkan", arch=f"vulkan1.3+shared{n // 256 + 1}")
        loaded = device.driver.load(device.index, made)
        with pytest.raises(mp.GpuError) as caught:
            loaded.bind(LaunchShape((1, 1, 1), (64, 1, 1), ((n,),)))
        assert caught.value.diagnostic == "MPG_SPV_2001"
