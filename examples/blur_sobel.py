"""A Gaussian blur and a Sobel edge filter, as a user would write them.

Both treat the border as SciPy's ``mode="reflect"`` does: the image continues as its own mirror image, with the edge
pixel repeated (d c b a | a b c d | d c b a).
"""

from __future__ import annotations

import math

import numpy as np

import magpie as mp

TILE = 16  # a workgroup computes TILE x TILE pixels
RADIUS = 8  # taps of the blur on each side
TAPS = 2 * RADIUS + 1
EDGE = TILE + 2 * RADIUS  # the tile and its halo


@mp.func
def mirrored(i, n):
    """The pixel inside 0..n-1 that stands at ``i``, which may lie any distance outside."""
    while i < 0 or i >= n:
        if i < 0:
            i = -1 - i
        else:
            i = 2 * n - 1 - i
    return i


@mp.kernel
def blur(image: mp.Array[mp.f32, 2], weights: mp.Array[mp.f32, 1], out: mp.Array[mp.f32, 2]):
    """Separable blur: each workgroup loads its tile with a halo once, then works in shared memory only."""
    tile = mp.shared((EDGE, EDGE), mp.f32)
    rows = mp.shared((EDGE, TILE), mp.f32)
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    height = image.shape[0]
    width = image.shape[1]
    left = mp.workgroup_id(0) * TILE - RADIUS
    top = mp.workgroup_id(1) * TILE - RADIUS

    for v in range(ty, EDGE, TILE):
        for u in range(tx, EDGE, TILE):
            tile[v, u] = image[mirrored(top + v, height), mirrored(left + u, width)]
    mp.barrier()

    for v in range(ty, EDGE, TILE):
        across = 0.0
        for k in range(TAPS):
            across += weights[k] * tile[v, tx + k]
        rows[v, tx] = across
    mp.barrier()

    x = mp.global_id(0)
    y = mp.global_id(1)
    if x < width and y < height:
        total = 0.0
        for k in range(TAPS):
            total += weights[k] * rows[ty + k, tx]
        out[y, x] = total


@mp.kernel
def sobel(image: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    """The length of the Sobel gradient at each pixel."""
    x = mp.global_id(0)
    y = mp.global_id(1)
    height = image.shape[0]
    width = image.shape[1]
    if x < width and y < height:
        west = mirrored(x - 1, width)
        east = mirrored(x + 1, width)
        north = mirrored(y - 1, height)
        south = mirrored(y + 1, height)
        gx = image[north, east] - image[north, west]
        gx += 2.0 * (image[y, east] - image[y, west])
        gx += image[south, east] - image[south, west]
        gy = image[south, west] - image[north, west]
        gy += 2.0 * (image[south, x] - image[north, x])
        gy += image[south, east] - image[north, east]
        out[y, x] = math.sqrt(gx * gx + gy * gy)


def gaussian_weights(sigma: float) -> np.ndarray:
    """The ``TAPS`` weights of a Gaussian, float32, with sum 1, as ``scipy.ndimage.gaussian_filter1d`` makes them."""
    k = np.arange(-RADIUS, RADIUS + 1)
    weights = np.exp(-0.5 * (k / sigma) ** 2)
    return (weights / weights.sum()).astype(np.float32)


def grid_for(image: np.ndarray) -> tuple[int, int]:
    """How many workgroups of ``TILE`` x ``TILE`` cover the image, x first."""
    height, width = image.shape
    return mp.cdiv(width, TILE), mp.cdiv(height, TILE)


def blurred(image: np.ndarray, sigma: float) -> np.ndarray:
    """A float32 image of shape (height, width), blurred."""
    out = np.empty_like(image)
    blur[grid_for(image), (TILE, TILE)](image, gaussian_weights(sigma), out)
    return out


def edges(image: np.ndarray) -> np.ndarray:
    """The edges of a float32 image of shape (height, width)."""
    out = np.empty_like(image)
    sobel[grid_for(image), (TILE, TILE)](image, out)
    return out
