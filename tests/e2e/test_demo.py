"""The demo and its kernels: the picture is made, and agrees with SciPy at awkward sizes too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from examples import demo
from examples.blur_sobel import RADIUS, blurred, edges


def test_demo_writes_its_picture(tmp_path, monkeypatch, capsys):
    from PIL import Image

    out = tmp_path / "deep" / "demo.png"
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(out), "--repeats", "1", "--width", "300"])
    assert demo.main() == 0
    text = capsys.readouterr().out
    assert text.count("agrees with SciPy") == 2 and "backend" in text
    with Image.open(out) as image:
        assert image.width == 300 and image.mode == "RGB"
        panels = np.asarray(image.convert("L"), np.float32)
    third = panels.shape[1] // 3
    means = [panels[:, k * third : (k + 1) * third].mean() for k in range(3)]
    assert abs(means[0] - means[1]) < 8, "a blur keeps the brightness"
    assert means[2] < means[0], "edges are mostly dark"


def test_demo_fails_when_a_result_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path / "x.png"), "--repeats", "1"])
    right = demo.with_magpie
    monkeypatch.setattr(demo, "with_magpie", lambda planes: (right(planes)[0] + np.float32(1e-3), right(planes)[1]))
    assert demo.main() == 1
    assert "DIFFERS from" in capsys.readouterr().out


# One pixel, thinner than the blur is wide, one tile exactly, one more than a tile, prime sizes.
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (5, 3), (16, 16), (17, 33), (97, 31)])
def test_kernels_agree_with_scipy(shape):
    image = np.random.default_rng(7).random(shape, np.float32)
    wanted = ndimage.gaussian_filter(image.astype(np.float64), 2.0, radius=RADIUS, mode="reflect")
    np.testing.assert_allclose(blurred(image, 2.0), wanted, atol=2e-6)
    gx, gy = (ndimage.sobel(image.astype(np.float64), axis=axis, mode="reflect") for axis in (1, 0))
    np.testing.assert_allclose(edges(image), np.hypot(gx, gy), atol=2e-5)
