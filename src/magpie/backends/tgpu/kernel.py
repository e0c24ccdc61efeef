"""A kernel to tiny-gpu assembly, for one launch or with what a launch decides left open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from magpie.backends.tgpu import hostexpr
from magpie.backends.tgpu.code import Code, Label, Line, Operand, Virtual
from magpie.backends.tgpu.emit import Emitter
from magpie.backends.tgpu.hostexpr import Known
from magpie.backends.tgpu.ids import prologue
from magpie.backends.tgpu.isa import (
    DEFAULT_REGISTERS,
    LEAST_REGISTERS,
    MOST_REGISTERS,
    RESERVED,
    Instruction,
    Program,
    Reg,
    Symbol,
)
from magpie.backends.tgpu.isa import Operand as Final
from magpie.backends.tgpu.registers import TooManyValues, allocate
from magpie.backends.tgpu.specialise import Binding, shared_shape, specialise
from magpie.backends.tgpu.straighten import straighten
from magpie.diagnostics import CompileError, Diagnostic
from magpie.ir.layout import HOST_OPS
from magpie.ir.nodes import Array, HostExpr, Kernel, Node, Region, walk
from magpie.passes.dce import drop_dead
from magpie.passes.narrow_index import ranges
from magpie.records import replaced

__all__ = ["Assembly", "compile_for", "compile_open", "ends_with_if", "prepared"]


@dataclass(slots=True)
class Assembly:
    """Code of one kernel. ``symbols`` are the numbers that stand open, by the text between ``${`` and ``}``;
    ``shared_size`` counts words; ``warnings`` do not stop a compilation."""

    program: Program
    shared_size: Known
    num_registers: int
    symbols: dict[str, HostExpr]
    warnings: list[Diagnostic]

    @property
    def text(self) -> str:
        """The assembly."""
        from magpie.backends.tgpu.assembler import print_program

        return print_program(self.program)


def prepared(kernel: Kernel) -> Kernel:
    """Without calls and structs, and slots split; `trip_count` stays, since it needs a division."""
    from magpie.passes import prepare

    return prepare(kernel, trips=False)


def ends_with_if(kernel: Kernel) -> Node | None:
    """The `if` that a kernel ends with, which costs a cycle in which nothing runs; None where it ends otherwise."""
    body: Region = kernel.body
    while body and body[-1].op == "return":
        body = body[:-1]
    return body[-1] if body and body[-1].op == "if" else None


def compile_for(kernel: Kernel, binding: Binding, *, strict: bool = False) -> Assembly:
    """The code of one launch of a kernel, which may have calls and structs.

    ``strict``: a kernel that ends with an `if` is refused (MPG_TGPU_2006); without it, its branches lead to a last
    instruction that changes nothing. Raises CompileError with MPG_TGPU_2001 to 2007.
    """
    special = drop_dead(specialise(prepared(kernel), binding))
    place: dict[Array, Known] = {}
    strides: dict[Array, tuple[Known, ...]] = {}
    for buffer in special.buffers:
        found = binding.buffers[buffer.name]
        place[buffer], strides[buffer] = found.addr, found.strides
    size = 0
    for array in special.shared:
        shape = shared_shape(array, binding)
        place[array], strides[array] = size, _row_major(shape)
        size += prod(shape)
    emitter = Emitter(special, ranges(special, binding.grid), binding.grid, binding.block, place, strides, _number_of)
    return _compiled(special, emitter, size, strict)


def compile_open(kernel: Kernel) -> Assembly:
    """The code of a kernel for any launch: sizes, addresses, strides and scalars are numbers that stand open.

    Of a launch with as many dimensions as the kernel asks about. Raises CompileError as `compile_for` does.
    """
    special = prepared(kernel)
    asked = {n.attrs["dim"] for n in walk(special.body) if n.op in ("thread_id", "workgroup_id", "global_id")}
    dims = 1 + max(asked, default=0)
    known = special.workgroup
    grid: list[Known] = [("num_workgroups", d) if d < dims else 1 for d in range(3)]
    block: list[Known] = [known[d] if known else ("workgroup_size", d) if d < dims else 1 for d in range(3)]
    place: dict[Array, Known] = {}
    strides: dict[Array, tuple[Known, ...]] = {}
    for buffer in special.buffers:
        place[buffer] = ("addr", buffer.name)
        steps: list[Known] = [1]
        for d in reversed(range(1, buffer.rank)):
            steps.append(hostexpr.mul(steps[-1], ("extent", buffer.name, d)))
        strides[buffer] = tuple(reversed(steps))[-buffer.rank :] if buffer.rank else ()
    size: Known = 0
    for array in special.shared:
        place[array], strides[array] = size, _row_major(array.shape)
        words: Known = 1
        for n in array.shape:
            words = hostexpr.mul(words, n)
        size = hostexpr.add(size, words)
    small = replace(special, facts=replaced(special.facts, small=True))
    emitter = Emitter(
        special, ranges(small), (grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), place, strides, _Open()
    )
    return _compiled(special, emitter, size, strict=False)


def _row_major(shape: tuple[Known, ...]) -> tuple[Known, ...]:
    strides: list[Known] = [1]
    for n in reversed(shape[1:]):
        strides.append(hostexpr.mul(strides[-1], n))
    return tuple(reversed(strides)) if shape else ()


def _number_of(node: Node) -> Known | None:
    """The value of a constant."""
    value = node.attrs.get("value") if node.op == "const" else None
    return None if value is None or isinstance(value, float) else int(value)


class _Open:
    """What a launch knows of a value, as an expression."""

    def __init__(self) -> None:
        self.known: dict[Node, Known | None] = {}

    def __call__(self, node: Node) -> Known | None:
        if node not in self.known:
            self.known[node] = self.find(node)
        return self.known[node]

    def find(self, node: Node) -> Known | None:
        a = node.attrs
        match node.op:
            case "const":
                return _number_of(node)
            case "param":
                return ("param", a["name"])
            case "extent" | "stride" if a["array"].space == "buffer":
                return (node.op, a["array"].name, a["dim"])
            case "extent":
                extent: Known = a["array"].shape[a["dim"]]
                return extent
            case "workgroup_size" | "num_workgroups":
                return (node.op, a["dim"])
            case _:
                parts = [self.known.get(arg) for arg in node.args]
                if not parts or any(p is None for p in parts) or not node.info.pure:
                    return None
                return self.computed(node, [p for p in parts if p is not None])

    def computed(self, node: Node, parts: list[Known]) -> Known | None:
        t = node.type
        if node.op == "cast":
            if all(isinstance(p, int) for p in parts):
                return parts[0]
            return ("cast", str(t), parts[0])
        if node.op in ("add", "mul"):
            return hostexpr.compute(node.op, *parts)
        if node.op == "trip_count":
            return hostexpr.trip_count(*parts)
        if node.op in HOST_OPS:
            return (node.op, *(hostexpr.expression(p) for p in parts))
        return None


def _compiled(kernel: Kernel, emitter: Emitter, shared: Known, strict: bool) -> Assembly:
    last = ends_with_if(kernel)
    if strict and last is not None:
        text = "the kernel ends with an `if`, whose branch to the end costs a cycle in which nothing runs"
        raise CompileError(
            Diagnostic("MPG_TGPU_2006", text, last.loc, help="let a store or another instruction follow")
        )
    emitter.code.loc = kernel.loc
    prologue(emitter)
    body = kernel.body
    emitter.region(body[:-1] if body and body[-1].op == "return" else body)
    errors = [d for d in emitter.found if d.is_error]
    if errors:
        raise CompileError(errors)
    code = emitter.code
    code.place(emitter.end)
    straighten(code)
    _land(code)
    try:
        registers = allocate(code)
    except TooManyValues as found:
        text = f"more values are needed at once than the {MOST_REGISTERS - len(RESERVED)} registers that there are"
        raise CompileError(Diagnostic("MPG_TGPU_2007", text, found.line.loc)) from None
    return _assembly(code, registers, shared, emitter.found)


def _land(code: Code) -> None:
    """No branch leads to the end of the program: one that would leads to an instruction that changes nothing."""
    at_end: set[Label] = set()
    for item in reversed(code.items):
        if not isinstance(item, Label):
            break
        at_end.add(item)
    if any(o in at_end for item in code.items if isinstance(item, Line) for o in item.operands if isinstance(o, Label)):
        code.loc = next((i.loc for i in reversed(code.items) if isinstance(i, Line)), None)
        code.emit("CMP", 0, 0)


def _assembly(code: Code, registers: dict[Virtual, int], shared: Known, warnings: list[Diagnostic]) -> Assembly:
    used = {o for item in code.items if isinstance(item, Line) for o in item.operands if isinstance(o, Label)}
    names: dict[Label, str] = {}
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for item in code.items:
        if isinstance(item, Label) and item in used:
            # Labels at one place have one name.
            same = next((n for n, at in labels.items() if at == len(instructions)), None)
            names[item] = same or f"L{len(labels)}"
            labels[names[item]] = len(instructions)
        elif isinstance(item, Line):
            instructions.append(Instruction("SYNC"))  # in the place of what follows when all labels have names
    symbols: dict[str, HostExpr] = {}

    def final(operand: Operand) -> Final:
        if isinstance(operand, Virtual):
            return Reg(registers[operand] if operand.fixed is None else operand.fixed)
        if isinstance(operand, Label):
            return names[operand]
        if isinstance(operand, int):
            return operand
        text = hostexpr.text(operand)
        symbols[text] = operand
        return Symbol(text)

    lines = [item for item in code.items if isinstance(item, Line)]
    for i, line in enumerate(lines):
        comment = f"{line.loc.line}:{line.loc.col + 1}" if line.loc is not None else ""
        instructions[i] = Instruction(line.op, tuple(final(o) for o in line.operands), comment)
        assert line.dest is None or instructions[i].operands[0] not in {Reg(r) for r in RESERVED}
    program = Program(tuple(instructions), labels)
    count = max(DEFAULT_REGISTERS, LEAST_REGISTERS, program.registers)
    return Assembly(program, shared, count, symbols, [d for d in warnings if not d.is_error])
