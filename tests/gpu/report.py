"""A pytest plugin: each failure is shown when it happens, so that a run that is cut short has said what it found."""

from __future__ import annotations

import sys
from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")][:6]
        sys.__stderr__.write("\n".join([f"\nFAILED {report.nodeid}", *(f"    {line[:300]}" for line in lines), ""]))
        sys.__stderr__.flush()
