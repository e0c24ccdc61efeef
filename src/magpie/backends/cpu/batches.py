"""Several workgroups in lockstep as far as a walk, so that together they go through memory in long blocks.

A walk (see `walks`) reads a block of consecutive elements a trip, as long as the workgroup has items, and goes on a
stride further. Hardware prefetchers follow streams of kilobytes: in blocks of 1 KB a sum of floats took 1.7 times as
long as in order, in blocks of 8 KB 1.05 times, in blocks of 16 KB no longer. So adjacent workgroups are taken as a
*batch*: what stands before and in the walk is executed for each of them in turn, item by item of the plan, each in its
own part of the arena; what stands behind the walk is executed for one workgroup after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.copies import COPIES, copy_pitch, stretches
from magpie.backends.cpu.gang import Coordinates
from magpie.backends.cpu.merging import MergingLoops
from magpie.backends.cpu.order import in_bands
from magpie.backends.cpu.plain import copy_with
from magpie.backends.cpu.regions import Barrier, Branch, Exit, Item, Repeat, Run, Scalar
from magpie.backends.cpu.spmd import Gang
from magpie.backends.llvm.emitter import Block
from magpie.ir.nodes import Buffer, Node, SharedArray, walk

__all__ = ["Batches"]

# Bytes of a block that all prefetchers follow, and what the memory of a batch may take of a first-level cache.
_BLOCK = 16 << 10
_ROOM = 24 << 10
_MOST = 16
# Shorter blocks than this are over before a prefetcher has begun.
_PAGE = 4 << 10
# What is assumed of a workgroup whose size is not known.
_ITEMS = 256

# What orders work-items of different workgroups, or shows their order.
_ORDERED = frozenset(("fence", "atomic_load", "atomic_store", "atomic_cas", "print", "assert", "trap"))


class Batches(MergingLoops):
    """``batch``: workgroups of a batch; 1 if there are none."""

    batch = 1
    lockstep = False  # whether what is emitted is executed for every workgroup of the batch
    group: str  # linear number of the workgroup, or of the first one of the batch
    here: str  # workgroups of this batch
    context_bytes: str  # of one workgroup
    next: Block  # goes on with the next workgroup

    # --- which items ---------------------------------------------------------------------------------------------
    def split(self) -> tuple[list[Item], list[Item]]:
        """The items that a batch executes in lockstep, and the others; decides ``batch``."""
        self.scalars: list[Node] = []  # what the scaffold has computed in lockstep
        items = self.plan.items
        ahead: list[Item] = []
        for stretch in stretches(items):
            ahead += stretch
            walks = [i.node for i in stretch if isinstance(i, Repeat) and i.walks]
            if walks:
                size = self.kernel.known_workgroup
                block = (size[0] * size[1] * size[2] if size else _ITEMS) * walks[0].attrs["size"]
                if len(walks) == 1 and all(self.free(item, walks[0]) for item in ahead):
                    self.batch = self.groups(walks[0], block)
                self.env.ahead = "trip" if block * self.batch < _PAGE else "line"
                break
        return (ahead, items[len(ahead) :]) if self.batch > 1 else ([], items)

    def groups(self, loop: Node, block: int) -> int:
        """How many workgroups make a block that is long enough, and have room."""
        if (
            not loop.attrs["even"]
            or in_bands(self.kernel)
            or self.env.checked
            or self.env.large
            or any(s.dynamic for s in self.kernel.shared)
        ):
            return 1
        gangs = -(-block // (self.width * loop.attrs["size"]))
        touched = {n.attrs.get("array") for r in loop.regions for n in walk(r)}
        shared = [a for a in self.kernel.shared if a in touched]
        memory = self.per_gang * gangs + sum(a.nbytes for a in shared)
        memory += sum(copy_pitch(a) * (COPIES - 1) for a in shared if a in self.copied)
        most: int = max(1, min(_MOST, -(-_BLOCK // block), _ROOM // max(1, memory)))
        return int(1 << (most.bit_length() - 1))  # so that batches and chunks of workgroups fit together

    def free(self, item: Item, loop: Node) -> bool:
        """Whether an item may be executed for several workgroups before what follows it is for the first."""
        if isinstance(item, Repeat):
            return item.node is loop and all(self.free(i, loop) for i in [*item.body, *item.step])
        if isinstance(item, Scalar):
            node = item.node
            return node.op != "load" and (node.op != "slot_set" or node.attrs["slot"] is loop.attrs["counted"][0])
        if isinstance(item, Exit):
            return item.node.op == "break_if" and item.node.args[0] not in self.plan.broadcast
        if not isinstance(item, Run):
            return isinstance(item, Barrier)
        for node in walk(item.nodes):
            device = node.op == "atomic_rmw" and isinstance(node.attrs["array"], Buffer)
            if node.op in _ORDERED or (device and node in self.env.used) or node in self.plan.broadcast:
                return False
        return True

    # --- code ----------------------------------------------------------------------------------------------------
    def open_batch(self, left: str) -> None:
        """Decide how many workgroups this batch has: adjacent ones in x, of the ``left`` ones."""
        c, launch = self.c, self.launch
        row = c.op(f"sub i64 {launch.groups(0)}, {self.at.group[0]}")
        s = self.sc.scalar
        self.here = s.intrinsic("smin", "i64", [s.intrinsic("smin", "i64", [left, row]), str(self.batch)])
        self.at.last = c.op(f"add i64 {self.at.group[0]}, {c.op(f'sub i64 {self.here}, 1')}")
        self.context_bytes = launch.times(self.all_gangs(), str(self.per_gang)) if self.per_gang else "0"

    def each_group(self, body: Callable[[], None], needed: set[Node]) -> None:
        """``body`` for every workgroup of the batch. Of what the scaffold has computed so far, it computes again what
        is ``needed``: that may rest on the workgroup."""
        c, env = self.c, self.env
        ends: list[Callable[[], None]] = []
        number = self.count("b", self.here, ends, rolled=True)
        block = c.at_block
        saved = self.sc, self.at, env.group
        x, y, z = self.at.group
        x = c.op(f"add i64 {x}, {number}")
        env.group = c.op(f"add i64 {env.group}, {number}")
        self.at = Coordinates((x, y, z), "0", "0", "0", "0", block, block, x)
        fixed = c.op(f"mul i64 {number}, {self.fixed}")
        # contexts side by side, apart from shared arrays: a walk goes through them in order, too
        context = c.op(f"add i64 {c.op(f'mul i64 {number}, {self.context_bytes}')}, {self.fixed * self.batch}")
        self.bind_arrays(fixed, context, block)
        self.sc = Gang(env, copy_with(self.at, x0="0"), None, self.next)
        self.sc.storage = saved[0].storage
        for node in self.scalars:
            if node.op != "slot_set" and node in needed:
                self.sc.visit(node)
        body()
        for end in ends:
            end()
        self.sc, self.at, env.group = saved

    def one_by_one(self, items: list[Item]) -> None:
        """What stands behind the walk, for one workgroup after the other."""
        after, self.lockstep = self.next, False

        def body() -> None:
            self.next = self.c.block("next")
            self.items(items)
            self.c.br(self.next)
            self.c.place(self.next)

        self.each_group(body, _operands(items))
        self.next = after

    def items(self, items: list[Item]) -> None:
        """Emit items in order, each stretch between its copies."""
        for stretch in stretches(items):
            private = self.private.get(stretch[0], {})
            self.around(lambda private=private: self.open_copies(private), private)  # type: ignore[misc]
            for item in stretch:
                if not self.c.open:
                    return
                self.item(item)
            self.around(lambda private=private: self.close_copies(private), private)  # type: ignore[misc]

    def item(self, item: Item) -> None:
        raise NotImplementedError

    def around(self, body: Callable[[], None], private: dict[SharedArray, str]) -> None:
        """Work on the copies of one workgroup or of all of the batch."""
        if private and self.lockstep:
            self.each_group(body, set())
        elif private:
            body()

    def run(self, run: Run) -> None:
        if self.lockstep:
            self.each_group(lambda: super(Batches, self).run(run), _operands([run]))
        else:
            super().run(run)


def _operands(items: list[Item]) -> set[Node]:
    """Everything that the nodes of ``items`` are made of."""
    todo: list[Node] = []
    for item in items:
        if isinstance(item, Run):
            todo += [a for n in [*walk(item.nodes), *item.again] for a in n.args]
        elif isinstance(item, Repeat):
            todo += _operands([*item.body, *item.step])
        elif isinstance(item, Branch):
            todo += [*item.node.args, *_operands([*item.then, *item.else_])]
        else:
            todo += item.node.args
    found: set[Node] = set()
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo.extend(node.args)
    return found
