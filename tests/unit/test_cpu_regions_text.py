"""MAGPIE_DUMP=regions: every barrier region is shown, and of everything that is kept per gang, why."""

from __future__ import annotations

import re

import numpy as np
import pytest

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.cpu import BACKEND
from magpie.dtypes import f32, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Kernel, Slot


@mp.kernel
def staged(x: mp.Array[mp.f32], out: mp.Array[mp.f32], n: mp.i32):
    s = mp.shared(256, mp.f32)
    buf = mp.local(3, mp.f32)
    t = mp.thread_id(0)
    v = x[t]
    acc = 0.0
    last = 0.0
    buf[1] = v
    s[t] = v
    for k in range(n):
        mp.barrier()
        acc += s[t ^ 1] + v
        mp.barrier()
        s[t] = acc
        if k > 0:
            acc += last
        last = v
    if acc > 3.0:
        return
    out[t] = buf[1] + mp.sqrt(v)


@pytest.fixture(scope="module")
def text():
    return staged.inspect("regions", backend="cpu")


def context(text):
    """The rows of the table of context arrays, by the name of what is kept."""
    table = text.split("context arrays", 1)[1]
    return {row.split(":")[0].strip(): row for row in table.splitlines()[1:]}


def test_each_region_with_its_nodes(text):
    assert text.startswith("kernel staged: 4 regions")
    regions = re.findall(r"region (\d)( of a loop with a barrier)?", text.split("context arrays")[0])
    assert regions == [("1", ""), ("2", " of a loop with a barrier"), ("3", " of a loop with a barrier"), ("4", "")]
    assert len(re.findall(r"^ +barrier  # test_cpu_regions_text.py:\d+$", text, re.M)) == 2
    assert len(re.findall(r" = load x\[", text)) == 1, "a load stands in one region"
    assert "again: %" in text and "thread_id 0" in text.split("again: ", 1)[1].splitlines()[0]


def test_a_load_is_kept_since_another_might_differ(text):
    (load,) = re.findall(r"(%\d+) = load x\[", text)
    row = context(text)[load]
    assert "made in region 1 and used in regions 2, 3 and 4, where another load may give something else" in row
    line = staged.fn.__code__.co_firstlineno + 5
    assert row.endswith(f"# test_cpu_regions_text.py:{line}")


def test_slots_arrays_and_lanes_that_are_gone(text):
    rows = context(text)
    assert "set in regions 1, 2 and 3 and read in regions 2, 3 and 4" in rows["acc"]
    assert "set in regions 1 and 3 and read in region 3" in rows["last"]
    assert "used in regions 1 and 4" in rows["buf"]
    assert "some return in region 4" in text
    assert "scalar of the workgroup: k: index" in text
    assert "  k" not in rows and "n" not in rows


@mp.kernel
def tripped(x: mp.Array[mp.f32]):
    v = x[mp.thread_id(0)]
    while mp.uniform(v < 9.0):
        mp.barrier()
        v += 1.0
    x[mp.thread_id(0)] = v


def test_a_condition_that_work_item_0_decides():
    assert "decides a branch around a barrier, with the value of work-item 0" in tripped.inspect("regions", backend="cpu")


def test_a_value_from_the_trip_before():
    x, v, trips = Buffer("x", f32, 1, "read_write"), Slot("v", f32), Slot("trips", index)
    k = Kernel("carried", [x])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    _, body, step = b.loop()
    with b.into(body):
        b.emit("break_if", b.emit("gt", b.get(trips), b.const(3, index)))
        b.emit("barrier")
        b.store(x, (t,), b.get(v))  # in the first trip it is zero, as slots are
        b.set(v, b.load(x, b.emit("xor", t, b.const(1, index))))
    with b.into(step):
        b.set(trips, b.emit("add", b.get(trips), b.const(1, index)))
    text = BACKEND.stages["regions"](k, Options(gang=8))
    assert "its value in region 1 may be that of the trip before" in context(text)["v"]


@mp.kernel
def straight(x: mp.Array[mp.f32]):
    x[mp.global_id(0)] *= 2.0


@mp.kernel
def nothing_crosses(x: mp.Array[mp.f32]):
    t = mp.thread_id(0)
    x[t] = 1.0
    mp.barrier()
    x[t ^ 1] = 2.0


def test_kernels_that_keep_nothing():
    assert "1 region," in straight.inspect("regions", backend="cpu")
    assert "no context arrays: one region" in straight.inspect("regions", backend="cpu")
    text = nothing_crosses.inspect("regions", backend="cpu")
    assert "2 regions" in text and "no context arrays: no value crosses a barrier" in text


def test_a_reduction_is_kept_since_other_lanes_may_be_active():
    @mp.kernel
    def total(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
        t = mp.thread_id(0)
        v = mp.subgroup.sum(x[t])
        mp.barrier()
        out[t] = v

    assert "where other lanes may be active" in total.inspect("regions", backend="cpu")


def test_the_sizes_are_those_of_the_artifact(text):
    (size,) = re.findall(r"context arrays, (\d+) bytes a gang", text)
    artifact = staged.compile(backend="cpu")
    assert artifact.info["arena"]["per_gang"] == int(size)
    assert f"gangs of {artifact.info['gang']} work-items" in text


def test_magpie_dump(monkeypatch, capfd):
    monkeypatch.setenv("MAGPIE_DUMP", "regions")
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    staged.launch(grid=1, block=8, args=(x, out, 1), backend="cpu")
    err = capfd.readouterr().err
    assert "--- staged: regions (cpu) ---" in err and "context arrays" in err and "define" not in err
    assert np.array_equal(out, np.full(8, 2, np.float32))
