"""Executes a run of nodes for every gang of the workgroup: the loops over gangs, and the copies of the code in them."""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.arena import Arena
from magpie.backends.cpu.gang import Coordinates, Env
from magpie.backends.cpu.guards import find_guard, guard_check
from magpie.backends.cpu.plain import copy_with
from magpie.backends.cpu.regions import Plan, Run
from magpie.backends.cpu.spmd import Gang
from magpie.backends.cpu.stretches import LONG, in_a_stretch, worth_a_loop
from magpie.backends.cpu.teams import Team, find_common, team_size
from magpie.backends.cpu.values import Mask, Value, ramp
from magpie.backends.llvm.emitter import Block, Module
from magpie.ir.nodes import Kernel, Node
from magpie.ir.ops import OPS

__all__ = ["GangLoops"]

# Above this many lines of LLVM text only the masked copy of a run is emitted (RULES 28).
_LARGE = 2000


class GangLoops(Arena):
    """``at`` says which workgroup is executed, and ``sc`` holds what the scaffold has computed."""

    at: Coordinates
    sc: Gang
    abreast = ""  # how many workgroups are executed row by row together (see `abreast`)
    joined = False  # a row of all of them is one row of gangs

    def __init__(self, kernel: Kernel, module: Module, env: Env, plan: Plan) -> None:
        super().__init__(kernel, module, env, plan)
        self.common = find_common(kernel, env.shapes)

    def run(self, run: Run) -> None:
        c, launch = self.c, self.launch
        ends: list[Callable[[], None]] = []
        if not self.env.layout.rows:
            at = copy_with(self.at)
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
            alone = self.at
            if self.joined:
                gangs = c.op(f"mul i64 {gangs}, {self.abreast}")
            elif self.abreast:
                self.at = self.beside(self.count("b", self.abreast, ends))
            self.gangs_of_row(run, row, gangs)
            self.at = alone
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

    def place(self, number: str) -> tuple[str, str, str]:
        """(row number, y, z) of a row number."""
        c, y = self.c, self.launch.size(1)
        if self.launch.size(2) == "1":
            return number, number, "0"
        return number, c.op(f"urem i64 {number}, {y}"), c.op(f"udiv i64 {number}, {y}")

    def beside(self, number: str) -> Coordinates:
        """The place of the workgroup that lies ``number`` to the right."""
        x, y, z = self.at.group
        x = self.c.op(f"add i64 {x}, {number}")
        return copy_with(self.at, group=(x, y, z), group_block=self.c.at_block, last=x)

    def in_row(self, row: tuple[str, str, str], gang: str) -> Coordinates:
        """The place of gang number ``gang`` of a row; its number is needed for context memory only."""
        c, at = self.c, copy_with(self.at)
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
        left, whole = str(size), ""  # conditions of a whole team; "" where it is known to be one
        if not (rows.isdigit() and int(rows) % size == 0):
            left = c.op(f"sub i64 {rows}, {first}")
            whole = c.op(f"icmp sge i64 {left}, {size}")
        numbers = [c.op(f"add i64 {first}, {k}") for k in range(size)]
        places = [self.place(n) for n in numbers]
        gang = self.count("g", self.rows_gangs(), ends)
        together, apart, done = c.block("team"), c.block("apart"), c.block("ran")
        spots = [self.in_row(place, gang) for place in places]
        assumed: dict[Node, bool] = {}
        for at in spots:
            full, assumed = self.agreement(run, at, done)
            if full:
                whole = c.op(f"and i1 {whole}, {full}") if whole else full
        if whole:
            c.cbr(whole, together, apart)
        else:
            c.br(together)
        c.place(together)
        self.team_copy(run, spots, assumed, done)
        if not whole:
            c.place(done)
            return
        c.place(apart)
        inner: list[Callable[[], None]] = []
        count = self.sc.scalar.intrinsic("smin", "i64", [left, str(size)])
        one = c.op(f"add i64 {first}, {self.count('r', count, inner)}")
        self.gang(run, self.in_row(self.place(one), gang))
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

    def count(self, hint: str, trips: str, ends: list[Callable[[], None]], *, rolled: bool = False) -> str:
        """A loop over 0..trips (at least one trip); the body is emitted next, and ``ends`` gets what closes it.

        ``rolled``: unrolling would only cost compile time.
        """
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
            if rolled:
                c.at_block.end += f", !llvm.loop {self.module.rolled()}"
            c.place(exit_)

        ends.append(end)
        return index

    def up_to(self, trips: str, body: Callable[[str], None]) -> None:
        """A loop over 0..trips, perhaps of no trip, that LLVM leaves rolled."""
        c, ends = self.c, list[Callable[[], None]]()
        some, none = c.block("some"), c.block("none")
        c.cbr(c.op(f"icmp sgt i64 {trips}, 0"), some, none)
        c.place(some)
        body(self.count("g", trips, ends, rolled=True))
        for end in ends:
            end()
        c.br(none)
        c.place(none)

    def gangs_of_row(self, run: Run, row: tuple[str, str, str], gangs: str) -> None:
        """All gangs of a row. Those that are full and agree on the guard come first, in a loop without a test: what is
        the same for the row, such as a load at a uniform address, LLVM then takes out of it."""
        c = self.c
        found = self.stretch(run, row, gangs)
        if found is None:
            ends: list[Callable[[], None]] = []
            self.gang(run, self.in_row(row, self.count("g", gangs, ends)))
            for end in ends:
                end()
            return
        first, beyond, assumed = found
        inside = c.op(f"sub i64 {beyond}, {first}")

        def without_mask(k: str) -> None:
            at = self.in_row(row, c.op(f"add i64 {first}, {k}"))
            self.copy(run, at, None, assumed, done := c.block("ran"))
            c.place(done)

        def under_mask(k: str) -> None:
            after = c.op(f"add i64 {k}, {inside}")
            gang = c.op(f"select i1 {c.op(f'icmp slt i64 {k}, {first}')}, i64 {k}, i64 {after}")
            self.masked(run, self.in_row(row, gang), done := c.block("ran"))
            c.place(done)

        self.up_to(inside, without_mask)
        self.up_to(c.op(f"sub i64 {gangs}, {inside}"), under_mask)

    def stretch(self, run: Run, row: tuple[str, str, str], gangs: str) -> tuple[str, str, dict[Node, bool]] | None:
        """(first, beyond, what follows from the guard): the gangs of a row that are full and agree on the guard. None
        where they may not follow each other, or all do and nothing is to be tested."""
        c, w, items = self.c, self.width, self.items_along()
        guard = find_guard(run.nodes, self.env)
        many = self.joined or (gangs.isdigit() and int(gangs) >= LONG)
        if not many or not self.two_copies() or not worth_a_loop(run.nodes, self.env):
            return None
        if guard is None:
            if items.isdigit() and int(items) % w == 0:
                return None
            return "0", str(int(items) // w) if items.isdigit() else c.op(f"udiv i64 {items}, {w}"), {}
        if not in_a_stretch(guard, self.env, run.again, run.reads):
            return None
        upwards, on, downwards, found = (c.block(h) for h in ("up", "on", "down", "found"))
        before = c.at_block
        c.br(upwards)
        c.place(upwards)
        first, following = c.name(), c.name()
        c.do(f"{first} = phi i64 [ 0, %{before.label} ], [ {following}, %{on.label} ]")
        full, assumed = self.agreement(run, self.in_row(row, first), found)
        up = c.at_block
        c.cbr(full, downwards, on)
        c.place(on)
        c.do(f"{following} = add i64 {first}, 1")
        c.cbr(c.op(f"icmp slt i64 {following}, {gangs}"), upwards, found)
        on.end += f", !llvm.loop {self.module.rolled()}"
        c.place(downwards)
        beyond, last = c.name(), c.name()
        c.do(f"{beyond} = phi i64 [ {gangs}, %{up.label} ], [ {last}, %LATCH ]")
        c.do(f"{last} = add i64 {beyond}, -1")
        full, _ = self.agreement(run, self.in_row(row, last), found)
        down = c.at_block
        downwards.lines[0] = downwards.lines[0].replace("%LATCH", f"%{down.label}")
        c.cbr(full, found, downwards)
        down.end += f", !llvm.loop {self.module.rolled()}"
        c.place(found)
        ends = [c.op(f"phi i64 [ {x}, %{down.label} ], [ {gangs}, %{on.label} ]") for x in (first, beyond)]
        return ends[0], ends[1], assumed

    def two_copies(self) -> bool:
        """Whether a run has a copy for full gangs beside the masked one (RULES 28)."""
        items = self.items_along()
        return self.c.lines <= _LARGE and not self.env.large and not (items.isdigit() and int(items) < self.width)

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
        """One gang of a run: a copy for full gangs in which the guard holds, and a masked one."""
        c = self.c
        done = c.block("ran")
        full, assumed = self.agreement(run, at, done) if self.two_copies() else ("", {})
        if full:
            fast, slow = c.block("full"), c.block("part")
            c.cbr(full, fast, slow)
            c.place(fast)
            self.copy(run, at, None, assumed, done)
            c.place(slow)
        self.masked(run, at, done)
        c.place(done)

    def masked(self, run: Run, at: Coordinates, done: Block) -> None:
        """The code of a run for a gang that may not be full, nor agree on the guard."""
        items = self.items_along()
        tail = not (items.isdigit() and int(items) % self.width == 0)
        self.copy(run, at, self.tail_mask(at, items) if tail else None, {}, done)

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
