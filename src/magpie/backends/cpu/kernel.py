"""From a prepared kernel to a module of LLVM text: the entry, workgroups, scaffold and gang loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from magpie.backends.cpu import abi
from magpie.backends.cpu.control import poll_cancel
from magpie.backends.cpu.gang import Coordinates, Env, Storage
from magpie.backends.cpu.guards import find_guard, guard_check
from magpie.backends.cpu.lane_shapes import Shapes, analyse_shapes
from magpie.backends.cpu.launch import Launch
from magpie.backends.cpu.library import library_call
from magpie.backends.cpu.regions import Barrier, Branch, Exit, Item, Plan, Repeat, Run, Scalar, make_plan
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.cpu.spmd import Gang
from magpie.backends.cpu.teams import Team, find_common, team_size
from magpie.backends.cpu.values import Mask, MaskOps, Value, ramp
from magpie.backends.cpu.width import mask_bits
from magpie.backends.llvm.codegen import HostTarget, function_attributes
from magpie.backends.llvm.emitter import Block, Code, Module, constant, element, memory_element
from magpie.dtypes import DType
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Array, Buffer, Kernel, LocalArray, Node, SharedArray, Slot, walk
from magpie.ir.ops import OPS
from magpie.passes.narrow_index import Ranges

__all__ = ["Emitted", "emit_kernel"]

# Above this many lines of LLVM text only the masked copy of a run is emitted (RULES 28).
_LARGE = 2000


@dataclass(slots=True)
class Emitted:
    """The module and what a driver needs to know of it."""

    text: str
    info: dict[str, Any]
    externals: tuple[str, ...]


class _Kernel:
    def __init__(
        self,
        kernel: Kernel,
        original: Kernel,
        layout: KernelLayout,
        target: HostTarget,
        shapes: Shapes,
        ranges: Ranges,
        lanes: Layout,
        checked: bool,
    ) -> None:
        self.kernel = kernel
        self.target = target
        self.module = Module()
        self.module.node("!{}")
        self.c = Code(self.module)
        self.width = lanes.width
        self.plan: Plan = make_plan(kernel, shapes)
        bits = mask_bits(kernel, shapes, target)
        masks = MaskOps(self.c, lanes.width, bits, max(1, target.vector_bits // max(bits, 8)))
        fast = "reassoc nsz arcp contract afn " if kernel.fastmath else ""
        self.launch = Launch(self.c, kernel, original, layout)
        self.env = Env(self.c, kernel, self.launch, shapes, ranges, lanes, target, masks, checked, fast)
        self.env.used = {a for n in walk(kernel.body) for a in n.args}
        self.env.library = library_call(self.env, fast)
        self.env.record_word = abi.EXTENT_WORD + abi.dynamic_extents(layout)
        self.context: dict[Node | Slot | LocalArray | str, Storage] = {}
        self.context_at: dict[Node | Slot | LocalArray | str, int] = {}
        self.per_gang = 0
        self.fixed = 0
        self.fixed_at: dict[Array, int] = {}
        self.common = find_common(kernel, shapes)
        self.loops: list[tuple[Block, Block]] = []  # step and exit of scaffold loops
        self.alias_metadata()

    # --- memory --------------------------------------------------------------------------------------------------
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

    def reserve(self, key: Node | Slot | LocalArray | str, kind: int, elem: str, size: int, stride: int = 0) -> None:
        """Context memory of ``size`` bytes for each gang."""
        step = 64 if kind == 2 else 8
        at = (self.per_gang + step - 1) // step * step
        self.context_at[key] = at
        self.context[key] = Storage("", elem, kind, stride)
        self.per_gang = at + size

    def lay_out(self) -> None:
        """Decide where everything in the arena lies."""
        plan, shapes, w = self.plan, self.env.shapes, self.width
        for array in self.kernel.shared:
            if not array.dynamic:
                self.place_fixed(array, _elements(array) * array.type.itemsize)
        for local in self.kernel.locals:
            if local not in plan.context_arrays:
                self.place_fixed(local, _elements(local) * local.type.itemsize * w)
        for node in plan.context_nodes:
            shape = shapes.of(node)
            elem = element(node.dtype)
            if node.dtype.is_bool and shape.kind == 2:
                elem = self.env.masks.elem if self.env.masks.bits != 1 else "i8"
            elif node.dtype.is_bool:
                elem = "i8"
            size = _bytes(elem)
            self.reserve(node, shape.kind, elem, size * w if shape.kind == 2 else size, shape.stride or 0)
        for slot in plan.context_slots:
            storage = self.slot_form(slot)
            size = 1 if storage.elem == "i1" else _bytes(storage.elem)
            self.reserve(slot, storage.kind, storage.elem, size * w if storage.kind == 2 else 8, storage.stride)
        for local in plan.context_arrays:
            self.reserve(local, 2, memory_element(_scalar(local)), _elements(local) * local.type.itemsize * w)
        if self.gone:
            self.reserve("gone", 2, self.env.masks.elem, max(1, self.env.masks.bits // 8) * w)
        self.per_gang = (self.per_gang + 63) // 64 * 64

    def place_fixed(self, array: Array, size: int) -> None:
        self.fixed_at[array] = self.fixed
        self.fixed += (size + 63) // 64 * 64

    def slot_form(self, slot: Slot) -> Storage:
        """How a slot is held; as `ControlMixin.make_storage` does it."""
        assert isinstance(slot.type, DType)
        shape = self.env.shapes.slots.get(slot)
        kind = shape.kind if shape is not None else 0
        elem = element(slot.type)
        if kind == 2 and slot.type.is_int and slot.type.bits == 64 and self.env.ranges.slot_fits32(slot):
            elem = "i32"
        if kind == 2 and elem == "i1":
            elem = self.env.masks.elem
        return Storage("", elem, kind, (shape.stride or 0) if shape is not None else 0)

    # --- the entry -----------------------------------------------------------------------------------------------
    def emit(self) -> Emitted:
        c, plan = self.c, self.plan
        self.gone = plan.several and any(n.op == "return" for r in plan.runs for n in walk(r.nodes))
        self.lay_out()
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
        self.bind_arrays(body)
        self.sc = Gang(self.env, replace(self.at, x0="0"), None, self.next)
        self.sc.prologue = body
        for slot in plan.scaffold_slots:
            self.sc.storage[slot] = self.scaffold_storage(slot, body)
        self.clear_context()
        self.items(plan.items)
        c.br(self.next)
        c.place(self.next)
        c.do(f"{following} = add i64 {group}, 1")
        c.br(head)
        c.place(done)
        c.ret()
        if self.env.leave is not None:
            c.blocks.append(self.env.leave)
        entry.end = f"  br label %{head.label}"
        attributes = function_attributes(self.target)
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
                "dynamic": [(s.type.itemsize, s.rank) for s in self.kernel.shared if s.dynamic],
            },
            "records": bool(self.env.sites),
            "polls": bool(self.env.trips),
            "sites": self.env.sites,
        }
        return Emitted(self.module.text(), info, tuple(sorted(known)))

    def place_group(self, group: str) -> None:
        """Workgroup ids from the linear number, x fastest."""
        c, launch = self.c, self.launch
        dims = {n.attrs["dim"] for n in walk(self.kernel.body) if n.op in ("workgroup_id", "global_id")}
        x = c.op(f"urem i64 {group}, {launch.groups(0)}") if dims else "0"
        y = z = "0"
        if dims - {0}:
            row = c.op(f"udiv i64 {group}, {launch.groups(0)}")
            y = c.op(f"urem i64 {row}, {launch.groups(1)}")
            z = c.op(f"udiv i64 {row}, {launch.groups(1)}")
        self.group = group
        self.env.group = group
        self.at = Coordinates((x, y, z), "0", "0", "0", "0", c.at_block, c.at_block)

    def rows_gangs(self) -> str:
        """Gangs along x (rows), or in all."""
        c, launch, w = self.c, self.launch, self.width
        if self.env.layout.rows:
            items = launch.size(0)
        else:
            items = launch.times(launch.size(0), launch.times(launch.size(1), launch.size(2)))
        if items.isdigit():
            return str(-(-int(items) // w))
        key = (1, "gangs")
        if key not in launch.words:
            up = c.op_in(c.entry, f"add i64 {items}, {w - 1}")
            launch.words[key] = c.op_in(c.entry, f"udiv i64 {up}, {w}")
        return launch.words[key]

    def all_gangs(self) -> str:
        gangs, launch = self.rows_gangs(), self.launch
        if self.env.layout.rows:
            gangs = launch.times(gangs, launch.times(launch.size(1), launch.size(2)))
        return gangs

    def bind_arrays(self, block: Block) -> None:
        """Pointers of the arrays in the arena, made in the entry block."""
        c, entry, launch = self.c, self.c.entry, self.launch

        def at(offset: str) -> str:
            return "%arena" if offset == "0" else c.op_in(entry, f"getelementptr i8, ptr %arena, i64 {offset}")

        for array, offset in self.fixed_at.items():
            self.env.arrays[array] = (at(str(offset)), entry)
        self.context_base = at(str(self.fixed)) if self.per_gang else ""
        dynamic = [s for s in self.kernel.shared if s.dynamic]
        if not dynamic:
            return
        gangs = self.all_gangs() if self.per_gang else "0"
        start = launch.times(gangs, str(self.per_gang)) if self.per_gang else "0"
        if start.isdigit():
            start = str(int(start) + self.fixed)
        elif self.fixed:
            start = c.op_in(entry, f"add i64 {start}, {self.fixed}")
        for shared in dynamic:
            self.env.arrays[shared] = (at(start), entry)
            size = str(shared.type.itemsize)
            for dim in range(shared.rank):
                size = launch.times(size, launch.extent(shared, dim))
            up = c.op_in(entry, f"and i64 {c.op_in(entry, f'add i64 {size}, 63')}, -64")
            start = up if start == "0" else c.op_in(entry, f"add i64 {start}, {up}")

    def scaffold_storage(self, slot: Slot, block: Block) -> Storage:
        assert isinstance(slot.type, DType)
        elem = element(slot.type)
        pointer = self.c.alloca(elem)
        self.c.do(f"store {elem} {constant(0, elem)}, ptr {pointer}")
        return Storage(pointer, elem, 0)

    def clear_context(self) -> None:
        """Slots and local arrays start at zero, and nobody is gone."""
        c = self.c
        if not self.per_gang:
            return
        fresh = self.env.shapes.fresh
        if not (self.gone or self.plan.context_arrays or any(s not in fresh for s in self.plan.context_slots)):
            return
        size = self.launch.times(self.all_gangs(), str(self.per_gang))
        self.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        c.do(f"call void @llvm.memset.p0.i64(ptr align 64 {self.context_base}, i8 0, i64 {size}, i1 false)")

    # --- scaffold ------------------------------------------------------------------------------------------------
    def items(self, items: list[Item]) -> None:
        for item in items:
            if not self.c.open:
                return
            if isinstance(item, Run):
                self.run(item)
            elif isinstance(item, Scalar):
                self.sc.visit(item.node)
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
        c, at, storage = self.c, self.context_at[node], self.context[node]
        p = c.op(f"getelementptr i8, ptr {self.context_base}, i64 {at}")
        raw = c.op(f"load {storage.elem}, ptr {p}")
        return c.op(f"icmp ne {storage.elem} {raw}, 0")

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
        if item.node.attrs.get("counted") is None and c.open:
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

    # --- gang loops ----------------------------------------------------------------------------------------------
    def run(self, run: Run) -> None:
        c, launch = self.c, self.launch
        ends: list[Callable[[], None]] = []
        if not self.env.layout.rows:
            at = replace(self.at)
            gang = self.count("g", self.rows_gangs(), ends)
            at.x0 = self.lane_zero(gang)
            at.number, at.block = gang, c.at_block
            self.gang(run, at)
        elif (size := team_size(run.nodes, self.env, self.common)) > 1 and c.lines < _LARGE // 4:
            self.team_rows(run, size, ends)
        else:
            bound = self.cut(run)
            gangs, after = self.rows_gangs(), c.block("cut")
            if bound:
                gangs = self.gangs_below(bound, gangs)
                c.cbr(c.op(f"icmp sgt i64 {gangs}, 0"), some := c.block("some"), after)
                c.place(some)
            row = self.row(self.count("z", launch.size(2), ends), self.count("y", launch.size(1), ends))
            gang = self.count("g", gangs, ends)
            self.gang(run, self.in_row(row, gang))
            if bound:

                def skip() -> None:
                    c.br(after)
                    c.place(after)

                ends.insert(0, skip)
        for end in reversed(ends):
            end()

    def cut(self, run: Run) -> str:
        """The bound k where a run does nothing but ``if thread_id(0) < k``: the gangs beyond have nothing to do."""
        work = [n for n in run.nodes if not OPS[n.op].pure]
        if len(work) != 1 or work[0].op != "if" or work[0].regions[1] or self.env.checked:
            return ""
        cond = work[0].args[0]
        if cond.op != "lt" or cond.args[0].op != "thread_id" or cond.args[0].attrs["dim"] != 0:
            return ""
        kept = set(self.plan.context_nodes)
        bound = self.sc.map.get(cond.args[1])
        if bound is None or bound.elem != "i64" or any(n in kept for n in run.nodes):
            return ""
        return bound.text

    def gangs_below(self, bound: str, gangs: str) -> str:
        """How many gangs of a row hold a thread_id(0) below ``bound``."""
        c, s = self.c, self.sc.scalar
        bound = s.intrinsic("smin", "i64", [bound, str(1 << 32)])
        up = c.op(f"add i64 {bound}, {self.width - 1}")
        count = c.op(f"ashr i64 {up}, {self.width.bit_length() - 1}")
        return s.intrinsic("smin", "i64", [count, gangs])

    def lane_zero(self, gang: str) -> str:
        if not gang.startswith("%"):
            return str(int(gang) * self.width)
        return self.c.op(f"mul i64 {gang}, {self.width}")

    def row(self, z: str, y: str) -> tuple[str, str, str]:
        """(row number, y, z)."""
        if z == "0":
            return y, y, z
        c = self.c
        return c.op(f"add i64 {c.op(f'mul i64 {z}, {self.launch.size(1)}')}, {y}"), y, z

    def in_row(self, row: tuple[str, str, str], gang: str) -> Coordinates:
        """The place of gang number ``gang`` of a row; its number is needed for context memory only."""
        c, at = self.c, replace(self.at)
        number, at.y, at.z = row
        at.x0 = self.lane_zero(gang)
        at.number = gang
        if self.per_gang and number != "0":
            at.number = c.op(f"add i64 {c.op(f'mul i64 {number}, {self.rows_gangs()}')}, {gang}")
        at.block = c.at_block
        return at

    def team_rows(self, run: Run, size: int, ends: list[Callable[[], None]]) -> None:
        """Rows taken ``size`` at a time where there are as many and all lanes agree, else one by one."""
        c, launch = self.c, self.launch
        rows = launch.times(launch.size(1), launch.size(2))
        if rows.isdigit():
            teams = str(-(-int(rows) // size))
        else:
            teams = c.op(f"udiv i64 {c.op(f'add i64 {rows}, {size - 1}')}, {size}")
        team = self.count("t", teams, ends)
        first = c.op(f"mul i64 {team}, {size}") if team != "0" else "0"
        left = c.op(f"sub i64 {rows}, {first}")
        whole = c.op(f"icmp sge i64 {left}, {size}")
        numbers = [c.op(f"add i64 {first}, {k}") for k in range(size)]
        places = [
            (n, c.op(f"urem i64 {n}, {launch.size(1)}"), c.op(f"udiv i64 {n}, {launch.size(1)}")) for n in numbers
        ]
        gang = self.count("g", self.rows_gangs(), ends)
        together, apart, done = c.block("team"), c.block("apart"), c.block("ran")
        spots = [self.in_row(place, gang) for place in places]
        assumed: dict[Node, bool] = {}
        for at in spots:
            full, assumed = self.agreement(run, at, done)
            if full:
                whole = c.op(f"and i1 {whole}, {full}")
        c.cbr(whole, together, apart)
        c.place(together)
        self.team_copy(run, spots, assumed, done)
        c.place(apart)
        inner: list[Callable[[], None]] = []
        count = self.sc.scalar.intrinsic("smin", "i64", [left, str(size)])
        one = c.op(f"add i64 {first}, {self.count('r', count, inner)}")
        place = (one, c.op(f"urem i64 {one}, {launch.size(1)}"), c.op(f"udiv i64 {one}, {launch.size(1)}"))
        self.gang(run, self.in_row(place, gang))
        for end in inner:
            end()
        c.br(done)
        c.place(done)

    def team_copy(self, run: Run, spots: list[Coordinates], assumed: dict[Node, bool], done: Block) -> None:
        """The code of a run for several full gangs together."""
        c = self.c
        opened = [self.open_gang(run, at, None, assumed) for at in spots]
        Team(self.env, [gang for gang, _, _ in opened], self.common).region(run.nodes)
        for gang, context, end in opened:
            c.br(end)
            c.place(end)
            self.close_gang(run, gang, context)
        c.br(done)

    def count(self, hint: str, trips: str, ends: list[Callable[[], None]]) -> str:
        """A loop over 0..trips (at least one trip); the body is emitted next, and ``ends`` gets what closes it."""
        if trips == "1":
            return "0"
        c = self.c
        header, exit_ = c.block(hint), c.block("x" + hint)
        before = c.at_block
        c.br(header)
        c.place(header)
        index, following = c.name(), c.name()
        header.lines.append(f"  {index} = phi i64 [ 0, %{before.label} ], [ {following}, %LATCH ]")

        def end() -> None:
            c.do(f"{following} = add i64 {index}, 1")
            header.lines[0] = header.lines[0].replace("%LATCH", f"%{c.at_block.label}")
            c.cbr(c.op(f"icmp ult i64 {following}, {trips}"), header, exit_)
            c.place(exit_)

        ends.append(end)
        return index

    def items_along(self) -> str:
        """Work-items that gangs are counted over: of a row, or of the workgroup."""
        launch = self.launch
        if self.env.layout.rows:
            return launch.size(0)
        return launch.times(launch.size(0), launch.times(launch.size(1), launch.size(2)))

    def agreement(self, run: Run, at: Coordinates, done: Block) -> tuple[str, dict[Node, bool]]:
        """An i1 that the gang is full and its lanes agree on the guard ("" where both are known), and what follows."""
        c, w = self.c, self.width
        items = self.items_along()
        full = ""
        if not (items.isdigit() and int(items) % w == 0):
            full = c.op(f"icmp sle i64 {c.op(f'add i64 {at.x0}, {w}')}, {items}")
        assumed: dict[Node, bool] = {}
        guard = find_guard(run.nodes, self.env)
        if guard is not None:
            probe = Gang(self.env, at, None, done)
            probe.map = dict(self.sc.map)
            self.recompute(probe, run)
            agreed = guard_check(probe, guard, assumed)
            if agreed:
                full = c.op(f"and i1 {full}, {agreed}") if full else agreed
        return full, assumed

    def gang(self, run: Run, at: Coordinates) -> None:
        """One gang of a run: a copy for full gangs in which the guard holds, and a masked one (RULES 28)."""
        c, w = self.c, self.width
        items = self.items_along()
        tail = not (items.isdigit() and int(items) % w == 0)
        done = c.block("ran")
        full: str = ""
        assumed: dict[Node, bool] = {}
        if c.lines <= _LARGE and not (items.isdigit() and int(items) < w):
            full, assumed = self.agreement(run, at, done)
        if full:
            fast, slow = c.block("full"), c.block("part")
            c.cbr(full, fast, slow)
            c.place(fast)
            self.copy(run, at, None, assumed, done)
            c.place(slow)
        self.copy(run, at, self.tail_mask(at, items) if tail else None, {}, done)
        c.place(done)

    def tail_mask(self, at: Coordinates, items: str) -> Mask:
        """Lanes below the number of work-items that are left."""
        c, w = self.c, self.width
        bits = self.env.masks.bits if self.env.masks.bits != 1 else 8
        elem = f"i{bits}"
        left = c.op(f"sub i64 {items}, {at.x0}") if at.x0 != "0" else items
        s = self.sc.scalar
        if not left.isdigit():
            left = s.intrinsic("smin", "i64", [left, str(w)])
            left = c.op(f"trunc i64 {left} to {elem}") if bits != 64 else left
        else:
            left = str(min(int(left), w))
        limit = self.sc.splat_in(c.at_block, left, elem)
        return self.env.masks.from_i1(c.op(f"icmp slt <{w} x {elem}> {ramp(elem, 1, w)}, {limit}"))

    def recompute(self, gang: Gang, run: Run) -> None:
        for node in run.again:
            if node not in gang.map:
                gang.map[node] = gang.pure(node)

    def copy(self, run: Run, at: Coordinates, mask: Mask | None, assumed: dict[Node, bool], done: Block) -> None:
        """The code of a run for one gang under ``mask``; ends in ``done``."""
        c = self.c
        gang, context, end = self.open_gang(run, at, mask, assumed)
        if gang.alive_after:
            assert gang.mask is not None
            c.cbr(self.env.masks.any(gang.mask), some := c.block("some"), end)
            c.place(some)
        gang.region(run.nodes)
        c.br(end)
        c.place(end)
        self.close_gang(run, gang, context)
        c.br(done)

    def open_gang(
        self, run: Run, at: Coordinates, mask: Mask | None, assumed: dict[Node, bool]
    ) -> tuple[Gang, str, Block]:
        """A gang ready to execute a run, its part of the context memory, and the block where it ends."""
        c, plan = self.c, self.plan
        end, start = c.block("end"), c.block("gang")
        if mask is not None:
            self.env.masks.wide(mask)
        c.br(start)
        c.place(start)
        gang = Gang(self.env, at, mask, end)
        gang.map = dict(self.sc.map)
        gang.storage = dict(self.sc.storage)
        context = ""
        if self.per_gang:
            offset = c.op(f"mul i64 {at.number}, {self.per_gang}")
            context = c.op(f"getelementptr i8, ptr {self.context_base}, i64 {offset}")
        self.open_alive(gang, mask, context)
        for array in self.kernel.locals:
            self.open_local(gang, array, run, context)
        for slot in plan.context_slots:
            if slot in run.slots:
                self.copy_in(gang, slot, context)
        body = c.block("body")
        c.br(body)
        c.place(body)
        for node in run.reads:
            gang.map[node] = self.read_context(gang, node, context)
        self.recompute(gang, run)
        for node, truth in assumed.items():
            gang.map[node] = Value(0, "true" if truth else "false", "i1")
        gang.kept = {n: self.writer(gang, n, context) for n in plan.context_nodes}
        return gang, context, end

    def close_gang(self, run: Run, gang: Gang, context: str) -> None:
        """Save what lives on."""
        c, m = self.c, self.env.masks
        for slot in self.plan.context_slots:
            if slot in run.sets:
                self.copy_out(gang, slot, context)
        if gang.alive_after:
            gone = m.not_(gang.load_mask(gang.alive))
            p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at['gone']}")
            c.do(f"store {m.type} {m.wide(gone)}, ptr {p}, align 64")

    def open_alive(self, gang: Gang, mask: Mask | None, context: str) -> None:
        """The mask of lanes that have not returned, if lanes may return on their own."""
        c, m = self.c, self.env.masks
        if not (self.env.shapes.returns or self.gone):
            return
        gang.alive = c.alloca(m.type, 64)
        if self.gone:
            p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at['gone']}")
            here = m.not_(Mask(wide=c.op(f"load {m.type}, ptr {p}, align 64")))
            gang.mask = here if mask is None else m.and_(mask, here)
            gang.alive_after = True
            gang.store_mask(here, gang.alive)
        else:
            gang.store_mask(mask, gang.alive)

    def open_local(self, gang: Gang, array: LocalArray, run: Run, context: str) -> None:
        """This gang's part of a local array, zeroed if its life begins here."""
        c = self.c
        if array in self.plan.context_arrays:
            gang.locals[array] = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[array]}")
            return
        pointer = self.env.arrays[array][0]
        if any(n.attrs.get("array") is array for n in walk(run.nodes)):
            size = _elements(array) * array.type.itemsize * self.width
            self.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
            c.do(f"call void @llvm.memset.p0.i64(ptr align 64 {pointer}, i8 0, i64 {size}, i1 false)")

    # --- context -------------------------------------------------------------------------------------------------
    def context_type(self, storage: Storage) -> str:
        return f"<{self.width} x {storage.elem}>" if storage.kind == 2 else storage.elem

    def copy_in(self, gang: Gang, slot: Slot, context: str) -> None:
        c, form = self.c, self.context[slot]
        type_ = self.context_type(form)
        pointer = c.alloca(type_, 64 if form.kind == 2 else 0)
        p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[slot]}")
        c.do(f"store {type_} {c.op(f'load {type_}, ptr {p}')}, ptr {pointer}")
        gang.storage[slot] = Storage(pointer, form.elem, form.kind, form.stride)

    def copy_out(self, gang: Gang, slot: Slot, context: str) -> None:
        c, form = self.c, self.context[slot]
        type_ = self.context_type(form)
        p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[slot]}")
        c.do(f"store {type_} {c.op(f'load {type_}, ptr {gang.storage[slot].pointer}')}, ptr {p}")

    def read_context(self, gang: Gang, node: Node, context: str) -> Value:
        c, form = self.c, self.context[node]
        p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[node]}")
        raw = c.op(f"load {self.context_type(form)}, ptr {p}")
        if node.dtype.is_bool:
            if form.kind == 2:
                if self.env.masks.bits != 1:
                    return gang.bools(Mask(wide=raw))
                return gang.vec(c.op(f"icmp ne <{self.width} x i8> {raw}, zeroinitializer"), "i1")
            return gang.uni(c.op(f"icmp ne i8 {raw}, 0"), "i1")
        if form.kind == 2:
            return gang.vec(raw, form.elem)
        return gang.uni(raw, form.elem) if form.kind == 0 else gang.lin(raw, form.elem, form.stride)

    def writer(self, gang: Gang, node: Node, context: str) -> Callable[[Value], None]:
        """What stores the value of a context node once it is computed."""
        c, form = self.c, self.context[node]

        def write(value: Value) -> None:
            p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[node]}")
            if node.dtype.is_bool:
                if form.kind == 2:
                    m = gang.as_mask(value)
                    text = self.env.masks.wide(m)
                    if self.env.masks.bits == 1:
                        text = c.op(f"sext {self.env.masks.type} {text} to <{self.width} x i8>")
                else:
                    text = c.op(f"zext i1 {value.text} to i8")
            elif form.kind == 2:
                text = gang.lanes(value, form.elem)
            else:
                text = value.text
            c.do(f"store {self.context_type(form)} {text}, ptr {p}")

        return write


def _scalar(array: Array) -> DType:
    assert isinstance(array.type, DType)
    return array.type


def _elements(array: SharedArray | LocalArray) -> int:
    n = 1
    for extent in array.shape:
        assert isinstance(extent, int)
        n *= extent
    return n


def _bytes(elem: str) -> int:
    return {"float": 4, "double": 8, "i1": 1}.get(elem) or max(1, int(elem[1:]) // 8)


def emit_kernel(
    kernel: Kernel,
    original: Kernel,
    layout: KernelLayout,
    target: HostTarget,
    lanes: Layout,
    ranges: Ranges,
    *,
    checked: bool = False,
) -> Emitted:
    """LLVM text of a prepared kernel with forwarded slots. ``original`` is the kernel before structs were split."""
    shapes = analyse_shapes(kernel, lanes, ranges)
    return _Kernel(kernel, original, layout, target, shapes, ranges, lanes, checked).emit()
