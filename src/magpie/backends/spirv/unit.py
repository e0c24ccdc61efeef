"""What the entries of a module share: the block of numbers, the arrays' bindings, coordinates, spec constants."""

from __future__ import annotations

from magpie.backends.spirv.block import BlockPlan
from magpie.backends.spirv.module import Module
from magpie.backends.spirv.profile import Profile
from magpie.ir.nodes import Buffer, Kernel

__all__ = ["ROWS", "Unit"]

#: The numbers of the specialization constants of `Unit.rows`, beyond those of sizes and extents.
ROWS = (1000, 1001)

# Feature of a profile -> capabilities of a module that say that it is used.
_CAPABILITIES = {
    "Int64": "i64",
    "Int16": "i16",
    "Int8": "i8",
    "Float16": "f16",
    "Float64": "f64",
    "StorageBuffer8BitAccess": "s8",
    "StorageBuffer16BitAccess": "s16",
    "AtomicFloat32AddEXT": "atomic_f32",
    "Int64Atomics": "atomic_i64",
    "CooperativeMatrixKHR": "coopmat",
    "BFloat16TypeKHR": "bf16",
}
# What is asked of float arithmetic, where a device has it: feature -> (execution mode, width).
_FLOAT_MODES = {
    f"{feature}{width}": (mode, width)
    for feature, mode in (
        ("denorm", "DenormPreserve"),
        ("rte", "RoundingModeRTE"),
        ("szinp", "SignedZeroInfNanPreserve"),
    )
    for width in (16, 32, 64)
}
_WIDTHS = {16: "Float16", 64: "Float64"}


class Unit:
    """A module under construction for one kernel. ``needs`` are features of the profile that it relies on."""

    def __init__(self, kernel: Kernel, profile: Profile, plan: BlockPlan) -> None:
        self.module = Module()
        self.profile = profile
        self.plan = plan
        self.needs: set[str] = set()
        self.views: dict[tuple[str, int], int] = {}
        self.numbers = {b.name: k for k, b in enumerate(kernel.buffers)}
        #: The block is push constants where it fits in these, else a uniform buffer.
        self.kind = "push" if plan.size <= profile.push_bytes else "uniform"
        if self.kind == "push" and plan.size > 128:
            self.needs.add("push256")
        self._inputs: dict[str, int] = {}
        self._members = {at: k for k, at in enumerate(range(0, plan.end, 4))}
        self._block = 0
        self._records = 0

    # --- bindings ------------------------------------------------------------------------------------------------
    def view(self, buffer: Buffer, element: int, stride: int) -> int:
        """The variable that shows a buffer as elements of a type."""
        name = buffer.name
        found = self.views.get((name, element))
        if found is None:
            found = self.views[name, element] = self._storage(name, element, stride, self.numbers[name])
        return found

    def _storage(self, name: str, element: int, stride: int, binding: int) -> int:
        m = self.module
        items = m.type_runtime_array(element, stride)
        block = m.type_struct([items], [0], ["items"], f"{name}.array", block=True)
        found = m.variable("StorageBuffer", block, name)
        m.decorate(found, "DescriptorSet", 0)
        m.decorate(found, "Binding", binding)
        return found

    @property
    def records(self) -> int:
        """The record buffer, as words of 32 bits; its binding is the one behind those of arrays."""
        if not self._records:
            self._records = self._storage("records", self.module.type_int(32), 4, len(self.numbers))
            self.module.decorate(self._records, "Aliased")
        return self._records

    @property
    def block_variable(self) -> tuple[int, str]:
        """(variable, storage class) of the block."""
        storage = "PushConstant" if self.kind == "push" else "Uniform"
        if not self._block:
            m = self.module
            u32 = m.type_int(32)
            names = {at: ".".join(map(str, key)) for key, at in self.plan.at.items()}
            members = [names.get(at, f"word{at // 4}") for at in self._members]
            type_ = m.type_struct([u32] * len(members), list(self._members), members, "Numbers", block=True)
            self._block = m.variable(storage, type_, "numbers")
        return self._block, storage

    def member(self, offset: int) -> int:
        """The number of the word of the block that lies at a multiple of 4 bytes."""
        return self._members[offset]

    # --- coordinates and sizes -----------------------------------------------------------------------------------
    def input(self, builtin: str, *, scalar: bool = False) -> int:
        """The variable of a built-in."""
        found = self._inputs.get(builtin)
        if found is None:
            m = self.module
            u32 = m.type_int(32)
            found = self._inputs[builtin] = m.variable("Input", u32 if scalar else m.type_vector(u32, 3), builtin)
            m.decorate(found, "BuiltIn", builtin)
        return found

    def size_constant(self, dim: int, default: int) -> int:
        """The specialization constant of the workgroup's size along a dimension."""
        m = self.module
        return m.spec_constant(m.type_int(32), default, dim, f"workgroup_size.{'xyz'[dim]}")

    def extent_constant(self, number: int, name: str) -> int:
        """The specialization constant of an extent that a launch decides, by its place among all of them."""
        m = self.module
        return m.spec_constant(m.type_int(32), 1, 3 + number, name)

    @property
    def rows(self) -> tuple[int, int]:
        """Two specialization constants: how many workgroups a row has, and how many there are.

        A grid of one dimension may be longer than a device's dimensions are (65,535 on many). It is launched as rows
        then, x beside x along y. Both are 0 where it is not, and all that is made of them disappears.
        """
        m = self.module
        u32 = m.type_int(32)
        return m.spec_constant(u32, 0, ROWS[0], "rows.length"), m.spec_constant(u32, 0, ROWS[1], "rows.workgroups")

    def is_folded(self) -> int:
        """Whether the grid is launched as rows: a constant for the pipeline."""
        m = self.module
        return m.spec_op("INotEqual", m.type_bool(), self.rows[0], m.u32(0))

    # --- the end -------------------------------------------------------------------------------------------------
    def float_modes(self) -> list[tuple[str, int]]:
        """The execution modes that strict arithmetic asks for, of those that the device has, for the types in use."""
        have = self.module.capabilities
        found = []
        for feature, (mode, width) in _FLOAT_MODES.items():
            if feature in self.profile and (width == 32 or _WIDTHS[width] in have):
                self.needs.add(feature)
                found.append((mode, width))
        return found

    def decorate_bindings(self, kernel: Kernel, *, coherent: bool) -> None:
        """Say of each array's variables who reads and writes what they show, and which may show the same; and where a
        uniform buffer is."""
        m = self.module
        if self._block and self.kind == "uniform":  # the last one
            m.decorate(self._block, "DescriptorSet", 0)
            m.decorate(self._block, "Binding", len(self.numbers) + bool(self._records))
        written = any(b.writes for b in kernel.buffers)
        views = [name for name, _ in self.views]
        access = {b.name: b.access for b in kernel.buffers}
        for (name, _), variable in self.views.items():
            kind = access[name]
            own = kernel.facts.noalias or not written
            m.decorate(variable, "Restrict" if own and views.count(name) == 1 else "Aliased")
            # What is written under another name is not what compilers take "not writable" for: they load it once.
            if kind in ("read", "none") and own:
                m.decorate(variable, "NonWritable")
            elif coherent and (kind == "read_write" or not kernel.facts.noalias):  # else nobody reads it
                m.decorate(variable, "Coherent")

    def features(self) -> list[str]:
        """The features of the profile that the finished module needs."""
        return sorted(self.needs | {_CAPABILITIES[c] for c in self.module.capabilities if c in _CAPABILITIES})
