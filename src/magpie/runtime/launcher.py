"""A kernel bound to a launch shape: what `kernel[grid, block]` gives, and what `kernel.launch` uses.

A launch that was seen before runs two small generated functions (`fastpath`). Every other one comes through `plan`:
check everything, choose the device, choose the variant, compile what is not compiled, and add a plan for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Options
from magpie.backends.registry import DISPLAY_NAMES
from magpie.dtypes import Type, by_name
from magpie.errors import GpuError, GpuErrorKind, LaunchTypeError, LaunchValueError, MagpieError, clean
from magpie.frontend.signature import ScalarArg
from magpie.ir.layout import BufferField, KernelLayout
from magpie.records import record, replaced
from magpie.runtime import fastpath, foreign
from magpie.runtime.arguments import Signature, bind, signature
from magpie.runtime.buffer import Buffer
from magpie.runtime.device import Device
from magpie.runtime.device import device as find_device
from magpie.runtime.driver import Call, Dims, LaunchShape
from magpie.runtime.extents import Extents, extents_function
from magpie.runtime.grid import check_capabilities, check_limit, check_subgroup_size, parse_block, parse_grid
from magpie.runtime.keys import SMALL
from magpie.runtime.recording import active as recording
from magpie.runtime.recording import current, refused
from magpie.runtime.specialise import GENERAL, Specialisation, Variant
from magpie.runtime.stream import Stream

if TYPE_CHECKING:
    from magpie.runtime.kernel import Kernel
    from magpie.runtime.native import Plan
    from magpie.runtime.native.target import Target

    _MakePlan = Callable[[Sequence[Any]], Plan | None]

__all__ = ["LaunchOptions", "Launcher"]

# Plans and shapes of a launcher are few; a program that makes them without end must not grow without end.
_PLANS = 64


@record
class LaunchOptions:
    """What a launch names besides grid and block. None: left to Magpie."""

    device: str | Device | None = None
    stream: Any = None
    shared_bytes: int | None = None
    gang: int | None = None
    checked: bool | None = None
    backend: str | None = None
    subgroup_size: int | None = None


class Launcher:
    """`kernel[grid, block]`: call it with the kernel's arguments."""

    __slots__ = ("_key", "_plans", "block", "grid", "kernel", "native_plans", "options")

    def __init__(self, kernel: Kernel, grid: Any, block: Any, options: LaunchOptions) -> None:
        self.kernel = kernel
        self.grid: Dims = parse_grid(grid)
        self.block: Dims = parse_block(block, kernel.workgroup, kernel.__name__)
        self.options = _checked_options(options)
        self._plans: dict[Any, Callable[..., None]] = {}
        #: Of the native path (`magpie.runtime.native`), which tries them in order before it calls `__call__`.
        self.native_plans: tuple[Plan, ...] = ()
        self._key = kernel._key_function()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch. On NumPy arrays and other host arrays the launch is complete on return."""
        if not kwargs and not recording:
            try:
                run = self._plans[self._key(*args)]
            except (KeyError, TypeError, AttributeError):
                pass  # new, or wrong: the long way finds out which
            else:
                try:
                    run(*args)
                except MagpieError as error:
                    raise clean(error) from None
                return
            known = foreign.seen(args, self.kernel._array_places()) if foreign.readers else None
            if known is not None:
                self(*known)
                return
        try:
            self._launch(args, kwargs)
        except MagpieError as error:
            raise clean(error) from None

    def __repr__(self) -> str:
        return f"<launch of kernel {self.kernel.__name__!r}, grid {self.grid}, workgroup {self.block}>"

    # --- the long way ------------------------------------------------------------------------------------------------
    def _launch(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        parameters = self.kernel.parameters
        values = bind(self.kernel.__name__, parameters, args, kwargs)
        found = signature(parameters, values)
        if recording:
            graph = current()
            if graph is not None:
                graph.record_launch(self, found)
                return
        if 0 in self.grid:
            return
        if knobs.sanitize():
            from magpie.runtime import sanitize

            sanitize.active(self, found.values)
            return
        try:
            key = self._key(*found.values)
            run = self._plans.get(key)
        except (KeyError, TypeError):
            key = run = None  # keyword-only parameters, values of rare types: never kept
        if run is None:
            run, native = self._made(found)
            if key is not None:
                self._keep(key, run if native is None else self._second(key, run, native))
        run(*found.values)

    def recorded_in(self, stream: Stream) -> Launcher:
        """This launcher as a step of a graph, launched in `stream`. Raises GpuError where it cannot be one."""
        if self.options.stream:
            raise refused(stream.device, "a launch that names a stream", "leave the stream out; graph.launch takes one")
        if knobs.sanitize():
            raise refused(stream.device, "a launch under the sanitizer", "unset MAGPIE_SANITIZE")
        if self.options.device is None and self.options.backend is None:
            options = replaced(self.options, stream=stream, device=stream.device)
        else:
            options = replaced(self.options, stream=stream)
        return Launcher(self.kernel, self.grid, self.block, options)

    def plan(self, found: Signature) -> Callable[..., None]:
        """The run function for arguments like these, as a step of a graph: without a native plan."""
        try:
            key = self._key(*found.values)
            run = self._plans.get(key)
        except (KeyError, TypeError):
            return self._made(found)[0]
        if run is None:
            run = self._made(found)[0]
            self._keep(key, run)
        return run

    def _keep(self, key: Any, run: Callable[..., None]) -> None:
        if len(self._plans) >= _PLANS:
            self._plans.clear()
        self._plans[key] = run

    def _second(self, key: Any, run: Callable[..., None], native: _MakePlan) -> Callable[..., None]:
        """The run function of the second launch with a key, which makes the native plan for those that follow.

        The first launch of a process is not to wait for it, and most launchers are used once, or often.
        """

        def second(*args: Any) -> None:
            from magpie.runtime.native import activate

            if self._plans.get(key) is second:
                self._plans[key] = run
                activate(self, native, args)
            run(*args)

        return second

    def _made(self, found: Signature) -> tuple[Callable[..., None], _MakePlan | None]:
        """The run function for arguments like these, and what makes their native plan, where they may have one."""
        device = self._device(found)
        stream = self.options.stream
        if isinstance(stream, Stream) and stream.device is not device:
            raise LaunchValueError(
                f"the stream belongs to {stream.device.id}, and the launch runs on {device.id}", backend=device.backend
            )
        check_limit(self.block, device.max_workgroup_size, device.backend, device.name)
        check_subgroup_size(self.options.subgroup_size or 0, device.subgroup_sizes, device.backend, device.name)
        if self.kernel.requires:
            check_capabilities(self.kernel.__name__, self.kernel.requires, device)
        keys = [k for k in found.keys if k is not None]
        items = 1
        for g, b in zip(self.grid, self.block, strict=True):
            items *= g * b
        fast = items < SMALL and all(k.contiguous and k.small for k in keys)
        aligned = fast and device.alignment > 1 and bool(keys) and all(k.aligned for k in keys)
        special = self._specialise(found, Variant(fast, aligned), device)
        self._check_access(found, special.artifact.layout)
        if special.loaded.reports and isinstance(stream, Stream) and stream.records:
            raise refused(
                device,
                f"kernel {self.kernel.__name__!r}, which prints, asserts or is checked,",
                "launch it outside: the host looks at what it has to say after every launch",
            )
        return self._run(found, special, device, fast), self._native(found, special, device, fast)

    def _native(self, found: Signature, special: Specialisation, device: Device, fast: bool) -> _MakePlan | None:
        layout, kernel = special.artifact.layout, self.kernel
        describe = getattr(special.loaded, "native", None)
        if describe is None or any(s.dynamic for s in layout.shared) or not knobs.native_launch():
            return None
        if not device.driver.host_memory and not all(type(v) is Buffer for v in _arrays(found)):
            return None
        types = _types(found, layout, kernel)

        def make(values: Sequence[Any]) -> Plan | None:
            from magpie.runtime.native.plan import environment, make_plan

            variables, shapes = environment(), _Shapes(self, special, device)
            target: Target | None = describe(shapes.launch_shape(shapes.extents(())))
            if variables is None or target is None:
                return None
            return make_plan(
                layout.kernel,
                kernel.parameters,
                layout,
                types,
                values,
                fast=fast,
                changed=special.changed,
                target=target,
                environment=variables,
            )

        return make

    def _run(self, found: Signature, special: Specialisation, device: Device, fast: bool) -> Callable[..., None]:
        layout = special.artifact.layout
        shapes = _Shapes(self, special, device)
        call = None if any(s.dynamic for s in layout.shared) else shapes.fixed()
        types = _types(found, layout, self.kernel)
        general: Callable[..., None] | None = None
        if fast:
            # Made when two arrays first overlap: most programs never compile it.
            later: list[Callable[..., None]] = []

            def general(*args: Any) -> None:
                if not later:
                    later.append(self._run(found, self._specialise(found, GENERAL, device), device, False))
                later[0](*args)

        if not device.driver.host_memory and not all(type(v) is Buffer for v in _arrays(found)):
            from magpie.runtime.staging import staged_function

            bind_call = shapes.bind if call is None else _always(call)
            staged = staged_function(
                self.kernel.__name__, self.kernel.parameters, layout, types, device, bind_call, general
            )
            changed = special.changed
            if changed is None:
                return staged
            return lambda *args: self._stale(*args) if changed() else staged(*args)
        return fastpath.run_function(
            self.kernel.__name__,
            self.kernel.parameters,
            layout,
            types,
            found.values,
            call=call,
            bind=shapes.bind,
            general=general,
            changed=special.changed,
            stale=self._stale,
        )

    def _stale(self, *args: Any) -> None:
        """A value that the kernel captured is another now: forget the plans, and launch as for the first time."""
        self._plans.clear()
        self.native_plans = ()
        self._launch(args, {})

    def _specialise(self, found: Signature, variant: Variant, device: Device) -> Specialisation:
        checked = self.kernel.checked if self.options.checked is None else self.options.checked
        options = Options(
            arch=device.arch,
            checked=knobs.checked() if checked is None else checked,
            gang=self.options.gang or knobs.cpu_gang() or 0,
            subgroup_size=self.options.subgroup_size or 0,
            coarsen=knobs.coarsen() or 0,
        )
        specialiser = self.kernel._specialiser()
        if variant.fast:
            workgroup = specialiser.static_workgroup(found.args, self.block, device, options)
            variant = Variant(True, variant.aligned, workgroup)
        return specialiser.get(found.args, variant, device, options)

    def _device(self, found: Signature) -> Device:
        named = self.options.device
        if named is not None:
            device = find_device(named)
        elif self.options.backend is not None:
            device = find_device(self.options.backend)
        else:
            device = find_device()
            owners = [k.device for k in found.keys if k is not None and k.device is not None]
            # A forced backend wins over where arrays lie, as long as it can reach them.
            if owners and owners[0] is not device and knobs.backend() is None and knobs.device() is None:
                device = owners[0]
        for p, key in zip(self.kernel.parameters, found.keys, strict=True):
            owner = key.device if key is not None else None
            if (
                owner is not None
                and owner is not device
                and not (owner.driver.host_memory and device.driver.host_memory)
            ):
                raise LaunchValueError(
                    f"argument {p.name!r} lies on {owner.id}, and the launch runs on {device.id}",
                    backend=device.backend,
                    diagnostic="MPG_LAUNCH_1008",
                    help="copy it with mp.asarray(x, device=...), or launch on its device",
                )
        return device

    def _check_access(self, found: Signature, layout: KernelLayout) -> None:
        fields = {f.name: f for f in layout.params}
        for p, key in zip(self.kernel.parameters, found.keys, strict=True):
            field = fields.get(p.name)
            if key is None or key.writable or not isinstance(field, BufferField):
                continue
            if field.access in ("write", "read_write"):
                raise LaunchValueError(
                    f"argument {p.name!r} is read-only, and the kernel writes to it; nothing was run",
                    diagnostic="MPG_LAUNCH_1005",
                    help=f"pass a copy: {p.name}.copy() (arrays of JAX are always read-only: np.array({p.name}))",
                )


class _Shapes:
    """The bound calls of one specialisation in one launcher: one, or one per extents of dynamic shared arrays."""

    def __init__(self, launcher: Launcher, special: Specialisation, device: Device) -> None:
        self.launcher = launcher
        self.special = special
        self.device = device
        self.layout = special.artifact.layout
        self.extents = extents_function(self.layout, launcher.grid, launcher.block)
        self.calls: dict[Extents, Call] = {}

    def fixed(self) -> Call:
        """The call of a kernel whose shared arrays have constant shapes."""
        return self._call(self.extents(()))

    def bind(self, words: tuple[Any, ...]) -> Call:
        """The call for these argument words: the host evaluates the extents (DESIGN 7, dynamic shared memory)."""
        extents = self.extents(words)
        found = self.calls.get(extents)
        if found is None:
            for field, ns in zip(self.layout.shared, extents, strict=True):
                if min(ns, default=0) < 0:
                    raise LaunchValueError(
                        f"shared array {field.name!r} would have the shape {ns}", diagnostic="MPG_LAUNCH_1012"
                    )
            if len(self.calls) >= _PLANS:
                self.calls.clear()
            found = self.calls[extents] = self._call(extents)
        return found

    def _call(self, extents: Extents) -> Call:
        launcher, device = self.launcher, self.device
        total = dynamic = 0
        for field, ns in zip(self.layout.shared, extents, strict=True):
            size = field.itemsize
            for n in ns:
                size *= n
            total += size
            dynamic += size if field.dynamic else 0
        given = launcher.options.shared_bytes
        if given is not None and given < dynamic:
            raise LaunchValueError(
                f"kernel {self.layout.kernel!r} needs {dynamic} bytes of dynamic shared memory; shared_bytes={given}",
                diagnostic="MPG_LAUNCH_1011",
                help="leave shared_bytes out: the host computes what is needed",
            )
        if total > device.max_shared_bytes:
            raise LaunchValueError(
                f"the shared arrays of kernel {self.layout.kernel!r} need {total} bytes, and {device.name} has "
                f"{device.max_shared_bytes} for a workgroup",
                backend=device.backend,
                diagnostic="MPG_LAUNCH_1012",
            )
        return self.special.loaded.bind(self.launch_shape(extents))

    def launch_shape(self, extents: Extents) -> LaunchShape:
        """What the driver is told of a launch whose shared arrays have these extents."""
        handle = getattr(self.launcher.options.stream, "handle", None)
        return LaunchShape(self.launcher.grid, self.launcher.block, extents, handle)


def _arrays(found: Signature) -> list[Any]:
    """The values that are arrays."""
    return [value for value, key in zip(found.values, found.keys, strict=True) if key is not None]


def _always(call: Call) -> Callable[[tuple[Any, ...]], Call]:
    return lambda words: call


def _types(found: Signature, layout: KernelLayout, kernel: Kernel) -> list[Type | None]:
    """The type that each by-value parameter has in the layout: a weak scalar got it from the frontend."""
    fields = {f.name: f for f in layout.params}
    types: list[Type | None] = []
    for p, arg in zip(kernel.parameters, found.args, strict=True):
        field = fields.get(p.name)
        if field is None or isinstance(field, BufferField):
            types.append(None)
        elif isinstance(arg, ScalarArg):
            types.append(arg.type)
        else:
            types.append(by_name(field.type))
    return types


def _checked_options(options: LaunchOptions) -> LaunchOptions:
    """Raises LaunchTypeError or LaunchValueError for options that no launch can have."""
    n = options.shared_bytes
    if n is not None and (isinstance(n, bool) or not hasattr(n, "__index__")):
        raise LaunchTypeError(f"shared_bytes= takes a whole number of bytes; got {n!r}", diagnostic="MPG_LAUNCH_1011")
    if n is not None and n < 0:
        raise LaunchValueError(f"shared_bytes= cannot be negative; got {n}", diagnostic="MPG_LAUNCH_1011")
    gang = options.gang
    if gang is not None and gang not in (4, 8, 16, 32, 64):
        raise LaunchValueError(f"gang= takes 4, 8, 16, 32 or 64; got {gang!r}")
    size = options.subgroup_size
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise LaunchTypeError(
            f"subgroup_size= takes a whole number of work-items; got {size!r}", diagnostic="MPG_LAUNCH_1021"
        )
    if size is not None and gang is not None and gang != size:
        raise LaunchValueError(
            f"gang={gang} and subgroup_size={size}: the cpu runs a subgroup as one gang",
            diagnostic="MPG_LAUNCH_1021",
            help="give one of them",
        )
    if options.stream is not None:
        # CUDA's and numba's way to say "the default stream" is 0.
        if options.stream != 0 and not isinstance(options.stream, Stream):
            raise LaunchTypeError(f"stream= takes an mp.Stream; got {type(options.stream).__name__}")
    if options.device is not None and options.backend is not None:
        device = find_device(options.device)
        if device.backend != find_device(options.backend).backend:
            name = DISPLAY_NAMES.get(device.backend, device.backend)
            raise GpuError(
                GpuErrorKind.ValidationFailed,
                "",
                f"device={device.id!r} belongs to {name}, and backend={options.backend!r}",
            )
    return options
