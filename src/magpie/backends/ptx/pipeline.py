"""From a kernel to PTX: validate, prepare, emit LLVM text, have the worker generate code."""

from __future__ import annotations

from magpie.backends.base import Artifact, Options
from magpie.backends.llvm.codegen import CodegenError
from magpie.backends.llvm.worker import WorkerCrash, generate
from magpie.backends.ptx.arch import Arch, arch
from magpie.backends.ptx.intrinsics import unknown
from magpie.backends.ptx.kernel import PtxKernel
from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Kernel

__all__ = ["compile_kernel", "show"]

_TRIPLE = "nvptx64-nvidia-cuda"


def emit_llvm(kernel: Kernel, layout: KernelLayout, target: Arch, options: Options) -> PtxKernel:
    """The kernel's module. Raises CompileError where it asks for more than the architecture has."""
    from magpie.passes import prepare
    from magpie.passes.checked_uniform import check_uniform

    if options.subgroup_size not in (0, 32):
        raise CompileError(
            [Diagnostic("MPG_PTX_2002", f"a subgroup is a warp of 32, not of {options.subgroup_size}", kernel.loc)]
        )
    ready = check_uniform(prepare(kernel)) if options.checked else prepare(kernel)
    emitted = PtxKernel(kernel, ready, layout, target, options)
    size = emitted.info["static_shared"]
    if size > target.shared:
        where = next((s.loc for s in kernel.shared if s.loc is not None), kernel.loc)
        raise CompileError(
            [
                Diagnostic(
                    "MPG_PTX_2001",
                    f"the shared arrays of kernel {kernel.name!r} need {size} bytes, and {target.name} has "
                    f"{target.shared} for a workgroup",
                    where,
                )
            ]
        )
    missing = unknown((n for n in emitted.c.module.declarations if n.startswith("llvm.")), target.number)
    other = [n for n in emitted.c.module.declarations if not n.startswith("llvm.")]
    if missing or other:
        raise CompileError(
            [Diagnostic("MPG_PTX_2002", f"{target.name} has no code for {', '.join(missing + other)}", kernel.loc)]
        )
    return emitted


def _generate(kernel: Kernel, emitted: PtxKernel, options: Options, what: str) -> str:
    try:
        data = generate(
            emitted.text,
            _TRIPLE,
            emitted.arch.name,
            f"+ptx{emitted.ptx}",
            2 if options.opt_level is None else options.opt_level,
            what,  # type: ignore[arg-type]
        )
    except WorkerCrash as error:
        raise CompileError([Diagnostic("MPG_CORE_1301", f"kernel {kernel.name!r}: {error}", kernel.loc)]) from None
    except CodegenError as error:
        raise CompileError([Diagnostic("MPG_PTX_2002", f"kernel {kernel.name!r}: {error}", kernel.loc)]) from None
    return data.decode()


def compile_kernel(kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
    """PTX text, with what the driver must know in `info`. Raises CompileError."""
    emitted = emit_llvm(kernel, layout, arch(options.arch), options)
    text = _generate(kernel, emitted, options, "assembly")
    return Artifact("ptx", kernel.name, text.encode(), layout, ".ptx", text, emitted.info)


def show(kernel: Kernel, layout: KernelLayout, options: Options, stage: str) -> str:
    """The text of a stage of the pipeline."""
    from magpie.ir.printer import print_kernel
    from magpie.passes import prepare

    if stage == "kir":
        return print_kernel(kernel)
    if stage == "prepared":
        return print_kernel(prepare(kernel))
    emitted = emit_llvm(kernel, layout, arch(options.arch), options)
    if stage == "llvm":
        return emitted.text
    return _generate(kernel, emitted, options, "ir" if stage == "llvm-opt" else "assembly")
