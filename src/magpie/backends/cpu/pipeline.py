"""The stages of a cpu compile, one after the other."""

from __future__ import annotations

from dataclasses import replace

from magpie.backends.base import Artifact, Options
from magpie.backends.cpu.kernel import Emitted, KernelEmitter, kernel_emitter
from magpie.backends.cpu.lane_shapes import forward_slots
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.cpu.skips import branches_for_jumps
from magpie.backends.cpu.unrolling import unroll_strided
from magpie.backends.cpu.walks import walk_loops
from magpie.backends.cpu.width import choose_width, short_rows, tile_lanes
from magpie.backends.llvm import codegen
from magpie.backends.llvm.codegen import CodegenError, HostTarget
from magpie.diagnostics import CompileError, Diagnostic
from magpie.ir.layout import KernelLayout, compute_layout
from magpie.ir.nodes import Facts, Kernel, walk
from magpie.passes import prepare
from magpie.passes.access import infer
from magpie.passes.dce import drop_dead
from magpie.passes.expand import expand
from magpie.passes.lower_tiles import has_tiles, lower_tiles
from magpie.passes.narrow_index import ranges
from magpie.passes.pointers import pointers_as_addresses
from magpie.passes.webs import split_webs

__all__ = ["compile_kernel", "llvm_text", "show"]


def prepared(kernel: Kernel, *, checked: bool = False) -> Kernel:
    """What the emitter starts from. Checked mode keeps loops as they are written."""
    if checked:
        return forward_slots(branches_for_jumps(pointers_as_addresses(prepare(kernel), checked=True)))
    plain = forward_slots(branches_for_jumps(pointers_as_addresses(prepare(kernel, trips=False))))
    return forward_slots(drop_dead(split_webs(expand(walk_loops(plain)))))


def emitter(kernel: Kernel, layout: KernelLayout, options: Options, target: HostTarget) -> KernelEmitter:
    """What emits the kernel's module: its gang width is chosen, its shapes are known, and it is cut at barriers."""
    tiles = has_tiles(kernel)
    width = options.subgroup_size or options.gang
    if tiles:
        width = width or tile_lanes(kernel, target)
        kernel = lower_tiles(kernel, width, 4 if target.has_avx512 else 2)
    ready = prepared(kernel, checked=options.checked)
    has_subgroups = any(n.op.startswith("subgroup_") for n in walk(ready.body))
    known = ranges(ready)
    # a gang is a subgroup, so what the launch says of subgroups counts for kernels that can tell
    if not tiles:
        width = (options.subgroup_size if has_subgroups else 0) or options.gang
    if not width and has_subgroups and (kernel.facts != Facts() or options.checked):
        # A kernel sees how large a subgroup is, and must not see facts or checks: the same size whatever the launch.
        plain = prepared(replace(kernel, facts=Facts()))
        width = choose_width(plain, target, ranges(plain))
    elif not width:
        width = choose_width(ready, target, known)
    if width not in (4, 8, 16, 32, 64):
        raise CompileError(
            Diagnostic(
                "MPG_CPU_1001",
                f"a gang or subgroup of {width} work-items; 4, 8, 16, 32 and 64 are possible",
                kernel.loc,
            )
        )
    size = ready.known_workgroup
    one_row = size is not None and size[1] == size[2] == 1
    rows = one_row or not (has_subgroups or short_rows(ready, target))
    lanes = Layout(width, rows, size)
    if not options.checked:
        unrolled = unroll_strided(ready, lanes, known)
        if unrolled is not ready:
            ready, known = unrolled, ranges(unrolled)
    return kernel_emitter(ready, kernel, layout, target, lanes, known, checked=options.checked)


def llvm_text(kernel: Kernel, layout: KernelLayout, options: Options, target: HostTarget) -> Emitted:
    """The kernel's module."""
    return emitter(kernel, layout, options, target).emit()


def compile_kernel(kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
    """An artifact whose blob is the linked image (`magpie.backends.cpu.loader.restore` takes it)."""
    from magpie.backends.cpu import loader

    target = codegen.host_target()
    emitted = llvm_text(kernel, layout, options, target)
    text = emitted.text
    try:
        level = _level(text, options)
        blob = loader.prepare(codegen.compile_object(text, target, opt_level=level)).to_bytes()
    except (CodegenError, loader.LoadError) as error:
        raise CompileError(Diagnostic("MPG_CPU_1005", f"kernel {kernel.name}: {error}", kernel.loc)) from error
    info = emitted.info | {"externals": list(emitted.externals)}
    return Artifact("cpu", kernel.name, blob, layout, ".o", text, info)


def _level(text: str, options: Options) -> int:
    """What was asked for; else O1 for large modules, most of the speed at half the compile time (RULES 28), and O0 for
    huge ones. LLVM's levels have nothing to do with vectors here: the text that it gets consists of them."""
    if options.opt_level is not None:
        return options.opt_level
    lines = text.count("\n")
    return 0 if lines > 60000 else 1 if lines > 4000 else 2


def show(kernel: Kernel, options: Options, stage: str) -> str:
    """The text of ``kernel`` after a stage."""
    from magpie.ir.printer import print_kernel

    infer(kernel)
    if stage == "kir":
        return print_kernel(kernel)
    if stage == "prepared":
        return print_kernel(prepared(kernel))
    target = codegen.host_target()
    layout = compute_layout(kernel)
    if stage == "regions":
        from magpie.backends.cpu.regions_text import print_regions

        return print_regions(emitter(kernel, layout, options, target))
    text = llvm_text(kernel, layout, options, target).text
    if stage == "llvm":
        return text
    if stage == "llvm-opt":
        return codegen.optimize(text, target, opt_level=_level(text, options))
    return codegen.emit_assembly(text, target, opt_level=_level(text, options))
