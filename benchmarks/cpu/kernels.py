"""The kernels of the cpu benchmark, each written the way one writes it for a GPU.

Nothing here is arranged for a CPU: one work-item an element, tiles and trees in shared memory, guards where a size may
not be a multiple of the workgroup. Every function is a kernel twice, strict and with fastmath.
"""

from __future__ import annotations

import magpie as mp

# Hull's polynomial for the cumulative normal distribution (Abramowitz and Stegun 26.2.17).
A1, A2, A3, A4, A5 = 0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429
K1, INV_SQRT_2PI = 0.2316419, 0.39894228040143267794


def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def expsin(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = mp.exp(x[i]) + mp.sin(x[i])


def reduce_sum(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    partial = mp.shared(256, mp.f32)
    t = mp.thread_id(0)
    total = 0.0
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * 256):
        total += x[i]
    partial[t] = total
    mp.barrier()
    k = 128
    while k > 0:
        if t < k:
            partial[t] += partial[t + k]
        mp.barrier()
        k //= 2
    if t == 0:
        out[mp.workgroup_id(0)] = partial[0]


def stencil5(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    j, i = mp.global_id(0), mp.global_id(1)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        out[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def matmul_naive(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    j, i = mp.global_id(0), mp.global_id(1)
    if i < c.shape[0] and j < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def matmul_tiled(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    tile_a = mp.shared((16, 16), mp.f32)
    tile_b = mp.shared((16, 16), mp.f32)
    x, y = mp.thread_id(0), mp.thread_id(1)
    j, i = mp.global_id(0), mp.global_id(1)
    total = 0.0
    for k0 in range(0, a.shape[1], 16):
        tile_a[y, x] = a[i, k0 + x]
        tile_b[y, x] = b[k0 + y, j]
        mp.barrier()
        for k in range(16):
            total += tile_a[y, k] * tile_b[k, x]
        mp.barrier()
    c[i, j] = total


def mandelbrot(out: mp.Array[mp.i32, 2], iterations: mp.i32, x0: mp.f32, y0: mp.f32, dx: mp.f32, dy: mp.f32):
    col, row = mp.global_id(0), mp.global_id(1)
    if row < out.shape[0] and col < out.shape[1]:
        cx = x0 + mp.f32(col) * dx
        cy = y0 + mp.f32(row) * dy
        x = 0.0
        y = 0.0
        k = mp.i32(0)
        while k < iterations and x * x + y * y < 4.0:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            k += 1
        out[row, col] = k


def nbody(
    x: mp.Array[mp.f32],
    y: mp.Array[mp.f32],
    z: mp.Array[mp.f32],
    m: mp.Array[mp.f32],
    out: mp.Array[mp.f32, 2],
    eps2: mp.f32,
):
    sx = mp.shared(256, mp.f32)
    sy = mp.shared(256, mp.f32)
    sz = mp.shared(256, mp.f32)
    sm = mp.shared(256, mp.f32)
    i, t = mp.global_id(0), mp.thread_id(0)
    px, py, pz = x[i], y[i], z[i]
    ax = 0.0
    ay = 0.0
    az = 0.0
    for tile in range(0, x.shape[0], 256):
        sx[t], sy[t], sz[t], sm[t] = x[tile + t], y[tile + t], z[tile + t], m[tile + t]
        mp.barrier()
        for j in range(256):
            dx = sx[j] - px
            dy = sy[j] - py
            dz = sz[j] - pz
            q = 1.0 / mp.sqrt(dx * dx + dy * dy + dz * dz + eps2)
            w = sm[j] * q * q * q
            ax += dx * w
            ay += dy * w
            az += dz * w
        mp.barrier()
    out[0, i] = ax
    out[1, i] = ay
    out[2, i] = az


@mp.func
def normal_cdf(d):
    k = 1.0 / (1.0 + K1 * mp.abs(d))
    p = k * (A1 + k * (A2 + k * (A3 + k * (A4 + k * A5))))
    c = INV_SQRT_2PI * mp.exp(-0.5 * d * d) * p
    return 1.0 - c if d > 0.0 else c


def blackscholes(
    s: mp.Array[mp.f32], k: mp.Array[mp.f32], t: mp.Array[mp.f32], out: mp.Array[mp.f32, 2], r: mp.f32, v: mp.f32
):
    i = mp.global_id(0)
    if i < s.shape[0]:
        q = mp.sqrt(t[i])
        d1 = (mp.log(s[i] / k[i]) + (r + 0.5 * v * v) * t[i]) / (v * q)
        d2 = d1 - v * q
        a = normal_cdf(d1)
        b = normal_cdf(d2)
        e = k[i] * mp.exp(-r * t[i])
        out[0, i] = s[i] * a - e * b
        out[1, i] = e * (1.0 - b) - s[i] * (1.0 - a)


def histogram(x: mp.Array[mp.u8], counts: mp.Array[mp.i32]):
    bins = mp.shared(256, mp.i32)
    t = mp.thread_id(0)
    bins[t] = 0
    mp.barrier()
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * 256):
        mp.atomic_add(bins, x[i], 1)
    mp.barrier()
    mp.atomic_add(counts, t, bins[t])


@mp.func
def scan_group(v, s: mp.Array[mp.f32]):
    """Inclusive scan of v over a workgroup of 256 (Hillis and Steele)."""
    t = mp.thread_id(0)
    s[t] = v
    mp.barrier()
    d = 1
    while d < 256:
        left = s[t - d] if t >= d else 0.0
        mp.barrier()
        s[t] += left
        mp.barrier()
        d *= 2
    return s[t]


def scan(x: mp.Array[mp.f32], out: mp.Array[mp.f32], totals: mp.Array[mp.f32]):
    s = mp.shared(256, mp.f32)
    run = mp.local(16, mp.f32)
    base = mp.global_id(0) * 16
    total = 0.0
    for k in range(16):
        total += x[base + k]
        run[k] = total
    until = scan_group(total, s)
    for k in range(16):
        out[base + k] = run[k] + (until - total)
    if mp.thread_id(0) == 255:
        totals[mp.workgroup_id(0)] = until


def scan_totals(totals: mp.Array[mp.f32]):
    s = mp.shared(256, mp.f32)
    run = mp.local(16, mp.f32)
    base = mp.thread_id(0) * 16
    total = 0.0
    for k in range(16):
        run[k] = total
        total += totals[base + k]
    until = scan_group(total, s)
    for k in range(16):
        totals[base + k] = run[k] + (until - total)


def scan_add(out: mp.Array[mp.f32], totals: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] += totals[i >> 12]


def softmax(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    s = mp.shared(256, mp.f32)
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    top = -mp.inf
    for j in range(t, a.shape[1], 256):
        top = mp.max(top, a[row, j])
    s[t] = top
    mp.barrier()
    k = 128
    while k > 0:
        if t < k:
            s[t] = mp.max(s[t], s[t + k])
        mp.barrier()
        k //= 2
    top = s[0]
    mp.barrier()
    total = 0.0
    for j in range(t, a.shape[1], 256):
        e = mp.exp(a[row, j] - top)
        out[row, j] = e
        total += e
    s[t] = total
    mp.barrier()
    k = 128
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    scale = 1.0 / s[0]
    for j in range(t, a.shape[1], 256):
        out[row, j] *= scale


@mp.func
def total_of_group(v, s: mp.Array[mp.f32]):
    """The sum of v over a workgroup of 256, by a tree."""
    t = mp.thread_id(0)
    s[t] = v
    mp.barrier()
    k = 128
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    total = s[0]
    mp.barrier()
    return total


def layernorm(a: mp.Array[mp.f32, 2], g: mp.Array[mp.f32], b: mp.Array[mp.f32], out: mp.Array[mp.f32, 2], eps: mp.f32):
    s = mp.shared(256, mp.f32)
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    width = a.shape[1]
    total = 0.0
    for j in range(t, width, 256):
        total += a[row, j]
    mean = total_of_group(total, s) / mp.f32(width)
    square = 0.0
    for j in range(t, width, 256):
        square += (a[row, j] - mean) * (a[row, j] - mean)
    scale = 1.0 / mp.sqrt(total_of_group(square, s) / mp.f32(width) + eps)
    for j in range(t, width, 256):
        out[row, j] = (a[row, j] - mean) * scale * g[j] + b[j]


def transpose(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    tile = mp.shared((16, 17), mp.f32)
    x, y = mp.thread_id(0), mp.thread_id(1)
    bx, by = mp.workgroup_id(0) * 16, mp.workgroup_id(1) * 16
    tile[y, x] = a[by + y, bx + x]
    mp.barrier()
    out[bx + y, by + x] = tile[x, y]


def conv3x3(a: mp.Array[mp.f32, 2], w: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    j, i = mp.global_id(0), mp.global_id(1)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        total = 0.0
        for r in mp.static_range(3):
            for c in mp.static_range(3):
                total += w[r, c] * a[i + r - 1, j + c - 1]
        out[i, j] = total


def bitonic(a: mp.Array[mp.f32], k: mp.i32, j: mp.i32):
    t = mp.i32(mp.global_id(0))
    i = 2 * t - (t & (j - 1))
    u, v = a[i], a[i + j]
    if (u > v) == ((i & k) == 0):
        a[i] = v
        a[i + j] = u


def gather(x: mp.Array[mp.f32], index: mp.Array[mp.i32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[index[i]]


def scatter(x: mp.Array[mp.f32], index: mp.Array[mp.i32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[index[i]] = x[i]


_FUNCTIONS = (
    saxpy,
    expsin,
    reduce_sum,
    stencil5,
    matmul_naive,
    matmul_tiled,
    mandelbrot,
    nbody,
    blackscholes,
    histogram,
    scan,
    scan_totals,
    scan_add,
    softmax,
    layernorm,
    transpose,
    conv3x3,
    bitonic,
    gather,
    scatter,
)

STRICT = {f.__name__: mp.kernel(f) for f in _FUNCTIONS}
FAST = {f.__name__: mp.kernel(f, fastmath=True) for f in _FUNCTIONS}
