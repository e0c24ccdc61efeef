"""Inlining of every call. A body with early returns becomes a loop of one trip (RULES 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.ir.builder import Builder
from magpie.ir.nodes import Function, Kernel, Node, Region, Slot, walk
from magpie.passes.exits import has_return, returns_to_breaks
from magpie.passes.rewrite import Rewriter
from magpie.records import replaced

__all__ = ["inline_calls"]

# Operations of a kernel with all calls inlined. The largest kernel that anybody wrote here has a twentieth of that; and
# where each of some functions calls the next one twice, no machine has the memory.
_MOST = 500_000


class _Inliner(Rewriter):
    """Copies a body. For a function: fresh slots, parameters replaced by arguments, locations that name the call."""

    def __init__(self, out: Builder, call: Node | None = None, arguments: dict[str, Node] | None = None) -> None:
        super().__init__()
        self.out = out
        self.call = call
        self.arguments = arguments or {}
        self.results: dict[Node, list[Node]] = {}
        self.locs: dict[Loc, Loc] = {}

    def visit(self, node: Node) -> None:
        if node.op == "call":
            self.results[node] = self.expand(node)
        elif node.op == "call_result":
            self.values[node] = self.results[node.attrs["call"]][node.attrs["index"]]
        elif self.call is None:
            super().visit(node)
        elif node.op == "param":
            self.values[node] = self.arguments[node.attrs["name"]]
        else:
            args = tuple(self.value(a) for a in node.args)
            attrs = {k: self.attr(v) for k, v in node.attrs.items()}
            copy = Node(
                node.op, args, node.type, attrs, tuple(self.region(r) for r in node.regions), self.loc(node.loc)
            )
            self.out.region.append(copy)
            self.values[node] = copy

    def attr(self, old: Any) -> Any:
        if self.call is not None:
            for slot in (old, old[0] if isinstance(old, tuple) and old else None):
                if isinstance(slot, Slot) and slot not in self.slots:
                    self.slots[slot] = Slot(slot.name, slot.type)
        return super().attr(old)

    def expand(self, call: Node) -> list[Node]:
        """Append the callee's body; the values of its results."""
        function: Function = call.attrs["function"]
        arguments = dict(zip((p.name for p in function.params), (self.value(a) for a in call.args), strict=True))
        here = Node(call.op, call.args, None, call.attrs, (), self.loc(call.loc))
        inner = _Inliner(self.out, here, arguments)
        body = function.body
        last = body[-1] if body and body[-1].op == "return" else None
        straight = body[:-1] if last is not None else body
        if not has_return(straight):
            for node in straight:
                inner.visit(node)
            return [inner.value(a) for a in last.args] if last is not None else []
        slots = [Slot(f"{function.name}.result", t) for t in function.results]
        self.out.loc = here.loc
        _, region, _ = self.out.loop()
        with self.out.into(region):
            for node in returns_to_breaks(body, slots):
                inner.visit(node)
            self.out.loc = here.loc
            if not region or not region[-1].info.terminator:
                self.out.emit("break")
        self.out.loc = here.loc
        return [self.out.get(inner.slots[s]) for s in slots]

    def loc(self, loc: Loc | None) -> Loc | None:
        """``loc`` as seen through this call."""
        at = self.call.loc if self.call is not None else None
        if loc is None or at is None:
            return loc or at
        if loc not in self.locs:
            self.locs[loc] = _through(loc, at)
        return self.locs[loc]


def _through(loc: Loc, call: Loc) -> Loc:
    return replaced(loc, inlined_at=call if loc.inlined_at is None else _through(loc.inlined_at, call))


def _size(region: Region, sizes: dict[Function, int]) -> int:
    """Operations of a region with all calls inlined; ``sizes`` are those of functions, as far as they are known."""
    total = 0
    for node in walk(region):
        total += 1
        if node.op == "call":
            function: Function = node.attrs["function"]
            if function not in sizes:
                sizes[function] = _size(function.body, sizes)
            total += sizes[function]
    return total


def _check_size(kernel: Kernel) -> None:
    sizes: dict[Function, int] = {}
    total = _size(kernel.body, sizes)
    if total > _MOST:
        calls = [n for n in walk(kernel.body) if n.op == "call"]
        largest = max(calls, key=lambda n: sizes[n.attrs["function"]])
        text = f"kernel {kernel.name!r} has {total:,} operations with calls inlined; at most {_MOST:,} are compiled"
        raise CompileError([Diagnostic("MPG_CORE_1410", text, largest.loc)])


def inline_calls(kernel: Kernel) -> Kernel:
    """``kernel`` without functions and calls. Raises CompileError MPG_CORE_1410 where that would be too much code."""
    if not kernel.functions:
        return kernel
    _check_size(kernel)
    body: Region = []
    inliner = _Inliner(Builder(body))
    for node in kernel.body:
        inliner.visit(node)
    return replace(kernel, body=body, functions=[])
