"""How the lanes of a subgroup know of each other and exchange values: the seam of a GPU target for subgroup ops."""

from __future__ import annotations

from abc import ABC, abstractmethod

from magpie.backends.llvm.emitter import Code

__all__ = ["Lanes"]


class Lanes(ABC):
    """Emits into the function at hand; a set of lanes is an integer of `size` bits, the same in each of them.

    Lanes are consecutive work-items, x fastest.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.mask = f"i{size}"  # the LLVM type of a set of lanes

    @abstractmethod
    def lane(self, c: Code) -> str:
        """The lane number as an i32."""

    @abstractmethod
    def below(self, c: Code, mask: str) -> str:
        """How many lanes of ``mask`` stand below this one, as an i32."""

    @abstractmethod
    def ballot(self, c: Code, mask: str, cond: str) -> str:
        """The lanes of ``mask`` in which ``cond`` is true. All lanes of ``mask`` run here, and no others."""

    @abstractmethod
    def word(self, c: Code, mask: str, value: str, at: str, kind: str) -> str:
        """An i32 of another lane.

        ===========  ============================================================================================
        "idx"        lane ``at``
        "same"       lane ``at``, which is the same for all lanes
        "butterfly"  this lane xor ``at``, where each aligned run of ``at`` lanes holds one value
        "up"         the lane ``at`` below this one
        ===========  ============================================================================================

        For the last two ``at`` is a literal and ``mask`` all lanes. What a lane outside ``mask`` has, and what lies
        below the first lane, nobody uses.
        """

    def any(self, c: Code, mask: str, cond: str) -> str:
        """Whether ``cond`` is true in any lane of ``mask``."""
        return c.op(f"icmp ne {self.mask} {self.ballot(c, mask, cond)}, 0")

    def all(self, c: Code, mask: str, cond: str) -> str:
        """Whether ``cond`` is true in every lane of ``mask``."""
        false = self.ballot(c, mask, c.op(f"xor i1 {cond}, true"))
        return c.op(f"icmp eq {self.mask} {false}, 0")

    @abstractmethod
    def barrier(self, c: Code, mask: str) -> None:
        """All lanes of ``mask`` arrive, and see what the others stored before."""

    # --- values of any type --------------------------------------------------------------------------------------
    def exchange(self, c: Code, mask: str, elem: str, value: str, at: str, kind: str = "idx") -> str:
        """`word` for a value of LLVM type ``elem``."""
        if elem == "double":
            bits = c.op(f"bitcast double {value} to i64")
            return c.op(f"bitcast i64 {self.exchange(c, mask, 'i64', bits, at, kind)} to double")
        if elem == "i64":
            low, high = c.op(f"trunc i64 {value} to i32"), c.op(f"lshr i64 {value}, 32")
            high = c.op(f"trunc i64 {high} to i32")
            low, high = (c.op(f"zext i32 {self.word(c, mask, v, at, kind)} to i64") for v in (low, high))
            return c.op(f"or i64 {low}, {c.op(f'shl i64 {high}, 32')}")
        if elem == "float":
            bits = c.op(f"bitcast float {value} to i32")
            return c.op(f"bitcast i32 {self.word(c, mask, bits, at, kind)} to float")
        if elem != "i32":
            wide = c.op(f"zext {elem} {value} to i32")
            return c.op(f"trunc i32 {self.word(c, mask, wide, at, kind)} to {elem}")
        return self.word(c, mask, value, at, kind)
