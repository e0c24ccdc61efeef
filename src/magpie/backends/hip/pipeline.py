"""From a kernel to a code object: prepare, emit LLVM text, have the worker make an object, link it."""

from __future__ import annotations

from magpie.backends.base import Artifact, Options
from magpie.backends.elf_object import LinkError
from magpie.backends.hip.arch import LDS, WAVE64, Arch, arch
from magpie.backends.hip.intrinsics import unknown
from magpie.backends.hip.kernel import HipKernel
from magpie.backends.hip.link import link
from magpie.backends.hip.metadata import kernel_facts
from magpie.backends.llvm.emitter import Module
from magpie.backends.llvm.simt_pipeline import check_intrinsics, check_shared, emitted_kernel, generated, show_kernel
from magpie.backends.llvm.worker import What, generate
from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Kernel

__all__ = ["compile_kernel", "show"]

_TRIPLE = "amdgcn-amd-amdhsa"


def wave_size(kernel: Kernel, target: Arch, options: Options) -> int:
    """Lanes of a wave: the launch's choice, or 64 where the kernel requires it, or the architecture's own."""
    required = 64 if WAVE64 in kernel.requires else 0
    size = options.subgroup_size or required or target.waves[0]
    if size not in target.waves:
        have = " or ".join(map(str, target.waves))
        message = f"{target.name} runs waves of {have} work-items, not of {size}"
    elif required and size != required:
        message = f"kernel {kernel.name!r} requires {WAVE64}, and a subgroup size of {size} was asked for"
    else:
        return size
    raise CompileError([Diagnostic("MPG_HIP_2002", message, kernel.loc)])


def emit_llvm(kernel: Kernel, layout: KernelLayout, target: Arch, options: Options) -> HipKernel:
    """The kernel's module. Raises CompileError where it asks for more than the architecture has."""
    from magpie.passes.lower_tiles import lower_tiles

    wave = wave_size(kernel, target, options)
    kernel = lower_tiles(kernel, wave)

    def make(ready: Kernel, module: Module, suffix: str) -> HipKernel:
        return HipKernel(kernel, ready, layout, target, wave, options, module, suffix)

    emitted = emitted_kernel(kernel, options, make, LDS)
    check_shared(kernel, emitted, LDS, target.name, "MPG_HIP_2001")
    check_intrinsics(kernel, emitted, lambda names: unknown(names, target.generation), target.name, "MPG_HIP_2002")
    return emitted


def _generate(kernel: Kernel, emitted: HipKernel, target: Arch, options: Options, what: What) -> bytes:
    features = f"+wavefrontsize{emitted.lanes.size}" if len(target.waves) > 1 else ""
    level = 2 if options.opt_level is None else options.opt_level
    request = (emitted.text, _TRIPLE, target.name, features, level, what)
    return generated(kernel, lambda: generate(*request), "MPG_HIP_2002")


def compile_kernel(kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
    """A code object, with what the driver must know in `info`. Raises CompileError."""
    target = arch(options.arch)
    emitted = emit_llvm(kernel, layout, target, options)
    data = _generate(kernel, emitted, target, options, "object")
    try:
        blob = link(data)
        emitted.info |= kernel_facts(blob, emitted.info["entry"])
    except LinkError as error:
        raise CompileError([Diagnostic("MPG_HIP_2002", f"kernel {kernel.name!r}: {error}", kernel.loc)]) from None
    return Artifact("hip", kernel.name, blob, layout, ".hsaco", "", emitted.info)


def show(kernel: Kernel, layout: KernelLayout, options: Options, stage: str) -> str:
    """The text of a stage of the pipeline."""
    early = show_kernel(kernel, options, stage, LDS)
    if early is not None:
        return early
    target = arch(options.arch)
    emitted = emit_llvm(kernel, layout, target, options)
    if stage == "llvm":
        return emitted.text
    return _generate(kernel, emitted, target, options, "ir" if stage == "llvm-opt" else "assembly").decode()
