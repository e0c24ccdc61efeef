"""Launches of host programs, and waiting for them.

The declared target of a kernel says what it was compiled for, so it decides where the kernel runs: on a device of that
backend, or not at all, unless the environment forces a backend or the cpu may stand in.
"""

from __future__ import annotations

import math
from typing import Any

from magpie.backends.registry import DISPLAY_NAMES
from magpie.errors import GpuError, GpuErrorKind
from magpie.host.builtins import Call, builtin
from magpie.host.gpu import Gpu, gpu_of, subgroup_size
from magpie.host.gpu_buffers import argument
from magpie.host.gpu_errors import fallible, unavailable
from magpie.host.output import flush
from magpie.host.values import CallableValue
from magpie.mpir.nodes import Function
from magpie.runtime.buffer import Buffer
from magpie.runtime.device import Device
from magpie.runtime.dispatch import runtime
from magpie.runtime.driver import Dims
from magpie.runtime.modules import TextKernel
from magpie.runtime.stream import Event

# Milliseconds; a longer wait is one without end (34 years).
_LONGEST = 1 << 40


@builtin("gpu.launch")
@fallible
def launch(
    call: Call,
    device: Device,
    kernel: CallableValue,
    grid: Dims,
    block: Dims,
    args: tuple[Any, ...],
    fallback: str = "",
) -> None:
    event = _launched(gpu_of(call.program), device, kernel.function, grid, block, args, fallback == "cpu")
    event.synchronize()


@builtin("gpu.launch_async")
@fallible
def launch_async(
    call: Call,
    device: Device,
    kernel: CallableValue,
    grid: Dims,
    block: Dims,
    args: tuple[Any, ...],
    fallback: str = "",
) -> Event:
    return _launched(gpu_of(call.program), device, kernel.function, grid, block, args, fallback == "cpu")


@builtin("gpu.host.@fence_wait")
@fallible
def fence_wait(call: Call, f: Event, timeout_ms: int) -> bool:
    f.synchronize(None if timeout_ms >= _LONGEST else timeout_ms / 1000)
    return True


def _launched(
    gpu: Gpu, device: Device, name: str, grid: Dims, block: Dims, args: tuple[Any, ...], fallback: bool
) -> Event:
    function = gpu.module.function(name)
    assert function is not None and function.gpu_meta is not None
    place = _place(gpu, device, function, fallback or gpu.settings.fallback)
    _check_block(block, place)
    lacks = [need for need in function.gpu_meta.requires if need not in place.capabilities]
    if lacks:
        text = f"@{name} requires {', '.join(lacks)}, which {place.name} does not have"
        raise GpuError(GpuErrorKind.Unsupported, place.backend, text)
    kernel = gpu.kernels.get(name)
    if kernel is None:
        kernel = gpu.kernels[name] = TextKernel(gpu.module, function)
    stream = gpu.stream(place)
    if 0 not in grid:
        flush()  # what the kernel prints stands behind what the program has printed
        subgroups = any(need == "subgroups" or need.startswith("metal.simd_") for need in function.gpu_meta.requires)
        _with_copies(
            kernel,
            tuple(map(argument, args)),
            place,
            grid=grid,
            block=block,
            stream=stream,
            subgroup_size=subgroup_size(place) if subgroups else None,
        )
    return stream.record()


def _place(gpu: Gpu, device: Device, function: Function, fallback: bool) -> Device:
    """Where a kernel runs that is launched on a device. Raises GpuError BackendUnavailable or InvalidKernel."""
    assert function.gpu_meta is not None
    target = function.gpu_meta.target
    if gpu.forced or device.backend == target:
        return device
    if fallback:
        return runtime().device("cpu")
    shown = f"{target} ({DISPLAY_NAMES[target]})" if target in DISPLAY_NAMES else target
    cure = "fallback=cpu in the launch, or --backend cpu, runs it on the processor"
    reason = runtime().unavailable(target)
    if reason is None and not runtime().of_backend(target):
        reason = "there is no device for it"
    if reason is not None:
        raise unavailable(target, f"@{function.name} is for {shown}, which cannot be used here: {reason}; {cure}")
    raise GpuError(
        GpuErrorKind.InvalidKernel,
        device.backend,
        f"@{function.name} is for {shown}, and {device.id} runs {', '.join(device.backends)}; {cure}",
    )


def _check_block(block: Dims, device: Device) -> None:
    size = math.prod(block)
    if not size:
        text = f"the block is {block[0]} x {block[1]} x {block[2]}: it has no work-item"
        raise GpuError(GpuErrorKind.ValidationFailed, device.backend, text)
    if size > device.max_workgroup_size:
        text = f"a block of {size} work-items; {device.name} allows {device.max_workgroup_size}"
        raise GpuError(GpuErrorKind.ResourceExhausted, device.backend, text)


def _with_copies(kernel: TextKernel, args: tuple[Any, ...], device: Device, **options: Any) -> None:
    """Launch on a device; buffers that it cannot reach are copied there, and what became of them back.

    That is how the cpu stands in for a device that holds the buffers.
    """
    there: dict[int, tuple[Buffer, Buffer]] = {}
    if device.driver.host_memory:
        for arg in args:
            if isinstance(arg, Buffer) and not arg.device.driver.host_memory:
                there.setdefault(id(arg), (arg, arg.to(device)))
    kernel.launch(args=tuple(there[id(a)][1] if id(a) in there else a for a in args), device=device, **options)
    for buffer, copy in there.values():
        buffer[...] = copy
