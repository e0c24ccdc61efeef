"""The tree from the grammar's rules: one method a rule, called with what stands in it, punctuation left out.

lark calls these as the parser reduces.  ``last`` is the last token that was read, so the end of the rule at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from magpie.diagnostics import Diagnostic
from magpie.frontend.mp import literals, nodes
from magpie.frontend.mp.lexer import MAX_ERRORS, Token
from magpie.frontend.mp.literals import LiteralError
from magpie.frontend.mp.source import Source


class Builder:
    """Makes nodes of one source at a time; ``begin`` starts a new one."""

    def __init__(self) -> None:
        self.last = Token("", "", 0, 0)
        self.begin(Source("", ""), [])

    def begin(self, source: Source, found: list[Diagnostic]) -> None:
        """Work on ``source``; what is wrong in it goes to ``found``."""
        self.source = source
        self.found = found

    def report(self, code: str, message: str, at: int, end: int, help: str | None = None) -> None:
        """Add a diagnostic; more than are shown are not kept."""
        if len(self.found) < MAX_ERRORS:
            self.found.append(Diagnostic(code, message, self.source.loc(at, end), help=help))

    # The file and its header

    def start(self, items: list[Any]) -> nodes.Module:
        header = [item for item in items if isinstance(item, nodes.Header)]
        decls = [item for item in items if not isinstance(item, nodes.Header)]
        return nodes.Module(tuple(header), tuple(decls), at=0, end=self.last.end)

    def module(self, items: list[Any]) -> nodes.Header:
        return nodes.Header("module", (items[1].text,), at=items[0].at, end=self.last.end)

    def exports(self, items: list[Any]) -> nodes.Header:
        return nodes.Header("exports", tuple(items[1:]), at=items[0].at, end=self.last.end)

    def imports(self, items: list[Any]) -> nodes.Header:
        return nodes.Header("imports", tuple(items[1:]), at=items[0].at, end=self.last.end)

    def import_item(self, items: list[Any]) -> nodes.Import:
        return nodes.Import(items[0].text, items[1], at=items[0].at, end=self.last.end)

    def symbols(self, items: list[Any]) -> tuple[str, ...]:
        return tuple(items)

    def symbol(self, items: list[Any]) -> str:
        return str(items[0].text)

    def digest(self, items: list[Any]) -> nodes.Header:
        token = items[1]
        digits = token.text.strip('"').lower()
        if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            help = "leave the line out, or write 64 zeros: `magpie fmt` fills the digest in"
            self.report("MPP0012", "a digest has 64 hexadecimal digits", token.at, token.end, help)
        return nodes.Header("digest", (digits,), at=items[0].at, end=self.last.end)

    # Declarations

    def _own_name(self, token: Token) -> str:
        """The name of what this module declares, which has no module before it."""
        module, _, name = token.text.rpartition("@")
        if module:
            help = f"a module declares its own names: write @{name}"
            self.report("MPP0005", f"expected @{name}, found {token.text}", token.at, token.end, help)
        return str(name)

    def signature(self, items: list[Any]) -> nodes.Signature:
        name, type_params, params, result = items
        return nodes.Signature(
            self._own_name(name), params, result, type_params or (), at=name.at, end=self.last.end
        )

    def params(self, items: list[Any]) -> tuple[nodes.Param, ...]:
        return tuple(items)

    def param(self, items: list[Any]) -> nodes.Param:
        return nodes.Param(items[0].text[1:], items[1], at=items[0].at, end=self.last.end)

    def type_params(self, items: list[Any]) -> tuple[nodes.TypeParam, ...]:
        return tuple(items)

    def type_param(self, items: list[Any]) -> nodes.TypeParam:
        name, kind = items
        return nodes.TypeParam(name.text, kind.text if kind else None, at=name.at, end=self.last.end)

    def target(self, items: list[Any]) -> _Clause:
        return _Clause(str(items[1].text), at=items[0].at, end=self.last.end)

    def workgroup(self, items: list[Any]) -> _Clause:
        return _Clause(tuple(self._int(token) for token in items[1:]), at=items[0].at, end=self.last.end)

    def requires(self, items: list[Any]) -> _Clause:
        return _Clause(tuple(token.text for token in items[1:]), at=items[0].at, end=self.last.end)

    def function(self, items: list[Any]) -> nodes.Function:
        modifier, fn, signature, body = items
        first = modifier or fn
        blocks = self._blocks(first.at, body)
        return nodes.Function(signature, blocks, modifier.text if modifier else "", at=first.at, end=self.last.end)

    def gpu_function(self, items: list[Any]) -> nodes.Function:
        unsafe, gpu, _, signature, target, workgroup, requires, body = items
        first = unsafe or gpu
        if unsafe and requires is None:
            text = f"`unsafe gpu fn @{signature.name}` does not say what it requires"
            help = "write requires(capability, ...) behind the target and the workgroup"
            self.report("MPP0013", text, signature.at, signature.at + len(signature.name) + 1, help)
        if requires is not None and not unsafe:
            text = f"`gpu fn @{signature.name}` is portable, and requires nothing"
            help = "write `unsafe gpu fn`, or leave requires(...) out"
            self.report("MPP0013", text, signature.at, signature.at + len(signature.name) + 1, help)
        clauses = {"target": target, "workgroup": workgroup, "requires": requires}
        given = {word: clause for word, clause in clauses.items() if clause is not None}
        about = nodes.Gpu(**{word: clause.value for word, clause in given.items()}, places=given)
        modifier = "unsafe" if unsafe else ""
        return nodes.Function(signature, self._blocks(first.at, body), modifier, about, at=first.at, end=self.last.end)

    def struct(self, items: list[Any]) -> nodes.Struct:
        kind, keyword, name, type_params, *fields, _ = items
        return nodes.Struct(
            name.text,
            tuple(fields),
            kind.text if kind else "",
            type_params or (),
            at=(kind or keyword).at,
            end=self.last.end,
        )

    def enum(self, items: list[Any]) -> nodes.Enum:
        kind, keyword, name, type_params, *variants, _ = items
        return nodes.Enum(
            name.text,
            tuple(variants),
            kind.text if kind else "",
            type_params or (),
            at=(kind or keyword).at,
            end=self.last.end,
        )

    def variant(self, items: list[Any]) -> nodes.Variant:
        fields = tuple(item for item in items[1:] if isinstance(item, nodes.Field))
        return nodes.Variant(items[0].text, fields, at=items[0].at, end=self.last.end)

    def field(self, items: list[Any]) -> nodes.Field:
        return nodes.Field(items[1].text, items[2], at=items[0].at, end=self.last.end)

    def sig(self, items: list[Any]) -> nodes.Sig:
        keyword, name, *params, result = items
        return nodes.Sig(name.text, tuple(params), result, at=keyword.at, end=self.last.end)

    def sig_param(self, items: list[Any]) -> nodes.SigParam:
        name, type_ = items
        at = name.at if name else type_.at
        return nodes.SigParam(type_, name.text[1:] if name else "", at=at, end=self.last.end)

    def global_decl(self, items: list[Any]) -> nodes.Global:
        keyword, name, type_, value = items
        return nodes.Global(self._own_name(name), type_, value, at=keyword.at, end=self.last.end)

    def impl(self, items: list[Any]) -> nodes.Impl:
        keyword, what, _, type_, function = items
        return nodes.Impl(what.text, type_, self.global_ref([function]), at=keyword.at, end=self.last.end)

    def extern(self, items: list[Any]) -> nodes.Extern:
        keyword, abi, _, name, *functions, _ = items
        text = self._string(abi) if abi else None
        return nodes.Extern(name.text, tuple(functions), text, at=keyword.at, end=self.last.end)

    def extern_fn(self, items: list[Any]) -> nodes.ExternFn:
        return nodes.ExternFn(items[1], at=items[0].at, end=self.last.end)

    # Blocks

    def body(self, items: list[Any]) -> list[Any]:
        return items

    def label(self, items: list[Any]) -> Token:
        token: Token = items[0]
        return token

    def _blocks(self, at: int, items: list[Any]) -> tuple[nodes.Block, ...]:
        """Labels, instructions, terminators and the closing brace, as blocks of the function that begins at ``at``.

        Where a line could not be read, something is missing, and what follows from that is not reported.
        """
        line = self.source.line_of(at) if self.found else 0
        silent = any(item.code == "MPP0005" and item.loc is not None and item.loc.line >= line for item in self.found)
        found, self.found = self.found, [] if silent else self.found
        blocks = self._cut(items)
        self.found = found
        return blocks

    def _cut(self, items: list[Any]) -> tuple[nodes.Block, ...]:
        blocks: list[nodes.Block] = []
        label: Token | None = None
        body: list[nodes.Instruction] = []
        ended = False
        for item in items:
            if isinstance(item, Token):
                if label is not None and not ended:
                    self._no_terminator(label, item)
                elif label is None and item.type != "LABEL" and not ended:
                    self.report("MPP0008", "a function has at least one block", item.at, item.end, "write bb0: and ret")
                label, body, ended = item, [], False
            elif ended or label is None:
                if label is not None:
                    help = "start a block before it: bbN:"
                    name = f"block {label.text}" if label.text else "the block"
                    self.report("MPP0009", f"nothing follows the end of {name}", item.at, item.end, help)
                elif not ended:
                    self.report("MPP0008", "a block begins with its label", item.at, item.end, "write bb0: before it")
                inside = isinstance(item, (nodes.Assign, nodes.Effect, nodes.UnsafeBlock))
                ended = ended or label is not None or not inside
                label = label or Token("LABEL", "", item.at, item.at)
            elif isinstance(item, (nodes.Assign, nodes.Effect, nodes.UnsafeBlock)):
                body.append(item)
            else:
                blocks.append(nodes.Block(label.text, tuple(body), item, at=label.at, end=item.end))
                ended = True
        return tuple(blocks)

    def _no_terminator(self, label: Token, behind: Token) -> None:
        name = f"block {label.text}" if label.text else "the block"
        text = f"{name} has no end"
        help = "end it with ret, br, cbr, switch or unreachable"
        self.report("MPP0009", text, behind.at, behind.end, help)

    def assign(self, items: list[Any]) -> nodes.Assign:
        name, type_, value = items
        if isinstance(value, _ShortPhi):
            value = nodes.Phi(type_, value.edges, at=value.at, end=value.end)
        return nodes.Assign(name.text[1:], type_, value, at=name.at, end=self.last.end)

    def effect(self, items: list[Any]) -> nodes.Effect:
        return nodes.Effect(items[0], at=items[0].at, end=self.last.end)

    def unsafe_block(self, items: list[Any]) -> nodes.UnsafeBlock:
        return nodes.UnsafeBlock(tuple(items[1:-1]), at=items[0].at, end=self.last.end)

    def op(self, items: list[Any]) -> nodes.Op:
        name, type_args, args = items
        return nodes.Op(name.text, type_args or (), args or (), at=name.at, end=self.last.end)

    def new(self, items: list[Any]) -> nodes.New:
        return nodes.New(items[1], items[2], at=items[0].at, end=self.last.end)

    def capture(self, items: list[Any]) -> nodes.Capture:
        keyword, name, args = items
        return nodes.Capture(self.global_ref([name]), args, at=keyword.at, end=self.last.end)

    def call(self, items: list[Any]) -> nodes.Call:
        keyword, name, type_args, args = items
        at = (keyword or name).at
        text = keyword.text if keyword else ""
        return nodes.Call(self.global_ref([name]), type_args or (), args, text, at=at, end=self.last.end)

    def try_call(self, items: list[Any]) -> nodes.TryCall:
        keyword, name, type_args, args = items
        return nodes.TryCall(self.global_ref([name]), type_args or (), args, at=keyword.at, end=self.last.end)

    def try_value(self, items: list[Any]) -> nodes.Try:
        keyword, value, target = items
        return nodes.Try(value, target.text if target else None, at=keyword.at, end=self.last.end)

    def phi(self, items: list[Any]) -> nodes.Phi | _ShortPhi:
        keyword, type_, *edges = items
        if type_ is None:
            return _ShortPhi(tuple(edges), keyword.at, self.last.end)
        return nodes.Phi(type_, tuple(edges), at=keyword.at, end=self.last.end)

    def edge(self, items: list[Any]) -> nodes.Edge:
        return nodes.Edge(items[0].text, items[1], at=items[0].at, end=self.last.end)

    def ret(self, items: list[Any]) -> nodes.Ret:
        return nodes.Ret(items[1] if len(items) > 1 else None, at=items[0].at, end=self.last.end)

    def br(self, items: list[Any]) -> nodes.Br:
        return nodes.Br(items[1].text, at=items[0].at, end=self.last.end)

    def cbr(self, items: list[Any]) -> nodes.Cbr:
        return nodes.Cbr(items[1], items[2].text, items[3].text, at=items[0].at, end=self.last.end)

    def switch(self, items: list[Any]) -> nodes.Switch:
        keyword, value, *cases, _, other = items
        return nodes.Switch(value, tuple(cases), other.text, at=keyword.at, end=self.last.end)

    def case(self, items: list[Any]) -> nodes.Case:
        value = items[1] if isinstance(items[1], nodes.Const) else self._literal("", items[1])
        return nodes.Case(value, items[2].text, at=items[0].at, end=self.last.end)

    def unreachable(self, items: list[Any]) -> nodes.Unreachable:
        return nodes.Unreachable(at=items[0].at, end=self.last.end)

    # Operands and arguments

    def value(self, items: list[Any]) -> nodes.Value:
        token = items[0]
        return nodes.Value(token.text[1:], at=token.at, end=token.end)

    def err_value(self, items: list[Any]) -> nodes.ErrValue:
        token = items[0]
        return nodes.ErrValue(token.text[1:-4], at=token.at, end=token.end)

    def global_ref(self, items: list[Any]) -> nodes.GlobalRef:
        token = items[0]
        module, _, name = token.text.rpartition("@")
        return nodes.GlobalRef(name, module[:-1], at=token.at, end=token.end)

    def const(self, items: list[Any]) -> nodes.Const:
        token = items[0]
        if token.type == "CONST_UNIT":
            return nodes.Const("unit", None, at=token.at, end=token.end)
        return self._literal(token.text[6:], items[1], token)

    def literal(self, items: list[Any]) -> Token:
        token: Token = items[0]
        return token

    def args(self, items: list[Any]) -> tuple[nodes.Arg, ...]:
        seen: dict[str, nodes.Arg] = {}
        for arg in items:
            if seen.setdefault(arg.key, arg) is not arg:
                self.report("MPP0010", f"the argument {arg.key} is given twice", arg.at, arg.at + len(arg.key))
        return tuple(items)

    def arg(self, items: list[Any]) -> nodes.Arg:
        key, value = items
        return nodes.Arg(key.text, value, at=key.at, end=self.last.end)

    def word(self, items: list[Any]) -> nodes.Word:
        token = items[0]
        return nodes.Word(token.text, at=token.at, end=token.end)

    def text(self, items: list[Any]) -> nodes.Text:
        token = items[0]
        return nodes.Text(self._string(token), at=token.at, end=token.end)

    def bare(self, items: list[Any]) -> nodes.Const:
        token = items[0]
        example = {"INT": f"const.i32 {token.text}", "FLOAT": f"const.f32 {token.text}"}
        help = f"write {example.get(token.type, f'const.bool {token.text}')}, or the type that is meant"
        self.report("MPP0011", f"{token.text[:40]} has no type", token.at, token.end, help)
        return nodes.Const("", None, at=token.at, end=token.end)

    def list_of(self, items: list[Any]) -> nodes.ListOf:
        at = items[0].at if items else self.last.at
        return nodes.ListOf(tuple(items), at=at, end=self.last.end)

    # Types

    def type(self, items: list[Any]) -> nodes.Type:
        *qualifiers, name, args = items
        first = qualifiers[0] if qualifiers else name
        words = tuple(token.text for token in qualifiers)
        return nodes.Type(name.text, args or (), words, at=first.at, end=self.last.end)

    def type_args(self, items: list[Any]) -> tuple[nodes.Type | int, ...]:
        return tuple(self._int(item) if isinstance(item, Token) else item for item in items)

    def name(self, items: list[Any]) -> Token:
        token: Token = items[0]
        return token

    # Literals

    def _int(self, token: Token) -> int:
        try:
            return literals.read_int(token.text)
        except LiteralError as error:
            self.report("MPP0007", str(error), token.at, token.end)
            return 0

    def _string(self, token: Token) -> str:
        try:
            return literals.read_string(token.text)
        except LiteralError as error:
            help = 'the escapes are \\n \\t \\r \\0 \\" \\\\ \\x41 \\u{1f426}'
            self.report("MPP0006", str(error), token.at + error.at, token.at + error.at + error.size, help)
            return ""

    def _literal(self, type_name: str, token: Token, keyword: Token | None = None) -> nodes.Const:
        at = keyword.at if keyword is not None else token.at
        value: int | float | bool | str | None = None
        try:
            value = self._value(type_name, token)
        except LiteralError as error:
            self.report("MPP0007", str(error), token.at, token.end)
        return nodes.Const(type_name, value, at=at, end=token.end)

    def _value(self, type_name: str, token: Token) -> int | float | bool | str | None:
        """What the literal means in the type; "" takes what it looks like."""
        kind = token.type
        if kind == "STRING":
            if type_name not in ("", "Str"):
                raise LiteralError(f"a string is not a literal of {type_name}")
            return self._string(token)
        if kind in ("TRUE", "FALSE"):
            if type_name not in ("", "bool"):
                raise LiteralError(f"{token.text} is not a literal of {type_name}")
            return kind == "TRUE"
        if kind == "INT" and type_name not in literals.FLOAT_TYPES:
            value: int | float = literals.read_int(token.text)
            if type_name == "":
                return value
            if type_name not in literals.INT_TYPES:
                raise LiteralError(f"an integer is not a literal of {type_name}")
        elif type_name in literals.FLOAT_TYPES:
            value = literals.read_float(token.text, type_name)
        else:
            raise LiteralError(f"{token.text[:40]} is not a literal of {type_name or 'a switch'}")
        why = literals.check_range(type_name, value)
        if why is not None:
            raise LiteralError(f"{token.text[:60]} is out of range: {why}")
        return value


@dataclass(slots=True)
class _Clause(nodes.Node):
    """What stands in target(...), workgroup(...) or requires(...), with its place."""

    value: Any = None


class _ShortPhi:
    """A phi that states no type, until it gets that of its result."""

    def __init__(self, edges: tuple[nodes.Edge, ...], at: int, end: int) -> None:
        self.edges = edges
        self.at = at
        self.end = end


__all__ = ["Builder"]
