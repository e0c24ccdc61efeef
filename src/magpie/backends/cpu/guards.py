"""The outermost guard of a run, such as ``if i < n``: tested once for a whole gang, so that its body needs no mask."""

from __future__ import annotations

from magpie.backends.cpu.gang import Env, GangBase
from magpie.backends.cpu.values import Value
from magpie.ir.nodes import Node, Region
from magpie.ir.ops import OPS

__all__ = ["Guard", "check", "find_guard", "guard_check", "promising"]

_ORDERED = ("lt", "le", "gt", "ge")
_INVERSE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

# The `if`, the nodes before it that its condition is made of, and which way it goes in the fast copy.
Guard = tuple[Node, list[Node], bool]


def find_guard(nodes: Region, env: Env) -> Guard | None:
    """The first varying `if` of a run whose condition is made of comparisons of lines, computed from pure nodes."""
    available: dict[Node, int] = {}
    for node in nodes:
        if node.op == "if":
            cond = node.args[0]
            if env.shapes.of(cond).kind == 0:
                return None
            order = _closure(cond, nodes)
            if order is None or not promising(cond, env):
                return None
            then, else_ = node.regions
            leaves = len(then) == 1 and then[0].op == "return"
            return node, order, not (leaves or (not then and bool(else_)))
        if node.op == "loop":
            return None
        available[node] = len(available)
    return None


def _closure(cond: Node, nodes: Region) -> list[Node] | None:
    """The nodes of this region that ``cond`` rests on, in order; None if they are not all pure."""
    wanted = {cond}
    out: list[Node] = []
    for node in reversed(nodes):
        if node in wanted:
            if not OPS[node.op].pure:
                return None
            out.append(node)
            wanted.update(node.args)
    return out[::-1]


def promising(cond: Node, env: Env) -> bool:
    """Whether a whole gang may well agree: comparisons by order of lines, joined by and, or, not."""
    if cond.op in ("and", "or", "not") and cond.dtype.is_bool:
        return all(promising(a, env) for a in cond.args)
    if env.shapes.of(cond).kind == 0:
        return True
    return cond.op in _ORDERED and all(env.shapes.of(a).kind < 2 for a in cond.args) and cond.args[0].dtype.is_int


def guard_check(probe: GangBase, guard: Guard, assumed: dict[Node, bool]) -> str:
    """An i1: the guard goes its way in every lane. ``assumed`` gets the truth values that follow from it."""
    _, order, want = guard
    for node in order:
        if node not in probe.map and not (node.type is not None and node.dtype.is_bool):
            probe.map[node] = probe.pure(node)
    return check(probe, guard[0].args[0], want, assumed)


def check(probe: GangBase, node: Node, want: bool, assumed: dict[Node, bool]) -> str:
    """An i1: ``node`` is ``want`` in every lane."""
    c = probe.c
    if (node.op == "and" and want) or (node.op == "or" and not want):
        parts = [check(probe, a, want, assumed) for a in node.args]
        assumed[node] = want
        return c.op(f"and i1 {parts[0]}, {parts[1]}")
    if node.op == "not":
        assumed[node] = want
        return check(probe, node.args[0], not want, assumed)
    if node.op in _ORDERED:
        a, b = (probe.map[x] for x in node.args)
        found = probe.difference(node, a, b) if a.kind != 2 and b.kind != 2 else None
        if found is not None:
            assumed[node] = want
            d, step = found
            op = node.op if want else _INVERSE[node.op]
            first = c.op(f"icmp s{op} i64 0, {d}")
            if step == 0:
                return first
            return c.op(f"and i1 {first}, {c.op(f'icmp s{op} i64 {step * (probe.w - 1)}, {d}')}")
    value = _value(probe, node)
    assumed[node] = want
    if value.kind == 0:
        return value.text if want else c.op(f"xor i1 {value.text}, true")
    m = probe.masks
    mask = probe.as_mask(value)
    return m.all(mask if want else m.not_(mask))


def _value(probe: GangBase, node: Node) -> Value:
    """The value of a node that may rest on bools that were not computed yet."""
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if a not in probe.map]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if top not in probe.map:
            probe.map[top] = probe.pure(top)
    return probe.map[node]
