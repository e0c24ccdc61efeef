"""Stores of some lanes to anywhere, without a branch for each."""

from __future__ import annotations

from magpie.backends.cpu.memory import Address, MemoryMixin

__all__ = ["ScatterMixin"]

# Gangs of up to so many lanes have code in which every lane stores, those that are off to a place of no consequence. A
# loop over the lanes that are on ends where no processor predicts, and is still faster for a third of them and less.
# Measured on Zen 3, 16 lanes, times against the loop: all of them on 0.6, a half 1.0, a tenth 1.6.
_BRANCHLESS = 16
_SPARSE = 3


class ScatterMixin(MemoryMixin):
    """Stores to lanes that are not side by side."""

    def store_apart(self, a: Address, lanes: str, elem: str) -> None:
        target = self.env.target
        c, w, size = self.c, self.w, a.t.itemsize
        vt = f"<{w} x {elem}>"
        native = target.has_avx512 and elem in ("i32", "i64", "float", "double")
        if self.mask is None or self.env.large or not (native or w <= _BRANCHLESS):
            super().store_apart(a, lanes, elem)
            return
        if native:  # from the lowest lane to the highest, as LLVM promises
            code = {"float": "f32", "double": "f64"}.get(elem, elem)
            name = f"llvm.masked.scatter.v{w}{code}.v{w}p0"
            c.module.declare(name, "void", f"{vt}, <{w} x ptr>, i32, <{w} x i1>")
            pointers = self.pointer_vector(self.vector_address(a))
            mask = self.masks.i1(self.mask)
            c.do(f"call void @{name}({vt} {lanes}, <{w} x ptr> {pointers}, i32 {size}, <{w} x i1> {mask}){a.suffix}")
            return
        nowhere = self.nowhere()
        bits = self.masks.number(self.mask)
        dense, sparse, join = c.block("dense"), c.block("sparse"), c.block("stored")
        count = self.scalar.intrinsic("ctpop", f"i{w}", [bits])
        c.cbr(c.op(f"icmp ugt i{w} {count}, {w // _SPARSE}"), dense, sparse)
        c.place(sparse)
        super().store_apart(a, lanes, elem)
        c.br(join)
        c.place(dense)
        for k, p in enumerate(self.lane_pointers(a, range(w))):
            x = c.op(f"extractelement {vt} {lanes}, i64 {k}")
            bit = 1 << k if k < w - 1 else -(1 << k)  # as LLVM writes the sign bit
            on = c.op(f"icmp ne i{w} {c.op(f'and i{w} {bits}, {bit}')}, 0")
            at = c.op(f"select i1 {on}, ptr {p}, ptr {nowhere}, !unpredictable !0")
            c.do(f"store {elem} {x}, ptr {at}, align {size}{a.suffix}")
        c.br(join)
        c.place(join)

    def nowhere(self) -> str:
        """Memory of this thread for what lanes store that are off."""
        env, c = self.env, self.c
        if not env.nowhere:
            # behind an empty piece of assembly, or LLVM finds out that nobody reads it and branches around each store
            memory = c.alloca("i64", 64)
            env.nowhere = c.op_in(c.entry, f'call ptr asm "", "=r,0"(ptr {memory})')
        return env.nowhere
