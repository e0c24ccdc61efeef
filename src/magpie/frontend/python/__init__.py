"""The Python frontend: from a function and a description of its arguments to Kernel IR.

`lower` compiles; `signature_of` reads annotations only and is cheap. Captured values (closure variables and module
globals) are compiled in with the value that they have when `lower` runs; `Lowered.dependencies.changed()` tells, in
less than a microsecond for a few names, whether one is different now, so that the kernel has to be compiled anew.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from magpie.frontend.python.annotations import NO_DEFAULT, Parameter, signature_of
from magpie.frontend.python.dependencies import Dependencies
from magpie.records import record

if TYPE_CHECKING:
    from magpie.diagnostics.diagnostic import Diagnostic
    from magpie.frontend.signature import Arg
    from magpie.ir.nodes import Kernel

__all__ = ["NO_DEFAULT", "Dependencies", "Lowered", "Parameter", "lower", "signature_of"]


@record
class Lowered:
    """A kernel, the warnings about it, and what it captured."""

    kernel: Kernel
    warnings: tuple[Diagnostic, ...]
    dependencies: Dependencies


def lower(
    fn: FunctionType,
    args: tuple[Arg, ...],
    *,
    workgroup: tuple[int, int, int] | None = None,
    fastmath: bool = False,
    requires: frozenset[str] = frozenset(),
) -> Lowered:
    """Compile ``fn`` for ``args``, one per parameter. Raises CompileError with every error that was found.

    ``requires`` are the capabilities that the kernel declares; what ops need besides stands in the kernel too.
    """
    from magpie.frontend.python.kernel import lower_kernel

    kernel, warnings, dependencies = lower_kernel(fn, args, workgroup, fastmath, requires)
    return Lowered(kernel, warnings, dependencies)
