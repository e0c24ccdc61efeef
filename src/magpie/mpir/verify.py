"""The verifier of MPIR: a list of rules over a function, each giving diagnostics with the place of the fault."""

from __future__ import annotations

from collections.abc import Callable

from magpie.diagnostics import Diagnostic, Loc
from magpie.mpir.amount import amount_rules
from magpie.mpir.cfg import dominates, dominators, intervals, reverse_postorder
from magpie.mpir.known import Found, Known, Near, listed, reached
from magpie.mpir.nodes import Const, Err, Instr, Module, Operand, Switch, Var, operands, targets
from magpie.mpir.ops import OPS
from magpie.mpir.prelude import fields_of
from magpie.mpir.stretches import Stretch, Stretches
from magpie.mpir.types import Ty
from magpie.mpir.verify_gpu import gpu_rules
from magpie.mpir.verify_host import host_operands, host_rules
from magpie.mpir.verify_module import declared_once, module_rules
from magpie.mpir.verify_types import type_rules

__all__ = ["MOST_FAULTS", "verify"]


def _names(known: Known) -> Found:
    """Values and blocks have names of their own."""
    f = known.function
    labels: set[str] = set()
    values: set[str] = set()
    defined = [(name, f.loc) for name, _ in f.params]
    for block in f.blocks:
        if block.label in labels:
            yield Diagnostic("MPS0003", f"block {block.label} stands in @{f.name} twice", block.term.loc)
        labels.add(block.label)
        defined += [(i.result, i.loc) for i in block.items if i.result is not None]
    for name, loc in defined:
        if name in values:
            yield Diagnostic("MPS0003", f"%{name} is defined twice in @{f.name}", loc)
        values.add(name)


def _control(known: Known) -> Found:
    """Branches lead to blocks of the function, but not to its entry, and a switch has no case twice."""
    f = known.function
    if not f.blocks:
        yield Diagnostic("MPS0005", f"@{f.name} has no block", f.loc)
        return
    for block in f.blocks:
        term = block.term
        places = {**dict.fromkeys(targets(term), term.loc), **{i.target: i.loc for i in block.instrs if i.target}}
        for label, loc in places.items():
            if label not in known.blocks:
                near = known.near(label, known.blocks)
                helped = f"did you mean {near}?" if near else None
                yield Diagnostic("MPS0005", f"there is no block {label} in @{f.name}", loc, help=helped)
            elif label == f.blocks[0].label:
                yield Diagnostic(
                    "MPS0005",
                    f"a branch to {label}, the entry of @{f.name}",
                    loc,
                    help="let the entry branch to a block of its own, and come back to that",
                )
        if isinstance(term, Switch):
            seen: set[int] = set()
            for number, _ in term.cases:
                if number in seen:
                    yield Diagnostic("MPS0005", f"case {number} stands in this switch twice", term.loc)
                seen.add(number)


def _operations(known: Known) -> Found:
    """Operations exist, and have the operands that they take."""
    for block in known.function.blocks:
        for instr in block.instrs:
            op = OPS.get(instr.op)
            if op is None:
                yield from host_operands(known, instr)
                continue
            if len(instr.targs) != op.targs:
                yield Diagnostic(
                    "MPS0001", f"{op.name} has {len(instr.targs)} arguments in <>, wanted {op.targs}", instr.loc
                )
            elif instr.op == "call":
                yield from _call(known, instr)
            elif instr.op == "new":
                yield from _new(known, instr)
            else:
                yield from _keys(instr, op.keys, op.name)
                if "dim" in op.classes:
                    yield from _dim(instr)


def _keys(instr: Instr, wanted: tuple[str, ...], what: str, help: str | None = None) -> Found:
    if set(instr.args) != set(wanted):
        yield Diagnostic(
            "MPS0001",
            f"{what} is given {{ {listed(instr.args)} }}, wanted {{ {listed(wanted)} }}",
            instr.loc,
            help=help,
        )


def _dim(instr: Instr) -> Found:
    dim = instr.args.get("dim")
    if not (isinstance(dim, Const) and dim.type.is_int and dim.value in (0, 1, 2)):
        shown = dim.value if isinstance(dim, Const) else dim
        yield Diagnostic("MPS0001", f"dim of {instr.op} is a constant 0, 1 or 2, not {shown}", instr.loc)


def _call(known: Known, instr: Instr) -> Found:
    callee = known.module.function(instr.callee)
    if callee is None:
        near = known.near(instr.callee, (f.name for f in known.module.functions))
        helped = f"did you mean @{near}?" if near else None
        yield Diagnostic("MPS0007", f"there is no function @{instr.callee}", instr.loc, help=helped)
    elif callee.gpu_meta is not None:
        yield Diagnostic("MPS0007", f"@{instr.callee} is a kernel, which is launched and not called", instr.loc)
    else:
        yield from _keys(instr, tuple(n for n, _ in callee.params), f"@{callee.name}", callee.head)


def _new(known: Known, instr: Instr) -> Found:
    type_ = instr.targs[0]
    fields = fields_of(known.module, type_) if isinstance(type_, Ty) else None
    if fields is None:
        yield Diagnostic("MPS0007", f"there is no struct {type_}", instr.loc)
    else:
        yield from _keys(instr, tuple(n for n, _ in fields), str(type_))


def _phis(known: Known) -> Found:
    """A phi has one operand for each distinct block before its own."""
    before = known.before()
    entry = known.function.blocks[0].label
    for block in known.function.blocks:
        wanted = before[block.label]
        for phi in block.phis:
            given = [label for label, _ in phi.incoming]
            if block.label == entry:
                yield Diagnostic("MPS0006", f"phi %{phi.result} stands in the entry block", phi.loc)
            elif len(set(given)) != len(given) or set(given) != set(wanted):
                yield Diagnostic(
                    "MPS0006",
                    f"phi %{phi.result} has operands for {listed(given) or 'no block'}, and what leads to "
                    f"{block.label} is {listed(wanted) or 'no block'}",
                    phi.loc,
                    help=None if len(set(given)) == len(given) else "give each `try` a block of its own for its error",
                )


def _definitions(known: Known) -> Found:
    """Every use is dominated by its definition; an operand of a phi is used where its predecessor goes on to the phi.

    A `try` that may go elsewhere ends a stretch of its block: what stands behind it is not there on that way. Blocks
    that the entry does not reach are dominated by everything, and are asked only for values that exist.
    """
    f = known.function
    stretches = Stretches(f)
    entry = stretches.entry
    graph = stretches.graph
    times = intervals(dominators(graph, entry), entry)
    reached = set(reverse_postorder(graph, entry))
    where: dict[str, tuple[Stretch, int]] = {name: (entry, -2) for name, _ in f.params}
    for block in f.blocks:
        where.update({p.result: ((block.label, 0), -1) for p in block.phis})
        for stretch, k, instr in stretches.instrs(block):
            if instr.result is not None:
                # what a `try` gives is there behind it
                where[instr.result] = ((stretch[0], stretch[1] + bool(instr.target)), k)

    def problem(operand: Operand, at: Stretch, position: int, loc: Loc | None) -> Found:
        if not isinstance(operand, Var | Err):
            return
        found = where.get(operand.name)
        if found is None:
            near = known.near(operand.name, where)
            helped = f"did you mean %{near}?" if near else None
            yield Diagnostic("MPS0002", f"there is no value %{operand.name} in @{f.name}", loc, help=helped)
        elif at in reached:
            defined, place = found
            good = place < position if defined == at else defined in reached and dominates(times, defined, at)
            if not good:
                yield Diagnostic(
                    "MPS0002",
                    f"%{operand.name} is defined in {defined[0]}, and {at[0]} can be come to without it"
                    if defined[0] != at[0]
                    else f"%{operand.name} is used before it is defined",
                    loc,
                )

    for block in f.blocks:
        for phi in block.phis:
            once = len({label for label, _ in phi.incoming}) == len(phi.incoming)  # else there was an error already
            for label, operand in phi.incoming if once else ():
                for at, position in stretches.ways.get((label, block.label), ()):
                    yield from problem(operand, at, position, phi.loc)
        for at, k, instr in stretches.instrs(block):
            for operand in operands(instr):
                yield from problem(operand, at, k, instr.loc)
        for operand in operands(block.term):
            yield from problem(operand, (block.label, stretches.count[block.label]), len(block.instrs), block.term.loc)


Rule = Callable[[Known], Found]

#: What the later rules rest on comes first: a function that breaks a rule of one group is not asked the next.
RULES: tuple[tuple[Rule, ...], ...] = (
    (_names, _control),
    (_operations, _phis, _definitions),
    (type_rules, gpu_rules, host_rules),
)


#: Faults after which the rest of a module is not looked at.
MOST_FAULTS = 500


def verify(module: Module) -> list[Diagnostic]:
    """What is wrong with a module, each fault once, in the order of its text; an empty list where it is well formed.
    Where there are MOST_FAULTS, there may be others."""
    first = list(declared_once(module)) or list(amount_rules(module))
    if first:
        return first
    near = Near()
    found = dict.fromkeys(module_rules(module, near))
    kernels = [f for f in module.functions if f.gpu_meta is not None]
    on_device = {f.name for f in reached(module, *kernels)}
    roots = [module.function("main"), *(module.function(impl.function) for impl in module.impls)]
    on_host = {f.name for f in reached(module, *(f for f in roots if f is not None and f.gpu_meta is None))}
    for function in module.functions:
        known = Known(module, function, near, function.name in on_device, function.name in on_host)
        for group in RULES:
            failed = False
            for fault in (d for rule in group for d in rule(known)):
                found[fault] = None  # a function that two kernels call is looked at for each
                failed = failed or fault.is_error
                if len(found) >= MOST_FAULTS:
                    return list(found)
            if failed:
                break
    return list(found)
