"""Constants of `.tg` text: numbers in brackets, one number for all elements, or a .npy file beside the text."""

from __future__ import annotations

import io
import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from magpie.dtypes import DType, bf16
from magpie.frontend.graph.nodes import Shape, type_text
from magpie.frontend.graph.numerics import settle
from magpie.frontend.graph.rules import Mismatch

__all__ = ["array_of", "everywhere", "literal", "load_file", "numbers_text"]

#: Elements of the largest constant that one number makes.
_MOST_REPEATED = 1 << 26

Array = np.ndarray[Any, Any]


def literal(text: str, dtype: DType) -> int | float | bool:
    """A number or truth value as text, for a dtype. Raises Mismatch where it is none of that dtype."""
    if dtype.is_bool:
        if text in ("true", "false"):
            return text == "true"
        raise Mismatch("MPG_GRAPH_1007", f"{_short(text)} is no bool", "write true or false")
    if dtype.is_float:
        try:
            return float(int(text, 16)) if "0x" in text else float(text)
        except (ValueError, OverflowError):
            raise Mismatch("MPG_GRAPH_1007", f"{_short(text)} is no number") from None
    try:
        value = int(text, 0) if len(text) < 40 else None
    except ValueError:
        value = None
    if value is None or not dtype.min <= value <= dtype.max:
        raise Mismatch(
            "MPG_GRAPH_1007",
            f"{_short(text)} is no {dtype}",
            f"{dtype} holds whole numbers from {dtype.min} to {dtype.max}",
        )
    return value


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def array_of(values: list[int | float | bool], dtype: DType, shape: Shape) -> Array:
    """An array of a dtype; floats are rounded once."""
    if dtype.is_float:
        return settle(np.array(values, np.float64), dtype).reshape(shape)
    return np.array(values, dtype.numpy).reshape(shape)


def everywhere(value: int | float | bool, dtype: DType, shape: Shape) -> Array:
    """An array with one number everywhere. Raises Mismatch for one that no text should make."""
    if math.prod(shape) > _MOST_REPEATED:
        raise Mismatch(
            "MPG_GRAPH_1007",
            f"a constant of more than {_MOST_REPEATED:,} elements",
            "let `broadcast` repeat one number, or write a .npy file",
        )
    return np.array(np.broadcast_to(array_of([value], dtype, ()), shape))


def load_file(name: str, folder: Path | None, dtype: DType, shape: Shape) -> Array:
    """The array of a .npy file. Raises Mismatch for a file that is not there, or holds something else."""
    path = PurePosixPath(name)
    if folder is None or path.is_absolute() or ".." in path.parts or path.suffix != ".npy" or "\\" in name:
        raise Mismatch(
            "MPG_GRAPH_1007", f"{name!r} is no .npy file beside the graph", "name a file in the folder of the graph"
        )
    try:
        data = (folder / path).read_bytes()
    except (OSError, ValueError) as error:
        raise Mismatch("MPG_GRAPH_1007", f"{name}: {getattr(error, 'strerror', None) or error}") from None
    try:
        found: Array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # NumPy's reader raises whatever a damaged header leads to
        raise Mismatch("MPG_GRAPH_1007", f"{name} is no .npy file with numbers") from None
    if not isinstance(found, np.ndarray):
        raise Mismatch("MPG_GRAPH_1007", f"{name} is no .npy file of one array")
    if dtype is bf16 and found.dtype in (np.dtype(np.uint16), np.dtype("V2")):
        found = np.ascontiguousarray(found).view(dtype.numpy).reshape(found.shape)
    if found.dtype != dtype.numpy or found.shape != shape:
        raise Mismatch(
            "MPG_GRAPH_1007",
            f"{name} holds {found.dtype.name}{list(found.shape)}, and the constant is {type_text(dtype, shape)}",
        )
    return np.ascontiguousarray(found).reshape(shape)


def numbers_text(data: Array, dtype: DType) -> str:
    """An array as nested lists; one number where all elements have the same bits."""
    if data.size and data.ndim and data.size > 1 and np.all(_bits(data) == _bits(data).reshape(-1)[0]):
        return _number(data.reshape(-1)[0], dtype)
    return _nested(data, dtype)


def _bits(data: Array) -> Array:
    return np.ascontiguousarray(data).view(f"u{data.dtype.itemsize}") if data.dtype.kind != "b" else data


def _nested(data: Array, dtype: DType) -> str:
    if data.ndim == 0:
        return _number(data[()], dtype)
    if data.ndim == 1:
        return "[" + ", ".join(_number(v, dtype) for v in data) + "]"
    return "[" + ", ".join(_nested(part, dtype) for part in data) + "]"


def _number(value: Any, dtype: DType) -> str:
    if dtype.is_bool:
        return str(bool(value)).lower()
    if dtype.is_int:
        return str(int(value))
    if math.isnan(value):
        return "nan"
    return repr(float(value)) if dtype is bf16 or math.isinf(value) else str(value)
