"""Host arrays copied for a launch: what is one array on the host is one on the device."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from magpie.runtime.staging import _Stage


class Memory:
    """A driver whose device memory is host memory of its own."""

    def __init__(self):
        self.live = []

    def borrow(self, index, size):
        block = ctypes.create_string_buffer(size)
        self.live.append(block)
        return SimpleNamespace(address=ctypes.addressof(block), block=block)

    def give_back(self, index, allocation):
        self.live.remove(allocation.block)

    def copy_in(self, index, to, source, size):
        ctypes.memmove(to, source, size)

    def copy_out(self, index, to, source, size):
        ctypes.memmove(to, source, size)

    def synchronize(self, index):
        pass


@pytest.fixture
def stage():
    driver = Memory()
    made = _Stage(SimpleNamespace(driver=driver, index=0, id="cuda:0", backend="ptx"))
    yield made
    made.free()
    assert driver.live == []


def element(array, words, *at):
    """What lies on the device where those words say that an element is."""
    rank = array.ndim
    strides = words[1 + rank :]
    place = words[0] + array.itemsize * sum(i * s for i, s in zip(at, strides, strict=True))
    return np.frombuffer((ctypes.c_char * array.itemsize).from_address(place), array.dtype)


@pytest.mark.parametrize("written", [(0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 0)])
def test_one_array_for_three_parameters_is_copied_once(stage, written):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2]
    words = stage.put([(x, name, bool(w)) for name, w in zip("abc", written, strict=True)])
    assert words[0] == words[1] == words[2]
    assert words[0][1:] == (3, 2, 2, 1)
    ctypes.memset(words[0][0], 0, 6 * 4)
    stage.take_back()
    assert (x == 0).all() == any(written)


def test_views_of_one_base_that_are_only_read_have_copies_of_their_own(stage):
    x = np.arange(10.0)
    a, b = stage.put([(x[:8], "a", False), (x[2:], "b", False)])
    assert (a[2], b[2]) == (1, 1)
    assert element(x, a, 2) == element(x, b, 0) == 2
    element(x, a, 2)[...] = 50
    assert element(x, b, 0) == 2


def test_views_that_overlap_and_are_written_overlap_there(stage):
    """Rows forwards, rows backwards, and one column: only the written view's elements come back."""
    x = np.arange(30, dtype=np.int16).reshape(5, 6)
    views = (x[:3, ::2], x[::-1], x[:, 3])
    words = stage.put([(v, name, name == "c") for v, name in zip(views, "abc", strict=True)])
    assert words[0][3:] == (6, 2)
    assert words[1][3:] == (-6, 1)
    for v, w in zip(views, words, strict=True):
        assert all(element(v, w, *at) == v[at] for at in np.ndindex(v.shape))
    element(views[2], words[2], 4)[...] = 77
    assert element(views[1], words[1], 0, 3) == 77
    element(views[1], words[1], 0, 2)[...] = 78
    x[2, 1] = -1  # changed on the host in the meantime, where the kernel writes nothing
    stage.take_back()
    want = np.arange(30, dtype=np.int16).reshape(5, 6)
    want[4, 3] = 77
    want[2, 1] = -1
    assert (x == want).all()


def test_overlap_through_a_third_array(stage):
    x = np.arange(12, dtype=np.float32)
    a, b, c = stage.put([(x[:4], "a", False), (x[8:], "b", False), (x[3:9], "c", True)])
    assert b[0] - a[0] == 32
    assert c[0] - a[0] == 12


def test_parts_side_by_side_are_apart(stage):
    x = np.arange(10.0)
    words = stage.put([(x[:5], "a", True), (x[5:], "b", True), (x[:0], "c", True)])
    element(x, words[0], 4)[...] = -4
    element(x, words[1], 0)[...] = -5
    stage.take_back()
    assert x.tolist() == [0, 1, 2, 3, -4, -5, 6, 7, 8, 9]
