"""`Magpie.toml`: what a project says about GPUs (specification, section 12). Host programs of `.mp` files read it.

It lies in the folder of the program, or in the nearest one above that has it. `[gpu]` holds for all runs; the keys of
`[gpu.profiles.NAME]` stand in place of its own where MAGPIE_PROFILE names that profile. Tables of others are let be.
"""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from magpie.backends.registry import canonical
from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.records import record

__all__ = ["NAME", "GpuSettings", "find_manifest", "gpu_settings"]

NAME = "Magpie.toml"

_BACKENDS = ("spv", "msl", "ptx", "hip", "wgsl", "cpu", "interp")
#: Key -> what is allowed, as text. `mock_in_tests` is for running tests, and changes nothing of a program.
_KEYS = {
    "backend": f"one of {', '.join(_BACKENDS)}",
    "fallback": '"none" or "cpu"',
    "device_index": "-1 to choose the best device, or the number of one",
    "mock_in_tests": "true or false",
}
#: Tables inside [gpu] that have keys of their own.
_TABLES = ("profiles", "tools")


@record
class GpuSettings:
    """``backend`` is where programs run that name none, None for the best one; ``fallback``: the cpu stands in for what
    this machine does not have; ``device_index`` is a number among the devices, -1 for the best one."""

    backend: str | None = None
    fallback: bool = False
    device_index: int = -1


def find_manifest(folder: Path) -> Path | None:
    """The manifest of a folder: its own, or that of the nearest folder above it."""
    start = folder.resolve()
    return next((f for f in (place / NAME for place in (start, *start.parents)) if _is_file(f)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that may not be looked into has no manifest for us
        return False


def gpu_settings(folder: Path, profile: str | None) -> GpuSettings:
    """What the manifest of a folder says; the defaults where there is none.

    Raises CompileError: a manifest that is no TOML or has keys or values that there are not (MPG_ENV_1007), a profile
    that it does not have (MPG_ENV_1008).
    """
    file = find_manifest(folder)
    if file is None:
        if profile is not None:
            text = f"profile {profile!r} is asked for, and no {NAME} lies in {folder.resolve()} or above it"
            raise CompileError(Diagnostic("MPG_ENV_1008", text, None))
        return GpuSettings()
    return _Manifest(file).settings(profile)


class _Manifest:
    def __init__(self, file: Path) -> None:
        self.file = str(file)
        try:
            data = file.read_bytes()
        except OSError as error:
            text = f"the manifest cannot be read: {error.strerror or error}"
            raise CompileError(Diagnostic("MPG_ENV_1007", text, Loc(self.file, 1))) from None
        try:
            self.text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise CompileError(Diagnostic("MPG_ENV_1007", "the manifest is not UTF-8", Loc(self.file, line))) from None
        try:
            self.document = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise CompileError(Diagnostic("MPG_ENV_1007", *self.position(str(error)))) from None

    def position(self, message: str) -> tuple[str, Loc]:
        """tomllib puts the place at the end of its message."""
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message, re.DOTALL)
        if found is None:
            return message, Loc(self.file, 1)
        if found[2] is None:
            return found[1], Loc(self.file, max(1, len(self.text.splitlines())))
        return found[1], Loc(self.file, int(found[2]), int(found[3]) - 1)

    def settings(self, profile: str | None) -> GpuSettings:
        gpu = self.table(self.document, (), "gpu")
        profiles = self.table(gpu, ("gpu",), "profiles")
        values = self.checked(gpu, ("gpu",), _TABLES)
        every = {
            name: self.checked(self.table(profiles, ("gpu", "profiles"), name), ("gpu", "profiles", name))
            for name in profiles
        }
        if profile is not None:
            if profile not in every:
                known = f"it has {', '.join(every)}" if every else "it has none"
                text = f"there is no profile {profile!r} in this manifest; {known}"
                raise CompileError(Diagnostic("MPG_ENV_1008", text, self.place(("gpu", "profiles"))))
            values |= every[profile]
        backend = values.get("backend")
        return GpuSettings(
            None if backend is None else canonical(backend),
            values.get("fallback") == "cpu",
            values.get("device_index", -1),
        )

    def table(self, parent: dict[str, Any], path: tuple[str, ...], key: str) -> dict[str, Any]:
        found = parent.get(key, {})
        if isinstance(found, dict):
            return found
        raise self.fault((*path, key), f"{'.'.join((*path, key))} is a table")

    def checked(self, table: dict[str, Any], path: tuple[str, ...], tables: tuple[str, ...] = ()) -> dict[str, Any]:
        """The keys of a table that are ours, with values that are allowed."""
        for key, value in table.items():
            if key in tables:
                continue
            name = ".".join((*path, key))
            if key not in _KEYS:
                near = get_close_matches(key, _KEYS, 1)
                help_ = f"did you mean {near[0]}?" if near else f"it may have {', '.join(_KEYS)}"
                raise self.fault((*path, key), f"there is no key {name}", help_)
            if not _allowed(key, value):
                raise self.fault((*path, key), f"{name} is {_shown(value)}; it takes {_KEYS[key]}")
        return {key: value for key, value in table.items() if key not in tables}

    def fault(self, path: tuple[str, ...], text: str, help_: str | None = None) -> CompileError:
        return CompileError(Diagnostic("MPG_ENV_1007", text, self.place(path), help=help_))

    def place(self, path: tuple[str, ...]) -> Loc:
        """Where a key stands, or the header of its table; for other forms of TOML the line of what is nearest."""
        best, depth = Loc(self.file, 1), 0
        inside: tuple[str, ...] = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[([^\[\]]+)\]", line)
            if header is not None:
                inside = tuple(part.strip(" \"'") for part in header[1].split("."))
                found = inside
                column = header.start(1)
            else:
                key = re.match(r"\s*([\w.\"'-]+)\s*=", line)
                if key is None:
                    continue
                found = (*inside, *(part.strip(" \"'") for part in key[1].split(".")))
                column = key.start(1)
            if path[: len(found)] == found and len(found) > depth:
                depth, best = len(found), Loc(self.file, number, column)
        return best


def _allowed(key: str, value: Any) -> bool:
    if key == "backend":
        return isinstance(value, str) and canonical(value) in _BACKENDS
    if key == "fallback":
        return value in ("none", "cpu")
    if key == "device_index":
        return isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 32
    return isinstance(value, bool)


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value).replace("'", '"')
