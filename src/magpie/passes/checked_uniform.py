"""Checked mode on targets without a vectoriser: what is to be the same for a whole workgroup is compared (RULES 13).

Work-item 0 of the workgroup puts its value into a shared word, the others compare theirs with it, report a difference,
and all go on with that one: so a barrier that depends on it is reached by all or by none, whatever was found.
"""

from __future__ import annotations

from dataclasses import replace

from magpie.dtypes import DType, index, u8, u16, u32, u64
from magpie.ir.nodes import Kernel, Node, SharedArray, walk
from magpie.passes.rewrite import Rewriter
from magpie.passes.uniformity import Level, Uniformity, analyse

__all__ = ["check_uniform"]

_BITS = {8: u8, 16: u16, 32: u32, 64: u64}


class _Checker(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__({"uniform": _asserted, "if": _branch, "break_if": _branch})
        self.found: Uniformity = analyse(kernel)
        self.barriers = any(n.op == "barrier" for n in walk(kernel.body))
        self.word = SharedArray("uniform.word", u64, (1,))
        self.used = False

    def by_all(self, node: Node) -> bool:
        """Whether all work-items reach ``node``, given that the doubtful branches on the way are compared."""
        level, unknown = self.found.reach(node)
        return level < Level.SUBGROUP and (not unknown or self.barriers)

    def same(self, value: Node) -> Node:
        """Work-item 0's ``value``, of the output; the others report theirs where it differs."""
        self.used = True
        b, t = self.out, value.dtype
        bits = value if t.is_bool else b.emit("bitcast", value, type=_BITS[t.bits])
        wide = b.cast(bits, u64)
        zero = b.const(0, index)
        b.emit("barrier")
        _, first, _ = b.if_(b.emit("eq", b.emit("linear_local_id"), zero))
        with b.into(first):
            b.store(self.word, (zero,), wide)
        b.emit("barrier")
        one = b.load(self.word, zero)
        b.emit("assert", b.emit("eq", wide, one), message=None, kind="uniform")
        return _narrow(self, one, t)


def _narrow(rw: Rewriter, word: Node, t: DType) -> Node:
    b = rw.out
    if t.is_bool:
        return b.emit("ne", word, b.const(0, u64))
    return b.emit("bitcast", b.cast(word, _BITS[t.bits]), type=t)


def _asserted(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Checker)
    return rw.same(rw.value(node.args[0])) if rw.by_all(node) else rw.keep(node)


def _branch(rw: Rewriter, node: Node) -> Node | None:
    """A branch that barriers may depend on, and that is the same for all only if nobody writes what it reads."""
    assert isinstance(rw, _Checker)
    condition = node.args[0]
    if rw.barriers and rw.found.unknown(condition) and rw.found.level(condition) < Level.SUBGROUP and rw.by_all(node):
        before = rw.values.get(condition)
        rw.values[condition] = rw.same(rw.value(condition))
        rw.keep(node)
        if before is None:
            del rw.values[condition]
        else:
            rw.values[condition] = before
    else:
        rw.keep(node)
    return None


def check_uniform(kernel: Kernel) -> Kernel:
    """``kernel``, a prepared one, with its uniform values compared wherever all work-items of a workgroup come by."""
    rw = _Checker(kernel)
    body = rw.region(kernel.body)
    return replace(kernel, body=body, shared=[*kernel.shared, rw.word]) if rw.used else kernel
