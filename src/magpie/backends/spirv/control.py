"""Control flow: Kernel IR is structured, and so is SPIR-V, so that each construct becomes the one of that name.

A loop is a header that holds nothing but its merge (RULES 3), the body, `step` as the continue target, and the merge
block. Where work-items come together again follows from that: at the end of each `if`, at each `step`, behind each loop
(RULES 9). A block that nobody reaches is there for the structure's sake and ends in OpUnreachable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import prod
from typing import Any

from magpie.backends.spirv.memory import LONG
from magpie.backends.spirv.wide import Wide
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType
from magpie.ir.nodes import LocalArray, Node, Region, walk
from magpie.ir.ops import OPS

__all__ = ["Control"]


class _Loop:
    """A loop under construction: its labels, and whether something goes there."""

    __slots__ = ("exit", "left", "repeated", "step")

    def __init__(self, step: int, exit_: int) -> None:
        self.step = step
        self.exit = exit_
        self.left = self.repeated = False


class Control(Wide):
    """Emits regions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loops: list[_Loop] = []
        self.handlers: dict[str, Callable[[Node], None]] = {
            op: getattr(self, name) for op, name in _HANDLERS.items() if hasattr(self, name)
        }
        self.shown: tuple[str, int, int] | None = None

    # --- blocks --------------------------------------------------------------------------------------------------
    @property
    def open(self) -> bool:
        """Whether the current block has no end yet."""
        return self.f.current is not None

    def place(self, label: int) -> None:
        """Go on in a new block."""
        self.f.place(label)
        self.conversions = {}

    def jump(self, label: int) -> bool:
        """End the current block; whether it was open."""
        if not self.open:
            return False
        self.f.branch(label)
        return True

    # --- regions -------------------------------------------------------------------------------------------------
    def region(self, nodes: Region) -> None:
        for node in nodes:
            if not self.open:
                return
            self.visit(node)

    def visit(self, node: Node) -> None:
        """Emit one node."""
        if node.loc is not None:
            self.line(node.loc)
        handler = self.handlers.get(node.op)
        if handler is None:
            self.value(node)
        else:
            handler(node)

    def line(self, loc: Loc) -> None:
        """What comes now is from there. A file goes by its name alone: modules are the same wherever it lies."""
        self.f.line(os.path.basename(loc.file), loc.line, loc.col + 1)

    def body(self, nodes: Region) -> None:
        """Everything, to the end of the function."""
        self.region(nodes)
        if self.open:
            self.f.ret()

    # --- constructs ----------------------------------------------------------------------------------------------
    def if_(self, node: Node) -> None:
        f = self.f
        then, else_ = node.regions
        if not then and not else_:
            return
        condition = self.map[node.args[0]]
        merge = f.label()
        yes, no = (f.label() if nodes else merge for nodes in (then, else_))
        f.selection_merge(merge)
        f.branch_if(condition, yes, no)
        reached = not then or not else_
        for label, nodes in ((yes, then), (no, else_)):
            if nodes:
                self.place(label)
                self.region(nodes)
                reached |= self.jump(merge)
        self.place(merge)
        if not reached:
            f.unreachable()

    def when(self, condition: int, make: Callable[[], None]) -> None:
        """What ``make`` emits, where a condition holds."""
        f = self.f
        then, merge = f.label(), f.label()
        f.selection_merge(merge)
        f.branch_if(condition, then, merge)
        self.place(then)
        make()
        self.jump(merge)
        self.place(merge)

    def choose(self, condition: int, make: Callable[[], list[int]], others: list[int]) -> list[int]:
        """What ``make`` gives where a condition holds, else ``others``."""
        f = self.f
        before = f.current
        then, merge = f.label(), f.label()
        f.selection_merge(merge)
        f.branch_if(condition, then, merge)
        self.place(then)
        values = make()
        end = f.current
        assert before is not None and end is not None
        f.branch(merge)
        self.place(merge)
        pairs = zip(values, others, strict=True)
        return [self.op("Phi", self.module.type_of(v), v, end, other, before) for v, other in pairs]

    def loop(self, node: Node) -> None:
        f = self.f
        body, step = node.regions
        header, start, loop = f.label(), f.label(), _Loop(f.label(), f.label())
        f.branch(header)
        self.place(header)
        f.loop_merge(loop.exit, loop.step, "DontUnroll" if node.attrs.get("rolled") else "None")
        f.branch(start)
        self.place(start)
        self.loops.append(loop)
        self.region(body)
        loop.repeated |= self.jump(loop.step)
        self.place(loop.step)
        if loop.repeated:
            self.tail(step, header, loop)
        else:  # a loop has a way back, taken or not
            f.branch(header)
        self.loops.pop()
        self.place(loop.exit)
        if not loop.left:
            f.unreachable()

    def tail(self, step: Region, header: int, loop: _Loop) -> None:
        """`step` and the way back to the header, on which a `break_if` at the end leaves the loop."""
        last = step[-1] if step and step[-1].op == "break_if" else None
        self.region(step if last is None else step[:-1])
        if not self.open:
            return
        if last is None:
            self.f.branch(header)
        else:
            loop.left = True
            self.f.branch_if(self.map[last.args[0]], loop.exit, header)

    def clear_long_arrays(self) -> None:
        """Local arrays start at zero: a loop for each that is too long for an initialiser."""
        used = {n.attrs.get("array") for n in walk(self.kernel.body)}
        for array in self.kernel.locals:
            if array in used and prod(array.shape) > LONG:
                self.clear(array)

    def clear(self, array: LocalArray) -> None:
        assert isinstance(array.type, DType)
        f, m = self.f, self.module
        variable, _ = self.variable(array)
        counter = f.variable(self.u32, f"{array.name}.cleared", self.word(0))
        header, body, step, merge = (f.label() for _ in range(4))
        f.branch(header)
        self.place(header)
        f.loop_merge(merge, step, "DontUnroll")
        f.branch(body)
        self.place(body)
        at = f.load(counter)
        element = self.type(array.type)
        place = self.op("AccessChain", m.type_pointer("Function", element), variable, at)
        f.store(place, m.null(element))
        after = self.plus(at, self.word(1))
        f.store(counter, after)
        more = self.op("ULessThan", self.bool, after, self.word(prod(array.shape)))
        f.branch(step)
        self.place(step)
        f.branch_if(more, header, merge)
        self.place(merge)

    def break_(self, node: Node) -> None:
        loop = self.loops[-1]
        loop.left = True
        self.f.branch(loop.exit)

    def break_if(self, node: Node) -> None:
        loop, f = self.loops[-1], self.f
        loop.left = True
        on = f.label()
        f.selection_merge(on)
        f.branch_if(self.map[node.args[0]], loop.exit, on)
        self.place(on)

    def continue_(self, node: Node) -> None:
        loop = self.loops[-1]
        loop.repeated = True
        self.f.branch(loop.step)

    def return_(self, node: Node) -> None:
        self.f.ret()


# The method of each op that is no pure value.
_HANDLERS = {
    "if": "if_",
    "loop": "loop",
    "break": "break_",
    "break_if": "break_if",
    "continue": "continue_",
    "return": "return_",
    "slot_get": "slot_get",
    "slot_set": "slot_set",
    "load": "load",
    "store": "store",
    "barrier": "barrier",
    "assert": "report",
    "print": "report",
    "trap": "report",
    **{op: op for op in ("atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "fence")},
    **dict.fromkeys((op for op in OPS if op.startswith("subgroup_")), "subgroup"),
    **{op: op for op in ("tile_fill", "tile_load", "tile_mma", "tile_store")},
}
