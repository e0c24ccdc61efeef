"""From a kernel to an emitted module and to code: the steps that GPU targets share, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from magpie.backends.base import Options
from magpie.backends.llvm.codegen import CodegenError
from magpie.backends.llvm.emitter import Module
from magpie.backends.llvm.simt_kernel import DeviceKernel
from magpie.backends.llvm.worker import WorkerCrash
from magpie.backends.simt.ready import chosen_coarsening, ready_kernel
from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.ir.nodes import Kernel

__all__ = ["check_intrinsics", "check_shared", "emitted_kernel", "generated", "show_kernel"]

K = TypeVar("K", bound=DeviceKernel)

# What of `info` is another for the entry whose blocks run several workgroups.
_OWN = ("entry", "static_shared", "fixed_shared", "dynamic_shared")


def emitted_kernel(kernel: Kernel, options: Options, make: Callable[[Kernel, Module, str], K], shared: int) -> K:
    """The entry that ``make`` emits into a new module, in which there may be a second one whose blocks run several
    workgroups each; a driver takes that for grids which are large enough. `info["coarse"]` has of it what differs.

    ``make`` is given the kernel that passes made, the module, and what to append to the entry's name; ``shared`` is
    what a workgroup may have of shared memory.
    """
    ready, module = ready_kernel(kernel, options), Module()
    plain = make(ready, module, "")
    chosen = chosen_coarsening(ready, options, shared)
    if chosen.factor > 1:
        coarse = make(chosen(ready), module, f"_by{chosen.factor}")
        plain.info["coarse"] = {name: coarse.info[name] for name in _OWN}
        plain.info["coarse"] |= {"factor": chosen.factor, "dim": chosen.dim, "always": options.coarsen > 1}
    return plain


def check_shared(kernel: Kernel, emitted: DeviceKernel, limit: int, arch: str, code: str) -> None:
    """Raise the diagnostic ``code`` where shared arrays of fixed size need more than a workgroup of ``arch`` has."""
    size = emitted.info["static_shared"]
    if size > limit:
        where = next((s.loc for s in kernel.shared if s.loc is not None), kernel.loc)
        text = f"the shared arrays of kernel {kernel.name!r} need {size} bytes, and {arch} has {limit} for a workgroup"
        raise CompileError([Diagnostic(code, text, where)])


def check_intrinsics(
    kernel: Kernel, emitted: DeviceKernel, unknown: Callable[[Iterable[str]], list[str]], arch: str, code: str
) -> None:
    """Raise the diagnostic ``code`` where something is called that ``arch`` has no code for: LLVM would end itself."""
    names = emitted.c.module.declarations
    missing = unknown(n for n in names if n.startswith("llvm."))
    missing += [n for n in names if not n.startswith("llvm.") and n not in emitted.externals]
    if missing:
        raise CompileError([Diagnostic(code, f"{arch} has no code for {', '.join(missing)}", kernel.loc)])


def generated(kernel: Kernel, generate: Callable[[], bytes], code: str) -> bytes:
    """What the worker gives; its errors become diagnostics, ``code`` for all but a crash of LLVM."""
    try:
        return generate()
    except WorkerCrash as error:
        raise CompileError([Diagnostic("MPG_CORE_1301", f"kernel {kernel.name!r}: {error}", kernel.loc)]) from None
    except CodegenError as error:
        raise CompileError([Diagnostic(code, f"kernel {kernel.name!r}: {error}", kernel.loc)]) from None


def show_kernel(kernel: Kernel, options: Options, stage: str, shared: int) -> str | None:
    """The text of a stage before there is LLVM code; None for another. ``shared``: see `emitted_kernel`."""
    from magpie.ir.printer import print_kernel

    if stage == "kir":
        return print_kernel(kernel)
    if stage not in ("prepared", "coarse"):
        return None
    ready = ready_kernel(kernel, options)
    return print_kernel(ready if stage == "prepared" else chosen_coarsening(ready, options, shared)(ready))
