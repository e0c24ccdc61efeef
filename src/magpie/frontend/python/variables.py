"""Variables and the types they get, weak parameters, and what is known of the loops around a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, bool_, f32, f64, i32, index, u64
from magpie.frontend.python.arith import DEFAULTS
from magpie.frontend.python.values import Fixed, Val, View
from magpie.ir.nodes import Node, Region, Scalar, Slot

if TYPE_CHECKING:
    from magpie.frontend.python.context import Fx

__all__ = ["Cell", "LoopState", "Var", "WeakParam", "join_strong", "views_alike"]


class Cell:
    """One number of a variable, and the join of the types assigned to it.

    `assumed` is the type that the last pass found, `final` the one chosen for a variable that only literals were
    assigned to. The rest is collected anew in each pass: `strong` is the declared type met, `weak` the widest kind of
    literals, and `met` the types to which readers adapted the variable while it was open.
    """

    __slots__ = ("assumed", "final", "met", "name", "place", "slot", "strong", "unstable", "weak", "wide")

    def __init__(self, name: str) -> None:
        self.name = name
        self.assumed: DType | None = None
        self.final: DType | None = None
        self.start()

    def start(self) -> None:
        """Forget what belongs to a pass."""
        self.strong: DType | None = None
        self.place: Loc | None = None
        self.weak: str | None = None
        self.wide = False
        self.met: set[DType] = set()
        self.unstable = False
        self.slot: Slot | None = None

    @property
    def joined(self) -> DType | None:
        """The type by the assignments so far; None while it is open."""
        s = self.strong
        if s is None:
            return self.final
        if self.weak == "float" and not s.is_float:
            return f32
        return i32 if self.weak == "int" and s.is_bool else s

    @property
    def type(self) -> DType:
        return self.assumed or self.joined or (index if self.wide else DEFAULTS[self.weak or "int"])

    @property
    def open(self) -> bool:
        return self.assumed is None and self.strong is None and self.final is None

    def _choice(self) -> DType:
        """The type of a variable of literals only: i32 or f32, unless it would lose beside an index or an f64."""
        if self.weak == "int" and index in self.met:
            return index
        if self.weak == "float" and f64 in self.met:
            return f64
        return self.type

    def finish(self, widen: bool) -> bool:
        """At the end of a pass: true if another one is needed.

        With ``widen`` the type of the last pass is kept in the join: two variables that exchange their values would
        exchange i32 and index for ever.
        """
        new = self.joined
        if widen and new is not None and self.assumed is not None and new is not self.assumed:
            new = join_strong(self.assumed, new) or new
        if new is None:
            if self.assumed is not None:  # what gave it a type has gone
                self.assumed = None
                return True
            if not self.met - {self.type}:
                return False
            self.final = self.assumed = self._choice()
            return True
        again = self.unstable or (self.assumed is not None and new is not self.assumed)
        self.assumed = new
        return again


class Var:
    """A local variable. One that is assigned once needs no slot: its value is what was assigned."""

    __slots__ = ("cells", "explicit", "first", "forced", "like", "name", "sites", "skeleton", "slotted")

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.slotted = count > 1
        self.explicit = False  # holds views that differ in what they leave open: each number is written out
        self.forced = False  # needs a slot although it is assigned once: it outlives its region
        self.cells: dict[str, Cell] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what belongs to a pass."""
        self.like: Val | None = None
        self.skeleton: Any = None
        self.first: Loc | None = None
        self.sites: set[int] = set()
        for cell in self.cells.values():
            cell.start()

    def cell(self, name: str) -> Cell:
        found = self.cells.get(name)
        if found is None:
            found = self.cells[name] = Cell(name)
        return found


class LoopState:
    """What is assigned where a loop is left (`breaks`) or continued; `static` is the region of an unrolled body."""

    __slots__ = ("breaks", "broken", "continues", "static")

    def __init__(self, static: Region | None = None) -> None:
        self.breaks: list[frozenset[str] | set[str] | None] = []
        self.continues: list[frozenset[str] | set[str] | None] = []
        self.static = static
        self.broken: Slot | None = None


class WeakParam:
    """A parameter without a declared type: one placeholder node per type that it meets, filled in at the end."""

    def __init__(self, name: str, kind: str, scalar: Scalar) -> None:
        self.name = name
        self.kind = kind
        self.scalar = scalar
        self.nodes: dict[DType, Node] = {}

    def make(self, fx: Fx, to: DType) -> Node:
        node = self.nodes.get(to)
        if node is None:
            node = self.nodes[to] = Node("param", (), to, {"name": self.name}, (), self.scalar.loc)
            fx.prologue.append(node)
        return node

    def decide(self) -> DType:
        """The type to pass: the only one met; the narrowest integer, whose range the host checks; the widest float."""
        met = list(self.nodes)
        if self.kind == "bool":
            return bool_
        if self.kind == "float":
            floats = [t for t in met if t.is_float]
            return floats[0] if len(floats) == 1 else f64 if floats else f32
        if len(met) == 1:
            return met[0]
        integers = sorted((t for t in met if t.is_int), key=lambda t: t.bits)
        if not integers:
            return index
        least = integers[0]
        return least if all(t.min <= least.min and least.max <= t.max for t in integers) else index

    def finish(self, fx: Fx) -> None:
        """Fill the placeholders: the parameter itself, and casts of it."""
        self.scalar.type = chosen = self.decide()
        base = self.nodes.get(chosen)
        if base is None:
            base = Node("param", (), chosen, {"name": self.name}, (), self.scalar.loc)
        elif base in fx.prologue:
            fx.prologue.remove(base)
        fx.prologue.insert(0, base)
        for node in self.nodes.values():
            if node is not base:
                node.op, node.args, node.attrs = "cast", (base,), {}


def join_strong(a: DType, b: DType) -> DType | None:
    """The type of a variable that is assigned both, or None: only index joins with other integers."""
    if a is index or b is index:
        other = b if a is index else a
        if other.is_int and other is not u64:
            return other if other.bits == 64 else index
    return None


def views_alike(a: Val, b: Val) -> bool:
    """Views of one array with the same dimensions fixed."""
    return (
        isinstance(a, View)
        and isinstance(b, View)
        and a.array is b.array
        and all(isinstance(x, Fixed) == isinstance(y, Fixed) for x, y in zip(a.dims, b.dims, strict=True))
    )
