"""From a kernel and what it is specialised on to code that is ready to run.

    arguments -> lower (frontend) -> facts -> printed IR -> disk cache, or validate + layout + emit -> load

Each step is done once per key, under a lock of that key, so that many threads may ask at once and one compiles. The
cache key is a hash of everything that the artifact depends on: the printed IR with its facts, the target and its
options, the package's version, and what the backend says of the machine.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact, Options
from magpie.backends.registry import backend as find_backend
from magpie.diagnostics.diagnostic import CompileError, CompileWarning, Diagnostic
from magpie.errors import GpuError, GpuErrorKind
from magpie.frontend.signature import Arg, ConstArg
from magpie.ir.nodes import Facts, Kernel
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
    from_cache: bool


@dataclass(slots=True)
class _Lowered:
    kernel: Kernel
    diagnostics: Sequence[Diagnostic] = ()


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


class Specialiser:
    """Everything that was compiled of one kernel function."""

    def __init__(self, fn: FunctionType, workgroup: Dims | None, fastmath: bool, requires: frozenset[str]) -> None:
        self.fn = fn
        self.workgroup = workgroup
        self.fastmath = fastmath
        self.requires = requires
        self._lowered: dict[Any, _Lowered] = {}
        self._compiled: dict[Any, Specialisation] = {}
        self._locks = _Locks()

    @property
    def specialisations(self) -> list[Specialisation]:
        """What was compiled so far, in order."""
        return list(self._compiled.values())

    def lower(self, args: tuple[Arg, ...]) -> Kernel:
        """The kernel's IR for these arguments, without facts. Raises CompileError. The result must not be changed."""
        key = args_key(args)
        found = self._lowered.get(key)
        if found is None:
            with self._locks(("lower", key)):
                found = self._lowered.get(key)
                if found is None:
                    found = self._lowered[key] = self._lower(args)
        return found.kernel

    def _lower(self, args: tuple[Arg, ...]) -> _Lowered:
        from magpie.frontend.python import lower

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CompileWarning)
            kernel = lower(self.fn, args, workgroup=self.workgroup, fastmath=self.fastmath)
        for each in caught:  # once per specialisation, whatever filter the user's earlier warnings have hit
            warnings.warn(each.message, each.category, stacklevel=2)
        if self.requires:
            kernel = replace(kernel, requires=kernel.requires | self.requires)
        return _Lowered(kernel)

    def get(self, args: tuple[Arg, ...], variant: Variant, device: Device, options: Options) -> Specialisation:
        """The specialisation, compiled when it is first needed. Raises CompileError or GpuError."""
        key = (args_key(args), variant, device.backend, device.index, options)
        found = self._compiled.get(key)
        if found is None:
            with self._locks(key):
                found = self._compiled.get(key)
                if found is None:
                    found = self._compile(args, variant, device, options)
                    self._compiled[key] = found
        return found

    def _compile(self, args: tuple[Arg, ...], variant: Variant, device: Device, options: Options) -> Specialisation:
        kernel = self.lower(args)
        kernel = replace(kernel, facts=facts_for(kernel, variant))
        store = cache.current()
        backend = find_backend(device.backend)
        key = ""
        if store is not None:
            key = cache_key(kernel, device.backend, options, backend.cache_key(options))
            artifact = None if knobs.dump() else store.load(key)
            if artifact is not None and artifact.backend == device.backend:
                try:
                    loaded = device.driver.load(device.index, artifact, checked=options.checked)
                    return Specialisation(args, variant, device, options, artifact, loaded, True)
                except GpuError as error:
                    if error.kind is not GpuErrorKind.InvalidKernel:
                        raise
                    store.discard(key)  # whole, and yet not what this version loads: compile it again
        artifact = compile_artifact(kernel, device.backend, options)
        loaded = device.driver.load(device.index, artifact, checked=options.checked)
        if store is not None:
            store.store(key, artifact)
        return Specialisation(args, variant, device, options, artifact, loaded, False)


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

    return cache.plain_key(backend_id, repr(options), machine, _facts_text(kernel.facts), print_kernel(kernel))


def _facts_text(facts: Facts) -> str:
    return f"{sorted(facts.contiguous)} {sorted(facts.aligned)} {facts.noalias} {facts.small}"


def compile_artifact(kernel: Kernel, backend_id: str, options: Options) -> Artifact:
    """Compile without any cache. Raises CompileError; warnings go through `warnings.warn`."""
    backend = find_backend(backend_id)
    found = backend.validate(kernel)
    for diagnostic in found:
        if not diagnostic.is_error:
            warnings.warn(CompileWarning(diagnostic), stacklevel=2)
    errors = [d for d in found if d.is_error]
    if errors:
        raise CompileError(errors)
    stages = knobs.dump()
    if stages:
        from magpie.runtime.dump import dump_stages

        dump_stages(kernel, backend, options, stages)
    return backend.emit(kernel, backend.layout(kernel), options)
