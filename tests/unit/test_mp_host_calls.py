"""Every row of the table and every operation on numbers, with values of its types: it gives a value of its type or
panics, and nothing else."""

from __future__ import annotations

import random

import pytest
from host_tools import HEAD
from host_values import fits, value

from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.host.panics import Panic
from magpie.host.program import Program
from magpie.mpir.ops import OPS
from magpie.mpir.signatures import NAMES, signature
from magpie.mpir.types import Ty

#: What these do is tested elsewhere: they have no operands of types that can be made here, or touch files.
APART = ("gpu.", "mlx.", "enum.", "callable.", "call.", "setfield", "weak.", "std.io.", "std.env.", "std.time.", "arr.map", "arr.filter", "arr.reduce", "arr.foreach")  # fmt: skip
ROWS = [n for n in NAMES if not n.startswith(APART)]
INTS = [f"{sign}{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64, 128)]
FLOATS = ["f16", "bf16", "f32", "f64"]
CLASSES = {
    "int": INTS,
    "real": ["f32", "f64"],
    "num": INTS + FLOATS,
    "scalar": [*INTS, *FLOATS, "bool"],
    "text": [*INTS, *FLOATS, "bool", "Str"],
    "equal": [*INTS, *FLOATS, "bool", "Str"],
    "ordered": [*INTS, *FLOATS, "Str"],
    "key": [*INTS, "bool", "Str"],
    "any": [*INTS, *FLOATS, "bool", "Str", "Array<i64>", "TOption<Str>"],
}


def instance(type_, names, rng):
    """A type with types in place of names and classes."""
    if type_.name in names:
        return names[type_.name]
    if type_.name in CLASSES:
        return read(rng.choice(CLASSES[type_.name]))
    return Ty(type_.name, tuple(instance(a, names, rng) for a in type_.args))


def read(text):
    """A type from its text, with one argument at most."""
    name, _, inner = text.removesuffix(">").partition("<")
    return Ty(name, (read(inner),) if inner else ())


def check(call, operands, result, rng, times):
    """Run one call often; gives how often it had a value."""
    params = ", ".join(f"%{k}: {t}" for k, t in operands.items())
    keep, end = (f"%r: {result} = ", "    ret %r") if result.name != "unit" else ("", "    ret")
    text = f"fn @f({params}) -> {result} {{\nbb0:\n    {keep}{call}\n{end}\n}}\n"
    program = Program(check_source(Source(HEAD + text, "t.mp")).checked)
    good = 0
    for _ in range(times):
        arguments = [value(t, rng) for t in operands.values()]
        try:
            found = program.call("f", arguments)
        except Panic as panic:
            where = str(panic)
        else:
            where = ""
        if where:
            assert where.startswith("t.mp:5: panic: ") and "panic: out of memory\n" not in where
            continue
        good += 1
        assert fits(found, result), (call, arguments, found)
        assert all(map(fits, arguments, operands.values())), (call, arguments)  # what was changed too
    return good


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    row = signature(name)
    rng = random.Random(name)
    for _ in range(8):
        names = {p: read(rng.choice(CLASSES[cls])) for p, cls in row.params}
        operands = {p.name: instance(p.type, names, rng) for p in row.operands}
        if row.rest is not None:
            operands |= {f"v{k}": instance(row.rest.type, names, rng) for k in range(rng.randrange(4))}
        result = instance(row.result, names, rng)
        given = ", ".join(f"{k}=%{k}" for k in operands)
        keyword = "" if "@" not in name else "call_void " if result.name == "unit" else "call "
        assert check(f"{keyword}{name} {{ {given} }}", operands, result, rng, 60) > 0


#: Types of operands in the table of operations.
OPERANDS = {"int": INTS, "bits": [*INTS, "bool"], "float": FLOATS, "scalar": [*INTS, *FLOATS, "bool"], "any": CLASSES["any"]}
NUMBERS = [n for n in OPS if not n.startswith(("gpu.", "ptr.")) and n not in ("call", "new", "getfield", "const", "cast", "bitcast", "select")]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_operations(name):
    op, rng = OPS[name], random.Random(name)
    slow = name.startswith("math.")
    for first in OPERANDS.get(op.classes[0], op.classes[:1])[:: 4 if slow else 1]:
        types = [first if op.same or k == 0 else OPERANDS.get(cls, [cls])[0] for k, cls in enumerate(op.classes)]
        operands = dict(zip(op.keys, map(Ty, types), strict=True))
        result = Ty(first if op.result == "same" else op.result)
        given = ", ".join(f"{k}=%{k}" for k in op.keys)
        assert check(f"{name} {{ {given} }}", operands, result, rng, 8 if slow else 60) > 0
