"""Rows of gangs whose full ones run without a test: which guards allow it, where it is done, and the values."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from frontend_helpers import define

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.cpu.guards import find_guard
from magpie.backends.cpu.pipeline import emitter
from magpie.backends.cpu.stretches import in_a_stretch
from magpie.backends.llvm import codegen
from magpie.frontend.signature import ArrayArg, ScalarArg
from magpie.ir.layout import compute_layout
from magpie.passes.access import infer
from magpie.runtime.compiling import with_facts
from magpie.runtime.specialise import Variant

# Guards: whether the gangs that agree follow each other in a row, and their truth; t is thread_id(0).
GUARDS = {
    # several things at once, the same for the row or lines along it
    "j < n": (True, lambda j, i, t, n: j < n),
    "0 < j < n - 1 and i < n": (True, lambda j, i, t, n: (0 < j) & (j < n - 1) & (i < n)),
    "not (j < 3 or j >= n)": (True, lambda j, i, t, n: (j >= 3) & (j < n)),
    "900 - 2 * j > n": (True, lambda j, i, t, n: 900 - 2 * j > n),
    "mp.i32(mp.thread_id(0)) + 5 < 400": (True, lambda j, i, t, n: t + 5 < 400),
    "j < 60 * i": (True, lambda j, i, t, n: j < 60 * i),
    "mp.thread_id(0) + 3 < n": (True, lambda j, i, t, n: t + 3 < n),
    "i % 2 == 0 and j < n": (True, lambda j, i, t, n: (i % 2 == 0) & (j < n)),
    # one thing or another: the gangs at both ends agree, those between do not
    "j < 30 or j >= n": (False, lambda j, i, t, n: (j < 30) | (j >= n)),
    "not (30 < j < n)": (False, lambda j, i, t, n: (j <= 30) | (j >= n)),
    # lines in each gang that do not go on in the next
    "j % 64 < 32": (False, lambda j, i, t, n: j % 64 < 32),
    "j // 64 < n // 128": (False, lambda j, i, t, n: j // 64 < n // 128),
    "mp.thread_id(0) % 64 + j < n": (False, lambda j, i, t, n: t % 64 + j < n),
    # may wrap around
    "n - 2 * j > 3": (False, lambda j, i, t, n: n - 2 * j > 3),
    "mp.i32(j) + mp.i32(n) < 400": (False, lambda j, i, t, n: j + n < 400),
    "mp.u32(j) - mp.u32(30) < mp.u32(n)": (False, lambda j, i, t, n: (j - 30) % 2**32 < n),
}


@functools.cache
def guarded(condition, work="x[i, j] * w[0] + w[1]"):
    source = f"""
        @mp.kernel
        def k(x: mp.Array[mp.f32, 2], w: mp.Array[mp.f32], out: mp.Array[mp.f32, 2], n: mp.index):
            j, i = mp.global_id(0), mp.global_id(1)
            if {condition}:
                out[i, j] = {work}
    """
    return define(source)["k"]


def emitted(kernel, workgroup, gang=16):
    """What will emit the kernel's module, for launches of which all facts hold."""
    args = (ArrayArg(mp.f32, 2), ArrayArg(mp.f32, 1), ArrayArg(mp.f32, 2), ScalarArg(mp.index))
    found = kernel._specialiser().lower(args).kernel
    infer(found)
    found = with_facts(found, Variant(True, False, workgroup))
    return emitter(found, compute_layout(found), Options(gang=gang), codegen.host_target())


@pytest.mark.parametrize("condition", GUARDS)
def test_guards_whose_gangs_follow_each_other(condition):
    found = emitted(guarded(condition), (256, 1, 1))
    (run,) = found.plan.runs
    guard = find_guard(run.nodes, found.env)
    allowed = guard is not None and in_a_stretch(guard, found.env, run.again, run.reads)
    assert allowed is GUARDS[condition][0]


class Loops:
    """Notes which runs of the kernels compiled meanwhile have a loop without a test."""

    def __init__(self, monkeypatch):
        from magpie.backends.cpu.gang_loops import GangLoops

        self.made = []
        whole = GangLoops.stretch

        def stretch(*args):
            found = whole(*args)
            self.made.append(found is not None)
            return found

        monkeypatch.setattr(GangLoops, "stretch", stretch)


@pytest.mark.parametrize(
    ("workgroup", "gang", "work", "made"),
    [
        ((256, 1, 1), 16, "x[i, j] * w[0]", True),
        ((256, 1, 1), 32, "x[i, j] * w[0]", True),
        ((256, 1, 1), 64, "x[i, j] * w[0]", False),  # few gangs
        ((64, 1, 1), 16, "x[i, j] * w[0]", False),
        ((64, 4, 1), 16, "x[i, j] * w[0]", True),  # workgroups abreast are one row
        ((64, 4, 1), 16, "x[i, j] * w[mp.thread_id(0) // 64]", False),  # unless their work-items know which is theirs
        ((256, 1, 1), 16, "x[i, j] * 3", False),  # nothing to take out of it
        ((256, 1, 1), 16, "mp.exp(x[i, j] * w[0])", False),  # a test is nothing beside it
    ],
)
def test_where_it_is_done(monkeypatch, workgroup, gang, work, made):
    loops = Loops(monkeypatch)
    emitted(guarded("i < out.shape[0] and j < out.shape[1]", work), workgroup, gang).emit()
    assert loops.made == [made]


def test_uniform_loads_leave_the_loop():
    """The loads of w stand in blocks that no loop over gangs comes back to."""
    text = emitted(guarded("i < out.shape[0] and j < out.shape[1]"), (256, 1, 1)).emit().text
    blocks = codegen.optimize(text, codegen.host_target(), opt_level=2).split("\n\n")
    full = [b for b in blocks if "= load <16 x float>" in b]
    assert full
    assert not any("= load float" in b for b in full)


@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("condition", GUARDS)
def test_values(monkeypatch, condition, gang):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    rows, columns = 8, 1000
    i, j = np.indices((rows, columns))
    x = np.random.default_rng(2).random((rows, columns), dtype=np.float32)
    w = np.array([3, 5], np.float32)
    kernel = guarded(f"j < out.shape[1] and ({condition})")
    for block in ((500, 1), (40, 4), (64, 8)):
        for n in (0, 1, 37, 500, 1000):
            out = np.full((rows, columns), 7, np.float32)
            kernel.launch(grid=(-(-columns // block[0]), rows // block[1]), block=block, args=(x, w, out, n), gang=gang)
            inside = GUARDS[condition][1](j, i, j % block[0], n)
            assert np.array_equal(out, np.where(inside, x * w[0] + w[1], np.float32(7))), (block, n)
