"""The canonical form of a module, the digest of its text, and `magpie fmt`."""

from __future__ import annotations

from dataclasses import replace

from magpie.diagnostics import CompileError, Diagnostic
from magpie.frontend.mp import nodes
from magpie.frontend.mp.parser import parse
from magpie.frontend.mp.printer import show
from magpie.frontend.mp.source import Source
from magpie.mpir.prelude import ENUMS

#: The digest of a module whose digest was not filled in yet.
UNFILLED = "0" * 64

_NAMED = ("enum.new", "enum.is", "enum.payload")


def canonical(module: nodes.Module) -> nodes.Module:
    """The module with all lines of the header, blocks numbered in their order, and variants by their names."""
    variants = {name: tuple(variant for variant, _ in enum.variants) for name, enum in ENUMS.items()}
    for decl in module.decls:
        if isinstance(decl, nodes.Enum):
            variants[decl.name] = tuple(variant.name for variant in decl.variants)
    decls = tuple(_function(decl, variants) if isinstance(decl, nodes.Function) else decl for decl in module.decls)
    header = []
    for kind in ("module", "exports", "imports", "digest"):
        line = module.head(kind)
        header.append(line or nodes.Header(kind, (UNFILLED,) if kind == "digest" else ()))
    return replace(module, header=tuple(header), decls=decls)


def digest_of(module: nodes.Module) -> str:
    """BLAKE3 of the canonical text without the line of the digest, as 64 hexadecimal digits."""
    from blake3 import blake3

    return str(blake3(show(canonical(module), digest=False).encode()).hexdigest())


def check_digest(module: nodes.Module, source: Source) -> Diagnostic | None:
    """A warning (MPL0001) where the module states a digest that is not its own; one of zeros is not filled in yet."""
    line = module.head("digest")
    if line is None or module.digest == UNFILLED:
        return None
    right = digest_of(module)
    if module.digest == right:
        return None
    help = f'run `magpie fmt`, or write: digest "{right}"'
    return Diagnostic("MPL0001", "the digest is not that of the module", source.loc(line.at, line.end), help=help)


def format_source(source: Source) -> str:
    """The canonical text with its digest; raises CompileError where the source has syntax errors.

    Formatting that text again gives the same text.
    """
    parsed = parse(source)
    if parsed.module is None:
        raise CompileError(parsed.diagnostics)
    return format_module(parsed.module)


def format_module(module: nodes.Module) -> str:
    """The canonical text of a tree, with its digest."""
    module = canonical(module)
    digest = digest_of(module)
    header = tuple(replace(line, items=(digest,)) if line.kind == "digest" else line for line in module.header)
    return show(replace(module, header=header))


def _function(function: nodes.Function, variants: dict[str, tuple[str, ...]]) -> nodes.Function:
    names = {block.label: f"bb{index}" for index, block in enumerate(function.blocks)}
    blocks = tuple(
        replace(
            block,
            label=names[block.label],
            body=_body(block.body, names, variants),
            terminator=_terminator(block.terminator, names),
        )
        for block in function.blocks
    )
    return replace(function, blocks=blocks)


def _body(
    body: tuple[nodes.Instruction, ...], names: dict[str, str], variants: dict[str, tuple[str, ...]]
) -> tuple[nodes.Instruction, ...]:
    made: list[nodes.Instruction] = []
    for item in body:
        match item:
            case nodes.UnsafeBlock(inner):
                item = replace(item, body=_body(inner, names, variants))
            case nodes.Assign(value=nodes.Phi(_, edges) as phi):
                edges = tuple(replace(edge, block=names[edge.block]) for edge in edges)
                item = replace(item, value=replace(phi, edges=edges))
            case (
                nodes.Assign(value=nodes.Try(_, str(target)) as tried)
                | nodes.Effect(value=nodes.Try(_, str(target)) as tried)
            ):
                item = replace(item, value=replace(tried, target=names[target]))
            case nodes.Assign(value=nodes.Op(name, (nodes.Type(enum), int(index))) as op) if name in _NAMED:
                if 0 <= index < len(variants.get(enum, ())):
                    item = replace(item, value=replace(op, type_args=(nodes.Type(variants[enum][index]),)))
        made.append(item)
    return tuple(made)


def _terminator(end: nodes.Terminator, names: dict[str, str]) -> nodes.Terminator:
    match end:
        case nodes.Br(target):
            return replace(end, target=names[target])
        case nodes.Cbr(_, then, other):
            return replace(end, then=names[then], other=names[other])
        case nodes.Switch(_, cases, other):
            made = tuple(replace(case, target=names[case.target]) for case in cases)
            return replace(end, cases=made, other=names[other])
        case _:
            return end


__all__ = ["UNFILLED", "canonical", "check_digest", "digest_of", "format_module", "format_source"]
