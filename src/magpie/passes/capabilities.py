"""What a kernel needs: that its target has it, and that the kernel says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from magpie.backends.base import Manifest
from magpie.capabilities import CAPABILITIES, TARGETS, cell, closure, targets_with
from magpie.diagnostics import Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, StructType, bf16, f16, f32, f64, i64, leaves, u64
from magpie.ir.nodes import Kernel, Node, walk

__all__ = ["missing_capabilities", "needs", "not_portable", "undeclared"]


# The types that not every target has values of, nor a way around.
_TYPES = {f64: "f64", f32: "f32", bf16: "bf16", f16: "f16_arithmetic", i64: "int64", u64: "int64"}


def needs(kernel: Kernel) -> Iterator[tuple[Node, str, str]]:
    """The first node that needs each capability, the capability, and what of the node needs it."""
    seen: set[str] = set()
    for region in kernel.bodies():
        for node in walk(region):
            for name in (node.info.capability, _atomic(node)):
                if name is not None and name not in seen:
                    seen.add(name)
                    yield node, name, node.op
            for type_ in _types(node):
                name = _TYPES.get(type_)
                if name is not None and name not in seen:
                    seen.add(name)
                    yield node, name, f"the type {type_}"


def _types(node: Node) -> Iterator[DType]:
    """The scalar types of a node's value; what is only stored is the value of another node."""
    if isinstance(node.type, StructType):
        yield from (leaf for _, leaf, _ in leaves(node.type))
    elif isinstance(node.type, DType):
        yield node.type


def _atomic(node: Node) -> str | None:
    """What an atomic needs by its type; those on 16-bit floats are loops over integers."""
    if not node.op.startswith("atomic_"):
        return None
    type_ = node.type if node.type is not None else node.args[-1].type
    wide = isinstance(type_, DType) and type_.is_int and type_.bits == 64
    return {"f32": "atomics_f32", "f64": "atomics_f64"}.get(str(type_), "atomics_int64" if wide else "atomics_int")


def missing_capabilities(
    kernel: Kernel, manifest: Manifest, target: str = "", advice: Mapping[str, str] | None = None
) -> list[Diagnostic]:
    """MPG_CORE_1200 for each op, and for each capability that the kernel requires, that the manifest lacks.

    ``target`` is what to call what lacks them, and ``advice`` has the help for some, where the backend's id and the
    targets that have a capability do not say enough.
    """
    have = manifest.capabilities
    target = target or manifest.id
    found: list[Diagnostic] = []
    said: set[str] = set()

    def lacks(what: str, name: str, loc: Loc | None) -> None:
        said.add(name)
        help = (advice or {}).get(name) or _where(name, manifest)
        text = f"{what} the capability {name!r}, which {_lack(name, manifest.id, target)}"
        found.append(Diagnostic("MPG_CORE_1200", text, loc, help=help))

    for node, name, what in needs(kernel):
        if name not in have:
            lacks(f"{what} needs", name, node.loc)
    for name in sorted(kernel.requires - have - said):
        lacks(f"kernel {kernel.name!r} requires", name, kernel.loc)
    return found


def _lack(name: str, id_: str, target: str) -> str:
    if name in CAPABILITIES and id_ in TARGETS and cell(name, id_) == "later":
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
            f"{what} needs the capability {name!r}, which not every target has, and the kernel does not name it",
            node.loc,
            help=f"write requires=({name!r},) in the kernel's decorator",
        )
        for node, name, what in needs(kernel)
        if CAPABILITIES[name].declare and name not in names
    ]


def not_portable(kernel: Kernel, declared: Set[str]) -> list[Diagnostic]:
    """MPG_CORE_1202, the reminder of where a kernel can run that names what not every target has."""
    names = sorted(n for n in declared if CAPABILITIES[n].declare)
    if not names:
        return []
    targets = [t for t in TARGETS if all(t in targets_with(n) for n in names)]
    where = f"it runs on {', '.join(targets)} only" if targets else "no target has that yet"
    text = f"kernel {kernel.name!r} needs {', '.join(names)}: {where}"
    return [Diagnostic("MPG_CORE_1202", text, kernel.loc)]
