"""The rules of MPIR's types: what operations take and give, what branches ask, what functions are given and return."""

from __future__ import annotations

import re
from collections.abc import Callable

from magpie.diagnostics import Diagnostic, Loc
from magpie.mpir.known import Found, Known, field_path
from magpie.mpir.nodes import Cbr, Const, Instr, Operand, Ret, Switch, Word
from magpie.mpir.ops import OPS, Op
from magpie.mpir.prelude import field_type, fields_of, variants_of
from magpie.mpir.types import BOOL, PTR, Ty, scalar

__all__ = ["type_rules"]


def type_rules(known: Known) -> Found:
    """Every rule on types, block by block."""
    for block in known.function.blocks:
        for phi in block.phis:
            for label, operand in phi.incoming:
                yield from _wanted(known, operand, phi.type, f"phi %{phi.result} from {label}", phi.loc)
                yield from _literal(operand, phi.loc)
        for instr in block.instrs:
            for operand in instr.args.values():
                yield from _literal(operand, instr.loc)
            op = OPS.get(instr.op)
            if op is not None:
                yield from _instruction(known, instr, op)
        term = block.term
        match term:
            case Cbr():
                yield from _wanted(known, term.cond, BOOL, "the condition of a cbr", term.loc)
            case Switch():
                yield from _switch(known, term)
            case Ret():
                yield from _ret(known, term)


def _wanted(
    known: Known, operand: Operand, type_: Ty, what: str, loc: Loc | None, help: str | None = None
) -> Found:
    if known.type(operand) != type_.owned:
        yield Diagnostic("MPS0004", f"{what} has type {known.shown(operand)}, wanted {type_}", loc, help=help)


def _literal(operand: Operand, loc: Loc | None) -> Found:
    for value in operand if isinstance(operand, tuple) else (operand,):
        if isinstance(value, Const) and value.type.is_int and isinstance(value.value, int):
            bits = value.type.bits
            least, most = (
                (0, (1 << bits) - 1) if value.type.is_unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            )
            if not least <= value.value <= max(most, 1):  # the bit of i1 is -1 as a number, and 1 to most readers
                yield Diagnostic("MPS0001", f"{value.value} is out of the range of {value.type}", loc)


def _switch(known: Known, term: Switch) -> Found:
    type_ = known.type(term.value)
    if type_ is None or not type_.is_int:
        helped = None
        if type_ is not None and type_.is_bool:
            helped = "branch on it with cbr"
        elif type_ is not None and variants_of(known.module, type_) is not None:
            helped = "switch on what enum.tag gives"
        yield Diagnostic("MPS0004", f"the value of a switch is an integer, not {type_}", term.loc, help=helped)
        return
    for number, _ in term.cases:
        yield from _literal(Const(type_, number), term.loc)


def _ret(known: Known, term: Ret) -> Found:
    ret = known.function.ret
    if term.value is not None:
        yield from _literal(term.value, term.loc)
        if ret.name == "unit":
            yield Diagnostic("MPS0004", f"@{known.function.name} gives unit, and here a value", term.loc)
        else:
            yield from _wanted(known, term.value, ret, "what is returned", term.loc)
    elif ret.name != "unit":
        yield Diagnostic("MPS0004", f"@{known.function.name} gives {ret}, and here nothing", term.loc)


_CLASSES: dict[str, Callable[[Ty], bool]] = {
    "int": lambda t: t.is_int,
    "idx": lambda t: t.is_int,
    "dim": lambda t: t.is_int,
    "bits": lambda t: t.is_int or t.is_bool,
    "float": lambda t: t.is_float,
    "bool": lambda t: t.is_bool,
    "num": lambda t: t.is_int or t.is_float,
    "scalar": lambda t: t.is_int or t.is_bool or t.is_float,
    "buf": lambda t: t.name == "ptr" or (t.name == "gpu.TBuffer" and len(t.args) == 1),
    "rawptr": lambda t: t.name == "rawptr" and len(t.args) == 1,
    "bf16": lambda t: t.name == "bf16",
    "f32": lambda t: t.name == "f32",
    "f64": lambda t: t.name == "f64",
    "i32": lambda t: t.name == "i32",
    "i64": lambda t: t.name == "i64",
    "text": lambda t: t.name == "Str",
    "any": lambda t: True,
    "name": lambda t: True,
}


def _instruction(known: Known, instr: Instr, op: Op) -> Found:
    types = [known.type(instr.args[k]) for k in op.keys]
    for key, cls, type_ in zip(op.keys, op.classes, types, strict=True):
        if cls == "name":
            if not isinstance(instr.args[key], Word):
                yield Diagnostic("MPS0004", f"{key} of {op.name} is a bare name", instr.loc)
                return
        elif cls == "list":
            if not isinstance(instr.args[key], tuple):
                yield Diagnostic("MPS0001", f"{key} of {op.name} is a list in [ ]", instr.loc)
                return
        elif type_ is None or not _CLASSES[cls](type_):
            shown = known.shown(instr.args[key])
            yield Diagnostic("MPS0004", f"{key} of {op.name} has type {shown}, wanted {cls}", instr.loc)
            return
    if op.same and len(set(types)) > 1:
        shown = " and ".join(map(str, types))
        yield Diagnostic(
            "MPS0004",
            f"the operands of {op.name} have types {shown}",
            instr.loc,
            help="cast one: there are no implicit casts",
        )
        return
    if op.name in _SPECIAL:
        yield from _SPECIAL[op.name](known, instr)
    elif op.result != "any":
        yield from _result(instr, _result_type(instr, op, types))


def _result_type(instr: Instr, op: Op, types: list[Ty | None]) -> Ty | None:
    if op.result == "none":
        return None
    if op.result == "same":
        return types[0]
    if op.result == "id":
        return instr.type if instr.type == Ty("i64") else Ty("u32")
    if op.result.startswith("targ"):
        found = instr.targs[int(op.result[4:])]
        return found if isinstance(found, Ty) else None
    return Ty(op.result)


def _result(instr: Instr, type_: Ty | None) -> Found:
    if type_ is None or type_.name == "unit":
        if instr.result is not None and (type_ is None or instr.type != type_):
            yield Diagnostic("MPS0004", f"{instr.op} gives no value", instr.loc)
    elif instr.type is None:
        yield Diagnostic("MPS0004", f"the {type_} that {instr.op} gives has no name", instr.loc)
    elif instr.type.owned != type_.owned:
        yield Diagnostic("MPS0004", f"{instr.op} gives {type_}, not {instr.type}", instr.loc)


def _cast(known: Known, instr: Instr) -> Found:
    source, to = instr.targs
    if not isinstance(source, Ty) or not isinstance(to, Ty) or not _CLASSES["scalar"](to):
        yield Diagnostic("MPS0001", "cast is between two scalar types", instr.loc)
        return
    yield from _wanted(known, instr.args["v"], source, "v of cast", instr.loc)
    if "bf16" in (source.name, to.name) and {source.name, to.name} & {"f64", "f16"}:
        yield Diagnostic("MPT0012", f"there is no cast from {source} to {to}", instr.loc, help="go through f32")
    yield from _result(instr, to)


def _bitcast(known: Known, instr: Instr) -> Found:
    source, to = instr.targs
    types = [scalar(t) for t in (source, to) if isinstance(t, Ty)]
    if len(types) < 2 or not isinstance(source, Ty) or not isinstance(to, Ty) or None in types:
        yield Diagnostic("MPS0001", "bitcast is between two numbers", instr.loc)
        return
    yield from _wanted(known, instr.args["v"], source, "v of bitcast", instr.loc)
    if types[0] is not None and types[1] is not None and (types[0].bits != types[1].bits or to.is_bool):
        yield Diagnostic("MPS0004", f"bitcast from {source} to {to}: one width, and no bool", instr.loc)
    yield from _result(instr, to)


def _select(known: Known, instr: Instr) -> Found:
    a, b = known.type(instr.args["a"]), known.type(instr.args["b"])
    if a != b:
        yield Diagnostic("MPS0004", f"the operands of select have types {a} and {b}", instr.loc)
    elif a is not None and a.name in ("ptr", "rawptr", "gpu.TBuffer"):
        help = "take an array of twice the length and choose the index"
        yield Diagnostic("MPS0004", f"select of a {a}: each pointer is one memory", instr.loc, help=help)
    else:
        yield from _result(instr, a)


_FLOAT_ATOMICS = ("add", "sub", "min", "max", "exchange", "cas", "load", "store")
_BOOL_ATOMICS = ("and", "or", "xor", "exchange", "cas", "load", "store")


def _buffer(known: Known, instr: Instr) -> Found:
    element = instr.targs[0]
    buffer = known.type(instr.args["buf"])
    if not isinstance(element, Ty):
        yield Diagnostic("MPS0001", f"{instr.op} names the type of an element in <>", instr.loc)
        return
    if buffer is not None and buffer.args and buffer.args[0] != element:
        yield Diagnostic("MPS0004", f"{instr.op} of {element} in a {buffer}", instr.loc)
    for key in ("v", "expected", "desired"):
        if key in instr.args:
            yield from _wanted(known, instr.args[key], element, f"{key} of {instr.op}", instr.loc)
    if instr.op.startswith("gpu.atomic_"):
        kind = instr.op[len("gpu.atomic_") :].split(".")[0]
        floats, bools = element.is_float and kind in _FLOAT_ATOMICS, element.is_bool and kind in _BOOL_ATOMICS
        if not (element.is_int or floats or bools):
            yield Diagnostic("MPS0004", f"there is no {instr.op} of {element}", instr.loc)
    if OPS[instr.op].result == "none":
        yield from _result(instr, None)
    elif instr.result is not None or not instr.op.startswith("gpu.atomic_"):  # the old value may be dropped
        yield from _result(instr, element)


def _pointer(known: Known, instr: Instr) -> Found:
    element = instr.targs[0]
    if not isinstance(element, Ty) or not _CLASSES["scalar"](element):
        yield Diagnostic("MPS0001", f"{instr.op} names the type of an element, a scalar, in <>", instr.loc)
        return
    pointer = Ty("rawptr", (element,))
    if "p" in instr.args:
        yield from _wanted(known, instr.args["p"], pointer, f"p of {instr.op}", instr.loc)
    if "v" in instr.args:
        yield from _wanted(known, instr.args["v"], element, f"v of {instr.op}", instr.loc)
    found = {"gpu.malloc": pointer, "ptr.add": pointer, "ptr.load": element, "ptr.is_null": BOOL}
    yield from _result(instr, found.get(instr.op))


def _length(known: Known, instr: Instr) -> Found:
    wanted = ("u32", "i64") if known.on_device else ("u64",)
    if instr.type is None or instr.type.name not in wanted:
        text = f"gpu.buffer_len gives u32 or i64 in a kernel and u64 elsewhere, not {instr.type}"
        yield Diagnostic("MPS0004", text, instr.loc, help=f"here it is {' or '.join(wanted)}")


def _field(known: Known, instr: Instr) -> Found:
    """A field of an element, or one of a struct inside it: ``field=a.b``."""
    element = instr.targs[0]
    buffer = known.type(instr.args["buf"])
    if not isinstance(element, Ty):
        yield Diagnostic("MPS0001", f"{instr.op} names the type of an element in <>", instr.loc)
        return
    if buffer is not None and buffer.args and buffer.args[0] != element:
        yield Diagnostic("MPS0004", f"{instr.op} of {element} in a {buffer}", instr.loc)
    at: Ty | None = element
    for name in field_path(instr):
        fields = fields_of(known.module, at) if at is not None else None
        found = field_type(known.module, fields, name) if fields is not None else None
        if found is None:
            helped = known.instead(name, dict(fields)) if fields is not None else None
            yield Diagnostic("MPS0001", f"{at} has no field {name}", instr.loc, help=helped)
            return
        at = found
    if at is None or not _CLASSES["scalar"](at):
        yield Diagnostic("MPS0004", f"{instr.op} is of one number, and the field is a {at}", instr.loc)
    elif "v" in instr.args:
        yield from _wanted(known, instr.args["v"], at, f"v of {instr.op}", instr.loc)
        yield from _result(instr, None)
    else:
        yield from _result(instr, at)


def _memory(known: Known, instr: Instr) -> Found:
    count, element = instr.targs
    if not isinstance(count, int) or count < 1 or not isinstance(element, Ty):
        yield Diagnostic("MPS0001", f"{instr.op} takes a number of elements, at least 1, and their type", instr.loc)
    yield from _result(instr, PTR)


def _dynamic(known: Known, instr: Instr) -> Found:
    if not isinstance(instr.targs[0], Ty):
        yield Diagnostic("MPS0001", f"{instr.op} names the type of an element in <>", instr.loc)
    yield from _result(instr, PTR)


def _table(known: Known, instr: Instr) -> Found:
    element, values = instr.targs[0], instr.args["values"]
    found = values if isinstance(values, tuple) else ()
    if not found or not all(isinstance(v, Const) and v.type == element for v in found):
        text = f"the values of gpu.table<{element}> are literals of that type, at least one"
        yield Diagnostic("MPS0001", text, instr.loc)
    yield from _result(instr, PTR)


def _print(known: Known, instr: Instr) -> Found:
    text, values = instr.args["text"], instr.args["args"]
    if not isinstance(text, Const) or not isinstance(values, tuple):
        yield Diagnostic("MPS0001", 'gpu.print takes text="..." and args=[...]', instr.loc)
        return
    for value in values:
        type_ = known.type(value)
        if type_ is None or not _CLASSES["scalar"](type_):
            yield Diagnostic("MPS0004", f"gpu.print shows numbers and bools, no {type_}", instr.loc)
    count = len(re.findall(r"\{\}", re.sub(r"\{\{|\}\}", "", str(text.value))))
    if count != len(values):
        shown = f"{len(values)} values for {count} {{}} in the text"
        help = "each value stands for a {}; braces are {{ and }}"
        yield Diagnostic("MPS0001", f"gpu.print has {shown}", instr.loc, help=help)
    yield from _result(instr, None)


def _call(known: Known, instr: Instr) -> Found:
    callee = known.module.function(instr.callee)
    assert callee is not None
    for name, type_ in callee.params:
        yield from _wanted(known, instr.args[name], type_, f"{name} of @{callee.name}", instr.loc, callee.head)
    if instr.result is not None or callee.ret.name == "unit":  # what a call gives may be dropped
        yield from _result(instr, callee.ret)


def _new(known: Known, instr: Instr) -> Found:
    type_ = instr.targs[0]
    assert isinstance(type_, Ty)
    for name, field in fields_of(known.module, type_) or ():
        yield from _wanted(known, instr.args[name], field, f"{name} of {type_}", instr.loc)
    yield from _result(instr, type_)


def _getfield(known: Known, instr: Instr) -> Found:
    type_, name = known.type(instr.args["obj"]), instr.args["field"]
    assert isinstance(name, Word)
    fields = fields_of(known.module, type_) if type_ is not None and not type_.mode else None
    if fields is None:
        helped = "take it from weak.upgrade" if type_ is not None and type_.mode else None
        yield Diagnostic("MPS0004", f"getfield of a {type_}, which is no struct", instr.loc, help=helped)
        return
    found = field_type(known.module, fields, name.name)
    if found is None:
        helped = known.instead(name.name, dict(fields))
        yield Diagnostic("MPS0001", f"{type_} has no field {name.name}", instr.loc, help=helped)
    else:
        yield from _result(instr, found)


_ACCESSES = ("gpu.buffer_load", "gpu.buffer_store")
_SPECIAL: dict[str, Callable[[Known, Instr], Found]] = {
    "cast": _cast,
    "bitcast": _bitcast,
    "select": _select,
    **{name: _buffer for name in OPS if name in _ACCESSES or name.startswith("gpu.atomic_")},
    **dict.fromkeys(("gpu.buffer_load_field", "gpu.buffer_store_field"), _field),
    **dict.fromkeys(("gpu.malloc", "ptr.load", "ptr.store", "ptr.add", "ptr.is_null"), _pointer),
    "gpu.buffer_len": _length,
    **dict.fromkeys(("gpu.shared", "gpu.local"), _memory),
    "gpu.shared_dynamic": _dynamic,
    "gpu.table": _table,
    "gpu.print": _print,
    "call": _call,
    "new": _new,
    "getfield": _getfield,
}
