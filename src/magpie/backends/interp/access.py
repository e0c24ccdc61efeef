"""Loads, stores and atomics as closures: bounds, masks, and what the sanitizer is told.

An access out of bounds never touches memory: a load gives 0, a store or an atomic does nothing. It is reported, and
execution goes on, because leaving before a barrier would hang the others (RULES 17).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.atomics import compare_exchange, read_modify_write
from magpie.backends.interp.context import Chunk, Mask
from magpie.backends.interp.memory import Window, guarded, locate
from magpie.backends.interp.numerics.lanes import Lanes, register_dtype
from magpie.backends.interp.registers import Registers
from magpie.ir.nodes import Kernel, Node, walk

__all__ = ["AccessCompiler", "Site"]

Frame = list[Any]
Closure = Callable[[Frame, Mask], None]

_STORES = ("store", "atomic_rmw", "atomic_cas", "atomic_store")


class Site:
    """A memory access in the program, as the sanitizer names it."""

    __slots__ = ("atomic", "kind", "node", "number")

    def __init__(self, number: int, node: Node) -> None:
        self.number = number
        self.node = node
        self.atomic = node.op.startswith("atomic")
        self.kind = "read" if node.op in ("load", "atomic_load") else "write"

    @property
    def verb(self) -> str:
        """How a message names this access."""
        if self.node.op in ("atomic_rmw", "atomic_cas"):
            return "atomic update"
        return ("atomic " if self.atomic else "") + self.kind


class AccessCompiler:
    """Makes the closures of memory ops."""

    def __init__(self, registers: Registers, sanitize: bool, kernel: Kernel) -> None:
        self.registers = registers
        self.sanitize = sanitize
        self.used = {a for n in walk(kernel.body) for a in n.args}
        self.sites: list[Site] = []

    def written(self, loop: Node) -> list[int]:
        """The registers of the windows that a loop writes."""
        found = {
            self.registers.array(n.attrs["array"], n.attrs.get("field"))
            for region in loop.regions
            for n in walk(region)
            if n.op in _STORES
        }
        return sorted(found)

    def compile(self, node: Node, target: int, args: list[int]) -> Closure:
        """The closure of a load, store or atomic; NotImplementedError for another op on memory."""
        if "array" not in node.attrs:
            raise NotImplementedError(f"{node.op} is not an operation of the interpreter")
        window = self.registers.array(node.attrs["array"], node.attrs.get("field"))
        rank = node.attrs["array"].rank
        index, values = args[:rank], args[rank:]
        site = Site(len(self.sites), node)
        self.sites.append(site)
        if node.op in ("load", "atomic_load"):
            return _load(node, site, window, index, target, self.sanitize)
        if node.op == "store":
            return _store(node, site, window, index, values[0], self.sanitize)
        return _atomic(node, site, window, index, values, target, node in self.used, self.sanitize)


def _load(node: Node, site: Site, window: int, index: list[int], d: int, sanitize: bool) -> Closure:
    def rest(r: Frame, m: Mask, address: Lanes, ok: Any, indices: list[Lanes]) -> Lanes:
        w: Window = r[window]
        if ok is not True:
            report_bounds(r[0], node, m, ok, w, indices, "read")
        value = w.get(address) if w.flat.size else w.zero()
        if sanitize and ok is not False:
            r[0].sanitizer.read(site, r[0], w, address, active_lanes(r[0], m, ok), indices)
        return value if ok is True else guarded(value, ok, w.zero())

    if len(index) == 1 and not sanitize:
        (i,) = index

        def load1(r: Frame, m: Mask) -> None:
            w = r[window]
            indices = [r[i]]
            address, ok = locate(w, indices)
            r[d] = w.get(address) if ok is True else rest(r, m, address, ok, indices)

        return load1

    def load(r: Frame, m: Mask) -> None:
        w = r[window]
        indices = [r[i] for i in index]
        address, ok = locate(w, indices)
        r[d] = w.get(address) if ok is True and not sanitize else rest(r, m, address, ok, indices)

    return load


def _store(node: Node, site: Site, window: int, index: list[int], value: int, sanitize: bool) -> Closure:
    def store(r: Frame, m: Mask) -> None:
        w: Window = r[window]
        chunk: Chunk = r[0]
        indices = [r[i] for i in index]
        v = r[value]
        address, ok = locate(w, indices)
        if ok is True and m is True and chunk.order is None and not sanitize:
            w.put(address, v if address.__class__ is np.ndarray or not v.ndim else v[-1])
            return
        if ok is not True:
            report_bounds(chunk, node, m, ok, w, indices, "write")
            if ok is False:
                return
        lanes = active_lanes(chunk, m, ok)
        if not len(lanes):
            return
        at = _at(address, lanes)
        v = v[lanes] if v.ndim else v
        if sanitize:
            chunk.sanitizer.write(site, chunk, w, at, lanes, indices, v)
        w.put(at, v)

    return store


def _atomic(
    node: Node, site: Site, window: int, index: list[int], values: list[int], d: int, used: bool, sanitize: bool
) -> Closure:
    op = node.op
    kind = node.attrs.get("kind", "exchange")

    def atomic(r: Frame, m: Mask) -> None:
        w: Window = r[window]
        chunk: Chunk = r[0]
        indices = [r[i] for i in index]
        operands = [r[v] for v in values]
        result = w.zero()
        address, ok = locate(w, indices)
        if ok is not True:
            report_bounds(chunk, node, m, ok, w, indices, "write")
        lanes = active_lanes(chunk, m, ok) if ok is not False else ()
        if len(lanes):
            at = _at(address, lanes)
            operands = [v[lanes] if v.ndim else np.full(len(lanes), v) for v in operands]
            if op == "atomic_store":
                w.put(at, operands[0])
                old = None
            elif op == "atomic_cas":
                old = compare_exchange(w, at, operands[0], operands[1])
            else:
                old = read_modify_write(w, kind, at, operands[0], used)
            if sanitize:
                wrote = None
                if op == "atomic_cas":
                    wrote = _bits(old) == _bits(operands[0])
                chunk.sanitizer.atomic(site, chunk, w, at, lanes, indices, wrote)
            if old is not None and used:
                result = np.zeros(chunk.size, register_dtype(w.type))
                result[lanes] = old
        if d >= 0:
            r[d] = result

    return atomic


def _bits(x: Lanes) -> Lanes:
    return x.view(f"u{x.dtype.itemsize}")


def _at(address: Lanes, lanes: Any) -> Any:
    return address[lanes] if address.__class__ is np.ndarray else np.full(len(lanes), address, np.int64)


def active_lanes(chunk: Chunk, m: Mask, ok: Any) -> Any:
    """The lanes that take part and are in bounds; ``ok`` is not False."""
    if ok is True:
        return chunk.active(m)
    return chunk.active(ok if m is True else m & ok)


def report_bounds(chunk: Chunk, node: Node, m: Mask, ok: Any, w: Window, indices: Any, what: str) -> None:
    """Report the active lanes that are out of bounds, if any."""
    outside = m if ok is False else (~ok if m is True else m > ok)
    lanes = chunk.active(outside)
    if not len(lanes) or not chunk.launch.wants("bounds"):
        return
    shape = w.extents
    side = "a negative index does not count from the end" if _negative(indices, lanes) else ""
    chunk.report(
        what,
        node,
        lanes,
        f"out-of-bounds {what} of {{at}}, whose shape is {shape}, by {{item}}",
        address=lambda lane: address_of(w, indices, lane),
        help=side or None,
    )


def _negative(indices: Any, lanes: Any) -> bool:
    return any(int(i[lanes[0]] if i.ndim else i) < 0 for i in indices)


def address_of(w: Window, indices: Any, lane: int) -> tuple[str, tuple[int, ...]]:
    """Array name and index tuple of one lane."""
    return w.name, tuple(int(i[lane] if i.ndim else i) for i in indices)
