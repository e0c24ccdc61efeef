"""The spv backend: SPIR-V for Vulkan 1.3, made in this process without LLVM and without a device."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact, Backend, Manifest, Options
from magpie.capabilities import limits, supported
from magpie.errors import LaunchValueError
from magpie.ir.layout import KernelLayout, Rule, compute_layout
from magpie.records import replaced

if TYPE_CHECKING:  # a kernel that comes from the disk cache needs none of these
    from magpie.backends.spirv.profile import Profile
    from magpie.diagnostics import Diagnostic, Loc
    from magpie.ir.nodes import Kernel

__all__ = ["RULE", "SpirvBackend"]

#: Arguments at multiples of their own size. The block that a kernel reads holds what it uses of them (`info["block"]`).
RULE = Rule("spv", round_to=16)


class SpirvBackend(Backend):
    """One work-item an invocation. An artifact holds a module for all devices whose profile has what it needs."""

    id = "spv"
    extension = ".spv"
    arch_prefix = "vulkan"
    manifest = Manifest("spv", supported("spv"), **limits("spv"), alignment=16, static_workgroup=True)

    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        from magpie.backends.spirv.validate import padded_structs
        from magpie.passes import prepare
        from magpie.passes.check import check

        return check(prepare(kernel), self.manifest) + padded_structs(kernel)

    def check_arch(self, kernel: Kernel, arch: str) -> list[Diagnostic]:
        """What devices of a profile lack (MPG_CORE_1200), and tables of constants that no driver takes."""
        from magpie.backends.spirv.needs import check_profile
        from magpie.backends.spirv.validate import large_tables

        lacks = check_profile(kernel, self._profile(arch, kernel.loc), self.manifest) if arch else []
        return lacks + large_tables(kernel)

    def shared_bytes(self, arch: str) -> int:
        return self._profile(arch, None).shared_bytes

    def layout(self, kernel: Kernel) -> KernelLayout:
        return compute_layout(kernel, RULE)

    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        profile = self._checked(kernel, options)
        made: Artifact = _pipeline().compile_kernel(kernel, layout, options)
        _check_shared(kernel, made.info["static_shared"], profile)
        if knobs.spirv_val():
            from magpie.backends.spirv.validate import check_module

            check_module(kernel, made.blob)
        return made

    @property
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        return {name: self._stage(name) for name in ("kir", "prepared", "coarse", "legal", "spv")}

    def _stage(self, name: str) -> Callable[[Kernel, Options], str]:
        def show(kernel: Kernel, options: Options) -> str:
            if name == "spv":
                self._checked(kernel, options)
            text: str = _pipeline().show(kernel, self.layout(kernel), options, name)
            return text

        return show

    def _checked(self, kernel: Kernel, options: Options) -> Profile:
        """The profile to make code for. Raises CompileError for one that there is not, or that has too little.

        (Not in `validate`, which is asked about kernels that are for other targets alone.)
        """
        from magpie.backends.spirv.needs import check_profile
        from magpie.backends.spirv.profile import SUBGROUP_SIZES
        from magpie.backends.spirv.validate import large_tables
        from magpie.diagnostics.diagnostic import CompileError

        found = self._profile(options.arch, kernel.loc)
        size = options.subgroup_size
        if size and size not in SUBGROUP_SIZES:
            sizes = ", ".join(map(str, SUBGROUP_SIZES))
            raise LaunchValueError(
                f"subgroup_size={size!r}, and devices of Vulkan have {sizes}",
                backend="spv",
                diagnostic="MPG_LAUNCH_1021",
            )
        if size:
            found = replaced(found, subgroup_size=size)
        refused = check_profile(kernel, found, self.manifest) + large_tables(kernel)
        if refused:
            raise CompileError(refused)
        return found

    def _profile(self, arch: str, loc: Loc | None) -> Profile:
        """The profile of this text. Raises CompileError for one that there is not."""
        from magpie.backends.spirv.profile import profile

        try:
            return profile(arch)
        except ValueError as error:
            from magpie.diagnostics.diagnostic import CompileError, Diagnostic

            help = "leave arch= out for a desktop GPU of today; `magpie devices` shows the profile of each device"
            raise CompileError([Diagnostic("MPG_SPV_2004", str(error), loc, help=help)]) from None


def _pipeline() -> Any:
    """What makes the code, loaded when code is made."""
    return importlib.import_module("magpie.backends.spirv.pipeline")


def _check_shared(kernel: Kernel, size: int, profile: Profile) -> None:
    """MPG_SPV_2001 where shared arrays of fixed size need more than a workgroup has on devices of this profile."""
    from magpie.diagnostics.diagnostic import CompileError, Diagnostic

    if size > profile.shared_bytes:
        where = next((s.loc for s in kernel.shared if s.loc is not None), kernel.loc)
        text = (
            f"the shared arrays of kernel {kernel.name!r} need {size} bytes, and a workgroup has {profile.shared_bytes}"
        )
        more = replaced(profile, shared_kb=-(-size // 1024)).text
        help = f'use a smaller tile or a narrower type; arch="{more}" is for devices that have so much'
        raise CompileError([Diagnostic("MPG_SPV_2001", text, where, help=help)])
