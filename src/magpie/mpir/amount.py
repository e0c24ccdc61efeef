"""How much code the kernels of a module become: calls are copies of what they call, structs are taken apart.

That may be far more than the text, and everything behind the verifier takes time for each operation. So it is counted
first, from the text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from magpie.diagnostics import Diagnostic
from magpie.mpir.known import Found
from magpie.mpir.nodes import Function, Module, Switch
from magpie.mpir.types import Ty
from magpie.records import replaced

__all__ = ["MOST_OPERATIONS", "amount_rules"]

#: Operations of all kernels of a module. A megabyte of text without calls has a quarter of that.
MOST_OPERATIONS = 100_000


def amount_rules(module: Module) -> Found:
    """MPG_CORE_1410 at the largest call of the first kernel that is too much, with those before it."""
    value = {s.name: s for s in module.structs if not s.heap}
    fields = {name: [t.name for _, t in s.fields] for name, s in value.items()}
    leaves = _totals(
        {name: sum(t not in value for t in types) for name, types in fields.items()},
        {name: [t for t in types if t in value] for name, types in fields.items()},
    )
    bodies = {f.name: f for f in reversed(module.functions)}
    sizes = _totals(
        {name: _own(f, leaves) for name, f in bodies.items()},
        {name: [n for n in _calls(f) if n in bodies] for name, f in bodies.items()},
    )
    total = 0
    for function in module.functions:
        if function.gpu_meta is not None:
            total += sizes[function.name]
            if total > MOST_OPERATIONS:
                more = "" if total < _ENOUGH else "more than "
                text = f"with @{function.name} kernels have {more}{total:,} operations, calls and structs taken apart"
                help = f"a module has at most {MOST_OPERATIONS:,} in its kernels: call less often, or split the module"
                calls = [i for b in function.blocks for i in b.instrs if i.op == "call" and i.callee in bodies]
                largest = max(calls, key=lambda i: sizes[i.callee]).loc if calls else function.loc
                loc = None if largest is None else replaced(largest, function="")  # it is said of the module
                yield Diagnostic("MPG_CORE_1410", text, loc, help=help)
                return


def _calls(function: Function) -> Iterable[str]:
    return (i.callee for b in function.blocks for i in b.instrs if i.op == "call")


def _own(function: Function, leaves: Mapping[str, int]) -> int:
    """Operations of a function without those of what it calls: values of structs count as many as they have leaves,
    and a case of a switch as its two tests."""

    def weight(type_: Ty | None) -> int:
        return 1 if type_ is None else max(leaves.get(type_.name, 1), 1)

    count = sum(weight(type_) for _, type_ in function.params) + len(function.blocks)
    for block in function.blocks:
        count += sum(weight(p.type) * max(len(p.incoming), 1) for p in block.phis)
        count += sum(weight(i.type) for i in block.instrs)
        if isinstance(block.term, Switch):
            count += _CASE * len(block.term.cases)
    return count


#: Operations of a case of a switch: a constant, a compare and a branch, for one case and for one half of the others.
_CASE = 6

#: Where counting ends: numbers that multiply would get long.
_ENOUGH = 1_000_000_000


def _totals(own: Mapping[str, int], inner: Mapping[str, list[str]]) -> dict[str, int]:
    """``own`` of each name and the totals of all its ``inner`` ones, up to _ENOUGH. A cycle is gone round once."""
    found: dict[str, int] = {}
    for root in own:
        stack, open_ = [root], set[str]()
        while stack:
            at = stack[-1]
            if at in open_ or at in found:
                stack.pop()
                if at not in found:
                    found[at] = min(own[at] + sum(found.get(n, 0) for n in inner[at]), _ENOUGH)
            else:
                open_.add(at)
                stack += [n for n in dict.fromkeys(inner[at]) if n not in found and n not in open_]
    return found
