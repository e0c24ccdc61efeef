"""From a prepared kernel to a module of LLVM text: the entry, workgroups, scaffold and gang loops."""

from __future__ import annotations

from typing import Any

from magpie.backends.cpu import abi
from magpie.backends.cpu.abreast import go_abreast, runs_on
from magpie.backends.cpu.batches import Batches
from magpie.backends.cpu.effort import effort
from magpie.backends.cpu.filled import filled_arrays
from magpie.backends.cpu.gang import Coordinates, Env, Storage
from magpie.backends.cpu.lane_shapes import analyse_shapes
from magpie.backends.cpu.launch import Launch
from magpie.backends.cpu.library import library_call
from magpie.backends.cpu.order import BAND, in_bands
from magpie.backends.cpu.plain import plain
from magpie.backends.cpu.polling import poll_cancel
from magpie.backends.cpu.regions import Barrier, Branch, Exit, Item, Plan, Repeat, Run, Scalar, make_plan
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.cpu.spmd import Gang
from magpie.backends.cpu.streaming import Streams
from magpie.backends.cpu.validate import validate_plan
from magpie.backends.cpu.values import MaskOps
from magpie.backends.cpu.width import mask_bits
from magpie.backends.llvm.codegen import HostTarget, function_attributes
from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Block, Code, Module, constant, element
from magpie.diagnostics import CompileError
from magpie.dtypes import DType
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Array, Buffer, Kernel, Node, Slot, walk
from magpie.passes.access_groups import find_groups
from magpie.passes.narrow_index import Ranges

__all__ = ["Emitted", "KernelEmitter", "kernel_emitter"]

# Kernels of more nodes get one copy of their code, and loops over lanes in place of unrolled ones (RULES 28).
_LARGE = 800


@plain
class Emitted:
    """The module and what a driver needs to know of it."""

    text: str
    info: dict[str, Any]
    externals: tuple[str, ...]


class KernelEmitter(Batches):
    """One kernel on its way to text."""

    def __init__(self, env: Env, plan: Plan) -> None:
        super().__init__(env.kernel, env.code.module, env, plan)
        self.loops: list[tuple[Block, Block]] = []  # step and exit of scaffold loops
        self.together = go_abreast(env, plan)
        self.joined = self.together != "false" and runs_on(env)
        self.alias_metadata()

    def alias_metadata(self) -> None:
        """A scope for each array; buffers only where the launch promised that they do not overlap."""
        kernel, node = self.kernel, self.module.node
        arrays: list[Array] = [*kernel.shared, *kernel.locals]
        buffers = [b for b in kernel.buffers if b.access != "none"]
        separate = kernel.facts.noalias
        groups: list[list[Array]] = [[a] for a in arrays]
        if separate:
            groups += [[b] for b in buffers]
        elif buffers:
            groups.append(list(buffers))
        if len(groups) < 2:
            return
        domain = node('distinct !{{self}, !"arrays"}')
        scopes = [node(f"distinct !{{{{self}}, {domain}}}") for _ in groups]
        for own, group in zip(scopes, groups, strict=True):
            mine = node(f"!{{{own}}}")
            others = node("!{" + ", ".join(s for s in scopes if s != own) + "}")
            for array in group:
                text = f", !alias.scope {mine}, !noalias {others}"
                if separate and isinstance(array, Buffer) and array.access == "read":
                    text += ", !invariant.load !0"
                self.env.alias[array] = text

    def emit(self) -> Emitted:
        c, plan = self.c, self.plan
        self.lay_out()
        ahead, items = self.split()
        head, body, done = c.block("wg"), c.block("work"), c.block("done")
        self.next = c.block("next")
        entry = c.entry
        c.br(head)
        c.place(head)
        group = c.name()
        following = c.name()
        head.lines.append(f"  {group} = phi i64 [ %wg_begin, %entry ], [ {following}, %{self.next.label} ]")
        c.cbr(c.op(f"icmp slt i64 {group}, %wg_end"), body, done)
        c.place(body)
        self.place_group(group)
        if self.together != "false":
            self.abreast = self.count_abreast(group)
        self.bind_arrays("0", str(self.fixed), entry)
        self.sc = Gang(self.env, self.at, None, self.next)
        self.sc.prologue = body
        for slot in plan.scaffold_slots:
            self.sc.storage[slot] = self.scaffold_storage(slot, body)
        if ahead:
            self.open_batch(c.op(f"sub i64 %wg_end, {group}"))
            self.each_group(self.clear_context, set())
            self.lockstep = True
            self.items(ahead)
            self.one_by_one(items)
        else:
            self.clear_context()
            self.items(items)
        c.br(self.next)
        c.place(self.next)
        c.do(f"{following} = add i64 {group}, {self.here if ahead else self.abreast or 1}")
        c.br(head)
        c.place(done)
        if self.env.streams.metadata:
            self.env.streams.drain()
        c.ret()
        if self.env.leave is not None:
            self.env.leave.end = f"  br label %{done.label}"
            c.blocks.append(self.env.leave)
        entry.end = f"  br label %{head.label}"
        attributes = function_attributes(self.env.target)
        text = c.function(
            f"define void @{abi.ENTRY}(ptr noundef %args, i64 %wg_begin, i64 %wg_end, ptr noundef %arena) "
            f"nounwind {attributes}"
        )
        self.module.functions.append(text)
        known = {n for n in self.module.declarations if not n.startswith("llvm.")}
        info: dict[str, Any] = {
            "entry": abi.ENTRY,
            "gang": self.width,
            "arena": {
                "fixed": self.fixed,
                "per_gang": self.per_gang,
                "rows": self.env.layout.rows,
                "batch": self.batch,
                "dynamic": [(s.type.itemsize, s.rank) for s in self.kernel.shared if s.dynamic],
            },
            "abreast": self.together != "false",
            "streams": self.launch.reads(abi.STREAM_WORD),
            "records": bool(self.env.sites),
            "polls": self.env.leave is not None,
            "effort": effort(self.kernel, self.env.ranges),
            "sites": self.env.sites,
        }
        return Emitted(self.module.text(), info, tuple(sorted(known)))

    def count_abreast(self, group: str) -> str:
        """How many workgroups from this one on go abreast: those of its row, or this one alone."""
        c = self.c
        ops = Ops(c, 1)
        row = c.op(f"sub i64 {self.launch.groups(0)}, {self.at.group[0]}")
        several = ops.intrinsic("smin", "i64", [row, c.op(f"sub i64 %wg_end, {group}")])
        return several if self.together == "true" else c.op(f"select i1 {self.together}, i64 {several}, i64 1")

    def place_group(self, group: str) -> None:
        """Workgroup ids from the linear number: x fastest, or in bands (see `order`)."""
        c, launch = self.c, self.launch
        dims = {n.attrs["dim"] for n in walk(self.kernel.body) if n.op in ("workgroup_id", "global_id")}
        columns = launch.groups(0)
        x = y = z = "0"
        if dims - {0}:
            rows = launch.groups(1)
            plane = launch.times(columns, rows)
            z = c.op(f"udiv i64 {group}, {plane}")
            rest = c.op(f"urem i64 {group}, {plane}")
            # reports tell a workgroup by its number
            if not self.env.checked and in_bands(self.kernel):
                band = launch.times(columns, str(BAND))
                first = c.op(f"mul i64 {c.op(f'udiv i64 {rest}, {band}')}, {BAND}")
                rest = c.op(f"urem i64 {rest}, {band}")
                left = c.op(f"sub i64 {rows}, {first}")
                height = c.op(f"select i1 {c.op(f'icmp slt i64 {left}, {BAND}')}, i64 {left}, i64 {BAND}")
                x = c.op(f"udiv i64 {rest}, {height}")
                y = c.op(f"add i64 {first}, {c.op(f'urem i64 {rest}, {height}')}")
            else:
                x = c.op(f"urem i64 {rest}, {columns}")
                y = c.op(f"udiv i64 {rest}, {columns}")
        elif dims:
            x = c.op(f"urem i64 {group}, {columns}")
        self.env.group = group
        self.at = Coordinates((x, y, z), "0", "0", "0", "0", c.at_block, c.at_block, x)

    def scaffold_storage(self, slot: Slot, block: Block) -> Storage:
        assert isinstance(slot.type, DType)
        elem = element(slot.type)
        pointer = self.c.alloca(elem)
        self.c.do(f"store {elem} {constant(0, elem)}, ptr {pointer}")
        return Storage(pointer, elem, 0)

    # --- scaffold ------------------------------------------------------------------------------------------------

    def item(self, item: Item) -> None:
        if isinstance(item, Run):
            self.run(item)
        elif isinstance(item, Scalar):
            self.sc.visit(item.node)
            if self.lockstep:
                self.scalars.append(item.node)
        elif isinstance(item, Branch):
            self.branch(item)
        elif isinstance(item, Repeat):
            self.repeat(item)
        elif isinstance(item, Exit):
            self.exit(item.node)
        else:
            assert isinstance(item, Barrier)

    def condition(self, node: Node) -> str:
        """A scaffold condition as an i1: computed by the scaffold, or what item 0 has."""
        known = self.sc.map.get(node)
        if known is not None:
            return known.text
        return self.of_item_0(node)

    def branch(self, item: Branch) -> None:
        c = self.c
        then, else_, join = c.block("then"), c.block("else"), c.block("join")
        c.cbr(self.condition(item.node.args[0]), then, else_)
        reached = False
        for block, inner in ((then, item.then), (else_, item.else_)):
            c.place(block)
            self.items(inner)
            reached |= c.open
            c.br(join)
        if reached:
            c.place(join)

    def repeat(self, item: Repeat) -> None:
        c = self.c
        header, step, exit_ = c.block("loop"), c.block("step"), c.block("exit")
        c.br(header)
        c.place(header)
        self.loops.append((step, exit_))
        self.items(item.body)
        c.br(step)
        c.place(step)
        self.items(item.step)
        if c.open:  # a trip of the scaffold is work for the whole workgroup: the test is nothing beside it
            poll_cancel(self.env)
        c.br(header)
        self.loops.pop()
        c.place(exit_)

    def exit(self, node: Node) -> None:
        c = self.c
        if node.op == "return":
            c.br(self.next)
        elif node.op == "break":
            c.br(self.loops[-1][1])
        elif node.op == "continue":
            c.br(self.loops[-1][0])
        else:
            on = c.block("on")
            c.cbr(self.condition(node.args[0]), self.loops[-1][1], on)
            c.place(on)


def kernel_emitter(
    kernel: Kernel,
    original: Kernel,
    layout: KernelLayout,
    target: HostTarget,
    lanes: Layout,
    ranges: Ranges,
    *,
    checked: bool = False,
) -> KernelEmitter:
    """What emits a prepared kernel with forwarded slots. ``original`` is the kernel before structs were split.

    Raises CompileError (MPG_CPU_1002).
    """
    shapes = analyse_shapes(kernel, lanes, ranges)
    module = Module()
    module.node("!{}")
    code = Code(module)
    bits = mask_bits(kernel, shapes, target)
    masks = MaskOps(code, lanes.width, bits, max(1, target.vector_bits // max(bits, 8)))
    # not nnan or ninf: a NaN must stay one, not become anything
    fast = "reassoc nsz arcp contract afn " if kernel.fastmath else ""
    launch = Launch(code, kernel, original, layout)
    large = sum(1 for _ in walk(kernel.body)) > _LARGE
    streams = Streams(kernel, launch, target, lanes.width, large=large)
    env = Env(code, kernel, launch, shapes, ranges, lanes, target, masks, checked, fast, streams)
    env.used = {a for n in walk(kernel.body) for a in n.args}
    env.large = large
    env.library = library_call(env, fast)
    env.record_word = abi.EXTENT_WORD + abi.dynamic_extents(layout)
    plan = make_plan(kernel, shapes)
    if refused := validate_plan(kernel, plan):
        raise CompileError(refused)
    env.filled = filled_arrays(kernel, ranges)
    env.groups = find_groups([run.nodes for run in plan.runs], kernel, ranges)
    return KernelEmitter(env, plan)
