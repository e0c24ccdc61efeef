"""Counted loops whose trips differ between work-items, such as ``for i in range(global_id, n, stride)``.

Two rewrites, on a kernel that still has its `trip_count` nodes:

- Where it cannot wrap, the test "k >= trips" of such a loop becomes "start >= stop - k * step": one subtraction a trip
  in place of a division a lane, and a whole gang is tested by its last lane (`ControlMixin.full_trips`).
- A loop that strides through memory is split: the trips that all work-items of the workgroup make come first, as a
  loop of the scaffold, a *walk*. Its body is executed gang by gang in each trip, as if it held a barrier, so that a
  workgroup goes through memory in order, a block of consecutive elements a trip. Otherwise each gang would go through
  all of memory on its own, a line here and a line a stride further on, which neither prefetcher nor TLB likes. What
  the gangs carry from trip to trip lies in context memory; a walk is worth it only for few such values, and takes a
  few trips of a gang together so that they are loaded and stored less often. The other trips remain in a loop behind
  it.

Loops that are too short for a walk, over a row of a matrix that a workgroup goes through, say, read what no prefetcher
has seen coming. The first of them to touch an array asks for what the next workgroup reads there (`next_groups`).

Measured with 256 workgroups of 256 that sum 2**24 floats, on one core of a Zen 3: 50 ms without a walk, 10 with it, 5
with several workgroups in step besides (`batches`); gcc needs 5.3 for one loop over the array.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from magpie.backends.cpu.lane_shapes import Shapes, analyse_shapes
from magpie.backends.cpu.shape_rules import Layout
from magpie.dtypes import index
from magpie.ir.nodes import Buffer, Kernel, LocalArray, Node, Region, Slot, walk
from magpie.ir.ops import OPS, Effect
from magpie.passes.narrow_index import Ranges, full, ranges
from magpie.passes.rewrite import Rewriter
from magpie.passes.uniformity import Level, Uniformity, analyse

__all__ = ["walk_loops"]

# Bytes that a walk goes at least: what a gang goes through in less than that waits in the cache for the next one.
# Its stride is at least the workgroup: in a sliding window, each trip reads what the one before has read.
_FAR_BYTES = 64 << 10
# A loop that carries nothing goes in order over less, where it is the first to touch an output of this size: its lines
# come from memory, in order or not. A layernorm of 4096 x 1024 floats takes 0.87 of its time, one in the cache 1.08.
_OUT_BYTES = 4 << 20
# Workgroups whose elements lie this close to each other go through memory in order.
_NEAR_BYTES = 4 << 10
# Values that a walk may keep for each work-item from trip to trip.
_CARRIED = 4
# Beyond this nothing is added that could wrap.
_FAR = 1 << 62

_INSIDE = (Effect.PURE, Effect.SLOT_READ, Effect.SLOT_WRITE, Effect.READ, Effect.WRITE, Effect.ATOMIC)


class _Copier(Rewriter):
    """Copies a trip, so that every copy has nodes of its own; the counter is ``trip``."""

    def __init__(self, trip: Node, counter: Slot) -> None:
        super().__init__({"slot_get": _trip})
        self.trip = trip
        self.counter = counter

    def keep(self, node: Node) -> Node:
        args = tuple(self.value(a) for a in node.args)
        attrs = {key: self.attr(old) for key, old in node.attrs.items()}
        new = Node(node.op, args, node.type, attrs, tuple(self.region(r) for r in node.regions), node.loc)
        self.out.region.append(new)
        self.values[node] = new
        return new


def _trip(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Copier)
    return rw.trip if node.attrs["slot"] is rw.counter else rw.keep(node)


class _Counted:
    """A counted loop as the builder makes it: its counter, its test, and start, stop and step."""

    def __init__(self, loop: Node, slot: Slot, trips: Node, at: int) -> None:
        self.loop = loop
        self.slot = slot
        self.trips = trips
        self.at = at  # of the test's `break_if` in the body
        self.start, self.stop, self.step = trips.args


def _counted(loop: Node) -> _Counted | None:
    hint = loop.attrs.get("counted")
    if hint is None or hint[1].op != "trip_count":
        return None
    body = loop.regions[0]
    at = next((k for k, n in enumerate(body) if n.op == "break_if"), None)
    if at is None or any(not OPS[n.op].pure and n.op != "slot_get" for n in body[:at]):
        return None
    test = body[at].args[0]
    slot, trips = hint
    own = test.op == "ge" and test.args[1] is trips and test.args[0].op == "slot_get"
    return _Counted(loop, slot, trips, at) if own and test.args[0].attrs["slot"] is slot else None


class _Walks(Rewriter):
    def __init__(self, kernel: Kernel, shapes: Shapes, known: Ranges) -> None:
        super().__init__({"loop": _loop})
        self.source = kernel
        self.shapes = shapes
        self.known = known
        self.top = set(kernel.body)
        self.marks: dict[Node, dict[str, Any]] = {}  # attributes that copies of nodes get
        self.first: dict[Buffer, Node] = {}
        for node in walk(kernel.body):
            array = node.attrs.get("array")
            if isinstance(array, Buffer) and not OPS[node.op].pure:
                self.first.setdefault(array, node)
        self.splits = not (kernel.locals or any(n.op == "return" for n in walk(kernel.body)))

    def keep(self, node: Node) -> Node:
        if node in self.marks:
            attrs = {k: self.attr(v) for k, v in (node.attrs | self.marks[node]).items()}
            new = Node(node.op, tuple(self.value(a) for a in node.args), node.type, attrs, node.regions, node.loc)
            self.out.region.append(new)
            self.values[node] = new
            return new
        return super().keep(node)

    # --- what may be done ----------------------------------------------------------------------------------------
    def no_wrap(self, found: _Counted) -> bool:
        """Whether ``stop - k * step`` is exact in every trip, and the step is known to be positive."""
        low, stop, step = (self.known.of(n) for n in (found.start, found.stop, found.step))
        return step[0] >= 1 and low[0] > -_FAR and stop[0] > -_FAR and stop[1] + step[1] < _FAR

    def walks(self, found: _Counted) -> bool:
        """Whether a loop is worth a walk, if its stride turns out to be long."""
        loop = found.loop
        if not (self.splits and loop in self.top and self.same(found.stop) and self.same(found.step)):
            return False
        inside = [n for r in loop.regions for n in walk(r)]
        test = loop.regions[0][found.at]
        own = set(inside)
        if any(n.regions and n.op != "if" for n in inside):
            return False
        if any(OPS[n.op].effect not in _INSIDE and n is not test and n.op != "if" for n in inside):
            return False
        if any(isinstance(n.attrs.get("array"), LocalArray) for n in inside):
            return False
        outside = {a for n in inside for a in n.args if a not in own and self.shapes.of(a).kind == 2}
        outside -= {found.trips}
        carried = len(outside - {found.start}) + len(self.carried(loop, inside, found.slot))
        return carried <= _CARRIED and bool(self.strides(found, inside))

    def uniform(self, node: Node) -> bool:
        """Whether a value is the same for the lanes of each gang."""
        return self.shapes.of(node).kind == 0

    def same(self, node: Node) -> bool:
        """Whether a value is the same for a whole workgroup, of which gangs may have other ids along y and z."""
        return self.uniform(node) and self.levels.level(node) <= Level.WORKGROUP and not self.levels.unknown(node)

    @functools.cached_property
    def levels(self) -> Uniformity:
        return analyse(self.source)

    def carried(self, loop: Node, inside: list[Node], counter: Slot) -> set[Slot]:
        """Slots that hold a value from one trip to the next."""
        body = loop.regions[0]
        sets = {n.attrs["slot"] for n in inside if n.op == "slot_set"} - {counter}
        own = set(inside)
        elsewhere = {n.attrs["slot"] for n in walk(self.source.body) if n.op == "slot_get" and n not in own}
        return {s for s in sets if s in elsewhere or not _set_first(body, s)}

    def strides(self, found: _Counted, inside: list[Node]) -> list[Node]:
        """Accesses of elements that lie side by side for consecutive lanes, at a place that moves with the trips."""
        moving: set[Node] = set()
        out = []
        for node in inside:
            counter = node.op == "slot_get" and node.attrs["slot"] is found.slot
            if counter or (OPS[node.op].pure and any(a in moving for a in node.args)):
                moving.add(node)
            array = node.attrs.get("array")
            if isinstance(array, Buffer) and OPS[node.op].effect in (Effect.READ, Effect.WRITE):
                last = node.args[array.rank - 1] if array.rank else None
                shape = self.shapes.of(last) if last is not None else None
                if last in moving and shape is not None and shape.kind == 1 and shape.stride == 1:
                    out.append(node)
        return out

    # --- what the next workgroup reads ----------------------------------------------------------------------------
    def next_groups(self, found: _Counted) -> None:
        """Mark loads of a strided loop, before anything else touches the array, with the dimension along which the next
        workgroup reads and how far on: the attributes ``next_dim`` and ``next_by``."""
        inside = [n for r in found.loop.regions for n in walk(r)]
        own = set(inside)
        for node in self.strides(found, inside):
            array = node.attrs["array"]
            if OPS[node.op].effect is not Effect.READ or self.first[array] not in own:
                continue
            moves = [self.per_group(a, found.slot) for a in node.args[: array.rank]]
            along = [d for d, m in enumerate(moves) if m != 0]
            if len(along) != 1 or moves[along[0]] is None:
                continue
            (dim,) = along
            move = moves[dim]
            if isinstance(move, Node) or dim < array.rank - 1 or move * array.type.itemsize >= _NEAR_BYTES:
                self.marks[node] = {"next_dim": dim, "next_by": move}

    def per_group(self, node: Node, counter: Slot) -> int | Node | None:
        """What ``node`` grows by from one workgroup to the next in x; None if that is not known."""
        if node.op == "workgroup_id" and node.attrs["dim"] == 0:
            return 1
        if node.op == "slot_get":
            return 0 if node.attrs["slot"] is counter else None
        if not OPS[node.op].pure or node.op == "global_id":
            return None
        parts = [self.per_group(a, counter) for a in node.args]
        if all(p == 0 for p in parts):
            return 0
        if node.op == "cast" or (node.op in ("add", "sub") and parts[1] == 0):
            return parts[0]
        if node.op == "add" and parts[0] == 0:
            return parts[1]
        if node.op == "mul":
            for one, other in ((0, 1), (1, 0)):
                if parts[one] == 1 and parts[other] == 0 and self.uniform(node.args[other]):
                    factor = node.args[other]
                    return factor.attrs["value"] if factor.op == "const" else factor
        return None

    # --- the trips that all make ---------------------------------------------------------------------------------
    def corner(self, node: Node, last: bool) -> Node | None:
        """``node`` as the first or last item of a workgroup has it, if it is linear in thread_id(0)."""
        b = self.out
        if self.same(node):
            return self.value(node)
        if node.op in ("thread_id", "global_id"):
            if node.attrs["dim"] != 0:
                return None
            size = b.emit("workgroup_size", dim=0)
            end = b.emit("sub", size, b.const(1, index)) if last else b.const(0, index)
            if node.op == "thread_id":
                return end
            group = b.emit("workgroup_id", dim=0, last=last)
            return b.emit("add", b.emit("mul", group, size), end)
        low_high = self.known.of(node)
        if node.op not in ("add", "sub", "mul", "cast", "neg") or low_high == full(node.dtype):
            return None
        if node.op == "mul" and not any(self.shapes.of(a).kind == 0 for a in node.args):
            return None
        parts = [self.corner(a, last) for a in node.args]
        if any(p is None for p in parts):
            return None
        return b.emit(node.op, *(p for p in parts if p is not None), type=node.type)

    def common_trips(self, found: _Counted) -> Node | None:
        """Trips that all items of a workgroup make: the count is monotonic in the start, so the ends decide."""
        if self.same(found.start):
            return self.value(found.trips)
        stride = self.shapes.of(found.start).stride
        plain = self.no_wrap(found)
        ends = (False, True) if not plain or stride is None else (stride > 0,)
        counts = []
        for last in ends:
            start = self.corner(found.start, last)
            if start is None:
                return None
            counts.append(self.trips(found, start, plain))
        return counts[0] if len(counts) == 1 else self.out.emit("min", *counts)

    def trips(self, found: _Counted, start: Node, plain: bool) -> Node:
        """Trips from ``start`` on; ``plain`` if nothing can wrap and the step is positive."""
        b, stop, step = self.out, self.value(found.stop), self.value(found.step)
        if not plain:
            return b.emit("trip_count", start, stop, step)
        distance = b.emit("max", b.emit("sub", stop, start), b.const(0, index))
        return b.emit("tdiv", b.emit("add", distance, b.emit("sub", step, b.const(1, index))), step)

    def even(self, found: _Counted) -> bool:
        """Whether the trips that adjacent workgroups make together are those that both ends of them make: the start is
        a line over one coordinate, and nothing else depends on the workgroup."""
        seen: set[Node] = set()
        stack = [found.start, found.stop, found.step]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(node.args)
        ops = {n.op for n in seen}
        own = ops & {"global_id", "thread_id", "workgroup_id"}
        return len(own) <= 1 and "workgroup_id" not in own and all(OPS[op].pure for op in ops)

    def together(self, found: _Counted) -> int:
        """Trips of a gang that a trip of the walk takes, so that what it carries is loaded and stored once for them."""
        inside = [n for r in found.loop.regions for n in walk(r)]
        accesses = sum(1 for n in inside if OPS[n.op].effect in (Effect.READ, Effect.WRITE, Effect.ATOMIC))
        if not self.carried(found.loop, inside, found.slot) or any(n.op == "if" for n in inside):
            return 1
        return 4 if accesses <= 2 else 2 if accesses <= 4 else 1

    def first_stored(self, found: _Counted) -> list[Buffer]:
        """Arrays that the kernel first touches by stores of a loop that carries nothing: any order costs the same."""
        inside = [n for r in found.loop.regions for n in walk(r)]
        if self.carried(found.loop, inside, found.slot):
            return []
        stores = [n for n in self.strides(found, inside) if OPS[n.op].effect is Effect.WRITE]
        return [n.attrs["array"] for n in stores if self.first[n.attrs["array"]] is n]

    def fills(self, array: Buffer) -> Node:
        """Whether an array is so large that its lines are not in the caches."""
        b = self.out
        size = b.const(array.type.itemsize, index)
        for dim in range(array.rank):
            size = b.emit("mul", size, b.emit("extent", array=array, dim=dim))
        return b.emit("ge", size, b.const(_OUT_BYTES, index))

    def walk(self, found: _Counted, common: Node) -> Node:
        """The walk; gives how many trips of a gang it has made."""
        b, times = self.out, self.together(found)
        accesses = self.strides(found, [n for r in found.loop.regions for n in walk(r)])
        size = max(n.attrs["array"].type.itemsize for n in accesses)
        stride = self.value(found.step)
        apart = b.emit("ge", stride, b.emit("workgroup_size", dim=0))
        far = b.emit("ge", b.emit("mul", common, stride), b.const(-(-_FAR_BYTES // size), index))
        for array in self.first_stored(found):
            far = b.emit("or", far, self.fills(array))
        trips = b.select(b.emit("and", apart, far), common, b.const(0, index))
        if times > 1:
            trips = b.emit("and", trips, b.const(-times, index))
        counter = Slot(f"{found.slot.name}.walk", index)
        b.set(counter, b.const(0, index))
        loop, body, step = b.loop(counted=(counter, trips))
        loop.attrs.update(walk=True, even=self.even(found), size=size)
        test = found.loop.regions[0][found.at]
        with b.into(body):
            k = b.get(counter)
            b.emit("break_if", b.emit("ge", k, trips))
            for number in range(times):
                copier = _Copier(k if number == 0 else b.emit("add", k, b.const(number, index)), found.slot)
                copier.values.update(self.values)
                copier.out = b
                for node in found.loop.regions[0]:
                    if node is not test and node is not test.args[0]:
                        copier.visit(node)
                for node in accesses:
                    copier.values[node].attrs.update(ahead=stride, ahead_trips=times)
                for node in found.loop.regions[1]:
                    if node.op != "slot_set" or node.attrs["slot"] is not found.slot:
                        copier.visit(node)
        with b.into(step):
            b.set(counter, b.emit("add", b.get(counter), b.const(times, index)))
        return b.get(counter)


def _set_first(region: Region, slot: Slot) -> bool:
    """Whether every trip sets ``slot`` before it reads it."""
    for node in region:
        if node.op == "slot_set" and node.attrs["slot"] is slot:
            return True
        inner = [n for r in node.regions for n in walk(r)]
        if any(n.attrs.get("slot") is slot for n in [node, *inner]):
            return False
    return False


def _loop(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Walks)
    b, found = rw.out, _counted(node)
    if found is None:
        return rw.keep(node)
    varying = rw.shapes.of(found.trips).kind != 0
    done: Node | None = None
    if rw.walks(found):
        common = rw.common_trips(found)
        if common is not None:
            done = rw.walk(found, common)
            b.set(found.slot, done)
    rw.next_groups(found)
    if not (varying and rw.no_wrap(found)):
        return rw.keep(node)
    return _with_distance(rw, node, found)


def _with_distance(rw: _Walks, node: Node, found: _Counted) -> Node:
    """``node`` with a test of distances in place of one of trips."""
    b = rw.out
    # the hint is a bound that is the same for all: a count for each lane would cost a division a lane
    lowest = b.const(rw.known.of(found.start)[0], index)
    loop, body, step = b.loop(counted=(found.slot, rw.trips(found, lowest, True)))
    at = found.at
    with b.into(body):
        for n in node.regions[0][:at]:
            rw.visit(n)
        k = rw.value(node.regions[0][at].args[0].args[0])
        gone = b.emit("mul", k, rw.value(found.step))
        b.emit("break_if", b.emit("ge", rw.value(found.start), b.emit("sub", rw.value(found.stop), gone)))
        for n in node.regions[0][at + 1 :]:
            rw.visit(n)
    with b.into(step):
        for n in node.regions[1]:
            rw.visit(n)
    return loop


def walk_loops(kernel: Kernel) -> Kernel:
    """``kernel`` with walks, and with cheap tests in loops whose trips differ between work-items."""
    if not any(n.op == "loop" and _counted(n) is not None for n in walk(kernel.body)):
        return kernel
    known = ranges(kernel)
    shapes = analyse_shapes(kernel, Layout(4, True, kernel.known_workgroup), known)
    rewriter = _Walks(kernel, shapes, known)
    return replace(kernel, body=rewriter.region(kernel.body))
