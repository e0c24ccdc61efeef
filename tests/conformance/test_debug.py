"""print and assert: once per active work-item, with the right values; off, they cost nothing and report nothing."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from .harness import Run, case, empty, targets


@mp.kernel
def k_print(x):
    i = mp.global_id(0)
    if i < x.shape[0] and x[i] > 2:
        mp.print("item", i, "has", x[i])


@mp.kernel
def k_print_formatted(x):
    i = mp.global_id(0)
    if i == 1:
        v = x[i]
        mp.print(f"x[{i}] = {v}!")


@mp.kernel
def k_print_types(a: mp.u8, b: mp.i64, c: mp.f32, e: mp.bool_):
    mp.print(a, b, c, e)


@mp.kernel
def k_print_f64(x: mp.f64):
    mp.print("got", x)


@mp.kernel
def k_assert(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        assert x[i] >= 0, "x must not be negative"
        out[i] = x[i]


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
def test_print_runs_once_per_active_item(target, capfd):
    k_print.launch(grid=2, block=4, args=(np.array([0, 5, 1, 3, 9, 2], np.int32),), device=target.device)
    lines = sorted(capfd.readouterr().out.split("\n"))
    assert lines == ["", "item 1 has 5", "item 3 has 3", "item 4 has 9"]


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
def test_print_of_an_f_string(target, capfd):
    k_print_formatted.launch(grid=1, block=4, args=(np.array([0, 5, 1, 3], np.int32),), device=target.device)
    assert capfd.readouterr().out == "x[1] = 5!\n"


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
def test_print_of_every_kind(target, capfd):
    k_print_types.launch(grid=1, block=1, args=(200, -(2**40), 1.5, True), device=target.device)
    words = capfd.readouterr().out.split()
    assert words[:2] == ["200", str(-(2**40))]
    assert float(words[2]) == 1.5
    assert words[3] in ("True", "1", "true")


@pytest.mark.parametrize("target", [t for t in targets() if t.has(("f64",))], ids=lambda t: t.name)
def test_print_of_f64(target, capfd):
    k_print_f64.launch(grid=1, block=1, args=(0.1,), device=target.device)
    assert capfd.readouterr().out == "got 0.1\n"


@case()
def test_a_true_assert_has_no_effect():
    x = np.arange(70, dtype=np.int32)
    return Run(k_assert, (x, empty(70, mp.i32)), {1: x})


@case()
def test_a_false_assert_is_silent_when_not_checked():
    x = np.arange(70, dtype=np.int32) - 3
    return Run(k_assert, (x, empty(70, mp.i32)), {1: x})


@pytest.mark.parametrize("target", [t for t in targets() if "checked" in t.manifest.capabilities], ids=lambda t: t.name)
def test_a_false_assert_is_reported_in_checked_mode(target):
    x = np.arange(70, dtype=np.int32)
    x[41] = -1
    with pytest.raises(mp.GpuError, match="negative"):
        k_assert.launch(grid=2, block=64, args=(x, empty(70, mp.i32)), device=target.device, checked=True)
