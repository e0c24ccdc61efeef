"""The interpreter as a device: for tests, for the sanitizer, and where nothing else can run a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from magpie.backends.interp.backend import SUBGROUP
from magpie.backends.registry import backend
from magpie.dtypes import DType, StructType, bf16
from magpie.ir.layout import BufferField, KernelLayout
from magpie.ir.nodes import Buffer, Param
from magpie.runtime import hostmem
from magpie.runtime.driver import Call, DeviceInfo, LaunchShape
from magpie.runtime.drivers.host import HostDriver, host_view

if TYPE_CHECKING:
    from magpie.backends.base import Artifact
    from magpie.backends.interp.engine import Program

__all__ = ["InterpDriver"]


class InterpDriver(HostDriver):
    """One device; it runs everything, slowly."""

    id = "interp"

    def probe(self) -> str | None:
        return None

    def devices(self) -> Sequence[DeviceInfo]:
        return (
            DeviceInfo(
                name="reference interpreter",
                index=0,
                manifest=backend("interp").manifest,
                subgroup_size=SUBGROUP,
                memory_total=hostmem.total_bytes(),
                backends=("interp",),
            ),
        )

    def load(self, device: int, artifact: Artifact, **options: Any) -> _Loaded:
        program = artifact.payload
        if program is None:
            raise self.unsupported("an artifact of the interpreter only runs in the process that made it")
        return _Loaded(program, artifact, bool(options.get("checked")))


class _Loaded:
    def __init__(self, program: Program, artifact: Artifact, checked: bool) -> None:
        self.program = program
        self.layout = artifact.layout
        self.subgroup_size: int = artifact.info["subgroup_size"]
        self.checked = checked
        self.reports = False

    def bind(self, shape: LaunchShape) -> Call:
        from magpie.runtime.sanitize import run_program

        program, layout, checked, size = self.program, self.layout, self.checked, self.subgroup_size

        def call(*words: Any) -> None:
            run_program(program, shape, host_arguments(program.params, layout, words), checked, size)

        return call


def host_arguments(params: Sequence[Param], layout: KernelLayout, words: tuple[Any, ...]) -> list[Any]:
    """NumPy arrays and scalars from the words of a launch, in parameter order."""
    import numpy as np

    types = {p.name: p.type for p in params}
    written = {p.name for p in params if isinstance(p, Buffer) and p.writes}
    out: list[Any] = []
    at = 0
    for field in layout.params:
        type_ = types[field.name]
        if isinstance(field, BufferField):
            r = field.rank
            shape, strides = words[at + 1 : at + 1 + r], words[at + 1 + r : at + 1 + 2 * r]
            out.append(host_view(words[at], shape, strides, type_.numpy, writable=field.name in written))
            at += 1 + 2 * r
            continue
        value = words[at]
        at += 1
        if isinstance(type_, StructType):
            value = np.frombuffer(value, type_.numpy)[0]
        elif isinstance(type_, DType) and type_ is bf16:
            value = float(np.array([value << 16], np.uint32).view(np.float32)[0])
        out.append(value)
    return out
