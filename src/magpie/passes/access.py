"""Which buffers a kernel reads and writes."""

from __future__ import annotations

from magpie.ir.nodes import Buffer, Kernel, walk
from magpie.ir.ops import Effect

__all__ = ["infer"]


def infer(kernel: Kernel) -> None:
    """Set `Buffer.access` of every buffer from the loads, stores and atomics of the kernel and its functions.

    This is part of building a kernel, so it is the one pass that writes into its input.
    """
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for body in kernel.bodies():
        for node in walk(body):
            array = node.attrs.get("array")
            if not isinstance(array, Buffer) or node.op in ("extent", "stride"):
                continue
            effect = node.info.effect
            if node.op == "ptr":  # may be used either way
                reads.add(array)
                writes.add(array)
            elif effect is Effect.READ or node.op in ("atomic_load", "tile_load", "copy_async"):
                reads.add(array)
            elif effect is Effect.WRITE or node.op in ("atomic_store", "tile_store"):
                writes.add(array)
            elif effect is Effect.ATOMIC:
                reads.add(array)
                writes.add(array)
    for b in kernel.buffers:
        b.access = {(False, False): "none", (True, False): "read", (False, True): "write", (True, True): "read_write"}[
            (b in reads, b in writes)
        ]
