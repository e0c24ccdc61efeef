"""Waves: lanes exchange values by DPP where the distance is fixed, by readlane where one is meant, else by bpermute.

All of these act on the lanes that run. That those are the lanes of the computed mask follows from the joins that
`magpie.backends.llvm.simt_masks` makes: LLVM reconverges at post-dominators, and keeps convergent operations where the
same lanes run.
"""

from __future__ import annotations

from magpie.backends.llvm.emitter import Code
from magpie.backends.llvm.lanes import Lanes

__all__ = ["Wave"]

# Controls of DPP (LLVM, SIDefines.h, DPP::DppCtrl): permutations of four lanes, and mirrors of 8 and 16.
_QUAD_XOR = {1: 0xB1, 2: 0x4E}
_MIRROR = {4: 0x141, 8: 0x140}
# ds_swizzle in its bit mode: lane ^ 16 within 32 lanes.
_SWIZZLE_XOR_16 = 16 << 10 | 0x1F


class Wave(Lanes):
    """``generation`` is that of the architecture."""

    def __init__(self, size: int, generation: int) -> None:
        super().__init__(size)
        self.generation = generation
        # RDNA 1 to 3 permute within 32 lanes only.
        self.halves = size == 64 and generation in (10, 11)

    def lane(self, c: Code) -> str:
        return self.below(c, "-1")

    def below(self, c: Code, mask: str) -> str:
        if self.size == 32:
            return self._count(c, "lo", mask, "0")
        low, high = "-1", "-1"
        if mask != "-1":
            low = c.op(f"trunc i64 {mask} to i32")
            high = c.op(f"trunc i64 {c.op(f'lshr i64 {mask}, 32')} to i32")
        return self._count(c, "hi", high, self._count(c, "lo", low, "0"))

    @staticmethod
    def _count(c: Code, half: str, mask: str, more: str) -> str:
        return c.call(f"llvm.amdgcn.mbcnt.{half}", "i32", ("i32", mask), ("i32", more))

    def ballot(self, c: Code, mask: str, cond: str) -> str:
        return c.call(f"llvm.amdgcn.ballot.{self.mask}", self.mask, ("i1", cond))

    def barrier(self, c: Code, mask: str) -> None:
        name = c.module.declare("llvm.amdgcn.wave.barrier", "void", "")
        for line in ('fence syncscope("wavefront") release', f"call void {name}()"):
            c.do(line)
        c.do('fence syncscope("wavefront") acquire')

    # --- exchanges -----------------------------------------------------------------------------------------------
    def word(self, c: Code, mask: str, value: str, at: str, kind: str) -> str:
        if kind == "same":
            return self.read(c, value, c.call("llvm.amdgcn.readfirstlane.i32", "i32", ("i32", at)))
        if kind == "butterfly":
            return self.butterfly(c, value, int(at))
        return self.gather(c, value, c.op(f"sub i32 {self.lane(c)}, {at}") if kind == "up" else at)

    @staticmethod
    def read(c: Code, value: str, at: str) -> str:
        """The value of one lane, for all."""
        return c.call("llvm.amdgcn.readlane.i32", "i32", ("i32", value), ("i32", at))

    @staticmethod
    def permute(c: Code, value: str, at: str) -> str:
        """The value of the lane ``at``, modulo the lanes that a permutation reaches."""
        return c.call("llvm.amdgcn.ds.bpermute", "i32", ("i32", c.op(f"shl i32 {at}, 2")), ("i32", value))

    def gather(self, c: Code, value: str, at: str) -> str:
        """The value of lane ``at``."""
        if not self.halves:
            return self.permute(c, value, at)
        if self.generation == 10:
            name = c.module.helper("lanes.search", lambda: _SEARCH)
            for intrinsic, types in (("readfirstlane", "i32"), ("readlane", "i32, i32")):
                c.module.declare(f"llvm.amdgcn.{intrinsic}.i32", "i32", types)
            at = c.op(f"and i32 {at}, 63")
            return c.op(f"call i32 {name}(i32 {value}, i32 {at})")
        here = self.permute(c, value, at)
        there = self.permute(c, c.call("llvm.amdgcn.permlane64.i32", "i32", ("i32", value)), at)
        apart = c.op(f"and i32 {c.op(f'xor i32 {at}, {self.lane(c)}')}, 32")
        return c.op(f"select i1 {c.op(f'icmp eq i32 {apart}, 0')}, i32 {here}, i32 {there}")

    def butterfly(self, c: Code, value: str, distance: int) -> str:
        """The value of the lane at a distance that is a power of two, where runs of that length hold one value."""
        control = _QUAD_XOR.get(distance, _MIRROR.get(distance))
        if control is not None:
            words = ("poison", value, str(control), "15", "15")
            return c.call("llvm.amdgcn.update.dpp.i32", "i32", *(("i32", w) for w in words), ("i1", "true"))
        if distance == 16:
            if self.generation == 9:
                return c.call("llvm.amdgcn.ds.swizzle", "i32", ("i32", value), ("i32", str(_SWIZZLE_XOR_16)))
            selected = ("poison", value, "0", "0")
            flags = (("i1", "true"), ("i1", "true"))
            return c.call("llvm.amdgcn.permlanex16.i32", "i32", *(("i32", w) for w in selected), *flags)
        low, high = (self.read(c, value, lane) for lane in ("0", "32"))
        first = c.op(f"icmp ult i32 {self.lane(c)}, 32")
        return c.op(f"select i1 {first}, i32 {high}, i32 {low}")


# Waves of 64 on RDNA 1 and 2 have no instruction that reaches across their halves but reading one lane: each trip
# serves the lanes that want the same one.
_SEARCH = """define internal i32 @lanes.search(i32 %value, i32 %at) convergent nounwind {
entry:
  br label %loop
loop:
  %one = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %at)
  %its = call i32 @llvm.amdgcn.readlane.i32(i32 %value, i32 %one)
  %found = icmp eq i32 %at, %one
  %mine = select i1 %found, i32 %its, i32 %value
  br i1 %found, label %done, label %loop
done:
  ret i32 %mine
}"""
