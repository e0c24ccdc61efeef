"""From a function object to its syntax tree, without `inspect`: the source lines come from `linecache`.

Works for files, notebooks and prompts that register their lines with `linecache`. Only the lines of the function are
parsed, so that the cost does not grow with the file.
"""

from __future__ import annotations

import ast
import linecache
import threading
from types import CodeType, FunctionType

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc

__all__ = ["Source", "source_of"]

_cache: dict[int, tuple[CodeType, Source]] = {}
# CPython 3.11 counts the depth of all syntax trees that are being made in one place: where two threads take turns, one
# of them ends in a SystemError.
_PARSING = threading.Lock()
_CACHE_SIZE = 1024


class Source:
    """A function's tree and where it came from. `shift` is added to a tree's line numbers to get those of the file."""

    __slots__ = ("ascii", "counts", "file", "lines", "name", "shift", "tree")

    def __init__(self, tree: ast.FunctionDef, file: str, name: str, shift: int, lines: list[str]) -> None:
        self.tree = tree
        self.file = file
        self.name = name
        self.shift = shift
        self.lines = lines
        self.ascii = all(map(str.isascii, lines))
        self.counts: dict[str, int] | None = None  # filled by scope.bindings

    def loc(self, node: ast.AST) -> Loc:
        """The span of ``node``; made once per node, since every IR node carries one."""
        found = getattr(node, "_loc", None)
        if found is None:
            line, end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
            col, end_col = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
            if not self.ascii:
                col, end_col = self._chars(line, col), self._chars(end, end_col)
            found = Loc(self.file, line + self.shift, col, end + self.shift, end_col, self.name)
            node._loc = found  # type: ignore[attr-defined]
        return found

    def _chars(self, line: int, col: int) -> int:
        """`ast` counts UTF-8 bytes; a Loc counts characters."""
        at = line - 1 - self._offset
        text = self.lines[at] if 0 <= at < len(self.lines) else ""
        return col if text.isascii() else len(text.encode()[:col].decode(errors="replace"))

    @property
    def _offset(self) -> int:
        return 1 if self.lines and self.lines[0][:1] in " \t" else 0

    def segment(self, node: ast.expr) -> str:
        """The text of ``node`` on one line, for messages."""
        try:
            return ast.unparse(node)
        except (ValueError, RecursionError):
            return "..."


def source_of(fn: FunctionType) -> Source:
    """The source of ``fn``. Raises CompileError (``MPG_PY_1017``) where there is none, or where it is not a `def`."""
    code = fn.__code__
    found = _cache.get(id(code))
    if found is None:
        if len(_cache) >= _CACHE_SIZE:
            _cache.clear()
        found = _cache[id(code)] = (code, _read(fn))  # the code object is kept, so its id stays its own
    return found[1]


def _missing(fn: FunctionType, message: str, help: str) -> CompileError:
    code = fn.__code__
    return CompileError(Diagnostic("MPG_PY_1017", message, Loc(code.co_filename, code.co_firstlineno), help=help))


def _read(fn: FunctionType) -> Source:
    code = fn.__code__
    name, file, first = code.co_name, code.co_filename, code.co_firstlineno
    if name == "<lambda>":
        raise _missing(fn, "a lambda cannot be a kernel or a device function", "write it with def")
    if code.co_flags & 0x2A0:  # generator, coroutine, async generator
        raise CompileError(
            Diagnostic(
                "MPG_PY_1001",
                f"{name} is a generator or a coroutine",
                Loc(file, first),
                help="write a plain function: without yield, await and async",
            )
        )
    lines = linecache.getlines(file, fn.__globals__)
    if not 0 < first <= len(lines):
        raise _missing(
            fn,
            f"the source of {name} is not available",
            "define it with def in a file, a notebook or an IPython prompt",
        )
    tree, block = _parse(fn, lines, first)
    shift = first - 1 - (1 if block[0][:1] in " \t" else 0)
    return Source(tree, file, name, shift, block)


def _parse(fn: FunctionType, lines: list[str], first: int) -> tuple[ast.FunctionDef, list[str]]:
    code = fn.__code__
    head = lines[first - 1]
    indent = len(head) - len(head.lstrip())
    # An indented block is made legal by a line before it, which keeps every column as it is.
    before = "if 1:\n" if indent else ""
    last = max((line for _, _, line in code.co_lines() if line), default=first)
    end, error = max(last, first), None
    while True:
        end = _block_end(lines, end, indent)
        block = lines[first - 1 : end]
        try:
            with _PARSING:
                module = ast.parse(before + "".join(block))
        except SyntaxError as problem:
            error = problem  # cut inside of a bracket or a string: take more
            if end >= len(lines):
                break
            end += 1
            continue
        tree = _find(module, code, 1 if indent else 0)
        if tree is not None:
            return tree, block
        break
    why = "does not match the file, which has changed since it was imported" if error is None else "cannot be parsed"
    raise _missing(fn, f"the source of {code.co_name} {why}", "run the program again, or restart the notebook's kernel")


def _block_end(lines: list[str], at: int, indent: int) -> int:
    """The number of lines up to the end of a block that contains line ``at`` (1-based)."""
    while at < len(lines):
        text = lines[at]
        stripped = text.lstrip()
        if stripped and not stripped.startswith("#") and len(text) - len(stripped) <= indent:
            break
        at += 1
    return at


def _find(module: ast.Module, code: CodeType, shift: int) -> ast.FunctionDef | None:
    body: list[ast.stmt] = module.body[0].body if shift and isinstance(module.body[0], ast.If) else module.body
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            a = node.args
            names = tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))
            if names == code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                return node
    return None
