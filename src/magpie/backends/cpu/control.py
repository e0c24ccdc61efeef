"""Control flow of a gang: uniform branches stay branches, varying ones become masks (RULES 8, 9).

The invariant of every emitted region: where an instruction may fault, store, loop or call, at least one lane is active.
Behind each point where lanes leave on their own (a varying break, continue or return) the rest of the region stands
behind a test of the mask.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.distances import trips_of_lanes
from magpie.backends.cpu.gang import GangBase, Storage
from magpie.backends.cpu.guards import check, promising
from magpie.backends.cpu.plain import plain
from magpie.backends.cpu.polling import Strip, close_strip, cut, open_strip, poll_cancel
from magpie.backends.cpu.values import Mask, Value
from magpie.backends.llvm.emitter import Block, constant, element
from magpie.dtypes import DType
from magpie.ir.nodes import Node, Region, Slot, walk
from magpie.ir.ops import ELEMENTARY, OPS, Effect

__all__ = ["ControlMixin", "LoopFrame", "harmless"]

# An arm of at most this many pure nodes is executed under its mask without a branch around it.
_SHORT = 12
_LONG = ELEMENTARY | {"fmod", "floordiv", "mod", "tdiv", "trem"}


@plain
class LoopFrame:
    """A loop being emitted. ``live`` and ``skip`` are allocas of wide masks: lanes in it, lanes gone to `step`."""

    node: Node
    step: Block
    exit: Block
    depth: int  # divergent constructs around its body
    live: str = ""
    skip: str = ""
    skipped: bool = False  # some lanes may have gone to `step` already
    strip: Strip | None = None


def harmless(region: Region) -> bool:
    """Whether a region may run with an empty mask, and is short enough to run always."""
    count = 0
    for node in walk(region):
        effect = OPS[node.op].effect
        if effect not in (Effect.PURE, Effect.SLOT_READ, Effect.SLOT_WRITE) and node.op != "if":
            return False
        if node.op in _LONG:
            return False
        count += node.op not in ("const", "slot_get", "slot_set")
    return count <= _SHORT


class ControlMixin(GangBase):
    """Regions, branches, loops and exits."""

    frames: list[LoopFrame]
    depth: int  # divergent constructs around the current node
    alive: str  # alloca of lanes that have not returned, or ""
    end: Block  # where a gang's code ends
    dirty: bool  # lanes have left since the mask was last tested
    stopped: bool  # nothing of this region can be active any more
    departures: int  # how often lanes have left on their own so far
    visit: Callable[[Node], None]

    # --- regions -------------------------------------------------------------------------------------------------
    def region(self, nodes: Region, start: int = 0) -> None:
        """Emit nodes. Afterwards the block is open if control comes out at the end (`Code.open`)."""
        c = self.c
        self.stopped = False
        for position in range(start, len(nodes)):
            self.visit(nodes[position])
            if self.stopped or not c.open:
                return
            if self.dirty:
                self.dirty = False
                rest = nodes[position + 1 :]
                if self.mask is None or not rest or harmless(rest):
                    continue
                some, end = c.block("some"), c.block("end")
                c.cbr(self.masks.any(self.mask), some, end)
                c.place(some)
                self.region(nodes, position + 1)
                c.br(end)
                c.place(end)
                return

    # --- slots ---------------------------------------------------------------------------------------------------
    def slot_storage(self, slot: Slot) -> Storage:
        found = self.storage.get(slot)
        if found is None:
            found = self.storage[slot] = self.make_storage(slot)
        return found

    def make_storage(self, slot: Slot) -> Storage:
        """An alloca, zeroed at the start of the gang unless it is set before any read."""
        assert isinstance(slot.type, DType)
        shape = self.env.shapes.slots.get(slot)
        kind, stride = (shape.kind, shape.stride or 0) if shape is not None else (0, 0)
        elem = element(slot.type)
        if kind == 2 and slot.type.is_int and slot.type.bits == 64 and self.env.ranges.slot_fits32(slot):
            elem = "i32"
        held = self.masks.elem if kind == 2 and elem == "i1" else elem
        type_ = f"<{self.w} x {held}>" if kind == 2 else held
        pointer = self.c.alloca(type_, 64 if kind == 2 else 0)
        if slot not in self.env.shapes.fresh:
            zero = "zeroinitializer" if kind == 2 else constant(0, held)
            self.prologue.lines.append(f"  store {type_} {zero}, ptr {pointer}")
            if kind == 1:
                kind = 2  # cannot happen: a line that starts at zero is no line
        return Storage(pointer, held, kind, stride)

    prologue: Block  # where the code of the gang starts

    def slot_get(self, node: Node) -> Value:
        s = self.slot_storage(node.attrs["slot"])
        if s.kind == 2:
            text = self.c.op(f"load <{self.w} x {s.elem}>, ptr {s.pointer}")
            if node.dtype.is_bool:
                return self.bools(Mask(wide=text))
            return self.vec(text, s.elem)
        text = self.c.op(f"load {s.elem}, ptr {s.pointer}")
        return self.uni(text, s.elem) if s.kind == 0 else self.lin(text, s.elem, s.stride)

    def slot_set(self, node: Node) -> None:
        slot = node.attrs["slot"]
        s = self.slot_storage(slot)
        value = self.map[node.args[0]]
        c = self.c
        if s.kind != 2:
            c.do(f"store {s.elem} {value.text}, ptr {s.pointer}")
            return
        vt = f"<{self.w} x {s.elem}>"
        covered = self.mask is None or slot in self.env.shapes.covered
        if slot.type.is_bool:
            m = self.as_mask(value)
            if not covered:
                assert self.mask is not None
                old = Mask(wide=c.op(f"load {vt}, ptr {s.pointer}"))
                kept = self.masks.and_not(old, self.mask)
                m = self.masks.or_(kept, self.masks.and_(m, self.mask))
            c.do(f"store {vt} {self.masks.wide(m)}, ptr {s.pointer}")
            return
        text = self.lanes(value, s.elem)
        if not covered:
            assert self.mask is not None
            old_text = c.op(f"load {vt}, ptr {s.pointer}")
            text = self.vector.select(self.masks.i1(self.mask), s.elem, text, old_text)
        c.do(f"store {vt} {text}, ptr {s.pointer}")

    # --- branches ------------------------------------------------------------------------------------------------
    def if_(self, node: Node) -> None:
        cond = self.map[node.args[0]]
        then, else_ = node.regions
        if cond.literal:
            saved, before = self.mask, self.departures
            self.region(then if cond.text == "true" else else_)
            if self.c.open and not self.stopped:
                self.rejoin(saved, node, before)
        elif cond.kind == 0:
            self.uniform_if(node, cond, then, else_)
        else:
            self.varying_if(node, cond, then, else_)

    def uniform_if(self, node: Node, cond: Value, then: Region, else_: Region) -> None:
        c, saved, before = self.c, self.mask, self.departures
        frame = self.frames[-1] if self.frames else None
        skipped = frame is not None and frame.skipped
        skipped_after = skipped
        join = c.block("join")
        yes = c.block("then") if then else join
        no = c.block("else") if else_ else join
        c.cbr(cond.text, yes, no)
        reached = not then or not else_
        for block, nodes in ((yes, then), (no, else_)):
            if not nodes:
                continue
            c.place(block)
            self.mask = saved
            self.region(nodes)
            if frame is not None:
                skipped_after |= frame.skipped
                frame.skipped = skipped
            if c.open:
                reached = True
                c.br(join)
        if frame is not None:
            frame.skipped = skipped_after
        self.stopped = not reached
        if reached:
            c.place(join)
            self.rejoin(saved, node, before)

    def varying_if(self, node: Node, cond: Value, then: Region, else_: Region) -> None:
        saved, m, before = self.mask, self.masks, self.departures
        wanted = self.as_mask(cond)
        self.depth += 1
        for nodes, arm in ((then, wanted), (else_, None)):
            if not nodes:
                continue
            lanes = arm if arm is not None else m.not_(wanted)
            if saved is not None:
                lanes = m.and_(saved, lanes)
            if harmless(nodes):
                self.mask = lanes
                self.region(nodes)
            else:
                self.under_mask(lanes, lambda nodes=nodes: self.region(nodes))  # type: ignore[misc]
        self.depth -= 1
        self.stopped = False
        self.rejoin(saved, node, before)

    def under_mask(self, mask: Mask | None, body: Callable[[], None]) -> None:
        """``body`` with ``mask``, if any lane of it is set."""
        if mask is None:
            body()
            return
        c = self.c
        some, join = c.block("some"), c.block("join")
        c.cbr(self.masks.any(mask), some, join)
        c.place(some)
        self.mask = mask
        body()
        c.br(join)
        c.place(join)

    def rejoin(self, saved: Mask | None, node: Node, before: int) -> None:
        """The mask behind a construct: that before it, less the lanes that left inside it."""
        if node not in self.env.shapes.leaks or self.departures == before:
            self.mask = saved
            return
        self.mask = self.less_gone(saved)
        self.dirty = True

    def less_gone(self, mask: Mask | None) -> Mask | None:
        """``mask`` without the lanes that have left the innermost loop, its trip or the kernel."""
        if self.frames:
            frame = self.frames[-1]
            if frame.live:
                mask = self.meet(mask, self.load_mask(frame.live))
            if frame.skip:
                mask = self.meet(mask, self.masks.not_(self.load_mask(frame.skip)))
        if self.alive and not (self.frames and self.frames[-1].live):
            mask = self.meet(mask, self.load_mask(self.alive))
        return mask

    def meet(self, a: Mask | None, b: Mask) -> Mask:
        return b if a is None else self.masks.and_(a, b)

    def load_mask(self, pointer: str) -> Mask:
        return Mask(wide=self.c.op(f"load {self.masks.type}, ptr {pointer}"))

    def store_mask(self, mask: Mask | None, pointer: str) -> None:
        text = self.masks.all_wide if mask is None else self.masks.wide(mask)
        self.c.do(f"store {self.masks.type} {text}, ptr {pointer}")

    def remove(self, pointer: str, lanes: Mask | None) -> None:
        """Take lanes out of a mask in memory."""
        self.departures += 1
        if lanes is None:
            self.c.do(f"store {self.masks.type} zeroinitializer, ptr {pointer}")
        else:
            self.store_mask(self.masks.and_not(self.load_mask(pointer), lanes), pointer)

    # --- loops ---------------------------------------------------------------------------------------------------
    def loop(self, node: Node) -> None:
        c, shapes, saved, before = self.c, self.env.shapes, self.mask, self.departures
        body, step = node.regions
        header, tail, exit_ = c.block("loop"), c.block("step"), c.block("exit")
        frame = LoopFrame(node, tail, exit_, self.depth)
        ragged = node in shapes.ragged
        if ragged and saved is None:
            self.full_trips(node, exit_)
        if ragged:
            frame.live = c.alloca(self.masks.type, 64)
            self.store_mask(saved, frame.live)
        if node in shapes.skips:
            frame.skip = c.alloca(self.masks.type, 64)
        if not ragged:
            frame.strip = self.strip(node)
        c.br(header)
        c.place(header)
        if frame.skip:
            c.do(f"store {self.masks.type} zeroinitializer, ptr {frame.skip}")
        self.frames.append(frame)
        self.mask = self.load_mask(frame.live) if ragged else saved
        self.region(body)
        c.br(tail)
        c.place(tail)
        frame.skipped = False
        skip, frame.skip = frame.skip, ""
        self.dirty = False
        self.mask = self.load_mask(frame.live) if ragged else saved
        if ragged and (skip or any(n in shapes.leaks for n in body)):
            assert self.mask is not None
            some = c.block("some")
            c.cbr(self.masks.any(self.mask), some, exit_)
            c.place(some)
        self.region(step)
        self.poll(node)
        if ragged and any(n in shapes.leaks for n in step):
            c.cbr(self.masks.any(self.load_mask(frame.live)), header, exit_)
        c.br(header)
        self.frames.pop()
        if frame.strip is not None:
            close_strip(self.env, frame.strip, exit_)
        c.place(exit_)
        self.stopped = False
        self.dirty = False
        self.rejoin(saved, node, before)

    def strip(self, node: Node) -> Strip | None:
        """Cut a counted loop that all lanes leave together into strips, unless it is short."""
        counted = node.attrs.get("counted")
        if counted is None or not self.env.polling:
            return None
        storage = self.slot_storage(counted[0])
        if storage.kind != 0 or storage.elem != "i64":
            return None
        return open_strip(self.env, node, self.map[counted[1]], storage.pointer)

    def poll(self, node: Node) -> None:
        """At the back edge of a loop: look for a cancelled launch every 2**16 trips, if no strip does."""
        uncut = node.attrs.get("counted") is None or node in self.env.shapes.ragged
        if uncut and self.c.open and self.env.polling:
            poll_cancel(self.env)

    def full_trips(self, node: Node, exit_: Block) -> None:
        """The trips of a loop such as ``while i < n`` that all lanes make, without masks; then the masked loop goes on.

        The state of a loop is in slots, so the masked loop takes over at the start of any trip.
        """
        body, step = node.regions
        at = next((k for k, n in enumerate(body) if not (OPS[n.op].pure or n.op == "slot_get")), None)
        if self.env.large or at is None or body[at].op != "break_if" or not promising(body[at].args[0], self.env):
            return
        shapes, c = self.env.shapes, self.c
        rest = body[at + 1 :] + step
        if node in shapes.skips or any(n in shapes.leaks or n.op in ("break_if", "break") for n in rest):
            return
        header, more, tail, masked = c.block("full"), c.block("trip"), c.block("step"), c.block("ragged")
        known, strip, over = trips_of_lanes(self, node), None, masked
        if known is not None:
            over, limit = c.block("over"), known.all
            if self.env.polling:
                strip = cut(self.env, node, known.all, known.counter, body[at].args[0])
                limit = strip.limit
        before = dict(self.map)
        c.br(header)
        c.place(header)
        for n in body[:at]:
            self.visit(n)
        if known is None:
            on = check(self, body[at].args[0], False, {})
        else:
            on = c.op(f"icmp slt i64 {c.op(f'load i64, ptr {known.counter}')}, {limit}")
        c.cbr(on, more, over if strip is None else strip.end)
        c.place(more)
        self.frames.append(LoopFrame(node, tail, exit_, self.depth))
        self.region(body, at + 1)
        c.br(tail)
        c.place(tail)
        self.region(step)
        if known is None:
            self.poll(node)
        c.br(header)
        self.frames.pop()
        self.stopped = False
        self.map = before
        if strip is not None:
            close_strip(self.env, strip, over)
        if known is not None:
            c.place(over)
            k = c.op(f"load i64, ptr {known.counter}")
            c.cbr(c.op(f"icmp slt i64 {k}, {known.any}"), masked, exit_)
        c.place(masked)

    @property
    def at_loop_level(self) -> bool:
        """Whether all lanes of the innermost loop's trip are here."""
        return self.frames[-1].depth == self.depth and not self.frames[-1].skipped

    def break_(self, node: Node) -> None:
        frame = self.frames[-1]
        if self.at_loop_level:
            self.c.br(frame.exit)
        else:
            self.remove(frame.live, self.mask)
        self.stopped = True

    def break_if(self, node: Node) -> None:
        c, frame, m = self.c, self.frames[-1], self.masks
        cond = self.map[node.args[0]]
        if cond.kind == 0 and self.at_loop_level:
            if cond.literal:
                if cond.text == "true":
                    self.break_(node)
                return
            on = c.block("on")
            if frame.strip is not None and node.args[0] is frame.strip.test:
                k = self.map[node.args[0].args[0]].text
                c.cbr(c.op(f"icmp sge i64 {k}, {frame.strip.limit}"), frame.strip.end, on)
            else:
                c.cbr(cond.text, frame.exit, on)
            c.place(on)
            return
        leaving = self.as_mask(cond)
        if self.mask is not None:
            staying = m.and_not(self.mask, leaving)
        else:
            staying = m.not_(leaving)
        if self.at_loop_level:
            self.departures += 1
            self.store_mask(staying, frame.live)
            on = c.block("on")
            c.cbr(m.any(staying), on, frame.exit)
            c.place(on)
            self.mask = staying
            return
        self.remove(frame.live, leaving if self.mask is None else m.and_(self.mask, leaving))
        self.mask = staying
        self.dirty = True

    def continue_(self, node: Node) -> None:
        frame = self.frames[-1]
        if self.at_loop_level:
            self.c.br(frame.step)
        else:
            gone = self.load_mask(frame.skip)
            lanes = Mask(wide=self.masks.all_wide) if self.mask is None else self.mask
            self.store_mask(self.masks.or_(gone, lanes), frame.skip)
            self.departures += 1
            frame.skipped = True
        self.stopped = True

    def return_(self, node: Node) -> None:
        if self.depth == 0 and not any(f.live or f.skipped for f in self.frames):
            self.leave()
        else:
            self.remove(self.alive, self.mask)
            for frame in self.frames:
                if frame.live:
                    self.remove(frame.live, self.mask)
        self.stopped = True

    def leave(self) -> None:
        """All lanes of the gang return."""
        if self.alive_after:
            self.c.do(f"store {self.masks.type} zeroinitializer, ptr {self.alive}")
        self.c.br(self.end)

    alive_after = False  # whether code after this gang's asks who is alive
