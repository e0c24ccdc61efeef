"""A kernel as an LLVM module for AMDGPU: what is AMD's in it.

Explicit parameters lie in the kernel argument segment as the layout says. The runtime writes the sizes of a launch
behind them (LLVM, AMDGPU usage, "Code Object V5 Metadata": hidden_block_count and hidden_group_size).
"""

from __future__ import annotations

from typing import ClassVar

from magpie.backends.base import Options
from magpie.backends.hip.arch import LDS, Arch
from magpie.backends.hip.lanes import Wave
from magpie.backends.hip.math import STACK, HipOps
from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Module
from magpie.backends.llvm.simt_kernel import DeviceKernel
from magpie.dtypes import DType
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Kernel, Node

__all__ = ["CODE_OBJECT", "HipKernel"]

#: The version of the code object ABI; ROCm reads it from 5.4 on.
CODE_OBJECT = 5

# What kernels of ours never ask of the runtime; LLVM assumes the opposite of a function that does not say so.
_WITHOUT = (
    *("dispatch-ptr", "dispatch-id", "queue-ptr", "hostcall-ptr", "heap-ptr", "multigrid-sync-arg"),
    *("default-queue", "completion-action", "lds-kernel-id"),
)

# Where the implicit arguments have the sizes of a launch, and their types.
_HIDDEN = {"num_workgroups": (0, "i32", 4), "workgroup_size": (12, "i16", 2)}

_UNBOUND = ((1 << 31) - 1,) * 3


class HipKernel(DeviceKernel):
    """Emits one kernel. ``original`` is the kernel, ``ready`` what `magpie.passes.prepare` makes of it."""

    stack = STACK
    scopes: ClassVar = {
        "workgroup": 'syncscope("workgroup") ',
        "subgroup": 'syncscope("wavefront") ',
        "device": 'syncscope("agent") ',
    }
    static_shared = LDS
    most: ClassVar = {
        "thread_id": (1024, 1024, 1024),
        "workgroup_size": (1025, 1025, 1025),
        "workgroup_id": _UNBOUND,
        "num_workgroups": _UNBOUND,
    }
    by_value, parameter_space = "byref", " addrspace(4)"

    def __init__(
        self,
        original: Kernel,
        ready: Kernel,
        layout: KernelLayout,
        arch: Arch,
        wave: int,
        options: Options,
        module: Module,
        suffix: str = "",
    ) -> None:
        self.lanes = Wave(wave, arch.generation)
        super().__init__(original, ready, layout, arch.name, options, module, suffix)
        self.info["wave"] = wave

    def operations(self, fast: str, native_half: bool) -> Ops:
        return HipOps(self.c, fast=fast)

    # --- the entry -----------------------------------------------------------------------------------------------
    def header(self) -> str:
        size = self.kernel.known_workgroup
        items = None if size is None else size[0] * size[1] * size[2]
        attributes = {
            "amdgpu-flat-work-group-size": "1,1024" if items is None else f"{items},{items}",
            "uniform-work-group-size": "true",
            "denormal-fp-math": "ieee,ieee",
            "amdgpu-implicitarg-num-bytes": "256",
        }
        texts = [f'"{name}"="{value}"' for name, value in attributes.items()]
        texts += [f'"amdgpu-no-{name}"' for name in _WITHOUT]
        marks = ""
        module = self.c.module
        if size is not None:
            marks = " !reqd_work_group_size " + module.node(f"!{{i32 {size[0]}, i32 {size[1]}, i32 {size[2]}}}")
        if not module.functions:  # once a module
            version = module.node(f'!{{i32 1, !"amdhsa_code_object_version", i32 {100 * CODE_OBJECT}}}')
            module.metadata.append(f"!llvm.module.flags = !{{{version}}}")
        entry = f"define amdgpu_kernel void @{self.info['entry']}({self.parameters()})"
        return f"{entry} convergent nounwind {' '.join(texts)}{marks}"

    def special(self, op: str, dim: int) -> str:
        low, most = self.bounds(op, dim)
        module = self.c.module
        if op in _HIDDEN:
            first, type_, size = _HIDDEN[op]
            block = module.declare("llvm.amdgcn.implicitarg.ptr", "ptr addrspace(4)", "")
            block = self.in_entry(f"call ptr addrspace(4) {block}()")
            at = self.in_entry(f"getelementptr i8, ptr addrspace(4) {block}, i64 {first + size * dim}")
            bounds = self.metadata(f"!{{{type_} {low}, {type_} {most}}}")
            marks = f"!range {bounds}, !invariant.load {self.metadata('!{}')}"
            found = self.in_entry(f"load {type_}, ptr addrspace(4) {at}, align {size}, {marks}")
            return found if type_ == "i32" else self.in_entry(f"zext nneg {type_} {found} to i32")
        name = f"llvm.amdgcn.{'workitem' if op == 'thread_id' else 'workgroup'}.id.{'xyz'[dim]}"
        module.declare(name, "i32", "")
        return self.in_entry(f"call range(i32 {low}, {most}) i32 @{name}()")

    def entry_mask(self) -> str:
        return "-1" if self.full_subgroups() else self.ballot("-1", "true")

    # --- memory --------------------------------------------------------------------------------------------------
    def workgroup_barrier(self) -> None:
        name = self.c.module.declare("llvm.amdgcn.s.barrier", "void", "")
        self.c.do('fence syncscope("workgroup") release')
        self.c.do(f"call void {name}()")
        self.c.do('fence syncscope("workgroup") acquire')

    def atomic_suffix(self, node: Node, t: DType) -> str:
        """Float additions in one instruction: memory that a launch may use is the device's own, and denormals of float
        atomics are unspecified (RULES 22)."""
        if not t.is_float or node.attrs["kind"] == "exchange":
            return ""
        names = ("amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory", "amdgpu.ignore.denormal.mode")
        return "".join(f", !{name} {self.metadata('!{}')}" for name in names)

    def metadata(self, text: str) -> str:
        """A node of metadata, made once."""
        found = self.cached.get(text)
        if found is None:
            found = self.cached[text] = self.c.module.node(text)
        return found
