"""Kernel IR to MPIR: regions as blocks and branches, slots as values and phis.

Structured code gives SSA form in one walk (Brandis and Moessenboeck, Single-pass generation of static single-assignment
form for structured languages, TOPLAS 1994): what each slot holds is known at every point, where ways meet a phi stands
for each slot that they leave different, and the start of a loop has one for each slot that the loop sets. Phis that all
ways give one value, or that nobody uses, go afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.dtypes import DType, StructType
from magpie.ir.nodes import Kernel, Node, Region, Scalar, Slot, walk
from magpie.ir.ops import Effect
from magpie.mpir import nodes as m
from magpie.mpir.emit_memory import Arrays
from magpie.mpir.emit_names import Names, assigned, same
from magpie.mpir.emit_ops import EMIT
from magpie.mpir.tidy import tidy
from magpie.mpir.types import UNIT, Ty
from magpie.mpir.verify_gpu import needed
from magpie.passes.exits import runs_once
from magpie.passes.inline import inline_calls

__all__ = ["Emitter", "emit_kernel"]

Env = dict[Slot, m.Operand]
_TRUE = m.Const(Ty("bool"), True)
_BOX = "i64"  # what `index` is in `.mp` text


def emit_kernel(kernel: Kernel, target: str = "") -> m.Module:
    """``kernel`` as a module of MPIR with one `gpu fn`. Raises CompileError MPG_CORE_1411 for what `.mp` cannot say.

    ``target`` is what the function declares; without one it is spv, or the first target that has what the kernel
    requires. Arrays with several dimensions become buffers of rows behind each other, with their extents as parameters
    at the end, called as the array with ``_dim0``, ``_dim1`` and so on behind its name.
    """
    return Emitter(inline_calls(kernel)).module(target)


@dataclass(slots=True)
class _Join:
    """A block that ways lead to: from which blocks, with what in the slots."""

    label: str
    edges: list[tuple[str, Env]] = field(default_factory=list)


@dataclass(slots=True)
class _Loop:
    step: _Join
    exit: _Join
    gathers: bool  # what stands in an arm that leaves must stay in the loop


class Emitter:
    """Emits one kernel without calls. ``block`` is where instructions are appended, None where nothing comes to."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names = Names(kernel)
        self.arrays = Arrays(self)
        self.prelude: list[m.Instr] = []
        self.blocks: list[m.Block] = []
        self.block: m.Block | None = None
        self.env: Env = {}
        self.values: dict[Node, m.Operand] = {}
        self.hints: dict[Node, str] = {}
        self.loops: list[_Loop] = []
        self.ends: set[str] = set()  # the blocks behind loops
        self.pure: set[m.Instr] = set()  # may go where nobody uses the result
        self.zeros: dict[StructType, m.Operand] = {}
        self.loc: Loc | None = kernel.loc
        for node in walk(kernel.body):
            if node.op == "slot_set" and node.args[0].op not in ("const", "param", "slot_get"):
                self.hints.setdefault(node.args[0], node.attrs["slot"].name)
            elif node.type is not None and node not in self.hints and (name := assigned(node.loc)):
                self.hints[node] = name

    # --- the whole kernel -------------------------------------------------------------------------------------------
    def module(self, target: str) -> m.Module:
        kernel = self.kernel
        params: list[tuple[str, Ty]] = []
        for p in kernel.params:
            type_ = self.type(p.type)
            params.append((self.names.params[p.name], type_ if isinstance(p, Scalar) else Ty("gpu.TBuffer", (type_,))))
        params += [(name, Ty(_BOX)) for name in self.arrays.extents()]
        self.start(_Join("bb0", [("", {})]))
        self.region(kernel.body)
        if self.block is not None:
            self.block.term = m.Ret(loc=self.loc)
        self.blocks[0].instrs[:0] = self.prelude
        function = m.Function(self.names.kernel, params, UNIT, self.blocks, None, kernel.loc)
        tidy(function, self.pure, self.ends)
        for block in function.blocks:
            for phi in block.phis:
                if phi.type.name == "rawptr":
                    raise self.refused("one of several pointers", phi.loc)
        instrs = [i for b in function.blocks for i in b.instrs]
        requires = tuple(sorted({*kernel.requires, *filter(None, map(needed, instrs))}))
        chosen = target or _target(requires)
        function.gpu_meta = m.GpuMeta(chosen, kernel.workgroup or (64, 1, 1), bool(requires), requires)
        return m.Module(self.names.kernel, self.names.structs, [function])

    def refused(self, what: str, loc: Loc | None, help: str | None = None) -> CompileError:
        """The error for something that `.mp` text cannot say."""
        return CompileError(Diagnostic("MPG_CORE_1411", f".mp text has no {what}", loc or self.kernel.loc, help=help))

    def type(self, type_: object) -> Ty:
        """A type as MPIR has it; value structs are declared."""
        if isinstance(type_, StructType):
            name = self.names.struct(type_, self.type)
            if name is None:
                help = "give its fields the order of their offsets, with natural alignment"
                raise self.refused(f"struct laid out as {type_.name} is", self.loc, help)
            return Ty(name)
        assert isinstance(type_, DType), type_
        return Ty(_BOX if type_.name == "index" else type_.name)

    # --- values -----------------------------------------------------------------------------------------------------
    def add(
        self,
        op: str,
        args: dict[str, m.Operand],
        type_: Ty | None,
        *targs: Ty | int,
        hint: str = "",
        pure: bool = True,
    ) -> m.Operand:
        """Append an instruction; its result."""
        assert self.block is not None
        instr = m.Instr(op, args, None, type_, targs, loc=self.loc)
        self.block.instrs.append(instr)
        return self.named(instr, hint, pure)

    def before(
        self, op: str, args: dict[str, m.Operand], type_: Ty, *targs: Ty | int, hint: str = ""
    ) -> m.Operand:
        """The result of an instruction at the start of the kernel."""
        instr = m.Instr(op, args, None, type_, targs)  # of no line of the source in particular
        self.prelude.append(instr)
        return self.named(instr, hint, True)

    def named(self, instr: m.Instr, hint: str, pure: bool) -> m.Operand:
        if pure:
            self.pure.add(instr)
        if instr.type is None:
            return m.Var("")
        instr.result = self.names.fresh(hint or "v")
        return m.Var(instr.result)

    def zero(self, type_: DType | StructType) -> m.Operand:
        """What a slot holds before it is set."""
        if isinstance(type_, DType):
            value = False if type_.is_bool else 0.0 if type_.is_float else 0
            return m.Const(self.type(type_), value)
        if type_ not in self.zeros:
            fields: dict[str, m.Operand] = {f.name: self.zero(f.type) for f in type_.fields}
            self.zeros[type_] = self.before("new", fields, self.type(type_), self.type(type_), hint="zero")
        return self.zeros[type_]

    def value(self, node: Node) -> m.Operand:
        return self.values[node]

    # --- control flow -----------------------------------------------------------------------------------------------
    def start(self, join: _Join) -> None:
        """Begin the block of ``join``, with a phi for each slot that the ways to it leave different."""
        if not join.edges:
            self.block = None
            return
        self.block = m.Block(join.label)
        self.blocks.append(self.block)
        self.env = dict(join.edges[0][1])
        if len(join.edges) == 1:
            return
        for slot in dict.fromkeys(s for _, env in join.edges for s in env):
            found = [(label, env.get(slot)) for label, env in join.edges]
            incoming = [(label, self.initial(slot) if v is None else v) for label, v in found]
            if all(same(v, incoming[0][1]) for _, v in incoming):
                self.env[slot] = incoming[0][1]
            else:
                self.env[slot] = self.phi(slot, incoming)

    def phi(self, slot: Slot, incoming: list[tuple[str, m.Operand]]) -> m.Operand:
        assert self.block is not None
        phi = m.Phi(self.names.fresh(slot.name), self.slot_type(slot), incoming, self.loc)
        self.block.phis.append(phi)
        return m.Var(phi.result)

    def slot_type(self, slot: Slot) -> Ty:
        element = getattr(slot.type, "element", None)
        return self.type(slot.type) if element is None else Ty("rawptr", (self.type(element),))

    def initial(self, slot: Slot) -> m.Operand:
        if not isinstance(slot.type, DType | StructType):
            raise self.refused("pointer that is not set on every way", self.loc)
        return self.zero(slot.type)

    def new_join(self) -> _Join:
        return _Join(self.names.label())

    def go(self, join: _Join) -> None:
        """End the block with a way to ``join``."""
        assert self.block is not None
        self.block.term = m.Br(join.label, self.loc)
        join.edges.append((self.block.label, self.env))
        self.block = None

    def branch(self, cond: Node, then: _Join, other: _Join) -> None:
        assert self.block is not None
        if cond.op == "not":
            cond, then, other = cond.args[0], other, then
        self.fork(self.value(cond), then, other)

    def fork(self, cond: m.Operand, then: _Join, other: _Join) -> None:
        assert self.block is not None
        self.block.term = m.Cbr(cond, then.label, other.label, self.loc)
        for join in (then, other):
            join.edges.append((self.block.label, dict(self.env)))
        self.block = None

    def region(self, region: Region, gathers: bool = False) -> None:
        """Emit the nodes; ``gathers``: work-items meet in what stands here, and a jump out must not take it along."""
        for node in region:
            if self.block is None:
                return  # behind what never ends
            self.loc = node.loc or self.loc
            match node.op:
                case "if":
                    self.choice(node, gathers)
                case "loop":
                    self.loop(node)
                case "break":
                    self.leave(self.loops[-1].exit, gathers)
                case "continue":
                    self.go(self.loops[-1].step)
                case "break_if":
                    after = self.new_join()
                    self.branch(node.args[0], self.loops[-1].exit, after)
                    self.start(after)
                case "return":
                    end = self.new_join()
                    self.leave(end, gathers and bool(self.loops))
                    self.start(end)
                    assert self.block is not None
                    self.block.term, self.block = m.Ret(loc=self.loc), None
                case _:
                    self.plain(node)

    def leave(self, to: _Join, gathers: bool) -> None:
        """Go out of a loop. Code that no way leads back from is no part of a loop of blocks, and is run where all
        work-items have left it; where it meets others, a way back that nobody takes keeps it in the loop."""
        if gathers and self.loops[-1].gathers:
            self.fork(_TRUE, to, self.loops[-1].step)
        else:
            self.go(to)

    def choice(self, node: Node, gathers: bool) -> None:
        then, other, after = self.new_join(), self.new_join(), self.new_join()
        self.branch(node.args[0], then, other)
        for join, arm in ((then, node.regions[0]), (other, node.regions[1])):
            self.start(join)
            self.region(arm, gathers or any(map(_meets, walk(arm))))
            if self.block is not None:
                self.go(after)
        self.start(after)

    def loop(self, node: Node) -> None:
        body, step = node.regions
        assert self.block is not None
        before, outside, header = self.block.label, self.env, self.new_join()
        self.go(header)
        self.start(header)
        assert self.block is not None
        phis: list[tuple[Slot, m.Phi]] = []
        for slot in dict.fromkeys(n.attrs["slot"] for r in (body, step) for n in walk(r) if n.op == "slot_set"):
            found = outside.get(slot)
            if found is None and not isinstance(slot.type, DType | StructType):
                continue  # a pointer that each trip sets before it is used
            self.env[slot] = self.phi(slot, [(before, self.initial(slot) if found is None else found)])
            phis.append((slot, self.block.phis[-1]))
        loop = _Loop(self.new_join(), self.new_join(), not runs_once(node))
        self.loops.append(loop)
        self.region(body, any(map(_meets, walk(body))))
        if self.block is not None:
            self.go(loop.step)
        self.start(loop.step)
        if self.block is not None:
            self.region(step)
        if self.block is not None:
            for slot, phi in phis:
                phi.incoming.append((self.block.label, self.env[slot]))
            self.go(_Join(header.label))
        self.loops.pop()
        self.ends.add(loop.exit.label)
        self.start(loop.exit)

    # --- plain operations -------------------------------------------------------------------------------------------
    def plain(self, node: Node) -> None:
        op = node.op
        if op == "slot_get":
            slot = node.attrs["slot"]
            found = self.env.get(slot)
            self.values[node] = self.initial(slot) if found is None else found
        elif op == "slot_set":
            self.env[node.attrs["slot"]] = self.value(node.args[0])
        elif op == "const":
            self.values[node] = m.Const(self.type(node.type), node.attrs["value"])
        elif op == "param":
            self.values[node] = m.Var(self.names.params[node.attrs["name"]])
        else:
            assert self.block is not None
            start, block = len(self.block.instrs), self.block
            emit = EMIT.get(op) or self.arrays.handlers.get(op)
            if emit is None:
                raise self.refused(_lacking(op), node.loc)
            found = emit(self, node)
            if found is not None:
                self.values[node] = found
            for instr in block.instrs[start:] if not node.checked else ():
                instr.unsafe = True


def _lacking(op: str) -> str:
    if op.startswith("tile_"):
        return f"matrix tiles, and here is `{op}` of mp.mma"
    if op.startswith("copy_"):
        return f"copies that run on, and here is mp.{op}"
    return f"operation like `{op}`"


def _meets(node: Node) -> bool:
    """Whether it matters which work-items come to ``node`` together."""
    return node.info.effect is Effect.CROSS_LANE or node.op == "subgroup_barrier"


def _target(requires: tuple[str, ...]) -> str:
    """spv, or the first target that has all."""
    from magpie.capabilities import CAPABILITIES, TARGETS, cell

    known = [n for n in requires if n in CAPABILITIES]
    return next((t for t in TARGETS if all(cell(n, t) != "no" for n in known)), TARGETS[0])
