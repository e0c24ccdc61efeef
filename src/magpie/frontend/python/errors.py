"""Leaving the lowering of a statement with a diagnostic, and the table of Python that kernels do not have."""

from __future__ import annotations

import ast

from magpie.diagnostics.diagnostic import Diagnostic

__all__ = ["LATER", "REJECTED", "REJECTED_CALLS", "Fail"]


class Fail(Exception):
    """Lowering of the present statement ends; `diagnostic` is None where the cause was reported before."""

    def __init__(self, diagnostic: Diagnostic | None = None) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


# Node class -> (what it is, what to write instead).
REJECTED: dict[type[ast.AST], tuple[str, str]] = {
    # statements
    ast.FunctionDef: ("a function inside a kernel", "define it outside and mark it @mp.func"),
    ast.AsyncFunctionDef: (
        "an async function",
        "write a plain function; on the device every launch is asynchronous as a whole",
    ),
    ast.ClassDef: ("a class inside a kernel", "define a struct outside: @mp.struct class P: x: mp.f32"),
    ast.Delete: ("del", "leave the variable; it costs nothing once it is not read any more"),
    ast.With: ("with", "there is nothing to close in a kernel; call what you need directly"),
    ast.AsyncWith: ("async with", "there is nothing to wait for in a kernel; mp.barrier() waits for the workgroup"),
    ast.AsyncFor: ("async for", "use for ... in range(...)"),
    ast.Match: ("match", "use if / elif / else"),
    ast.Raise: ("raise", 'use assert condition, "message", or write an error code into an array'),
    ast.Try: ("try", "test the condition before with if; nothing raises in a kernel"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.Global: ("global", "write the value into an array; a kernel cannot assign variables outside"),
    ast.Nonlocal: ("nonlocal", "write the value into an array; a kernel cannot assign variables outside"),
    # expressions
    ast.Lambda: ("lambda", "define a function outside and mark it @mp.func"),
    ast.Dict: ("a dict", "use a struct, or two arrays with sorted keys and values"),
    ast.Set: ("a set", "use an array of flags: mp.local(n, mp.bool_)"),
    ast.List: ("a list", "use mp.local(shape, dtype), or a tuple for values that are indexed by constants"),
    ast.ListComp: ("a list comprehension", "use a for loop that writes into mp.local(shape, dtype)"),
    ast.SetComp: ("a set comprehension", "use a for loop"),
    ast.DictComp: ("a dict comprehension", "use a for loop"),
    ast.GeneratorExp: ("a generator expression", "use a for loop: total = 0.0, then for j in range(n): total += x[j]"),
    ast.Await: ("await", "mp.barrier() waits for the workgroup; the host waits with mp.synchronize()"),
    ast.Yield: ("yield", "write the values into an array"),
    ast.YieldFrom: ("yield from", "write the values into an array"),
    ast.Starred: ("a starred expression", "write the values one by one"),
    ast.JoinedStr: ("an f-string outside of mp.print", "use it as an argument of mp.print"),
}
for _name, _what, _help in (
    ("TryStar", "try", "test the condition before with if; nothing raises in a kernel"),
    ("TypeAlias", "a type alias", "write it outside of the kernel"),
    ("TemplateStr", "a template string", "use an f-string as an argument of mp.print"),
):
    if hasattr(ast, _name):
        REJECTED[getattr(ast, _name)] = (_what, _help)

# Mathematical functions that the library will have, by the names that modules give them -> what to write until then.
_ERFC = "write 1.0 - mp.erf(x), which loses digits where x is above 1"
_GAMMA = "compute it on the host, or by a series in a function marked @mp.func"
_ASINH = "write mp.copysign(mp.log(abs(x) + mp.sqrt(x * x + 1.0)), x), which loses digits near 0"
_ACOSH = "write mp.log(x + mp.sqrt(x * x - 1.0)), which loses digits near 1"
_ATANH = "write 0.5 * (mp.log1p(x) - mp.log1p(-x))"
LATER: dict[str, str] = {
    "erfc": _ERFC,
    **dict.fromkeys(("gamma", "tgamma", "lgamma", "gammaln", "loggamma"), _GAMMA),
    **dict.fromkeys(("asinh", "arcsinh"), _ASINH),
    **dict.fromkeys(("acosh", "arccosh"), _ACOSH),
    **dict.fromkeys(("atanh", "arctanh"), _ATANH),
}

# Python's own functions that kernels do not have.
REJECTED_CALLS: dict[str, str] = {
    "print": "use mp.print(...)",
    "range": "range stands only in for ... in range(...)",
    "enumerate": "use for i in range(len(x)) and x[i]",
    "zip": "use for i in range(n) and index both arrays",
    "reversed": "use for i in range(n - 1, -1, -1)",
    "sorted": "sort on the host, or write the sorting network as loops",
    "map": "use a for loop",
    "filter": "use a for loop with if",
    "sum": "use a for loop: total = 0.0, then total += x[j]; mp.subgroup.sum adds over work-items",
    "any": "use a for loop; mp.subgroup.any asks other work-items",
    "all": "use a for loop; mp.subgroup.all asks other work-items",
    "list": "use mp.local(shape, dtype)",
    "tuple": "write the tuple: (a, b)",
    "dict": "use a struct",
    "set": "use an array of flags",
    "str": "texts exist only in mp.print and assert",
    "complex": "use a struct of two floats, or two arrays",
    "isinstance": "types are known when the kernel is compiled: compare x.dtype == mp.f32",
    "type": "use x.dtype",
    "hash": "write the hash with integer operations",
    "id": "objects have no identity in a kernel",
    "input": "pass the value as an argument",
    "open": "read the file on the host",
    "getattr": "write the attribute: p.x",
    "setattr": "write the attribute: p.x = value",
    "iter": "use for ... in range(...)",
    "next": "use for ... in range(...)",
    "eval": "write the expression",
    "exec": "write the statements",
    "super": "there are no classes in a kernel",
    "object": "use a struct",
    "slice": "write the slice: x[a:b]",
}
