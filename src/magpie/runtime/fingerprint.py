"""What a kernel's source and everything it captures look like, as text: a key to the disk cache that needs no compiler.

Lowering a kernel to know its IR, only to find the code of that IR on disk, takes longer than loading the code. So an
entry is also found by its *source*: the lines of the function, its bytecode, and the value of every name that it could
read from outside, device functions included. This errs on one side only: whatever might matter and has no safe text (an
object of a user's class, a user's module) gives no key at all, and the kernel is lowered.

The walk also notes what a running program may change, as `Dependencies`.
"""

from __future__ import annotations

import linecache
import opcode
import re
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from magpie.dtypes import DType, StructType
from magpie.frontend.python.dependencies import Dependencies
from magpie.frontend.signature import Arg, ArrayArg, ConstArg, ScalarArg
from magpie.language._builtin import Builtin
from magpie.language.declare import ArrayAnnotation, DeviceFunction, struct_type

__all__ = ["Fingerprint", "args_text", "fingerprint"]

# Modules whose content belongs to the version of this package, of Python or of NumPy.
_FIXED_MODULES = frozenset({"magpie", "math", "numpy", "builtins", "operator", "typing", "cmath", "ml_dtypes"})

# An annotated local, `v: T = 0`: the bytecode has no trace of T, and the frontend evaluates it.
_LOCAL_ANNOTATION = re.compile(r"^\s*(?!else\b|try\b|finally\b)\w+\s*:([^=#\n]+)", re.MULTILINE)

_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]

# Kernels take nothing of these from outside (MPG_PY_1023): a name that means one is not read by a kernel that compiles.
_NEVER_CAPTURED = (list, dict, set, frozenset, bytes, bytearray)


class _Unknown(Exception):
    """Something whose meaning to the frontend cannot be put in text."""


class Fingerprint:
    """`text` stands for the kernel's source and captures; `changed` tells whether a capture is another now."""

    __slots__ = ("dependencies", "text")

    def __init__(self, text: str, dependencies: Dependencies) -> None:
        self.text = text
        self.dependencies = dependencies


def fingerprint(fn: FunctionType) -> Fingerprint | None:
    """The fingerprint of a kernel function as it is now, or None where there is no safe one."""
    walker = _Walker()
    try:
        walker.function(fn)
    except (_Unknown, OSError, LookupError, ValueError, AttributeError, RecursionError):
        return None
    return Fingerprint("\n".join(walker.parts), walker.dependencies)


def args_text(args: tuple[Arg, ...]) -> str | None:
    """The arguments' descriptors as text, structs and constants spelt out; None where a constant has no safe text."""
    walker = _Walker()
    try:
        for arg in args:
            walker.parts.append(type(arg).__name__)
            if isinstance(arg, ArrayArg):
                walker.parts.append(f"{arg.rank}")
            if isinstance(arg, ArrayArg | ScalarArg):
                walker.value(arg.type)
            elif isinstance(arg, ConstArg):
                walker.value(arg.value)
            else:
                walker.parts.append(arg.kind)
    except (_Unknown, OSError, ValueError, AttributeError, RecursionError):
        return None
    return "\n".join(walker.parts)


class _Walker:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.dependencies = Dependencies()
        self.functions: dict[int, int] = {}
        self.keep: list[Any] = []  # ids stay unique while the objects live

    def function(self, fn: FunctionType) -> None:
        """Source, bytecode, defaults, annotations and captures of a function."""
        number = self.functions.get(id(fn))
        if number is not None:
            self.parts.append(f"function {number}")
            return
        self.functions[id(fn)] = len(self.functions)
        self.keep.append(fn)
        code = fn.__code__
        source = _source(code, fn.__globals__)
        self.parts += ["def", source]
        names: dict[str, None] = {}
        self._code(code, names)
        for annotation in _LOCAL_ANNOTATION.findall(source):
            names.update(dict.fromkeys(_words(annotation)))
        for default in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            self.value(default)
        for name, annotation in fn.__annotations__.items():
            self.parts.append(name)
            if isinstance(annotation, str):
                # Evaluated later, in the function's globals: the names in it count as read.
                self.parts.append(annotation)
                names.update(dict.fromkeys(_words(annotation)))
            else:
                self.value(annotation)
        for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
            self.parts.append(name)
            value = cell.cell_contents
            self.value(value)
            if _may_change(value):
                self.dependencies.cell(cell, name, value)
        scope = fn.__globals__
        for name in names:
            if name not in scope:
                continue
            self.parts.append(name)
            value = scope[name]
            self.value(value)
            if _may_change(value):
                self.dependencies.name(scope, name, value)

    def _code(self, code: CodeType, names: dict[str, None]) -> None:
        self.parts.append(code.co_code.hex())
        self.parts.append(
            repr((code.co_name, code.co_varnames, code.co_names, code.co_argcount, code.co_kwonlyargcount))
        )
        names.update(dict.fromkeys(_globals(code)))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, names)
            else:
                self.parts.append(f"{type(constant).__name__} {constant!r}")

    def value(self, value: Any) -> None:
        """Whatever a kernel may capture."""
        kind = type(value)
        parts = self.parts
        if value is None or kind in (bool, int, float, str):
            parts.append(f"{kind.__name__} {value!r}")
        elif kind is tuple:
            parts.append(f"tuple {len(value)}")
            for item in value:
                self.value(item)
        elif isinstance(value, DType):
            parts.append(f"dtype {value.name}")
        elif isinstance(value, StructType):
            parts.append(f"struct {value.name} {value.itemsize}")
            for f in value.fields:
                parts.append(f"{f.name} {f.offset}")
                self.value(f.type)
        elif isinstance(value, DeviceFunction):
            self.function(value.fn)
        elif isinstance(value, Builtin):
            parts.append(f"builtin {value.name}")
        elif isinstance(value, ArrayAnnotation):
            parts.append(f"array {value.rank}")
            self.value(value.type)
        elif isinstance(value, ModuleType):
            name = value.__name__
            if name.partition(".")[0] not in _FIXED_MODULES:
                raise _Unknown
            parts.append(f"module {name} {getattr(value, '__version__', '')}")
        elif isinstance(value, FunctionType):
            if value.__module__.partition(".")[0] == "magpie":
                parts.append(f"function {value.__module__}.{value.__qualname__}")
            else:
                self.function(value)
        elif isinstance(value, BuiltinFunctionType):
            parts.append(f"function {value.__module__}.{value.__qualname__}")
        else:
            self._other(value)

    def _other(self, value: Any) -> None:
        parts = self.parts
        struct = struct_type(value)
        if struct is not None:
            self.value(struct)
            defaults = getattr(value, "__magpie_defaults__", {})
            for name in sorted(defaults):
                parts.append(name)
                self.value(defaults[name])
            if not isinstance(value, type):
                for f in struct.fields:
                    self.value(getattr(value, f.name))
        elif isinstance(value, type):
            if value.__module__.partition(".")[0] not in _FIXED_MODULES:
                raise _Unknown
            parts.append(f"class {value.__module__}.{value.__qualname__}")
        elif isinstance(value, _NEVER_CAPTURED) or _is_array(value) or _is_kernel(value):
            parts.append("nothing for a kernel")
        else:
            raise _Unknown


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return bool(value.ndim)
    return type(value).__module__ == "magpie.runtime.buffer"


def _is_kernel(value: Any) -> bool:
    return type(value).__module__ in ("magpie.runtime.kernel", "magpie.runtime.launcher")


def _may_change(value: Any) -> bool:
    """Whether a running program may rebind the name to something else that a kernel sees."""
    return not isinstance(value, ModuleType | Builtin) and not _is_array(value) and not _is_kernel(value)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", text)


def _globals(code: CodeType) -> list[str]:
    """The names that a function's own instructions load from its globals (not attributes, which share `co_names`)."""
    found: list[str] = []
    raw = code.co_code
    high = 0
    for at in range(0, len(raw), 2):
        operation, low = raw[at], raw[at + 1]
        argument = high | low
        if operation == _LOAD_GLOBAL:
            found.append(
                code.co_names[argument >> 1]
            )  # the lowest bit asks for a NULL below the value (3.11 and later)
        high = argument << 8 if operation == opcode.EXTENDED_ARG else 0
    return found


def _source(code: CodeType, scope: dict[str, Any]) -> str:
    """The lines of a function, from its first (decorators included) to the last that any instruction comes from."""
    lines = linecache.getlines(code.co_filename, scope)
    if not lines:
        raise _Unknown
    last = _last_line(code)
    return "".join(lines[code.co_firstlineno - 1 : last])


def _last_line(code: CodeType) -> int:
    last = max((end for _, end, _, _ in code.co_positions() if end), default=code.co_firstlineno)
    return max([last, *(_last_line(c) for c in code.co_consts if isinstance(c, CodeType))])
