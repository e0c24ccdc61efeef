"""What each instruction does to all threads that have come to it, as operations on NumPy arrays.

A function gives None, or which threads leave their straight way: a mask, or True for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from magpie.backends.tgpu.exact import CONDITIONS, WAITS
from magpie.backends.tgpu.isa import wrap

if TYPE_CHECKING:
    from magpie.backends.tgpu.simulator import Simulator

__all__ = ["DEST", "FEW", "HANDLERS", "NOBODY", "Again", "Mask", "Threads", "assign"]

_Array = np.ndarray[Any, Any]


class Mask:
    """A set of threads as a mask: of each thread of the launch whether it is in it. ``words`` is -1 where it is, else
    0: to set bits under that takes an eighth of the time that NumPy needs for elements under a mask."""

    __slots__ = ("on", "words")

    def __init__(self, on: _Array) -> None:
        self.on = on
        self.words = np.negative(on.view(np.int8)).astype(np.int32)


#: The threads of an operation: all of the launch, a mask where they are many, and ids where they are few.
Threads = Mask | _Array | None
NOBODY: _Array = np.zeros(0, np.int64)
#: A set with fewer than one in this many threads is held as ids.
FEW = 8


class Again(Exception):
    """This step must be run thread after thread."""


def assign(row: _Array, threads: Threads, value: Any) -> None:
    """Set the elements of some threads; an array of values has one for each thread of the launch, or for each id."""
    if threads is None:
        row[:] = value
    elif isinstance(threads, Mask):
        mask = threads.words if row.itemsize == 4 else threads.words.astype(row.dtype)
        np.bitwise_xor(row, (row ^ value) & mask, out=row)
    else:
        row[threads] = value


DEST = frozenset({"SET", "ADD", "MUL", "LD", "SHLD"})
_Code = tuple[str, Any, Any, Any, int]


def _set(sim: Simulator, code: _Code, threads: Threads) -> None:
    sim.set(code[1], threads, sim.value(code[2], threads))


def _add(sim: Simulator, code: _Code, threads: Threads) -> None:
    _, dest, a, b, _ = code
    if a[0] or b[0]:
        x, y = sim.value(a, threads), sim.value(b, threads)
        if threads is None:
            np.add(x, y, out=sim.registers[dest[1]])
        else:
            sim.set(dest, threads, x + y)
    else:
        sim.set(dest, threads, wrap(a[1] + b[1]))


def _mul(sim: Simulator, code: _Code, threads: Threads) -> None:
    _, dest, a, b, _ = code
    if a[0] or b[0]:
        x, y = sim.value(a, threads), sim.value(b, threads)
        if threads is None:
            np.multiply(x, y, out=sim.registers[dest[1]])
        else:
            sim.set(dest, threads, x * y)
    else:
        sim.set(dest, threads, wrap(a[1] * b[1]))


def _cmp(sim: Simulator, code: _Code, threads: Threads) -> None:
    a, b = sim.value(code[1], threads), sim.value(code[2], threads)
    sign = np.subtract(np.greater(a, b), np.less(a, b), dtype=np.int8)
    assign(sim.flags, threads, sign)


def _ld(sim: Simulator, code: _Code, threads: Threads) -> None:
    at = sim.addresses(code[2], threads)
    sim.set(code[1], threads, sim.read(sim.global_accesses, at, threads))


def _st(sim: Simulator, code: _Code, threads: Threads) -> None:
    at = sim.addresses(code[1], threads)
    sim.write(sim.global_accesses, at, threads, sim.value(code[2], threads))


def _shld(sim: Simulator, code: _Code, threads: Threads) -> None:
    if sim.request.silent_shared:
        threads = sim.numbers(threads)
    at, inside = sim.shared_addresses(code[2], threads)
    if inside is None:
        sim.set(code[1], threads, sim.read(sim.shared_accesses, at, threads))
        return
    assert isinstance(threads, np.ndarray)
    found = np.zeros(len(at), np.int32)
    if inside.any():
        found[inside] = sim.read(sim.shared_accesses, at[inside], threads[inside])
    sim.set(code[1], threads, found)


def _shst(sim: Simulator, code: _Code, threads: Threads) -> None:
    if sim.request.silent_shared:
        threads = sim.numbers(threads)
    at, inside = sim.shared_addresses(code[1], threads)
    value = sim.value(code[2], threads)
    if inside is not None:
        assert isinstance(threads, np.ndarray)
        at, threads = at[inside], threads[inside]
        value = value[inside] if code[2][0] else value
    sim.write(sim.shared_accesses, at, threads, value)


def _cswap(sim: Simulator, code: _Code, threads: Threads) -> None:
    threads = sim.numbers(threads)
    low, high = sim.addresses(code[1], threads), sim.addresses(code[2], threads)
    a, b = sim.read(sim.global_accesses, low, threads), sim.read(sim.global_accesses, high, threads)
    swap = a > b
    if not swap.any():
        return
    sim.write(sim.global_accesses, low[swap], threads[swap], b[swap])
    sim.write(sim.global_accesses, high[swap], threads[swap], a[swap])


def _jmp(sim: Simulator, code: _Code, threads: Threads) -> Any:
    return True


def _beq(sim: Simulator, code: _Code, threads: Threads) -> Any:
    return _mask(sim.value(code[1], threads) == sim.value(code[2], threads))


def _bne(sim: Simulator, code: _Code, threads: Threads) -> Any:
    return _mask(sim.value(code[1], threads) != sim.value(code[2], threads))


def _mask(equal: Any) -> Any:
    """A mask, of two numbers True, or None where the branch is not taken."""
    return equal if isinstance(equal, np.ndarray) else (True if equal else None)


def _conditional(sim: Simulator, code: _Code, threads: Threads) -> Any:
    flags = sim.flags[threads] if isinstance(threads, np.ndarray) else sim.flags
    return flags == CONDITIONS[code[0]]


def _barrier(sim: Simulator, code: _Code, threads: Threads) -> Any:
    assign(sim.waiting, threads, WAITS[code[0]])
    return True


HANDLERS: dict[str, Callable[[Simulator, _Code, Threads], Any]] = {
    "SET": _set,
    "ADD": _add,
    "MUL": _mul,
    "LD": _ld,
    "ST": _st,
    "CMP": _cmp,
    "JMP": _jmp,
    "BEQ": _beq,
    "BNE": _bne,
    "BRZ": _conditional,
    "BRLT": _conditional,
    "BRGT": _conditional,
    "SYNC": _barrier,
    "SYNCB": _barrier,
    "SHLD": _shld,
    "SHST": _shst,
    "CSWAP": _cswap,
}
