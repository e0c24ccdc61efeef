"""Values of a gang while code is emitted: scalars, scalars with a stride, vectors, and masks."""

from __future__ import annotations

from magpie.backends.llvm.emitter import Block, Code, splat

__all__ = ["Mask", "MaskOps", "Value", "ramp"]


class Value:
    """kind 0: the scalar ``text``. kind 1: lane k is text + k * stride. kind 2: the vector ``text``, or a ``mask``.

    ``elem`` is the LLVM element type; ``block`` is where the scalar is defined, None for a literal.
    """

    __slots__ = ("block", "cache", "elem", "kind", "mask", "stride", "text")

    def __init__(
        self,
        kind: int,
        text: str,
        elem: str,
        block: Block | None = None,
        stride: int | str = 0,
        mask: Mask | None = None,
    ) -> None:
        self.kind = kind
        self.text = text
        self.elem = elem
        self.block = block
        self.stride = stride
        self.mask = mask
        self.cache: dict[str, str] | None = None

    @property
    def literal(self) -> bool:
        return self.block is None and self.kind == 0

    def __repr__(self) -> str:
        return f"Value({self.kind}, {self.text}: {self.elem}, stride {self.stride})"


_ramps: dict[tuple[str, int, int], str] = {}


def ramp(elem: str, stride: int, width: int) -> str:
    """The constant vector 0, stride, 2 * stride, ..."""
    key = (elem, stride, width)
    found = _ramps.get(key)
    if found is None:
        if elem in ("float", "double"):
            from magpie.backends.llvm.emitter import constant

            found = "<" + ", ".join(f"{elem} {constant(float(k * stride), elem)}" for k in range(width)) + ">"
        else:
            found = "<" + ", ".join(f"{elem} {k * stride}" for k in range(width)) + ">"
        _ramps[key] = found
    return found


class Mask:
    """Lanes. The wide form is a vector of 0 and -1 that may cross blocks; the i1 form is for one block (RULES 15).

    A vector of i1 that lives across blocks is packed into bytes by LLVM where there are no mask registers, so it is
    kept as full-width integers and turned into i1 where it is used.
    """

    __slots__ = ("block", "home", "home_i1", "i1", "wide")

    def __init__(self, *, wide: str = "", i1: str = "", block: Block | None = None) -> None:
        self.wide = wide
        self.i1 = i1
        self.block = block  # where i1 is valid
        self.home = block  # where the i1 that made this mask was defined
        self.home_i1 = i1


class MaskOps:
    """Operations on masks of one width. ``bits`` is the element width of the wide form, 1 with mask registers."""

    def __init__(self, code: Code, width: int, bits: int, register_lanes: int) -> None:
        self.code = code
        self.width = width
        self.bits = bits
        self.register_lanes = register_lanes
        self.elem = f"i{bits}"
        self.type = f"<{width} x i{bits}>"
        self.i1_type = f"<{width} x i1>"
        self.all_wide = splat("true" if bits == 1 else "-1", self.elem, width)

    def from_i1(self, text: str) -> Mask:
        """A mask from a vector of i1 of the current block."""
        if self.bits == 1:
            return Mask(wide=text)
        return Mask(i1=text, block=self.code.at_block)

    def i1(self, mask: Mask) -> str:
        """The i1 form for use in the current block."""
        if self.bits == 1:
            return mask.wide
        here = self.code.at_block
        if mask.block is here and mask.i1:
            return mask.i1
        wide = self.wide(mask)
        mask.i1 = self.code.op(f"icmp slt {self.type} {wide}, zeroinitializer")
        mask.block = here
        return mask.i1

    def wide(self, mask: Mask) -> str:
        """The form that may cross blocks, made where the mask was."""
        if not mask.wide:
            assert mask.home is not None
            mask.wide = self.code.op_in(mask.home, f"sext {self.i1_type} {mask.home_i1} to {self.type}")
        return mask.wide

    def _both(self, a: Mask, b: Mask) -> bool:
        here = self.code.at_block
        return self.bits != 1 and a.block is here and b.block is here and bool(a.i1) and bool(b.i1)

    def and_(self, a: Mask, b: Mask) -> Mask:
        if self._both(a, b):
            return self.from_i1(self.code.op(f"and {self.i1_type} {a.i1}, {b.i1}"))
        return Mask(wide=self.code.op(f"and {self.type} {self.wide(a)}, {self.wide(b)}"))

    def or_(self, a: Mask, b: Mask) -> Mask:
        if self._both(a, b):
            return self.from_i1(self.code.op(f"or {self.i1_type} {a.i1}, {b.i1}"))
        return Mask(wide=self.code.op(f"or {self.type} {self.wide(a)}, {self.wide(b)}"))

    def xor_(self, a: Mask, b: Mask) -> Mask:
        if self._both(a, b):
            return self.from_i1(self.code.op(f"xor {self.i1_type} {a.i1}, {b.i1}"))
        return Mask(wide=self.code.op(f"xor {self.type} {self.wide(a)}, {self.wide(b)}"))

    def not_(self, a: Mask) -> Mask:
        if self.bits != 1 and a.block is self.code.at_block and a.i1:
            return self.from_i1(self.code.op(f"xor {self.i1_type} {a.i1}, {splat('true', 'i1', self.width)}"))
        return Mask(wide=self.code.op(f"xor {self.type} {self.wide(a)}, {self.all_wide}"))

    def and_not(self, a: Mask, b: Mask) -> Mask:
        """a & ~b"""
        return self.and_(a, self.not_(b))

    def _folded(self, mask: Mask, op: str) -> tuple[str, int]:
        """The wide form reduced by ``op`` to one register's lanes: (i1 vector, lanes)."""
        c, lanes = self.code, self.width
        if self.bits == 1:
            return mask.wide, lanes
        text = self.wide(mask)
        while lanes > self.register_lanes and lanes % 2 == 0:
            half = lanes // 2
            low, high = (
                c.op(
                    f"shufflevector <{lanes} x {self.elem}> {text}, <{lanes} x {self.elem}> poison, <{half} x i32> <"
                    + ", ".join(f"i32 {k}" for k in range(start, start + half))
                    + ">"
                )
                for start in (0, half)
            )
            lanes = half
            text = c.op(f"{op} <{lanes} x {self.elem}> {low}, {high}")
        return c.op(f"icmp slt <{lanes} x {self.elem}> {text}, zeroinitializer"), lanes

    def any(self, mask: Mask) -> str:
        """An i1: some lane is set."""
        text, lanes = self._folded(mask, "or")
        number = self.code.op(f"bitcast <{lanes} x i1> {text} to i{lanes}")
        return self.code.op(f"icmp ne i{lanes} {number}, 0")

    def all(self, mask: Mask) -> str:
        """An i1: every lane is set."""
        text, lanes = self._folded(mask, "and")
        number = self.code.op(f"bitcast <{lanes} x i1> {text} to i{lanes}")
        return self.code.op(f"icmp eq i{lanes} {number}, -1")

    def number(self, mask: Mask | None) -> str:
        """The lanes as bits of an iW; None is all."""
        if mask is None:
            return "-1"
        return self.code.op(f"bitcast {self.i1_type} {self.i1(mask)} to i{self.width}")
