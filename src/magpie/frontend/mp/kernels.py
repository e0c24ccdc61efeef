"""From the text of a module to the kernels in it, checked: names, types, the rules of MPIR and of kernels."""

from __future__ import annotations

from magpie.diagnostics import CompileError, Diagnostic
from magpie.frontend.mp.canonical import check_digest
from magpie.frontend.mp.lexer import MAX_ERRORS
from magpie.frontend.mp.module import lower_module
from magpie.frontend.mp.names import Names
from magpie.frontend.mp.parser import parse
from magpie.frontend.mp.source import Source
from magpie.ir.nodes import Kernel
from magpie.mpir import lower_kernel, verify
from magpie.mpir.nodes import Module
from magpie.records import record

__all__ = ["Checked", "check_source"]


@record
class Checked:
    """A module's kernels as MPIR and, by name, as Kernel IR; None and no kernels where there are errors.

    Diagnostics stand in the order of their lines.
    """

    module: Module | None
    kernels: dict[str, Kernel]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def checked(self) -> Module:
        """The module; raises CompileError with all diagnostics where there are errors."""
        if self.module is None:
            raise CompileError(self.diagnostics)
        return self.module


def check_source(source: Source) -> Checked:
    """Read and check a source; at most MAX_ERRORS errors are given."""
    parsed = parse(source)
    if parsed.module is None:
        return Checked(None, {}, parsed.diagnostics)
    names = Names(parsed.module, source)
    names.check()
    module = lower_module(names)
    found = list(names.found)
    broken = {d.loc.function for d in found if d.loc is not None}
    # of a function that lacks parts, the verifier would report what follows from that
    found += [d for d in verify(module) if (d.loc.function not in broken if d.loc is not None else not names.found)]
    kernels: dict[str, Kernel] = {}
    if not any(d.is_error for d in found):
        for function in module.functions:
            if function.gpu_meta is not None:
                try:
                    kernels[function.name] = lower_kernel(module, function)
                except CompileError as error:
                    found += error.diagnostics
    digest = check_digest(parsed.module, source)
    if digest is not None:
        found.append(digest)
    found.sort(key=lambda d: (d.loc.line, d.loc.col) if d.loc is not None else (0, 0))
    if any(d.is_error for d in found):
        return Checked(None, {}, tuple(found[:MAX_ERRORS]))
    return Checked(module, kernels, tuple(found))
