"""Stand-ins for vendors' driver libraries, which tests compile from C, and a runtime whose driver uses one."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import shutil
import subprocess
from pathlib import Path

import pytest

import magpie as mp
from magpie.runtime import dispatch

CC = shutil.which("cc")
NEEDS_CC = pytest.mark.skipif(CC is None, reason="no C compiler")


def built(tmp_path_factory, source, *flags):
    """The path of a library made of one of the C files here."""
    out = tmp_path_factory.mktemp("standin") / "libstandin.so"
    command = [CC, "-shared", "-fPIC", "-O1", "-w", *flags, str(Path(__file__).with_name(source)), "-o", str(out)]
    subprocess.run(command, check=True)
    return str(out)


class Fake:
    """The stand-in's own functions, and a runtime whose driver uses it."""

    def __init__(self, driver, path, quiet):
        self.path = path
        self.quiet = quiet
        self.library = ctypes.CDLL(path)
        self.library.fake_log.restype = ctypes.c_char_p
        self.clear()
        self.driver = driver(path)
        assert self.driver.probe() is None
        runtime = dispatch.Runtime()
        runtime._drivers[driver.id] = self.driver
        runtime._reasons[driver.id] = None
        self.old = dispatch.reset(runtime)
        self.device = runtime.device(driver.id)
        self.driver.enter(0)

    def calls(self):
        lines = self.library.fake_log().decode().splitlines()
        return [line.strip() for line in lines if not line.startswith(self.quiet)]

    def names(self):
        return [line.split()[0] for line in self.calls()]

    def clear(self):
        gc.collect()  # what earlier tests left gives its memory back now
        self.library.fake_reset()

    def fail(self, name, code, *, forever=False):
        self.library.fake_fail(name.encode(), code, int(forever))


@contextlib.contextmanager
def installed(driver, path, quiet=()):
    """A runtime with this driver on a stand-in; calls that start with a word of `quiet` are not shown."""
    fake = Fake(driver, path, tuple(quiet))
    try:
        yield fake
    finally:
        fake.clear()
        dispatch.reset(fake.old)


def make_saxpy():
    @mp.kernel
    def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = a * x[i] + y[i]

    return saxpy


class Other:
    """An array of another library, in a stand-in's device memory (which is the host's)."""

    def __init__(self, array, stream=None, read_only=False):
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.stream = stream
        self.read_only = read_only

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.array.ctypes.data, self.read_only),
            "shape": self.array.shape,
            "strides": self.array.strides,
            "typestr": self.array.dtype.str,
            "version": 3,
            "stream": self.stream,
        }
