"""A kernel as an entry of a SPIR-V module: its parameters, coordinates, shared memory and barriers."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from magpie.backends.base import Options
from magpie.backends.spirv.block import GROUPS
from magpie.backends.spirv.reports import Words
from magpie.backends.spirv.tiles import Tiles
from magpie.backends.spirv.unit import Unit
from magpie.dtypes import DType, i64, index, u8, u32
from magpie.ir.layout import KernelLayout
from magpie.ir.nodes import Array, Buffer, Kernel, LocalArray, Node, SharedArray, walk
from magpie.ir.ops import Effect

__all__ = ["SpirvKernel"]

# Bytes to which the sizes of shared arrays are rounded up when they are summed.
_ALIGN = 16
_COORDINATES = {"thread_id": "LocalInvocationId", "workgroup_id": "WorkgroupId", "num_workgroups": "NumWorkgroups"}
_CROSS = (Effect.CROSS_LANE,)


class SpirvKernel(Tiles):
    """Emits one entry into the module of ``unit``. ``ready`` is what passes made of the kernel ``original``; ``suffix``
    tells the entry from others of the module."""

    def __init__(
        self, original: Kernel, ready: Kernel, layout: KernelLayout, unit: Unit, options: Options, suffix: str = ""
    ) -> None:
        m = unit.module
        entry = "magpie_" + re.sub(r"\W", "_", original.name, flags=re.ASCII) + suffix
        f = m.function(m.type_void(), name=entry)
        super().__init__(ready, unit, f, fast=original.fastmath, checked=options.checked)
        self.layout = layout
        self.size = ready.known_workgroup
        self.info: dict[str, Any] = {"entry": entry}
        crosses = any(n.info.effect in _CROSS or n.op.startswith("subgroup_") for n in walk(ready.body))
        # Subgroups are runs of consecutive work-items on every driver where the workgroup has one dimension.
        one = self.size is not None and self.size[1] == self.size[2] == 1
        self.linear = crosses and not one
        self.info |= {"linear": self.linear, "subgroups": crosses}
        if crosses and self.profile.subgroup_size:
            self.info["subgroup_size"] = self.profile.subgroup_size
            self.unit.needs.add(f"sg{self.profile.subgroup_size}")
        self.plan_shared()
        self.leave_beyond()
        self.clear_long_arrays()
        self.body(ready.body)
        self.finish()

    def finish(self) -> None:
        """The entry and its modes."""
        m, f = self.module, self.f
        m.entry_point(f, self.info["entry"])
        sizes = [self.unit.size_constant(d, n) for d, n in enumerate(self.size or (64, 1, 1))]
        if self.linear:
            plane = m.spec_op("IMul", self.u32, sizes[0], sizes[1])
            sizes = [m.spec_op("IMul", self.u32, plane, sizes[2]), m.u32(1), m.u32(1)]
        m.execution_mode(f, "LocalSizeId", *sizes)
        if self.info["subgroups"] and "reconverge" in self.profile:
            m.execution_mode(f, "MaximallyReconvergesKHR")
            self.unit.needs.add("reconverge")
        if not self.fast:
            for mode, width in self.unit.float_modes():
                m.execution_mode(f, mode, width)
        for size in ("static_shared", "fixed_shared"):
            self.info[size] += self.scratch_bytes
        self.info["local_bytes"] = sum(a.nbytes for a in self.places if isinstance(a, LocalArray))
        self.info["sites"] = self.sites
        self.info["records"] = bool(self.sites)

    # --- coordinates ---------------------------------------------------------------------------------------------
    def coordinate(self, op: str, dim: int) -> int:
        """thread_id, workgroup_id, workgroup_size or num_workgroups in 32 bits."""
        size = self.size
        if op == "workgroup_size":
            return self.word(size[dim]) if size is not None else self.unit.size_constant(dim, (64, 1, 1)[dim])
        if op == "thread_id" and size is not None and size[dim] == 1:
            return self.word(0)
        if op == "thread_id" and self.linear:
            return self.once((op, dim), lambda: self._from_linear(dim))
        if op == "thread_id" or dim == 2:
            return self.once((op, dim), lambda: self._component(_COORDINATES[op], dim))
        return self.once((op, dim), lambda: self._of_rows(op, dim))

    def _of_rows(self, op: str, dim: int) -> int:
        """A coordinate along x or y of the grid, which the launch may have folded into rows (see `Unit.rows`)."""
        row, total = self.unit.rows
        mine = self._component(_COORDINATES[op], dim)
        if op == "workgroup_id" and dim == 0:
            return self.plus(mine, self.times(self._component(_COORDINATES[op], 1), row))
        folded = self.unit.is_folded()
        unfolded = {("workgroup_id", 1): self.word(0), ("num_workgroups", 0): total}.get((op, dim), self.word(1))
        return self.op("Select", self.u32, folded, unfolded, mine)

    def leave_beyond(self) -> None:
        """The last row of a grid that is folded may be longer than what is left for it."""
        _, total = self.unit.rows
        beyond = self.op("UGreaterThanEqual", self.bool, self.coordinate("workgroup_id", 0), total)
        self.when(self.op("LogicalAnd", self.bool, self.unit.is_folded(), beyond), self.f.ret)

    def _component(self, builtin: str, dim: int) -> int:
        whole = self.once(builtin, lambda: self.f.load(self.unit.input(builtin)))
        return self.op("CompositeExtract", self.u32, whole, dim)

    def _from_linear(self, dim: int) -> int:
        """A coordinate of a work-item from its number: the workgroup is one row of them."""
        at = self.linear_item()
        for d in range(dim):
            at = self.op("UDiv", self.u32, at, self.coordinate("workgroup_size", d))
        return at if dim == 2 else self.op("UMod", self.u32, at, self.coordinate("workgroup_size", dim))

    def linear_item(self) -> int:
        if self.size is not None and self.size[1] == self.size[2] == 1:
            return self.coordinate("thread_id", 0)
        return self.once("linear", lambda: self.f.load(self.unit.input("LocalInvocationIndex", scalar=True)))

    def linear_group(self) -> Words:
        """Modulo 2^32, which no launch that reports reaches."""
        x, y, z = (self.coordinate("workgroup_id", d) for d in range(3))
        columns, rows = (self.coordinate("num_workgroups", d) for d in (0, 1))
        row = self.plus(y, self.times(z, rows))
        return self.plus(x, self.times(row, columns)), self.word(0)

    def global_low(self, dim: int) -> int:
        """The low 32 bits of a global_id."""

        def make() -> int:
            start = self.times(self.coordinate("workgroup_id", dim), self.coordinate("workgroup_size", dim))
            return self.plus(start, self.coordinate("thread_id", dim))

        return self.once(("global_id", dim), make)

    def global_pair(self, dim: int) -> Words:
        """A global_id in two halves."""
        m, u = self.module, self.u32
        both = m.type_struct([u, u])
        factors = (self.coordinate("workgroup_id", dim), self.coordinate("workgroup_size", dim))
        product = self.op("UMulExtended", both, *factors)
        low, high = (self.op("CompositeExtract", u, product, k) for k in range(2))
        total = self.op("IAddCarry", both, low, self.coordinate("thread_id", dim))
        low, carry = (self.op("CompositeExtract", u, total, k) for k in range(2))
        return low, self.op("IAdd", u, high, carry)

    # --- values without operands ---------------------------------------------------------------------------------
    def leaf(self, node: Node, t: DType) -> int | None:
        op = node.op
        if op == "const":
            return self.constant(node.attrs["value"], t)
        if op == "param" and not (t.bits == 64 and t.is_int):
            return self.parameter(node.attrs["name"], t)
        ends = self.pair_leaf(node)
        if ends is None:
            return None
        return self.joined(*ends, t)

    def joined(self, low: int, high: int, t: DType) -> int:
        """Two halves as one value of 64 bits."""
        if self.number(high) == 0 and t.is_int:
            return self.op("UConvert", self.type(t), low)
        pair = self.op("CompositeConstruct", self.module.type_vector(self.u32, 2), low, high)
        return self.op("Bitcast", self.type(t), pair)

    def low_leaf(self, node: Node) -> int | None:
        op, attrs = node.op, node.attrs
        if op in ("thread_id", "workgroup_id", "workgroup_size", "num_workgroups"):
            return self.coordinate(op, attrs["dim"])
        if op == "global_id":
            return self.global_low(attrs["dim"])
        if op == "linear_local_id":
            return self.linear_item()
        if op == "extent":
            return self.extent(attrs["array"], attrs["dim"])
        if op == "stride":
            return self.stride(attrs["array"], attrs["dim"])
        if op == "param":
            return self.block_word(("param", attrs["name"]))
        return None

    def pair_leaf(self, node: Node) -> Words | None:
        op, attrs = node.op, node.attrs
        if op == "global_id":
            return self.global_pair(attrs["dim"])
        if op == "param":
            key = ("param", attrs["name"])
            return (self.block_word(key), self.word(0)) if attrs["name"] in GROUPS else self.block_pair(key)
        if op in ("extent", "stride") and isinstance(attrs["array"], Buffer):
            return self.wide_extent(op, attrs["array"], attrs["dim"])
        low = self.low_leaf(node)
        return None if low is None else (low, self.word(0))

    def wide_extent(self, op: str, array: Buffer, dim: int) -> Words:
        facts = self.kernel.facts
        if op == "extent" or array.name not in facts.contiguous:
            key = (op, array.name, dim)
            return (self.block_word(key), self.word(0)) if op == "extent" and facts.small else self.block_pair(key)
        # The product of the extents behind: what it is made of fits, and so does it, where the array has elements.
        return self.stride(array, dim), self.word(0)

    # --- the block of numbers ------------------------------------------------------------------------------------
    def block_word(self, key: tuple[Any, ...], more: int = 0) -> int:
        """A word of the block, by what it says."""
        at = self.unit.plan.at[key] + more

        def make() -> int:
            m = self.module
            variable, storage = self.unit.block_variable
            member = self.unit.member(at // 4 * 4)
            pointer = self.op("AccessChain", m.type_pointer(storage, self.u32), variable, m.u32(member))
            return self.f.load(pointer)

        return self.once(("block", at // 4), make)

    def block_pair(self, key: tuple[Any, ...]) -> Words:
        return self.block_word(key), self.block_word(key, 4)

    def parameter(self, name: str, t: DType) -> int:
        """A scalar parameter that is no integer of 64 bits; leaves of structs are called p.x."""
        return self.once(("param", name), lambda: self._parameter(name, t))

    def _parameter(self, name: str, t: DType) -> int:
        key = ("param", name)
        if t.bits == 64:
            return self.joined(*self.block_pair(key), t)
        word = self.block_word(key)
        if t.bits == 32:
            return self.bitcast(word, u32, t)
        return self.from_bits(t, word, self.word(self.unit.plan.at[key] % 4 * 8))

    # --- arrays --------------------------------------------------------------------------------------------------
    def extent(self, array: Array, dim: int) -> int:
        if isinstance(array, Buffer):
            return self.block_word(("extent", array.name, dim))
        size = array.shape[dim]  # type: ignore[attr-defined]
        return self.word(size) if isinstance(size, int) else self.dynamic_extent(array, dim)

    def stride(self, array: Array, dim: int) -> int:
        if isinstance(array, Buffer) and array.name not in self.kernel.facts.contiguous:
            return self.block_word(("stride", array.name, dim))

        def make() -> int:
            out = self.word(1)
            for d in range(array.rank - 1, dim, -1):
                out = self.times(out, self.extent(array, d))
            return out

        return self.word(1) if dim == array.rank - 1 else self.once(("stride", array, dim), make)

    def first_element(self, buffer: Buffer) -> int:
        return self.block_word(("offset", buffer.name))

    def in_extent(self, at: Node, array: Array, dim: int) -> int:
        facts = self.kernel.facts
        short = facts.small or not isinstance(array, Buffer) or not self.has(i64)
        if short and (at.dtype.bits < 64 or self.forms.narrow(at)):
            return self.op("ULessThan", self.bool, self.low(at), self.extent(array, dim))
        limit = Node("extent", (), index, {"array": array, "dim": dim})
        low, high = self.pair_leaf(limit) or (0, 0)
        if self.has(i64):
            return self.op("ULessThan", self.bool, self.as_index(at), self.joined(low, high, index))
        low_at, high_at = self.pair(at)
        none = self.op("IEqual", self.bool, high_at, self.word(0))
        return self.op("LogicalAnd", self.bool, none, self.op("ULessThan", self.bool, low_at, low))

    # --- shared memory -------------------------------------------------------------------------------------------
    def plan_shared(self) -> None:
        """What the shared arrays take, for the check against what a device has."""
        words = self.extent_words()
        fixed, dynamic = 0, []
        for s in self.kernel.shared:
            assert isinstance(s.type, DType)
            itemsize = self.shared_itemsize(s.type)
            if s.dynamic:
                first = words[self.shared_name(s)]
                dynamic.append((itemsize, [first + d for d in range(s.rank)]))
            else:
                size = itemsize * prod(n for n in s.shape if isinstance(n, int))
                fixed += (size + _ALIGN - 1) // _ALIGN * _ALIGN
        self.info |= {"static_shared": fixed, "fixed_shared": fixed, "dynamic_shared": dynamic}

    def shared_itemsize(self, t: DType) -> int:
        """Bytes of an element in shared memory: a word where the device has nothing smaller."""
        held = u8 if t.is_bool else t
        return held.itemsize if held.bits >= 32 or self.has(held) or f"i{held.bits}" in self.profile else 4

    def extent_words(self) -> dict[str, int]:
        """Dynamic shared array -> the number of its first extent among those that a launch passes."""
        words: dict[str, int] = {}
        count = 0
        for s in self.layout.shared:
            if s.dynamic:
                words[s.name] = count
                count += len(s.extents)
        return words

    def shared_name(self, array: Array) -> str:
        """The name that the layout has for a shared array: a leaf of one of structs is called s.x."""
        names = {s.name for s in self.layout.shared}
        return array.name if array.name in names else array.name.partition(".")[0]

    def dynamic_extent(self, array: Array, dim: int) -> int:
        name = self.shared_name(array)
        return self.unit.extent_constant(self.extent_words()[name] + dim, f"{name}.{dim}")

    def shared_variable(self, array: SharedArray) -> int:
        m, u = self.module, self.u32
        assert isinstance(array.type, DType)
        if array.dynamic:
            # Shared memory of no elements is none that a module may have.
            length = self.extent(array, 0)
            for d in range(1, array.rank):
                length = m.spec_op("IMul", u, length, self.extent(array, d))
            empty = m.spec_op("IEqual", self.bool, length, m.u32(0))
            length = m.spec_op("Select", u, empty, m.u32(1), length)
        else:
            length = m.u32(max(1, prod(n for n in array.shape if isinstance(n, int)) // self.vectors.get(array, 1)))
        element = self.shared_element(array.type)
        if array in self.vectors:
            element = m.type_vector(element, self.vectors[array])
        type_ = m.type_array(element, length)
        return m.variable("Workgroup", type_, array.name)
