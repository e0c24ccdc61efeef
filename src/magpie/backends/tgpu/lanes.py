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

__all__ = ["DEST", "HANDLERS"]

_Array = np.ndarray[Any, Any]
_Threads = _Array | None
DEST = frozenset({"SET", "ADD", "MUL", "LD", "SHLD"})
_Code = tuple[str, Any, Any, Any, int]


def _set(sim: Simulator, code: _Code, threads: _Threads) -> None:
    sim.set(code[1], threads, sim.value(code[2], threads))


def _add(sim: Simulator, code: _Code, threads: _Threads) -> None:
    _, dest, a, b, _ = code
    if a[0] or b[0]:
        x, y = sim.value(a, threads), sim.value(b, threads)
        if threads is None:
            np.add(x, y, out=sim.registers[dest[1]])
        else:
            sim.set(dest, threads, x + y)
    else:
        sim.set(dest, threads, wrap(a[1] + b[1]))


def _mul(sim: Simulator, code: _Code, threads: _Threads) -> None:
    _, dest, a, b, _ = code
    if a[0] or b[0]:
        x, y = sim.value(a, threads), sim.value(b, threads)
        if threads is None:
            np.multiply(x, y, out=sim.registers[dest[1]])
        else:
            sim.set(dest, threads, x * y)
    else:
        sim.set(dest, threads, wrap(a[1] * b[1]))


def _cmp(sim: Simulator, code: _Code, threads: _Threads) -> None:
    a, b = sim.value(code[1], threads), sim.value(code[2], threads)
    sign = np.subtract(np.greater(a, b), np.less(a, b), dtype=np.int8)
    sim.flags[slice(None) if threads is None else threads] = sign


def _ld(sim: Simulator, code: _Code, threads: _Threads) -> None:
    at = sim.addresses(code[2], threads)
    sim.set(code[1], threads, sim.read(sim.global_accesses, at, threads))


def _st(sim: Simulator, code: _Code, threads: _Threads) -> None:
    at = sim.addresses(code[1], threads)
    sim.write(sim.global_accesses, at, sim.ids if threads is None else threads, sim.value(code[2], threads))


def _shld(sim: Simulator, code: _Code, threads: _Threads) -> None:
    at, inside = sim.shared_addresses(code[2], threads)
    if inside is None:
        sim.set(code[1], threads, sim.read(sim.shared_accesses, at, threads))
        return
    found = np.zeros(len(at), np.int32)
    who = sim.ids if threads is None else threads
    found[inside] = sim.read(sim.shared_accesses, at[inside], who[inside])
    sim.set(code[1], threads, found)


def _shst(sim: Simulator, code: _Code, threads: _Threads) -> None:
    at, inside = sim.shared_addresses(code[1], threads)
    who, value = sim.ids if threads is None else threads, sim.value(code[2], threads)
    if inside is not None:
        at, who = at[inside], who[inside]
        value = value[inside] if code[2][0] else value
    sim.write(sim.shared_accesses, at, who, value)


def _cswap(sim: Simulator, code: _Code, threads: _Threads) -> None:
    low, high = sim.addresses(code[1], threads), sim.addresses(code[2], threads)
    a, b = sim.read(sim.global_accesses, low, threads), sim.read(sim.global_accesses, high, threads)
    swap = a > b
    if not swap.any():
        return
    who = (sim.ids if threads is None else threads)[swap]
    sim.write(sim.global_accesses, low[swap], who, b[swap])
    sim.write(sim.global_accesses, high[swap], who, a[swap])


def _jmp(sim: Simulator, code: _Code, threads: _Threads) -> Any:
    return True


def _beq(sim: Simulator, code: _Code, threads: _Threads) -> Any:
    return _mask(sim.value(code[1], threads) == sim.value(code[2], threads))


def _bne(sim: Simulator, code: _Code, threads: _Threads) -> Any:
    return _mask(sim.value(code[1], threads) != sim.value(code[2], threads))


def _mask(equal: Any) -> Any:
    """A mask, of two numbers True, or None where the branch is not taken."""
    return equal if isinstance(equal, np.ndarray) else (True if equal else None)


def _conditional(sim: Simulator, code: _Code, threads: _Threads) -> Any:
    flags = sim.flags if threads is None else sim.flags[threads]
    return flags == CONDITIONS[code[0]]


def _barrier(sim: Simulator, code: _Code, threads: _Threads) -> Any:
    sim.waiting[slice(None) if threads is None else threads] = WAITS[code[0]]
    return True


HANDLERS: dict[str, Callable[[Simulator, _Code, _Threads], Any]] = {
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
