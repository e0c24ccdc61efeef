"""Kernels that are bound by memory: how long they take when large outputs go past the cache, and when they do not.

    python benchmarks/bench_memory.py [threads] [case ...]
    python benchmarks/bench_memory.py [threads] reuse

The second form writes arrays of growing sizes and has another kernel read them at once. In the first, each case runs on
mp arrays and on NumPy arrays, with MAGPIE_CPU_STREAM at its default (`past`) and so high that nothing is written past
the cache (`through`). Every result is compared with NumPy first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from timing import interleaved

import magpie as mp

_NEVER = "1000000G"

Case = tuple[Callable[..., None], dict[str, Any], Callable[..., Any]]  # launch(out, *inputs), inputs, expected


@mp.kernel
def k_copy(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i]


@mp.kernel
def k_scale(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i] * 3.0


@mp.kernel
def k_stencil(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    x, y = mp.global_id(0), mp.global_id(1)
    h, w = a.shape[0], a.shape[1]
    if 0 < x < w - 1 and 0 < y < h - 1:
        out[y, x] = 0.2 * (a[y, x] + a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1])


@mp.kernel(workgroup=(16, 16))
def k_transpose(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    tile = mp.shared((16, 17), mp.f32)
    tx, ty = mp.thread_id(0), mp.thread_id(1)
    x0, y0 = mp.workgroup_id(0) * 16, mp.workgroup_id(1) * 16
    tile[ty, tx] = a[y0 + ty, x0 + tx]
    mp.barrier()
    out[x0 + ty, y0 + tx] = tile[tx, ty]


@mp.kernel
def k_gather(x: mp.Array[mp.f32], index: mp.Array[mp.i32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[index[i]]


@mp.kernel
def k_scan_add(parts: mp.Array[mp.f32], sums: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = parts[i] + sums[mp.workgroup_id(0)]


def cases() -> dict[str, Case]:
    """Launch, inputs and the result in NumPy of each case."""
    rng = np.random.default_rng(1)
    line = rng.random(1 << 25, dtype=np.float32)
    plane = line[: 1 << 24].reshape(4096, 4096)
    quarter = line[: 1 << 22]
    index = rng.permutation(1 << 22).astype(np.int32)
    sums = rng.random(1 << 16, dtype=np.float32)
    wide = 0.2

    def one(kernel: Any) -> Callable[..., None]:
        return lambda out, *xs: kernel[mp.cdiv(out.shape[0], 256), 256](*xs, out)

    def stencil(a: Any) -> Any:
        out = np.zeros_like(a)
        total = a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
        out[1:-1, 1:-1] = np.float32(wide) * total
        return out

    return {
        "copy 2^25": (one(k_copy), {"x": line}, lambda x: x),
        "scale 2^25": (one(k_scale), {"x": line}, lambda x: x * np.float32(3)),
        "stencil 4096^2": (lambda out, a: k_stencil[(128, 512), (32, 8)](a, out), {"a": plane}, stencil),
        "transpose 4096^2": (lambda out, a: k_transpose[(256, 256), None](a, out), {"a": plane}, lambda a: a.T),
        "gather 2^22": (one(k_gather), {"x": quarter, "index": index}, lambda x, i: x[i]),
        "scan add 2^24": (
            one(k_scan_add),
            {"parts": line[: 1 << 24], "sums": sums},
            lambda p, s: (p.reshape(-1, 256) + s[:, None]).reshape(-1),
        ),
    }


def reuse() -> None:
    """Print, for each size, how long it takes to write an array and to read it again, in both ways."""
    print(f"{'MiB':>5s}{'past: write':>14s}{'read':>8s}{'both':>8s}{'through: write':>17s}{'read':>8s}{'both':>8s}")
    for mib in (4, 8, 16, 24, 32, 48, 64, 96, 128):
        x, y, z = (mp.asarray(np.ones(mib << 18, np.float32)) for _ in range(3))
        sides: dict[str, Callable[[], None]] = {}
        for name, limit in (("past", "1"), ("through", _NEVER)):
            for step in ("first", "write"):  # the first time the other way's arrays are in the caches
                sides[f"{name} {step}"] = partial(_scale, limit, x, y)
                sides[f"{name} read, {step}"] = partial(_scale, _NEVER, y, z)
        t = {k: v * 1e3 for k, v in interleaved(sides, rounds=11).items()}
        line = f"{mib:5d}"
        for name, width in (("past", 14), ("through", 17)):
            w, r = t[f"{name} write"], t[f"{name} read, write"]
            line += f"{w:{width}.2f}{r:8.2f}{w + r:8.2f}"
        print(line, flush=True)


def _scale(limit: str, x: Any, y: Any) -> None:
    os.environ["MAGPIE_CPU_STREAM"] = limit
    k_scale[mp.cdiv(x.shape[0], 256), 256](x, y)


def main() -> None:
    """Print one line a case: ms on mp arrays and on NumPy arrays, each with and without streaming stores."""
    threads, names = sys.argv[1:2], sys.argv[2:]
    if threads:
        os.environ["MAGPIE_CPU_THREADS"] = threads[0]
    if names == ["reuse"]:
        reuse()
        return
    print(f"{'ms':20s}{'mp: through':>12s}{'past':>8s}{'NumPy: through':>16s}{'past':>8s}")
    for name, (launch, inputs, reference) in cases().items():
        if names and not any(n in name for n in names):
            continue
        expected = np.ascontiguousarray(reference(*inputs.values()))
        sides: dict[str, Callable[[], None]] = {}
        for kind in ("mp", "numpy"):
            xs = [mp.asarray(x) if kind == "mp" else _unaligned(x) for x in inputs.values()]
            zeros = np.zeros(expected.shape, np.float32)
            out = mp.asarray(zeros) if kind == "mp" else _unaligned(zeros)

            _launch("", launch, out, xs)
            assert np.array_equal(np.asarray(out), expected), name
            sides[f"{kind} through"] = partial(_launch, _NEVER, launch, out, xs)
            sides[f"{kind} past"] = partial(_launch, "", launch, out, xs)
        t = {k: v * 1e3 for k, v in interleaved(sides, rounds=15).items()}
        print(
            f"{name:20s}{t['mp through']:12.2f}{t['mp past']:8.2f}{t['numpy through']:16.2f}{t['numpy past']:8.2f}",
            flush=True,
        )


def _launch(limit: str, launch: Callable[..., None], out: Any, xs: list[Any]) -> None:
    os.environ["MAGPIE_CPU_STREAM"] = limit
    launch(out, *xs)


def _unaligned(x: Any) -> Any:
    """A copy at 16 mod 64, where NumPy's large arrays lie (its allocator may give another one after a change)."""
    memory = np.empty(x.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + 16
    copy = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


if __name__ == "__main__":
    main()
