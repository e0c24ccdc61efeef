"""Integer arithmetic of tiny-gpu code: a difference is a sum with a product by -1, min and max are a comparison and a
branch, logic on 0 and 1 is sums and products. What has no instructions is refused here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magpie.backends.tgpu.code import Label, Virtual
from magpie.backends.tgpu.isa import wrap
from magpie.ir.nodes import Node

if TYPE_CHECKING:
    from magpie.backends.tgpu.emit import Emitter, Value

__all__ = ["ADVICE", "HANDLERS", "signed"]

ADVICE = {
    "floordiv": "a quotient of what the launch knows is computed before; others need another algorithm",
    "mod": "a remainder of what the launch knows is computed before; others need another algorithm",
    "tdiv": "a quotient of what the launch knows is computed before; others need another algorithm",
    "trem": "a remainder of what the launch knows is computed before; others need another algorithm",
    "div": "tiny-gpu has integers only",
    "shr": "halve a number that the launch knows, or count with a loop",
    "atomic_rmw": "let one work-item write each element",
    "assert": "check what a kernel wrote on the host",
    "print": "write what you want to see to an array",
    "barrier": "barriers stand at the top level of a kernel",
}


def arithmetic(e: Emitter, node: Node) -> None:
    op = node.op
    a = e.value(node.args[0])
    b = e.value(node.args[1]) if len(node.args) > 1 else 0
    low, high = _exact(e, node)
    if not e.narrow(node, low, high):
        e.values[node] = 0
    elif op == "add":
        e.values[node] = e.add(a, b)
    elif op == "mul":
        e.values[node] = e.mul(a, b)
    elif op == "sub":
        e.values[node] = e.add(a, e.mul(b, -1))
    elif op == "neg":
        e.values[node] = e.mul(a, -1)
    else:
        shift(e, node, a, b)


def shift(e: Emitter, node: Node, a: Value, count: Value) -> None:
    """A shift to the left by a known count is a product."""
    width = min(32, node.dtype.bits)
    if isinstance(count, Virtual):
        e.values[node] = e.refuse(2001, "tiny-gpu has no shift by a number that the launch does not know", node)
    elif isinstance(count, int):
        e.values[node] = e.mul(a, wrap(1 << count % width))
    else:
        e.values[node] = e.mul(a, ("shl", ("const", 1), ("and", count, ("const", width - 1))))


def _exact(e: Emitter, node: Node) -> tuple[int, int]:
    """Where the result of a sum or product of narrow integers lies before it wraps."""
    if node.dtype.bits >= 32:
        return (0, 0)
    (a, b), (c, d) = e.interval(node.args[0]), e.interval(node.args[-1])
    if node.op == "add":
        return (a + c, b + d)
    if node.op == "sub":
        return (a - d, b - c)
    if node.op == "neg":
        return (-b, -a)
    if node.op == "shl":
        c, d = (1 << n % node.dtype.bits for n in (c, d))
    products = [x * y for x in (a, b) for y in (c, d)]
    return (min(products), max(products))


def extremum(e: Emitter, node: Node) -> None:
    """min and max, by a comparison and a branch that steps over the second operand."""
    (low_a, high_a), (low_b, high_b) = (e.interval(a) for a in node.args)
    a, b = (e.number(x) for x in node.args)
    greater = node.op == "max"
    if (low_a >= high_b) if greater else (high_a <= low_b):
        e.values[node] = a
        return
    if (low_b >= high_a) if greater else (high_b <= low_a):
        e.values[node] = b
        return
    if not isinstance(a, Virtual):
        a, b = b, a
    x, y, bias = signed(e, node.args[0], a, b)
    made, skip = e.register(a), Label()
    e.code.emit("CMP", made if not bias else x, e.operand(y))
    e.code.emit("BRGT" if greater else "BRLT", skip)
    e.code.emit("SET", made, e.operand(b))
    e.code.place(skip)
    e.values[node] = made


def signed(e: Emitter, like: Node, a: Value, b: Value) -> tuple[Value, Value, bool]:
    """Operands whose order as signed numbers is that of a and b: of u32 both are moved by 2**31."""
    if like.dtype.kind != "uint" or like.dtype.bits < 32:
        return a, b, False
    return e.add(a, -(1 << 31)), e.add(b, -(1 << 31)), True


def absolute(e: Emitter, node: Node) -> None:
    low, high = e.interval(node.args[0])
    if not e.narrow(node, 0, max(-low, high)):
        e.values[node] = 0
        return
    if low >= 0:
        e.values[node] = e.value(node.args[0])
        return
    made, skip = e.register(e.number(node.args[0])), Label()
    e.code.emit("CMP", made, 0)
    e.code.emit("BRGT", skip)
    e.code.emit("MUL", made, made, -1)
    e.code.place(skip)
    e.values[node] = made


def quotient(e: Emitter, node: Node) -> None:
    """Divisions and masks that change nothing, or give nothing; the others have no instructions."""
    a, b = node.args
    (low, high), by = e.interval(a), e.value(b)
    if isinstance(by, int) and by > 0 and low >= 0:
        if node.op in ("floordiv", "tdiv") and (high < by or by == 1):
            e.values[node] = 0 if high < by else e.value(a)
            return
        if node.op in ("mod", "trem") and high < by:
            e.values[node] = e.value(a)
            return
        if node.op == "and" and by & (by + 1) == 0 and high <= by:
            e.values[node] = e.value(a)
            return
    if node.dtype.is_bool:
        logic(e, node)
        return
    e.values[node] = e.refuse(2001, f"tiny-gpu has nothing to compute `{node.op}` with", node, ADVICE.get(node.op))


def logic(e: Emitter, node: Node) -> None:
    """and, or, xor and not of numbers that are 0 or 1, without a branch."""
    a = e.value(node.args[0])
    if node.op == "not" and not node.dtype.is_bool:
        most = node.dtype.max if node.dtype.kind == "uint" and node.dtype.bits < 32 else -1
        e.values[node] = e.add(e.mul(a, -1), most)  # ~x is -1 - x, and of narrow unsigned ones MAX - x
        return
    if node.op == "not":
        e.values[node] = e.add(e.mul(a, -1), 1)
        return
    if not node.dtype.is_bool:
        e.values[node] = e.refuse(
            2001, f"tiny-gpu has nothing to compute `{node.op}` of integers with", node, ADVICE.get(node.op)
        )
        return
    b = e.value(node.args[1])
    both = e.mul(a, b)
    if node.op == "and":
        e.values[node] = both
        return
    e.values[node] = e.add(e.add(a, b), e.mul(both, -1 if node.op == "or" else -2))


def cast(e: Emitter, node: Node) -> None:
    source, t = node.args[0], node.dtype
    if node.op == "bitcast" or source.dtype.is_bool or t.bits >= 32:
        e.values[node] = e.value(source)
        return
    low, high = e.interval(source)
    e.values[node] = e.value(source) if e.narrow(node, low, high) else 0


HANDLERS: dict[str, Callable[[Any, Node], None]] = {
    "add": arithmetic,
    "sub": arithmetic,
    "mul": arithmetic,
    "neg": arithmetic,
    "shl": arithmetic,
    "min": extremum,
    "max": extremum,
    "abs": absolute,
    "floordiv": quotient,
    "mod": quotient,
    "tdiv": quotient,
    "trem": quotient,
    "and": quotient,
    "or": logic,
    "xor": logic,
    "not": logic,
    "cast": cast,
    "bitcast": cast,
    "uniform": cast,
}
