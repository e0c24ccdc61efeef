"""The record buffer: what `assert`, `print` and checked mode report, on every target that compiles code.

The buffer is `RECORD_HEADER` words of 8 bytes, then records of ``RECORD_WORDS + n`` words, which work-items append. A
driver clears the header before a launch (`clear_records`) and reads the records after it (`read_records`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from magpie.records import record

__all__ = ["RECORD_HEADER", "RECORD_WORDS", "Record", "clear_records", "read_records"]

# Header words of the record buffer: capacity in words after the header, words used (may exceed the capacity: those
# records were dropped), and two reserved.
RECORD_HEADER = 4
# Words of a record before its values: site number | (value words << 32), linear workgroup, linear local id.
RECORD_WORDS = 3


@record
class Record:
    """One report: `site` is an index into ``info["sites"]``; `values` are raw 64-bit words (floats as f64 bits)."""

    site: int
    workgroup: int
    local_id: int
    values: tuple[int, ...]


def clear_records(buffer: Any, nbytes: int) -> None:
    """Write an empty header into a writable ``buffer`` of ``nbytes``."""
    struct.pack_into("<4Q", buffer, 0, nbytes // 8 - RECORD_HEADER, 0, 0, 0)


def read_records(buffer: Any) -> tuple[list[Record], bool]:
    """The records in the order in which they were written, and whether some did not fit."""
    return list(_records(buffer)), struct.unpack_from("<2Q", buffer, 0)[1] > struct.unpack_from("<Q", buffer, 0)[0]


def _records(buffer: Any) -> Iterator[Record]:
    capacity, used = struct.unpack_from("<2Q", buffer, 0)
    at, end = RECORD_HEADER, RECORD_HEADER + min(capacity, used)
    while at + RECORD_WORDS <= end:
        head, workgroup, local_id = struct.unpack_from("<3Q", buffer, 8 * at)
        count = head >> 32
        at += RECORD_WORDS
        if head == 0 or at + count > end:
            return  # a record that did not fit: its head was never written
        yield Record((head & 0xFFFFFFFF) - 1, workgroup, local_id, struct.unpack_from(f"<{count}Q", buffer, 8 * at))
        at += count
