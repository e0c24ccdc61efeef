"""Loops: while, range, unrolled loops, break and continue."""

from __future__ import annotations

import ast

from magpie.dtypes import bool_
from magpie.frontend.python.context import STATEMENTS, Fx, LoopState
from magpie.frontend.python.expressions import condition, static_value
from magpie.frontend.python.scope import assigned_in, target_names
from magpie.frontend.python.statements import meet, unpack
from magpie.frontend.python.values import Const, Num, Shape, Tuple, Val, known
from magpie.frontend.python.views import to_index
from magpie.ir.nodes import Node, Slot
from magpie.language._builtin import Builtin

__all__: list[str] = []

_MAX_UNROLL = 4096
_MAX_TOTAL = 1 << 16


def _while(fx: Fx, s: ast.While) -> None:
    test: Const | Node = Const(True)
    if isinstance(s.test, ast.Constant) and not s.test.value:
        fx.block(s.orelse)
        return
    state = LoopState()
    broken = _else_flag(fx, s, state)
    fx.b.loc = fx.source.loc(s)
    _, body, _ = fx.b.loop()
    fx.loops.append(state)
    try:
        with fx.into(body):
            test = condition(fx, s.test)
            at_test = fx.assigned
            if isinstance(test, Const):
                if not test.value:
                    fx.b.emit("break")
                    fx.assigned = None
            else:
                fx.b.loc = fx.source.loc(s.test)
                fx.b.emit("break_if", fx.b.emit("not", test))
            fx.block(s.body)
    finally:
        fx.loops.pop()
    ends = isinstance(test, Const) and bool(test.value)
    fx.assigned = None if ends else at_test
    _finish_loop(fx, s, state, broken)


def _else_flag(fx: Fx, s: ast.While | ast.For, state: LoopState) -> Slot | None:
    if not s.orelse:
        return None
    state.broken = Slot("broken", bool_)
    fx.b.set(state.broken, fx.b.const(False, bool_))
    return state.broken


def _finish_loop(fx: Fx, s: ast.While | ast.For, state: LoopState, broken: Slot | None) -> None:
    """Lower the `else` of a loop, which runs unless it was left by break, and join what is assigned."""
    normal = fx.assigned
    if s.orelse and normal is not None:
        if state.breaks:
            assert broken is not None
            _, then, _ = fx.b.if_(fx.b.emit("not", fx.b.get(broken)))
            with fx.into(then):
                fx.block(s.orelse)
        else:
            fx.block(s.orelse)
        normal = fx.assigned
    fx.assigned = meet(normal, *state.breaks)


def _for(fx: Fx, s: ast.For) -> None:
    call = s.iter
    what = fx.expr(call.func) if isinstance(call, ast.Call) else None
    function = what.value if isinstance(what, Const) else None
    if function is range:
        assert isinstance(call, ast.Call)
        _range_loop(fx, s, call)
    elif isinstance(function, Builtin) and function.name == "static_range":
        assert isinstance(call, ast.Call)
        _unrolled(fx, s, call)
    elif isinstance(call, ast.Tuple | ast.Name | ast.Attribute) and isinstance(items := fx.expr(call), Tuple | Shape):
        _unroll(fx, s, fx.items(items), call)
    else:
        name = getattr(function, "__name__", "")
        help = {
            "enumerate": "use for i in range(len(x)) and x[i]",
            "zip": "use for i in range(n) and index both",
            "reversed": "use range(n - 1, -1, -1)",
        }.get(name, "use for i in range(len(x)) and x[i]")
        raise fx.fail(
            "MPG_PY_1001", "a kernel iterates over range(...), mp.static_range(...) and tuples only", s.iter, help=help
        )


def _target(fx: Fx, s: ast.For) -> str:
    if not isinstance(s.target, ast.Name):
        raise fx.fail(
            "MPG_PY_1001", "the target of for is one variable in a kernel", s.target, help="for i in range(...)"
        )
    return s.target.id


def _bounds(fx: Fx, call: ast.Call, name: str) -> list[tuple[Val, ast.expr]]:
    if call.keywords or not 1 <= len(call.args) <= 3 or any(isinstance(a, ast.Starred) for a in call.args):
        raise fx.fail(
            "MPG_PY_1012",
            f"{name} takes 1 to 3 values",
            call,
            help=f"it is {name}(stop) or {name}(start, stop[, step])",
        )
    args = [(fx.expr(a), a) for a in call.args]
    if len(args) == 1:
        return [(Const(0), call.args[0]), args[0], (Const(1), call.args[0])]
    return args if len(args) == 3 else [*args, (Const(1), call.args[0])]


def _range_loop(fx: Fx, s: ast.For, call: ast.Call) -> None:
    name = _target(fx, s)
    parts = _bounds(fx, call, "range")
    fixed = [known(v) for v, _ in parts]
    if fixed[2] == 0:
        raise fx.fail("MPG_PY_1016", "the step of range is 0", parts[2][1], help="use a step such as 1 or -1")
    start, stop, step = (to_index(fx, v, at, "a bound of range") for v, at in parts)
    runs = all(isinstance(v, int) for v in fixed) and len(range(*fixed)) > 0
    inside = assigned_in(s.body)
    var = fx.vars[name]
    if name in inside:
        var.forced = True
        _warn_steering(fx, s, name)
    state = LoopState()
    broken = _else_flag(fx, s, state)
    before = fx.assigned
    outer = fx.env.get(name)
    fx.loops.append(state)
    fx.b.loc = fx.source.loc(s)
    try:
        with fx.b.counted(start, stop, step, name) as value:
            # the builder has moved into the loop's body
            fx.regions.append(fx.b.region)
            try:
                fx.mark(name)
                if var.first is None:
                    var.first = fx.source.loc(s.target)
                val = Num(value)
                if var.slotted:
                    fx.store_into(var, val, s.target)
                if name not in inside:
                    fx.env[name] = (val, fx.b.region)
                fx.block(s.body)
                at_end = fx.assigned
            finally:
                fx.regions.pop()
    finally:
        fx.loops.pop()
    if var.slotted:
        fx.env.pop(name, None)
        if outer is not None and outer[0] is None:
            fx.env[name] = outer
    fx.assigned = meet(at_end, *state.continues) if runs else before
    _finish_loop(fx, s, state, broken)


def _warn_steering(fx: Fx, s: ast.For, name: str) -> None:
    for statement in s.body:
        for node in ast.walk(statement):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AugAssign | ast.NamedExpr)
                else []
            )
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name:
                    fx.warn(
                        "MPG_PY_1028",
                        f"assigning {name} does not change the trips of the loop",
                        node,
                        "use while to skip ahead, or another name",
                    )
                    return


def _unrolled(fx: Fx, s: ast.For, call: ast.Call) -> None:
    _target(fx, s)
    parts = _bounds(fx, call, "mp.static_range")
    values = [static_value(fx, v, at, "a bound of mp.static_range") for v, at in parts]
    for value, (_, at) in zip(values, parts, strict=True):
        if not isinstance(value, int) or isinstance(value, bool):
            raise fx.fail(
                "MPG_PY_1007", f"a bound of mp.static_range is an integer, not {value!r}", at, help="use an int"
            )
    if values[2] == 0:
        raise fx.fail("MPG_PY_1016", "the step of mp.static_range is 0", parts[2][1], help="use a step such as 1 or -1")
    trips = range(*values)
    if len(trips) > _MAX_UNROLL:
        raise fx.fail(
            "MPG_PY_1025",
            f"mp.static_range would write the body {len(trips)} times; the limit is {_MAX_UNROLL}",
            call,
            help="use range",
        )
    _unroll(fx, s, [Const(k) for k in trips], call)


def _unroll(fx: Fx, s: ast.For, items: list[Val], at: ast.expr) -> None:
    """The body once per item, with the target standing for it."""
    fx.unrolled += len(items)
    if fx.unrolled > _MAX_TOTAL:
        raise fx.fail(
            "MPG_PY_1025",
            f"unrolled loops write more than {_MAX_TOTAL} bodies in this function",
            at,
            help="use range for the outer loop",
        )
    inside = assigned_in(s.body)
    names = list(target_names(s.target))
    for name in names:
        fx.vars[name].forced |= name in inside
    for item in items:
        if fx.assigned is None:
            return
        state = LoopState(fx.b.region)
        fx.loops.append(state)
        try:
            _bind_target(fx, s.target, item, inside)
            fx.block(s.body)
        finally:
            fx.loops.pop()
        if state.breaks:
            fx.assigned = state.breaks[0]
            break
        if state.continues:
            fx.assigned = state.continues[0]
    else:
        if s.orelse:
            fx.block(s.orelse)
    for name in names:
        if fx.vars[name].slotted:
            fx.env.pop(name, None)


def _bind_target(fx: Fx, target: ast.expr, item: Val, inside: frozenset[str]) -> None:
    """The variables of an unrolled loop: constants inside of it, unless its body assigns them."""
    if isinstance(target, ast.Tuple | ast.List):
        for part, value in zip(target.elts, unpack(fx, item, len(target.elts), target), strict=True):
            _bind_target(fx, part, value, inside)
        return
    if not isinstance(target, ast.Name):
        raise fx.fail("MPG_PY_1001", "the target of for is a variable in a kernel", target, help="for i in range(...)")
    var = fx.vars[target.id]
    fx.mark(target.id)
    if var.first is None:
        var.first = fx.source.loc(target)
    if var.slotted:
        fx.store_into(var, item, target)
    if target.id not in inside:
        fx.env[target.id] = (item, fx.b.region)


def _leave(fx: Fx, s: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(s, ast.Break) else "continue"
    state = fx.loops[-1]  # Python refuses one outside of a loop
    states = state.breaks if word == "break" else state.continues
    if state.static is not None:
        if fx.b.region is not state.static:
            raise fx.fail(
                "MPG_PY_1031",
                f"{word} under a run-time condition in an unrolled loop",
                s,
                help="use range, or put the rest of the body under if",
            )
        states.append(fx.assigned)
        fx.assigned = None
        return
    if word == "break" and state.broken is not None:
        fx.b.set(state.broken, fx.b.const(True, bool_))
    fx.b.emit(word)
    states.append(fx.assigned)
    fx.assigned = None


STATEMENTS.update({ast.While: _while, ast.For: _for, ast.Break: _leave, ast.Continue: _leave})
