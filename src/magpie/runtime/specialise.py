"""From a kernel and what it is specialised on to code that is ready to run.

    arguments -> source key -> disk cache
              -> lower (frontend) -> facts -> printed IR -> IR key -> disk cache, or validate + layout + emit -> load

Each step is done once per key, under a lock of that key, so that many threads may ask at once and one compiles. The
IR key is a hash of everything that the artifact depends on: the printed IR with its facts, the target and its options,
the package's version, and what the backend says of the machine. The source key (`fingerprint`) finds the same artifact
without lowering; an artifact that can report source positions, and a kernel with warnings, have none.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact, Options
from magpie.backends.registry import backend as find_backend
from magpie.errors import GpuError, GpuErrorKind
from magpie.frontend.signature import Arg, ConstArg
from magpie.records import record
from magpie.runtime import cache
from magpie.runtime.arguments import constant_key
from magpie.runtime.fingerprint import Fingerprint, args_text, fingerprint

if TYPE_CHECKING:
    from magpie.diagnostics.diagnostic import Diagnostic
    from magpie.ir.nodes import Kernel
    from magpie.runtime.device import Device
    from magpie.runtime.driver import Dims, Loaded

__all__ = ["GENERAL", "Lowering", "Specialisation", "Specialiser", "Variant"]


@record
class Variant:
    """Which facts a specialisation assumes (RULES 27): all that a launch checks, or none.

    `workgroup` is the size that the code is for, where it is no part of the declaration; None: any. The general variant
    never has one. It exists for arguments that the facts do not hold for, and those are rarely worth eight compiles.

    The fast variant needs every array contiguous, every span and the number of work-items below 2**31, and no written
    array overlapping another. `aligned` is a fact of its own, and holds where the target gains from it and all arrays
    are mp arrays that begin at a multiple of the device's alignment: NumPy's do not, and they must still be fast.
    """

    fast: bool
    aligned: bool
    workgroup: Dims | None = None

    @property
    def name(self) -> str:
        """fast, aligned or general."""
        return "general" if not self.fast else "aligned" if self.aligned else "fast"

    @property
    def key(self) -> str:
        """All of it as text, for keys on disk."""
        return f"{self.name} {self.workgroup}"


GENERAL = Variant(False, False)


@record
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


class Lowering:
    """A kernel's IR for one signature. `changed`: is a captured value another now? None where none was captured."""

    __slots__ = ("changed", "diagnostics", "kernel", "shown", "validated")

    def __init__(self, kernel: Kernel, diagnostics: Sequence[Diagnostic], changed: Callable[[], bool] | None) -> None:
        self.kernel = kernel
        self.diagnostics = diagnostics
        self.changed = changed
        self.shown = False
        self.validated: set[str] = set()  # backends that accepted it


class _State:
    """What the kernel's captures are now: an identity for keys, how to see a change, and the source key's text."""

    __slots__ = ("changed", "identity", "source")

    def __init__(self, changed: Callable[[], bool] | None, source: str | None) -> None:
        self.changed = changed
        self.source = source
        # By source where there is one: a captured value that comes back finds its code again.
        self.identity: Any = next(_numbers) if source is None else source


_numbers = itertools.count()


class _Locks:
    """One lock per key; a key's lock stays, since keys are few."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Any, threading.RLock] = {}

    def __call__(self, key: Any) -> threading.RLock:
        with self._guard:
            found = self._locks.get(key)
            if found is None:
                found = self._locks[key] = threading.RLock()
            return found


class Specialiser:
    """Everything that was compiled of one kernel function.

    Kernels of another frontend have a subclass with their own `_lower` and `_fingerprint`, and no function.
    """

    def __init__(
        self, fn: FunctionType | None, workgroup: Dims | None, fastmath: bool, requires: frozenset[str]
    ) -> None:
        self.fn = fn
        self.workgroup = workgroup
        self.fastmath = fastmath
        self.requires = requires
        self._lowered: dict[Any, Lowering] = {}
        self._states: dict[Any, _State] = {}
        self._compiled: dict[Any, Specialisation] = {}
        self._sizes: dict[Any, set[Dims]] = {}
        self._locks = _Locks()

    @property
    def specialisations(self) -> list[Specialisation]:
        """What was compiled so far, in order."""
        return list(self._compiled.values())

    # --- Kernel IR ---------------------------------------------------------------------------------------------------
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
            from magpie.runtime.compiling import show_warning

            for diagnostic in found.diagnostics:
                show_warning(diagnostic)
        return found

    def _current(self, key: Any) -> Lowering | None:
        found = self._lowered.get(key)
        return None if found is None or (found.changed is not None and found.changed()) else found

    def _lower(self, args: tuple[Arg, ...]) -> Lowering:
        from magpie.frontend.python import lower

        assert self.fn is not None
        made = lower(self.fn, args, workgroup=self.workgroup, fastmath=self.fastmath, requires=self.requires)
        captured = made.dependencies.captured()
        return Lowering(made.kernel, made.warnings, captured.changed if len(captured) else None)

    # --- workgroup sizes ---------------------------------------------------------------------------------------------
    def static_workgroup(self, args: tuple[Arg, ...], block: Dims, device: Device, options: Options) -> Dims | None:
        """The workgroup size to compile for when `block` is launched: itself, or None for code that takes any size.

        The first sizes of a signature get code of their own, and keep it; all others share the code for any size.
        """
        if self.workgroup is not None or not device.static_workgroup:
            return None
        key = (args_key(args), device.backend, options)
        with self._locks(("sizes", key)):
            sizes = self._sizes.setdefault(key, set())
            if block not in sizes and len(sizes) < knobs.static_workgroups():
                sizes.add(block)
            return block if block in sizes else None

    # --- code --------------------------------------------------------------------------------------------------------
    def get(self, args: tuple[Arg, ...], variant: Variant, device: Device, options: Options) -> Specialisation:
        """The specialisation, compiled when it is first needed. Raises CompileError or GpuError."""
        arguments = args_key(args)
        state = self._state(arguments, args)
        key = (arguments, state.identity, variant, device.backend, device.index, options)
        found = self._compiled.get(key)
        if found is None:
            with self._locks(key):
                found = self._compiled.get(key)
                if found is None:
                    found = self._compile(args, state, variant, device, options)
                    self._compiled[key] = found
        return found

    def _state(self, key: Any, args: tuple[Arg, ...]) -> _State:
        found = self._states.get(key)
        if found is not None and (found.changed is None or not found.changed()):
            return found
        with self._locks(("state", key)):
            found = self._states.get(key)
            if found is None or (found.changed is not None and found.changed()):
                found = self._states[key] = self._make_state(args)
        return found

    def _make_state(self, args: tuple[Arg, ...]) -> _State:
        print_ = self._fingerprint()
        text = args_text(args)
        if print_ is None:
            return _State(self.lower(args).changed, None)
        changed = print_.dependencies.changed if len(print_.dependencies) else None
        if text is None:
            return _State(changed, None)
        declared = f"{self.workgroup} {self.fastmath} {sorted(self.requires)}"
        return _State(changed, "\0".join((declared, text, print_.text)))

    def _fingerprint(self) -> Fingerprint | None:
        assert self.fn is not None
        return fingerprint(self.fn)

    def _compile(
        self, args: tuple[Arg, ...], state: _State, variant: Variant, device: Device, options: Options
    ) -> Specialisation:
        store = None if knobs.dump() else cache.current()
        source_key = ""
        backend = find_backend(device.backend)
        if store is None:
            return self._emit(args, state, variant, device, options)
        machine = backend.cache_key(options)
        if state.source is not None:
            source_key = cache.plain_key("source", state.source, variant.key, device.backend, repr(options), machine)
            found = self._from_disk(store, source_key, args, state, variant, device, options)
            if found is not None:
                return found
        backend.warm_up()
        from magpie.runtime.compiling import ir_key, reports_places, with_facts

        lowering = self.lower(args)
        kernel = with_facts(lowering.kernel, variant)
        key = ir_key(kernel, device.backend, options, machine)
        found = self._from_disk(store, key, args, state, variant, device, options)
        if found is None:
            found = self._emit(args, state, variant, device, options)
            store.store(key, found.artifact)
        if source_key and not lowering.diagnostics and not reports_places(kernel, options):
            store.store(source_key, found.artifact)
        return found

    def _from_disk(
        self,
        store: cache.Cache,
        key: str,
        args: tuple[Arg, ...],
        state: _State,
        variant: Variant,
        device: Device,
        options: Options,
    ) -> Specialisation | None:
        artifact = store.load(key)
        if artifact is None or artifact.backend != device.backend:
            return None
        try:
            loaded = device.driver.load(device.index, artifact, checked=options.checked)
        except GpuError as error:
            if error.kind is not GpuErrorKind.InvalidKernel:
                raise
            store.discard(key)  # whole, and yet not what this version loads: compile it again
            return None
        return Specialisation(args, variant, device, options, artifact, loaded, state.changed, True)

    def _emit(
        self, args: tuple[Arg, ...], state: _State, variant: Variant, device: Device, options: Options
    ) -> Specialisation:
        from magpie.runtime.compiling import compile_artifact

        artifact = compile_artifact(self.lower(args), variant, device.backend, options)
        loaded = device.driver.load(device.index, artifact, checked=options.checked)
        return Specialisation(args, variant, device, options, artifact, loaded, state.changed, False)


def args_key(args: tuple[Arg, ...]) -> Any:
    """A key that tells constants of different types apart, which compare equal in Python (1, 1.0, True)."""
    return tuple(constant_key(a.value) if isinstance(a, ConstArg) else a for a in args)
