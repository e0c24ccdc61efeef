"""Adjacent workgroups abreast: row by row through all of them, in place of one workgroup after the other.

A workgroup of 16 by 16 work-items touches 16 rows of an image, a line or less of each. The next one goes on in the same
rows, but by then they may be gone: rows that are a multiple of 2 KiB apart fall into one or two sets of a first-level
cache, and these have 8 or 12 ways; and prefetchers, which want longer runs, fetch in vain. So workgroups that lie side
by side take their first rows one after the other, then their second ones, and so on. A 5-point stencil of floats (ms,
one thread, EPYC):

    ==========================  ===========  ===========  ===========  ===========  ===========
    workgroup                   1000^2       1024^2       2048^2       4000^2       4096^2
    ==========================  ===========  ===========  ===========  ===========  ===========
    16 x 16, mp arrays          1.4 -> 0.6   1.6 -> 0.8   6.3 -> 2.7   8.2 -> 8.8   45 -> 12
    16 x 16, NumPy arrays       1.9 -> 0.6   1.8 -> 0.7   7.3 -> 2.8   45 -> 10     41 -> 13
    32 x 8, mp arrays           0.7 -> 0.4   0.7 -> 0.6   4.2 -> 2.7   (9 -> 13)    12 -> 11
    32 x 8, NumPy arrays        0.7 -> 0.4   0.8 -> 0.6   3.8 -> 2.9   (14 -> 17)   16 -> 13
    ==========================  ===========  ===========  ===========  ===========  ===========

A few rows of an image that is larger than the caches are better taken at once, where they do not meet in a set: memory
then works on several pages. The cases in brackets are therefore left as they were. Where the output stays in the
caches, two rows are enough (one thread, EPYC, mp arrays):

    ==========================  ==============  ==============  ==============
    workgroup                   512^2           1024^2          2048^2
    ==========================  ==============  ==============  ==============
    5-point stencil, 64 x 4     0.13 -> 0.11    0.62 -> 0.47    4.4 -> 3.4
    5-point stencil, 64 x 2     0.13 -> 0.10    0.56 -> 0.46    4.3 -> 3.7
    3x3 convolution, 64 x 4     0.15 -> 0.13    0.95 -> 0.77    5.4 -> 4.4
    sum of two, 64 x 4          0.10 -> 0.08    0.61 -> 0.48    4.1 -> 3.9
    ==========================  ==============  ==============  ==============

A transposition by work-items goes along the columns of an array. The rows of a workgroup then share lines of them, and
must be taken while these are there: abreast, one of 512^2 by 16 x 16 takes 1.1 ms in place of 0.2.
"""

from __future__ import annotations

from magpie.backends.cpu import abi
from magpie.backends.cpu.gang import Env
from magpie.backends.cpu.lane_shapes import Shapes
from magpie.backends.cpu.order import in_bands
from magpie.backends.cpu.regions import Plan
from magpie.ir.nodes import Buffer, Node, walk
from magpie.passes.exits import runs_once

__all__ = ["go_abreast", "runs_on"]

# Rows so many bytes apart, or a multiple of that, share sets.
_APART = 2048
# Rows of a workgroup from which on it is worth it where rows share sets, and those that are too many at any distance.
_ROWS, _MANY = 8, 16

# What orders work-items of different workgroups, or shows their order.
_ORDERED = ("fence", "atomic", "subgroup", "print", "assert", "trap", "barrier")


def go_abreast(env: Env, plan: Plan) -> str:
    """An i1: adjacent workgroups go row by row; a literal, or computed in the entry block.

    They may only where nothing tells in which order they run. A loop has its own way through memory.
    """
    kernel, launch = env.kernel, env.launch
    size = kernel.known_workgroup
    if size is None or size[1] * size[2] < 2 or kernel.shared or plan.several or env.checked or env.large:
        return "false"
    nodes = list(walk(kernel.body))
    if in_bands(kernel) or any(n.op.startswith(_ORDERED) or (n.op == "loop" and not runs_once(n)) for n in nodes):
        return "false"
    stored = dict.fromkeys(a for a in (_plane(n, "store") for n in nodes) if a is not None)
    planes = dict.fromkeys(a for a in (_plane(n, "store", "load") for n in nodes) if a is not None)
    if not stored or not env.layout.rows or any(_crosses_rows(n, env.shapes) for n in nodes):
        return "false"
    if size[1] * size[2] >= _MANY:
        return "true"
    tests = []
    for array in planes if size[1] * size[2] >= _ROWS else ():
        distance = launch.times(launch.stride(array, array.rank - 2), str(array.type.itemsize))
        low = _entry(env, f"and i64 {distance}, {_APART - 1}")
        tests.append(_entry(env, f"icmp eq i64 {low}, 0"))
    small = "true"
    for array in stored:
        nbytes = str(array.type.itemsize)
        for d in range(array.rank):
            nbytes = launch.times(nbytes, launch.extent(array, d))
        fits = _entry(env, f"icmp ult i64 {nbytes}, {launch.tail(abi.STREAM_WORD)}")
        small = fits if small == "true" else _entry(env, f"and i1 {small}, {fits}")
    found = small
    for test in tests:
        found = _entry(env, f"or i1 {found}, {test}")
    return found


def runs_on(env: Env) -> bool:
    """Whether a row of workgroups abreast may be one row of gangs: along it, global_id alone tells work-items apart."""
    size = env.kernel.known_workgroup
    if size is None or size[0] % env.layout.width:
        return False
    return not any(
        n.op == "linear_local_id" or (n.op in ("thread_id", "workgroup_id") and n.attrs["dim"] == 0)
        for n in walk(env.kernel.body)
    )


def _crosses_rows(node: Node, shapes: Shapes) -> bool:
    """Whether lanes that follow each other go to different rows of an array, as in a transposition."""
    array = node.attrs.get("array")
    if node.op not in ("load", "store") or not isinstance(array, Buffer):
        return False
    *rows, column = (shapes.of(a) for a in node.args[: array.rank])
    return any(s.kind for s in rows) or (column.kind == 1 and column.stride is None)


def _entry(env: Env, text: str) -> str:
    return env.code.op_in(env.code.entry, text)


def _plane(node: Node, *ops: str) -> Buffer | None:
    """The array that one of these accesses goes to by rows."""
    array = node.attrs.get("array")
    return array if node.op in ops and isinstance(array, Buffer) and array.rank > 1 else None
