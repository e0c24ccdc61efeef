"""`mp.load_module`: the kernels of a `.mp` file, launched as those marked `@mp.kernel`.

A kernel of a file has one signature, so it is lowered once, when its module is loaded, and with it all errors of the
module are known. Everything behind Kernel IR is what Python kernels have: variants, caches, backends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magpie.backends.base import Manifest
from magpie.backends.registry import backend as find_backend
from magpie.capabilities import CAPABILITIES, cell, limits, supported
from magpie.diagnostics import CompileError, Diagnostic
from magpie.errors import GpuError, clean
from magpie.frontend.python.annotations import Parameter
from magpie.frontend.signature import Arg
from magpie.ir.nodes import Buffer, Scalar
from magpie.ir.nodes import Kernel as KernelIR
from magpie.mpir import lower_kernel, print_module
from magpie.mpir.known import reached
from magpie.mpir.nodes import Function
from magpie.mpir.nodes import Module as Mpir
from magpie.mpir.part import part_of
from magpie.mpir.verify_target import check_shared, reminder, target_rules
from magpie.passes import prepare
from magpie.passes.check import check
from magpie.runtime.compiling import show_warning
from magpie.runtime.driver import Dims
from magpie.runtime.fingerprint import Fingerprint
from magpie.runtime.grid import parse_block
from magpie.runtime.kernel import Kernel
from magpie.runtime.specialise import Lowering, Specialiser

if TYPE_CHECKING:
    from magpie.frontend.mp.source import Source

__all__ = ["Module", "TextKernel", "check_module", "checked_module", "load_module"]

_NO_LIMIT = 1 << 31
_SIZES = 16  # workgroup sizes other than the declared one that are kept, each with code of its own


class Module:
    """A loaded `.mp` file. Its kernels are attributes, `module.saxpy[grid](...)`, and items, `module["saxpy"]`."""

    def __init__(self, name: str, file: str, kernels: dict[str, TextKernel]) -> None:
        self.__name__ = name
        self.__file__ = file
        self._kernels = kernels

    def __getattr__(self, name: str) -> TextKernel:
        found = self.__dict__.get("_kernels", {}).get(name)
        if found is None:
            raise AttributeError(f"module {self.__dict__.get('__name__', '')!r} has no kernel {name!r}")
        return found  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> TextKernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._kernels})

    def __repr__(self) -> str:
        return f"<module {self.__name__} from {self.__file__!r}: {', '.join(self._kernels) or 'no kernels'}>"


def load_module(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Module:
    """The kernels of a `.mp` file.

    A launch may leave the workgroup size out, `kernel[grid](...)`: it is the declared one then, (64, 1, 1) where none
    is declared. The file is read once; load it again after an edit. Raises CompileError with up to 20 errors, OSError
    for a file that cannot be read; a wrong digest is a CompileWarning. A file of more than ``max_bytes``
    (1,000,000) is MPP0001.
    """
    from magpie.frontend.mp.kernels import check_source
    from magpie.frontend.mp.source import MAX_BYTES, read

    try:
        found = check_source(read(Path(path), max_bytes=max_bytes or MAX_BYTES))
        module = found.checked
    except CompileError as error:
        raise clean(error) from None
    for diagnostic in found.diagnostics:
        show_warning(diagnostic)
    kernels = {}
    for function in module.functions:
        if function.gpu_meta is not None:
            kernels[function.name] = TextKernel(module, function)
    return Module(module.name, str(path), kernels)


def check_module(source: Source, archs: Mapping[str, str] | None = None) -> list[Diagnostic]:
    """Everything that is to be said of a source: see `checked_module`."""
    return checked_module(source, archs)[1]


def checked_module(source: Source, archs: Mapping[str, str] | None = None) -> tuple[Mpir | None, list[Diagnostic]]:
    """The module of a source, None where it cannot be made, and everything that is to be said of it: its errors, and
    what the declared target of each kernel refuses.

    ``archs`` has architectures by target, whose limits hold then; an unknown one is a diagnostic. Where the backend of
    a target is not here, the table of capabilities stands in for it.
    """
    from magpie.frontend.mp.collector import no_collection

    with no_collection():
        return _checked(source, archs or {})


def _checked(source: Source, archs: Mapping[str, str]) -> tuple[Mpir | None, list[Diagnostic]]:
    from magpie.frontend.mp.kernels import check_source, in_order

    found = check_source(source, target_rules)
    diagnostics = list(found.diagnostics)
    if found.module is None:
        return None, diagnostics
    wrong = _functions(diagnostics)
    for function in found.module.functions:
        diagnostics += reminder(function)
        ir, meta = found.kernels.get(function.name), function.gpu_meta
        if ir is not None and meta is not None:
            refused = bool(wrong) and any(f.name in wrong for f in reached(found.module, function))
            more = _of_target(ir, meta.target, archs.get(meta.target, ""), refused)
            diagnostics += more
            wrong |= _functions(more)
    return found.module, in_order(diagnostics)


def _functions(found: Iterable[Diagnostic]) -> set[str]:
    """The functions that have errors."""
    return {d.loc.function for d in found if d.is_error and d.loc is not None}


def _of_target(ir: KernelIR, target: str, arch: str, refused: bool) -> list[Diagnostic]:
    """What a target says of a kernel's code; of one that was ``refused`` its shared memory is looked at alone."""
    try:
        backend = find_backend(target)
    except (GpuError, ImportError):
        return check_shared(ir, target) + ([] if refused else check(prepare(ir), _absent(target)))
    try:
        found = check_shared(ir, target, backend.shared_bytes(arch))
        if refused:
            return found
        return found + backend.validate(ir) + backend.check_arch(ir, arch)
    except CompileError as error:
        return list(error.diagnostics)


def _absent(target: str) -> Manifest:
    """The manifest of a target that has no backend here. 64-bit integers are computed as words where there are none."""
    have = supported(target) | {"int64"} | {n for n in CAPABILITIES if cell(n, target) == "later"}
    return Manifest(target, have, **{"max_workgroup_size": _NO_LIMIT, "max_shared_bytes": _NO_LIMIT, **limits(target)})


class TextKernel(Kernel):
    """A `gpu fn` of a `.mp` file. See `Kernel`; a launch may name another workgroup size than the declared one.

    `sid` is its number in a registry of kernels: the FNV-1a hash of `module.@name` (specification, section 10.1).
    """

    def __init__(self, module: Mpir, function: Function, workgroup: Dims | None = None) -> None:
        # for no target in particular: what is declared for one was checked, and Python launches on any
        ir = lower_kernel(module, function, target="interp", workgroup=workgroup)
        assert ir.workgroup is not None
        self.__name__ = function.name
        self.__qualname__ = f"{module.name}.{function.name}"
        self.__module__ = module.name
        self.__doc__ = None
        self.sid = module.sid(function)
        self._setup(ir.workgroup, False, ir.requires, None)
        self._made["parameters"] = tuple(map(_parameter, ir.params))
        self._made["specialiser"] = _TextSpecialiser(module, function, ir)
        if workgroup is None:
            self.sized = _Sizes(self, module, function)


class _Sizes:
    """The kernels of one `gpu fn` by workgroup size; ``declared`` is that of its own."""

    def __init__(self, declared: Kernel, module: Mpir, function: Function) -> None:
        self._declared = declared
        self._text = (module, function)
        self._lock = threading.Lock()
        self._kernels: dict[Dims, Kernel] = {}

    def __call__(self, block: Any) -> Kernel:
        size = parse_block(block, None, self._declared.__name__)
        if size == self._declared.workgroup:
            return self._declared
        with self._lock:
            found = self._kernels.get(size)
            if found is None:
                if len(self._kernels) >= _SIZES:
                    self._kernels.clear()
                found = self._kernels[size] = TextKernel(*self._text, size)
            return found


class _TextSpecialiser(Specialiser):
    """What was compiled of one kernel of a file: its IR is there, and captures nothing."""

    def __init__(self, module: Mpir, function: Function, ir: KernelIR) -> None:
        super().__init__(None, ir.workgroup, False, ir.requires)
        self._ir = ir
        self._text = f"mp {ir.name}\0{print_module(part_of(module, function), locations=False)}"

    def _lower(self, args: tuple[Arg, ...]) -> Lowering:
        return Lowering(self._ir, (), None)

    def _fingerprint(self) -> Fingerprint | None:
        from magpie.frontend.python.dependencies import Dependencies

        return Fingerprint(self._text, Dependencies())


def _parameter(param: Buffer | Scalar) -> Parameter:
    if isinstance(param, Buffer):
        return Parameter(param.name, "array", param.type, param.rank)
    return Parameter(param.name, "scalar", param.type)
