"""How much memory this process may still take: the machine's, or the container's where that is less.

Linux hands out more memory than it has and kills the process that touches it; an allocation that cannot be backed must
therefore be refused before it is made.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

__all__ = ["available_bytes", "cache_bytes", "total_bytes"]

_CGROUP = "/sys/fs/cgroup/"
_CACHE = "/sys/devices/system/cpu/cpu0/cache"

# The most that counts of a shared cache; also where the system does not tell its size.
_SHARED = 32 << 20


def total_bytes() -> int:
    """Physical memory of the machine or limit of the container in bytes; 0 where it cannot be found out."""
    limits = [n for n in (_physical(), _cgroup_limit()) if n]
    return min(limits, default=0)


def available_bytes() -> int:
    """Bytes that can still be had without swapping; a very large number where it cannot be found out."""
    found = [n for n in (_meminfo("MemAvailable"), _cgroup_free()) if n is not None]
    if not found:
        total = _physical()
        return total or 1 << 62
    return min(found)


def cache_bytes(threads: int) -> int:
    """Bytes that a launch on so many threads may hope to find again in the caches.

    The last-level cache is shared with all that runs beside it, on a server with other people's machines: of 300 MiB,
    one thread found 24 again, and sixteen found 40 (benchmarks/bench_memory.py). So at most 32 MiB of it count, and
    what each thread has for itself.
    """
    last, sharing, own = _caches()
    return min(last * max(1, -(-threads // sharing)), _SHARED + own * threads)


@functools.cache
def _caches() -> tuple[int, int, int]:
    """Bytes of the first CPU's last-level cache, how many CPUs share it, bytes of its largest cache of its own.

    From Linux's ABI/stable/sysfs-devices-system-cpu, whose indices rise with the level. A first launch waits for this.
    """
    last, sharing, own = 0, 1, 0
    try:
        for index in sorted((n for n in os.listdir(_CACHE) if n.startswith("index")), reverse=True):
            size = int(_cache_word(index, "size").removesuffix("K")) << 10
            cpus = _count(_cache_word(index, "shared_cpu_list"))
            if not last:
                last, sharing = size, cpus
            if cpus == 1:
                own = size
                break
    except (OSError, ValueError):
        pass
    return (last, sharing, own) if last else (_SHARED, 1 << 16, 0)


def _cache_word(index: str, name: str) -> str:
    with open(f"{_CACHE}/{index}/{name}", "rb", buffering=0) as file:
        return file.read(4096).decode("ascii").strip()


def _count(text: str) -> int:
    """How many CPUs a list such as 0-3,8-11 has."""
    ends = [part.partition("-") for part in text.strip().split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _physical() -> int:
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def _meminfo(name: str) -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _read(name: str) -> str:
    with open(_CGROUP + name, encoding="ascii") as file:
        return file.read()


def _read_number(name: str) -> int | None:
    try:
        text = _read(name).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _cgroup_limit() -> int | None:
    """cgroup v2, then v1 (docs.kernel.org/admin-guide/cgroup-v2.html); "max" and huge numbers mean no limit."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = _read_number(name)
        if limit is not None and limit < 1 << 60:
            return limit
    return None


def _cgroup_free() -> int | None:
    limit = _cgroup_limit()
    if limit is None:
        return None
    for used_name, stat_name, key in (
        ("memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        used = _read_number(used_name)
        if used is None:
            continue
        # Clean file pages count as used and are given back under pressure.
        try:
            stat = dict(line.split() for line in _read(stat_name).splitlines())
            used -= int(stat.get(key, 0))
        except (OSError, ValueError):
            pass
        return max(0, limit - used)
    return None


def _windows_memory() -> int:
    class Status(ctypes.Structure):
        _fields_ = [  # the form that ctypes asks for
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *(
                (name, ctypes.c_uint64)
                for name in ("total", "free", "page", "page_free", "virtual", "virtual_free", "ext")
            ),
        ]

    status = Status()
    status.length = ctypes.sizeof(Status)
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009  # exists on Windows only
    return int(status.total) if kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else 0
