"""Turns the regions of a kernel into closures over a frame: one call a node at run time, and no look-ups.

A frame is a list of registers; register 0 holds the chunk. A closure takes the frame and the mask of active lanes.
Pure ops ignore the mask: all of them are total, so they run dense over the chunk, which was measured four times cheaper
than masked arithmetic. Only control flow gives a new mask (see `control`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.access import AccessCompiler
from magpie.backends.interp.context import Mask, merge, minus, split
from magpie.backends.interp.debug import compile_assert, compile_print, compile_trap
from magpie.backends.interp.guards import guard_of, loop_arithmetic
from magpie.backends.interp.heap import HEAP_OPS, compile_heap
from magpie.backends.interp.numerics import implementation, scalar
from magpie.backends.interp.numerics.lanes import select
from magpie.backends.interp.progress import Progress, steering_slots
from magpie.backends.interp.registers import Registers
from magpie.backends.interp.subgroups import rows_of
from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node, Region, Slot, walk

__all__ = ["Compiled", "compile_kernel"]

Frame = list[Any]
Closure = Callable[[Frame, Mask], Any]

_LEAF_DIMS = {"thread_id", "workgroup_id", "workgroup_size", "num_workgroups", "global_id"}
_LEAF_PLAIN = {"linear_local_id", "subgroup_size", "subgroup_lane", "subgroup_id", "subgroup_count"}
_CONTROL = {"if", "loop", "break", "break_if", "continue", "return"}


class Compiled:
    """A kernel as closures: run ``body(frame, True)`` on a frame made from ``initial`` and the leaves filled in."""

    def __init__(self, body: Closure, registers: Registers, leaves: list[tuple[int, Node]], returned: int) -> None:
        self.body = body
        self.initial = registers.initial
        self.arrays = registers.arrays
        self.slots = registers.slots
        self.leaves = leaves
        self.returned = returned


def compile_kernel(kernel: Kernel, sanitize: bool, checks: frozenset[str] = frozenset()) -> Compiled:
    """Closures for a prepared kernel; with ``sanitize`` they tell the sanitizer what they do."""
    return _Compiler(kernel, sanitize, checks).compile()


class _Compiler:
    def __init__(self, kernel: Kernel, sanitize: bool, checks: frozenset[str]) -> None:
        self.kernel = kernel
        self.sanitize = sanitize
        self.checks = checks
        self.registers = Registers(kernel)
        self.chunk = self.registers.permanent()
        assert self.chunk == 0
        self.returned = self.registers.permanent()
        self.leaves: list[tuple[int, Node]] = []
        self.continued: list[int] = []
        self.implicit = loop_arithmetic(kernel.body) if "overflow" in checks else frozenset()
        self.access = AccessCompiler(self.registers, sanitize, kernel)

    def compile(self) -> Compiled:
        self._hoist()
        body = self.region(self.kernel.body)
        return Compiled(body, self.registers, self.leaves, self.returned)

    def _hoist(self) -> None:
        """Constants, parameters, ids and shapes do not change within a chunk: they are registers, not code."""
        shared: dict[tuple[Any, ...], int] = {}
        for node in walk(self.kernel.body):
            op, attrs = node.op, node.attrs
            if op == "const":
                value = scalar(node.dtype, attrs["value"])
                self.registers.hold(node, self.registers.permanent(value))
                continue
            if op in _LEAF_DIMS:
                key: tuple[Any, ...] = (op, attrs["dim"])
            elif op in _LEAF_PLAIN:
                key = (op,)
            elif op == "param":
                key = (op, attrs["name"])
            elif op in ("extent", "stride"):
                key = (op, attrs["array"], attrs["dim"])
            else:
                continue
            if key not in shared:
                shared[key] = self.registers.permanent()
                self.leaves.append((shared[key], node))
            self.registers.hold(node, shared[key])

    # --- regions ---------------------------------------------------------------------------------------------------
    def region(self, region: Region) -> Closure:
        number = self.registers.numbers[id(region)]
        segments: list[tuple[tuple[Closure, ...], Closure | None]] = []
        straight: list[Closure] = []
        for position, node in enumerate(region):
            place = (number, position)
            if node.op in _CONTROL:
                control = self.control(node)
                self.registers.release(place)
                segments.append((tuple(straight), control))
                straight = []
                continue
            made = self.node(node, place)
            if made is not None:
                straight.append(made)
        if straight or not segments:
            segments.append((tuple(straight), None))
        if len(segments) == 1 and segments[0][1] is None:
            return _straight(segments[0][0])
        return _sequence(tuple(segments))

    def node(self, node: Node, place: tuple[int, int]) -> Closure | None:
        """The closure of an op without control flow; None for one that needs no code."""
        if node.info.name in ("const", "param", "extent", "stride") or node.op in _LEAF_DIMS or node.op in _LEAF_PLAIN:
            self.registers.release(place)
            return None
        args = [self.registers.of(a) for a in node.args]
        self.registers.release(place)
        target = self.registers.make(node) if node.type is not None else -1
        if node.op == "slot_get":
            return _copy(target, self.slot(node.attrs["slot"]))
        if node.op == "slot_set":
            return _set(self.slot(node.attrs["slot"]), args[0])
        if node.op in HEAP_OPS:
            return compile_heap(node, target, args)
        if node.info.pure:
            return self.pure(node, target, args)
        if node.op.startswith("subgroup_") and node.op != "subgroup_barrier":
            return self.subgroup(node, target, args)
        if node.op == "barrier" or node.op == "grid_sync":
            return self.barrier(node)
        if node.op == "subgroup_barrier":
            return self.sync(lambda r, m: r[0].sanitizer.subgroup_barrier(r[0], m))
        if node.op == "fence":
            order, scope = node.attrs.get("order") or "acq_rel", node.attrs.get("scope") or "device"
            return self.sync(lambda r, m: r[0].sanitizer.fence(r[0], m, order, scope))
        if node.op == "assert":
            return compile_assert(node, args[0]) if self.sanitize else None
        if node.op == "print":
            return compile_print(node, args)
        if node.op == "trap":
            return compile_trap(node)
        return self.access.compile(node, target, args)

    def sync(self, closure: Closure) -> Closure | None:
        return closure if self.sanitize else None

    def slot(self, slot: Slot) -> int:
        return self.registers.slot(slot, lambda s: scalar(_scalar_type(s.type), 0))

    # --- values ----------------------------------------------------------------------------------------------------
    def pure(self, node: Node, d: int, args: list[int]) -> Closure:
        fn = implementation(node.op, node.dtype, [a.dtype for a in node.args])
        # Nodes of the math library are strict: what wraps there is meant to.
        if self.sanitize and node not in self.implicit and not node.attrs.get("strict"):
            guarded = guard_of(node, fn, d, args, self.checks)
            if guarded is not None:
                return guarded
        if node.op == "select":
            c, a, b = args

            def choose(r: Frame, m: Mask) -> None:
                r[d] = select(r[c], r[a], r[b])

            return choose
        if len(args) == 1:
            (a,) = args

            def one(r: Frame, m: Mask) -> None:
                r[d] = fn(r[a])

            return one
        if len(args) == 2:
            a, b = args

            def two(r: Frame, m: Mask) -> None:
                r[d] = fn(r[a], r[b])

            return two
        a, b, c = args

        def three(r: Frame, m: Mask) -> None:
            r[d] = fn(r[a], r[b], r[c])

        return three

    def subgroup(self, node: Node, d: int, args: list[int]) -> Closure:
        op, attrs = node.op, node.attrs
        if op in ("subgroup_reduce", "subgroup_scan"):
            kind, type_, a = attrs["kind"], node.args[0].dtype, args[0]
            if op == "subgroup_reduce":

                def reduce(r: Frame, m: Mask) -> None:
                    r[d] = rows_of(r[0].launch, r[0].k).reduce(kind, type_, r[a], m)

                return reduce
            exclusive = bool(attrs.get("exclusive"))

            def scan(r: Frame, m: Mask) -> None:
                r[d] = rows_of(r[0].launch, r[0].k).scan(kind, type_, r[a], m, exclusive)

            return scan
        if op in ("subgroup_ballot", "subgroup_any", "subgroup_all"):
            a, name = args[0], op.removeprefix("subgroup_")

            def vote(r: Frame, m: Mask) -> None:
                r[d] = getattr(rows_of(r[0].launch, r[0].k), name)(r[a], m)

            return vote
        if op == "subgroup_ballot_word":
            a, shift = args[0], np.uint64(32 * attrs["word"])

            def word(r: Frame, m: Mask) -> None:
                r[d] = (rows_of(r[0].launch, r[0].k).ballot(r[a], m) >> shift).astype(np.uint32)

            return word
        if op == "subgroup_elect":

            def elect(r: Frame, m: Mask) -> None:
                r[d] = rows_of(r[0].launch, r[0].k).first(m)

            return elect
        return self.shuffle(node, d, args)

    def shuffle(self, node: Node, d: int, args: list[int]) -> Closure:
        a, b = args
        how = node.op.removeprefix("subgroup_")
        sanitize = self.sanitize

        def shuffle(r: Frame, m: Mask) -> None:
            chunk = r[0]
            rows = rows_of(chunk.launch, chunk.k)
            operand = np.asarray(r[b]).astype(np.int64)
            if how == "shuffle_xor":
                source = rows.lane ^ operand
            elif how == "shuffle_up":
                source = rows.lane - operand
            elif how == "shuffle_down":
                source = rows.lane + operand
            else:
                source = operand
            r[d], valid = rows.shuffle(r[a], source, m)
            if sanitize:
                chunk.sanitizer.shuffle(chunk, node, rows, how, source, valid, m)

        return shuffle

    def barrier(self, node: Node) -> Closure:
        whole = node.op == "grid_sync"
        returned = self.returned
        sanitize = self.sanitize

        def barrier(r: Frame, m: Mask) -> None:
            chunk = r[0]
            if m is not True:
                chunk.launch.barriers.divergent(chunk, node, m, r[returned], whole)
            if sanitize:
                chunk.sanitizer.barrier(chunk, m, whole)

        return barrier

    # --- control ---------------------------------------------------------------------------------------------------
    def control(self, node: Node) -> Closure:
        op = node.op
        if op == "if":
            return self.if_(node)
        if op == "loop":
            return self.loop(node)
        if op == "break":
            return _nobody
        if op == "break_if":
            return _break_if(self.registers.of(node.args[0]))
        if op == "continue":
            return _leave(self.continued[-1])
        return _leave(self.returned)

    def if_(self, node: Node) -> Closure:
        c = self.registers.of(node.args[0])
        then, other = (self.region(x) if x else None for x in node.regions)
        exits = any(_leaves_region(x) for x in node.regions)
        watched = any(n.op in ("barrier", "grid_sync") for x in node.regions for n in walk(x))

        def plain(r: Frame, m: Mask) -> Mask:
            yes, no = split(m, r[c])
            if yes is not None and then is not None:
                yes = then(r, yes)
            if no is not None and other is not None:
                no = other(r, no)
            return merge(yes, no) if exits else m

        if not watched:
            return plain

        def tracked(r: Frame, m: Mask) -> Mask:
            trail = r[0].launch.barriers.trail
            yes, no = split(m, r[c])
            if yes is not None and then is not None:
                trail.append((node, m, yes))
                yes = then(r, yes)
                trail.pop()
            if no is not None and other is not None:
                trail.append((node, m, no))
                no = other(r, no)
                trail.pop()
            return merge(yes, no) if exits else m

        return tracked

    def loop(self, node: Node) -> Closure:
        body_region, step_region = node.regions
        continued = self.registers.permanent()
        self.continued.append(continued)
        body = self.region(body_region)
        self.continued.pop()
        step = self.region(step_region) if step_region else None
        returned = self.returned if any(n.op == "return" for n in walk(body_region)) else 0
        progress = Progress(node, [self.slot(s) for s in steering_slots(node)], self.access.written(node))
        watched = any(n.op in ("barrier", "grid_sync") for n in walk(body_region))

        def loop(r: Frame, m: Mask) -> Mask:
            live = m
            trips = 0
            look_at = progress.first
            saved = r[continued]
            before = None
            while True:
                r[continued] = None
                if watched:
                    r[0].launch.barriers.trail.append((node, m, live))
                live = body(r, live)
                if watched:
                    r[0].launch.barriers.trail.pop()
                live = merge(live, r[continued])
                if live is not None and step is not None:
                    live = step(r, live)
                if live is None:
                    break
                trips += 1
                if trips == look_at or before is not None:
                    before = progress.look(r, live, before)
                    look_at = trips * 16
            r[continued] = saved
            return minus(m, r[returned]) if returned else m

        return loop


def _scalar_type(type_: Any) -> DType:
    assert isinstance(type_, DType), f"a slot of type {type_} in a prepared kernel"
    return type_


def _leaves_region(region: Region) -> bool:
    """Whether a break, continue or return in ``region`` can take lanes out of it; loops inside keep their breaks."""
    pending: list[tuple[Region, bool]] = [(region, False)]
    while pending:
        nodes, inside = pending.pop()
        for node in nodes:
            if node.op == "return" or (not inside and node.op in ("break", "break_if", "continue")):
                return True
            for inner in node.regions:
                pending.append((inner, inside or node.op == "loop"))
    return False


def _straight(ops: tuple[Closure, ...]) -> Closure:
    def run(r: Frame, m: Mask) -> Mask:
        for op in ops:
            op(r, m)
        return m

    return run


def _sequence(segments: tuple[tuple[tuple[Closure, ...], Closure | None], ...]) -> Closure:
    def run(r: Frame, m: Mask) -> Mask:
        for ops, control in segments:
            for op in ops:
                op(r, m)
            if control is not None:
                m = control(r, m)
                if m is None:
                    return None
        return m

    return run


def _copy(d: int, a: int) -> Closure:
    def copy(r: Frame, m: Mask) -> None:
        r[d] = r[a]

    return copy


def _set(slot: int, a: int) -> Closure:
    def set_(r: Frame, m: Mask) -> None:
        r[slot] = r[a] if m is True else np.where(m, r[a], r[slot])

    return set_


def _nobody(r: Frame, m: Mask) -> None:
    return None


def _break_if(c: int) -> Closure:
    def break_if(r: Frame, m: Mask) -> Mask:
        return split(m, r[c])[1]

    return break_if


def _leave(register: int) -> Closure:
    def leave(r: Frame, m: Mask) -> None:
        r[register] = merge(r[register], m)

    return leave
