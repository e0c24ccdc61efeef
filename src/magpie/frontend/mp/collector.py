"""Python's cyclic garbage collector stands still while a source is read and checked.

What is made stays until the end, a few hundred megabytes at most, and the collector would look through all of it again
and again: a third of the time of a large source.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_collection"]

_lock = threading.Lock()
_holders = 0
_was_on = False


@contextmanager
def no_collection() -> Iterator[None]:
    """The collector is off inside, in any number of threads, and after the last of them as it was before the first."""
    global _holders, _was_on
    with _lock:
        if not _holders:
            _was_on = gc.isenabled()
            gc.disable()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders and _was_on:
                gc.enable()
