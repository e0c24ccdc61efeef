"""What a kernel needs: that its target has it, and that the kernel says so."""

from __future__ import annotations

from collections.abc import Iterator, Set

from magpie.backends.base import Manifest
from magpie.capabilities import CAPABILITIES, TARGETS, cell, closure, targets_with
from magpie.diagnostics import Diagnostic
from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node, walk

__all__ = ["missing_capabilities", "not_portable", "undeclared"]


def _needs(kernel: Kernel) -> Iterator[tuple[Node, str]]:
    """The first op of each capability that ops need."""
    seen: set[str] = set()
    for region in kernel.bodies():
        for node in walk(region):
            for needs in (node.info.capability, _atomic(node)):
                if needs is not None and needs not in seen:
                    seen.add(needs)
                    yield node, needs


def _atomic(node: Node) -> str | None:
    """What an atomic needs by its type; those on 16-bit floats are loops over integers."""
    if not node.op.startswith("atomic_"):
        return None
    type_ = node.type if node.type is not None else node.args[-1].type
    wide = isinstance(type_, DType) and type_.is_int and type_.bits == 64
    return {"f32": "atomics_f32", "f64": "atomics_f64"}.get(str(type_), "atomics_int64" if wide else "atomics_int")


def missing_capabilities(kernel: Kernel, manifest: Manifest) -> list[Diagnostic]:
    """MPG_CORE_1200 for each op, and for each capability that the kernel requires, that the manifest lacks."""
    have = manifest.capabilities
    found: list[Diagnostic] = []
    said: set[str] = set()
    for node, needs in _needs(kernel):
        if needs not in have:
            said.add(needs)
            text = f"{node.op} needs the capability {needs!r}, which {_lack(needs, manifest.id)}"
            found.append(Diagnostic("MPG_CORE_1200", text, node.loc, help=_where(needs, manifest)))
    for needs in sorted(kernel.requires - have - said):
        text = f"kernel {kernel.name!r} requires the capability {needs!r}, which {_lack(needs, manifest.id)}"
        found.append(Diagnostic("MPG_CORE_1200", text, kernel.loc, help=_where(needs, manifest)))
    return found


def _lack(name: str, target: str) -> str:
    if name in CAPABILITIES and target in TARGETS and cell(name, target) == "later":
        return f"Magpie has no code for on {target} yet"
    return f"{target} does not have"


def _where(name: str, manifest: Manifest) -> str:
    shown = ", ".join(sorted(manifest.capabilities)) or "none"
    having = ", ".join(targets_with(name)) if name in CAPABILITIES else ""
    return f"{having or 'no target'} has it; {manifest.id} has: {shown}"


def undeclared(kernel: Kernel, declared: Set[str]) -> list[Diagnostic]:
    """MPG_CORE_1201 for each op whose capability a kernel must name and does not."""
    names = closure(declared)
    return [
        Diagnostic(
            "MPG_CORE_1201",
            f"{node.op} needs the capability {needs!r}, which not every target has, and the kernel does not name it",
            node.loc,
            help=f"write requires=({needs!r},) in the kernel's decorator",
        )
        for node, needs in _needs(kernel)
        if CAPABILITIES[needs].declare and needs not in names
    ]


def not_portable(kernel: Kernel, declared: Set[str]) -> list[Diagnostic]:
    """MPG_CORE_1202, the reminder of where a kernel can run that names what not every target has."""
    names = sorted(n for n in declared if CAPABILITIES[n].declare)
    if not names:
        return []
    targets = [t for t in TARGETS if all(t in targets_with(n) for n in names)]
    text = f"kernel {kernel.name!r} needs {', '.join(names)}: it runs on {', '.join(targets) or 'no target'} only"
    return [Diagnostic("MPG_CORE_1202", text, kernel.loc)]
