"""A kernel as an LLVM module for NVPTX: what is CUDA's in it."""

from __future__ import annotations

from typing import ClassVar

from magpie.backends.base import Options
from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Module
from magpie.backends.llvm.simt_subgroups import bool_kind
from magpie.backends.ptx.arch import STATIC_SHARED, Arch
from magpie.backends.ptx.copies import CopyKernel
from magpie.backends.ptx.lanes import WARP, redux
from magpie.backends.ptx.math import PtxOps
from magpie.dtypes import DType
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Kernel

__all__ = ["PtxKernel"]

# What PTX before 8.1 takes as parameters, in bytes.
_SMALL_PARAMETERS = 4096

_SREG = {"thread_id": "tid", "workgroup_id": "ctaid", "workgroup_size": "ntid", "num_workgroups": "nctaid"}


class PtxKernel(CopyKernel):
    """Emits one entry: see `DeviceKernel`."""

    lanes = WARP
    scopes: ClassVar = {
        "workgroup": 'syncscope("block") ',
        "subgroup": 'syncscope("block") ',
        "device": 'syncscope("device") ',
    }
    static_shared = STATIC_SHARED
    externals: ClassVar = frozenset({"malloc", "free"})
    # A grid has up to 2**31 - 1 blocks along x and 65,535 along y and z.
    most: ClassVar = {
        "thread_id": (1024, 1024, 64),
        "workgroup_size": (1025, 1025, 65),
        "workgroup_id": ((1 << 31) - 1, 65535, 65535),
        "num_workgroups": (1 << 31, 65536, 65536),
    }

    def __init__(
        self,
        original: Kernel,
        ready: Kernel,
        layout: KernelLayout,
        arch: Arch,
        options: Options,
        module: Module,
        suffix: str = "",
    ) -> None:
        self.arch = arch
        self.ptx = arch.ptx
        super().__init__(original, ready, layout, arch.name, options, module, suffix)

    def operations(self, fast: str, native_half: bool) -> Ops:
        return PtxOps(self.c, fast=fast, number=self.arch.number)

    # --- the entry -----------------------------------------------------------------------------------------------
    def header(self) -> str:
        parameters = self.parameters()
        if self.layout.size > _SMALL_PARAMETERS - 256:
            self.ptx = max(self.ptx, 81)
        size = self.kernel.known_workgroup
        # Without a size ptxas may give a thread more registers than a block of 1,024 has.
        limit = f'"nvvm.maxntid"="{1024}"' if size is None else f'"nvvm.reqntid"="{size[0]},{size[1]},{size[2]}"'
        return f"define ptx_kernel void @{self.info['entry']}({parameters}) nounwind {limit}"

    def special(self, op: str, dim: int) -> str:
        name = f"llvm.nvvm.read.ptx.sreg.{_SREG[op]}.{'xyz'[dim]}"
        self.c.module.declare(name, "i32", "")
        low, most = self.bounds(op, dim)
        return self.in_entry(f"call range(i32 {low}, {most}) i32 @{name}()")

    def entry_mask(self) -> str:
        if self.full_subgroups():
            return "-1"
        c = self.c
        x, y, z = (self.coordinate("workgroup_size", d) for d in range(3))
        items = c.op(f"mul i64 {c.op(f'mul i64 {x}, {y}')}, {z}")
        first = c.op(f"and i64 {self.linear_local_id()}, -32")
        left = c.op(f"sub i64 {items}, {first}")
        count = c.op(f"trunc i64 {left} to i32")
        some = c.op(f"icmp ult i32 {count}, 32")
        shift = self.ops.select(some, "i32", count, "0")
        low = c.op(f"sub i32 {c.op(f'shl i32 1, {shift}')}, 1")
        return self.ops.select(some, "i32", low, "-1")

    # --- lanes ---------------------------------------------------------------------------------------------------
    def workgroup_barrier(self) -> None:
        name = self.c.module.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", "i32")
        self.c.do(f"call void {name}(i32 0)")

    def reduce(self, kind: str, t: DType, value: str) -> str:
        if self.arch.number >= 80:
            found = redux(self.c, self.mask, bool_kind(kind) if t.is_bool else kind, t, value)
            if found:
                return found
        return super().reduce(kind, t, value)
