"""The rules of operations that only host programs have."""

from __future__ import annotations

from collections.abc import Callable

from magpie.diagnostics import Diagnostic
from magpie.mpir.known import Found, Known, listed
from magpie.mpir.nodes import FnRef, Instr, Sig, Word
from magpie.mpir.ops import NO_CODE, OPS
from magpie.mpir.prelude import STRUCTS, Fields, field_type, fields_of, variants_of
from magpie.mpir.signatures import signature
from magpie.mpir.types import Ty
from magpie.mpir.verify_calls import call_types, operand_names, unknown

__all__ = ["LAUNCHES", "host_operands", "host_rules"]

LAUNCHES = ("gpu.launch", "gpu.launch_async", "gpu.profile.@launch_profiled")
_NO_ITEMS = "only kernels have work-items; hosts call gpu.host.@..."
_TAKES_V = ("try", "global")  # the table has no rows for these
_ON_HOSTS = ("gpu.buffer_len",)  # of what begins with gpu. and is no function


def host_operands(known: Known, instr: Instr) -> Found:
    """What is called exists, and is given what it takes; of an operation that kernels do not have."""
    row = signature(instr.op)
    if row is not None:
        if not known.on_device:
            yield from operand_names(instr, row)
    elif instr.op in NO_CODE:
        if not known.on_device:
            yield _fault("MPT0023", f"`{instr.op}` in a host program", instr, _NO_ITEMS)
    elif instr.op not in _TAKES_V:
        yield from unknown(known, instr)
    elif set(instr.args) != {"v"}:
        yield Diagnostic("MPS0001", f"{instr.op} takes one operand, v", instr.loc)


def host_rules(known: Known) -> Found:
    """Every rule on what only hosts do, in the order of the text."""
    for block in known.function.blocks:
        for instr in block.instrs:
            if instr.op in OPS:
                if known.on_host and instr.op.startswith("gpu.") and instr.op not in _ON_HOSTS:
                    yield _fault("MPT0023", f"`{instr.op}` in a host program", instr, _NO_ITEMS)
            elif not known.on_device:
                row, rule = signature(instr.op), _RULES.get(instr.op)
                if row is not None and instr.op not in _WITHOUT_ROW:
                    yield from call_types(known, instr, row)
                if rule is not None:
                    yield from rule(known, instr)


def _fault(code: str, text: str, instr: Instr, help: str | None = None) -> Diagnostic:
    return Diagnostic(code, text, instr.loc, help=help)


def _gives(instr: Instr, type_: Ty) -> Found:
    """The result, where it has a name, is of this type."""
    if instr.type is not None and instr.type.owned != type_.owned:
        yield _fault("MPS0004", f"{instr.op} gives {type_}, not {instr.type}", instr)


def _named(instr: Instr, what: str) -> Found:
    if instr.type is None:
        yield _fault("MPS0004", f"the {what} that {instr.op} gives has no name", instr)


# --- launches ---------------------------------------------------------------------------------------------------------
def _launch(known: Known, instr: Instr) -> Found:
    """A launch names a kernel, gives it three sizes twice, and what its parameters are."""
    ref, given = instr.args.get("kernel"), instr.args.get("args")
    kernel = known.module.function(ref.name) if isinstance(ref, FnRef) else None
    if kernel is None or kernel.gpu_meta is None:
        helped = "write kernel=@name"
        names = [f.name for f in known.module.functions if f.gpu_meta is not None]
        near = known.near(ref.name, names) if isinstance(ref, FnRef) else None
        helped = f"{helped}: @{near}" if near else helped
        yield _fault("MPT0010", f"{instr.op} names no kernel of this module", instr, helped)
        return
    fallback = instr.args.get("fallback")
    if fallback is not None and fallback != Word("cpu"):
        yield _fault("MPT0010", f"fallback of {instr.op} is not cpu", instr, "write fallback=cpu, or leave it out")
    for key in ("grid", "block"):
        size = instr.args.get(key)
        if not isinstance(size, tuple):
            yield _fault("MPT0010", f"{key} of {instr.op} is no list", instr, f"write {key}=[%x, %y, %z]")
        elif len(size) != 3:
            yield _fault("MPT0010", f"{key} of {instr.op} has {len(size)} sizes, wanted 3", instr)
        else:
            for value in size:
                found = known.type(value)
                if found is None or found.name != "u32":
                    text = f"a size in {key} of {instr.op} has type {known.shown(value)}, wanted u32"
                    yield _fault("MPT0010", text, instr)
                    break
    shown = f"@{kernel.name} takes ({listed(f'%{name}: {type_}' for name, type_ in kernel.params)})"
    if not isinstance(given, tuple):
        yield _fault("MPT0010", f"args of {instr.op} is no list", instr, shown)
        return
    if len(given) != len(kernel.params):
        text = f"{len(given)} arguments for {len(kernel.params)} parameters"
        yield _fault("MPT0010", text, instr, shown)
        return
    for value, (name, type_) in zip(given, kernel.params, strict=True):
        if known.type(value) != type_.owned:
            yield _fault("MPT0010", f"argument %{name} has type {known.shown(value)}, wanted {type_}", instr, shown)


# --- globals and try --------------------------------------------------------------------------------------------------
def _global(known: Known, instr: Instr) -> Found:
    ref = instr.args["v"]
    found = known.type(ref)
    if found is None:
        near = known.near(str(ref)[1:], [g.name for g in known.module.globals])
        helped = f"did you mean @{near}?" if near else None
        yield _fault("MPT0003", f"there is no global {ref} in this module", instr, helped)
    elif instr.type is None or instr.type.owned != found.owned:
        yield _fault("MPS0004", f"{ref} is {found}, not {instr.type}", instr)


def _try(known: Known, instr: Instr) -> Found:
    """A `try` is of a result; where its error goes to the caller, the function gives results with such errors."""
    type_ = known.type(instr.args["v"])
    if type_ is None or type_.name != "TResult" or len(type_.args) != 2:
        helped = "branch on enum.is<Some>, and take enum.payload<Some>" if type_ and type_.name == "TOption" else None
        yield _fault("MPT0015", f"try is of a TResult<T, E>, and here of a {type_}", instr, helped)
        return
    value, error = type_.args
    yield from _gives(instr, value)
    ret = known.function.ret
    if instr.target:
        return
    name = known.function.name
    if ret.name != "TResult" or len(ret.args) != 2:
        helped = "name a block to go to with the error: try %r bb1"
        yield _fault("MPT0015", f"the error of a try goes to the caller, and @{name} gives {ret}", instr, helped)
    elif ret.args[1].owned != error.owned:
        helped = "name a block to go to with the error, and make one of the other type there"
        text = f"the error of a try is {error}, and that of what @{name} gives is {ret.args[1]}"
        yield _fault("MPT0015", text, instr, helped)


# --- enums and structs ------------------------------------------------------------------------------------------------
def _variant(known: Known, instr: Instr, type_: Ty | None) -> tuple[Diagnostic | None, Fields]:
    """The fields of the variant that an operation names; or what is wrong with that."""
    variants = variants_of(known.module, type_) if type_ is not None else None
    name = str(instr.targs[0]) if len(instr.targs) == 1 else ""
    if variants is None:
        return _fault("MPS0004", f"{instr.op} is of an enum, not of a {type_}", instr), []
    if name not in variants:
        text = f"{type_} has no variant {name}" if name else f"{instr.op} names one variant: {instr.op}<V>"
        return _fault("MPT0016", text, instr, known.instead(name, variants)), []
    return None, variants[name]


def _enum_new(known: Known, instr: Instr) -> Found:
    if instr.type is None:
        yield from _named(instr, "value")
        return
    fault, fields = _variant(known, instr, instr.type)
    if fault is not None:
        yield fault
        return
    shown = listed(f"{name}: {type_}" for name, type_ in fields)
    helped = f"{instr.targs[0]} has {{ {shown} }}" if fields else f"{instr.targs[0]} has no fields"
    if len(instr.args) != len(fields) or set(instr.args) != {name for name, _ in fields}:
        text = f"{instr.targs[0]} is given {{ {listed(instr.args)} }}"
        yield _fault("MPT0016", text, instr, helped)
        return
    for name, type_ in fields:
        if known.type(instr.args[name]) != type_.owned:
            text = f"{name} of {instr.targs[0]} has type {known.shown(instr.args[name])}, wanted {type_}"
            yield _fault("MPS0004", text, instr, helped)


def _enum_is(known: Known, instr: Instr) -> Found:
    fault, _ = _variant(known, instr, known.type(instr.args["v"]))
    if fault is not None:
        yield fault
        return
    yield from _named(instr, "bool")
    yield from _gives(instr, Ty("bool"))


def _enum_payload(known: Known, instr: Instr) -> Found:
    fault, fields = _variant(known, instr, known.type(instr.args["v"]))
    if fault is not None:
        yield fault
        return
    yield from _named(instr, "field")
    word = instr.args.get("field")
    has = f"it has {listed(name for name, _ in fields)}" if fields else None
    if word is None and len(fields) == 1:
        yield from _gives(instr, fields[0][1])
    elif word is None:
        text = f"{instr.targs[0]} has {len(fields)} fields, and enum.payload takes one"
        yield _fault("MPT0016", text, instr, f"write field=...: {has}" if fields else "it holds nothing to take")
    elif not isinstance(word, Word) or (found := field_type(known.module, fields, word.name)) is None:
        helped = known.instead(str(word), dict(fields))
        yield _fault("MPT0016", f"{instr.targs[0]} has no field {word}", instr, helped)
    else:
        yield from _gives(instr, found)


def _setfield(known: Known, instr: Instr) -> Found:
    type_, word = known.type(instr.args["obj"]), instr.args["field"]
    fields = fields_of(known.module, type_) if type_ is not None and not type_.mode else None
    struct = (known.module.struct(type_.name) or STRUCTS.get(type_.name)) if type_ is not None else None
    if fields is None or struct is None:
        yield _fault("MPS0004", f"setfield of a {type_}, which is no struct", instr)
    elif not struct.heap:
        helped = f"make another one: new {type_} {{ ... }}"
        yield _fault("MPT0018", f"setfield of a {type_}, a value struct, whose fields do not change", instr, helped)
    elif not isinstance(word, Word) or (wanted := field_type(known.module, fields, word.name)) is None:
        yield _fault("MPS0001", f"{type_} has no field {word}", instr, known.instead(str(word), dict(fields)))
    else:
        if known.type(instr.args["v"]) != wanted.owned:
            text = f"{word} of {type_} has type {known.shown(instr.args['v'])}, wanted {wanted}"
            yield _fault("MPS0004", text, instr)
        yield from _gives(instr, Ty("unit"))


# --- callables --------------------------------------------------------------------------------------------------------
def _sig(known: Known, type_: Ty | None) -> Sig | None:
    fits = type_ is not None and type_.name == "TCallable" and len(type_.args) == 1
    return known.module.sig(type_.args[0].name) if fits and type_ is not None else None


def _capture(known: Known, instr: Instr) -> Found:
    """The first parameters are given, and the others and the result are those of the signature."""
    function = known.module.function(instr.callee)
    if function is None:
        near = known.near(instr.callee, [f.name for f in known.module.functions])
        helped = f"did you mean @{near}?" if near else "a callable is of a function of this module"
        yield _fault("MPS0007", f"there is no function @{instr.callee}", instr, helped)
        return
    if function.gpu_meta is not None:
        yield _fault("MPS0007", f"@{instr.callee} is a kernel, which is launched and not called", instr)
        return
    sig = _sig(known, instr.type)
    if sig is None:
        text = f"callable.capture gives a TCallable of a signature, not {instr.type or 'nothing'}"
        yield _fault("MPT0017", text, instr, "declare one: sig TSig(i32) -> i32")
        return
    count = len(instr.args)
    if list(instr.args) != [name for name, _ in function.params[:count]]:
        text = f"{{ {listed(instr.args)} }} are not the first parameters of @{function.name}"
        yield _fault("MPT0017", text, instr, function.head)
        return
    for name, type_ in function.params[:count]:
        if known.type(instr.args[name]) != type_.owned:
            text = f"{name} of @{function.name} has type {known.shown(instr.args[name])}, wanted {type_}"
            yield _fault("MPS0004", text, instr, function.head)
            return
    left = [type_.owned for _, type_ in function.params[count:]]
    if [t.owned for t in sig.params] != left or sig.ret.owned != function.ret.owned:
        shown = f"({listed(map(str, left))}) -> {function.ret}"
        text = f"with that given, @{function.name} is {shown}" if count else f"@{function.name} is {shown}"
        wanted = f"({listed(map(str, sig.params))}) -> {sig.ret}"
        yield _fault("MPT0017", f"{text}, and {sig.name} is {wanted}", instr)


def _indirect(known: Known, instr: Instr) -> Found:
    callee, given = instr.args["callee"], instr.args["args"]
    sig = _sig(known, known.type(callee))
    if sig is None:
        named = isinstance(callee, FnRef) and known.module.function(callee.name) is not None
        helped = f"call {callee} {{ ... }} needs none; callable.capture {callee} {{}} makes one" if named else None
        text = f"callee of call.indirect has type {known.shown(callee)}, wanted a TCallable"
        yield _fault("MPT0017", text, instr, helped)
        return
    shown = f"{sig.name} is ({listed(map(str, sig.params))}) -> {sig.ret}"
    if not isinstance(given, tuple) or len(given) != len(sig.params):
        count = len(given) if isinstance(given, tuple) else "no list of"
        yield _fault("MPT0017", f"{count} arguments for {len(sig.params)} parameters", instr, shown)
        return
    for k, (value, type_) in enumerate(zip(given, sig.params, strict=True)):
        if known.type(value) != type_.owned:
            text = f"argument {k} of call.indirect has type {known.shown(value)}, wanted {type_}"
            yield _fault("MPS0004", text, instr, shown)
            return
    yield from _gives(instr, sig.ret)


_RULES: dict[str, Callable[[Known, Instr], Found]] = {
    **dict.fromkeys(LAUNCHES, _launch),
    "global": _global,
    "try": _try,
    "enum.new": _enum_new,
    "enum.is": _enum_is,
    "enum.payload": _enum_payload,
    "setfield": _setfield,
    "callable.capture": _capture,
    "call.indirect": _indirect,
}
#: Those whose rows say nothing that can be compared.
_WITHOUT_ROW = frozenset(_RULES) - frozenset(LAUNCHES)
