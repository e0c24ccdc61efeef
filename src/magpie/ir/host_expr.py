"""Values of Kernel IR that the host can compute at launch: the lengths of dynamic shared memory."""

from __future__ import annotations

from magpie.dtypes import DType, index
from magpie.ir.layout import HOST_OPS, HostEnv, evaluate
from magpie.ir.nodes import HostExpr, Node

__all__ = ["host_expr"]

_NO_ENV = HostEnv({}, {}, {}, (1, 1, 1), (1, 1, 1))  # for constants, which ask it nothing


def host_expr(node: Node) -> HostExpr | None:
    """``node`` as an expression that the host evaluates at launch; None if it depends on the device."""
    op, args = node.op, node.args
    if op == "const":
        return ("const", int(node.attrs["value"])) if not isinstance(node.attrs["value"], float) else None
    if op == "param":
        return ("param", node.attrs["name"])
    if op in ("extent", "stride"):
        array = node.attrs["array"]
        return (op, array.name, node.attrs["dim"]) if array.space == "buffer" else None
    if op in ("workgroup_size", "num_workgroups"):
        return (op, node.attrs["dim"])
    parts = [host_expr(a) for a in args]
    if not parts or any(p is None for p in parts):
        return None
    found: HostExpr | None = None
    if op == "cast":
        t = node.type
        if isinstance(t, DType) and not t.is_float and not args[0].dtype.is_float:
            found = ("cast", t.name, parts[0])
    elif op in HOST_OPS and isinstance(args[0].type, DType) and not args[0].dtype.is_float:
        t = node.type
        if isinstance(t, DType) and not t.is_float:
            found = (op, *parts)
            if t.is_int and (t.bits, t.min) != (64, index.min):
                found = ("cast", t.name, found)  # the host computes with 64 bits
    if found is not None and all(p is not None and p[0] == "const" for p in parts):
        return ("const", evaluate(found, _NO_ENV))
    return found
