"""MAGPIE_DUMP=regions: how a kernel was cut at its barriers, and what is kept per gang across them, and why."""

from __future__ import annotations

import os
from collections.abc import Iterable

from magpie.backends.cpu.kernel import KernelEmitter
from magpie.backends.cpu.regions import Barrier, Branch, Item, Plan, Repeat, Run
from magpie.diagnostics.loc import Loc
from magpie.ir.nodes import LocalArray, Node, Region, Slot, walk
from magpie.ir.ops import OPS, Effect
from magpie.ir.printer import Printer, print_type

__all__ = ["print_regions"]

_SHAPES = ("the same in all lanes", "one number and a step", "one a lane")


def print_regions(emitter: KernelEmitter) -> str:
    """The regions of a kernel that is about to be emitted, with the nodes of each, then its context arrays."""
    emitter.lay_out()
    return _Text(emitter).text()


class _Text:
    def __init__(self, emitter: KernelEmitter) -> None:
        self.emitter = emitter
        self.plan: Plan = emitter.plan
        self.number = {run: k for k, run in enumerate(self.plan.runs, 1)}
        self.home: dict[Node, Run] = {n: run for run in self.plan.runs for n in walk(run.nodes)}
        self.p = Printer(True)
        self.p.region(emitter.kernel.body, "")  # names every value, wherever it will stand
        self.p.lines.clear()

    def text(self) -> str:
        kernel, plan, add = self.emitter.kernel, self.plan, self.p.lines.append
        regions = f"{len(plan.runs)} region{'s' * (len(plan.runs) != 1)}"
        add(f"kernel {kernel.name}: {regions}, each a loop over gangs of {self.emitter.width} work-items")
        self.items(plan.items, "  ")
        if not plan.several:
            add("no context arrays: one region, executed once, keeps its values in registers")
            return "\n".join(self.p.lines) + "\n"
        rows = list(self.context())
        size = self.emitter.per_gang
        add(f"context arrays, {size} bytes a gang:" if rows else "no context arrays: no value crosses a barrier")
        self.p.lines += [f"  {row}" for row in rows]
        for slot in plan.scaffold_slots:
            add(f"scalar of the workgroup: {self.slot(slot)}, since all of its values are the same for all work-items")
        return "\n".join(self.p.lines) + "\n"

    # --- the scaffold --------------------------------------------------------------------------------------------
    def items(self, items: list[Item], indent: str) -> None:
        add = self.p.lines.append
        for item in items:
            if isinstance(item, Run):
                self.region(item, indent)
            elif isinstance(item, Barrier):
                add(f"{indent}barrier{_at(item.node.loc)}")
            elif isinstance(item, Branch):
                add(f"{indent}if {self.p.value(item.node.args[0])} {{{_at(item.node.loc)}")
                self.items(item.then, indent + "  ")
                if item.else_:
                    add(f"{indent}}} else {{")
                    self.items(item.else_, indent + "  ")
                add(indent + "}")
            elif isinstance(item, Repeat):
                add(f"{indent}loop {{{_at(item.node.loc)}")
                self.items(item.body, indent + "  ")
                if item.step:
                    add(f"{indent}}} step {{")
                    self.items(item.step, indent + "  ")
                add(indent + "}")
            else:
                self.p.node(item.node, indent + "once: ")

    def region(self, run: Run, indent: str) -> None:
        add = self.p.lines.append
        add(f"{indent}region {self.number[run]}{' of a loop with a barrier' * run.looped} {{{_at(_first(run.nodes))}")
        for node in run.again:
            self.p.node(node, indent + "  again: ")
        for node in run.reads:
            add(f"{indent}  from context: {self.p.value(node)}")
        self.p.region(run.nodes, indent + "  ")
        add(indent + "}")

    # --- what is kept, and why -----------------------------------------------------------------------------------
    def context(self) -> Iterable[str]:
        for node in self.plan.context_nodes:
            yield f"{self.p.value(node)}: {node.type}{self.size(node)}: {'; '.join(self.why_node(node))}{_at(node.loc)}"
        for slot in self.plan.context_slots:
            yield f"{self.slot(slot)}{self.size(slot)}: {self.why_slot(slot)}"
        for array in self.plan.context_arrays:
            shape = ", ".join(map(str, array.shape))
            name = f"{self.p.unique(array, array.name)}: {print_type(array.type)}[{shape}]"
            yield f"{name}{self.size(array)}: {self.why_array(array)}{_at(array.loc)}"
        if "gone" in self.emitter.context:
            leaving = [run for run in self.plan.runs if any(n.op == "return" for n in walk(run.nodes))]
            yield f"the work-items that are left{self.size('gone')}: some return in {self.name(leaving)}"

    def size(self, key: Node | Slot | LocalArray | str) -> str:
        return f" at {self.emitter.context_at[key]}, {_SHAPES[self.emitter.context[key].kind]}"

    def slot(self, slot: Slot) -> str:
        return f"{self.p.unique(slot, slot.name)}: {slot.type}"

    def name(self, runs: Iterable[Run]) -> str:
        """``region 1``, ``regions 1 and 3``."""
        numbers = [str(self.number[run]) for run in runs]
        if len(numbers) == 1:
            return f"region {numbers[0]}"
        return f"regions {', '.join(numbers[:-1])} and {numbers[-1]}"

    def why_node(self, node: Node) -> Iterable[str]:
        readers = [run for run in self.plan.runs if node in run.reads]
        made = self.name([self.home[node]])
        if readers:
            yield f"made in {made} and used in {self.name(readers)}, where {self.not_again(node)}"
        if node in self.plan.broadcast:
            yield f"made in {made}, decides a branch around a barrier, with the value of work-item 0"

    @staticmethod
    def not_again(node: Node) -> str:
        if OPS[node.op].effect is Effect.CROSS_LANE:
            return "other lanes may be active"
        if not OPS[node.op].pure:
            return f"another {node.op} may give something else"
        seen: set[Node] = set()
        todo = list(node.args)
        while todo:
            operand = todo.pop()
            if operand not in seen:
                seen.add(operand)
                if not OPS[operand.op].pure:
                    return f"it cannot be computed again without another {operand.op}"
                todo += operand.args
        return "computing it again takes too many operations"

    def why_slot(self, slot: Slot) -> str:
        sets = [run for run in self.plan.runs if slot in run.sets]
        gets = [run for run in self.plan.runs if _reads(run.nodes, slot)]
        if len({*sets, *gets}) == 1:
            (run,) = {*sets, *gets}
            if run.looped:
                return f"its value in {self.name([run])} may be that of the trip before"
        if not gets:
            return f"set in {self.name(sets)}, and read by the scaffold"
        start = f"set in {self.name(sets)} and " if sets else "starts at zero and is "
        return f"{start}read in {self.name(gets)}"

    def why_array(self, array: LocalArray) -> str:
        users = [run for run in self.plan.runs if any(n.attrs.get("array") is array for n in walk(run.nodes))]
        again = ", which a loop with a barrier executes again" if len(users) == 1 else ""
        return f"used in {self.name(users)}{again}"


def _reads(nodes: Region, slot: Slot) -> bool:
    return any(n.op == "slot_get" and n.attrs["slot"] is slot for n in walk(nodes))


def _first(nodes: Region) -> Loc | None:
    return next((n.loc for n in nodes if n.loc is not None), None)


def _at(loc: Loc | None) -> str:
    return f"  # {os.path.basename(loc.file)}:{loc.line}" if loc is not None else ""
