"""What a syntax error says: what stands there, what could stand there, and what is most likely meant."""

from __future__ import annotations

from magpie.frontend.mp.lexer import Token
from magpie.frontend.mp.machine import Machine

_INSTRUCTION = frozenset({"DEF", "NAME", "FUNC", "CALL", "CALL_VOID", "CAPTURE", "TRY", "NEW", "UNSAFE"})
_TERMINATOR = frozenset({"RET", "BR", "CBR", "SWITCH", "UNREACHABLE"})
_DECLARATION = frozenset(
    {"FN", "GPU", "UNSAFE", "ASYNC", "HEAP", "VALUE_KIND", "STRUCT", "ENUM", "SIG", "GLOBAL", "IMPL", "EXTERN"}
)
_OPERATION = frozenset({"NAME", "FUNC", "CALL", "CALL_VOID", "CAPTURE", "TRY", "NEW", "PHI", "CONST", "CONST_UNIT"})
_OPERAND = frozenset({"VALUE", "ERR_VALUE", "CONST", "CONST_UNIT", "FUNC"})
_TYPE = frozenset({"NAME", "BORROW", "MUTBORROW", "SHARED", "WEAK"})
_KEY = frozenset({"NAME", "LABEL", "BLOCK", "MODULE", "STRUCT", "RET", "CASE"})
_ARGUMENT = frozenset({"VALUE", "NAME", "STRING", "INT"})

#: Sets of terminals with one name, larger ones first.
_GROUPS = (
    (_KEY | _OPERAND | _ARGUMENT, "an argument"),
    (_KEY, "a name"),
    (_DECLARATION, "a declaration"),
    (_INSTRUCTION, "an instruction"),
    (_TERMINATOR, "a terminator (ret, br, cbr, switch, unreachable)"),
    (_OPERATION, "an operation"),
    (_OPERAND, "an operand"),
    (_TYPE, "a type"),
)
_NAMES = {
    "STRING": "a string",
    "HEX": "64 hexadecimal digits",
    "FLOAT": "a number",
    "INT": "a number",
    "ERR_VALUE": "a value (%x)",
    "DEF": "%name:",
    "VALUE": "a value (%x)",
    "FUNC": "a function's name (@f)",
    "LABEL": "a block's label (bb0:)",
    "BLOCK": "a block (bb0)",
    "CONST_UNIT": "a constant (const.i32 7)",
    "CONST": "a constant (const.i32 7)",
    "NAME": "a name",
    "$END": "the end of the file",
}


def explain(maker: Machine, states: list[int], before: Token | None, token: Token) -> tuple[str, str | None]:
    """The message and the help of an error at ``token``, behind ``before``, when the parser's stack is ``states``."""
    can = maker.expected(states)
    return f"expected {_listed(maker, can)}, found {_shown(token)}", _hint(can, before, token)


def _listed(maker: Machine, can: set[str]) -> str:
    words: dict[str, None] = {}
    left = set(can)
    if "RBRACE" in left and len(left) > 1:
        left.discard("RBRACE")
        left.add("RBRACE")
    for group, name in _GROUPS:
        if group <= left:
            left -= group
            if group >= _KEY:  # which any keyword may be
                left = {kind for kind in left if kind in _NAMES or not maker.shown.get(kind, "").isalpha()}
                left -= {"CALL_VOID"}
            words[name] = None
    for kind in sorted(left):
        words[_NAMES.get(kind) or f"`{maker.shown[kind]}`"] = None
    listed = list(words)
    if len(listed) > 8:
        listed = [*listed[:8], "..."]
    return listed[0] if len(listed) == 1 else ", ".join(listed[:-1]) + f" or {listed[-1]}"


def _shown(token: Token) -> str:
    if token.type == "$END":
        return "the end of the file"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"`{text}`"


def _hint(can: set[str], before: Token | None, token: Token) -> str | None:
    if token.type == "VALUE" and "DEF" in can:
        return f"a result has a type: {token.text}: i32 = ..."
    if token.type == "BLOCK" and "LABEL" in can:
        return f"a label ends with a colon: {token.text}:"
    if token.type == "NAME" and "." in token.text and before is not None:
        if before.type == "TRY":
            return f"name what the operation gives, and try that: %r: TResult<...> = {token.text} {{ ... }}, try %r"
        if before.type in ("CALL", "CALL_VOID"):
            return f"an operation stands without `{before.text}`: {token.text} {{ ... }}"
    if token.type == "NAME" and token.text[:1].isalpha() and "VALUE" in can and "NAME" not in can:
        return f"a value has a percent sign: %{token.text}"
    if token.type == "NAME" and "FUNC" in can and "NAME" not in can:
        return f"a function has an at sign: @{token.text}"
    if token.type == "EQUAL" and before is not None and before.type == "VALUE":
        return f"a result has a type: {before.text}: i32 = ..."
    if token.type in ("INT", "FLOAT") and "CONST" in can:
        return f"a number needs its type: const.{'i32' if token.type == 'INT' else 'f32'} {token.text[:40]}"
    if token.type == "$END" and "RBRACE" in can:
        return "a closing brace is missing"
    if "MODULE" in can and len(can) == 1:
        return "a file begins with its name: module a.b"
    return None


__all__ = ["explain"]
