"""The path of a launch that was seen before: two small functions made for one kernel and one signature.

A launch must cost a few microseconds, and a loop over parameters that asks what each argument is costs more than that.
So the text of two functions is put together once and compiled, as `dataclasses` does for `__init__`:

* the key function of a kernel gives a tuple of all that the choice of code depends on: environment, types, ranks and
  facts of the arguments (`keys`). For saxpy, where `miss` raises KeyError:

      def key(a0, a1, a2):
          return (env(v0), env(v1), ...,
                  a1._key if a1.__class__ is Buffer else (a1.dtype, ...) if a1.__class__ is ndarray else miss(a1), ...)

* the run function of a plan turns the arguments of one key into words and makes the call:

      def run(a0, a1, a2):
          w1 = a1._words
          w2 = a2._words
          if a1._memory is a2._memory and overlap(a1, a2): return general(a0, a1, a2)
          t = object()
          running[t] = ("saxpy", (a1, a2))
          try:
              if a1._key is FREED or a2._key is FREED: raise freed_error()
              call(a0 if a0.__class__ is float and -3.4e38 < a0 < 3.4e38 else c0(a0), *w1, *w2)
          finally: del running[t]

Whatever is not in the table raises KeyError and goes the long way (`launcher`), which checks everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from magpie import knobs
from magpie.dtypes import DType, Type
from magpie.errors import LaunchValueError
from magpie.frontend.python.annotations import Parameter
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.arguments import constant_key
from magpie.runtime.buffer import Buffer, freed_error, running
from magpie.runtime.generated import code_of
from magpie.runtime.keys import FREED, SMALL
from magpie.runtime.scalars import convert

__all__ = ["ENVIRONMENT", "key_function", "run_function"]

#: What a launch depends on besides its arguments. The cache's knobs and MAGPIE_DUMP are read when a kernel is compiled.
ENVIRONMENT = knobs.watch(
    knobs.backend,
    knobs.device,
    knobs.sanitize,
    knobs.checked,
    knobs.cpu_gang,
    knobs.cpu_threads,
    knobs.cpu_stream,
    knobs.coarsen,
)

# The largest double that struct packs as f32 without an overflow is a little above this; f16 likewise.
_FLOAT_LIMITS = {"f16": 65504.0, "f32": 3.4028234e38}

Key = tuple[Any, ...]


class _Numpy:
    """What the generated code needs of NumPy; made when the first kernel is launched."""

    def __init__(self) -> None:
        import numpy as np

        from magpie.runtime.arrays import pointer_reader
        from magpie.runtime.packing import host_span

        self.ndarray = np.ndarray
        self.generic = np.generic
        self.void = np.void
        self.address = pointer_reader()
        self.host_span = host_span

    def span(self, value: Any) -> tuple[int, int]:
        """First byte and the one after the last of any array."""
        return value._span() if type(value) is Buffer else self.host_span(value, self.address(value))

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two arrays touch a common range of bytes (interleaved views count: they take the general code)."""
        a_low, a_high = self.span(a)
        b_low, b_high = self.span(b)
        return a_low < b_high and b_low < a_high

    def words(self, array: Any, name: str) -> tuple[int, ...]:
        """The words of an array with any strides. Two arrays of one key may differ in them, hence the check."""
        size = array.itemsize
        strides = []
        for stride in array.strides:
            quotient, rest = divmod(stride, size)
            if rest:
                raise LaunchValueError(
                    f"argument {name!r} has strides {array.strides}, no multiples of {size} bytes, so its elements "
                    "cannot be addressed",
                    diagnostic="MPG_LAUNCH_1018",
                    help=f"pass np.ascontiguousarray({name})",
                )
            strides.append(quotient)
        return (self.address(array), *array.shape, *strides)

    def other(self, value: Any) -> Any:
        """The key of a value without annotation that is no array; KeyError sends the launch the long way."""
        kind = type(value)
        if kind is int or kind is float or kind is bool:
            return kind
        if issubclass(kind, self.generic) and kind is not self.void:
            return kind
        raise KeyError


_numpy: _Numpy | None = None


def numpy_support() -> _Numpy:
    """The one object of its kind; of two threads that make it, either one will do."""
    global _numpy
    if _numpy is None:
        _numpy = _Numpy()
    return _numpy


def _miss(value: Any) -> Any:
    raise KeyError


def _names(count: int) -> str:
    return ", ".join(f"a{i}" for i in range(count))


def key_function(parameters: Sequence[Parameter]) -> Callable[..., Key]:
    """The key function of a kernel. It raises KeyError or TypeError for arguments that need the long way."""
    np = numpy_support()
    read, variables = ENVIRONMENT
    parts = [f"env(v{i})" for i in range(len(variables))]
    for i, p in enumerate(parameters):
        a = f"a{i}"
        if p.kind == "constexpr":
            parts.append(f"constant({a})")
        elif p.kind != "scalar":
            rest = f"other({a})" if p.kind == "any" else f"miss({a})"
            # A size below the limit bounds the extents, too, but for an empty array: its shape is then part of the key.
            size = f"{a}.size < {SMALL} if {a}.size else {a}.shape"
            numpy = f"({a}.dtype, {a}.ndim, {a}.flags.num, {size}) if {a}.__class__ is ndarray"
            optional = f"None if {a} is None else " if p.default is None else ""  # there or not is part of the key
            parts.append(f"{optional}{a}._key if {a}.__class__ is Buffer else {numpy} else {rest}")
        elif p.default is None:
            parts.append(f"{a} is None")
    text = f"def key({_names(len(parameters))}):\n    return ({', '.join(parts)},)\n"
    names = {
        "env": read,
        **{f"v{i}": variable for i, variable in enumerate(variables)},
        "constant": constant_key,
        "Buffer": Buffer,
        "ndarray": np.ndarray,
        "other": np.other,
        "miss": _miss,
    }
    made: Callable[..., Key] = _function(text, "key", names)
    return made


def run_function(
    kernel: str,
    parameters: Sequence[Parameter],
    layout: KernelLayout,
    types: Sequence[Type | None],
    values: Sequence[Any],
    *,
    call: Callable[..., None] | None,
    bind: Callable[[tuple[Any, ...]], Callable[..., None]],
    general: Callable[..., None] | None,
    changed: Callable[[], bool] | None,
    stale: Callable[..., None],
) -> Callable[..., None]:
    """The run function of arguments like `values`.

    `types` has the struct or scalar type of each by-value parameter. `call` takes the layout's words; None: it depends
    on them, and `bind(words)` gives it. `general` runs the same arguments without facts; None: no facts are assumed.
    When `changed` is given and true, `stale` takes over: a value that the kernel captured is another now.
    """
    np = numpy_support()
    fields = {f.name: f for f in layout.params}
    names: dict[str, Any] = {
        "overlap": np.overlap,
        "address": np.address,
        "np_words": np.words,
        "running": running,
        "freed_error": freed_error,
        "FREED": FREED,
        "call": call,
        "bind": bind,
        "general": general,
        "new": object,
        "changed": changed,
        "stale": stale,
    }
    body: list[str] = []
    words: list[str] = []
    buffers: list[int] = []
    arrays: list[tuple[int, bool, bool]] = []  # index, is a Buffer, is written
    for i, (p, value) in enumerate(zip(parameters, values, strict=True)):
        field = fields.get(p.name)
        if field is None:  # a compile-time constant
            continue
        if isinstance(field, BufferField):
            own = type(value) is Buffer
            arrays.append((i, own, field.access in ("write", "read_write")))
            if own:
                buffers.append(i)
                body.append(f"w{i} = a{i}._words")
                words.append(f"*w{i}")
            else:
                words.extend(_numpy_words(i, p.name, field.rank, general is not None, body))
        else:
            type_ = types[i]
            assert type_ is not None
            names[f"c{i}"] = partial(convert, type_=type_, name=p.name)
            words.append(_scalar(f"a{i}", f"c{i}", type_))
    arguments = _names(len(parameters))
    if changed is not None:
        body.insert(0, f"if changed(): return stale({arguments})")
    if general is not None:
        clashes = [_clash(a, b) for n, a in enumerate(arrays) for b in arrays[:n] if a[2] or b[2]]
        if clashes:
            body.append(f"if {' or '.join(clashes)}: return general({arguments})")
    do = f"call({', '.join(words)})"
    if call is None:
        body.append(f"words = ({', '.join(words)},)")
        do = "bind(words)(*words)"
    if buffers:
        names["name"] = kernel
        body += [
            "t = new()",
            f"running[t] = (name, ({', '.join(f'a{i}' for i in buffers)},))",
            "try:",
            f"    if {' or '.join(f'a{i}._key is FREED' for i in buffers)}: raise freed_error()",
            f"    {do}",
            "finally:",
            "    del running[t]",
        ]
    else:
        body.append(do)
    text = f"def run({arguments}):\n    " + "\n    ".join(body) + "\n"
    made: Callable[..., None] = _function(text, "run", names)
    return made


def _numpy_words(i: int, name: str, rank: int, contiguous: bool, body: list[str]) -> list[str]:
    if not contiguous:
        return [f"*np_words(a{i}, {name!r})"]
    body.append(f"p{i} = address(a{i})")
    if rank == 0:
        return [f"p{i}"]
    if rank == 1:
        return [f"p{i}, a{i}.size, 1"]
    body.append(f"{', '.join(f's{i}_{d}' for d in range(rank))} = a{i}.shape")
    extents = [f"s{i}_{d}" for d in range(rank)]
    strides = ["*".join(extents[d + 1 :]) or "1" for d in range(rank)]
    return [f"p{i}", *extents, *strides]


def _clash(a: tuple[int, bool, bool], b: tuple[int, bool, bool]) -> str:
    """An expression that is true when two arrays overlap; both are contiguous."""
    i, j = a[0], b[0]
    if a[1] and b[1]:
        return f"(a{i}._memory is a{j}._memory and overlap(a{i}, a{j}))"
    if not a[1] and not b[1]:
        return f"(p{i} < p{j} + a{j}.nbytes and p{j} < p{i} + a{i}.nbytes)"
    return f"overlap(a{i}, a{j})"


def _scalar(a: str, convert_name: str, type_: Type) -> str:
    """An expression for the packed value: what needs no conversion passes by."""
    slow = f"{convert_name}({a})"
    if not isinstance(type_, DType):
        return slow
    if type_.is_bool:
        return f"{a} if {a}.__class__ is bool else {slow}"
    if type_.is_int:
        return f"{a} if {a}.__class__ is int and {type_.min} <= {a} <= {type_.max} else {slow}"
    if type_.name == "f64":
        return f"{a} if {a}.__class__ is float else {slow}"
    limit = _FLOAT_LIMITS.get(type_.name)
    return slow if limit is None else f"{a} if {a}.__class__ is float and -{limit!r} < {a} < {limit!r} else {slow}"


def _function(text: str, name: str, names: dict[str, Any]) -> Any:
    exec(code_of(text, f"<magpie {name}>"), names)
    return names[name]
