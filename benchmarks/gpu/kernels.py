"""Kernels as one writes them for a GPU: nothing in them is there for Magpie's sake."""

from __future__ import annotations

import magpie as mp

TILE = 32


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def copy(x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i]


@mp.kernel(workgroup=(TILE, 8))
def transpose(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 2]):
    tile = mp.shared((TILE, TILE + 1), mp.f32)
    i, j = mp.thread_id(0), mp.thread_id(1)
    column, row = mp.workgroup_id(0) * TILE, mp.workgroup_id(1) * TILE
    for k in range(0, TILE, 8):
        tile[j + k, i] = x[row + j + k, column + i]
    mp.barrier()
    for k in range(0, TILE, 8):
        y[column + j + k, row + i] = tile[i, j + k]


@mp.kernel(workgroup=256)
def softmax(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 2], n: mp.constexpr):
    """One workgroup a row of n elements, a multiple of 1,024; they stay in registers between the passes."""
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    v = mp.local(n // 256, mp.f32)
    for k in range(n // 1024):
        for j in range(4):
            v[4 * k + j] = x[row, 1024 * k + 4 * t + j]
    top = float("-inf")
    for k in range(n // 256):
        top = max(top, v[k])
    top = mp.workgroup.max(top)
    s = 0.0
    for k in range(n // 256):
        v[k] = mp.exp(v[k] - top)
        s += v[k]
    scale = 1.0 / mp.workgroup.sum(s)
    for k in range(n // 1024):
        for j in range(4):
            y[row, 1024 * k + 4 * t + j] = v[4 * k + j] * scale


@mp.kernel(workgroup=256)
def layernorm(
    x: mp.Array[mp.f32, 2],
    weight: mp.Array[mp.f32, 1],
    bias: mp.Array[mp.f32, 1],
    y: mp.Array[mp.f32, 2],
    eps: mp.f32,
    n: mp.constexpr,
):
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    v = mp.local(n // 256, mp.f32)
    for k in range(n // 1024):
        for j in range(4):
            v[4 * k + j] = x[row, 1024 * k + 4 * t + j]
    s = 0.0
    for k in range(n // 256):
        s += v[k]
    mean = mp.workgroup.sum(s) / n
    s = 0.0
    for k in range(n // 256):
        v[k] -= mean
        s += v[k] * v[k]
    scale = mp.rsqrt(mp.workgroup.sum(s) / n + eps)
    for k in range(n // 1024):
        for j in range(4):
            c = 1024 * k + 4 * t + j
            y[row, c] = v[4 * k + j] * scale * weight[c] + bias[c]


@mp.kernel(workgroup=(TILE, TILE), fastmath=True)
def matmul(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    left, right = mp.shared((TILE, TILE), mp.f32), mp.shared((TILE, TILE), mp.f32)
    i, j = mp.thread_id(0), mp.thread_id(1)
    column, row = mp.global_id(0), mp.global_id(1)
    s = 0.0
    for k in range(0, a.shape[1], TILE):
        left[j, i] = a[row, k + i]
        right[j, i] = b[k + j, column]
        mp.barrier()
        for m in range(TILE):
            s += left[j, m] * right[m, i]
        mp.barrier()
    c[row, column] = s


@mp.kernel(fastmath=True)
def mandelbrot(out: mp.Array[mp.i32, 2], most: mp.i32):
    column, row = mp.global_id(0), mp.global_id(1)
    if column < out.shape[1] and row < out.shape[0]:
        cr = -2.0 + mp.f32(column) * (3.0 / mp.f32(out.shape[1]))
        ci = -1.5 + mp.f32(row) * (3.0 / mp.f32(out.shape[0]))
        zr, zi, n = 0.0, 0.0, 0
        while n < most and zr * zr + zi * zi <= 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            n += 1
        out[row, column] = n


@mp.kernel(workgroup=256, fastmath=True)
def nbody(p: mp.Array[mp.f32, 2], force: mp.Array[mp.f32, 2]):
    px, py, pz, pm = (mp.shared(256, mp.f32), mp.shared(256, mp.f32), mp.shared(256, mp.f32), mp.shared(256, mp.f32))
    i, t = mp.global_id(0), mp.thread_id(0)
    x, y, z = p[0, i], p[1, i], p[2, i]
    fx, fy, fz = 0.0, 0.0, 0.0
    for k in range(0, p.shape[1], 256):
        px[t] = p[0, k + t]
        py[t] = p[1, k + t]
        pz[t] = p[2, k + t]
        pm[t] = p[3, k + t]
        mp.barrier()
        for m in range(256):
            dx, dy, dz = px[m] - x, py[m] - y, pz[m] - z
            r = mp.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
            w = pm[m] * r * r * r
            fx += w * dx
            fy += w * dy
            fz += w * dz
        mp.barrier()
    force[0, i] = fx
    force[1, i] = fy
    force[2, i] = fz
