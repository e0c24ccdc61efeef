"""Fusion: elementwise ops go into the op that makes what they read, or into the reduction that reads what they make.

A group is grown backwards from its last op: an elementwise op joins if its result has the group's shape and nobody
outside of the group reads it. The group then is the epilogue of the product, reduction or other op whose result only
the group reads; or the prologue of the one reduction that reads the group; or an elementwise chain.
"""

from __future__ import annotations

from magpie.frontend.graph.nodes import Graph, Op, Operand, Prev, Step, Value
from magpie.frontend.graph.ops import OPS

__all__ = ["fuse"]

#: Kinds of ops that take an epilogue, the ones that gain most first.
_ROOTS = {"matmul": 0, "conv": 0, "row": 1, "reduce": 1, "pool": 2, "move": 3}

#: Steps of a group: registers are few, and a kernel has as many parameters as the group reads values.
_MOST_STEPS = 48
_MOST_VALUES = 7


def fuse(graph: Graph) -> Graph:
    """Fuse what can be. Results that are outputs, or read by several ops, stay as they are."""
    return _Fuser(graph).run()


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = graph.producers
        self.users = graph.users()
        self.place = {op: k for k, op in enumerate(graph.ops)}
        self.kept_values = set(graph.outputs)
        self.gone: set[Op] = set()
        self.made: dict[Op, Op] = {}  # the last op of a group, or a reduction: what stands in its place
        self.hosts: dict[Op, Op] = {}  # of an op that has an epilogue: the last op of that

    def run(self) -> Graph:
        for op in reversed(self.graph.ops):
            if op not in self.gone and op not in self.made and self._elementwise(op):
                self._group(op)
        done = self.graph.copy()
        done.ops = [self.made.get(op, op) for op in self.graph.ops if op not in self.gone]
        return done

    def _elementwise(self, op: Op) -> bool:
        return OPS[op.name].kind == "elementwise" and not op.fused

    def _inner(self, op: Op | None, group: set[Op]) -> bool:
        """Whether an op's result is read by the group alone."""
        return (
            op is not None
            and op.result not in self.kept_values
            and op not in self.made
            and op not in self.gone
            and all(user in group for user in self.users[op.result])
        )

    def _grow(self, last: Op) -> list[Op]:
        """The elementwise ops that end in ``last``, in order."""
        group = {last}
        shape = last.result.shape
        growing = True
        while growing and len(group) < _MOST_STEPS:
            growing = False
            for member in list(group):
                for value in member.reads:
                    op = self.producers.get(value)
                    if op in group or not self._inner(op, group):
                        continue
                    assert op is not None
                    if self._elementwise(op) and op.result.shape == shape and self._narrow({*group, op}):
                        group.add(op)
                        growing = True
        return sorted(group, key=self.place.__getitem__)

    def _narrow(self, group: set[Op]) -> bool:
        """Whether a group reads few enough values. Single constants are written into the code, and do not count."""
        made = {op.result for op in group}
        read = {v for op in group for v in op.reads if v not in made and not self._single(v)}
        return len(read) <= _MOST_VALUES

    def _single(self, value: Value) -> bool:
        op = self.producers.get(value)
        return op is not None and op.name == "const" and value.size == 1

    def _group(self, last: Op) -> None:
        group = self._grow(last)
        members = set(group)
        roots = {self.producers[v] for op in group for v in op.reads if v in self.producers} - members
        shape = last.result.shape
        fitting = [
            op
            for op in roots
            if OPS[op.name].kind in _ROOTS
            and op.result.shape == shape
            and not op.epilogue
            and self._inner(op, members)
            and self._narrow({*members, op})
        ]
        if fitting:
            root = min(fitting, key=lambda op: (_ROOTS[OPS[op.name].kind], self.place[op]))
            self._replace(last, root, group)
            return
        sink = self._sink(last)
        if sink is not None:
            self._into_prologue(sink, group, last)
        elif len(group) > 1:
            self._replace(last, group[0], group[1:])

    def _replace(self, last: Op, root: Op, group: list[Op]) -> None:
        """``root`` with the group as its epilogue, in the place of ``last``."""
        known: dict[Value, Operand] = {root.result: Prev(0)}
        steps = _steps(group, known, 1)
        self.made[last] = Op(
            root.name, root.operands, last.result, root.attrs, root.loc, root.prologue, steps, root.own
        )
        self.hosts[root] = last
        self.gone.update(op for op in (root, *group) if op is not last)

    def _sink(self, last: Op) -> Op | None:
        """The reduction that alone reads what a group makes, as what it reduces."""
        users = self.users[last.result]
        if len(set(users)) != 1 or last.result in self.kept_values:
            return None
        (user,) = set(users)
        now = self.made.get(self.hosts.get(user, user), user)
        takes = OPS[user.name].kind in ("reduce", "row") and not now.prologue
        if not takes or user.operands[0] is not last.result or last.result in user.operands[1:]:
            return None
        return user

    def _into_prologue(self, sink: Op, group: list[Op], last: Op) -> None:
        known: dict[Value, Operand] = {}
        steps = _steps(group, known, 0)
        place = self.hosts.get(sink, sink)
        now = self.made.get(place, sink)
        operands = (Prev(len(steps) - 1), *now.operands[1:])
        self.made[place] = Op(now.name, operands, now.result, now.attrs, now.loc, steps, now.epilogue, now.own)
        self.gone.update(group)
        assert last in self.gone


def _steps(group: list[Op], known: dict[Value, Operand], count: int) -> list[Step]:
    """Ops as steps, of which ``count`` results are there before the first."""
    steps = []
    for k, op in enumerate(group):
        args = tuple(known.get(x, x) if isinstance(x, Value) else x for x in op.operands)
        steps.append(Step(op.name, args, tuple(op.attrs.items()), op.result.dtype, op.loc))
        known[op.result] = Prev(count + k)
    return steps
