"""A syntax tree as text: one way to write each construct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from magpie.frontend.mp import nodes
from magpie.frontend.mp.literals import show_float, show_string

#: Columns above which the arguments of an operation stand on lines of their own.
WIDTH = 100
_STEP = "    "


def show(module: nodes.Module, *, digest: bool = True) -> str:
    """The text of a module, with a final newline; ``digest=False`` leaves that line out.

    Labels stand at the margin, instructions four columns in, a blank line between declarations.
    """
    printer = _Printer()
    for line in module.header:
        if line.kind != "digest" or digest:
            printer.noted(line, "", _header(line))
    for decl in module.decls:
        printer.blank()
        printer.decl(decl)
    if module.tail:
        printer.blank()
        printer.comments(module.tail, "")
    return "\n".join(printer.lines) + "\n"


def show_type(type_: nodes.Type) -> str:
    """``borrow Array<f32>``."""
    return " ".join([*type_.qualifiers, type_.name + _type_args(type_.args)])


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def comments(self, lines: Iterable[str], indent: str) -> None:
        self.lines.extend(indent + line if line else "" for line in lines)

    def noted(self, node: nodes.Noted, indent: str, *lines: str) -> None:
        """The lines of a node between its comments."""
        notes = node.notes
        if notes is not None:
            self.comments(notes.lead, indent)
        self.lines.extend(indent + line for line in lines)
        self.trail(node)

    def trail(self, node: nodes.Noted) -> None:
        if node.notes is not None and node.notes.trail:
            self.lines[-1] += "  " + node.notes.trail

    def decl(self, decl: nodes.Decl) -> None:
        match decl:
            case nodes.Function():
                self.function(decl)
            case nodes.Struct():
                self.opened(decl, f"{_kind(decl.kind)}struct {decl.name}{_type_params(decl.type_params)} {{")
                for item in decl.fields:
                    self.noted(item, _STEP, _field(item))
                self.closed(decl, decl.tail, "")
            case nodes.Enum():
                self.opened(decl, f"{_kind(decl.kind)}enum {decl.name}{_type_params(decl.type_params)} {{")
                for variant in decl.variants:
                    self.variant(variant)
                self.closed(decl, decl.tail, "")
            case nodes.Extern():
                abi = f"{show_string(decl.abi)} " if decl.abi is not None else ""
                self.opened(decl, f"extern {abi}module {decl.name} {{")
                for function in decl.functions:
                    self.noted(function, _STEP, *_signature("fn ", function.signature, "", _STEP))
                self.closed(decl, decl.tail, "")
            case nodes.Sig():
                params = [f"%{p.name}: {show_type(p.type)}" if p.name else show_type(p.type) for p in decl.params]
                self.noted(decl, "", f"sig {decl.name}({', '.join(params)}) -> {show_type(decl.result)}")
            case nodes.Global():
                head = f"global @{decl.name}: {show_type(decl.type)} = "
                self.noted(decl, "", *_constant(head, decl.value))
            case nodes.Impl():
                self.noted(decl, "", f"impl {decl.what} for {show_type(decl.type)} = {_ref(decl.function)}")

    def opened(self, node: nodes.Noted, line: str) -> None:
        if node.notes is not None:
            self.comments(node.notes.lead, "")
        self.lines.append(line)

    def closed(self, node: nodes.Noted, tail: tuple[str, ...], indent: str) -> None:
        self.comments(tail, indent + _STEP)
        self.lines.append(indent + "}")
        self.trail(node)

    def variant(self, variant: nodes.Variant) -> None:
        if not variant.fields:
            self.noted(variant, _STEP, variant.name)
            return
        if variant.notes is not None:
            self.comments(variant.notes.lead, _STEP)
        self.lines.append(f"{_STEP}{variant.name} {{")
        for item in variant.fields:
            self.noted(item, _STEP * 2, _field(item))
        self.closed(variant, variant.tail, _STEP)

    def function(self, decl: nodes.Function) -> None:
        words = [decl.modifier, "gpu" if decl.gpu is not None else "", "fn"]
        head = " ".join(word for word in words if word) + " "
        if decl.notes is not None:
            self.comments(decl.notes.lead, "")
        self.lines.extend(_signature(head, decl.signature, _gpu(decl.gpu) + " {", ""))
        for block in decl.blocks:
            self.noted(block, "", block.label + ":")
            self.body(block.body, _STEP)
            self.terminator(block.terminator)
        self.closed(decl, decl.tail, "")

    def body(self, body: Sequence[nodes.Instruction], indent: str) -> None:
        for item in body:
            if isinstance(item, nodes.UnsafeBlock):
                if item.notes is not None:
                    self.comments(item.notes.lead, indent)
                self.lines.append(indent + "unsafe {")
                self.body(item.body, indent + _STEP)
                self.closed(item, item.tail, indent)
            elif isinstance(item, nodes.Assign):
                head = f"%{item.result}: {show_type(item.type)} = "
                self.noted(item, indent, *_operation(head, item.value, len(indent)))
            else:
                self.noted(item, indent, *_operation("", item.value, len(indent)))

    def terminator(self, end: nodes.Terminator) -> None:
        match end:
            case nodes.Ret(value):
                self.noted(end, _STEP, "ret" if value is None else f"ret {_argument(value)}")
            case nodes.Br(target):
                self.noted(end, _STEP, f"br {target}")
            case nodes.Cbr(cond, then, other):
                self.noted(end, _STEP, f"cbr {_argument(cond)} {then} {other}")
            case nodes.Switch(value, cases, other, tail):
                if end.notes is not None:
                    self.comments(end.notes.lead, _STEP)
                self.lines.append(f"{_STEP}switch {_argument(value)} {{")
                for case in cases:
                    self.noted(case, _STEP * 2, f"case {_const(case.value)} -> {case.target}")
                self.comments(tail, _STEP * 2)
                self.lines.append(f"{_STEP}}} else {other}")
                self.trail(end)
            case nodes.Unreachable():
                self.noted(end, _STEP, "unreachable")


def _header(line: nodes.Header) -> str:
    match line.kind:
        case "module":
            return f"module {line.items[0]}"
        case "digest":
            return f'digest "{line.items[0]}"'
        case _:
            return f"{line.kind} {_braced([_import(item) for item in line.items], empty='{ }')}"


def _import(item: str | nodes.Import) -> str:
    if isinstance(item, str):
        return item
    return item.module if item.symbols is None else f"{item.module}::{{{', '.join(item.symbols)}}}"


def _kind(kind: str) -> str:
    return kind + " " if kind else ""


def _type_params(params: tuple[nodes.TypeParam, ...]) -> str:
    shown = [param.name if param.kind is None else f"{param.name}: {param.kind}" for param in params]
    return f"<{', '.join(shown)}>" if shown else ""


def _type_args(args: tuple[nodes.Type | int, ...]) -> str:
    shown = [str(arg) if isinstance(arg, int) else show_type(arg) for arg in args]
    return f"<{', '.join(shown)}>" if shown else ""


def _field(item: nodes.Field) -> str:
    return f"field {item.name}: {show_type(item.type)}"


def _gpu(gpu: nodes.Gpu | None) -> str:
    if gpu is None:
        return ""
    text = f" target({gpu.target})"
    if gpu.workgroup is not None:
        text += f" workgroup({', '.join(map(str, gpu.workgroup))})"
    if gpu.requires is not None:
        text += f" requires({', '.join(gpu.requires)})"
    return text


def _signature(head: str, signature: nodes.Signature, behind: str, indent: str) -> list[str]:
    """One line, or where that is too long one line a parameter."""
    start = f"{head}@{signature.name}{_type_params(signature.type_params)}("
    params = [f"%{param.name}: {show_type(param.type)}" for param in signature.params]
    end = f") -> {show_type(signature.result)}{behind}"
    line = start + ", ".join(params) + end
    if len(indent) + len(line) <= WIDTH or not params:
        return [line]
    return [start, *_listed(params, indent=_STEP + indent if indent else _STEP, base=indent), end]


def _listed(items: list[str], indent: str, base: str = "") -> list[str]:
    """One item a line; ``base`` is put before each line by the caller."""
    inner = indent[len(base) :]
    return [inner + item + ("," if index + 1 < len(items) else "") for index, item in enumerate(items)]


def _constant(head: str, value: nodes.Argument) -> list[str]:
    """The value of a global behind ``head``, a long list with one item a line."""
    line = head + _argument(value)
    if len(line) <= WIDTH or not isinstance(value, nodes.ListOf):
        return [line]
    return [head + "[", *_listed([_argument(item) for item in value.items], _STEP), "]"]


def _braced(items: list[str], empty: str = "{}") -> str:
    return f"{{ {', '.join(items)} }}" if items else empty


def _operation(head: str, value: nodes.Const | nodes.GlobalRef | nodes.Phi | nodes.Operation, indent: int) -> list[str]:
    """An instruction's right side behind ``head``, on one line or with its arguments one a line."""
    braces = True
    match value:
        case nodes.Const() | nodes.GlobalRef():
            return [head + _argument(value)]
        case nodes.Try(operand, target):
            return [f"{head}try {_argument(operand)}" + (f" {target}" if target else "")]
        case nodes.Phi(type_, edges):
            start = f"{head}phi {show_type(type_)}"
            items = [f"[{edge.block}: {_argument(edge.value)}]" for edge in edges]
        case nodes.Op(name, type_args, args):
            start = head + name + _type_args(type_args)
            items = _args(args)
            braces = bool(args)
        case nodes.New(type_, args):
            start = f"{head}new {show_type(type_)}"
            items = _args(args)
        case nodes.Capture(function, args):
            start = f"{head}callable.capture {_ref(function)}"
            items = _args(args)
        case nodes.Call(callee, type_args, args, keyword):
            start = head + (keyword + " " if keyword else "") + _ref(callee) + _type_args(type_args)
            items = _args(args)
        case nodes.TryCall(callee, type_args, args):
            start = f"{head}try {_ref(callee)}{_type_args(type_args)}"
            items = _args(args)
    if not braces:
        return [start]
    line = f"{start} {_braced(items)}"
    if indent + len(line) <= WIDTH or not items:
        return [line]
    return [start + " {", *_listed(items, _STEP), "}"]


def _args(args: tuple[nodes.Arg, ...]) -> list[str]:
    return [f"{arg.key}={_argument(arg.value)}" for arg in args]


def _ref(value: nodes.GlobalRef) -> str:
    return f"{value.module}.@{value.name}" if value.module else f"@{value.name}"


def _argument(value: nodes.Argument) -> str:
    match value:
        case nodes.Value(name):
            return "%" + name
        case nodes.Const():
            return _const(value)
        case nodes.ErrValue(name):
            return f"%{name}.err"
        case nodes.GlobalRef():
            return _ref(value)
        case nodes.Word(name):
            return name
        case nodes.Text(text):
            return show_string(text)
        case nodes.ListOf(items):
            return "[" + ", ".join(_argument(item) for item in items) + "]"


def _const(const: nodes.Const) -> str:
    value = const.value
    if value is None:
        return "const.unit"
    if isinstance(value, bool):
        shown = "true" if value else "false"
    elif isinstance(value, str):
        shown = show_string(value)
    else:
        shown = str(value) if isinstance(value, int) else show_float(value)
    return f"const.{const.type} {shown}" if const.type else shown


__all__ = ["WIDTH", "show", "show_type"]
