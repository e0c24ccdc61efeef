"""Launches under the sanitizer: `kernel.sanitize`, `collecting` and MAGPIE_SANITIZE."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import magpie as mp
from magpie.runtime.sanitize import collecting


@mp.kernel
def double(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * 2


@mp.kernel
def guarded(x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * 2


@mp.kernel
def total(x, out):
    out[0] += x[mp.global_id(0)]


@mp.kernel
def same_value(out):
    out[0] = 1


@mp.kernel
def checks_itself(x):
    i = mp.global_id(0)
    assert x[i] < 3, "too large"
    mp.print("item", i)


def two(n):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_reports_and_results():
    x, y = two(100)
    reports = double.sanitize(grid=2, block=64, args=(x, y))
    assert {r.code for r in reports} == {"MPG_SAN_1003", "MPG_SAN_1004"}
    assert all(r.file == __file__ for r in reports)
    assert all(r.count == 28 for r in reports)
    assert (y == 2 * x).all()
    assert guarded.sanitize(grid=2, block=64, args=(x, y)) == []
    assert guarded.sanitize(grid=0, block=64, args=(x, y)) == []


def test_checks_race_and_order_are_options():
    x, y = two(100)
    assert double.sanitize(grid=2, block=64, args=(x, y), checks=("race", "divide")) == []
    assert double.sanitize(grid=2, block=64, args=(x, y), checks="bounds")
    out = np.zeros(1, np.int32)
    assert same_value.sanitize(grid=2, block=64, args=(out,)) == []
    assert same_value.sanitize(grid=2, block=64, args=(out,), race="strict")
    with pytest.raises(mp.LaunchValueError, match="no check"):
        double.sanitize(grid=2, block=64, args=(x, y), checks=("races",))
    with pytest.raises(mp.LaunchTypeError):
        double.sanitize(grid=2, block=64, args=(x,))
    for seed in range(3):
        (report,) = total.sanitize(grid=2, block=64, args=(np.ones(128, np.float32), np.zeros(1, np.float32)), order=seed)
        assert report.kind == "race"
        assert report.line == report.other_line


def test_mp_arrays_and_scalars_by_keyword():
    x, y = mp.asarray(np.arange(64, dtype=np.float32)), mp.zeros(64, mp.f32)
    assert guarded.sanitize(grid=1, block=64, args=(x,), kwargs={"y": y}) == []
    assert (y.to_numpy() == 2 * np.arange(64)).all()


def test_a_failed_assert_is_a_report(capsys):
    reports = checks_itself.sanitize(grid=1, block=4, args=(np.arange(4, dtype=np.int32),))
    assert [(r.kind, r.work_items[0][1]) for r in reports] == [("assert", (3, 0, 0))]
    assert capsys.readouterr().out.split("\n") == [*(f"item {i}" for i in range(4)), ""]


def test_collecting_watches_launches_of_all_threads_and_ends():
    x, y = two(100)
    guarded[2, 64](x, y)  # a plan that is kept must not be taken inside the block
    with collecting() as reports:
        guarded[2, 64](x, y)
        assert reports == []
        double[2, 64](x, y)
        double[2, 64](x, y)
        thread = threading.Thread(target=lambda: total[2, 64](np.ones(128, np.float32), np.zeros(1, np.float32)))
        thread.start()
        thread.join()
    assert {(r.code, r.count) for r in reports if r.kind == "bounds"} == {("MPG_SAN_1003", 56), ("MPG_SAN_1004", 56)}
    assert [r.kind for r in reports] == ["bounds", "bounds", "race"]
    before = len(reports)
    same = np.zeros(1, np.int32)
    same_value[1, 64](same)
    assert len(reports) == before


def test_the_variable_reports_to_standard_error(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
            import numpy as np
            import magpie as mp

            @mp.kernel
            def double(x, y):
                i = mp.global_id(0)
                y[i] = x[i] * 2

            x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
            for _ in range(3):
                double[2, 64](x, y)
            print((y == 2 * x).all())
        """)
    )
    import os

    env = {**os.environ, "MAGPIE_SANITIZE": "bounds"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True"
    assert done.stderr.count("MPG_SAN_1003") == 1
    assert "program.py:8" in done.stderr
