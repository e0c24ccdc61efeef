"""Stores that go past the cache: which may is decided here, which do by every launch for itself.

A store to a line that is not in the cache reads the line first, and drives another one out. For an output larger than
the cache both are for nothing; x86's streaming stores (movnt) collect a whole line and write it to memory. Of a smaller
output they would only take from the cache what the next kernel reads, so the launch block holds the size from which
they are used (`abi.STREAM_WORD`).

A buffer may be streamed if this launch only writes it, and nothing else overlaps it; a store, if it is that of a full
gang of consecutive elements, and no loop comes back to its place. What a launch still has to find out, in one test a
store, is whether whole lines are written: gangs of whole lines at a multiple of 64 bytes do that, and so do shorter or
shifted ones (NumPy's arrays lie at 16 mod 64) as long as the next gang goes on where this one ends. A line of which a
part comes much later costs two writes to memory, so that is tried in workgroups of one row only (a 5-point stencil at
16 mod 64 in workgroups of 128 by 2 took 17.8 ms instead of 10.7).

Streaming stores may be seen late by other threads: a fence for other workgroups, and the end of a range of workgroups,
wait for them (`Streams.drain`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from magpie.backends.cpu import abi
from magpie.backends.cpu.launch import Launch
from magpie.backends.cpu.plain import plain
from magpie.backends.llvm.codegen import HostTarget
from magpie.backends.llvm.emitter import Code
from magpie.ir.nodes import Buffer, Kernel, Node, Slot, walk

__all__ = ["Past", "Streams", "find_streams"]

_LINE = 64
# The narrowest streaming store. LLVM splits wider ones into these where they are not aligned to their own size.
_PIECE = 16
# Bytes of a workgroup from which the two lines that it shares with its neighbours do not matter.
_LONG_ROW = 512


@plain
class Past:
    """How one store goes past the cache: where no bit of ``mask`` is set in its address. ``pieces``: it may lie at a
    multiple of 16 bytes only. ``size``: its bytes."""

    mask: str
    pieces: bool
    size: int


def find_streams(kernel: Kernel) -> dict[Node, bool]:
    """The stores that may go past the cache, and whether each stands in a loop."""
    facts = kernel.facts
    if not facts.noalias:
        return {}
    outputs = {b for b in kernel.buffers if b.access == "write" and b.name in facts.contiguous}
    found: dict[Node, bool] = {}
    stack: list[tuple[list[Node], tuple[Node, ...]]] = [(kernel.body, ())]
    while stack:
        region, loops = stack.pop()
        for node in region:
            if node.op == "store" and node.attrs["array"] in outputs and all(_moves(node, loop) for loop in loops):
                found[node] = bool(loops)
            inner = (*loops, node) if node.op == "loop" and _repeats(node) else loops
            stack.extend((r, inner) for r in node.regions)
    return found


def _repeats(loop: Node) -> bool:
    """False for the loop of one trip that an inlined function with early returns becomes."""
    body = loop.regions[0]
    return not (body and body[-1].op == "break" and all(n.op != "continue" for n in walk(body)))


def _moves(store: Node, loop: Node) -> bool:
    """Whether the address of a store is another in each trip of a loop around it, by all appearances.

    It is if it rests on a slot that goes on from trip to trip: each of its settings in the loop rests on such slots. A
    slot that begins anew in every trip, as the counter of a loop inside, comes back to the same lines.
    """
    inside = [n for r in loop.regions for n in walk(r)]
    atomics = {n for n in inside if n.op.startswith("atomic")}
    settings: dict[Slot, list[Node]] = {}
    for node in inside:
        if node.op == "slot_set":
            settings.setdefault(node.attrs["slot"], []).append(node.args[0])
    going = set(settings)
    while True:
        left = {s for s in going if all(_rests_on([value], going, atomics) for value in settings[s])}
        if left == going:
            return _rests_on(store.args[:-1], going, atomics)
        going = left


def _rests_on(roots: Iterable[Node], slots: set[Slot], nodes: set[Node]) -> bool:
    """Whether a value is computed from one of these slots or nodes."""
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in nodes or (node.op == "slot_get" and node.attrs["slot"] in slots):
            return True
        stack.extend(node.args)
    return False


class Streams:
    """The streaming stores of one kernel. What they need of the launch is computed in the entry block."""

    def __init__(self, kernel: Kernel, launch: Launch, target: HostTarget, width: int, *, large: bool) -> None:
        self.launch = launch
        self.code: Code = launch.code
        self.width = width
        self.stores = find_streams(kernel) if target.is_x86 and not large else {}
        self.large: dict[Buffer, str] = {}  # i1: the launch writes so much of it that it should go past the cache
        self.masks: dict[tuple[Buffer, bool, str], str] = {}
        self.following: dict[str, str] = {}
        self.any_large = ""
        self.metadata = ""  # of a streaming store, once there is one

    def past(self, node: Node, itemsize: int) -> Past | None:
        """How a full gang's store of ``itemsize`` bytes a lane, side by side, goes past the cache; None: never."""
        if node not in self.stores:
            return None
        buffer, size = node.attrs["array"], self.width * itemsize
        whole, follows = size % _LINE == 0, "false"
        if size >= _PIECE and not self.stores[node]:
            follows = self.follows(buffer)
        if not whole and follows == "false":
            return None
        return Past(self.mask(buffer, whole, follows), follows != "false", size)

    def mask(self, buffer: Buffer, whole: bool, follows: str) -> str:
        """The bits that must be zero in an address: all, if the store has to be an ordinary one."""
        found = self.masks.get((buffer, whole, follows))
        if found is None:
            mask = str(_LINE - 1) if whole else "-1"
            if follows == "true":
                mask = str(_PIECE - 1)
            elif follows != "false":
                mask = self.entry(f"select i1 {follows}, i64 {_PIECE - 1}, i64 {mask}")
            found = self.entry(f"select i1 {self.is_large(buffer)}, i64 {mask}, i64 -1")
            self.masks[buffer, whole, follows] = found
        return found

    def entry(self, text: str) -> str:
        return self.code.op_in(self.code.entry, text)

    def follows(self, buffer: Buffer) -> str:
        """An i1: the next gang goes on where one ends, since a workgroup is one row, and a long one."""
        launch = self.launch
        row = launch.times(launch.size(0), str(buffer.type.itemsize))
        rows = launch.times(launch.size(1), launch.size(2))
        if row.isdigit() and rows.isdigit():
            return "true" if rows == "1" and int(row) >= _LONG_ROW else "false"
        found = self.following.get(row)
        if found is None:
            long = self.entry(f"icmp uge i64 {row}, {_LONG_ROW}")
            one = self.entry(f"icmp eq i64 {rows}, 1")
            found = self.following[row] = self.entry(f"and i1 {one}, {long}")
        return found

    def is_large(self, buffer: Buffer) -> str:
        """An i1: this launch writes more of ``buffer`` than the cache should keep."""
        found = self.large.get(buffer)
        if found is None:
            launch, stores = self.launch, [s for s in self.stores if s.attrs["array"] is buffer]
            elements = "1"
            for d in range(buffer.rank):
                elements = launch.times(elements, launch.extent(buffer, d))
            if not any(self.stores[s] for s in stores):  # as many elements as there are work-items, at most
                items = launch.times(launch.tail(abi.ITEMS_WORD), str(len(stores)))
                fewer = self.entry(f"icmp ult i64 {items}, {elements}")
                elements = self.entry(f"select i1 {fewer}, i64 {items}, i64 {elements}")
            size = launch.times(elements, str(buffer.type.itemsize))
            found = self.entry(f"icmp uge i64 {size}, {launch.tail(abi.STREAM_WORD)}")
            self.large[buffer] = found
        return found

    def store(self, type_: str, vectors: list[tuple[str, str]], itemsize: int, suffix: str, past: Past) -> None:
        """Stores of a full gang that follow each other: past the cache where the launch and their address allow it.

        ``vectors`` are (value, pointer); together they make whole lines, or the next gang goes on where they end.
        """
        c = self.code
        if not self.metadata:
            self.metadata = c.module.node("!{i32 1}")
        at = c.op(f"ptrtoint ptr {vectors[0][1]} to i64")
        fits = c.op(f"icmp eq i64 {c.op(f'and i64 {at}, {past.mask}')}, 0")
        around, through, join = c.block("past"), c.block("through"), c.block("stored")
        c.cbr(fits, around, through)
        c.place(around)
        ways = [(_LINE, around)]
        if past.pieces:
            line, pieces = c.block("line"), c.block("pieces")
            low = c.op(f"and i64 {at}, {_LINE - 1}")
            c.cbr(c.op(f"icmp eq i64 {low}, 0"), line, pieces)
            ways = [(_LINE, line), (_PIECE, pieces)]
        for first, block in ways:
            if block is not around:
                c.place(block)
            for number, (value, pointer) in enumerate(vectors):
                alignment = math.gcd(first, number * past.size // len(vectors))
                c.do(f"store {type_} {value}, ptr {pointer}, align {alignment}{suffix}, !nontemporal {self.metadata}")
            c.br(join)
        c.place(through)
        for value, pointer in vectors:
            c.do(f"store {type_} {value}, ptr {pointer}, align {itemsize}{suffix}")
        c.br(join)
        c.place(join)

    def drain(self) -> None:
        """Wait until what may have gone past the cache is where other threads see it."""
        c = self.code
        if not self.stores:
            return
        if not self.any_large:
            for buffer in dict.fromkeys(store.attrs["array"] for store in self.stores):
                large = self.is_large(buffer)
                self.any_large = self.entry(f"or i1 {self.any_large}, {large}") if self.any_large else large
        wait, on = c.block("drain"), c.block("drained")
        c.cbr(self.any_large, wait, on)
        c.place(wait)
        c.module.declare("llvm.x86.sse.sfence", "void", "")
        c.do("call void @llvm.x86.sse.sfence()")
        c.br(on)
        c.place(on)
