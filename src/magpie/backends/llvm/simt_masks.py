"""Which lanes of a subgroup are active at a cross-lane operation, known to each of them (RULES 9).

What hardware says of it (`activemask`, or the execution mask of a wave) is what happens to run together, not what the
program's structure says. So the mask is computed: it begins as the lanes that exist, a ballot splits it where a branch
varies within the subgroup and cross-lane operations stand inside, and at the end of the branch it is that of before
again. Lanes that leave by break, continue or return do so through the joins on their way, where a ballot among all that
came in tells those who stay. Those joins also make it true: where code that reconverges at post-dominators is
generated, the lanes that the mask names are those that run. Where no cross-lane operation can see the difference, and
where the branch is the same for the subgroup, nothing of this costs an instruction.
"""

from __future__ import annotations

from magpie.backends.llvm.emitter import Block
from magpie.backends.llvm.lanes import Lanes
from magpie.backends.llvm.simt_reports import ReportingSimt
from magpie.ir.nodes import Kernel, Node, Region, walk
from magpie.ir.ops import Effect
from magpie.passes.uniformity import Level, Uniformity, analyse

__all__ = ["MaskedSimt", "has_cross_lane"]

FULL = "-1"

_BREAK, _CONTINUE, _RETURN = 1, 2, 3


def _crosses(node: Node) -> bool:
    return node.info.effect is Effect.CROSS_LANE or node.op == "subgroup_barrier"


def has_cross_lane(region: Region) -> bool:
    """Whether a cross-lane operation stands in ``region`` or inside it."""
    return any(_crosses(n) for n in walk(region))


class MaskedSimt(ReportingSimt):
    """Emits control flow with ``mask``, the active lanes as an integer that is the same in all of them."""

    lanes: Lanes  # how lanes of this target exchange values

    def prepare_masks(self, kernel: Kernel) -> None:
        """Find out where masks are needed; the kernel is the prepared one."""
        self.mask = FULL
        self.crosses = has_cross_lane(kernel.body)
        self.uniformity: Uniformity | None = analyse(kernel, gang=self.lanes.size) if self.crosses else None
        # Where a leaving lane goes to be counted, by kind; None: to its target at once.
        self.leave_loop: Block | None = None
        self.leave_kernel: Block | None = None
        # A cross-lane operation can run after the current node without leaving the innermost loop; or at all.
        self.in_crossing_loop = False
        self.after = False
        self._why = ""
        # Of each loop with cross-lane operations, by the block of its step: the memory with the mask of its trip.
        self.trips: dict[Block, str] = {}

    # --- small parts ---------------------------------------------------------------------------------------------
    def varies(self, cond: Node) -> bool:
        """Whether lanes of a subgroup that are active here may differ in ``cond``."""
        assert self.uniformity is not None
        return self.uniformity.level(cond) > Level.SUBGROUP or self.uniformity.unknown(cond)

    def ballot(self, mask: str, cond: str) -> str:
        """The lanes of ``mask`` in which ``cond`` is true."""
        return self.lanes.ballot(self.c, mask, cond)

    @property
    def why(self) -> str:
        """The variable that says for what a lane is leaving; 0 for one that is not."""
        if not self._why:
            self._why = self.stack_memory("i32")
            self.c.entry.lines.append(f"  store i32 0, ptr{self.stack} {self._why}")
        return self._why

    def leaks(self, node: Node, kinds: tuple[str, ...]) -> bool:
        """Whether some lanes of a subgroup, and not others, may leave ``node`` by one of these kinds of jump."""
        assert self.uniformity is not None
        stack = [(region, False) for region in node.regions] if node.op == "if" else []
        if node.op == "loop":
            stack = [(region, True) for region in node.regions]
        while stack:
            nodes, inside_loop = stack.pop()
            for n in nodes:
                kind = "break" if n.op == "break_if" else n.op
                if kind in kinds and (kind == "return" or not inside_loop):
                    if self.uniformity.control_level(n) > Level.SUBGROUP:
                        return True
                    if n.op == "break_if" and self.varies(n.args[0]):
                        return True
                for region in n.regions:
                    stack.append((region, inside_loop or n.op == "loop"))
        return False

    # --- regions -------------------------------------------------------------------------------------------------
    def region(self, nodes: Region) -> None:
        if not self.crosses:
            return super().region(nodes)
        outer = self.after
        # For each node: does a cross-lane operation stand behind it in this region?
        behind = [outer] * len(nodes)
        for k in range(len(nodes) - 2, -1, -1):
            behind[k] = behind[k + 1] or _crosses(nodes[k + 1]) or any(has_cross_lane(r) for r in nodes[k + 1].regions)
        for node, after in zip(nodes, behind, strict=True):
            if not self.c.open:
                break
            self.after = after
            self.visit(node)
        self.after = outer
        return None

    def if_(self, node: Node) -> None:
        if not self.crosses:
            return super().if_(node)
        outside = self.mask
        counted = (self.in_crossing_loop and self.leaks(node, ("break", "continue"))) or (
            self.after and self.leaks(node, ("return",))
        )
        # Inside the arms, cross-lane operations and joins that count leavers ask who is there.
        asked = any(has_cross_lane(r) or (counted and any(n.regions for n in r)) for r in node.regions)
        splits = asked and self.varies(node.args[0])
        c = self.c
        cond = self.map[node.args[0]]
        masks = (outside, outside)
        if splits:
            then_mask = self.ballot(outside, cond)
            masks = (then_mask, c.op(f"xor {self.lanes.mask} {outside}, {then_mask}"))
        join = c.block("join")
        blocks = [c.block(hint) if nodes else join for hint, nodes in zip(("then", "else"), node.regions, strict=True)]
        c.cbr(cond, blocks[0], blocks[1])
        reached = counted or not all(node.regions)
        saved = self.leave_loop, self.leave_kernel
        if counted:
            self.leave_loop = self.leave_kernel = join
        for block, nodes, mask in zip(blocks, node.regions, masks, strict=True):
            if nodes:
                c.place(block)
                self.mask = mask
                self.region(nodes)
                reached |= c.open
                c.br(join)
        self.leave_loop, self.leave_kernel = saved
        self.mask = outside
        if not reached:
            return None
        c.place(join)
        if counted:
            self.count_leavers(outside)
        return None

    def count_leavers(self, mask: str) -> None:
        """At a join that all lanes of ``mask`` come to: those that stay go on, the others outwards."""
        c = self.c
        why = c.op(f"load i32, ptr{self.stack} {self.why}")
        stays = c.op(f"icmp eq i32 {why}, 0")
        self.mask = self.ballot(mask, stays)
        on, gone = c.block("on"), c.block("gone")
        c.cbr(stays, on, gone)
        c.place(gone)
        self.pass_on(why)
        c.place(on)

    def pass_on(self, why: str) -> None:
        """Send a leaving lane outwards."""
        c = self.c
        if self.leave_loop is not None and self.leave_loop is self.leave_kernel:
            c.br(self.leave_loop)
            return
        loops = self.loops[-1] if self.loops else None
        for number, direct in ((_BREAK, loops and loops[1]), (_CONTINUE, loops and loops[0])):
            if direct is None:
                continue
            here, other = c.block("to"), c.block("or")
            c.cbr(c.op(f"icmp eq i32 {why}, {number}"), here, other)
            c.place(here)
            if self.leave_loop is None:
                c.do(f"store i32 0, ptr{self.stack} {self.why}")
                self.go(direct)
            else:
                c.br(self.leave_loop)
            c.place(other)
        c.br(self.leave_kernel or self.end)

    def go(self, target: Block) -> None:
        """Branch to a block. The step of a loop hears who comes: ways with masks of their own lead to it."""
        trip = self.trips.get(target)
        if trip is not None and self.c.open:
            self.c.do(f"store {self.lanes.mask} {self.mask}, ptr{self.stack} {trip}")
        self.c.br(target)

    def leave(self, number: int, counter: Block | None, target: Block) -> None:
        """Leave to ``target``, through ``counter`` where there is one."""
        if counter is None:
            self.go(target)
            return
        self.c.do(f"store i32 {number}, ptr{self.stack} {self.why}")
        self.c.br(counter)

    def break_(self, node: Node) -> None:
        self.leave(_BREAK, self.leave_loop, self.loops[-1][1])

    def continue_(self, node: Node) -> None:
        self.leave(_CONTINUE, self.leave_loop, self.loops[-1][0])

    def return_(self, node: Node) -> None:
        self.leave(_RETURN, self.leave_kernel, self.end)

    def break_if(self, node: Node) -> None:
        if not self.crosses or not (self.in_crossing_loop or self.leave_loop is not None):
            return super().break_if(node)
        c = self.c
        cond = self.map[node.args[0]]
        if self.in_crossing_loop and self.varies(node.args[0]):
            self.mask = self.ballot(self.mask, c.op(f"xor i1 {cond}, true"))
        out, on = c.block("out"), c.block("on")
        c.cbr(cond, out, on)
        c.place(out)
        self.break_(node)
        c.place(on)
        return None

    def loop(self, node: Node) -> None:
        if not self.crosses:
            return super().loop(node)
        saved = self.leave_loop, self.leave_kernel, self.in_crossing_loop, self.after
        outside = self.mask
        returns = self.after and self.leaks(node, ("return",))
        crossing = any(has_cross_lane(r) for r in node.regions)
        self.in_crossing_loop = crossing
        self.leave_loop = None
        if crossing:
            self.crossing_loop(node, returns)
        else:
            self.plain_loop(node, returns)
        self.leave_loop, self.leave_kernel, self.in_crossing_loop, self.after = saved
        self.mask = outside
        if returns:
            self.count_leavers(outside)
        return None

    def plain_loop(self, node: Node, returns: bool) -> None:
        """A loop without cross-lane operations: masks inside it matter to nobody, only who returned from it."""
        exit_ = self.c.block("exit")
        self.after = False
        if returns:
            self.leave_kernel = exit_
        self.loop_to(node, exit_)

    def crossing_loop(self, node: Node, returns: bool) -> None:
        """A loop with cross-lane operations: the mask of each trip is that of the lanes that began it."""
        c = self.c
        body, step = node.regions
        header, tail, exit_ = c.block("loop"), c.block("step"), c.block("exit")
        trip = self.stack_memory(self.lanes.mask)
        c.do(f"store {self.lanes.mask} {self.mask}, ptr{self.stack} {trip}")
        self.trips[tail] = trip
        self.after = True
        # Lanes that continue wait at the end of the body for those that do not, and must hear there who broke out.
        counted = self.leaks(Node("if", regions=(body,)), ("continue",))
        latch = c.block("latch") if counted else tail
        outer_kernel = self.leave_kernel
        self.leave_kernel = exit_ if returns else outer_kernel
        c.br(header)
        c.place(header)
        self.mask = begun = c.op(f"load {self.lanes.mask}, ptr{self.stack} {trip}")
        self.loops.append((latch, exit_))
        if counted:
            self.leave_loop = self.leave_kernel = latch
        self.region(body)
        self.go(latch)
        self.leave_loop = None
        self.leave_kernel = exit_ if returns else outer_kernel
        if counted:
            self.loops[-1] = (tail, exit_)
            c.place(latch)
            why = c.op(f"load i32, ptr{self.stack} {self.why}")
            gone = c.op(f"and i32 {why}, 1")  # break and return are odd, continue and going on are even
            stays = c.op(f"icmp eq i32 {gone}, 0")
            self.mask = self.ballot(begun, stays)
            on, away = c.block("on"), c.block("away")
            c.cbr(stays, on, away)
            c.place(away)
            self.pass_on(why)
            c.place(on)
            c.do(f"store i32 0, ptr{self.stack} {self.why}")
            self.go(tail)
        c.place(tail)
        self.mask = c.op(f"load {self.lanes.mask}, ptr{self.stack} {trip}")
        self.region(step)
        if c.open:
            c.do(f"store {self.lanes.mask} {self.mask}, ptr{self.stack} {trip}")
        self.repeat(node, header)
        self.loops.pop()
        c.place(exit_)
