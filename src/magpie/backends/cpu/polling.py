"""Looking for a cancelled launch at the back edges of loops (RULES 18), at no cost to the loops that matter.

A loop that may never end counts its trips and looks every 2**16 of them. A counted loop is cut into strips instead: an
inner loop of at most so many trips, as clean as before, and a look at the flag between strips.
"""

from __future__ import annotations

from dataclasses import dataclass

from magpie.backends.cpu.gang import Env
from magpie.backends.cpu.launch_block import CANCEL_FROM_ARGUMENTS
from magpie.backends.cpu.values import Value
from magpie.backends.llvm.emitter import Block
from magpie.ir.nodes import Node, walk

__all__ = ["Strip", "close_strip", "cut", "open_strip", "poll_cancel"]

_TRIPS = 1 << 16
# A trip with a loop of its own takes longer.
_OUTER_TRIPS = 1 << 8


@dataclass(slots=True)
class Strip:
    """A counted loop that is cut: where a strip starts and ends, and the trip that it ends before."""

    start: Block
    end: Block
    limit: str
    pointer: str  # of the counter
    trips: str
    test: Node  # the comparison by which the loop ends


def _look(env: Env, on: Block) -> None:
    """Leave the kernel if the launch is cancelled, else go ``on``."""
    c = env.code
    if env.leave is None:
        env.leave = c.block("cancelled")  # closed and placed at the end of the kernel
    p = c.op(f"getelementptr i8, ptr %args, i64 {CANCEL_FROM_ARGUMENTS}")
    flag = c.op(f"load atomic i32, ptr {p} monotonic, align 4")
    c.cbr(c.op(f"icmp eq i32 {flag}, 0"), on, env.leave)


def poll_cancel(env: Env) -> None:
    """Count a trip; every 2**16 of them look at the flag."""
    c = env.code
    if not env.trips:
        env.trips = c.alloca("i32")
        c.entry.lines.append(f"  store i32 0, ptr {env.trips}")
    n = c.op(f"add i32 {c.op(f'load i32, ptr {env.trips}')}, 1")
    c.do(f"store i32 {n}, ptr {env.trips}")
    look, on = c.block("look"), c.block("on")
    low = c.op(f"and i32 {n}, {_TRIPS - 1}")
    c.cbr(c.op(f"icmp eq i32 {low}, 0"), look, on)
    c.place(look)
    _look(env, on)
    c.place(on)


def open_strip(env: Env, loop: Node, trips: Value, pointer: str) -> Strip | None:
    """Begin the strips of a counted loop whose counter is the scalar at ``pointer``; None if it is short or odd."""
    body = loop.regions[0]
    slot, count = loop.attrs["counted"]
    test = next((n.args[0] for n in body if n.op == "break_if"), None)
    own = (
        test is not None
        and test.op == "ge"
        and test.args[1] is count
        and test.args[0].op == "slot_get"
        and test.args[0].attrs["slot"] is slot
    )
    if test is None or not own or trips.kind != 0:
        return None
    if not trips.text.startswith("%") and int(trips.text) <= _most(loop):
        return None
    return cut(env, loop, trips.text, pointer, test)


def cut(env: Env, loop: Node, trips: str, pointer: str, test: Node) -> Strip:
    """Begin the strips of a loop that goes on while the scalar at ``pointer`` is below ``trips``."""
    c, most = env.code, _most(loop)
    start, end = c.block("strip"), c.block("strip.end")
    c.br(start)
    c.place(start)
    k = c.op(f"load i64, ptr {pointer}")
    left = c.op(f"sub i64 {trips}, {k}")
    short = c.op(f"icmp slt i64 {left}, {most}")
    step = c.op(f"select i1 {short}, i64 {left}, i64 {most}")
    return Strip(start, end, c.op(f"add i64 {k}, {step}"), pointer, trips, test)


def _most(loop: Node) -> int:
    """Trips of a strip."""
    return _OUTER_TRIPS if any(n.op == "loop" for n in walk(loop.regions[0])) else _TRIPS


def close_strip(env: Env, strip: Strip, exit_: Block) -> None:
    """What stands behind a strip: the end of the loop, or a look at the flag and the next strip."""
    c = env.code
    c.place(strip.end)
    k = c.op(f"load i64, ptr {strip.pointer}")
    look = c.block("look")
    c.cbr(c.op(f"icmp sge i64 {k}, {strip.trips}"), exit_, look)
    c.place(look)
    _look(env, strip.start)
