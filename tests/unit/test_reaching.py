"""Reaching definitions against the definition: what random runs through the control flow of a kernel read."""

from __future__ import annotations

import random
import time

import pytest

from magpie.dtypes import bool_, i32
from magpie.ir.builder import Builder
from magpie.ir.nodes import Kernel, Node, Region, Slot, walk
from magpie.ir.verify import verify
from magpie.passes.reaching import Definition, Reaching, reaching_definitions

SLOTS = 3


def fill(rng: random.Random, b: Builder, slots: list[Slot], depth: int, in_loop: bool) -> None:
    """Append a few random gets, sets, branches, loops and ways out of them to the builder's region."""
    for _ in range(rng.randrange(3, 8)):
        slot = rng.choice(slots)
        kind = rng.choice(["get", "get", "set", "set", "if", "loop", "break_if", "jump"])
        if kind == "get":
            b.get(slot)
        elif kind == "set":
            b.set(slot, b.const(rng.randrange(100), i32))
        elif kind == "if" and depth:
            _, *arms = b.if_(b.const(True, bool_))
            for arm in arms:
                with b.into(arm):
                    fill(rng, b, slots, depth - 1, in_loop)
        elif kind == "loop" and depth:
            _, body, step = b.loop()
            with b.into(body):
                fill(rng, b, slots, depth - 1, True)
            with b.into(step):
                b.set(rng.choice(slots), b.const(1, i32))
                b.get(rng.choice(slots))
                if rng.random() < 0.5:
                    b.emit("break_if", b.const(True, bool_))
        elif kind == "break_if" and in_loop:
            b.emit("break_if", b.const(True, bool_))
        elif kind == "jump" and rng.random() < 0.3:
            b.emit(rng.choice(["break", "continue"]) if in_loop else "return")
            return


class Run:
    """One run with random conditions. What each slot holds is the set that ran last, and the outermost loop around that
    set whose back edge was taken since."""

    def __init__(self, rng: random.Random, seen: Reaching) -> None:
        self.rng = rng
        self.seen = seen
        self.now: dict[Slot, Definition] = {}
        self.loops: list[Node] = []
        self.left = 300

    def region(self, region: Region) -> str:
        for node in region:
            self.left -= 1
            op = node.op
            if op == "slot_get":
                self.seen.setdefault(node, set()).add(self.now.get(node.attrs["slot"], (None, None)))
            elif op == "slot_set":
                self.now[node.attrs["slot"]] = (node, None)
            elif op in ("break", "continue", "return") or (op == "break_if" and self.rng.random() < 0.4):
                return "break" if op == "break_if" else op
            elif op == "if":
                way = self.region(self.rng.choice(node.regions))
                if way:
                    return way
            elif op == "loop":
                self.loops.append(node)
                way = self.loop(node)
                self.loops.pop()
                if way:
                    return way
        return ""

    def loop(self, node: Node) -> str:
        inside = {n for region in node.regions for n in walk(region)}
        while True:
            way = self.region(node.regions[0])
            if way not in ("return", "break"):
                way = self.region(node.regions[1])
            if way or self.left < 0:
                return "return" if way == "return" or not way else ""
            for slot, (made, crossed) in self.now.items():
                if made in inside and (crossed is None or crossed not in self.loops):
                    self.now[slot] = (made, node)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_what_reaches_is_what_runs_read(first: int) -> None:
    read = missing = 0
    for seed in range(first, first + 50):
        rng = random.Random(seed)
        kernel = Kernel("t", workgroup=(1, 1, 1))
        fill(rng, Builder(kernel.body), [Slot(f"s{k}", i32) for k in range(SLOTS)], 4, False)
        verify(kernel)
        seen: Reaching = {}
        for _ in range(250):
            Run(rng, seen).region(kernel.body)
        found = reaching_definitions(kernel)
        for get, definitions in seen.items():
            assert definitions <= found[get], f"seed {seed}: {get} reads {definitions - found[get]}"
        read += sum(map(len, seen.values()))
        missing += sum(len(found[get] - seen.get(get, set())) for get in found)
    # what only unlikely runs do is not seen
    assert read > 500 and missing < 0.5 * read


def test_loops_in_each_other_are_walked_once() -> None:
    """An analysis that goes round each loop until nothing changes needs two to the power of the depth of steps."""
    kernel = Kernel("t", workgroup=(1, 1, 1))
    b = Builder(kernel.body)
    gets = []
    slots = [Slot(f"i{k}", i32) for k in range(60)]
    for slot in slots:
        b.set(slot, b.const(0, i32))
        _, body, step = b.loop()
        b.region = step
        b.set(slot, b.const(1, i32))
        b.region = body
        gets.append(b.get(slot))
        b.emit("break_if", b.const(True, bool_))
    start = time.process_time()
    found = reaching_definitions(kernel)
    assert time.process_time() - start < 2
    assert [len(found[get]) for get in gets] == [2] * len(slots)
