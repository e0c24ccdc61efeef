"""What is left over in emitted MPIR goes: phis of one value, values that nobody uses, blocks that only lead on."""

from __future__ import annotations

from collections.abc import Container

from magpie.mpir import nodes as m
from magpie.mpir.emit_names import same

__all__ = ["tidy"]


def tidy(function: m.Function, pure: Container[m.Instr], ends: set[str]) -> None:
    """Clean ``function`` in place; instructions of ``pure`` may go where nobody uses their results.

    ``ends`` are the blocks behind loops. They stay where phis come next: those are set on the way, and on the way out
    of a loop they would be set in it, by some work-items in other trips than by others.
    """
    _drop_unreached(function)
    while True:
        _one_value(function)
        _dead(function, pure)
        while _skip(function, ends):
            pass
        if not _join(function, ends):
            return


def _replace(operand: m.Operand, known: dict[str, m.Operand]) -> m.Operand:
    if isinstance(operand, tuple):
        return tuple(_replace(o, known) for o in operand)
    while isinstance(operand, m.Var) and operand.name in known:
        operand = known[operand.name]
    return operand


def _drop_unreached(function: m.Function) -> None:
    blocks = {b.label: b for b in function.blocks}
    reached, todo = set[str](), [function.blocks[0].label]
    while todo:
        label = todo.pop()
        if label not in reached:
            reached.add(label)
            todo += m.targets(blocks[label].term)
    function.blocks[:] = [b for b in function.blocks if b.label in reached]
    for block in function.blocks:
        for phi in block.phis:
            phi.incoming = [(label, v) for label, v in phi.incoming if label in reached]


def _one_value(function: m.Function) -> None:
    """Replace phis that have one value besides themselves (Braun et al., CC 2013, section 3.1)."""
    known: dict[str, m.Operand] = {}
    changed = True
    while changed:
        changed = False
        for block in function.blocks:
            kept = []
            for phi in block.phis:
                values = [_replace(v, known) for _, v in phi.incoming]
                others = [v for v in values if v != m.Var(phi.result)]
                if others and all(same(v, others[0]) for v in others):
                    known[phi.result] = others[0]
                    changed = True
                else:
                    kept.append(phi)
            block.phis[:] = kept
    for block in function.blocks:
        for phi in block.phis:
            phi.incoming = [(label, _replace(v, known)) for label, v in phi.incoming]
        for instr in block.instrs:
            instr.args = {k: _replace(v, known) for k, v in instr.args.items()}
        term = block.term
        if isinstance(term, m.Cbr):
            block.term = m.Cbr(_replace(term.cond, known), term.then, term.other, term.loc)


def _dead(function: m.Function, pure: Container[m.Instr]) -> None:
    """Drop phis and pure instructions that nothing with an effect needs, and names of results that nobody uses."""
    made: dict[str, m.Instr | m.Phi] = {}
    todo: list[m.Operand] = []
    for block in function.blocks:
        made.update({i.result: i for i in block.items if i.result is not None})
        todo += [o for i in block.instrs if i not in pure for o in m.operands(i)]
        todo += m.operands(block.term)
    used: set[str] = set()
    while todo:
        operand = todo.pop()
        if isinstance(operand, m.Var) and operand.name not in used:
            used.add(operand.name)
            found = made.get(operand.name)
            if isinstance(found, m.Phi):
                todo += [v for _, v in found.incoming]
            elif found is not None and found in pure:
                todo += m.operands(found)
    for block in function.blocks:
        block.phis[:] = [p for p in block.phis if p.result in used]
        block.instrs[:] = [i for i in block.instrs if i not in pure or i.result in used]
        for instr in block.instrs:
            if instr.op.startswith("gpu.atomic_") and instr.op.split(".")[1] != "atomic_load":
                if instr.result not in used:
                    instr.result = instr.type = None


def _skip(function: m.Function, ends: set[str]) -> bool:
    """Lead past blocks that hold nothing, where one way comes to them; whether there was one."""
    blocks = {b.label: b for b in function.blocks}
    before: dict[str, list[str]] = {label: [] for label in blocks}
    for block in function.blocks:
        for label in dict.fromkeys(m.targets(block.term)):
            before[label].append(block.label)
    gone: set[str] = set()
    for block in function.blocks[1:]:
        term = block.term
        if block.phis or block.instrs or not isinstance(term, m.Br) or len(before[block.label]) != 1:
            continue
        (came,), to = before[block.label], blocks[term.target]
        if term.target == block.label or (to.phis and (came in before[to.label] or block.label in ends)):
            continue
        if came in gone or to.label in gone:
            continue
        blocks[came].term = _turned(blocks[came].term, block.label, to.label)
        for phi in to.phis:
            phi.incoming = [(came if label == block.label else label, v) for label, v in phi.incoming]
        before[to.label] = list(dict.fromkeys(came if label == block.label else label for label in before[to.label]))
        gone.add(block.label)
        if block.label in ends:
            ends.add(to.label)
    function.blocks[:] = [b for b in function.blocks if b.label not in gone]
    return bool(gone)


def _join(function: m.Function, ends: Container[str]) -> bool:
    """Let ways that meet twice, with nothing between, meet once; whether there were any.

    A branch whose two ways give one value then is none, and not one that work-items take differently.
    """
    blocks = {b.label: b for b in function.blocks}
    order = {label: k for k, label in enumerate(blocks)}
    before: dict[str, list[str]] = {label: [] for label in blocks}
    uses: dict[str, int] = {}
    for block in function.blocks:
        for label in dict.fromkeys(m.targets(block.term)):
            before[label].append(block.label)
        found = [o for i in block.instrs for o in m.operands(i)] + m.operands(block.term)
        for operand in [*found, *(v for p in block.phis for _, v in p.incoming)]:
            if isinstance(operand, m.Var):
                uses[operand.name] = uses.get(operand.name, 0) + 1
    changed = False
    for block in reversed(function.blocks[1:]):
        label, term = block.label, block.term
        if block.instrs or not isinstance(term, m.Br) or label in ends or len(before[label]) < 2:
            continue
        to = blocks[term.target]
        if any(order[p] >= order[to.label] for p in before[to.label]) or order[to.label] <= order[label]:
            continue  # the one way to the start of a loop, and the one way back
        own = {p.result: dict(p.incoming) for p in block.phis}
        onward = [(phi, dict(phi.incoming)[label]) for phi in to.phis]
        passed = [v.name for _, v in onward if isinstance(v, m.Var) and v.name in own]
        if any(isinstance(v, m.Const) for _, v in onward):
            continue  # what is set here, by all, would be set on each way
        if any(uses.get(name, 0) != passed.count(name) for name in own):
            continue
        came = {
            p: [own[v.name][p] if isinstance(v, m.Var) and v.name in own else v for _, v in onward]
            for p in before[label]
        }
        both = [p for p in came if p in before[to.label]]
        if any(not same(v, dict(phi.incoming)[p]) for p in both for v, (phi, _) in zip(came[p], onward, strict=True)):
            continue
        for k, (phi, _) in enumerate(onward):
            phi.incoming = [(at, v) for at, v in phi.incoming if at != label]
            phi.incoming += [(p, came[p][k]) for p in came if p not in both]
        for p in came:
            blocks[p].term = _turned(blocks[p].term, label, to.label)
        before[to.label] = list(dict.fromkeys([*(p for p in before[to.label] if p != label), *came]))
        block.phis.clear()
        del blocks[label]
        changed = True
    function.blocks[:] = [b for b in function.blocks if b.label in blocks]
    return changed


def _turned(term: m.Term, old: str, new: str) -> m.Term:
    if isinstance(term, m.Br):
        return m.Br(new, term.loc)
    assert isinstance(term, m.Cbr)
    then, other = (new if label == old else label for label in (term.then, term.other))
    return m.Br(new, term.loc) if then == other else m.Cbr(term.cond, then, other, term.loc)
