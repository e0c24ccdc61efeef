"""From the text of a module to the kernels in it, checked: names, types, the rules of MPIR and of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from magpie.diagnostics import CompileError, Diagnostic
from magpie.frontend.mp.canonical import check_digest
from magpie.frontend.mp.collector import no_collection
from magpie.frontend.mp.lexer import MAX_ERRORS
from magpie.frontend.mp.module import lower_module
from magpie.frontend.mp.names import Names
from magpie.frontend.mp.parser import parse
from magpie.frontend.mp.source import Source
from magpie.ir.nodes import Kernel
from magpie.mpir import lower_kernel, verify
from magpie.mpir.known import reached
from magpie.mpir.nodes import Function, Module
from magpie.mpir.verify import MOST_FAULTS
from magpie.records import record, replaced

__all__ = ["Checked", "check_source", "in_order"]


@record
class Checked:
    """A module as MPIR, and those of its kernels that are right, as Kernel IR by their names.

    The module is None where the text could not be read. Diagnostics stand in the order of their lines.
    """

    module: Module | None
    kernels: dict[str, Kernel]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def checked(self) -> Module:
        """The module; raises CompileError with all diagnostics where there are errors."""
        if self.module is None or any(d.is_error for d in self.diagnostics):
            raise CompileError(self.diagnostics)
        return self.module


def _none(module: Module, function: Function) -> list[Diagnostic]:
    return []


def check_source(source: Source, rules: Callable[[Module, Function], list[Diagnostic]] = _none) -> Checked:
    """Read and check a source; at most MAX_ERRORS errors are given.

    ``rules`` are more rules of kernels, asked of those that keep the ones of all targets. A kernel with an error does
    not hide those of others.
    """
    with no_collection():
        return _check(source, rules)


def _check(source: Source, rules: Callable[[Module, Function], list[Diagnostic]]) -> Checked:
    parsed = parse(source)
    if parsed.module is None:
        return Checked(None, {}, parsed.diagnostics)
    names = Names(parsed.module, source)
    names.check()
    module = lower_module(names)
    found = list(names.found)
    broken = {d.loc.function for d in found if d.loc is not None}
    # of a function that lacks parts, the verifier would report what follows from that
    faults = verify(module)
    found += [d for d in faults if (d.loc.function not in broken if d.loc is not None else not names.found)]
    kernels: dict[str, Kernel] = {}
    first = source.line_of(parsed.module.decls[0].at) if parsed.module.decls else 0
    broken = {
        d.loc.function if d.loc is not None else ""
        for d in found
        if d.is_error and (d.loc is None or d.loc.line >= first)  # the header does not concern kernels
    }
    if len(faults) >= MOST_FAULTS:
        broken.add("")  # not all of the module was looked at
    for function in module.functions:
        # an error with no function is one of the module's declarations, on which all rests
        if function.gpu_meta is None or "" in broken:
            continue
        if broken and broken & {f.name for f in reached(module, function)}:
            continue
        refused = rules(module, function)
        found += refused
        try:
            kernels[function.name] = lower_kernel(module, function)
        except CompileError as error:
            if not any(d.is_error for d in refused):
                found += error.diagnostics
    digest = check_digest(parsed.module, source)
    if digest is not None:
        found.append(digest)
    return Checked(module, kernels, tuple(in_order(_of_instances(found, names.instances))))


def _of_instances(found: list[Diagnostic], shown: Mapping[str, str]) -> list[Diagnostic]:
    """What is wrong in a generic function is found in each of its instances: it is one error, and names the first."""
    kept: list[Diagnostic] = []
    places = {(d.code, str(d.loc)) for d in found if d.loc is not None and d.loc.function not in shown}
    for d in found:
        name = shown.get(d.loc.function) if d.loc is not None else None
        if name is None or d.loc is None:
            kept.append(d)
        elif (d.code, str(d.loc)) not in places:
            places.add((d.code, str(d.loc)))
            kept.append(replaced(d, message=f"{d.message.replace(f'@{d.loc.function}', f'@{name}')} (in @{name})"))
    return kept


def in_order(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics in the order of their lines, each once, and of errors as many as one run gives."""
    ordered = sorted(dict.fromkeys(found), key=lambda d: (d.loc.line, d.loc.col) if d.loc is not None else (0, 0))
    errors = [d for d in ordered if d.is_error][:MAX_ERRORS]
    return [d for d in ordered if not d.is_error or d in errors]
