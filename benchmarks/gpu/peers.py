"""What our kernels are measured beside: CUDA C of the same source (nvcc), torch and Triton, on the same arrays.

Whoever is not there is left out, with the reason. All run on the stream that is given, so that one pair of events
times them all.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Nvcc", "Torch", "Triton", "found"]

HERE = Path(__file__).parent
Launch = Callable[[], None]


def address(array: Any) -> int:
    """Where an mp array begins."""
    where: int = array.__cuda_array_interface__["data"][0]
    return where


class Nvcc:
    """The functions of peers.cu, compiled for the device's architecture. Raises OSError where there is no nvcc."""

    def __init__(self, stream: int, *more: str) -> None:
        self.stream = ctypes.c_void_p(stream)
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            raise OSError("there is no nvcc on PATH")
        self.folder = tempfile.TemporaryDirectory()
        library = Path(self.folder.name) / "peers.so"
        flags = ["-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", *more]
        made = subprocess.run([nvcc, *flags, "-o", library, HERE / "peers.cu"], capture_output=True, text=True)
        if made.returncode:
            raise OSError(made.stderr.strip() or "nvcc failed")
        self.library = ctypes.CDLL(str(library))

    def call(self, name: str, *args: Any) -> Launch:
        """A launch of one function: arrays as pointers, floats as f32, the stream last."""
        function = self.library[name]
        packed: list[Any] = []
        for arg in args:
            if isinstance(arg, float):
                packed.append(ctypes.c_float(arg))
            else:
                packed.append(ctypes.c_int(arg) if isinstance(arg, int) else ctypes.c_void_p(address(arg)))

        def launch() -> None:
            code = function(*packed, self.stream)
            if code:
                raise RuntimeError(f"{name} of peers.cu: CUDA error {code}")

        return launch


class Torch:
    """torch on the given stream. Raises ImportError."""

    def __init__(self, stream: int) -> None:
        import torch

        self.torch = torch
        self.stream = torch.cuda.ExternalStream(stream)

    def tensor(self, array: Any) -> Any:
        """A tensor on an mp array's memory."""
        return self.torch.from_dlpack(array)

    def call(self, operation: Callable[..., Any], *args: Any) -> Launch:
        """``operation`` on tensors of the arrays."""
        tensors = [self.tensor(a) if hasattr(a, "__dlpack__") else a for a in args]

        def launch() -> None:
            with self.torch.cuda.stream(self.stream):
                operation(*tensors)

        return launch


class Triton:
    """Triton's saxpy, as its tutorial on vector addition has it. Raises ImportError."""

    def __init__(self, torch: Torch) -> None:
        import triton_saxpy

        self.torch = torch
        self.kernel = triton_saxpy.saxpy

    def saxpy(self, a: float, x: Any, y: Any, block: int = 1024) -> Launch:
        n = x.size
        grid = (-(-n // block),)
        return self.torch.call(lambda p, q: self.kernel[grid](a, p, q, n, BLOCK=block), x, y)


def found(make: Callable[[], Any], name: str) -> Any:
    """A peer, or None with a line that says why it is not there."""
    try:
        return make()
    except (ImportError, OSError, RuntimeError) as error:
        print(f"without {name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        return None
