"""Launches that were seen before, in machine code: no Python runs between the user's call and the kernel.

`plan` describes one kind of arguments as a table, `text` is the code that reads such a table (LLVM IR, compiled once a
machine and kept on disk), and `library` loads it into this interpreter. What the code does not know it leaves to the
Python path (`fastpath`, `launcher`), which stays the definition of a launch: an interpreter or a machine that the code
is not made for only costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magpie.runtime.launcher import Launcher

__all__ = ["Plan", "activate"]

#: A table for the native code, and the objects that it refers to.
Plan = tuple[bytes, tuple[Any, ...]]

# A launcher tries all of its plans before it takes the long way.
_MOST_PLANS = 4


def activate(launcher: Launcher, make: Callable[[Sequence[Any]], Plan | None], values: Sequence[Any]) -> None:
    """Let launches like the one with `values` take the native path from now on, if `make` has a plan for them."""
    from magpie.runtime.native.library import library

    loaded = library()
    plan = make(values) if loaded is not None else None
    if loaded is None or plan is None:
        return
    launcher.native_plans = (plan, *launcher.native_plans[: _MOST_PLANS - 1])
    # The same objects with the same attributes; only how a call and an index get on is another.
    launcher.__class__ = loaded.launcher_type
    launcher.kernel.__class__ = loaded.kernel_type
