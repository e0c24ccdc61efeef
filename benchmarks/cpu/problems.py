"""Inputs and expected results of the 18 cases, from NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PROBLEMS", "Input", "error"]

f32, f64 = np.float32, np.float64
Input = dict[str, Any]


def _uniform(seed: int, shape: Any, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(f32)


def _integers(seed: int, high: int, n: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, n, dtype=dtype)


def _stencil(a: np.ndarray) -> np.ndarray:
    a = a.astype(f64)
    out = a.copy()
    out[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    return out


def _convolve(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    h, width = a.shape
    out = np.zeros((h, width))
    for r, c in np.ndindex(3, 3):
        out[1:-1, 1:-1] += f64(w[r, c]) * a[r : h - 2 + r, c : width - 2 + c]
    return out


def _mandelbrot() -> np.ndarray:
    step = f32(3.0 / 1024)
    at = np.arange(1024, dtype=f32) * step
    cx, cy = (g.ravel() for g in np.meshgrid(f32(-2) + at, f32(-1.5) + at))
    counts = np.zeros(cx.size, np.int32)
    live = np.arange(cx.size)
    x, y = np.zeros_like(cx), np.zeros_like(cy)
    for _ in range(256):
        inside = x * x + y * y < 4
        live, x, y, cx, cy = live[inside], x[inside], y[inside], cx[inside], cy[inside]
        counts[live] += 1
        x, y = x * x - y * y + cx, f32(2) * x * y + cy
    return counts.reshape(1024, 1024)


def _nbody(x: np.ndarray, y: np.ndarray, z: np.ndarray, m: np.ndarray) -> np.ndarray:
    places = np.stack([x, y, z]).astype(f64)
    out = np.empty_like(places)
    for start in range(0, x.size, 256):
        d = places[:, None, :] - places[:, start : start + 256, None]
        out[:, start : start + 256] = (d * (m / ((d * d).sum(0) + 0.01) ** 1.5)).sum(2)
    return out


def _black_scholes(s: np.ndarray, k: np.ndarray, t: np.ndarray, r: float = 0.02, v: float = 0.30) -> np.ndarray:
    s, k, t = (a.astype(f64) for a in (s, k, t))

    def cdf(d: np.ndarray) -> np.ndarray:
        q = 1 / (1 + 0.2316419 * np.abs(d))
        poly = q * np.polyval([1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153], q)
        c = 0.39894228040143267794 * np.exp(-0.5 * d * d) * poly
        return np.where(d > 0, 1 - c, c)

    d1 = (np.log(s / k) + (r + 0.5 * v * v) * t) / (v * np.sqrt(t))
    n1, n2, e = cdf(d1), cdf(d1 - v * np.sqrt(t)), k * np.exp(-r * t)
    return np.stack([s * n1 - e * n2, e * (1 - n2) - s * (1 - n1)])


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a.astype(f64) - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _layernorm(a: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    a = a.astype(f64)
    return (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5) * g + b


def _scattered(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    out[index] = x
    return out


def _indexed() -> Input:
    return {"x": _uniform(1, 1 << 22), "idx": np.random.default_rng(2).permutation(1 << 22).astype(np.int32)}


def _square(n: int) -> Input:
    return {"a": _uniform(1, (n, n), -1, 1), "b": _uniform(2, (n, n), -1, 1)}


#: name -> input, expected result, tolerance: None for equal, otherwise the largest error over the largest value
PROBLEMS: dict[str, tuple[Callable[[], Input], Callable[[Input], np.ndarray], float | None]] = {
    "saxpy": (
        lambda: {"a": 2.0, "x": _uniform(1, 1 << 25), "y": _uniform(2, 1 << 25)},
        lambda i: f32(2) * i["x"] + i["y"],
        1e-6,
    ),
    "expsin": (
        lambda: {"x": _uniform(1, 1 << 24, -4, 4)},
        lambda i: np.exp(i["x"].astype(f64)) + np.sin(i["x"].astype(f64)),
        1e-5,
    ),
    "reduce_sum": (lambda: {"x": _uniform(1, 1 << 24)}, lambda i: np.array([i["x"].sum(dtype=f64)]), 1e-3),
    "stencil5": (lambda: {"a": _uniform(1, (4096, 4096))}, lambda i: _stencil(i["a"]), 1e-5),
    "matmul_naive": (lambda: _square(512), lambda i: i["a"].astype(f64) @ i["b"].astype(f64), 1e-4),
    "matmul_tiled": (lambda: _square(1024), lambda i: i["a"].astype(f64) @ i["b"].astype(f64), 1e-4),
    "mandelbrot": (dict, lambda i: _mandelbrot(), 1.0),  # a contracted step moves some counts; run.py says how many
    "nbody": (
        lambda: {c: _uniform(n, 8192, -1, 1) for n, c in enumerate("xyz")} | {"m": _uniform(3, 8192)},
        lambda i: _nbody(*(i[c] for c in "xyzm")),
        1e-3,
    ),
    "blackscholes": (
        lambda: {
            "S": _uniform(1, 1 << 22, 5, 30),
            "K": _uniform(2, 1 << 22, 1, 100),
            "T": _uniform(3, 1 << 22, 0.25, 10),
        },
        lambda i: _black_scholes(i["S"], i["K"], i["T"]),
        1e-5,
    ),
    "histogram": (
        lambda: {"x": _integers(1, 256, 1 << 24, np.uint8)},
        lambda i: np.bincount(i["x"], minlength=256).astype(np.int32),
        None,
    ),
    # zeros and ones: the sums stay below 2^24, and are exact in any order
    "scan": (
        lambda: {"x": _integers(1, 2, 1 << 24, np.int8).astype(f32)},
        lambda i: np.cumsum(i["x"], dtype=f64),
        None,
    ),
    "softmax": (lambda: {"a": _uniform(1, (4096, 1024), -5, 5)}, lambda i: _softmax(i["a"]), 1e-4),
    "layernorm": (
        lambda: {"a": _uniform(1, (4096, 1024), -2, 3), "g": _uniform(2, 1024), "b": _uniform(3, 1024)},
        lambda i: _layernorm(i["a"], i["g"], i["b"]),
        1e-4,
    ),
    "transpose": (lambda: {"a": _uniform(1, (4096, 4096))}, lambda i: i["a"].T, None),
    "conv3x3": (
        lambda: {"a": _uniform(1, (2048, 2048)), "w": _uniform(2, (3, 3), -1, 1)},
        lambda i: _convolve(i["a"], i["w"]),
        1e-5,
    ),
    "bitonic": (lambda: {"x": _uniform(1, 1 << 20)}, lambda i: np.sort(i["x"]), None),
    "gather": (_indexed, lambda i: i["x"][i["idx"]], None),
    "scatter": (_indexed, lambda i: _scattered(i["x"], i["idx"]), None),
}


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest expected value; infinite where shapes differ or a NaN appears."""
    if found.shape != expected.shape:
        return float("inf")
    worst = float(np.abs(found.astype(f64) - expected).max() / np.abs(expected).max())
    return worst if worst == worst else float("inf")
