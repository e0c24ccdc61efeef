"""The disk cache: hits, damage, folders that cannot be used, eviction, two processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import magpie as mp
from magpie.runtime import cache
from magpie.runtime.specialise import Specialiser

SCRIPT = """
    import sys
    import numpy as np
    import magpie as mp

    @mp.kernel
    def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = a * x[i] + y[i]

    x = np.arange(1000, dtype=np.float32)
    y = np.ones(1000, np.float32)
    saxpy[4, 256](2.0, x, y)
    assert np.array_equal(y, 2 * x + 1)
    (variant,) = saxpy.variants()
    print("cache" if variant.from_cache else "compiled", "llvmlite" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("MAGPIE_CACHE_DIR", str(path))
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    return path


def launch(times=1):
    """A kernel of its own each time, as a fresh process would have it; gives its variants."""

    @mp.kernel
    def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = a * x[i] + y[i]

    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    saxpy[1, 16](2.0, x, y)
    assert np.array_equal(y, 2 * x + 1)
    return saxpy.variants()


def entries(folder):
    return sorted(p for p in folder.rglob("*.mpk1"))


def test_second_time_comes_from_disk(folder):
    assert [v.from_cache for v in launch()] == [False]
    assert entries(folder)
    assert [v.from_cache for v in launch()] == [True]
    assert not [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".mpk1"]


def test_switched_off(folder, monkeypatch):
    monkeypatch.setenv("MAGPIE_CACHE", "0")
    assert [v.from_cache for v in launch()] == [False]
    assert [v.from_cache for v in launch()] == [False]
    assert not folder.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"X" + data[1:],
        lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: os.urandom(len(data)),
    ],
)
def test_damaged_entries_are_made_again(folder, damage):
    launch()
    for path in entries(folder):
        path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match="MPG_ENV_1004"):
        assert [v.from_cache for v in launch()] == [False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [v.from_cache for v in launch()] == [True]


def test_whole_entry_with_foreign_blob(folder):
    launch()
    store = cache.current()
    for path in entries(folder):
        key = path.parent.name + path.stem
        artifact = store.load(key)
        artifact.blob = b"not code"
        store.store(key, artifact)
    assert [v.from_cache for v in launch()] == [False]
    assert [v.from_cache for v in launch()] == [True]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_folder_that_cannot_be_made(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("MAGPIE_CACHE_DIR", str(blocked / "cache"))
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    with pytest.warns(RuntimeWarning, match="MPG_ENV_1003"):
        launch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        launch()


def test_key_depends_on_everything(folder, monkeypatch):
    launch()
    count = len(entries(folder))

    @mp.kernel
    def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = a * x[i] - y[i]

    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    # Two entries each: one found by the source, one by the IR.
    saxpy[1, 16](2.0, x, y)  # another body
    assert len(entries(folder)) == count + 2
    saxpy[1, 16](2.0, x[::2], y)  # other facts
    assert len(entries(folder)) == count + 4
    saxpy.launch(grid=1, block=16, args=(2.0, x, y), gang=4)  # other options
    assert len(entries(folder)) == count + 6
    monkeypatch.setattr(mp, "__version__", "0.0.0.other")
    fresh = mp.kernel(saxpy.fn)
    fresh[1, 16](2.0, x, y)  # another version
    assert not fresh.variants()[0].from_cache


def test_eviction_takes_the_oldest(tmp_path):
    store = cache.Cache(tmp_path, cap=10_000)
    layout = _layout()
    for n in range(20):
        key = f"{n:040x}"
        store.store(key, cache.Artifact("cpu", "k", bytes(900), layout, ".o"))
        os.utime(store.path(key), (n, n))
    store.load(f"{0:040x}")  # used last, so it stays
    removed = store.evict()
    assert removed > 5
    left = [k for k in range(20) if store.load(f"{k:040x}") is not None]
    assert 0 in left
    assert left[1:] == list(range(20 - len(left) + 1, 20))
    assert sum(size for _, size, _ in store.entries()) <= 10_000
    assert store.clear() == len(left)
    assert store.entries() == []


def _layout():
    from magpie.ir.layout import KernelLayout

    return KernelLayout("k", "word8", (), 0, (), None)


def _run(folder):
    return subprocess.Popen(
        [sys.executable, str(folder / "script.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MAGPIE_BACKEND": "cpu", "MAGPIE_CACHE_DIR": str(folder / "cache")},
    )


def test_processes_at_once(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    children = [_run(tmp_path) for _ in range(3)]
    results = [c.communicate(timeout=120) for c in children]
    assert all(c.returncode == 0 for c in children), results
    for _ in range(4):  # somebody may be editing the package, whose files are part of a development version's keys
        again = _run(tmp_path)
        out, err = again.communicate(timeout=120)
        if out.split()[0] == "cache":
            break
    assert out.split() == ["cache", "False"], (out, err)  # a warm start needs no LLVM
    assert err == ""
    assert len(entries(tmp_path / "cache")) >= 3  # the kernel by source and by IR, and the launcher


def test_lowering_happens_once_per_signature(monkeypatch, folder):
    calls = []
    original = Specialiser._lower

    def counted(self, args):
        calls.append(args)
        return original(self, args)

    monkeypatch.setattr(Specialiser, "_lower", counted)

    @mp.kernel
    def k(x: mp.Array[mp.f32]):
        x[mp.global_id(0)] = 1

    x = np.zeros(8, np.float32)
    k[1, 4](x)
    k[1, 4](x[::2])
    k[2, 4](x)
    assert len(calls) == 1
