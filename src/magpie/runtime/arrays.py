"""Arrays of other libraries, as NumPy arrays on the same memory.

torch, JAX and everything with DLPack or an array interface come through here; NumPy arrays and mp arrays do not.
Nothing is copied. What cannot be had without a copy is an error that says what to write.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from magpie.errors import LaunchTypeError, LaunchValueError

if TYPE_CHECKING:
    import numpy

__all__ = ["foreign_array", "is_array_like", "pointer_reader"]


def is_array_like(value: Any) -> bool:
    """Whether a value says of itself that it is an array (not NumPy's or mp's own, which the caller knows)."""
    type_ = type(value)
    return any(hasattr(type_, n) for n in ("__dlpack__", "__array_interface__", "__cuda_array_interface__")) or hasattr(
        value, "__array_interface__"
    )


def foreign_array(value: Any, name: str) -> numpy.ndarray[Any, Any]:
    """The NumPy array on the memory of `value`. Raises LaunchTypeError or LaunchValueError naming the parameter."""
    import numpy as np

    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise LaunchTypeError(
                f"argument {name!r} is a masked array, and kernels know no masks",
                diagnostic="MPG_LAUNCH_1002",
                help="pass x.filled(...) or x.data, and the mask as an array of its own",
            )
        return value.view(np.ndarray)
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        return _torch(value, name)
    # The instance is asked, not the class: libraries raise AttributeError for arrays that are not on a GPU.
    if getattr(value, "__cuda_array_interface__", None) is not None:
        raise on_device(name, "a CUDA device")
    where = getattr(value, "__dlpack_device__", None)
    if where is not None:
        kind = int(where()[0])
        if kind not in (1, 3, 11):  # kDLCPU, kDLCUDAHost, kDLROCMHost
            raise on_device(name, _DLPACK_DEVICES.get(kind, f"a device of DLPack type {kind}"))
    if library in ("jax", "jaxlib"):
        return np.asarray(value)  # zero copy on the host, read-only since JAX's arrays are, and it knows bfloat16
    if getattr(value, "__array_interface__", None) is not None:
        return np.asarray(value)
    try:
        array = np.from_dlpack(value)
        return array if array.flags.writeable or _versioned(value) else _writable(array)
    except (BufferError, RuntimeError, TypeError, AttributeError, ValueError) as error:
        raise LaunchTypeError(
            f"argument {name!r}: {type(value).__name__} cannot be shared through DLPack: {error}",
            diagnostic="MPG_LAUNCH_1002",
        ) from None


def _versioned(value: Any) -> bool:
    """Whether the producer speaks DLPack 1.0, and so can say that an array is read-only."""
    try:
        value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    return True


def _writable(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """The same memory, writable. NumPy takes what comes through the old protocol for read-only, knowing no better."""
    import numpy as np

    class Memory:
        keep = array
        __array_interface__ = {  # noqa: RUF012  # the protocol's form
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }

    return np.asarray(Memory())


_DLPACK_DEVICES = {
    2: "a CUDA device",
    4: "an OpenCL device",
    7: "a Vulkan device",
    8: "a Metal device",
    10: "a ROCm device",
    13: "CUDA managed memory",
    14: "a oneAPI device",
    15: "a WebGPU device",
}


def on_device(name: str, where: str) -> LaunchValueError:
    """The error for an array that the launch's device cannot reach."""
    return LaunchValueError(
        f"argument {name!r} lies on {where}, and this launch runs on the host",
        diagnostic="MPG_LAUNCH_1008",
        help="copy it to the host first (torch: x.cpu(), CuPy: x.get()), or name a device that can reach it",
    )


def _torch(tensor: Any, name: str) -> numpy.ndarray[Any, Any]:
    """A torch tensor. Its own `numpy()` keeps it writable, which DLPack of older versions does not."""
    if tensor.device.type != "cpu":
        raise on_device(name, f"torch device {tensor.device}")
    if getattr(tensor, "requires_grad", False):
        raise LaunchTypeError(
            f"argument {name!r} is a torch tensor that requires grad, and a kernel would write behind autograd's back",
            diagnostic="MPG_LAUNCH_1002",
            help="pass x.detach()",
        )
    if str(tensor.dtype) != "torch.bfloat16":
        try:
            result: numpy.ndarray[Any, Any] = tensor.numpy()
        except (RuntimeError, TypeError) as error:
            raise LaunchTypeError(f"argument {name!r}: {error}", diagnostic="MPG_LAUNCH_1002") from None
        return result
    try:
        import ml_dtypes
    except ImportError:
        raise LaunchTypeError(
            f"argument {name!r} is a bfloat16 tensor; on the host that needs the package ml_dtypes",
            diagnostic="MPG_LAUNCH_1017",
            help="pip install ml_dtypes",
        ) from None
    bits: numpy.ndarray[Any, Any] = tensor.view(sys.modules["torch"].int16).numpy()
    return bits.view(ml_dtypes.bfloat16)


def pointer_reader() -> Any:
    """A function from a NumPy array to the address of its element 0, as fast as this interpreter allows.

    `ndarray.ctypes` and `__array_interface__` build objects and take 1.5 us. NumPy's C interface fixes the data pointer
    as the first field after the object header (`PyArrayObject_fields` in ndarraytypes.h), so it can be read in 0.3 us.
    The reading is compared with NumPy's own answer first; where they differ (another interpreter), the slow way stays.
    """
    import ctypes

    import numpy as np

    at = ctypes.c_void_p.from_address
    header = object.__basicsize__

    def fast(array: numpy.ndarray[Any, Any]) -> int:
        return at(id(array) + header).value or 0

    def safe(array: numpy.ndarray[Any, Any]) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    if sys.implementation.name != "cpython":
        return safe
    base = np.zeros((4, 6), np.float32)
    samples = [base, base[1:], base[::-1, ::2], np.array(1.0), base.view(np.uint8)]
    return fast if all(fast(a) == safe(a) for a in samples) else safe
