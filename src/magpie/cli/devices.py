"""``magpie devices``: what this machine can run kernels on, and why the rest is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError

if TYPE_CHECKING:
    from magpie.runtime.device import Device

_SHOWN_APART = ("name", "backend", "index", "capabilities")


def devices_command(as_json: bool) -> int:
    """Print the devices, the best one first, then the backends that have none."""
    from magpie.runtime.device import device, devices

    found = devices()
    missing = _missing()
    try:
        chosen = device().id
        trouble = None
    except GpuError as error:  # a forced backend that is not there must not hide the others
        chosen, trouble = None, str(error)
    if as_json:
        rows = [{**_plain(each.properties), "device": each.id, "default": each.id == chosen} for each in found]
        print(json.dumps({"devices": rows, "unavailable": missing}, indent=2))
        return 0
    _print_table(found, chosen)
    for id_, reason in missing.items():
        print(f"{id_:<8} not available: {reason}")
    if trouble is not None:
        print(f"error: {trouble}")
        return 1
    return 0


def _print_table(found: list[Device], chosen: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("device", "name", "properties"):
        table.add_column(title, overflow="fold")
    for each in found:
        properties = _plain(each.properties)
        shown = ", ".join(f"{key} {_text(key, value)}" for key, value in properties.items() if _worth(key, value))
        capabilities = ", ".join(properties.get("capabilities") or ())
        mark = " *" if each.id == chosen else ""
        more = f"\ncapabilities: {capabilities}" if capabilities else ""
        table.add_row(f"{each.id}{mark}", each.name, shown + more)
    Console(highlight=False, markup=False).print(table)
    print("* runs a launch that names no device")


def _missing() -> dict[str, str]:
    """The backends that cannot run here, under the names that people use, with the reason."""
    from magpie.backends.registry import DISPLAY_NAMES, backend_ids
    from magpie.runtime.dispatch import runtime

    reasons = {id_: runtime().unavailable(id_) for id_ in backend_ids()}
    return {DISPLAY_NAMES.get(id_, id_): reason for id_, reason in reasons.items() if reason is not None}


def _worth(key: str, value: Any) -> bool:
    return key not in _SHOWN_APART and value not in (0, None, "")


def _text(key: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and ("bytes" in key or "memory" in key):
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size:
                return f"{value / size:.4g} {unit}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties as plain JSON values."""
    return {str(key): _value(value) for key, value in properties.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, tuple | list | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_value(item) for item in items]
    return str(value)
