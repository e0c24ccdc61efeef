"""Kernels of Python as `.mp` text in the canonical form: Kernel IR, MPIR, a syntax tree, its text."""

from __future__ import annotations

import linecache
from itertools import groupby

from magpie.diagnostics import Loc
from magpie.frontend.mp import nodes
from magpie.frontend.mp.canonical import format_module
from magpie.ir.nodes import Kernel
from magpie.mpir import nodes as m
from magpie.mpir.emit import emit_kernel
from magpie.mpir.emit_names import word
from magpie.mpir.types import Ty

__all__ = ["kernel_text"]

_SHORT = {"lhs": "a", "rhs": "b"}


def kernel_text(kernel: Kernel, target: str = "", doc: str = "") -> str:
    """The `.mp` module of one kernel, with its digest; ``doc`` is what is said of it.

    What a line of the text comes from stands before it as a comment, where the source is there. Raises CompileError
    MPG_CORE_1411 where the language lacks what the kernel does, and MPG_CORE_1410 where its calls are too many.
    """
    module = emit_kernel(kernel, target)
    function = module.functions[0]
    assert function.gpu_meta is not None
    meta = function.gpu_meta
    params = tuple(nodes.Param(name, _type(type_)) for name, type_ in function.params)
    gpu = nodes.Gpu(meta.target, kernel.workgroup, meta.requires or None)
    blocks = tuple(_Blocks().block(b) for b in function.blocks)
    signature = nodes.Signature(function.name, params, _type(function.ret))
    decl = nodes.Function(signature, blocks, "unsafe" if meta.is_unsafe else "", gpu)
    decl.notes = _doc(kernel, doc, [name for name, _ in function.params[len(kernel.params) :]])
    structs = [
        nodes.Struct(s.name, tuple(nodes.Field(n, _type(t)) for n, t in s.fields), "value") for s in module.structs
    ]
    header = (nodes.Header("module", (module.name,)), nodes.Header("exports", (f"@{function.name}",)))
    return format_module(nodes.Module(header, (*structs, decl)))


def _doc(kernel: Kernel, doc: str, extents: list[str]) -> nodes.Notes:
    """What is said of a kernel; ``extents`` are the parameters for those of its arrays, in order."""
    lines = [*doc.strip().splitlines(), ""] if doc.strip() else []
    place = f", {kernel.loc.short}" if kernel.loc is not None else ""
    lines.append(f"Printed from the kernel {kernel.name}{place}.")
    for buffer in kernel.buffers:
        if buffer.rank > 1:
            own, extents = extents[: buffer.rank], extents[buffer.rank :]
            shown = ", ".join(f"%{name}" for name in own)
            what = f"%{word(buffer.name)} has {buffer.rank} dimensions"
            lines.append(f"{what}, of extents {shown}: rows behind each other.")
    return nodes.Notes(tuple(f";;; {_line(line)}".rstrip() for line in lines))


def _line(text: str) -> str:
    """A line of a comment: what cannot be seen is a blank."""
    return "".join(c if c.isprintable() else " " for c in text)


def _type(type_: Ty) -> nodes.Type:
    return nodes.Type(type_.name, tuple(map(_type, type_.args)), tuple(type_.mode.split()))


def _targs(targs: tuple[Ty | int, ...]) -> tuple[nodes.Type | int, ...]:
    return tuple(t if isinstance(t, int) else _type(t) for t in targs)


def _operand(operand: m.Operand) -> nodes.Operand:
    match operand:
        case m.Var(name):
            return nodes.Value(name)
        case m.Const(type_, value):
            return nodes.Const(type_.name, value)
    raise AssertionError(operand)


def _argument(operand: m.Operand) -> nodes.Argument:
    match operand:
        case tuple():
            return nodes.ListOf(tuple(map(_argument, operand)))
        case m.Word(name):
            return nodes.Word(name)
        case m.Const(Ty("Str"), value):
            return nodes.Text(str(value))
    return _operand(operand)


class _Blocks:
    """Blocks of the tree, with the lines that they come from; ``last`` is the one that was shown last."""

    def __init__(self) -> None:
        self.last = ("", 0)

    def block(self, block: m.Block) -> nodes.Block:
        body: list[nodes.Instruction] = [self.phi(p) for p in block.phis]
        for unsafe, instrs in groupby(block.instrs, lambda i: i.unsafe):
            items = tuple(map(self.instruction, instrs))
            body += [nodes.UnsafeBlock(items)] if unsafe else items
        return nodes.Block(block.label, tuple(body), _terminator(block.term))

    def phi(self, phi: m.Phi) -> nodes.Assign:
        edges = tuple(nodes.Edge(label, _operand(v)) for label, v in phi.incoming)
        return nodes.Assign(phi.result, _type(phi.type), nodes.Phi(_type(phi.type), edges))

    def instruction(self, instr: m.Instr) -> nodes.Assign | nodes.Effect:
        compares = instr.op.startswith(("icmp.", "fcmp."))
        args = tuple(nodes.Arg(k if compares else _SHORT.get(k, k), _argument(v)) for k, v in instr.args.items())
        value: nodes.Op | nodes.New = nodes.Op(instr.op, _targs(instr.targs), args)
        if instr.op == "new":
            assert instr.type is not None
            value = nodes.New(_type(instr.type), args)
        notes = self.notes(instr.loc)
        if instr.result is None or instr.type is None:
            return nodes.Effect(value, notes=notes)
        return nodes.Assign(instr.result, _type(instr.type), value, notes=notes)

    def notes(self, loc: Loc | None) -> nodes.Notes | None:
        """The line of the source, where it is another one than before."""
        if loc is None or (loc.file, loc.line) == self.last:
            return None
        self.last = (loc.file, loc.line)
        text = linecache.getline(loc.file, loc.line).strip()
        return nodes.Notes((_line(f"; {loc.short}: {text}"),)) if text else None


def _terminator(term: m.Term) -> nodes.Terminator:
    match term:
        case m.Br(target):
            return nodes.Br(target)
        case m.Cbr(cond, then, other):
            return nodes.Cbr(_operand(cond), then, other)
        case m.Ret():
            return nodes.Ret()
    return nodes.Unreachable()
