"""Kernels that are bound by memory: how long they take when large outputs go past the cache, and when they do not.

    python benchmarks/bench_memory.py [threads] [case ...]

Each case runs on mp arrays and on NumPy arrays, with MAGPIE_CPU_STREAM at its default (`past`) and so high that nothing
is written past the cache (`through`). Every result is compared with NumPy first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import interleaved

import magpie as mp

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


def main() -> None:
    """Print one line a case: ms on mp arrays and on NumPy arrays, each with and without streaming stores."""
    threads, names = sys.argv[1:2], sys.argv[2:]
    if threads:
        os.environ["MAGPIE_CPU_THREADS"] = threads[0]
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

            def run(limit: str, out: Any = out, xs: Any = xs, launch: Any = launch) -> None:
                os.environ["MAGPIE_CPU_STREAM"] = limit
                launch(out, *xs)

            run("")
            assert np.array_equal(np.asarray(out), expected), name
            sides[f"{kind} through"] = lambda run=run: run("1000000G")  # type: ignore[misc]
            sides[f"{kind} past"] = lambda run=run: run("")  # type: ignore[misc]
        t = {k: v * 1e3 for k, v in interleaved(sides, rounds=15).items()}
        print(
            f"{name:20s}{t['mp through']:12.2f}{t['mp past']:8.2f}{t['numpy through']:16.2f}{t['numpy past']:8.2f}",
            flush=True,
        )


def _unaligned(x: Any) -> Any:
    """A copy at 16 mod 64, where NumPy's large arrays lie (its allocator may give another one after a change)."""
    memory = np.empty(x.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + 16
    copy = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


if __name__ == "__main__":
    main()
