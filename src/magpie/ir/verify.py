"""The verifier: a list of rules over a kernel, run after every frontend and, in tests, after every pass.

A violation is a fault of the compiler, never of the user: `VerifyError` names the rule, the node and its source line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from magpie.dtypes import DType, StructType, Type
from magpie.ir.nodes import (
    Array,
    Buffer,
    ConstArray,
    Function,
    Kernel,
    LocalArray,
    Node,
    PtrType,
    Region,
    SharedArray,
    Slot,
    walk,
)
from magpie.ir.ops import OPS, REDUCTIONS, RMW_KINDS
from magpie.ir.verify_tiles import TWO_ARRAYS, tile_problems

__all__ = ["RULES", "VerifyError", "verify"]


class VerifyError(AssertionError):
    """Kernel IR that breaks a rule."""


Problem = tuple[Node | None, str]


def _is(cls: str, type_: object) -> bool:
    if cls == "any":
        return type_ is not None
    if cls == "ptr":
        return isinstance(type_, PtrType)
    if not isinstance(type_, DType):
        return False
    return {
        "num": type_.is_int or type_.is_float,
        "int": type_.is_int,
        "idx": type_.is_int,
        "float": type_.is_float,
        "bool": type_.is_bool,
        "bits": type_.is_int or type_.is_bool,
        "index": type_.name == "index",
        "i32": type_.name == "i32",
    }[cls]


def _classes(node: Node) -> list[str] | None:
    """The operand classes of this node with ``*`` spelt out, or None where the count is wrong."""
    classes = list(node.info.operands)
    if "*" in classes:
        at = classes.index("*")
        repeat = len(node.args) - (len(classes) - 2)
        if repeat < 0:
            return None
        classes[at - 1 : at + 1] = [classes[at - 1]] * repeat
    return classes if len(classes) == len(node.args) else None


def _operands(kernel: Kernel) -> Iterator[Problem]:
    """Operand counts, classes and equal types, as the op table says."""
    for body in kernel.bodies():
        for node in walk(body):
            if node.op not in OPS:
                yield node, f"unknown op {node.op}"
                continue
            classes = _classes(node)
            if classes is None:
                yield node, f"{len(node.args)} operands do not fit {' '.join(node.info.operands)}"
                continue
            for i, (cls, arg) in enumerate(zip(classes, node.args, strict=True)):
                if not _is(cls, arg.type):
                    yield node, f"operand {i} has type {arg.type}, wanted {cls}"
            if node.info.same and len({id(a.type) if isinstance(a.type, DType) else a.type for a in node.args}) > 1:
                yield node, f"operand types differ: {[a.type for a in node.args]}"


_OPTIONAL = ("field", "counted", "rolled", "scope", "order", "exclusive", "there", "unchecked")


def _results(kernel: Kernel) -> Iterator[Problem]:
    """Result types and attributes, as the op table says."""
    fixed = {"bool": "bool", "index": "index", "u64": "u64", "u32": "u32", "i32": "i32"}
    for body in kernel.bodies():
        for node in walk(body):
            info = node.info
            rule = info.result
            name = node.type.name if isinstance(node.type, DType) else None
            if rule == "none" and node.type is not None:
                yield node, "has a result type but gives none"
            elif rule in fixed and name != fixed[rule]:
                yield node, f"result type {node.type}, wanted {fixed[rule]}"
            elif rule == "same" and node.type != node.args[0].type:
                yield node, f"result type {node.type}, wanted {node.args[0].type}"
            elif rule == "given" and node.type is None and node.op != "call":
                yield node, "no result type"
            for a in info.attrs:
                if a not in node.attrs and a not in _OPTIONAL:
                    yield node, f"attribute {a} is missing"
            if len(node.regions) != len(info.regions):
                yield node, f"{len(node.regions)} regions, wanted {len(info.regions)}"
            if "dim" in node.attrs and "array" not in node.attrs and node.attrs["dim"] not in (0, 1, 2):
                yield node, "dim must be 0, 1 or 2"


def _meanings(kernel: Kernel) -> Iterator[Problem]:
    """What single ops ask beyond the table."""
    for body in kernel.bodies():
        for node in walk(body):
            op, t = node.op, node.type
            if op == "const" and isinstance(t, DType):
                v = node.attrs["value"]
                wanted = bool if t.is_bool else float if t.is_float else int
                if type(v) is not wanted:
                    yield node, f"constant {v!r} is no {wanted.__name__}"
                elif t.is_int and not t.min <= v <= t.max:
                    yield node, f"constant {v} is out of range of {t}"
            elif op == "bitcast" and isinstance(t, DType) and t.bits != node.args[0].dtype.bits:
                yield node, f"bitcast from {node.args[0].type} to {t}"
            elif op == "cast" and not (isinstance(t, DType) and isinstance(node.args[0].type, DType)):
                yield node, "cast of a non-scalar"
            elif op == "select" and not (node.args[1].type == node.args[2].type == t):
                yield node, "select of different types"
            elif op == "slot_set" and node.args[0].type != node.attrs["slot"].type:
                yield node, f"sets a {node.attrs['slot'].type} slot to {node.args[0].type}"
            elif op == "slot_get" and t != node.attrs["slot"].type:
                yield node, f"gets {t} from a {node.attrs['slot'].type} slot"
            elif op in ("atomic_rmw", "subgroup_reduce", "subgroup_scan"):
                if node.attrs["kind"] not in (RMW_KINDS if op == "atomic_rmw" else REDUCTIONS):
                    yield node, f"unknown kind {node.attrs['kind']}"
            elif op in ("lt", "le", "gt", "ge") and node.args[0].dtype.is_bool:
                yield node, "order of bools"
            elif op == "struct_get":
                st = node.args[0].type
                if not isinstance(st, StructType) or not 0 <= node.attrs["field"] < len(st.fields):
                    yield node, f"no field {node.attrs['field']} in {st}"
                elif st.fields[node.attrs["field"]].type != t:
                    yield node, f"field has type {st.fields[node.attrs['field']].type}"


_EXTRA = {"load": 0, "store": 1, "atomic_rmw": 1, "atomic_cas": 2, "atomic_load": 0, "atomic_store": 1, "ptr": 0}


def _memory(kernel: Kernel) -> Iterator[Problem]:
    """Arrays are declared, indexed once per dimension, and written only where they may be."""
    declared: set[Array] = {*kernel.buffers, *kernel.shared, *kernel.locals, *kernel.consts}
    for body in kernel.bodies():
        for node in walk(body):
            array = node.attrs.get("array")
            if array is None:
                continue
            if array not in declared:
                yield node, f"array {array.name} is not declared"
            if node.op in TWO_ARRAYS:
                continue  # `tile_problems` looks at them
            if node.op not in _EXTRA:
                if not 0 <= node.attrs["dim"] < array.rank:
                    yield node, f"no dimension {node.attrs['dim']} in {array}"
                continue
            extra = _EXTRA[node.op]
            if len(node.args) != array.rank + extra:
                yield node, f"{len(node.args) - extra} indices for {array}"
                continue
            element: Type = array.type
            for position in node.attrs.get("field") or ():
                if not isinstance(element, StructType) or position >= len(element.fields):
                    yield node, f"no such leaf in {array.type}"
                    break
                element = element.fields[position].type
            else:
                if any(a.type != element for a in node.args[array.rank :]):
                    yield (
                        node,
                        f"value of type {[str(a.type) for a in node.args[array.rank :]]} for elements of {element}",
                    )
                if node.info.result == "elem" and node.type != element:
                    yield node, f"result type {node.type} for elements of {element}"
            if isinstance(array, ConstArray) and node.op != "load":
                yield node, "constants cannot be written"


def _tiles(kernel: Kernel) -> Iterator[Problem]:
    """Matrix tiles and copies: see `magpie.ir.verify_tiles`."""
    yield from tile_problems(kernel)


def _dominance(kernel: Kernel) -> Iterator[Problem]:
    """A value stands once, before its uses, in their region or one around it."""

    def visit(region: Region, visible: set[Node], seen: set[Node]) -> Iterator[Problem]:
        for node in region:
            if node in seen:
                yield node, "stands in two places"
            seen.add(node)
            used = list(node.args)
            counted = node.attrs.get("counted")
            if counted is not None:
                used.append(counted[1])
            if node.op == "call_result":
                used.append(node.attrs["call"])
            for a in used:
                if a not in visible:
                    yield node, f"uses {a!r}, which is not visible here"
            # a loop's step runs after the body, but `continue` may skip any part of it: it sees only what is outside
            for r in node.regions:
                yield from visit(r, visible, seen)
            visible.add(node)
        visible.difference_update(region)

    for body in kernel.bodies():
        yield from visit(body, set(), set())


def _control(kernel: Kernel) -> Iterator[Problem]:
    """break, continue and return stand where they mean something, and nothing follows them."""

    def visit(region: Region, in_loop: bool, in_step: bool, function: Function | None) -> Iterator[Problem]:
        for i, node in enumerate(region):
            if node.op in ("break", "break_if", "continue") and not in_loop:
                yield node, "outside of a loop"
            if in_step and (
                node.op in ("continue", "return", "barrier", "break")
                or (node.op == "break_if" and node is not region[-1])
            ):
                yield node, "in a loop's step"
            if node.info.terminator and i != len(region) - 1:
                yield node, "is followed by other nodes"
            if node.op == "return":
                wanted = [] if function is None else function.results
                if [a.type for a in node.args] != list(wanted):
                    yield node, f"returns {[str(a.type) for a in node.args]}, wanted {[str(t) for t in wanted]}"
            if node.op == "loop":
                yield from visit(node.regions[0], True, False, function)
                yield from visit(node.regions[1], True, True, function)
            else:
                for r in node.regions:
                    yield from visit(r, in_loop, in_step, function)

    yield from visit(kernel.body, False, False, None)
    for f in kernel.functions:
        yield from visit(f.body, False, False, f)


def _declarations(kernel: Kernel) -> Iterator[Problem]:
    """Parameters have unique names and legal ranks; `param` names one; slots hold values."""
    names = [p.name for p in kernel.params]
    if len(set(names)) != len(names):
        yield None, f"duplicate parameter in {names}"
    for b in kernel.buffers:
        if not 0 <= b.rank <= 4:
            yield None, f"rank {b.rank} of {b.name}"
    for a in (*kernel.shared, *kernel.locals):
        if isinstance(a, LocalArray | SharedArray) and any(isinstance(n, int) and n < 0 for n in a.shape):
            yield None, f"negative extent of {a.name}"
    declared = set(kernel.buffers)
    bodies: list[tuple[Region, list[str]]] = [(kernel.body, [s.name for s in kernel.scalars])]
    bodies += [(f.body, [s.name for s in f.params]) for f in kernel.functions]
    for body, names in bodies:
        scalars = set(names)
        for node in walk(body):
            if node.op == "param" and node.attrs["name"] not in scalars:
                yield node, f"no parameter {node.attrs['name']}"
            slot = node.attrs.get("slot")
            if slot is not None and not isinstance(slot, Slot):
                yield node, "slot attribute is no slot"
            if isinstance(node.attrs.get("array"), Buffer) and node.attrs["array"] not in declared:
                yield node, "buffer of another kernel"


RULES: tuple[Callable[[Kernel], Iterator[Problem]], ...] = (
    _operands,
    _results,
    _meanings,
    _memory,
    _tiles,
    _dominance,
    _control,
    _declarations,
)


def verify(kernel: Kernel) -> None:
    """Check every rule. Raises VerifyError listing all violations of the first rule that fails."""
    for rule in RULES:
        problems = [
            f"{rule.__name__.strip('_')}: {node.op if node is not None else kernel.name}: {text}"
            + (f" ({node.loc.file}:{node.loc.line})" if node is not None and node.loc is not None else "")
            for node, text in rule(kernel)
        ]
        if problems:
            raise VerifyError("\n".join(problems[:20]))
