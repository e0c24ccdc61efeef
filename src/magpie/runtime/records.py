"""What a compiled kernel reported while it ran: lines of `print`, failed asserts, faults that checked mode found.

Records of one workgroup stand in the order of its execution; workgroups are put in order here, so that the output does
not depend on threads.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magpie.dtypes import by_name
from magpie.errors import GpuError, GpuErrorKind

if TYPE_CHECKING:
    from magpie.backends.record_format import Record
    from magpie.runtime.driver import Dims

__all__ = ["report"]

#: Kind of a site -> code of the table, and how the report begins.
_FAULTS = {
    "assert": ("MPG_SAN_1011", "assertion failed"),
    "trap": ("MPG_SAN_1011", "trap"),
    "bounds": ("MPG_SAN_1003", "out-of-bounds access"),
    "divide": ("MPG_SAN_1008", "integer division by zero"),
    "uniform": ("MPG_SAN_1013", "a value that is to be the same for the whole workgroup is another one here"),
}


def report(
    records: Sequence[Record], lost: bool, sites: Sequence[Mapping[str, Any]], grid: Dims, block: Dims, backend: str
) -> GpuError | None:
    """Print what was printed, and give the error that the launch ends with, or None.

    The error is that of the first fault, in the order of workgroups, with its place; others are counted.
    """
    ordered = sorted(records, key=lambda r: r.workgroup)
    lines = [_printed(sites[r.site], r) for r in ordered if sites[r.site]["kind"] == "print"]
    if lines:
        more = ["... (more lines did not fit into the record buffer)"] if lost else []
        print("\n".join(lines + more), file=sys.stdout, flush=True)
    faults = [r for r in ordered if sites[r.site]["kind"] in _FAULTS]
    if not faults:
        return None
    first = faults[0]
    return _error(sites[first.site], first, len(faults), lost, grid, block, backend)


def _values(site: Mapping[str, Any], record: Record) -> list[Any]:
    """The record's words as Python numbers, floats through NumPy so that they show as their own type does."""
    out: list[Any] = []
    for word, name in zip(record.values, site["types"], strict=True):
        type_ = by_name(name)
        if type_.is_float:
            value = struct.unpack("<d", struct.pack("<Q", word))[0]
            # bf16 has at most 8 significant bits, of which f32 shows all.
            out.append(value if name in ("f64", "bf16") else type_.numpy.type(value))
        elif type_.is_bool:
            out.append(bool(word))
        else:
            signed = word - (1 << 64) if word >> 63 and type_.is_signed else word
            out.append(signed)
    return out


def _printed(site: Mapping[str, Any], record: Record) -> str:
    pieces = site["pieces"]
    text = str(pieces[0])
    for value, piece in zip(_values(site, record), pieces[1:], strict=False):
        text += str(value) + str(piece)
    return text


def _error(
    site: Mapping[str, Any], record: Record, count: int, lost: bool, grid: Dims, block: Dims, backend: str
) -> GpuError:
    from magpie.diagnostics.diagnostic import Diagnostic
    from magpie.diagnostics.loc import Loc

    code, text = _FAULTS[site["kind"]]
    if site.get("message"):
        text += f": {site['message']}"
    if site["kind"] == "bounds":
        text += f" of {site['array']}[{', '.join(str(v) for v in _values(site, record))}]"
    text += f", by thread {_split(record.local_id, block)} of workgroup {_split(record.workgroup, grid)}"
    loc = None
    if "file" in site:
        loc = Loc(site["file"], site["line"], site.get("col", 0), function=site.get("function", ""))
    notes = []
    if count > 1:
        notes.append((f"{count:,}{' or more' if lost else ''} faults in this launch; this is the first", None))
    diagnostic = Diagnostic(code, text, loc, tuple(notes))
    return GpuError(
        GpuErrorKind.LaunchFailed,
        backend,
        f"{diagnostic}",
        diagnostic=code,
        help="arrays hold what the kernel had written; faulting accesses were left out",
    )


def _split(number: int, dims: Dims) -> Dims:
    """Coordinates of a linear number, x fastest."""
    x, y, _ = dims
    return number % x, number // x % y, number // (x * y)
