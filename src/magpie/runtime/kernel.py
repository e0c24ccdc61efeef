"""`@mp.kernel` and `Kernel`: what a user holds of a kernel.

Decorating a function costs microseconds: the source is read, and NumPy and the frontend are imported, when a kernel is
first launched or compiled. Importing this module loads what a launch from the disk cache needs (`preload`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, overload

from magpie.errors import LaunchTypeError, LaunchValueError, MagpieError, clean
from magpie.runtime.stream import Stream

if TYPE_CHECKING:
    from magpie.backends.base import Artifact
    from magpie.diagnostics.diagnostic import Diagnostic
    from magpie.frontend.python.annotations import Parameter
    from magpie.runtime.device import Device
    from magpie.runtime.inspection import VariantInfo
    from magpie.runtime.launcher import Launcher
    from magpie.runtime.specialise import Specialiser

__all__ = ["Kernel", "kernel"]

_Workgroup = int | tuple[int, ...] | None

# Bound launchers that are kept for `kernel[grid, block]`; a program with ever new grids must not grow without end.
_BOUND = 256


class Kernel:
    """A function marked `@mp.kernel`. Launch it with `kernel[grid, block](*args)` or `kernel.launch(...)`.

    Values of the closure and of globals are those of the first launch with such arguments. A kernel may be used from
    several threads.
    """

    __wrapped__: FunctionType
    __name__: str

    #: Where a launch may name another workgroup size than the declared one: the kernel for that size. A value and no
    #: method to override, since the native path makes objects of this class others (`magpie.runtime.native`).
    sized: Callable[[Any], Kernel] | None = None

    def __init__(
        self, fn: FunctionType, workgroup: _Workgroup, fastmath: bool, requires: Iterable[str], checked: bool | None
    ) -> None:
        update_wrapper(self, fn)
        self.fn = fn
        size = None if workgroup is None else _declared(workgroup, fn.__name__)
        self._setup(size, fastmath, frozenset((requires,) if isinstance(requires, str) else requires), checked)
        if self.requires:
            _check_names(fn, self.requires)

    def _setup(
        self, workgroup: tuple[int, int, int] | None, fastmath: bool, requires: frozenset[str], checked: bool | None
    ) -> None:
        """What kernels of every frontend have."""
        self.workgroup = workgroup
        self.fastmath = fastmath
        self.requires = requires
        self.checked = checked
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        # Two tables, since 4 == 4.0 == True as keys: ints, tuples of ints and streams in the first, types and all in
        # the second.
        self._by_ints: dict[tuple[Any, ...], Launcher] = {}
        self._bound: dict[Any, Launcher] = {}

    # --- launching ---------------------------------------------------------------------------------------------------
    def __getitem__(self, shape: Any) -> Launcher:
        """`kernel[grid, block]`, `kernel[grid, block, stream]` or `kernel[grid, block, stream, shared_bytes]`.

        grid counts workgroups and block work-items; both are an int or a tuple of up to 3 ints. Where the declaration
        fixes the workgroup size, `kernel[grid]` is enough.
        """
        if type(shape) is tuple and len(shape) in (2, 3) and _plain(shape[0]) and _plain(shape[1]):
            if len(shape) == 2 or type(shape[2]) is Stream:
                found = self._by_ints.get(shape)
                if found is not None:
                    return found
                try:
                    return self._keep(self._by_ints, shape, shape[0], shape[1], (None, *shape[2:]))
                except MagpieError as error:
                    raise clean(error) from None
        items = shape if type(shape) is tuple else (shape,)
        if not 1 <= len(items) <= 4:
            raise LaunchTypeError(
                f"{self.__name__}[...] takes a grid and a workgroup size, and perhaps a stream and shared_bytes; "
                f"got {len(items)} items",
                diagnostic="MPG_LAUNCH_1006",
            )
        grid, block, stream, shared_bytes = (*items, None, None, None)[:4]
        try:
            return self._launcher(grid, block, (None, stream, shared_bytes, None, None, None, None))
        except MagpieError as error:
            raise clean(error) from None

    def launch(
        self,
        *,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        args: tuple[Any, ...] | list[Any] = (),
        kwargs: dict[str, Any] | None = None,
        device: str | Device | None = None,
        stream: Any = None,
        shared_bytes: int | None = None,
        gang: int | None = None,
        checked: bool | None = None,
        backend: str | None = None,
        subgroup_size: int | None = None,
    ) -> None:
        """Launch with everything named.

        `device` ("cuda:0") or `backend` ("cpu") says where; left out, the arrays' device or the best one is used.
        `shared_bytes` is only checked: the host computes what dynamic shared arrays need. `gang` is the number of
        work-items that the cpu runs as lanes (4 to 64). `subgroup_size` is the width that subgroup operations see: the
        cpu and the interpreter take 4, 8, 16, 32 and 64, so that a kernel written for a GPU's width gives its results
        anywhere. `checked` compiles bounds, assert and division checks in.
        Raises LaunchTypeError, LaunchValueError or GpuError before anything runs, and CompileError.
        """
        if not isinstance(args, tuple | list):
            raise LaunchTypeError(
                f"args= takes the kernel's arguments as a tuple; got {type(args).__name__}",
                diagnostic="MPG_LAUNCH_1001",
                help="write args=(x,) for a single argument",
            )
        try:
            options = (device, stream, shared_bytes, gang, checked, backend, subgroup_size)
            launcher = self._launcher(grid, block, options)
            launcher(*args, **(kwargs or {}))
        except MagpieError as error:
            raise clean(error) from None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """A kernel is launched over a grid, never called: this raises LaunchTypeError."""
        raise LaunchTypeError(
            f"kernel {self.__name__!r} was called like a function, without a grid",
            diagnostic="MPG_LAUNCH_1006",
            help=f"write {self.__name__}[grid, block](...), for example {self.__name__}[mp.cdiv(n, 256), 256](...)",
        )

    def _launcher(self, grid: Any, block: Any, options: tuple[Any, ...]) -> Launcher:
        """The launcher of a shape and of `LaunchOptions` in their order; kept where the parts can be a key."""
        shape = (_with_types(grid), _with_types(block), options)
        try:
            found = self._bound.get(shape)
        except TypeError:  # lists as grids, arrays: checked, and not kept
            return self._make(grid, block, options)
        return self._keep(self._bound, shape, grid, block, options) if found is None else found

    def _keep(self, table: dict[Any, Launcher], key: Any, grid: Any, block: Any, options: tuple[Any, ...]) -> Launcher:
        made = self._make(grid, block, options)
        if len(table) >= _BOUND:
            table.clear()
        table[key] = made
        return made

    def _make(self, grid: Any, block: Any, options: tuple[Any, ...]) -> Launcher:
        from magpie.runtime.launcher import Launcher, LaunchOptions

        if self.sized is not None and block is not None:
            return Launcher(self.sized(block), grid, None, LaunchOptions(*options))
        return Launcher(self, grid, block, LaunchOptions(*options))

    # --- compiling ---------------------------------------------------------------------------------------------------
    def compile(
        self,
        *args: Any,
        backend: str = "cpu",
        arch: str = "",
        gang: int = 0,
        checked: bool | None = None,
        variant: str = "fast",
        workgroup: int | tuple[int, ...] | None = None,
        subgroup_size: int = 0,
        opt: str | None = None,
        **kwargs: Any,
    ) -> Artifact:
        """Compile for a backend, with no device needed; the result has `.blob .text .layout .extension .save(path)`.

        An argument is a dtype (mp.f32), `mp.Array[mp.f32, 2]`, an array or a number; parameters with a full annotation
        may be left out. `variant` is "fast" (contiguous arrays that do not overlap), "aligned" (these, and the first
        element and every row at a multiple of the target's alignment) or "general" (nothing assumed).
        `workgroup` is the only workgroup size that the code will be launched with; None: any. `opt` is "O0" to "O3",
        the level of the code generator; None: as for a launch.
        """
        from magpie.runtime import inspection

        try:
            return inspection.compile_kernel(
                self, args, kwargs, backend, arch, gang, checked, variant, workgroup, subgroup_size, opt
            )
        except MagpieError as error:
            raise clean(error) from None

    def inspect(
        self,
        stage: str = "kir",
        *args: Any,
        backend: str | None = None,
        workgroup: int | tuple[int, ...] | None = None,
        opt: str | None = None,
        arch: str = "",
        **kwargs: Any,
    ) -> str:
        """The text of a stage ("kir", "llvm", "asm", ...; see `stages`) for such arguments, as for `compile`.

        "mp" is the kernel as a module of `.mp` text, for `mp.load_module` (MPG_CORE_1411 where the language lacks what
        it does); ``backend`` is its target there.
        Without arguments: of the kernel's annotations, or else of what it was launched with last. `workgroup` shows the
        code of launches with that size, `opt` that of a level ("O0" to "O3"), `arch` that for an architecture.
        """
        from magpie.runtime import inspection

        try:
            return inspection.inspect_kernel(self, stage, args, kwargs, backend, workgroup, opt, arch)
        except MagpieError as error:
            raise clean(error) from None

    def stages(self, backend: str | None = None) -> tuple[str, ...]:
        """The names of what `inspect` shows, of one backend or of all; MAGPIE_DUMP shows all of them but "mp"."""
        from magpie.runtime import inspection

        return inspection.stage_names(backend)

    def check(self, *args: Any, **kwargs: Any) -> list[Diagnostic]:
        """Compile without running, and give what was found instead of raising it.

        Without arguments the annotations say what to compile; a kernel with a bare parameter then gives an empty list.
        """
        from magpie.runtime import inspection

        return inspection.check_kernel(self, args, kwargs)

    def sanitize(self, **options: Any) -> Any:
        """Run on the interpreter with the sanitizer: `grid=, block=, args=, checks=(...)`; gives the reports."""
        from magpie.runtime import sanitize

        return sanitize.sanitize(self, **options)

    def variants(self) -> list[VariantInfo]:
        """What was compiled of this kernel in this process."""
        from magpie.runtime import inspection

        return inspection.variants(self)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters with what their annotations say. Raises CompileError for one that means nothing."""
        found: tuple[Parameter, ...] | None = self._made.get("parameters")
        if found is None:
            from magpie.frontend.python.annotations import signature_of

            found = self._made["parameters"] = signature_of(self.fn)
        return found

    def _key_function(self) -> Callable[..., Any]:
        found: Callable[..., Any] | None = self._made.get("key")
        if found is None:
            from magpie.runtime.fastpath import key_function

            found = self._made["key"] = key_function(self.parameters)
        return found

    def _array_places(self) -> tuple[bool, ...]:
        """Which parameters take arrays."""
        found: tuple[bool, ...] | None = self._made.get("places")
        if found is None:
            found = self._made["places"] = tuple(p.kind in ("array", "any") for p in self.parameters)
        return found

    def _specialiser(self) -> Specialiser:
        with self._lock:
            found: Specialiser | None = self._made.get("specialiser")
            if found is None:
                from magpie.runtime.specialise import Specialiser

                found = self._made["specialiser"] = Specialiser(self.fn, self.workgroup, self.fastmath, self.requires)
            return found

    def __repr__(self) -> str:
        size = f" workgroup={self.workgroup}" if self.workgroup else ""
        return f"<kernel {self.__qualname__}{size}>"

    __qualname__: str


_INT = frozenset({int})


def _plain(value: Any) -> bool:
    """An int, or a tuple of ints and nothing that only equals one."""
    return type(value) is int or (type(value) is tuple and _INT.issuperset(map(type, value)))


def _with_types(value: Any) -> Any:
    """A grid or block with its types, since True == 1 == 1.0 as keys of a dict."""
    if type(value) is tuple:
        return tuple((type(v), v) for v in value)
    return type(value), value


def _check_names(fn: FunctionType, requires: frozenset[str]) -> None:
    """Raises CompileError for names that are no capabilities."""
    from magpie.capabilities import CAPABILITIES, LIMITS, close_names

    if CAPABILITIES.keys() >= requires:
        return
    from magpie.diagnostics import CompileError, Diagnostic
    from magpie.diagnostics.loc import Loc

    found: list[Diagnostic] = []
    for name in sorted(requires - CAPABILITIES.keys(), key=str):
        near = close_names(name) if isinstance(name, str) else []
        if name in LIMITS:
            text, help = f"{name!r} is a limit, not a capability", f"a device tells it: device.{LIMITS[name].query}"
        else:
            text = f"there is no capability {name!r}"
            help = f"did you mean {' or '.join(map(repr, near))}?" if near else f"they are {', '.join(CAPABILITIES)}"
        place = Loc(fn.__code__.co_filename, fn.__code__.co_firstlineno)
        found.append(Diagnostic("MPG_CORE_1200", f"kernel {fn.__name__!r}: {text}", place, help=help))
    raise clean(CompileError(found))


def _declared(workgroup: Any, name: str) -> tuple[int, int, int]:
    from magpie.runtime.grid import parse_block

    return parse_block(workgroup, None, name)


@overload
def kernel(fn: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(
    fn: None = None,
    *,
    workgroup: _Workgroup = None,
    fastmath: bool = False,
    requires: Iterable[str] = (),
    checked: bool | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    fn: Callable[..., Any] | None = None,
    *,
    workgroup: _Workgroup = None,
    fastmath: bool = False,
    requires: Iterable[str] = (),
    checked: bool | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Mark a function as a kernel: `@mp.kernel` or `@mp.kernel(workgroup=(16, 16), ...)`.

    `workgroup` fixes the workgroup size (the compiler then knows it); `fastmath` allows contraction, reassociation and
    approximate functions; `requires` names capabilities that the kernel needs (docs/CAPABILITIES.md); `checked`
    compiles bounds, assert and division checks in unless a launch says otherwise. The function's body is read when it
    is first compiled. Raises CompileError for a capability that there is not.
    """
    if fn is None:
        return lambda f: kernel_of(f, workgroup, fastmath, requires, checked)
    return kernel_of(fn, workgroup, fastmath, requires, checked)


def kernel_of(
    fn: Callable[..., Any], workgroup: _Workgroup, fastmath: bool, requires: Iterable[str], checked: bool | None
) -> Kernel:
    """What the decorator does once it has its options."""
    if isinstance(fn, Kernel):
        raise LaunchTypeError(f"kernel {fn.__name__!r} is marked @mp.kernel twice")
    if not isinstance(fn, FunctionType):
        raise LaunchTypeError(
            f"@mp.kernel marks a function written with def; got {type(fn).__name__}",
            help="options go by name: @mp.kernel(workgroup=256)" if isinstance(fn, int | tuple) else None,
        )
    if not isinstance(fastmath, bool):
        raise LaunchValueError(f"fastmath= takes True or False; got {fastmath!r}")
    return Kernel(fn, workgroup, fastmath, requires, checked)
