"""The page that steps through a launch: one file, with the data in it and nothing to load."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from magpie.backends.tgpu.view import Shown

__all__ = ["page", "page_data"]


def page(shown: Shown) -> str:
    """The page as text."""
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    # Nothing in a script element may look like its end.
    data = json.dumps(page_data(shown), separators=(",", ":")).replace("<", "\\u003c")
    return template.replace("@TITLE@", html.escape(shown.launch.name)).replace('"@DATA@"', data)


def page_data(shown: Shown) -> dict[str, Any]:
    """What the page knows, as plain data: buffers, and the kernels with their cycles."""
    launch = shown.launch
    buffers = [
        {"name": name, "addr": b.addr, "size": b.size, "dtype": b.dtype, "shape": list(b.shape), "kind": b.kind}
        for name, b in launch.buffers.items()
    ]
    return {"name": launch.name, "buffers": buffers, "kernels": [_kernel(shown, i) for i in shown.kernels]}


def _kernel(shown: Shown, position: int) -> dict[str, Any]:
    kernel, result = shown.launch.kernels[position], shown.results[position]
    history, program = result.history, kernel.program
    labels: dict[int, list[str]] = {}
    for name, address in program.labels.items():
        labels.setdefault(address, []).append(name)
    count = program.registers
    return {
        "name": kernel.name,
        "op": kernel.op,
        "value": kernel.value,
        "grid": list(kernel.grid),
        "code": [[str(i), i.comment, labels.get(at, [])] for at, i in enumerate(program.instructions)],
        "registers": history.registers[:count].tolist(),
        "memory": history.memory.tolist(),
        "shared": history.shared.tolist(),
        "opcodes": result.opcodes,
        "instructions": result.instructions,
        "threadCycles": result.thread_cycles.tolist(),
        "cycles": [
            {
                "pc": cycle.pc.tolist(),
                "ran": cycle.executed.tolist(),
                "state": "".join(map(str, cycle.state.tolist())),
                "r": [row for row in cycle.registers.tolist() if row[0] < count],
                "m": cycle.memory.tolist(),
                "s": cycle.shared.tolist(),
            }
            for cycle in history.cycles
        ],
    }
