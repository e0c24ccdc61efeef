"""From a kernel to PTX: validate, prepare, emit LLVM text, have the worker generate code."""

from __future__ import annotations

from magpie.backends.base import Artifact, Options
from magpie.backends.llvm.emitter import Module
from magpie.backends.llvm.simt_pipeline import check_intrinsics, check_shared, emitted_kernel, generated, show_kernel
from magpie.backends.llvm.worker import What, generate
from magpie.backends.ptx.arch import TENSOR_CORES, Arch, arch
from magpie.backends.ptx.intrinsics import unknown
from magpie.backends.ptx.kernel import PtxKernel
from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Kernel

__all__ = ["compile_kernel", "show"]

_TRIPLE = "nvptx64-nvidia-cuda"


def emit_llvm(kernel: Kernel, layout: KernelLayout, target: Arch, options: Options) -> PtxKernel:
    """The kernel's module. Raises CompileError where it asks for more than the architecture has."""
    native = target.number >= TENSOR_CORES
    if "cuda.tensor_cores" in kernel.requires and not native:
        text = f"kernel {kernel.name!r} requires the capability 'cuda.tensor_cores', which {target.name} does not have"
        help = f"compile for sm_{TENSOR_CORES} or newer; mp.mma without requires= runs everywhere"
        raise CompileError([Diagnostic("MPG_CORE_1200", text, kernel.loc, help=help)])
    if not native or options.checked:  # checks are made of ordinary accesses
        from magpie.passes.lower_tiles import lower_tiles

        kernel = lower_tiles(kernel, 32)

    def make(ready: Kernel, module: Module, suffix: str) -> PtxKernel:
        return PtxKernel(kernel, ready, layout, target, options, module, suffix)

    emitted = emitted_kernel(kernel, options, make, target.shared)
    check_shared(kernel, emitted, target.shared, target.name, "MPG_PTX_2001")
    check_intrinsics(kernel, emitted, lambda names: unknown(names, target.number), target.name, "MPG_PTX_2002")
    return emitted


def _generate(kernel: Kernel, emitted: PtxKernel, options: Options, what: What) -> str:
    level = 2 if options.opt_level is None else options.opt_level
    request = (emitted.text, _TRIPLE, emitted.arch.name, f"+ptx{emitted.ptx}", level, what)
    return generated(kernel, lambda: generate(*request), "MPG_PTX_2002").decode()


def compile_kernel(kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
    """PTX text, with what the driver must know in `info`. Raises CompileError."""
    emitted = emit_llvm(kernel, layout, arch(options.arch), options)
    text = _generate(kernel, emitted, options, "assembly")
    return Artifact("ptx", kernel.name, text.encode(), layout, ".ptx", text, emitted.info)


def show(kernel: Kernel, layout: KernelLayout, options: Options, stage: str) -> str:
    """The text of a stage of the pipeline."""
    target = arch(options.arch)
    early = show_kernel(kernel, options, stage, target.shared)
    if early is not None:
        return early
    emitted = emit_llvm(kernel, layout, target, options)
    if stage == "llvm":
        return emitted.text
    return _generate(kernel, emitted, options, "ir" if stage == "llvm-opt" else "assembly")
