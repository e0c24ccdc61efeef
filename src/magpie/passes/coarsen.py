"""Workgroup coarsening: one block of the device runs several adjacent workgroups, all of them in step.

A thread that handles one element has one load in flight and then waits. So each thread becomes the work-items of the
same place in ``factor`` adjacent workgroups: every node of the kernel is executed for all of these before the next one
is, which puts all their loads before the first of their stores. Work-items of different workgroups have no order
between them, so this asks nothing of the addresses; the order within each one stays. Ids are those of the source, and
num_workgroups is a parameter of its own (`groups_name`).

    first = workgroup_id * factor
    ... what decides who takes part: pure values, for all work-items of the thread ...
    if first + factor <= groups and all of them take part {
        the rest, in step
    } else {
        the kernel as it was, for each workgroup from first to groups that there is
    }

In step, a value that is the same for all work-items of the thread is computed once, and so is a branch on one. A branch
on any other is taken by each for itself, in two parts where it begins with loads: those of all come first.

Packed, a thread's work-items are neighbours of one workgroup instead (of a block's workgroups each has a part of the
threads), so that together they load and store adjacent elements: what is smaller than 4 bytes is moved in words then.

Not every kernel can be: see `can_coarsen` and `can_pack`. Whether it pays is for the backend to say.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, ClassVar

from magpie.dtypes import DType, index, leaves
from magpie.ir.builder import Builder
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, PtrType, Region, Scalar, SharedArray, Slot, walk
from magpie.ir.ops import Effect
from magpie.passes.abreast import Sameness
from magpie.passes.exits import has_return
from magpie.passes.lower_tiles import LOWERED

__all__ = ["can_coarsen", "can_pack", "coarsen", "groups_name"]

# Elements of a local array that are set to zero one by one where the next workgroup begins.
_LOCAL = 32

_VALUES = (Effect.PURE, Effect.SLOT_READ, Effect.SLOT_WRITE)


def groups_name(dim: int) -> str:
    """The parameter that has the number of workgroups along ``dim``; no name of a user's has a dot."""
    return f"num_workgroups.{dim}"


def can_coarsen(kernel: Kernel) -> bool:
    """Whether `coarsen` takes a prepared kernel.

    What is reported says which workgroup it comes from; a work-item that waits for another may wait for one of its own
    thread; matrix tiles fill the registers of a workgroup; large local arrays are no good idea. Kernels with these
    stay as they are.
    """
    loops = waits = False
    for node in walk(kernel.body):
        effect = node.info.effect
        if effect is Effect.DEBUG or node.op in ("grid_sync", "call") or node.op in LOWERED:
            return False
        if isinstance(node.type, PtrType):  # of memory that another work-item may have made
            return False
        loops |= node.op == "loop" and node.attrs.get("counted") is None
        waits |= effect is Effect.ATOMIC or node.op == "fence"
    if any(prod(a.shape) > _LOCAL for a in kernel.locals) or (loops and waits):
        return False
    return _nested(kernel.body) is not None


def can_pack(kernel: Kernel, factor: int, dim: int = 0) -> bool:
    """Whether a kernel that `can_coarsen` takes can be packed: its workgroups have whole threads, and nobody can tell
    which thread a work-item is in."""
    size = kernel.known_workgroup
    if size is None or size[dim] % factor or kernel.shared:
        return False
    return not any(
        n.info.effect in (Effect.SYNC, Effect.CROSS_LANE) or n.op.startswith("subgroup_") or n.op == "linear_local_id"
        for n in walk(kernel.body)
    )


def coarsen(kernel: Kernel, factor: int, dim: int = 0, *, packed: bool = False) -> Kernel:
    """A prepared kernel that `can_coarsen` takes, for ``1/factor`` of the workgroups along ``dim``, rounded up.
    ``packed``: a thread's work-items are neighbours (`can_pack`).

    It has one more parameter, `groups_name(dim)`, of type index: the number of workgroups of the source's launch.
    """
    body = _nested(kernel.body)
    assert body is not None
    kernel = replace(kernel, body=body)
    made = (_Packing if packed else _Coarsening)(kernel, factor, dim)
    made.build()
    return replace(
        kernel,
        body=made.out.region,
        params=[*kernel.params, Scalar(groups_name(dim), index)],
        shared=[*kernel.shared, *made.shared],
        locals=[*kernel.locals, *made.locals],
    )


# --- returns --------------------------------------------------------------------------------------------------------
def _nested(region: Region) -> Region | None:
    """``region`` without `return`: what follows a branch that returns moves into its other arm. None where one returns
    from a loop, or from a part of an arm only."""
    out: Region = []
    for k, node in enumerate(region):
        if node.op == "return":
            return out
        if not any(has_return(r) for r in node.regions):
            out.append(node)
            continue
        if node.op != "if":
            return None
        then, else_ = node.regions
        rest = region[k + 1 :]
        if _returns(then):
            else_ = [*else_, *rest]
        elif _returns(else_):
            then = [*then, *rest]
        else:
            return None
        arms = (_nested(then), _nested(else_))
        if arms[0] is None or arms[1] is None:
            return None
        out.append(Node("if", node.args, None, node.attrs, (arms[0], arms[1]), node.loc))
        return out
    return out


def _returns(region: Region) -> bool:
    """Whether every path through ``region`` ends in `return`."""
    if not region:
        return False
    last = region[-1]
    return last.op == "return" or (last.op == "if" and all(_returns(r) for r in last.regions))


# --- work-items of one thread ---------------------------------------------------------------------------------------
class _Item:
    """What stands for values, slots and arrays of the source in one work-item of the thread."""

    __slots__ = ("arrays", "ids", "slots", "values")

    def __init__(self, group: Node, thread: Node, global_id: Node, arrays: dict[Array, Array]) -> None:
        self.ids = {"workgroup_id": group, "thread_id": thread, "global_id": global_id}
        self.values: dict[Node, Node] = {}
        self.slots: dict[Slot, Slot] = {}
        self.arrays = arrays

    def attr(self, old: Any) -> Any:
        if isinstance(old, Slot):
            return self.slots.get(old, old)
        if isinstance(old, Array):
            return self.arrays.get(old, old)
        if isinstance(old, tuple) and old and isinstance(old[0], Slot):  # the `counted` hint: (slot, trips)
            return self.slots.get(old[0], old[0]), self.values.get(old[1], old[1])
        return old


class _Coarsening:
    #: What differs between the work-items of a thread.
    differing: ClassVar = ("workgroup_id", "global_id")

    def __init__(self, kernel: Kernel, factor: int, dim: int) -> None:
        self.kernel = kernel
        self.factor = factor
        self.dim = dim
        self.out = Builder([])
        self.ahead: Region = []
        self.guards: list[tuple[Node, bool]] = []
        self.rest = kernel.body
        while (found := _guarded(self.rest)) is not None:
            self.ahead += self.rest[:-1]
            self.rest = found[1]
            self.guards.append((found[0], found[2]))
        # in step, all of them are behind the guards
        self.same = Sameness([*self.ahead, *self.rest], dim, self.differing)
        self.shared: list[SharedArray] = []
        self.locals: list[LocalArray] = []

    # --- the frame -----------------------------------------------------------------------------------------------
    def build(self) -> None:
        b, dim = self.out, self.dim
        b.loc = self.kernel.loc
        self.groups = b.emit("param", type=index, name=groups_name(dim))
        by = b.const(self.factor, index)
        self.first = b.emit("mul", b.emit("workgroup_id", dim=dim), by)
        self.thread = b.emit("thread_id", dim=dim)
        known = self.kernel.known_workgroup
        self.size = b.emit("workgroup_size", dim=dim) if known is None else b.const(known[dim], index)
        items = self.items()
        for item, slot in ((i, s) for i in items for s in self.same.varying_slots):
            item.slots[slot] = slot if item is items[0] else Slot(slot.name, slot.type)
        fast = b.emit("le", b.emit("add", self.first, by), self.groups)
        self.region(self.ahead, items)
        for condition, taken in self.guards:
            for test in self.conditions(condition, items):
                fast = b.emit("and", fast, test if taken else b.emit("not", test))
        b.loc = self.kernel.loc
        _, then, else_ = b.if_(fast)
        with b.into(then):
            self.region(self.rest, items)
        with b.into(else_):
            self.one_by_one()

    def items(self) -> list[_Item]:
        """The work-items of a thread where all of them are there."""
        b, known = self.out, self.kernel.known_workgroup
        start = b.emit("add", b.emit("mul", self.first, self.size), self.thread)
        items = [_Item(self.first, self.thread, start, {})]
        for k in range(1, self.factor):
            group = b.emit("add", self.first, b.const(k, index))
            if known is None:
                ahead = b.emit("mul", self.size, b.const(k, index))
            else:
                ahead = b.const(k * known[self.dim], index)
            items.append(_Item(group, self.thread, b.emit("add", start, ahead), self.copies(k)))
        return items

    def single(self, k: Node) -> _Item:
        """Work-item ``k`` of those that are there."""
        b = self.out
        group = b.emit("add", self.first, k)
        return _Item(group, self.thread, b.emit("add", b.emit("mul", group, self.size), self.thread), {})

    def there(self) -> Node:
        """How many work-items there are."""
        b = self.out
        return b.emit("min", b.const(self.factor, index), b.emit("sub", self.groups, self.first))

    def copies(self, k: int) -> dict[Array, Array]:
        """Arrays of work-item ``k`` of the thread, and of its workgroup."""
        shared = [SharedArray(f"{s.name}.{k}", s.type, s.shape, s.loc) for s in self.kernel.shared]
        local = [LocalArray(f"{a.name}.{k}", a.type, a.shape, a.loc) for a in self.kernel.locals]
        self.shared += shared
        self.locals += local
        return dict(zip([*self.kernel.shared, *self.kernel.locals], [*shared, *local], strict=True))

    def conditions(self, condition: Node, items: list[_Item]) -> list[Node]:
        """What a condition is for each of the items, every value once."""
        return list(dict.fromkeys(item.values[condition] for item in items))

    def one_by_one(self) -> None:
        """The kernel as it was, for one work-item of the thread after the other."""
        b = self.out
        b.loc = self.kernel.loc
        trips = self.there()
        slot = Slot("item", index)
        b.set(slot, b.const(0, index))
        loop, body, step = b.loop(counted=(slot, trips))
        loop.attrs["rolled"] = True
        with b.into(step):
            b.set(slot, b.emit("add", b.get(slot), b.const(1, index)))
        with b.into(body):
            k = b.get(slot)
            b.emit("break_if", b.emit("ge", k, trips))
            item = self.single(k)
            slots = dict.fromkeys(n.attrs["slot"] for n in walk(self.kernel.body) if n.op in ("slot_get", "slot_set"))
            for old in slots:
                new = item.slots[old] = Slot(old.name, old.type)
                assert isinstance(old.type, DType)
                b.set(new, b.const(0, old.type))
            for array in self.kernel.locals:
                self.clear(array)
            self.region(self.kernel.body, [item])
            # The next workgroup writes where this one still reads. Without a barrier inside, work-items behind a guard
            # have parts of their own there, and not all of them need come here.
            if self.kernel.shared and (not self.guards or any(n.op == "barrier" for n in walk(self.kernel.body))):
                b.emit("barrier")

    def clear(self, array: LocalArray) -> None:
        b = self.out
        for path, t, _ in [((), array.type, 0)] if isinstance(array.type, DType) else leaves(array.type):
            for at in product(*map(range, array.shape)):
                b.store(array, tuple(b.const(n, index) for n in at), b.const(0, t), field=path or None)

    # --- in step -------------------------------------------------------------------------------------------------
    def region(self, region: Region, items: list[_Item]) -> None:
        for node in region:
            self.visit(node, items)

    def visit(self, node: Node, items: list[_Item]) -> None:
        b = self.out
        b.loc = node.loc
        op, dim = node.op, node.attrs.get("dim")
        if op in ("workgroup_id", "thread_id", "global_id") and dim == self.dim:
            for item in items:
                item.values[node] = item.ids[op]
        elif op == "num_workgroups" and dim == self.dim:
            self.give(node, self.groups, items)
        elif op == "if":
            self.if_(node, items)
        elif op == "loop":
            if len(items) == 1 or self.same.of(node):
                self.copy(node, items)
            else:
                self.each(node, items)
        elif node.info.effect in (Effect.SYNC, Effect.CONTROL) or self.same.of(node):
            self.copy(node, items)
        else:
            for item in items:
                self.copy(node, [item])

    def give(self, node: Node, value: Node, items: list[_Item]) -> None:
        for item in items:
            item.values[node] = value

    def copy(self, node: Node, items: list[_Item]) -> Node:
        """One node for all of ``items``; regions inside it are executed for all of them in step."""
        item = items[0]
        args = tuple(item.values[a] for a in node.args)
        attrs = {key: item.attr(old) for key, old in node.attrs.items()}
        regions: list[Region] = []
        for inner in node.regions:
            made: Region = []
            with self.out.into(made):
                self.region(inner, items)
            regions.append(made)
        new = Node(node.op, args, node.type, attrs, tuple(regions), node.loc)
        self.out.region.append(new)
        self.give(node, new, items)
        return new

    def each(self, node: Node, items: list[_Item]) -> None:
        """A node with regions, for one item after the other."""
        for item in items:
            self.copy(node, [item])

    def if_(self, node: Node, items: list[_Item]) -> None:
        condition = node.args[0]
        if len(items) == 1 or self.same.of(condition):
            self.copy(node, items)
            return
        arms = [(region, _loads_first(region)) for region in node.regions]
        whole = any(n.op == "barrier" or _counts_lanes(n) for r in node.regions for n in walk(r))
        if whole or all(at in (0, len(region)) for region, at in arms):
            self.each(node, items)
        else:
            self.in_two(condition, arms, items)

    def in_two(self, condition: Node, arms: list[tuple[Region, int]], items: list[_Item]) -> None:
        """A branch that each item takes for itself, in two parts: the loads at the beginning of its arms are those of
        all items before what follows them."""
        b, loc = self.out, self.out.loc
        passed = [_used(region[at:], set(region[:at])) for region, at in arms]
        kept: list[list[Slot]] = []
        for item in items:
            slots: list[Slot] = []
            b.loc = loc
            _, *regions = b.if_(item.values[condition])
            for made, (region, at), values in zip(regions, arms, passed, strict=True):
                with b.into(made):
                    self.region(region[:at], [item])
                    for value in values:
                        slots.append(Slot("early", value.dtype))
                        b.set(slots[-1], item.values[value])
            kept.append(slots)
        for item, slots in zip(items, kept, strict=True):
            of = iter(slots)
            b.loc = loc
            _, *regions = b.if_(item.values[condition])
            for made, (region, at), values in zip(regions, arms, passed, strict=True):
                with b.into(made):
                    self.region([n for n in region[:at] if n.op == "const"], [item])
                    for value in values:
                        item.values[value] = b.get(next(of))
                    self.region(region[at:], [item])


class _Packing(_Coarsening):
    """``factor`` neighbours of a workgroup a thread; the block's threads are those of all its workgroups, in order."""

    differing: ClassVar = ("thread_id", "global_id")

    def items(self) -> list[_Item]:
        b = self.out
        known = self.kernel.known_workgroup
        assert known is not None
        by, threads = b.const(self.factor, index), b.const(known[self.dim] // self.factor, index)
        self.group = b.emit("add", self.first, b.emit("tdiv", self.thread, threads))
        self.lowest = b.emit("mul", b.emit("trem", self.thread, threads), by)
        self.start = b.emit("add", b.emit("mul", self.first, self.size), b.emit("mul", self.thread, by))
        return [self.single(b.const(k, index), self.copies(k) if k else {}) for k in range(self.factor)]

    def single(self, k: Node, arrays: dict[Array, Array] | None = None) -> _Item:
        b = self.out
        return _Item(self.group, b.emit("add", self.lowest, k), b.emit("add", self.start, k), arrays or {})

    def there(self) -> Node:
        b = self.out
        return b.select(b.emit("lt", self.group, self.groups), b.const(self.factor, index), b.const(0, index))


def _loads_first(region: Region) -> int:
    """How many nodes of ``region`` stand up to the last load that no effect stands before; 0 without one."""
    at = 0
    for k, node in enumerate(region):
        if node.op == "load":
            at = k + 1
        elif node.info.effect not in _VALUES:
            return at
    return len(region) if at else 0


def _used(region: Region, values: Set[Node]) -> list[Node]:
    """Which of ``values`` other than constants are used in ``region``."""
    found: dict[Node, None] = {}
    for node in walk(region):
        counted = node.attrs.get("counted")
        for arg in (*node.args, *(counted[1:] if counted else ())):
            if arg in values and arg.op != "const":
                found[arg] = None
    return list(found)


def _counts_lanes(node: Node) -> bool:
    """Whether it matters to ``node`` which other work-items of its subgroup come to it."""
    return node.info.effect is Effect.CROSS_LANE or node.op == "subgroup_barrier"


def _guarded(region: Region) -> tuple[Node, Region, bool] | None:
    """Of a region that ends in a branch of one arm and has nothing but values before it: the condition, the arm, and
    which value of the condition leads there."""
    if not region or region[-1].op != "if":
        return None
    then, else_ = region[-1].regions
    if bool(then) == bool(else_) or any(n.info.effect not in _VALUES for n in region[:-1]):
        return None
    if any(_counts_lanes(n) for n in walk(then or else_)):
        return None
    return region[-1].args[0], then or else_, bool(then)
