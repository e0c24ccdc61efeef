"""Grids and workgroup sizes as users write them, and what a kernel requires, checked against a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError, GpuErrorKind, LaunchTypeError, LaunchValueError
from magpie.runtime.driver import Dims

if TYPE_CHECKING:
    from magpie.runtime.device import Device

__all__ = ["check_capabilities", "check_limit", "check_subgroup_size", "parse_block", "parse_grid", "show_dims"]


def _dims(value: Any, what: str) -> Dims:
    items = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(items) <= 3:
        raise LaunchValueError(f"a {what} has 1 to 3 extents; got {len(items)}", diagnostic="MPG_LAUNCH_1006")
    numbers: list[int] = []
    for item in items:
        kind = type(item).__name__
        if isinstance(item, bool) or kind in ("bool_", "bool") or not hasattr(item, "__index__"):
            hint = None
            if isinstance(item, float) or "float" in kind:
                hint = "/ gives a float: count workgroups with mp.cdiv(n, size) or //"
            raise LaunchTypeError(
                f"a {what} is a whole number or a tuple of up to 3; got {item!r} of type {kind}",
                diagnostic="MPG_LAUNCH_1006",
                help=hint,
            )
        try:
            numbers.append(item.__index__())
        except TypeError:  # an array of more than one element has the method, and no value
            raise LaunchTypeError(
                f"a {what} is a whole number or a tuple of up to 3; got {kind}", diagnostic="MPG_LAUNCH_1006"
            ) from None
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def parse_grid(value: Any) -> Dims:
    """A grid in workgroups; a zero extent is allowed (nothing runs). Raises LaunchTypeError or LaunchValueError."""
    grid = _dims(value, "grid")
    if min(grid) < 0:
        raise LaunchValueError(
            f"a grid has no negative extents; got {show_dims(grid)}",
            diagnostic="MPG_LAUNCH_1006",
            help="a grid counts workgroups: mp.cdiv(n, 256) for n items in workgroups of 256",
        )
    if grid[0] * grid[1] * grid[2] >= 1 << 63 or max(grid) >= 1 << 47:
        raise LaunchValueError(
            f"the grid {show_dims(grid)} has more workgroups than can be counted", diagnostic="MPG_LAUNCH_1006"
        )
    return grid


def parse_block(value: Any, declared: Dims | None, kernel: str) -> Dims:
    """A workgroup size; `declared` is that of `@mp.kernel(workgroup=)`, which a launch may leave out but not change."""
    if value is None:
        if declared is not None:
            return declared
        raise LaunchTypeError(
            f"kernel {kernel!r} was given no workgroup size",
            diagnostic="MPG_LAUNCH_1006",
            help=f"write {kernel}[grid, 256](...), or fix the size with @mp.kernel(workgroup=256)",
        )
    block = _dims(value, "workgroup size")
    if min(block) < 1:
        raise LaunchValueError(
            f"a workgroup size has extents of at least 1; got {show_dims(block)}", diagnostic="MPG_LAUNCH_1006"
        )
    if declared is not None and block != declared:
        raise LaunchValueError(
            f"kernel {kernel!r} is declared with workgroup={show_dims(declared)}, and launched with {show_dims(block)}",
            diagnostic="MPG_LAUNCH_1013",
            help=f"leave the block out ({kernel}[grid, None]), or drop workgroup= from the declaration",
        )
    return block


def check_limit(block: Dims, limit: int, backend: str, device: str) -> None:
    """Raises LaunchValueError when the workgroup has more work-items than the device allows."""
    size = block[0] * block[1] * block[2]
    if size > limit:
        error = LaunchValueError(
            f"a workgroup of {show_dims(block)} has {size} work-items; {device} allows {limit}",
            backend=backend,
            diagnostic="MPG_LAUNCH_1007",
            help=f"use a smaller workgroup, for example {_suggest(block, limit)}",
        )
        raise error


def check_subgroup_size(size: int, sizes: tuple[int, ...], backend: str, device: str) -> None:
    """Raises LaunchValueError when the device has no subgroups of that size; 0 asks for none in particular."""
    if size and size not in sizes:
        raise LaunchValueError(
            f"subgroup_size={size!r}, and {device} has {', '.join(map(str, sizes))}",
            backend=backend,
            diagnostic="MPG_LAUNCH_1021",
            help="leave it out to take the device's own, or run on the cpu, which emulates any of 4, 8, 16, 32 and 64",
        )


def check_capabilities(kernel: str, requires: frozenset[str], device: Device) -> None:
    """Raises GpuError Unsupported when a device lacks what its backend has code for, and the kernel requires.

    What the backend itself lacks is found where the kernel is validated, with the line that needs it.
    """
    missing = requires - device.capabilities
    if missing:
        from magpie.backends.registry import backend

        lacks = sorted(missing & backend(device.backend).manifest.capabilities)
        if lacks:
            raise GpuError(
                GpuErrorKind.Unsupported,
                device.backend,
                f"kernel {kernel!r} requires {', '.join(lacks)}, which {device.name} does not have",
                diagnostic="MPG_CORE_1200",
            )


def _suggest(block: Dims, limit: int) -> str:
    x, y, z = block
    while x * y * z > limit:
        if z > 1 and z >= y:
            z = (z + 1) // 2
        elif y > 1 and y >= x // 4:
            y = (y + 1) // 2
        else:
            x = (x + 1) // 2
    return show_dims((x, y, z))


def show_dims(dims: Dims) -> str:
    """Dims without trailing ones: 256, (16, 16)."""
    items = list(dims)
    while len(items) > 1 and items[-1] == 1:
        items.pop()
    return str(items[0]) if len(items) == 1 else str(tuple(items))
