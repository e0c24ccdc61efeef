"""``magpie devices``: what this machine can run kernels on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def devices_command(as_json: bool) -> int:
    """Print the devices, the best one first."""
    from magpie.runtime.device import devices

    rows = [
        {
            "device": f"{device.backend}:{device.index}",
            "backend": device.backend,
            "index": device.index,
            "name": device.name,
            "properties": _plain(device.properties),
        }
        for device in devices()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("device", "name", "properties"):
        table.add_column(title, overflow="fold")
    for row in rows:
        shown = ", ".join(f"{key}={value}" for key, value in row["properties"].items())
        table.add_row(row["device"], row["name"], shown)
    Console(highlight=False, markup=False).print(table)
    return 0


def _plain(properties: Any) -> dict[str, Any]:
    """Properties as plain JSON values, whether they come as a mapping or as an object with fields."""
    if not isinstance(properties, Mapping):
        names = getattr(properties, "__dataclass_fields__", None) or vars(properties)
        properties = {name: getattr(properties, name) for name in names}
    return {str(key): _value(value) for key, value in properties.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, tuple | list | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_value(item) for item in items]
    return str(value)
