"""Runs launch documents: the kernels one after the other, each on a fresh machine of its own number of threads, memory
carried over. The real tiny-gpu leaves R7 at 0 for threads that are added to a machine, so none is used twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magpie.backends.tgpu.interp import interpret
from magpie.backends.tgpu.launch import Launch
from magpie.backends.tgpu.machine import MAX_STEPS, MOST_WORDS, Result
from magpie.backends.tgpu.simulator import simulate
from magpie.backends.tgpu.words import from_words, to_words
from magpie.dtypes import by_name
from magpie.errors import GpuError, GpuErrorKind, LaunchTypeError, LaunchValueError

__all__ = ["LaunchRun", "run_launch"]


@dataclass(slots=True)
class LaunchRun:
    """What a document gave: its outputs by name, and for each kernel what it cost and left."""

    outputs: dict[str, Any]
    kernels: list[Result]

    @property
    def cycles(self) -> int:
        """Cycles of all kernels."""
        return sum(result.cycles for result in self.kernels)

    @property
    def instructions(self) -> int:
        """Executed instructions of all kernels."""
        return sum(result.instructions for result in self.kernels)


def run_launch(
    launch: Launch,
    inputs: Mapping[str, Any],
    *,
    engine: str = "simulator",
    silent_shared: bool = False,
    max_steps: int = MAX_STEPS,
    history: bool = False,
) -> LaunchRun:
    """Run a launch document on ``inputs``, arrays by name.

    ``engine`` is ``simulator`` or ``interp``. Raises LaunchTypeError and LaunchValueError (MPG_TGPU_1202) for inputs
    that do not fit, and GpuError MPG_TGPU_1101 to 1104 for a fault of a kernel, which is named.
    """
    if engine not in ("simulator", "interp"):
        raise ValueError(f"engine= is simulator or interp; got {engine!r}")
    memory = _image(launch, inputs)
    results: list[Result] = []
    for kernel in launch.kernels:
        options: dict[str, Any] = {
            "num_registers": launch.num_registers,
            "shared_size": kernel.shared_size,
            "silent_shared": silent_shared,
            "max_steps": max_steps,
        }
        try:
            if engine == "interp":
                result = interpret(kernel.program, kernel.grid, memory, **options)
            else:
                result = simulate(kernel.program, kernel.grid, memory, history=history, **options)
        except GpuError as error:
            message = f"kernel {kernel.name!r}: {error.message}"
            raise GpuError(error.kind, error.backend, message, diagnostic=error.diagnostic, help=error.help) from None
        if not result.reserved_intact:
            raise GpuError(
                GpuErrorKind.LaunchFailed,
                "tgpu",
                f"kernel {kernel.name!r} changed R5, R6 or R7, which programs only read",
                diagnostic="MPG_TGPU_1104",
                help="use another register for the result",
            )
        results.append(result)
        memory = result.memory
    outputs = {}
    for name in launch.outputs:
        buffer = launch.buffers[name]
        words = memory[buffer.addr : buffer.addr + buffer.size]
        outputs[name] = from_words(words, by_name(buffer.dtype).numpy, buffer.shape)
    return LaunchRun(outputs, results)


def _image(launch: Launch, inputs: Mapping[str, Any]) -> Any:
    """Memory before the first kernel."""
    import numpy as np

    missing, unknown = set(launch.inputs) - set(inputs), set(inputs) - set(launch.inputs)
    if missing or unknown:
        said = [
            f"{what} {', '.join(sorted(names))}"
            for what, names in (("missing:", missing), ("unknown:", unknown))
            if names
        ]
        wanted = ", ".join(launch.inputs) or "nothing"
        raise LaunchTypeError(
            f"the inputs of {launch.name!r} are {wanted}; {'; '.join(said)}", backend="tgpu", diagnostic="MPG_TGPU_1202"
        )
    if launch.mem_size > MOST_WORDS:
        raise GpuError(
            GpuErrorKind.ResourceExhausted,
            "tgpu",
            f"the document has {launch.mem_size:,} words of memory, and there is room for {MOST_WORDS:,}",
            diagnostic="MPG_TGPU_1105",
        )
    memory = np.zeros(launch.mem_size, np.int32)
    for name, buffer in launch.buffers.items():
        if buffer.kind == "const":
            values: Any = np.array(buffer.data, np.int64).astype(by_name(buffer.dtype).numpy)
        elif buffer.kind == "input":
            values = _input(name, inputs[name], by_name(buffer.dtype), buffer.shape)
        else:
            continue
        memory[buffer.addr : buffer.addr + buffer.size] = to_words(values)
    return memory


def _input(name: str, value: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "biu" and array.size:
        raise LaunchTypeError(
            f"input {name!r} has elements of type {array.dtype}, and the document takes {dtype}",
            backend="tgpu",
            diagnostic="MPG_TGPU_1202",
            help=f"convert it: {name}.astype(np.{dtype.numpy.name})",
        )
    if array.shape != shape:
        raise LaunchValueError(
            f"input {name!r} has the shape {array.shape}, and the document takes {shape}",
            backend="tgpu",
            diagnostic="MPG_TGPU_1202",
        )
    if array.size and not (dtype.min <= int(array.min()) and int(array.max()) <= dtype.max):
        raise LaunchValueError(
            f"input {name!r} has values that {dtype} does not hold: {array.min()} to {array.max()}",
            backend="tgpu",
            diagnostic="MPG_TGPU_1202",
        )
    return array.astype(dtype.numpy)
