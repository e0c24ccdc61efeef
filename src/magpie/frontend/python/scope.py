"""What a function binds: how often each name is assigned, and what a loop's body assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from magpie.frontend.python.source import Source

__all__ = ["assigned_in", "bindings", "target_names"]


def target_names(target: ast.expr) -> Iterator[str]:
    """The variables that an assignment to ``target`` sets; for ``p.x = ...`` that is p."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from target_names(item)
    elif isinstance(target, ast.Attribute | ast.Starred):
        yield from target_names(target.value)


def _targets(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The variables that a statement sets; the flag says that only a field of it is set."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _named(target)
    elif isinstance(node, ast.AugAssign | ast.NamedExpr) or (
        isinstance(node, ast.AnnAssign) and node.value is not None
    ):
        yield from _named(node.target)


def _named(target: ast.expr) -> Iterator[tuple[str, bool]]:
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    for part in parts:
        if part is not target and isinstance(part, ast.Tuple | ast.List):
            yield from _named(part)
        else:
            for name in target_names(part):
                yield name, isinstance(part, ast.Attribute)


def bindings(source: Source) -> dict[str, int]:
    """Every local variable with its number of assignments.

    A `for` target counts only if the loop's body assigns it, and then twice: otherwise each loop has a variable of its
    own, even if several loops use one name.
    """
    if source.counts is None:
        counts = dict.fromkeys(
            (a.arg for a in (*source.tree.args.posonlyargs, *source.tree.args.args, *source.tree.args.kwonlyargs)), 1
        )
        fields = []
        for node in ast.walk(source.tree):
            for name, is_field in _targets(node):
                if is_field:
                    fields.append(name)
                else:
                    counts[name] = counts.get(name, 0) + 1
            if isinstance(node, ast.For):
                inside = assigned_in(node.body)
                for name in target_names(node.target):
                    counts[name] = counts.get(name, 0) + (2 if name in inside else 0)
        for name in fields:  # p.x = ... changes the variable p, and makes no variable of a name from outside
            if name in counts:
                counts[name] += 1
        read = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for name in counts:
            if name.startswith("_") and name not in read:
                counts[name] = min(counts[name], 1)  # q, _ = divmod(a, b): it may take values of any type
        source.counts = counts
    return source.counts


def assigned_in(body: Iterable[ast.stmt]) -> frozenset[str]:
    """The variables that any statement inside ``body`` sets, targets of inner loops included."""
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            found.update(name for name, _ in _targets(node))
            if isinstance(node, ast.For):
                found.update(target_names(node.target))
    return frozenset(found)
