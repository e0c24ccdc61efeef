"""From a kernel and what it is specialised on to code that is ready to run.

    arguments -> lower (frontend) -> facts -> printed IR -> disk cache, or validate + layout + emit -> load

Each step is done once per key, under a lock of that key, so that many threads may ask at once and one compiles. The
cache key is a hash of everything that the artifact depends on: the printed IR with its facts, the target and its
options, the package's version, and what the backend says of the machine.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact, Options
from magpie.backends.registry import backend as find_backend
from magpie.diagnostics.diagnostic import CompileError, CompileWarning, Diagnostic
from magpie.errors import GpuError, GpuErrorKind
from magpie.frontend.signature import Arg, ConstArg
from magpie.ir.nodes import Facts, Kernel, walk
from magpie.runtime import cache
from magpie.runtime.arguments import constant_key
from magpie.runtime.driver import Dims, Loaded

if TYPE_CHECKING:
    from magpie.runtime.device import Device

__all__ = ["Specialisation", "Specialiser", "Variant", "compile_artifact", "facts_for"]


@dataclass(frozen=True, slots=True)
class Variant:
    """Which facts a specialisation assumes (RULES 27): all that a launch checks, or none.

    The fast variant needs every array contiguous, every span and the number of work-items below 2**31, and no written
    array overlapping another. `aligned` is a fact of its own, and holds when all arrays are mp arrays that begin at a
    multiple of the device's alignment: NumPy's do not, and they must still be fast.
    """

    fast: bool
    aligned: bool

    @property
    def name(self) -> str:
        """fast, aligned or general."""
        return "general" if not self.fast else "aligned" if self.aligned else "fast"


GENERAL = Variant(False, False)


@dataclass(slots=True)
class Specialisation:
    """Compiled code for one signature, variant, device and set of options."""

    args: tuple[Arg, ...]
    variant: Variant
    device: Device
    options: Options
    artifact: Artifact
    loaded: Loaded
    changed: Callable[[], bool] | None
    from_cache: bool


@dataclass(slots=True)
class Lowering:
    """A kernel's IR for one signature. `changed`: is a captured value another now? None where none was captured."""

    kernel: Kernel
    diagnostics: Sequence[Diagnostic]
    changed: Callable[[], bool] | None
    number: int
    shown: bool = False


@dataclass(slots=True)
class _Locks:
    """One lock per key; a key's lock stays, since keys are few."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    locks: dict[Any, threading.RLock] = field(default_factory=dict)

    def __call__(self, key: Any) -> threading.RLock:
        with self.guard:
            found = self.locks.get(key)
            if found is None:
                found = self.locks[key] = threading.RLock()
            return found


_numbers = itertools.count()


class Specialiser:
    """Everything that was compiled of one kernel function."""

    def __init__(self, fn: FunctionType, workgroup: Dims | None, fastmath: bool, requires: frozenset[str]) -> None:
        self.fn = fn
        self.workgroup = workgroup
        self.fastmath = fastmath
        self.requires = requires
        self._lowered: dict[Any, Lowering] = {}
        self._compiled: dict[Any, Specialisation] = {}
        self._locks = _Locks()

    @property
    def specialisations(self) -> list[Specialisation]:
        """What was compiled so far, in order."""
        return list(self._compiled.values())

    def lower(self, args: tuple[Arg, ...], *, warn: bool = True) -> Lowering:
        """The kernel's IR for these arguments, without facts, made anew when a captured value has changed.

        Raises CompileError. Warnings are shown once. The kernel in the result must not be changed.
        """
        key = args_key(args)
        found = self._current(key)
        if found is None:
            with self._locks(("lower", key)):
                found = self._current(key)
                if found is None:
                    found = self._lowered[key] = self._lower(args)
        if warn and not found.shown:
            found.shown = True
            for diagnostic in found.diagnostics:
                show_warning(diagnostic)
        return found

    def _current(self, key: Any) -> Lowering | None:
        found = self._lowered.get(key)
        return None if found is None or (found.changed is not None and found.changed()) else found

    def _lower(self, args: tuple[Arg, ...]) -> Lowering:
        from magpie.frontend.python import lower

        made = lower(self.fn, args, workgroup=self.workgroup, fastmath=self.fastmath)
        kernel = made.kernel
        if self.requires:
            kernel = replace(kernel, requires=kernel.requires | self.requires)
        captured = made.dependencies.captured()
        return Lowering(kernel, made.warnings, captured.changed if len(captured) else None, next(_numbers))

    def get(self, args: tuple[Arg, ...], variant: Variant, device: Device, options: Options) -> Specialisation:
        """The specialisation, compiled when it is first needed. Raises CompileError or GpuError."""
        lowering = self.lower(args)
        key = (args_key(args), lowering.number, variant, device.backend, device.index, options)
        found = self._compiled.get(key)
        if found is None:
            with self._locks(key):
                found = self._compiled.get(key)
                if found is None:
                    found = self._compile(args, lowering, variant, device, options)
                    self._compiled[key] = found
        return found

    def _compile(
        self, args: tuple[Arg, ...], lowering: Lowering, variant: Variant, device: Device, options: Options
    ) -> Specialisation:
        kernel = replace(lowering.kernel, facts=facts_for(lowering.kernel, variant))
        store = cache.current()
        backend = find_backend(device.backend)
        key = ""
        if store is not None:
            key = cache_key(kernel, device.backend, options, backend.cache_key(options))
            artifact = None if knobs.dump() else store.load(key)
            if artifact is not None and artifact.backend == device.backend:
                try:
                    loaded = device.driver.load(device.index, artifact, checked=options.checked)
                    return Specialisation(args, variant, device, options, artifact, loaded, lowering.changed, True)
                except GpuError as error:
                    if error.kind is not GpuErrorKind.InvalidKernel:
                        raise
                    store.discard(key)  # whole, and yet not what this version loads: compile it again
        artifact = compile_artifact(kernel, device.backend, options)
        loaded = device.driver.load(device.index, artifact, checked=options.checked)
        if store is not None:
            store.store(key, artifact)
        return Specialisation(args, variant, device, options, artifact, loaded, lowering.changed, False)


def args_key(args: tuple[Arg, ...]) -> Any:
    """A key that tells constants of different types apart, which compare equal in Python (1, 1.0, True)."""
    return tuple(constant_key(a.value) if isinstance(a, ConstArg) else a for a in args)


def facts_for(kernel: Kernel, variant: Variant) -> Facts:
    """The facts that a variant promises for this kernel's buffers."""
    if not variant.fast:
        return Facts()
    names = frozenset(b.name for b in kernel.buffers)
    return Facts(contiguous=names, aligned=names if variant.aligned else frozenset(), noalias=True, small=True)


def cache_key(kernel: Kernel, backend_id: str, options: Options, machine: str) -> str:
    """The hash of all that an artifact depends on, as hexadecimal text."""
    from magpie.ir.printer import print_kernel

    # Places stand in an artifact only where something can be reported from it; without them an entry stays good when
    # the file is edited elsewhere, or moved.
    places = options.checked or any(node.op in _REPORTING for body in kernel.bodies() for node in walk(body))
    text = print_kernel(kernel, locations=places)
    if places and kernel.loc is not None:
        text += kernel.loc.file
    return cache.plain_key(backend_id, repr(options), machine, _facts_text(kernel.facts), text)


_REPORTING = frozenset({"assert", "print", "trap"})


def _facts_text(facts: Facts) -> str:
    return f"{sorted(facts.contiguous)} {sorted(facts.aligned)} {facts.noalias} {facts.small}"


def show_warning(diagnostic: Diagnostic) -> None:
    """Warn at the kernel's own line. Without a registry no earlier warning from there hides this one."""
    loc = diagnostic.loc
    file, line = ("<kernel>", 0) if loc is None else (loc.file, loc.line)
    warnings.warn_explicit(CompileWarning(diagnostic), None, file, line)


def compile_artifact(kernel: Kernel, backend_id: str, options: Options) -> Artifact:
    """Compile without any cache. Raises CompileError; warnings go through `warnings.warn`."""
    backend = find_backend(backend_id)
    found = backend.validate(kernel)
    for diagnostic in found:
        if not diagnostic.is_error:
            show_warning(diagnostic)
    errors = [d for d in found if d.is_error]
    if errors:
        raise CompileError(errors)
    stages = knobs.dump()
    if stages:
        from magpie.runtime.dump import dump_stages

        dump_stages(kernel, backend, options, stages)
    return backend.emit(kernel, backend.layout(kernel), options)
