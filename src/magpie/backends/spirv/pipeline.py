"""From a kernel to a SPIR-V module: passes, the entries, and what the driver must know."""

from __future__ import annotations

import os
from typing import Any

from magpie.backends.base import Artifact, Options
from magpie.backends.simt.ready import chosen_coarsening, ready_kernel
from magpie.backends.simt.unrolling import straighten
from magpie.backends.spirv.atomics import memory_model, native_atomic
from magpie.backends.spirv.block import BlockPlan
from magpie.backends.spirv.elementwise import FAST_MATH
from magpie.backends.spirv.kernel import SpirvKernel
from magpie.backends.spirv.profile import Profile, profile
from magpie.backends.spirv.tiles import native_tiles
from magpie.backends.spirv.unit import ROWS, Unit
from magpie.dtypes import DType
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Kernel
from magpie.passes.checked_divisions import check_divisions
from magpie.passes.inline import inline_calls
from magpie.passes.legalise import Target, legalise
from magpie.passes.legalise.agreement import agree_on_branches
from magpie.passes.legalise.atomics import lower_atomics
from magpie.passes.legalise.exits import close_loops
from magpie.passes.legalise.subgroups import lower_subgroups
from magpie.passes.lower_tiles import has_tiles, lower_tiles
from magpie.passes.tile_rules import SUBGROUP
from magpie.records import replaced

__all__ = ["compile_kernel", "emitted", "legal_kernel", "show", "target_of"]

# What of `info` is another for the entry whose blocks run several workgroups.
_OWN = ("entry", "static_shared", "fixed_shared", "dynamic_shared")


def target_of(p: Profile) -> Target:
    """What the devices of a profile compute by themselves."""
    return Target(
        i64="i64" in p,
        i16="i16" in p,
        i8="i8" in p,
        f64="f64" in p,
        f16="f16" in p and "rte16" in p and "denorm16" in p,
        fma="fma" in p,
        div="div" in p,
        sqrt32="sqrt32" in p,
        sqrt64="sqrt64" in p,
        u32_to_f32="i64" in p,  # SwiftShader's is not exact, and it has no i64
        denormals="denorm32" in p,
    )


def _moved(t: DType, p: Profile) -> bool:
    """Whether the devices of a profile move values of a type between lanes, and reduce them."""
    return target_of(p).has(t) and (t.bits == 32 or "subgroup_types" in p)


def without_tiles(kernel: Kernel, options: Options) -> tuple[Kernel, Profile]:
    """A kernel whose tiles are those that its profile has, and the profile: one with the size of subgroups, 32 where
    tiles are spread over them and neither says another."""
    p = profile(options.arch)
    size = options.subgroup_size or p.subgroup_size or (SUBGROUP if has_tiles(kernel) else 0)
    if size != p.subgroup_size:
        p = replaced(p, subgroup_size=size)
    if has_tiles(kernel):
        kernel = inline_calls(kernel)
        # The drivers that are known to reconverge run on a CPU, and take long to compile much code.
        slow = "lockstep" in p
        kernel = lower_tiles(kernel, size, 1 if slow else 4, native=native_tiles(kernel, p), rolled=slow)
    return kernel, p


def legal_kernel(ready: Kernel, p: Profile, options: Options) -> Kernel:
    """A kernel that `ready_kernel` made, or a coarsened one, in the ops that the devices of a profile do as the table
    says."""
    from magpie.passes.dce import drop_dead
    from magpie.passes.expand import expand
    from magpie.passes.math_library import lower_math
    from magpie.passes.webs import split_webs

    kernel = check_divisions(ready) if options.checked else ready
    if "lockstep" in p and "subgroups" in p:
        kernel = agree_on_branches(kernel)
    kernel = lower_subgroups(kernel, p.subgroup_size or None, lambda t: _moved(t, p))
    kernel = lower_atomics(kernel, lambda t, kind: native_atomic(p.features, t, kind))
    if options.opt_level != 0 and not options.checked:
        kernel = straighten(kernel)
    kernel = lower_math(kernel, FAST_MATH if ready.fastmath else frozenset())
    if kernel is not ready:
        kernel = split_webs(drop_dead(expand(kernel)))
    kernel = legalise(kernel, target_of(p), checked=options.checked)
    return close_loops(kernel) if "lockstep" in p else kernel


def emitted(kernel: Kernel, layout: KernelLayout, options: Options) -> tuple[Unit, dict[str, Any]]:
    """The module, and `info`."""
    kernel, p = without_tiles(kernel, options)
    ready = ready_kernel(kernel, options)
    chosen = chosen_coarsening(ready, options, p.shared_bytes)
    legal = [legal_kernel(ready, p, options)]
    if chosen.factor > 1:
        legal.append(legal_kernel(chosen(ready), p, options))
    unit = Unit(kernel, p, BlockPlan(legal, layout, checked=options.checked))
    unit.module.memory_model = memory_model(legal[0])
    plain = SpirvKernel(kernel, legal[0], layout, unit, options)
    info = plain.info
    if len(legal) > 1:
        coarse = SpirvKernel(kernel, legal[1], layout, unit, options, f"_by{chosen.factor}")
        info["coarse"] = {name: coarse.info[name] for name in _OWN}
        info["coarse"] |= {"factor": chosen.factor, "dim": chosen.dim, "always": options.coarsen > 1}
    unit.decorate_bindings(legal[0], coherent=plain.synchronises and not plain.explicit)
    if kernel.loc is not None:
        unit.module.source(file=os.path.basename(kernel.loc.file))
    info |= {
        "arch": p.text,
        "needs": unit.features(),
        "buffers": len(kernel.buffers),
        "item_sizes": [b.type.itemsize for b in kernel.buffers],
        "rows": ROWS,
        "block": unit.plan.entries,
        "block_size": unit.plan.size,
        "block_kind": unit.kind,
    }
    return unit, info


def compile_kernel(kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
    """A module, with what the driver must know in `info`. Raises CompileError."""
    from magpie.backends.spirv.disassemble import disassemble

    unit, info = emitted(kernel, layout, options)
    blob = unit.module.binary()
    return Artifact("spv", kernel.name, blob, layout, ".spv", lambda: disassemble(blob), info)


def show(kernel: Kernel, layout: KernelLayout, options: Options, stage: str) -> str:
    """The text of a stage of the pipeline."""
    from magpie.ir.printer import print_kernel

    if stage == "kir":
        return print_kernel(kernel)
    tiled, p = without_tiles(kernel, options)
    ready = ready_kernel(tiled, options)
    if stage == "prepared":
        return print_kernel(ready)
    if stage == "coarse":
        return print_kernel(chosen_coarsening(ready, options, p.shared_bytes)(ready))
    if stage == "legal":
        return print_kernel(legal_kernel(ready, p, options))
    return compile_kernel(kernel, layout, options).text
