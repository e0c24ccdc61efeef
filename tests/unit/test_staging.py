"""Host arrays copied for a launch: what is one array on the host is one on the device."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import magpie as mp
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


@pytest.mark.parametrize("written", [(0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 0)])
def test_one_array_for_three_parameters_is_copied_once(stage, written):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2]
    words = [stage.put(x, name, bool(w)) for name, w in zip("abc", written, strict=True)]
    assert words[0] == words[1] == words[2]
    assert words[0][1:] == (3, 2, 2, 1)
    ctypes.memset(words[0][0], 0, 6 * 4)
    stage.take_back()
    assert (x == 0).all() == any(written)


def test_views_of_one_base_that_are_only_read_have_copies_of_their_own(stage):
    x = np.arange(10.0)
    a, b = stage.put(x[:8], "a", False), stage.put(x[2:], "b", False)
    assert a[0] != b[0]


def test_views_that_overlap_and_are_written_are_refused(stage):
    x = np.arange(10.0)
    stage.put(x[:8], "a", False)
    with pytest.raises(mp.LaunchValueError) as caught:
        stage.put(x[2:], "b", True)
    assert caught.value.diagnostic == "MPG_LAUNCH_1020"


def test_parts_side_by_side_may_be_written(stage):
    x = np.arange(10.0)
    stage.put(x[:5], "a", True)
    stage.put(x[5:], "b", True)
