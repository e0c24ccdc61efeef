"""Each code of the cpu backend has a kernel that gets it; everything that is refused stands in docs/CPU.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.cpu import BACKEND, pipeline, validate
from magpie.backends.llvm import codegen
from magpie.diagnostics import CompileError, table
from magpie.diagnostics.explain import explain
from magpie.frontend.signature import ArrayArg
from magpie.ir.layout import compute_layout

PAGE = Path(__file__).resolve().parents[2] / "docs" / "CPU.md"


@mp.kernel
def plain(x: mp.Array[mp.f32, 1]):
    x[mp.global_id(0)] = 1.0


@mp.kernel
def skipping(x: mp.Array[mp.f32, 1]):
    t = mp.thread_id(0)
    for _ in range(3):
        mp.barrier()
        if t < 5:
            continue
        x[t] += 1.0


@mp.kernel
def roomy(x: mp.Array[mp.f32, 1]):
    table = mp.local(1 << 21, mp.f32)
    table[int(x[0])] = 1.0
    x[0] = table[3]


def launch(kernel):
    fresh = mp.kernel(kernel.fn)  # nothing of it is compiled
    return lambda x: fresh.launch(grid=1, block=16, args=(x,), backend="cpu")


def op_without_code(monkeypatch):
    monkeypatch.setattr(validate, "supported", lambda op: op != "store")
    return launch(plain)


def gang_of_five(monkeypatch):
    kernel = plain._specialiser().lower((ArrayArg(mp.f32, 1),)).kernel
    return lambda x: BACKEND.emit(kernel, compute_layout(kernel), Options(gang=5))


def jumps_left_as_they_are(monkeypatch):
    # The pass that makes branches of them is the only thing between such a kernel and a wrong result.
    monkeypatch.setattr(pipeline, "branches_for_jumps", lambda kernel: kernel)
    return launch(skipping)


def large_local_array(monkeypatch):
    return launch(roomy)


def broken_code_generator(monkeypatch):
    def fail(*args, **kwargs):
        raise codegen.CodegenError("LLVM ERROR: Cannot select")

    monkeypatch.setattr(codegen, "compile_object", fail)
    return launch(plain)


TRIGGERS = [
    ("MPG_CPU_1001", op_without_code, "no code for 'store'"),
    ("MPG_CPU_1001", gang_of_five, "5 work-items"),
    ("MPG_CPU_1002", jumps_left_as_they_are, "decides what happens around a barrier"),
    ("MPG_CPU_1004", large_local_array, "8388608 bytes a work-item"),
    ("MPG_CPU_1005", broken_code_generator, "Cannot select"),
]


@pytest.mark.parametrize(("code", "trigger", "text"), TRIGGERS, ids=[f.__name__ for _, f, _ in TRIGGERS])
def test_every_code_is_given(monkeypatch, code, trigger, text):
    x = np.full(16, 7, np.float32)
    monkeypatch.setenv("MAGPIE_CACHE", "0")
    run = trigger(monkeypatch)
    with pytest.raises(CompileError) as caught:
        run(x)
    (found,) = caught.value.diagnostics
    assert found.code == code and text in found.message
    assert found.loc is not None and found.loc.file == __file__
    assert (x == 7).all(), "nothing ran"


def test_the_table_has_no_other_codes():
    assert {code for code in table() if code.startswith("MPG_CPU_")} == {code for code, _, _ in TRIGGERS}


def test_names_of_older_documents():
    assert "XPU-N01 is now MPG_CPU_1001" in explain("XPU-N01")
    assert "XPU-N02 is now MPG_CPU_1002" in explain("xpu-n02")
    assert "MPG_CORE_1400" in explain("XPU-N02"), "where most of what was called N02 is found today"


def test_the_jumps_themselves_run():
    x = np.zeros(16, np.float32)
    skipping.launch(grid=1, block=16, args=(x,), backend="cpu")
    assert x.tolist() == [0] * 5 + [3] * 11


def test_the_page_lists_what_is_refused():
    listed = set(re.findall(r"MPG_[A-Z]+_\d{4}", PAGE.read_text().split("## What is refused")[1]))
    assert {code for code, _, _ in TRIGGERS} <= listed
    assert listed <= set(table())


@mp.kernel(requires=("cooperative_groups",))
def whole_grid(x: mp.Array[mp.f32, 1]):
    x[0] = 1.0
    mp.grid_sync()


def test_what_the_target_lacks():
    with pytest.raises(mp.CompileError) as caught:
        whole_grid.compile(backend="cpu")
    (found,) = caught.value.diagnostics
    assert found.code == "MPG_CORE_1200" and "grid_sync" in found.message and "cpu does not have" in found.message
