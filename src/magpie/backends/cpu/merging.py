"""Opens private copies of shared arrays before a stretch of items, and merges them behind it (see `copies`)."""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.copies import COPIES, all_stretches, copy_pitch, private_arrays
from magpie.backends.cpu.gang import Env
from magpie.backends.cpu.gang_loops import GangLoops
from magpie.backends.cpu.regions import Item, Plan
from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Module, element, splat
from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node, SharedArray

__all__ = ["MergingLoops"]


class MergingLoops(GangLoops):
    """``private``: what the stretch that begins with an item keeps copies of, and how these are joined."""

    def __init__(self, kernel: Kernel, module: Module, env: Env, plan: Plan) -> None:
        super().__init__(kernel, module, env, plan)
        self.private: dict[Item, dict[SharedArray, str]] = {}
        if env.checked:  # a report names the access that failed, nothing here is for speed
            return
        for stretch in all_stretches(plan.items):
            found = private_arrays(stretch, kernel, env.used)
            if found:
                self.private[stretch[0]] = found
                self.copied.update(found)

    def open_copies(self, private: dict[SharedArray, str]) -> None:
        """The array itself is one of the copies; the others start as what joining leaves alone."""
        for array, join in private.items():
            t, pitch = _scalar(array), copy_pitch(array)
            lanes = 64 // t.itemsize
            vt = f"<{lanes} x {element(t)}>"
            neutral = splat(str(_neutral(join, t)), element(t), lanes)

            def clear(at: str, vt: str = vt, neutral: str = neutral, pitch: int = pitch) -> None:
                for k in range(1, COPIES):
                    p = self.c.op(f"getelementptr i8, ptr {at}, i64 {k * pitch}")
                    self.c.do(f"store {vt} {neutral}, ptr {p}, align 64")

            self.each_line(array, clear)
            self.env.copies[array] = (COPIES, pitch)

    def close_copies(self, private: dict[SharedArray, str]) -> None:
        """Join the copies in the array itself."""
        for array, join in private.items():
            del self.env.copies[array]
            t, pitch = _scalar(array), copy_pitch(array)
            lanes = 64 // t.itemsize
            vt = f"<{lanes} x {element(t)}>"
            ops, node = Ops(self.c, lanes), Node(join, (), t)

            def merge(at: str, ops: Ops = ops, node: Node = node, vt: str = vt, pitch: int = pitch) -> None:
                c, t = self.c, node.dtype
                total = c.op(f"load {vt}, ptr {at}, align 64")
                for k in range(1, COPIES):
                    p = c.op(f"getelementptr i8, ptr {at}, i64 {k * pitch}")
                    other = c.op(f"load {vt}, ptr {p}, align 64")
                    total = ops.emit(node, [total, other], t, element(t))
                c.do(f"store {vt} {total}, ptr {at}, align 64")

            self.each_line(array, merge)

    def each_line(self, array: SharedArray, body: Callable[[str], None]) -> None:
        """``body`` for the address of every 64 bytes of an array; the arena has room for the last of them."""
        ends: list[Callable[[], None]] = []
        line = self.count("line", str(-(-array.nbytes // 64)), ends)
        body(self.c.op(f"getelementptr [64 x i8], ptr {self.env.arrays[array][0]}, i64 {line}"))
        for end in reversed(ends):
            end()


def _scalar(array: SharedArray) -> DType:
    assert isinstance(array.type, DType)
    return array.type


def _neutral(join: str, t: DType) -> int:
    """What x (join) _ leaves x alone, as an integer of LLVM."""
    if join == "min":
        return t.max if t.kind == "int" else -1
    if join == "max":
        return t.min
    return -1 if join == "and" else 0
