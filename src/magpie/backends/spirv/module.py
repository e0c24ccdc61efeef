"""SPIR-V modules: types, constants, decorations and names, and the binary.

Everything that is a fact of the specification and not of Kernel IR stands here, in `declarations` and in `function`:
the order of sections, what may be declared once only, which capability and which extension a thing needs. A module is
made of what is asked of it, in the order in which it is asked: the same calls give the same bytes.

    m = Module()
    u32, void = m.type_int(32), m.type_void()
    f = m.function(void, name="main")
    f.op("IAdd", u32, m.constant(u32, 1), m.constant(u32, 2))
    f.ret()
    m.entry_point(f, "main")
    m.binary()

Section numbers are those of the SPIR-V specification, 1.6.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from magpie.backends.spirv.declarations import Declarations, Operand
from magpie.backends.spirv.encode import enumerant
from magpie.backends.spirv.table import ENUMS

if TYPE_CHECKING:
    from magpie.backends.spirv.function import Function

__all__ = ["GENERATOR", "MAGIC", "VERSION", "Module", "Operand"]

MAGIC, VERSION = 0x07230203, 0x00010600

#: The second word of the header that is not counted: no number is registered for Magpie, and 0 says so.
GENERATOR = 0

# What a device may store or load without having the type otherwise: (storage class, bits) -> capability.
_STORAGE = {
    ("StorageBuffer", 16): "StorageBuffer16BitAccess",
    ("StorageBuffer", 8): "StorageBuffer8BitAccess",
    ("Uniform", 16): "UniformAndStorageBuffer16BitAccess",
    ("Uniform", 8): "UniformAndStorageBuffer8BitAccess",
    ("PushConstant", 16): "StoragePushConstant16",
    ("PushConstant", 8): "StoragePushConstant8",
}


class Module(Declarations):
    """A module being made. ``memory_model`` is GLSL450 or Vulkan and may be set until `binary` is called."""

    def __init__(self, memory_model: str = "GLSL450") -> None:
        super().__init__()
        self.memory_model = memory_model
        self._imports: dict[str, int] = {}
        self._entries: list[tuple[str, Function, str]] = []
        self._modes: list[int] = []
        self._strings: dict[str, int] = {}
        self._sources: list[int] = []
        self._functions: list[Function] = []
        self._variables: list[int] = []
        self.capability("Shader")

    # --- global variables, sources -------------------------------------------------------------------------------
    def variable(self, storage: str, type_: int, name: str = "", initializer: int | None = None) -> int:
        """A variable of the module, by the type that it holds. Gives a pointer."""
        for inner in sorted(self._parts(type_)):
            capability = _STORAGE.get((storage, int(self.definitions[inner][1])))
            if capability is None:
                self.need_narrow(inner)
            else:
                self.need((capability,))
        pointer = self.type_pointer(storage, type_)
        found = self.id()
        self.types[found] = pointer
        self._write(
            self._globals, "Variable", (pointer, found), (storage, *(() if initializer is None else (initializer,)))
        )
        self._variables.append(found)
        if name:
            self.name(found, name)
        return found

    def string(self, text: str) -> int:
        """An OpString, such as the file of a line."""
        found = self._strings.get(text)
        if found is None:
            found = self._strings[text] = self.id()
        return found

    def source(self, language: str = "Unknown", version: int = 0, file: str = "") -> None:
        """What the module was made of."""
        self._write(self._sources, "Source", (), (language, version, *((self.string(file),) if file else ())))

    def glsl(self) -> int:
        """The id of the instruction set GLSL.std.450."""
        return self.imported("GLSL.std.450")

    def imported(self, name: str) -> int:
        """The id of an extended instruction set."""
        found = self._imports.get(name)
        if found is None:
            found = self._imports[name] = self.id()
        return found

    # --- functions -----------------------------------------------------------------------------------------------
    def function(self, result: int, parameters: Sequence[int] = (), name: str = "", control: str = "None") -> Function:
        """A new function, in its first block; ``parameters`` are types."""
        from magpie.backends.spirv.function import Function

        made = Function(self, result, parameters, control)
        self._functions.append(made)
        if name:
            self.name(made.id, name)
        return made

    def entry_point(self, function: Function, name: str, model: str = "GLCompute") -> None:
        """Make a function one that a pipeline can start. Its interface is the variables that it uses."""
        for capabilities, extension in enumerant("ExecutionModel", model)[2]:
            self.need(capabilities, extension)
        self._entries.append((name, function, model))

    def execution_mode(self, function: Function, mode: str, *operands: Operand) -> None:
        """Such as LocalSize with three numbers, LocalSizeId with three ids, MaximallyReconvergesKHR."""
        ids = any(kind == "IdRef" for _, kind in enumerant("ExecutionMode", mode)[1])
        name = "ExecutionModeId" if ids else "ExecutionMode"
        self._write(self._modes, name, (), (function.id, mode, *operands))

    # --- the binary ----------------------------------------------------------------------------------------------
    def binary(self) -> bytes:
        """The module, in the order of sections of 2.4. Raises ValueError where a block has no end."""
        functions = [word for f in self._functions for word in f.words()]
        head: list[int] = []
        model: list[int] = []
        self._write(model, "MemoryModel", (), ("Logical", self.memory_model))
        if self._device_scope and self.memory_model == "Vulkan":
            self.capability("VulkanMemoryModelDeviceScope")
        for name in sorted(self.capabilities, key=lambda n: ENUMS["Capability"][n][0]):
            self._write(head, "Capability", (), (name,))
        for name in sorted(self._extensions):
            self._write(head, "Extension", (), (name,))
        for name, set_ in self._imports.items():
            self._write(head, "ExtInstImport", (set_,), (name,))
        head += model
        for name, function, kind in self._entries:
            self._write(head, "EntryPoint", (), (kind, function.id, name, *self._interface(function)))
        head += self._modes
        for text, string in self._strings.items():
            self._write(head, "String", (string,), (text,))
        parts = (head, self._sources, self._names, self._decorations, self._globals, functions)
        words = array("I", (MAGIC, VERSION, GENERATOR, self._bound, 0))
        for part in parts:
            words.extend(part)
        if sys.byteorder == "big":
            words.byteswap()
        return words.tobytes()

    def _interface(self, function: Function) -> Iterable[int]:
        """The global variables of a function and those that it calls (a literal of the same number counts too)."""
        todo, seen = [function], {function.id}
        used: set[int] = set()
        while todo:
            words = set(todo.pop().words())
            used |= words
            more = [f for f in self._functions if f.id in words and f.id not in seen]
            seen |= {f.id for f in more}
            todo += more
        return [v for v in self._variables if v in used]
