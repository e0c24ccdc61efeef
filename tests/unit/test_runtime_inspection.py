"""compile, inspect, check, variants: what a kernel shows without running."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.runtime.fingerprint import args_text, fingerprint


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def open_kernel(x, k: mp.constexpr, s):
    x[mp.global_id(0)] = k + s


@mp.kernel
def matrix(x: mp.Array[mp.f32]):
    x[mp.global_id(1), mp.global_id(0)] = 1.0


@mp.kernel
def wrong(x: mp.Array[mp.f32]):
    x[mp.global_id(0)] = undefined_name  # noqa: F821


def test_compile_from_annotations(tmp_path):
    artifact = saxpy.compile()
    assert artifact.backend == "cpu"
    assert artifact.blob
    assert "define" in artifact.text
    assert [p.name for p in artifact.layout.params] == ["a", "x", "y"]
    artifact.save(str(tmp_path / f"saxpy{artifact.extension}"))
    assert (tmp_path / "saxpy.o").read_bytes() == artifact.blob
    assert saxpy.compile().blob == artifact.blob  # the same bytes every time


def test_compile_from_types_and_values():
    layouts = [
        open_kernel.compile(mp.Array[mp.f32, 1], 3, mp.f32).layout,
        open_kernel.compile(np.zeros(2, np.float32), 3, np.float32(1)).layout,
        open_kernel.compile(mp.zeros(2, device="interp"), k=3, s=mp.f32).layout,
    ]
    assert layouts[0] == layouts[1] == layouts[2]
    assert saxpy.compile(mp.f32, mp.Array[mp.f32, 1], y=mp.Array[mp.f32], backend="interp").backend == "interp"
    assert matrix.compile().layout.params[0].rank == 2  # the rank that the kernel can have
    for bad in ((mp.i32,), (mp.f32, mp.f32), (mp.f32, mp.Array[mp.f64]), ("x",)):
        with pytest.raises(mp.LaunchTypeError):
            saxpy.compile(*bad)
    with pytest.raises(mp.LaunchTypeError, match="no value for 'x'"):
        open_kernel.compile()
    with pytest.raises(mp.LaunchValueError):
        saxpy.compile(variant="best")
    with pytest.raises(mp.GpuError):
        saxpy.compile(backend="nonsense")


def test_variants_of_compile():
    fast, general = saxpy.compile(), saxpy.compile(variant="general")
    assert fast.blob != general.blob
    assert fast.layout == general.layout


def test_inspect():
    assert "kernel saxpy" in saxpy.inspect("kir")
    assert "define" in saxpy.inspect("llvm", backend="cpu")
    assert saxpy.inspect("asm")
    assert set(saxpy.stages("cpu")) >= {"kir", "llvm", "asm"}
    assert set(saxpy.stages()) >= set(saxpy.stages("interp"))
    with pytest.raises(mp.LaunchValueError, match="kir"):
        saxpy.inspect("nonsense")
    open_kernel.launch(grid=1, block=1, args=(np.zeros(1, np.float32), 3, 1.0), backend="interp")
    assert "kernel open_kernel" in open_kernel.inspect("kir")  # as last launched


def test_check():
    assert saxpy.check() == []
    assert open_kernel.check() == []  # nothing says what to compile for
    found = wrong.check()
    assert [d.is_error for d in found] == [True]
    assert "undefined_name" in str(found[0])
    assert open_kernel.check(mp.Array[mp.f32, 1], 1, mp.f32) == []


def test_compile_error_has_no_internal_frames():
    with pytest.raises(mp.CompileError) as caught:
        wrong.launch(grid=1, block=1, args=(np.zeros(1, np.float32),), backend="interp")
    assert len(caught.traceback) == 2


OFFSET = 3
SOMETHING = object()


@mp.func
def helper(v):
    return v + OFFSET


def test_fingerprint_follows_what_is_captured():
    global OFFSET
    scale = 1.5

    def one(x):
        t: mp.f32 = helper(x[0]) * scale
        x[0] = t

    def two(x):
        x[0] = SOMETHING

    first = fingerprint(one)
    assert first is not None
    assert fingerprint(one).text == first.text
    assert not first.dependencies.changed()
    OFFSET = 4
    assert first.dependencies.changed()
    second = fingerprint(one)
    assert second.text != first.text
    OFFSET = 3
    assert fingerprint(one).text == first.text
    scale = 2
    assert fingerprint(one).text != first.text
    assert fingerprint(two) is None


def test_args_text_spells_structs_out():
    from magpie.frontend.signature import ArrayArg, ConstArg, ScalarArg

    @mp.struct
    class P:
        x: mp.f32

    other = mp.struct(type("P", (), {"__annotations__": {"x": mp.i32}}))
    texts = [args_text((ScalarArg(p.__magpie_struct__), ArrayArg(mp.f32, 1))) for p in (P, other)]
    assert texts[0] != texts[1]
    constants = [args_text((ConstArg(c),)) for c in (1, 1.0, True, "1", (1,), -0.0, 0.0)]
    assert len(set(constants)) == len(constants)
    assert args_text((ConstArg(object()),)) is None
