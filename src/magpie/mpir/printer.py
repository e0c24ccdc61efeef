"""The text form of MPIR; `magpie.mpir.parser` reads it back."""

from __future__ import annotations

import json
import math
from typing import assert_never

from magpie.diagnostics.loc import Loc
from magpie.mpir.nodes import (
    Block,
    Br,
    Cbr,
    Const,
    Enum,
    Function,
    Instr,
    Module,
    Operand,
    Phi,
    Ret,
    Struct,
    Switch,
    Term,
    Unreachable,
)
from magpie.mpir.types import Ty

__all__ = ["item_text", "print_module"]


def literal(value: int | float | bool | str, type_: Ty) -> str:
    """A literal as text: floats by their shortest digits that read back, and always with a point, exponent or name."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    if type_.is_float:
        number = float(value)
        return "nan" if math.isnan(number) else repr(number)
    return str(value)


def operand(value: Operand) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(operand, value)) + "]"
    if isinstance(value, Const):
        if value.type.name == "unit":
            return "const.unit"
        return f"const.{value.type} {literal(value.value, value.type)}"
    return str(value)


def _place(loc: Loc | None) -> str:
    return f" !{loc.line}:{loc.col + 1}" if loc is not None else ""


def _instr(node: Instr) -> str:
    head = f"%{node.result}: {node.type} = " if node.result is not None else ""
    name = ("unsafe " if node.unsafe else "") + node.op
    name += f"<{', '.join(map(str, node.targs))}>" if node.targs else ""
    if node.callee:
        name += f" @{node.callee}"
    args = ", ".join(f"{k}={operand(v)}" for k, v in node.args.items())
    tail = f" -> {node.target}" if node.target else ""
    return f"{head}{name} {{ {args} }}{tail}" if args else f"{head}{name} {{}}{tail}"


def _phi(node: Phi) -> str:
    pairs = ", ".join(f"[{label}: {operand(value)}]" for label, value in node.incoming)
    return f"%{node.result}: {node.type} = phi {{ {pairs} }}"


def _term(node: Term) -> str:
    match node:
        case Ret():
            return "ret" if node.value is None else f"ret {operand(node.value)}"
        case Br():
            return f"br {node.target}"
        case Cbr():
            return f"cbr {operand(node.cond)} {node.then} {node.other}"
        case Switch():
            cases = "".join(f"case {value} -> {label} " for value, label in node.cases)
            return f"switch {operand(node.value)} {{ {cases}}} else {node.default}"
        case Unreachable():
            return "unreachable"
    assert_never(node)


def item_text(item: Instr | Phi | Term) -> str:
    """One line of a block as text."""
    return _instr(item) if isinstance(item, Instr) else _phi(item) if isinstance(item, Phi) else _term(item)


def _block(block: Block, locations: bool) -> list[str]:
    lines = [f"{block.label}:"]
    texts = [(_phi(p), p.loc) for p in block.phis]
    texts += [(_instr(i), i.loc) for i in block.instrs]
    texts.append((_term(block.term), block.term.loc))
    return lines + [f"  {text}{_place(loc) if locations else ''}" for text, loc in texts]


def _function(f: Function, locations: bool) -> list[str]:
    params = ", ".join(f"%{name}: {type_}" for name, type_ in f.params)
    meta = f.gpu_meta
    head = f"{f.modifier} " if f.modifier else ""
    if meta:
        head = "unsafe gpu " if meta.is_unsafe else "gpu "
    tail = ""
    if meta:
        tail = f" target({meta.target}) workgroup({', '.join(map(str, meta.workgroup))})"
        if meta.requires:
            tail += f" requires({', '.join(meta.requires)})"
    place = _place(f.loc) if locations else ""
    lines = [f"{head}fn @{f.name}({params}) -> {f.ret}{tail} {{{place}"]
    for block in f.blocks:
        lines += _block(block, locations)
    return [*lines, "}"]


def _params(decl: Struct | Enum) -> str:
    return f"<{', '.join(decl.params)}>" if decl.params else ""


def _fields(fields: list[tuple[str, Ty]]) -> str:
    return f"{{ {', '.join(f'{n}: {t}' for n, t in fields)} }}" if fields else "{}"


def print_module(module: Module, locations: bool = True) -> str:
    """The module as text; with ``locations`` each line ends in the place it came from, as ``!line:column``."""
    name = f" {json.dumps(module.file)}" if module.file else ""
    lines = [f"mpir {module.name}{name}"]
    for struct in module.structs:
        lines.append(f"{'heap ' if struct.heap else ''}struct {struct.name}{_params(struct)} {_fields(struct.fields)}")
    for enum in module.enums:
        variants = ", ".join(f"{name} {_fields(fields)}" for name, fields in enum.variants)
        lines.append(f"enum {enum.name}{_params(enum)} {{ {variants} }}")
    for sig in module.sigs:
        lines.append(f"sig {sig.name}({', '.join(map(str, sig.params))}) -> {sig.ret}")
    for glob in module.globals:
        place = _place(glob.loc) if locations else ""
        lines.append(f"global @{glob.name}: {glob.type} = {operand(glob.value)}{place}")
    for impl in module.impls:
        lines.append(f"impl {impl.what} {impl.type} @{impl.function}")
    for f in module.functions:
        lines += ["", *_function(f, locations)]
    return "\n".join(lines) + "\n"
