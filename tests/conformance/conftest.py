"""A test of a device that the device cannot do is skipped, with what it lacks."""

from __future__ import annotations

from collections.abc import Generator

import pytest

import magpie as mp

from .harness import Target, beyond


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Where a test takes a target and what it does is refused for a capability or a limit that the target has not."""
    target = getattr(item, "callspec", None) and item.callspec.params.get("target")
    try:
        return (yield)
    except (mp.CompileError, mp.GpuError) as error:
        reason = beyond(target, error) if isinstance(target, Target) else None
        if reason is None:
            raise
        pytest.skip(reason)
