"""Functions of a SPIR-V module: blocks and the instructions in them.

Blocks are written in the order in which they are placed; structured control flow is written by its own instructions:

    then, merge = f.block(), f.block()
    f.selection_merge(merge)
    f.branch_if(condition, then, merge)
    f.place(then)
    ...
    f.branch(merge)
    f.place(merge)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from magpie.backends.spirv.encode import Form, first_word, form
from magpie.backends.spirv.table import GLSL

if TYPE_CHECKING:
    from magpie.backends.spirv.module import Module, Operand

__all__ = ["Function"]

# After these a block is full (2.2.5, "Termination Instruction").
_TERMINATORS = frozenset(("Branch", "BranchConditional", "Switch", "Return", "ReturnValue", "Unreachable"))

# The last but one instruction of a block: nothing may stand behind it but the branch.
_MERGES = frozenset(("SelectionMerge", "LoopMerge"))

# What a device can do with 8- and 16-bit values that it has in buffers only (2.16.1, "Validation Rules for Shader").
_OF_STORAGE = frozenset(
    ("Load", "Store", "AccessChain", "InBoundsAccessChain", "CopyObject", "FConvert", "SConvert", "UConvert")
)

# The width is in the capability of atomics on floats.
_FLOAT_ATOMICS = {"AtomicFAddEXT": "Add", "AtomicFMinEXT": "MinMax", "AtomicFMaxEXT": "MinMax"}


class Function:
    """A function being made. ``block`` is the label of the block that instructions go to, None behind its end."""

    def __init__(self, module: Module, result: int, parameters: Sequence[int], control: str) -> None:
        self.module = module
        self.id = module.id()
        module.types[self.id] = type_ = module.type_function(result, *parameters)
        what = form("Function")
        self._head = [5 << 16 | what.number, result, self.id, *module.encode(what, (control, type_))]
        #: The values of the parameters.
        self.parameters: list[int] = []
        for parameter in parameters:
            value = module.id()
            module.types[value] = parameter
            self.parameters.append(value)
            self._head += [3 << 16 | form("FunctionParameter").number, parameter, value]
        self._variables: list[int] = []
        self._first: list[int] = []
        self._words: list[int] = []
        self._asked: dict[int, None] = {}
        self._merging = False
        self._line: tuple[int, int, int] | None = None
        self._shown: tuple[int, int, int] | None = None
        self.entry = self.label()
        self._head += [2 << 16 | form("Label").number, self.entry]
        del self._asked[self.entry]
        self.current: int | None = self.entry

    # --- blocks --------------------------------------------------------------------------------------------------
    def label(self, name: str = "") -> int:
        """A block that is still to be placed."""
        found = self.module.id()
        self._asked[found] = None
        if name:
            self.module.name(found, name)
        return found

    def place(self, label: int) -> None:
        """Go on in this block. The one before must have its end."""
        if self.current is not None:
            raise ValueError(f"block {self.current} has no end")
        del self._asked[label]
        self._words += (2 << 16 | form("Label").number, label)
        self.current = label
        self._shown = None  # a line holds until its block ends

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """What is written inside stands at the start of the first block, behind what was written there before, so that
        all blocks see its values."""
        saved = self._words, self.current, self._merging, self._line, self._shown
        self._words, self.current, self._merging, self._line, self._shown = self._first, self.entry, False, None, None
        try:
            yield
        finally:
            self._words, self.current, self._merging, self._line, self._shown = saved

    def branch(self, label: int) -> None:
        self.do("Branch", label)

    def branch_if(self, condition: int, then: int, otherwise: int) -> None:
        self.do("BranchConditional", condition, then, otherwise)

    def selection_merge(self, merge: int, control: str = "None") -> None:
        """Before a `branch_if`: where its two ways meet."""
        self.do("SelectionMerge", merge, control)

    def loop_merge(self, merge: int, continue_: int, control: str = "None", *operands: int) -> None:
        """Before the branch of a loop's header: where the loop ends, and what `continue` goes to."""
        self.do("LoopMerge", merge, continue_, control, *operands)

    def ret(self) -> None:
        self.do("Return")

    def ret_value(self, value: int) -> None:
        self.do("ReturnValue", value)

    def unreachable(self) -> None:
        self.do("Unreachable")

    # --- instructions --------------------------------------------------------------------------------------------
    def op(self, name: str, type_: int, *operands: Operand) -> int:
        """An instruction that gives a value of ``type_``.

        Names of scopes, semantics and of other enumerants are operands as they are: `op("AtomicIAdd", u32, p, "Device",
        "Relaxed", one)`.
        """
        module = self.module
        result = module.id()
        module.types[result] = type_
        self._instruction(form(name), (type_, result), operands)
        if module.narrow and name not in _OF_STORAGE:
            self._need_narrow((type_, *operands))
        if name.startswith("Atomic"):
            self._need_atomic(name, type_)
        return result

    def do(self, name: str, *operands: Operand) -> None:
        """An instruction without a value."""
        self._instruction(form(name), (), operands)
        if self.module.narrow and name not in _OF_STORAGE:
            self._need_narrow(operands)
        if name == "AtomicStore":
            self._need_atomic(name, self.module.types[int(operands[3])])
        if name in _TERMINATORS:
            self.current = None
            self._merging = False
        elif name in _MERGES:
            self._merging = True

    def ext(self, name: str, type_: int, *operands: int) -> int:
        """A function of GLSL.std.450. Raises ValueError for another number of operands than it takes."""
        if len(operands) != GLSL[name][1]:
            raise ValueError(f"{name} takes {GLSL[name][1]} operands")
        return self.op("ExtInst", type_, self.module.glsl(), name, *operands)

    def variable(self, type_: int, name: str = "", initializer: int | None = None) -> int:
        """A variable of the function, by the type that it holds. It stands in the first block, wherever this is asked
        for (2.4). Gives a pointer."""
        module = self.module
        module.need_narrow(type_)
        pointer = module.type_pointer("Function", type_)
        found = module.id()
        module.types[found] = pointer
        what = form("Variable")
        words = module.encode(what, ("Function", *(() if initializer is None else (initializer,))))
        self._variables += (3 + len(words) << 16 | what.number, pointer, found, *words)
        if name:
            module.name(found, name)
        return found

    def load(self, pointer: int, *access: Operand) -> int:
        """What a pointer points at; ``access`` is memory operands such as "Aligned", 4."""
        return self.op("Load", self.module.pointee(pointer), pointer, *access)

    def store(self, pointer: int, value: int, *access: Operand) -> None:
        self.do("Store", pointer, value, *access)

    def line(self, file: str, line: int, column: int = 0) -> None:
        """Where the instructions from here on come from; an empty ``file``: from nowhere."""
        self._line = (self.module.string(file), line, column) if file else None

    def _instruction(self, what: Form, head: tuple[int, ...], operands: Sequence[Operand]) -> None:
        if self.current is None:
            raise ValueError(f"Op{what.name} stands behind the end of a block")
        if bool(head) != what.typed:
            raise ValueError(f"Op{what.name} gives {'a' if what.typed else 'no'} value")
        if self._line is not self._shown and not self._merging:
            self._write_line()
        words: Any = operands  # most operands are ids, which are words as they are
        count = len(operands)
        fits = what.least <= count and (count <= what.most or what.most < 0)
        if not what.ids or not fits or not all(o.__class__ is int for o in operands):
            words = self.module.encode(what, operands)
        self._words.append(first_word(1 + len(head) + len(words), what.number))
        self._words += head
        self._words += words
        if what.capabilities and what.name not in _FLOAT_ATOMICS:
            self.module.need(what.capabilities, what.extension)

    def _write_line(self) -> None:
        if self._line != self._shown:
            if self._line is None:
                self._words.append(1 << 16 | form("NoLine").number)
            else:
                self._words += (4 << 16 | form("Line").number, *self._line)
        self._shown = self._line

    def _need_narrow(self, operands: Sequence[Operand]) -> None:
        module = self.module
        for operand in operands:
            if isinstance(operand, int):
                capability = module.narrow.get(module.types.get(operand, operand))
                if capability is not None:
                    module.capability(capability)

    def _need_atomic(self, name: str, type_: int) -> None:
        what, width, *_ = self.module.definitions[type_]
        if name in _FLOAT_ATOMICS:
            self.module.capability(f"AtomicFloat{width}{_FLOAT_ATOMICS[name]}EXT")
            self.module.extension(form(name).extension)
        elif what == "Int" and width == 64:
            self.module.capability("Int64Atomics")

    # --- the words -----------------------------------------------------------------------------------------------
    def words(self) -> list[int]:
        """The function as it stands in the module. Raises ValueError where a block has no end, or was never placed."""
        if self.current is not None:
            raise ValueError(f"block {self.current} has no end")
        if self._asked:
            raise ValueError(f"blocks {', '.join(map(str, self._asked))} were never placed")
        return [*self._head, *self._variables, *self._first, *self._words, 1 << 16 | form("FunctionEnd").number]
