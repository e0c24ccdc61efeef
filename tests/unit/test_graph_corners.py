"""Corners of the ops of graphs: NaN, saturation, means, values without dimensions. Right values are written out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from graph_tools import parsed

from magpie.diagnostics import CompileError
from magpie.runtime.tensor_graph import TensorGraph

INF, NAN = np.inf, np.nan
BACKENDS = ("cpu", "interp")


def everywhere(text, inputs, wanted):
    """The reference and every backend give ``wanted``, bit by bit."""
    net = TensorGraph(parsed(text))
    found = [net.reference(inputs), *(net.compile(b, opt=o).run(inputs) for b in BACKENDS for o in (0, 2))]
    for got in found:
        for name, want in wanted.items():
            np.testing.assert_array_equal(got[name], want, strict=True)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_argmax_passes_over_nan(dtype):
    x = np.array([[NAN, 1, 3, 3], [2, NAN, 5, NAN], [NAN, -INF, NAN, -INF], [NAN, NAN, NAN, NAN]], np.float32)
    everywhere(
        f"graph g(%x: {dtype}[4, 4]) {{\n%y = argmax %x\nreturn %y\n}}",
        {"x": x},
        {"y": np.array([2, 2, 1, 0], np.int32)},
    )


@pytest.mark.parametrize(
    ("dtype", "zero", "wanted"),
    [
        ("i8", -3, [127, -128, -3, -3, 127, -7]),
        ("u8", 250, [255, 0, 250, 250, 255, 246]),
        ("i32", 2_000_000_000, [2**31 - 1, -(2**31), 2_000_000_000, 2_000_000_000, 2**31 - 1, 1_999_999_996]),
        ("i32", -2_000_000_000, [2**31 - 1, -(2**31), -2_000_000_000, -2_000_000_000, 1_000_000_000, -2_000_000_004]),
    ],
)
def test_quantize_saturates_behind_the_zero_point(dtype, zero, wanted):
    x = np.array([3e38, -INF, NAN, 0.0, 3e9, -3.5], np.float32)
    scale = np.array([1, 1, 1, 0, 1, 1], np.float32)  # 0 / 0 is a NaN too
    everywhere(
        f"graph g(%x: f32[6], %s: f32[6]) {{\n%z: {dtype}[] = const {zero}\n%y = quantize{{to={dtype}}} %x, %s, %z\nreturn %y\n}}",
        {"x": x, "s": scale},
        {"y": np.array(wanted, {"i8": np.int8, "u8": np.uint8, "i32": np.int32}[dtype])},
    )


def test_dequantize_subtracts_without_wrapping():
    x = np.array([-(2**31), 2**31 - 1, 7], np.int32)
    everywhere(
        "graph g(%x: i32[3]) {\n%s: f32[] = const 0.5\n%z: i32[] = const 2000000000\n%n: i32[] = const 0\n"
        "%y = dequantize %x, %s, %z\n%w = dequantize %x, %s, %n\nreturn %y, %w\n}",
        {"x": x},
        {
            "y": np.array(
                [np.float32(-4147483648) / 2, np.float32(147483647) / 2, np.float32(-1999999993) / 2], np.float32
            ),
            "w": np.array([-(2.0**30), 2.0**30, 3.5], np.float32),
        },
    )


@pytest.mark.parametrize("length", [7, 41, 82])
def test_the_mean_of_equal_elements_is_theirs(length):
    x = np.full((2, length), np.float32(7.0))  # 7 * 7 * (1 / 7) and 287 * (1 / 41) are not 7 in f32
    one = np.ones(length, np.float32)
    everywhere(
        f"graph g(%x: f32[2, {length}], %w: f32[{length}], %b: f32[{length}]) {{\n%m = reduce_mean{{axes=[1]}} %x\n"
        f"%l = layernorm{{epsilon=1e-30}} %x, %w, %b\n%i = reshape{{shape=[1, 1, 2, {length}]}} %x\n"
        f"%p = avgpool{{kernel=[2, {length}]}} %i\nreturn %m, %l, %p\n}}",
        {"x": x, "w": one, "b": 3 * one},
        {"m": x[:, 0], "l": np.full_like(x, 3), "p": np.full((1, 1, 1, 1), np.float32(7))},
    )


def test_values_without_dimensions_are_padded_by_nothing():
    x = np.float32(1.5).reshape(())
    everywhere("graph g(%x: f32[]) {\n%y = pad{pads=[]} %x\nreturn %y\n}", {"x": x}, {"y": x})


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("%y = pad{pads=[1, 1], value=nan} %i", "MPG_GRAPH_1004"),
        ("%y = pad{pads=[1, 1], value=-inf} %i", "MPG_GRAPH_1004"),
        ("%y = reshape{shape=[1, 1, 1, 1, 1, 1, 1, 1, 2]} %i", "MPG_GRAPH_1005"),
        ("%y = broadcast{shape=[1, 1, 1, 1, 1, 1, 1, 1, 2]} %i", "MPG_GRAPH_1005"),
        ("%y = relu %y", "MPG_GRAPH_1003"),
    ],
)
def test_one_error_with_its_place(statement, code):
    with pytest.raises(CompileError) as caught:
        parsed(f"graph g(%i: i32[2]) {{\n{statement}\nreturn %y\n}}")
    (found,) = caught.value.diagnostics
    assert found.code == code and found.loc.line == 2


@pytest.mark.parametrize(
    ("text", "shape", "wanted"),
    [
        ("gather{axis=1} %x, %i", (3, 4), lambda x: x[:, [0, -1, 3]]),
        ("concat{axis=2} %x, %x", (2, 3, 4), lambda x: np.concatenate((x, x), axis=2)),
        ("maxpool{kernel=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1]} %x", (1, 2, 5, 6), None),
        ("conv2d{pads=[1, 0, 2, 1], strides=[2, 1]} %x, %w", (2, 2, 4, 5), None),
    ],
)
def test_places_on_tiny_gpu_need_no_warning(text, shape, wanted):
    extents = ", ".join(map(str, shape))
    constants = "%i: i32[3] = const [0, -1, 9]\n%w: i32[3, 2, 2, 3] = const 2\n"
    net = TensorGraph(parsed(f"graph g(%x: i32[{extents}]) {{\n{constants}%y = {text}\nreturn %y\n}}"))
    x = np.random.default_rng(3).integers(-50, 50, shape).astype(np.int32)
    want = net.reference({"x": x})["y"] if wanted is None else wanted(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for level in (0, 2):
            np.testing.assert_array_equal(net.compile("gpu", opt=level).run({"x": x})["y"], want, strict=True)
