"""`make demo`: blur a photograph, find its edges, check both against SciPy, and write the picture.

The photograph is `coffee` of scikit-image, by Rachel Michetti, dedicated to the public domain; it is in the wheel.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from scipy import ndimage

from examples.blur_sobel import RADIUS, blurred, edges

SIGMA = 3.0
TOLERANCE = 1e-5  # of a full-scale pixel; float32 sums of 17 taps on both sides
LUMA = np.array([0.2125, 0.7154, 0.0721], np.float32)  # ITU-R BT.709, as skimage.color.rgb2gray

Images = tuple[np.ndarray, np.ndarray]


def photograph() -> np.ndarray:
    """The photograph as float32 planes of shape (3, height, width), 0 to 1."""
    from skimage import data

    pixels = data.coffee()
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32) / np.float32(255)


def luma(planes: np.ndarray) -> np.ndarray:
    """The brightness of each pixel, float32 of shape (height, width)."""
    return np.ascontiguousarray(np.tensordot(LUMA, planes, 1), np.float32)


def with_magpie(planes: np.ndarray) -> Images:
    """Blurred planes, and the edges of the blurred image, by the kernels of ``blur_sobel``."""
    soft = np.stack([blurred(plane, SIGMA) for plane in planes])
    return soft, edges(luma(soft))


def with_scipy(planes: np.ndarray) -> Images:
    """The same by ``scipy.ndimage``."""
    soft = np.stack([ndimage.gaussian_filter(plane, SIGMA, radius=RADIUS, mode="reflect") for plane in planes])
    grey = luma(soft)
    gx = ndimage.sobel(grey, axis=1, mode="reflect")
    gy = ndimage.sobel(grey, axis=0, mode="reflect")
    return soft, np.sqrt(gx * gx + gy * gy)


def timed(
    run: Callable[[np.ndarray], Images], planes: np.ndarray, label: str, repeats: int
) -> tuple[Images, list[float]]:
    """The result of ``run`` and the seconds of each of ``repeats`` calls, with a bar while it lasts."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    seconds = []
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=not console.is_terminal) as progress:
        for _ in progress.track(range(repeats), description=label):
            start = time.perf_counter()
            result = run(planes)
            seconds.append(time.perf_counter() - start)
    return result, seconds


def picture(planes: np.ndarray, soft: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Input, blur and edges side by side, uint8 of shape (height, 3 * width + gaps, 3)."""
    strong = np.clip(edge / np.quantile(edge, 0.995), 0, 1) ** 0.8
    panels = [planes, soft, np.broadcast_to(strong, planes.shape)]
    gap = np.ones((3, planes.shape[1], 8), np.float32)
    row = np.concatenate([panels[0], gap, panels[1], gap, panels[2]], axis=2)
    return (row.clip(0, 1) * 255 + 0.5).astype(np.uint8).transpose(1, 2, 0)


def main() -> int:
    """Run the demo; the exit status is 1 when a result differs from SciPy's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="where the picture goes")
    parser.add_argument("--width", type=int, default=0, help="of the picture in pixels; 0 keeps the photograph's size")
    parser.add_argument("--repeats", type=int, default=20, help="how often each side is timed")
    options = parser.parse_args()

    from PIL import Image  # heavy, and not needed for --help

    from magpie.runtime.device import device as device_named

    device = device_named()
    planes = photograph()
    height, width = planes.shape[1:]
    print(f"photograph     {width} x {height}, 3 colours (scikit-image: coffee)")
    print(f"backend        {device.backend}, {device.name}")

    _, first = timed(with_magpie, planes, "compiling", 1)
    (soft, edge), ours = timed(with_magpie, planes, "Magpie", options.repeats)
    (soft_ref, edge_ref), theirs = timed(with_scipy, planes, "SciPy", options.repeats)

    good = True
    for name, got, wanted in (("Gaussian blur", soft, soft_ref), ("Sobel edges", edge, edge_ref)):
        worst = float(np.abs(got - wanted).max())
        good &= worst <= TOLERANCE
        verdict = "agrees with" if worst <= TOLERANCE else "DIFFERS from"
        print(f"{name:<14} {verdict} SciPy: largest difference {worst:.1e} (allowed {TOLERANCE:.0e})")

    print(f"first call     {first[0] * 1e3:8.2f} ms, with compiling, or loading from the cache")
    print(f"Magpie         {statistics.median(ours) * 1e3:8.2f} ms, median of {options.repeats}")
    print(f"SciPy          {statistics.median(theirs) * 1e3:8.2f} ms, median of {options.repeats}, one thread")

    options.out.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(picture(planes, soft, edge))
    if options.width:
        size = (options.width, round(options.width * image.height / image.width))
        image = image.resize(size, Image.Resampling.LANCZOS)
    image.save(options.out, optimize=True)
    print(f"wrote          {options.out}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
