"""The state of lowering: a `Module` per kernel, an `Fx` per function specialisation, variables and their types.

A function is lowered again until the types of its variables are stable: the first pass takes each variable's type from
its first assignments, widens it as others are met, and passes follow until nothing changes (one pass is the rule, two
where a literal start meets another type later). Diagnostics of a pass that was not the last are dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from magpie.diagnostics.diagnostic import Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, bool_, f32, i32, index
from magpie.frontend.python.annotations import namespace
from magpie.frontend.python.arith import adapt, default, weak_kind
from magpie.frontend.python.dependencies import Dependencies
from magpie.frontend.python.errors import REJECTED, Fail
from magpie.frontend.python.scope import bindings
from magpie.frontend.python.source import Source, source_of
from magpie.frontend.python.values import (
    Const,
    ElemRef,
    Fixed,
    Free,
    Lazy,
    Num,
    Shape,
    Tuple,
    Val,
    View,
    describe,
    flatten,
    rebuild,
    skeleton,
)
from magpie.frontend.python.variables import Cell, LoopState, Var, WeakParam, join_strong, views_alike
from magpie.ir.builder import Builder
from magpie.ir.nodes import Array, Kernel, Node, Region, Scalar, Slot
from magpie.ir.tiles import Tile

__all__ = ["EXPRESSIONS", "STATEMENTS", "Fx", "LoopState", "Module"]

# Filled by the modules that lower each kind of node.
EXPRESSIONS: dict[type[ast.AST], Callable[[Fx, Any], Val]] = {}
STATEMENTS: dict[type[ast.AST], Callable[[Fx, Any], None]] = {}

_MAX_PASSES = 16


class Module:
    """What the functions of one kernel share."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.dependencies = Dependencies()
        self.functions: dict[Any, Any] = {}
        self.active: list[Any] = []
        self.arrays: dict[Any, Array] = {}
        self.tables: dict[Any, Array] = {}
        self.tiles: dict[Any, Tile] = {}
        self.warnings: dict[tuple[str, Loc | None], Diagnostic] = {}
        self.names: dict[str, int] = {}

    def unique(self, base: str) -> str:
        """``base``, or with a number if it is taken."""
        n = self.names.get(base, 0) + 1
        self.names[base] = n
        return base if n == 1 else f"{base}_{n}"


class Fx:
    """Lowers one specialisation of one function."""

    def __init__(self, module: Module, fn: FunctionType, key: Any, bind: Callable[[Fx], None], is_kernel: bool) -> None:
        self.module = module
        self.fn = fn
        self.key = key
        self.source: Source = source_of(fn)
        self.closure = namespace(fn)
        self.bind_parameters = bind
        self.is_kernel = is_kernel
        self.vars = {name: Var(name, count) for name, count in bindings(self.source).items()}
        self.result = Var("result", 2)
        self.reset()

    def reset(self) -> None:
        self.body: Region = []
        self.prologue: Region = []
        self.b = Builder(self.body)
        self.regions: list[Region] = [self.body]
        self.env: dict[str, tuple[Val | None, Region]] = {}
        self.assigned: set[str] | frozenset[str] | None = set()
        self.loops: list[LoopState] = []
        self.unrolled = 0
        self.diagnostics: list[Diagnostic] = []
        self.changed = False
        self.pruned = False
        self.param_nodes: dict[str, Node] = {}
        self.weak_params: dict[str, WeakParam] = {}
        self.declared: dict[int, int] = {}
        self.returns: list[tuple[Val | None, ast.AST]] = []
        for var in self.vars.values():
            var.reset()
        self.result.reset()

    # --- passes ---------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Lower until the types of variables are stable; the diagnostics of the last pass stand in `diagnostics`."""
        for count in range(_MAX_PASSES):
            self.reset()
            try:
                self.bind_parameters(self)
            except Fail as fail:
                self.record(fail)
                break
            self.block(self.source.tree.body)
            self.close()
            if not self.unstable(widen=count >= 3):
                break
        else:
            self._unsettled()
        for weak in self.weak_params.values():
            weak.finish(self)
        self.body[:0] = self.prologue

    def unstable(self, widen: bool) -> bool:
        """Whether another pass is needed."""
        again = self.changed
        if self.pruned and not again:
            # An `if` on constants left one assignment of several: the variable is a plain value after all.
            for var in self.vars.values():
                if var.slotted and not var.forced and len(var.sites) == 1:
                    var.slotted = False
                    again = True
        for var in (*self.vars.values(), self.result):
            for cell in var.cells.values():
                again |= cell.finish(widen)
        return again

    def _unsettled(self) -> None:
        tree = self.source.tree
        names = ", ".join(v.name for v in self.vars.values() if v.slotted)
        self.record(
            self.fail(
                "MPG_PY_1004",
                f"the types of variables of {tree.name} depend on each other in a circle",
                tree,
                help=f"declare one of them, as in v: mp.f32 = 0.0; variables: {names}",
            )
        )

    def close(self) -> None:
        """Check the end of the function: one that returns values must return them on every path."""
        if self.result.like is not None and self.assigned is not None:
            tree = self.source.tree
            self.record(
                self.fail(
                    "MPG_PY_1024",
                    f"{tree.name} returns a value at some places, but not at its end",
                    tree.body[-1],
                    help="end it with a return of the same types",
                )
            )

    # --- diagnostics ----------------------------------------------------------------------------------------------
    def loc(self, at: ast.AST | None) -> Loc | None:
        return None if at is None else self.source.loc(at)

    def fail(
        self,
        code: str,
        message: str,
        at: ast.AST | None,
        *,
        help: str | None = None,
        notes: tuple[tuple[str, Loc | None], ...] = (),
    ) -> Fail:
        """An error at ``at``; raise it."""
        return Fail(Diagnostic(code, message, self.loc(at), notes, help))

    def record(self, fail: Fail) -> None:
        if fail.diagnostic is not None and fail.diagnostic not in self.diagnostics:
            self.diagnostics.append(fail.diagnostic)

    def warn(self, code: str, message: str, at: ast.AST, help: str | None = None) -> None:
        loc = self.loc(at)
        self.module.warnings.setdefault((code, loc), Diagnostic(code, message, loc, (), help))

    def text(self, at: ast.AST) -> str:
        return self.source.segment(at) if isinstance(at, ast.expr) else "..."

    def operand_texts(self, at: ast.AST) -> tuple[str, str]:
        """The texts of the two operands of ``at``, for a help that shows the cast to write."""
        if isinstance(at, ast.BinOp):
            return self.text(at.left), self.text(at.right)
        if isinstance(at, ast.AugAssign):
            return self.text(at.target), self.text(at.value)
        if isinstance(at, ast.IfExp):
            return self.text(at.body), self.text(at.orelse)
        if isinstance(at, ast.Call) and len(at.args) >= 2:
            return self.text(at.args[-2]), self.text(at.args[-1])
        return "a", "b"

    # --- emission -------------------------------------------------------------------------------------------------
    def emit(self, at: ast.AST, op: str, *args: Node, **attrs: Any) -> Node:
        self.b.loc = self.source.loc(at)
        return self.b.emit(op, *args, **attrs)

    @contextmanager
    def into(self, region: Region) -> Iterator[Region]:
        """Lower into ``region``, which lies inside the present one."""
        saved = self.b.region
        self.b.region = region
        self.regions.append(region)
        try:
            yield region
        finally:
            self.regions.pop()
            self.b.region = saved

    def block(self, statements: list[ast.stmt]) -> None:
        """Lower statements; an error in one is recorded and the next are still checked."""
        for statement in statements:
            if self.assigned is None:
                return  # not reachable
            lower = STATEMENTS.get(type(statement))
            try:
                if lower is None:
                    what, help = REJECTED.get(type(statement), (type(statement).__name__, "see the language reference"))
                    raise self.fail("MPG_PY_1001", f"{what} is not possible in a kernel", statement, help=help)
                self.b.loc = self.source.loc(statement)
                lower(self, statement)
            except Fail as fail:
                self.record(fail)
                self.poison(statement)
                if isinstance(statement, ast.Return):
                    self.assigned = None

    def poison(self, statement: ast.stmt) -> None:
        """After an error: what the statement would have assigned is not known, and using it is no second error."""
        from magpie.frontend.python.scope import assigned_in

        for name in assigned_in([statement]):
            if name not in self.vars:
                continue
            self.env[name] = (None, self.body)
            if self.assigned is not None:
                self.mark(name)

    def mark(self, name: str) -> None:
        """``name`` has a value from here on."""
        assert self.assigned is not None
        if name not in self.assigned:
            self.assigned = self.assigned | {name}

    def expr(self, e: ast.expr) -> Val:
        """The value of an expression; elements of struct arrays are loaded."""
        val = self.ref(e)
        if isinstance(val, ElemRef):
            from magpie.frontend.python.structs import load_struct

            return load_struct(self, val, e)
        return val

    def ref(self, e: ast.expr) -> Val:
        """As `expr`, but an element of a struct array stays a reference, so that a field of it can be taken."""
        lower = EXPRESSIONS.get(type(e))
        if lower is None:
            what, help = REJECTED.get(type(e), (type(e).__name__, "see the language reference"))
            raise self.fail("MPG_PY_1001", f"{what} is not possible in a kernel", e, help=help)
        val = lower(self, e)
        self.b.loc = self.source.loc(e)
        return val

    # --- variables ------------------------------------------------------------------------------------------------
    def is_local(self, name: str) -> bool:
        return name in self.vars

    def read(self, name: str, at: ast.AST) -> Val:
        """The present value of a local variable."""
        var = self.vars[name]
        bound = self.env.get(name)
        if bound is not None and bound[0] is None:
            raise Fail(None)
        if self.assigned is not None and name not in self.assigned:
            raise self._unassigned(var, at)
        if bound is not None:  # a plain value, or the variable of a loop around this place
            val, region = bound
            assert val is not None
            if not isinstance(val, Const) and not self.encloses(region):
                self._give_slot(var)
            return val
        if var.like is None:
            raise self._unassigned(var, at)
        self.b.loc = self.source.loc(at)
        return rebuild(var.like, iter([self._get(var.cell(n)) for n, _ in flatten(var.like, name)]))

    def encloses(self, region: Region) -> bool:
        """Whether ``region`` is the present one or lies around it, so that its values may be used here."""
        return any(r is region for r in self.regions)

    def _give_slot(self, var: Var) -> None:
        """``var`` outlives the region where it is assigned: the next pass gives it a slot."""
        var.slotted = var.forced = True
        self.changed = True

    def _get(self, cell: Cell) -> Val:
        if cell.slot is None:
            cell.slot = Slot(cell.name, cell.type)
        node = self.b.get(cell.slot)
        if cell.open:
            return Num(node, cell.weak or "int", (cell,))
        return Num(node)

    def _unassigned(self, var: Var, at: ast.AST) -> Fail:
        notes = ((f"{var.name} gets a value here", var.first),) if var.first is not None else ()
        if var.name in self.closure or var.name in self.fn.__globals__:
            return self.fail(
                "MPG_PY_1003",
                f"{var.name} may have no value here",
                at,
                help=f"{var.name} is a variable of this function, since it is assigned in it: use another name for it",
                notes=notes,
            )
        return self.fail(
            "MPG_PY_1003",
            f"{var.name} may have no value here",
            at,
            help=f"assign {var.name} before, on every path: for example {var.name} = 0.0 ahead of the branch or loop",
            notes=notes,
        )

    def assign(self, name: str, val: Val, at: ast.AST) -> None:
        """Give a local variable a value."""
        var = self.vars[name]
        loc = self.source.loc(at)
        var.sites.add(id(at))
        if var.first is None:
            var.first = loc
        before = self.env.get(name)
        if before is not None and name in (self.assigned or ()) and before[1] is not self.b.region and not var.slotted:
            self._give_slot(var)  # one assignment, written out several times by an unrolled loop
        self.mark(name)
        if not var.slotted:
            self.env[name] = (val, self.b.region)
            return
        self.env.pop(name, None)
        self.store_into(var, val, at)

    def items(self, val: Tuple | Shape) -> list[Val]:
        """The items of a tuple, or of a shape."""
        if isinstance(val, Tuple):
            return val.items
        from magpie.frontend.python.views import shape_items

        return shape_items(self, val)

    def store_into(self, var: Var, val: Val, at: ast.AST) -> None:
        """Set the slots of a variable that is assigned several times."""
        for cell, number in self.join(var, val, at):
            node = adapt(self, number, cell.type, at)
            if cell.slot is None:
                cell.slot = Slot(cell.name, cell.type)
            self.b.loc = self.source.loc(at)
            self.b.set(cell.slot, node)

    def join(self, var: Var, val: Val, at: ast.AST) -> list[tuple[Cell, Val]]:
        """Record an assignment in the types of ``var``; its cells with the numbers to put there."""
        if isinstance(val, Shape):
            val = Tuple(self.items(val))
        if var.explicit and isinstance(val, View):
            val = self._explicit(val)
        shape = skeleton(val)
        if var.like is None:
            var.like, var.skeleton = val, shape
        elif shape != var.skeleton:
            if not views_alike(var.like, val):
                raise self._two_shapes(var, val, at)
            var.explicit = self.changed = True
            return []
        out = []
        for name, number in flatten(val, var.name):
            cell = var.cell(name)
            self._widen(cell, number, at)
            out.append((cell, number))
        return out

    def _explicit(self, view: View) -> View:
        """``view`` with every offset, step and extent as a number."""
        from magpie.frontend.python.views import extent

        dims: list[Fixed | Free] = []
        k = 0
        for dim in view.dims:
            if isinstance(dim, Free):
                zero, one = dim.offset or self.b.const(0, index), dim.step or self.b.const(1, index)
                dims.append(Free(zero, one, extent(self, view, k)))
                k += 1
            else:
                dims.append(dim)
        return View(view.array, dims)

    def _widen(self, cell: Cell, number: Val, at: ast.AST) -> None:
        fresh = cell.strong is None and cell.weak is None
        before, was_open = cell.type, cell.open
        kind = weak_kind(number)
        if kind is None:
            t = number.type  # type: ignore[attr-defined]
            if cell.strong is None:
                cell.strong, cell.place = t, self.source.loc(at)
            elif cell.strong is not t:
                joined = join_strong(cell.strong, t)
                if joined is None:
                    raise self._two_types(cell, t, at)
                if joined is not cell.strong:
                    cell.strong, cell.place = joined, self.source.loc(at)
        else:
            order = ("bool", "int", "float")
            if cell.weak is None or order.index(kind) > order.index(cell.weak):
                cell.weak = kind
            if isinstance(number, Const) and kind == "int" and default(number) is not i32:
                cell.wide = True
        after = cell.type
        if not fresh and (after is not before or (was_open and not cell.open and cell.met - {after})):
            cell.unstable = True
            if after is not before:
                cell.slot = None  # this pass is dropped; going on with the right type finds the others sooner

    def _two_types(self, cell: Cell, t: DType, at: ast.AST) -> Fail:
        name = cell.name
        value = getattr(at, "value", None)
        text = self.text(value) if isinstance(value, ast.expr) else "value"
        hint = f"write mp.{cell.strong}({text})"
        if (
            t.is_float
            and cell.strong is not None
            and cell.strong.is_int
            and isinstance(at, ast.AugAssign)
            and isinstance(at.op, ast.Div)
        ):
            hint = "use //= for a whole number"
        return self.fail(
            "MPG_PY_1004",
            f"{name} is {cell.strong} and {t}: a variable has one type",
            at,
            help=f"{hint}, or use two names",
            notes=((f"{name} is {cell.strong} here", cell.place),),
        )

    def _two_shapes(self, var: Var, val: Val, at: ast.AST) -> Fail:
        assert var.like is not None
        notes = ((f"{var.name} is {describe(var.like)} here", var.first),)
        if isinstance(val, View | Shape) and isinstance(var.like, View | Shape):
            return self.fail(
                "MPG_PY_1015",
                f"{var.name} stands for {describe(var.like)} and for {describe(val)}",
                at,
                help="use one array with one more dimension, or select the value: v = a[i] if c else b[i]",
                notes=notes,
            )
        return self.fail(
            "MPG_PY_1004",
            f"{var.name} is {describe(var.like)} and {describe(val)}: a variable is one kind of thing",
            at,
            help="use two names",
            notes=notes,
        )

    # --- parameters -----------------------------------------------------------------------------------------------
    def parameter(self, scalar: Scalar, type_: Any) -> Node:
        """The node that reads a parameter, at the start of the function."""
        node = self.param_nodes.get(scalar.name)
        if node is None:
            node = self.param_nodes[scalar.name] = Node("param", (), type_, {"name": scalar.name}, (), scalar.loc)
            self.prologue.append(node)
        return node

    def weak_parameter(self, scalar: Scalar, kind: str) -> Lazy:
        weak = self.weak_params[scalar.name] = WeakParam(scalar.name, kind, scalar)
        if kind == "float":
            return Lazy(kind, lambda t: weak.make(self, t) if t.is_float else self.b.cast(weak.make(self, f32), t))
        if kind == "bool":
            return Lazy(kind, lambda t: self.b.cast(weak.make(self, bool_), t))

        def integer(t: DType) -> Node:
            if t.is_bool:
                return self.b.emit("ne", weak.make(self, index), self.b.const(0, index))
            return weak.make(self, t)

        return Lazy(kind, integer)
