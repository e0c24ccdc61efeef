"""Kernels as one writes them for a GPU: nothing in them is there for Magpie's sake."""

from __future__ import annotations

import magpie as mp

TILE = 32


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel(workgroup=256)
def total(x: mp.Array[mp.f32, 1], out: mp.Array[mp.f32, 1]):
    part = mp.shared(8, mp.f32)
    t = mp.thread_id(0)
    s = 0.0
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * 256):
        s += x[i]
    s = mp.subgroup.sum(s)
    if t == 0:
        for k in range(8):
            part[k] = 0.0
    mp.barrier()
    if mp.subgroup.lane() == 0:
        part[mp.subgroup.id()] = s
    mp.barrier()
    if t == 0:
        whole = 0.0
        for k in range(8):
            whole += part[k]
        mp.atomic_add(out, 0, whole)


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
def softmax(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 2]):
    part = mp.shared(8, mp.f32)
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    n = x.shape[1]
    top = float("-inf")
    for k in range(t, n, 256):
        top = max(top, x[row, k])
    top = mp.subgroup.max(top)
    if mp.subgroup.lane() == 0:
        part[mp.subgroup.id()] = top
    mp.barrier()
    top = part[0]
    for k in range(1, mp.subgroup.count()):
        top = max(top, part[k])
    mp.barrier()
    s = 0.0
    for k in range(t, n, 256):
        s += mp.exp(x[row, k] - top)
    s = mp.subgroup.sum(s)
    if mp.subgroup.lane() == 0:
        part[mp.subgroup.id()] = s
    mp.barrier()
    s = 0.0
    for k in range(mp.subgroup.count()):
        s += part[k]
    for k in range(t, n, 256):
        y[row, k] = mp.exp(x[row, k] - top) / s


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
