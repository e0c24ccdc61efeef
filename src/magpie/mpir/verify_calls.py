"""The rules of what host programs call by the table of signatures: operands, their types, and the result."""

from __future__ import annotations

from magpie.diagnostics import Diagnostic
from magpie.mpir.known import Found, Known, listed
from magpie.mpir.nodes import FnRef, Instr, Operand, Word
from magpie.mpir.ops import OPS
from magpie.mpir.prelude import MLX_ELEMENTS, variants_of
from magpie.mpir.signatures import MODULES, NAMES, Parameter, Signature, functions_of
from magpie.mpir.types import Ty
from magpie.mpir.unify import Unifier, bare, belongs, wanted_of

__all__ = ["OWN", "call_types", "operand_names", "unknown"]

#: Words of the table that stand for no type: a rule of its own looks at such operands and results.
OWN = frozenset(("kernel", "sizes", "list", "cpu", "word", "field", "fields", "struct", "params", "result"))


def unknown(known: Known, instr: Instr) -> Found:
    """There is no such operation, or no such function of a module."""
    name = instr.op
    if "@" not in name:
        near = known.near(name, [*OPS, *(n for n in NAMES if "@" not in n)])
        helped = f"did you mean {near}?" if near else None
        yield Diagnostic("MPS0007", f"there is no operation {name}", instr.loc, help=helped)
        return
    module, _, function = name.partition(".@")
    functions = functions_of(module)
    if functions:
        near = known.near(function, functions)
        helped = f"did you mean {module}.@{near}?" if near else None
        yield Diagnostic("MPS0007", f"module {module} has no @{function}", instr.loc, help=helped)
    else:
        near = known.near(module, MODULES)
        helped = f"did you mean {near}?" if near else f"there are {', '.join(MODULES)}"
        yield Diagnostic("MPS0007", f"there is no module {module}", instr.loc, help=helped)


def operand_names(instr: Instr, row: Signature) -> Found:
    """The operands are those of the row, each at most once, and all type arguments are given or none."""
    takes = {p.name for p in row.operands}
    missing = [p.name for p in row.operands if not p.optional and p.name not in instr.args]
    more = [key for key in instr.args if key not in takes]
    rest = row.rest
    if rest is not None:
        more = [key for k, key in enumerate(more) if rest.name and key != f"{rest.name}{k}"]
    if missing or more:
        lacks = f"lacks {' and '.join(missing)}" if missing else ""
        takes_no = f"takes no {' and no '.join(more[:8])}" if more else ""
        text = f"{instr.op} {' and '.join(filter(None, (lacks, takes_no)))}"
        yield Diagnostic("MPS0001", text, instr.loc, help=f"it is {row.text}")
    elif len(instr.targs) != len(row.params) and (instr.targs or row.variant):
        wanted = f"{len(row.params)}{'' if row.variant else ' or none'}"
        text = f"{instr.op} has {len(instr.targs)} arguments in <>, wanted {wanted}"
        yield Diagnostic("MPS0001", text, instr.loc, help=f"it is {row.text}")


def call_types(known: Known, instr: Instr, row: Signature) -> Found:
    """Operands and result have the types of the row; the first fault alone, as others follow from it."""
    types = Unifier(known.module, (name for name, _ in row.params))
    for (name, _), targ in zip(row.params, instr.targs, strict=False):
        if isinstance(targ, Ty):
            types.found[name] = bare(targ)
    faults = [*_operands(known, instr, row, types)] or [*_result(instr, row, types)] or [*_classes(instr, row, types)]
    yield from faults[:1]


def _operands(known: Known, instr: Instr, row: Signature, types: Unifier) -> Found:
    of_rest = [key for key in instr.args if all(p.name != key for p in row.operands)] if row.rest is not None else []
    for parameter in row.operands:
        operand = instr.args.get(parameter.name)
        if operand is not None and parameter.type.name not in OWN:
            yield from _operand(known, instr, row, types, parameter, operand)
    for key in of_rest:
        if row.rest is not None and row.rest.name:
            yield from _operand(known, instr, row, types, Parameter(key, row.rest.type), instr.args[key])


def _operand(
    known: Known, instr: Instr, row: Signature, types: Unifier, parameter: Parameter, operand: Operand
) -> Found:
    name, want = parameter.name, parameter.type
    if isinstance(operand, Word):
        variants = variants_of(known.module, want)
        if variants is None:
            text = f"{name} of {instr.op} is the bare name {operand}, wanted {types.shown(want)}"
            yield Diagnostic("MPS0004", text, instr.loc, help=f"it is {row.text}")
        elif variants.get(operand.name) != []:
            helped = known.instead(operand.name, variants)
            yield Diagnostic("MPT0016", f"{want} has no variant {operand} without fields", instr.loc, help=helped)
        return
    found = known.type(operand)
    if found is None and isinstance(operand, FnRef) and known.module.function(operand.name) is not None:
        helped = f"make one: callable.capture {operand} {{}}" if want.name == "fn" else f"it is {row.text}"
        text = f"{name} of {instr.op} is the function {operand}, wanted {types.shown(want)}"
        yield Diagnostic("MPS0004", text, instr.loc, help=helped)
    elif found is None or not types.fits(want, found):
        shown = known.shown(operand)
        if want.name == "fn" and found is not None and found.args:
            sig = known.module.sig(found.args[0].name)
            if sig is not None:
                shown = f"{found}, ({listed(map(str, sig.params))}) -> {sig.ret}"
        text = f"{name} of {instr.op} has type {shown}, wanted {types.shown(want)}"
        yield Diagnostic("MPS0004", text, instr.loc, help=f"it is {row.text}")


def _result(instr: Instr, row: Signature, types: Unifier) -> Found:
    want = row.result
    if want.name in OWN:
        return
    if instr.type is None:
        if want.name != "unit" and not row.changes:
            text = f"the {types.shown(want)} that {instr.op} gives has no name"
            yield Diagnostic("MPS0004", text, instr.loc, help=f"it is {row.text}")
    elif want.name == "unit" and instr.type.name != "unit":
        yield Diagnostic("MPS0004", f"{instr.op} gives no value", instr.loc, help=f"it is {row.text}")
    elif not types.fits(want, instr.type):
        text = f"{instr.op} gives {types.shown(want)}, not {instr.type}"
        yield Diagnostic("MPS0004", text, instr.loc, help=f"it is {row.text}")


def _classes(instr: Instr, row: Signature, types: Unifier) -> Found:
    for name, cls in row.params:
        found = types.found.get(name)
        if found is None:
            text = f"nothing says what {name} of {instr.op} is"
            written = ", ".join(n for n, _ in row.params)
            yield Diagnostic("MPT0021", text, instr.loc, help=f"write it: {instr.op}<{written}>, or name the result")
        elif row.name.startswith("mlx.") and found.name not in MLX_ELEMENTS:
            text = f"an array of MLX has no elements of type {found}"
            helped = f"its elements are {', '.join(sorted(MLX_ELEMENTS))}"
            yield Diagnostic("MPG_MLX_1002", text, instr.loc, help=helped)
        elif not belongs(types.module, found, cls):
            text = f"{name} of {instr.op} is {found}, wanted {wanted_of(cls)}"
            yield Diagnostic("MPT0014", text, instr.loc, help=f"it is {row.text}")
