"""`mp.workgroup.*`: calls of the library's functions, which are written in Magpie (`magpie.lib.workgroup`).

What is wrong with a call is said here, and the code that comes in stands at the user's line: nobody who writes a kernel
has to know the library's source.
"""

from __future__ import annotations

import ast
import math

from magpie.frontend.python.builtins import KINDS, choice, reduction_operand
from magpie.frontend.python.calls import BUILTINS, Handler, argument_node
from magpie.frontend.python.context import Fx
from magpie.frontend.python.expressions import node_of, static_value
from magpie.frontend.python.functions import call_device
from magpie.frontend.python.values import Const, Num, Val
from magpie.frontend.python.views import to_index
from magpie.ir.nodes import walk
from magpie.ir.ops import identity
from magpie.language.declare import DeviceFunction

__all__: list[str] = []

Args = dict[str, Val]


def _call(fx: Fx, e: ast.Call, name: str, args: list[Val]) -> Val:
    from magpie.lib import workgroup

    function: DeviceFunction = getattr(workgroup, name)
    known = len(fx.module.kernel.functions)
    call = ast.copy_location(ast.Call(e.func, [e] * len(args), []), e)  # every argument stands at the user's call
    value = call_device(fx, function, args, {}, call)
    for made in fx.module.kernel.functions[known:]:
        made.loc = None
        for node in walk(made.body):
            node.loc = None  # a node without a place gets that of the call when it is inlined
    return value


def _reduce(kind: str | None) -> Handler:
    """A reduction with ``kind``, or with the one that the call names."""

    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        op = kind or choice(fx, e, args["op"], "op", KINDS)
        x = reduction_operand(fx, e, args["x"], op, "workgroup")
        # a NaN, if anything, loses against every number under min and max, and is what is left of NaN alone
        neutral = math.nan if x.dtype.is_float and op in ("min", "max") else identity(op, x.dtype)
        return _call(fx, e, "reduce", [Num(x), Const(op), Const(x.dtype), Const(neutral)])

    return lower


for _name, _kind in (("sum", "add"), ("min", "min"), ("max", "max"), ("reduce", None)):
    BUILTINS[f"workgroup.{_name}"] = _reduce(_kind)


def _scan(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    op = choice(fx, e, args["op"], "op", KINDS)
    exclusive = bool(static_value(fx, args["exclusive"], e, "exclusive"))
    x = reduction_operand(fx, e, args["x"], op, "workgroup")
    return _call(fx, e, "scan", [Num(x), Const(op), Const(exclusive), Const(x.dtype)])


def _broadcast(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    x = node_of(fx, args["x"], e, "mp.workgroup.broadcast")
    item = to_index(fx, args["item"], argument_node(e, ["x", "item"], "item"), "a work-item")
    return _call(fx, e, "broadcast", [Num(x), Num(item), Const(x.dtype)])


BUILTINS["workgroup.scan"] = _scan
BUILTINS["workgroup.broadcast"] = _broadcast
