"""Warps: lanes exchange values by `shfl.sync`, `vote.sync` and, from sm_80 on, `redux.sync`."""

from __future__ import annotations

from magpie.backends.llvm.emitter import Code, element
from magpie.backends.llvm.lanes import Lanes
from magpie.dtypes import DType

__all__ = ["WARP", "redux"]

_REDUX = {"add": "add", "and": "and", "or": "or", "xor": "xor"}
_SHUFFLE = {"idx": "idx", "same": "idx", "butterfly": "bfly", "up": "up"}


class _Warp(Lanes):
    """All exchanges name the lanes that take part."""

    def lane(self, c: Code) -> str:
        name = c.module.declare("llvm.nvvm.read.ptx.sreg.laneid", "i32", "")
        return c.op(f"call range(i32 0, 32) i32 {name}()")

    def below(self, c: Code, mask: str) -> str:
        under = c.call("llvm.nvvm.read.ptx.sreg.lanemask.lt", "i32")
        return c.call("llvm.ctpop.i32", "i32", ("i32", c.op(f"and i32 {under}, {mask}")))

    def ballot(self, c: Code, mask: str, cond: str) -> str:
        return c.call("llvm.nvvm.vote.ballot.sync", "i32", ("i32", mask), ("i1", cond))

    def any(self, c: Code, mask: str, cond: str) -> str:
        return c.call("llvm.nvvm.vote.any.sync", "i1", ("i32", mask), ("i1", cond))

    def all(self, c: Code, mask: str, cond: str) -> str:
        return c.call("llvm.nvvm.vote.all.sync", "i1", ("i32", mask), ("i1", cond))

    def word(self, c: Code, mask: str, value: str, at: str, kind: str) -> str:
        # The last operand: segments of 32 lanes, and the bound that a lane number is held to.
        bound = "0" if kind == "up" else "31"
        name = f"llvm.nvvm.shfl.sync.{_SHUFFLE[kind]}.i32"
        return c.call(name, "i32", ("i32", mask), ("i32", value), ("i32", at), ("i32", bound))

    def barrier(self, c: Code, mask: str) -> None:
        c.do(f"call void {c.module.declare('llvm.nvvm.bar.warp.sync', 'void', 'i32')}(i32 {mask})")


WARP = _Warp(32)


def redux(c: Code, mask: str, kind: str, t: DType, value: str) -> str:
    """A reduction in one instruction, which sm_80 has for integers of up to 32 bits; empty for others."""
    if t.bits > 32 or t.is_float or not (kind in _REDUX or kind in ("min", "max")):
        return ""
    elem = element(t)
    wide = value if elem == "i32" else c.op(f"{'sext' if t.kind == 'int' else 'zext'} {elem} {value} to i32")
    name = _REDUX.get(kind, kind if t.kind == "int" else f"u{kind}")
    out = c.call(f"llvm.nvvm.redux.sync.{name}", "i32", ("i32", wide), ("i32", mask))
    return out if elem == "i32" else c.op(f"trunc i32 {out} to {elem}")
