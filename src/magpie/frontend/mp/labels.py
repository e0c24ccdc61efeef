"""Labels of blocks: each is there once, and every branch leads to one."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from magpie.diagnostics import Diagnostic
from magpie.frontend.mp import nodes
from magpie.frontend.mp.lexer import MAX_ERRORS
from magpie.frontend.mp.source import Source


def check_labels(module: nodes.Module, source: Source, found: list[Diagnostic]) -> None:
    """Report labels that stand twice in a function, and names of blocks that it does not have."""
    for decl in module.decls:
        if isinstance(decl, nodes.Function) and len(found) < MAX_ERRORS:
            _check(decl, source, found)


def _check(function: nodes.Function, source: Source, found: list[Diagnostic]) -> None:
    first: dict[str, nodes.Block] = {}
    for block in function.blocks:
        if first.setdefault(block.label, block) is not block and len(found) < MAX_ERRORS:
            at, end = block.at, block.at + len(block.label)
            where = source.loc(first[block.label].at, first[block.label].at + len(block.label))
            text = f"there are two blocks {block.label} in @{function.name}"
            found.append(Diagnostic("MPP0014", text, source.loc(at, end, function.name), notes=(("the first", where),)))
    for name, node in mentioned(function):
        if name not in first and len(found) < MAX_ERRORS:
            near = difflib.get_close_matches(name, first, n=1, cutoff=0.5) if len(first) < 1000 else []
            help = f"did you mean {near[0]}?" if near else None
            text = f"@{function.name} has no block {name}"
            found.append(Diagnostic("MPP0014", text, source.loc(node.at, node.end, function.name), help=help))


def mentioned(function: nodes.Function) -> Iterator[tuple[str, nodes.Node]]:
    """Every name of a block in a function's instructions and terminators, with the node that has it."""
    for block in function.blocks:
        yield from _in_body(block.body)
        end = block.terminator
        match end:
            case nodes.Br(target):
                yield target, end
            case nodes.Cbr(_, then, other):
                yield then, end
                yield other, end
            case nodes.Switch(_, cases, other):
                for case in cases:
                    yield case.target, case
                yield other, end


def _in_body(body: tuple[nodes.Instruction, ...]) -> Iterator[tuple[str, nodes.Node]]:
    for item in body:
        if isinstance(item, nodes.UnsafeBlock):
            yield from _in_body(item.body)
        elif isinstance(item.value, nodes.Try) and item.value.target is not None:
            yield item.value.target, item.value
        elif isinstance(item.value, nodes.Phi):
            for edge in item.value.edges:
                yield edge.block, edge


__all__ = ["check_labels", "mentioned"]
