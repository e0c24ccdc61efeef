"""Which gangs of a row need no test, and whether a loop of their own pays.

A kernel such as ``if 0 < i < n - 1: ...`` asks the same of every gang of a row, and the first and the last may be the
only ones that disagree. Where those that agree are known to follow each other, they are found once for the row, and a
loop without a test takes them. LLVM then moves out of it what is the same in all trips, loads at uniform addresses
above all, which a guard kept inside. A 3x3 convolution (one thread, EPYC, workgroups of 64 by 4 abreast, ms):

    ====================  ==============  ==============  ==============
                          512^2           1024^2          2048^2
    ====================  ==============  ==============  ==============
    as it was             0.19            0.72            3.2
    a test for each gang  0.18            0.57            3.4
    a loop of their own   0.15            0.62            2.9
    ====================  ==============  ==============  ==============

It takes rows of many gangs: with two or four, looking for the ends cost what the loads had. It takes such loads:
without them a saxpy in the cache became no faster, and its code half as long again. What does not fit into registers is
spilled, which costs what loading it in each trip had: filters of 4 x 4 and 5 x 5 took 0.83 to 0.94 of their time. Only
elementary functions, whose constants are spilled too, became slower (1.05).
"""

from __future__ import annotations

from collections.abc import Iterable

from magpie.backends.cpu.gang import Env, exact_line
from magpie.backends.cpu.guards import Guard
from magpie.ir.nodes import Node, Region, walk
from magpie.ir.ops import ELEMENTARY
from magpie.passes.exits import runs_once

__all__ = ["LONG", "in_a_stretch", "worth_a_loop"]

#: Gangs in a row that are worth looking for the first and the last one.
LONG = 8

_ORDERED = ("lt", "le", "gt", "ge")
_STRAIGHT = ("add", "sub", "neg", "mul", "cast")


def worth_a_loop(nodes: Region, env: Env) -> bool:
    """Whether the full gangs of a long row that agree on the guard get a loop of their own: where loads leave it, and a
    trip is short."""
    inside = list(walk(nodes))
    if any((n.op == "loop" and not runs_once(n)) or n.op in ELEMENTARY for n in inside):
        return False
    return any(n.op == "load" and env.shapes.of(n).kind == 0 for n in inside)


def in_a_stretch(guard: Guard, env: Env, again: Iterable[Node], reads: Iterable[Node]) -> bool:
    """Whether the gangs of a row whose lanes all agree with the guard follow each other.

    So it is where the guard asks for several things at once, and each of them is the same for the row, or compares
    lines that go on from gang to gang. The run computes ``again`` anew, and ``reads`` come from context memory.
    """
    node, order, want = guard
    form: dict[Node, int] = dict.fromkeys(reads, 2)
    for part in (*again, *order):
        form[part] = _along_row(part, form, env)
    return _stretch(node.args[0], want, form, env)


def _along_row(node: Node, form: dict[Node, int], env: Env) -> int:
    """What a pure value is along a row: 0 the same, 1 a line if it is one in each gang, 2 anything."""
    if node.op == "linear_local_id" or (node.op in ("thread_id", "global_id") and node.attrs["dim"] == 0):
        return 1
    if node.op in ("subgroup_lane", "subgroup_id"):
        return 2
    found = max((form.get(a, 0) for a in node.args), default=0)
    return found if found != 1 or (node.op in _STRAIGHT and env.shapes.of(node).kind < 2) else 2


def _stretch(node: Node, want: bool, form: dict[Node, int], env: Env) -> bool:
    if form.get(node, 0) == 0:
        return True
    if node.op == "not":
        return _stretch(node.args[0], not want, form, env)
    if node.op == ("and" if want else "or"):
        return all(_stretch(a, want, form, env) for a in node.args)
    if node.op not in _ORDERED or any(form.get(a, 0) == 2 for a in node.args):
        return False
    shapes = [(a, env.shapes.of(a)) for a in node.args]
    return all(exact_line(a, shape.kind, shape.stride, env.ranges) for a, shape in shapes)
