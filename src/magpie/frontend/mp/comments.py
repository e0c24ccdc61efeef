"""Comments and blank lines, put onto the nodes that they stand before or behind."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from magpie.frontend.mp import nodes
from magpie.frontend.mp.lexer import Comment
from magpie.frontend.mp.source import Source

_TAILED = (
    nodes.Module,
    nodes.Function,
    nodes.UnsafeBlock,
    nodes.Switch,
    nodes.Struct,
    nodes.Variant,
    nodes.Enum,
    nodes.Extern,
)


@dataclass(slots=True)
class _Anchor:
    """A place that comments can stand before: the beginning of ``node``, or with ``tail`` the end of what it holds.

    ``leaf`` nodes hold no anchors: comments inside them go before them.  Where ``first``, a blank line before it says
    nothing.  ``end`` is that of the line that a comment can stand behind.
    """

    at: int
    node: nodes.Noted | nodes.Module
    end: int = -1
    leaf: bool = False
    first: bool = False
    tail: bool = False


def attach(module: nodes.Module, source: Source, comments: list[Comment]) -> None:
    """Set the notes of the nodes of a tree that was just parsed, and the tails of what has braces.

    A comment behind the last word of a line belongs to the node that ends there; any other one to the next node that
    begins behind it, or to the end of what it stands in.  Several blank lines count as one; those at the beginning and
    the end of a list are dropped.
    """
    anchors = list(_anchors(module, len(source.text)))
    starts = [anchor.at for anchor in anchors]
    ends = sorted((anchor.end, anchor.at, index) for index, anchor in enumerate(anchors) if anchor.end >= 0)
    offsets = [end for end, _, _ in ends]
    lead: dict[int, list[Comment]] = {}
    trails: dict[int, str] = {}
    for comment in comments:
        index = bisect_right(offsets, comment[0]) - 1
        if index >= 0 and _only_marks(source.text, offsets[index], comment[0]):
            trails[ends[index][2]] = comment[1]
            continue
        index = bisect_right(starts, comment[0]) - 1
        if index < 0 or not (anchors[index].leaf and comment[0] < anchors[index].end):
            index += 1
        lead.setdefault(index, []).append(comment)
    for index, anchor in enumerate(anchors):
        lines = _lines(source, anchor, lead.get(index, []))
        if anchor.tail:
            if lines:
                assert isinstance(anchor.node, _TAILED)
                anchor.node.tail = lines
        elif lines or index in trails:
            assert isinstance(anchor.node, nodes.Noted)
            before = anchor.node.notes.lead if anchor.node.notes is not None else ()
            anchor.node.notes = nodes.Notes((*before, *lines), trails.get(index, ""))


def _lines(source: Source, anchor: _Anchor, comments: list[Comment]) -> tuple[str, ...]:
    """The comments before an anchor, with "" for blank lines."""
    lines: list[str] = []
    for at, text in comments:
        if _blank_before(source, at) and (lines or not anchor.first):
            lines.append("")
        lines.append(text)
    if not anchor.tail and (lines or not anchor.first) and _blank_before(source, anchor.at):
        lines.append("")
    return tuple(lines)


def _only_marks(text: str, start: int, end: int) -> bool:
    """Whether nothing but blanks, a colon or a comma stands between two offsets, on one line."""
    return text.find("\n", start, end) < 0 and not text[start:end].strip(" \t:,")


def _blank_before(source: Source, at: int) -> bool:
    """Whether the line above offset ``at`` is blank, and only blanks stand before it on its own."""
    line = source.line_of(at)
    if line < 2:
        return False
    above, own = source.starts[line - 2], source.starts[line - 1]
    if at - own > _INDENT or own - above > _INDENT:
        return False
    return not source.text[above:at].strip(" \t\n")


#: Lines that begin with more blanks than this are not looked at: a line of a megabyte costs no more than others.
_INDENT = 500


def _anchors(module: nodes.Module, end: int) -> Iterator[_Anchor]:
    for line in module.header:
        yield _Anchor(line.at, line, line.end, leaf=True, first=True)
    for decl in module.decls:
        yield from _of_decl(decl)
    yield _Anchor(end, module, tail=True, first=True)


def _of_decl(decl: nodes.Decl) -> Iterator[_Anchor]:
    match decl:
        case nodes.Function():
            yield _Anchor(decl.at, decl, decl.end, first=True)
            for index, block in enumerate(decl.blocks):
                yield _Anchor(block.at, block, block.at + len(block.label), first=index == 0)
                yield from _of_body(block.body)
                yield from _of_terminator(block.terminator, first=not block.body)
            yield _Anchor(decl.end - 1, decl, tail=True)
        case nodes.Struct():
            yield _Anchor(decl.at, decl, decl.end, first=True)
            yield from _of_fields(decl.fields)
            yield _Anchor(decl.end - 1, decl, tail=True, first=not decl.fields)
        case nodes.Enum():
            yield _Anchor(decl.at, decl, decl.end, first=True)
            for index, variant in enumerate(decl.variants):
                braces = bool(variant.fields)
                yield _Anchor(variant.at, variant, variant.end, leaf=not braces, first=index == 0)
                if braces:
                    yield from _of_fields(variant.fields)
                    yield _Anchor(variant.end - 1, variant, tail=True)
            yield _Anchor(decl.end - 1, decl, tail=True, first=not decl.variants)
        case nodes.Extern():
            yield _Anchor(decl.at, decl, decl.end, first=True)
            for index, function in enumerate(decl.functions):
                yield _Anchor(function.at, function, function.end, leaf=True, first=index == 0)
            yield _Anchor(decl.end - 1, decl, tail=True, first=not decl.functions)
        case _:
            yield _Anchor(decl.at, decl, decl.end, leaf=True, first=True)


def _of_fields(fields: tuple[nodes.Field, ...]) -> Iterator[_Anchor]:
    for index, item in enumerate(fields):
        yield _Anchor(item.at, item, item.end, leaf=True, first=index == 0)


def _of_body(body: tuple[nodes.Instruction, ...]) -> Iterator[_Anchor]:
    for index, item in enumerate(body):
        if isinstance(item, nodes.UnsafeBlock):
            yield _Anchor(item.at, item, item.end, first=index == 0)
            yield from _of_body(item.body)
            yield _Anchor(item.end - 1, item, tail=True, first=not item.body)
        else:
            yield _Anchor(item.at, item, item.end, leaf=True, first=index == 0)


def _of_terminator(end: nodes.Terminator, first: bool) -> Iterator[_Anchor]:
    if not isinstance(end, nodes.Switch):
        yield _Anchor(end.at, end, end.end, leaf=True, first=first)
        return
    yield _Anchor(end.at, end, end.end, first=first)
    for index, case in enumerate(end.cases):
        yield _Anchor(case.at, case, case.end, leaf=True, first=index == 0)
    yield _Anchor(end.end - 1, end, tail=True, first=not end.cases)


__all__ = ["attach"]
