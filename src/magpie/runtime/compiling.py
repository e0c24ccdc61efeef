"""The steps of a compile: lower, facts, validate, emit; and the key of the result. Imported when nothing is cached."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from magpie import knobs
from magpie.backends.base import Artifact, Backend, Options
from magpie.backends.registry import backend as find_backend
from magpie.diagnostics.diagnostic import CompileError, CompileWarning, Diagnostic
from magpie.ir.nodes import Facts, Kernel, walk
from magpie.ir.printer import print_kernel
from magpie.runtime import cache

if TYPE_CHECKING:
    from magpie.runtime.specialise import Lowering, Variant

__all__ = ["compile_artifact", "facts_for", "ir_key", "show_warning", "with_facts"]

_REPORTING = frozenset({"assert", "print", "trap"})


def facts_for(kernel: Kernel, variant: Variant) -> Facts:
    """The facts that a variant promises for this kernel's buffers."""
    if not variant.fast:
        return Facts()
    names = frozenset(b.name for b in kernel.buffers)
    return Facts(
        contiguous=names,
        aligned=names if variant.aligned else frozenset(),
        noalias=True,
        small=True,
        workgroup=variant.workgroup,
    )


def with_facts(kernel: Kernel, variant: Variant) -> Kernel:
    """The kernel under a variant's facts; the original stays as it is."""
    return replace(kernel, facts=facts_for(kernel, variant))


def reports_places(kernel: Kernel, options: Options) -> bool:
    """Whether the artifact holds source positions: something can be reported from it at run time."""
    return options.checked or any(node.op in _REPORTING for body in kernel.bodies() for node in walk(body))


def ir_key(kernel: Kernel, backend_id: str, options: Options, machine: str) -> str:
    """The hash of all that an artifact depends on, as hexadecimal text."""
    # Without places an entry stays good when the file is edited elsewhere, or moved.
    places = reports_places(kernel, options)
    text = print_kernel(kernel, locations=places)
    if places and kernel.loc is not None:
        text += kernel.loc.file
    return cache.plain_key("ir", backend_id, repr(options), machine, text)


def show_warning(diagnostic: Diagnostic) -> None:
    """Warn at the kernel's own line. Without a registry no earlier warning from there hides this one."""
    loc = diagnostic.loc
    file, line = ("<kernel>", 0) if loc is None else (loc.file, loc.line)
    warnings.warn_explicit(CompileWarning(diagnostic), None, file, line)


def validate(lowering: Lowering, backend: Backend) -> None:
    """Raises CompileError for what the backend refuses; warnings go through `warnings.warn`, once.

    The kernel is looked at without facts. A workgroup size can prove a branch uniform: a kernel must not be right when
    it is launched with one size and wrong with another, and a warning is for the kernel, not for each of its variants.
    """
    if backend.id in lowering.validated:
        return
    found = backend.validate(lowering.kernel)
    for diagnostic in found:
        if not diagnostic.is_error:
            show_warning(diagnostic)
    errors = [d for d in found if d.is_error]
    if errors:
        raise CompileError(errors)
    lowering.validated.add(backend.id)


def compile_artifact(lowering: Lowering, variant: Variant, backend_id: str, options: Options) -> Artifact:
    """Compile a variant without any cache. Raises CompileError; warnings go through `warnings.warn`."""
    backend = find_backend(backend_id)
    validate(lowering, backend)
    kernel = with_facts(lowering.kernel, variant)
    stages = knobs.dump()
    if stages:
        from magpie.runtime.dump import dump_stages

        dump_stages(kernel, backend, options, stages)
    return backend.emit(kernel, backend.layout(kernel), options)
