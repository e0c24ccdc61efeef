"""What the benchmarks share: interleaved medians, and a C compiler to compare with.

Two sides are timed in turn, A B A B ..., so that a machine whose speed drifts slows both, and the median is quoted.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping

__all__ = ["c_function", "interleaved", "table"]


def interleaved(sides: Mapping[str, Callable[[], object]], rounds: int = 11, warmup: int = 2) -> dict[str, float]:
    """Median seconds of each side over ``rounds``, the sides taking turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for r in range(rounds + warmup):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            elapsed = time.perf_counter() - start
            if r >= warmup:
                times[name].append(elapsed)
    return {name: statistics.median(ts) for name, ts in times.items()}


def c_function(source: str, name: str, flags: tuple[str, ...] = ("-O3", "-march=native")) -> ctypes._NamedFuncPointer:
    """``name`` of the C ``source``, compiled with gcc into a cached shared library."""
    compiler = os.environ.get("CC", "gcc")
    key = hashlib.sha256(repr((source, compiler, flags)).encode()).hexdigest()[:16]
    path = os.path.join(tempfile.gettempdir(), f"magpie-bench-{key}.so")
    if not os.path.exists(path):
        command = [compiler, *flags, "-shared", "-fPIC", "-x", "c", "-", "-o", path + ".tmp", "-lm"]
        subprocess.run(command, input=source.encode(), check=True)
        os.replace(path + ".tmp", path)
    function = getattr(ctypes.CDLL(path), name)
    function.restype = None
    return function


def table(title: str, medians: Mapping[str, float], base: str) -> str:
    """Medians in ms, each with its ratio to ``base`` (above 1: slower than the base)."""
    lines = [title]
    for name, t in medians.items():
        lines.append(f"  {name:34s} {t * 1e3:10.3f} ms   {t / medians[base]:7.3f} x {base}")
    return "\n".join(lines)
