"""Random kernels: Python source that is well typed, always ends, has no race and reads nothing out of bounds.

Every choice is drawn through one function, so that hypothesis can make a failing kernel smaller.  What a kernel may do
follows from where it stands: each work-item stores only to its own rows, atomics are commutative and their results are
dropped, shared memory is written at the own element between two barriers, barriers stand in uniform code only, and every
loop has a small bound.  So any backend must give the interpreter's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Draw = Callable[[int], int]  # draw(n): an integer from 0 to n - 1; 0 is the simplest choice

INTS = ("i32", "i64", "u32", "u8", "i16", "u64", "i8", "u16")
FLOATS = ("f32", "f64", "f16", "bf16")
ATOMIC = ("i32", "u32", "i64", "u64")
BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}
LENGTH = 37  # elements of each input array
COLUMNS = 4  # columns of each output array
SLOTS = 5  # elements of each array of atomics
LOCAL = 6


@dataclass
class Program:
    """The text of one kernel and what a launch must pass: types in the order of the parameters."""

    source: str
    types: tuple[str, ...]
    atomics: tuple[str, ...]
    shared: bool
    guarded: bool
    subgroups: bool


@dataclass
class _Scope:
    """What can be named: variables by type, names that are read only, and whether control flow is uniform here."""

    variables: dict[str, str] = field(default_factory=dict)
    frozen: set[str] = field(default_factory=set)
    loops: int = 0
    uniform: bool = True
    in_function: bool = False


class Generator:
    """Makes one `Program` from a source of choices."""

    def __init__(self, draw: Draw, exact: bool = True) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.budget = 4 + draw(14)
        self.exact = exact
        self.functions: list[tuple[str, list[str], str]] = []
        self.subgroups = False

    # --- choices -----------------------------------------------------------------------------------------------------
    def pick(self, options):  # noqa: ANN001, ANN201
        return options[self.draw(len(options))]

    def chance(self, percent: int) -> bool:
        return self.draw(100) >= 100 - percent

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # --- the whole ---------------------------------------------------------------------------------------------------
    def program(self) -> Program:
        types = ["i32", self.pick(INTS), self.pick(FLOATS)]
        if self.chance(30):
            types.append(self.pick((*INTS, *FLOATS)))
        self.types = tuple(dict.fromkeys(types))
        self.atomics = tuple(t for t in self.types if t in ATOMIC)
        for _ in range(self.draw(3)):
            self.function()
        head = self.lines
        self.lines = []
        self.depth = 1
        shared = self.chance(40)
        self.subgroups = self.chance(25)
        guarded = not shared and self.chance(70)
        scope = _Scope()
        self.emit("i = mp.global_id(0)")
        self.emit("t = mp.thread_id(0)")
        if shared:
            self.shared_type = self.pick(self.types)
            self.emit(f"s = mp.shared(64, mp.{self.shared_type})")
        self.has_local = self.chance(30)
        if self.has_local:
            self.local_type = self.pick(self.types)
            self.emit(f"a = mp.local({LOCAL}, mp.{self.local_type})")
        if guarded:
            if self.chance(50):
                self.emit("if i >= limit:")
                self.emit("    return")
            else:
                self.emit("if i < limit:")
                self.depth += 1
        for t in self.types:
            for _ in range(1 + self.draw(2)):
                name = self.name("v")
                self.emit(f"{name} = {self.load(t, scope) if self.chance(60) else self.literal(t)}")
                scope.variables[name] = t
        if shared:
            self.phases(scope)
        else:
            self.block(scope, returns=True)
        for t in self.types:
            names = [n for n, u in scope.variables.items() if u == t]
            for k, n in enumerate(names[:COLUMNS]):
                self.emit(f"o_{t}[i, {k}] = {n}")
        params = [f"x_{t}" for t in self.types] + [f"o_{t}" for t in self.types] + [f"c_{t}" for t in self.atomics]
        signature = f"def kernel({', '.join(params)}, limit: mp.i32, n0: mp.i32, n1: mp.i32):"
        text = "\n".join(["import math", "", "import magpie as mp", "", "", *head, "@mp.kernel", signature, *self.lines, ""])
        return Program(text, self.types, self.atomics, shared, guarded, self.subgroups)

    def phases(self, scope: _Scope) -> None:
        """Stretches of work between barriers, some of them in uniform loops."""
        for _ in range(1 + self.draw(2)):
            if self.chance(40):
                k = self.name("u")
                self.emit(f"for {k} in range({self.pick(('2', 'n0', 'n1 + 1', '3'))}):")
                self.depth += 1
                scope.variables[k] = "index"
                scope.frozen.add(k)
                self.exchange(scope)
                if self.chance(40):
                    self.exchange(scope)
                if self.chance(25):
                    self.emit(f"if {k} == n1:")
                    self.emit(f"    {self.pick(('break', 'continue'))}")
                    self.block(scope, small=True)
                del scope.variables[k]
                self.depth -= 1
            elif self.chance(30):
                self.emit(f"if n0 {self.pick(('<', '>', '=='))} {1 + self.draw(3)}:")
                self.depth += 1
                self.exchange(scope)
                self.depth -= 1
            else:
                self.exchange(scope)
        if self.chance(40):
            self.emit(f"if {self.condition(scope, 2)}:")
            self.emit("    return")

    def exchange(self, scope: _Scope) -> None:
        """Write the own element, barrier, read anyone's, barrier."""
        u = self.shared_type
        self.block(scope, small=True)
        self.emit(f"s[t] = {self.expr(u, scope, 2)}")
        if self.chance(25):
            self.emit(f"if {self.condition(scope, 1)}:")
            self.emit(f"    s[t] = {self.expr(u, scope, 1)}")
        self.emit("mp.barrier()")
        name = next((n for n, v in scope.variables.items() if v == u and n not in scope.frozen), None)
        where = self.pick(("63 - t", "(t + 1) % 64", "(t * 5 + 3) % 64", "t ^ 1", f"{self.index(scope)} % 64"))
        if name is not None:
            # elements of items that do not exist are never written: stay inside the workgroup
            size = "mp.workgroup_size(0)"
            self.emit(f"{name} = s[({where}) % {size}]")
            if self.chance(40):
                self.emit(f"if {self.condition(scope, 1)}:")
                self.emit(f"    {name} {self.pick(('=', '+=', '-='))} s[({self.index(scope)}) % {size}]")
        self.emit("mp.barrier()")

    def function(self) -> None:
        """A device function over scalars, with early returns; callable from then on."""
        name = self.name("f")
        params = [self.pick(self.types) for _ in range(1 + self.draw(3))]
        result = self.pick(self.types)
        scope = _Scope({f"p{k}": t for k, t in enumerate(params)}, uniform=False, in_function=True)
        self.depth = 1
        start = len(self.lines)
        saved, self.budget = self.budget, 2 + self.draw(5)
        self.lines += ["@mp.func", f"def {name}({', '.join(scope.variables)}):"]
        self.result_type = result
        self.has_local = False
        self.block(scope, returns=True)
        self.emit(f"return {self.expr(result, scope, 2)}")
        self.lines += ["", ""]
        self.budget = saved
        assert len(self.lines) > start
        self.functions.append((name, params, result))

    # --- statements --------------------------------------------------------------------------------------------------
    def block(self, scope: _Scope, returns: bool = False, small: bool = False) -> None:
        """Some statements at the current depth; never none."""
        before = len(self.lines)
        known = dict(scope.variables)
        for _ in range(1 + self.draw(2 if small else 5)):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement(scope, returns)
        if len(self.lines) == before:
            self.assign(scope)
        for n in list(scope.variables):
            if n not in known:
                del scope.variables[n]

    def statement(self, scope: _Scope, returns: bool) -> None:
        kind = self.draw(14)
        if kind <= 3:
            self.assign(scope)
        elif kind <= 5:
            self.branch(scope, returns)
        elif kind == 6:
            self.counted_loop(scope, returns)
        elif kind == 7:
            self.while_loop(scope, returns)
        elif kind == 8 and not scope.in_function:
            self.store(scope)
        elif kind == 9 and self.atomics and not scope.in_function:
            self.atomic(scope)
        elif kind == 10 and scope.loops:
            self.emit(f"if {self.condition(scope, 1)}:")
            self.emit(f"    {self.pick(('break', 'continue'))}")
        elif kind == 11 and returns:
            self.emit(f"if {self.condition(scope, 1)}:")
            self.depth += 1
            if scope.in_function:
                self.emit(f"return {self.expr(self.result_type, scope, 1)}")
            else:
                self.emit("return")
            self.depth -= 1
        elif kind >= 12 and self.subgroups and not scope.in_function:
            self.subgroup(scope)
        else:
            self.assign(scope)

    def subgroup(self, scope: _Scope) -> None:
        """A reduction, scan or vote over the work-items that are active here, as a statement of its own."""
        names = [n for n in scope.variables if n not in scope.frozen and not n.startswith("w")]
        if not names:
            self.emit("pass")
            return
        name = self.pick(names)
        t = scope.variables[name]
        value = self.expr(t, scope, 1)
        calls = [
            f"mp.subgroup.sum({value})",
            f"mp.subgroup.min({value})",
            f"mp.subgroup.max({value})",
            f"mp.subgroup.scan({value})",
            f"mp.subgroup.scan({value}, 'max')",
            f"mp.{t}(mp.subgroup.ballot_count({self.condition(scope, 1)}))",
            f"mp.{t}(mp.subgroup.ballot_rank({self.condition(scope, 1)}))",
            f"({value} if mp.subgroup.any({self.condition(scope, 1)}) else {name})",
            f"({value} if mp.subgroup.all({self.condition(scope, 1)}) else {name})",
        ]
        if t not in FLOATS:
            calls += [f"mp.subgroup.reduce({value}, 'xor')", f"mp.subgroup.reduce({value}, 'or')", f"mp.subgroup.prod({value})"]
        self.emit(f"{name} = {self.pick(calls)}")

    def assign(self, scope: _Scope) -> None:
        names = [n for n in scope.variables if n not in scope.frozen]
        if not names:
            self.emit("pass")
            return
        if self.has_local and not scope.in_function and self.chance(20):
            self.emit(f"a[{self.index(scope)} % {LOCAL}] = {self.expr(self.local_type, scope, 1)}")
            return
        name = self.pick(names)
        t = scope.variables[name]
        if self.chance(35):
            ops = ("+=", "-=", "*=") if t in FLOATS else ("+=", "-=", "*=", "^=", "&=", "|=", "//=", "%=", ">>=", "<<=")
            self.emit(f"{name} {self.pick(ops)} {self.expr(t, scope, 1)}")
        elif self.chance(10) and len(names) > 1:
            other = self.pick(names)
            if scope.variables[other] == t and other != name:
                self.emit(f"{name}, {other} = {other}, {name}")
            else:
                self.emit(f"{name} = {self.expr(t, scope, 2)}")
        else:
            self.emit(f"{name} = {self.expr(t, scope, 3)}")

    def branch(self, scope: _Scope, returns: bool) -> None:
        self.emit(f"if {self.condition(scope, 2)}:")
        self.inside(scope, returns)
        if self.chance(20):
            self.emit(f"elif {self.condition(scope, 1)}:")
            self.inside(scope, returns)
        if self.chance(40):
            self.emit("else:")
            self.inside(scope, returns)

    def inside(self, scope: _Scope, returns: bool) -> None:
        self.depth += 1
        uniform, scope.uniform = scope.uniform, False
        self.block(scope, returns, small=True)
        scope.uniform = uniform
        self.depth -= 1

    def counted_loop(self, scope: _Scope, returns: bool) -> None:
        k = self.name("k")
        ranges = [
            f"{1 + self.draw(5)}",
            f"({self.index(scope)}) % {2 + self.draw(5)}",
            f"{self.draw(4)}, {2 + self.draw(7)}, {1 + self.draw(3)}",
            f"({self.index(scope)}) % 5, -2, -{1 + self.draw(3)}",
        ]
        if not scope.in_function:
            ranges += ["n0", "n1, n0 + 2"]
        self.emit(f"for {k} in range({self.pick(ranges)}):")
        scope.variables[k] = "index"
        scope.frozen.add(k)
        self.loop_body(scope, returns)
        del scope.variables[k]

    def while_loop(self, scope: _Scope, returns: bool) -> None:
        fuel = self.name("w")
        self.emit(f"{fuel} = 0")
        bound = 1 + self.draw(6)
        if self.chance(40):
            self.emit("while True:")
            self.emit(f"    if {fuel} >= {bound} or {self.condition(scope, 1)}:")
            self.emit("        break")
        else:
            self.emit(f"while {fuel} < {bound} and {self.condition(scope, 1)}:")
        self.emit(f"    {fuel} += 1")
        self.loop_body(scope, returns)

    def loop_body(self, scope: _Scope, returns: bool) -> None:
        scope.loops += 1
        self.inside(scope, returns)
        scope.loops -= 1

    def store(self, scope: _Scope) -> None:
        t = self.pick(self.types)
        column = self.pick((str(self.draw(COLUMNS)), f"({self.index(scope)}) % {COLUMNS}"))
        self.emit(f"o_{t}[i, {column}] {self.pick(('=', '=', '+='))} {self.expr(t, scope, 2)}")

    def atomic(self, scope: _Scope) -> None:
        t = self.pick(self.atomics)
        # one kind per element, so that they commute
        where, kind = self.pick(((0, "add"), (1, "max"), (2, "xor"), (3, "or"), (4, "min")))
        self.emit(f"mp.atomic_{kind}(c_{t}, {where}, {self.expr(t, scope, 2)})")

    # --- expressions -------------------------------------------------------------------------------------------------
    def literal(self, t: str) -> str:
        if t in FLOATS:
            return f"mp.{t}({self.pick(('0.0', '1.0', '-1.5', '0.25', '3.0', '-0.0', '100.5', '1e-3'))})"
        values = [0, 1, 2, 3, 5, 7, BITS[t] - 1, 2 ** (BITS[t] - 1) - 1, 100]
        if t[0] == "i":
            values += [-1, -2, -7, -(2 ** (BITS[t] - 1)) + 1]
        return f"mp.{t}({self.pick(values)})"

    def index(self, scope: _Scope) -> str:
        """Some integer, of any sign and type; the caller takes it modulo a length."""
        # a u64 has no common type with index
        names = [f"mp.i64({n})" if t == "u64" else n for n, t in scope.variables.items() if t not in FLOATS]
        names += ["i", "t"] if not scope.in_function else []
        if not names:
            return str(self.draw(9))
        name = self.pick(names)
        return self.pick((name, f"({name} + {1 + self.draw(4)})", f"({name} * 3)"))

    def load(self, t: str, scope: _Scope) -> str:
        return f"x_{t}[({self.index(scope)}) % {LENGTH}]"

    def leaf(self, t: str, scope: _Scope) -> str:
        names = [n for n, u in scope.variables.items() if u == t]
        choice = self.draw(6)
        if names and choice <= 2:
            return self.pick(names)
        if choice == 3 and not scope.in_function:
            return self.load(t, scope)
        if choice == 4 and self.has_local and not scope.in_function and self.local_type == t:
            return f"a[({self.index(scope)}) % {LOCAL}]"
        if choice == 5:
            index = [n for n, u in scope.variables.items() if u == "index"]
            if index:
                return f"mp.{t}({self.pick(index)})"
        return self.literal(t)

    def expr(self, t: str, scope: _Scope, depth: int) -> str:
        """An expression of exactly the type ``t``."""
        if depth <= 0:
            return self.leaf(t, scope)
        e = lambda: self.expr(t, scope, depth - 1)  # noqa: E731
        choice = self.draw(10)
        if choice == 0:
            return self.leaf(t, scope)
        if choice == 1:
            u = self.pick(self.types)
            return f"mp.{t}({self.expr(u, scope, depth - 1)})"
        if choice == 2:
            return f"({e()} if {self.condition(scope, depth - 1)} else {e()})"
        if choice == 3:
            return f"{self.pick(('min', 'max'))}({e()}, {e()})"
        if choice == 4:
            fitting = [f for f in self.functions if f[2] == t]
            if fitting:
                name, params, _ = self.pick(fitting)
                return f"{name}({', '.join(self.expr(p, scope, depth - 1) for p in params)})"
        if choice == 5 and t in FLOATS and self.chance(25):
            # one library for every target: the same bits
            if self.chance(20):
                return f"{self.pick(('mp.pow', 'mp.atan2', 'mp.hypot', 'math.fmod'))}({e()}, {e()})"
            f = self.pick(("exp", "log", "sin", "cos", "tanh", "atan", "cbrt", "exp2", "log2", "log1p", "erf", "rsqrt"))
            return f"mp.{f}({e()})"
        if choice == 5 and t in FLOATS:
            f = self.pick(("abs", "mp.floor", "mp.ceil", "mp.trunc", "round", "-", "mp.sqrt(abs"))
            return f"{f}({e()}))" if f.endswith("abs") and f != "abs" else f"({f}{e()})" if f == "-" else f"{f}({e()})"
        if choice == 5:
            f = self.pick(("abs", "-", "~", "mp.popcount", "mp.clz", "mp.ctz"))
            return f"({f}{e()})" if f in "-~" else f"{f}({e()})"
        if choice == 6:
            return f"mp.select({self.condition(scope, depth - 1)}, {e()}, {e()})"
        if t in FLOATS:
            op = self.pick(("+", "-", "*", "/", "+", "*", "%", "//"))
            if choice == 7 and t in ("f32", "f64"):
                return f"mp.fma({e()}, {e()}, {e()})"
            return f"({e()} {op} {e()})"
        op = self.pick(("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "+", "*"))
        if choice == 7:
            return f"({e()} {self.pick(('+', '-', '*'))} {1 + self.draw(9)})"
        return f"({e()} {op} {e()})"

    def condition(self, scope: _Scope, depth: int) -> str:
        t = self.pick(self.types)
        choice = self.draw(8)
        if choice == 5 and depth > 0:
            word = self.pick(("and", "or"))
            return f"({self.condition(scope, depth - 1)} {word} {self.condition(scope, depth - 1)})"
        if choice == 6 and depth > 0:
            return f"(not {self.condition(scope, depth - 1)})"
        if choice == 7:
            a, b, c = (self.expr(t, scope, 0) for _ in range(3))
            return f"({a} {self.pick(('<', '<='))} {b} {self.pick(('<', '!=', '>='))} {c})"
        op = self.pick(("<", "<=", ">", ">=", "==", "!="))
        other = t if t in FLOATS else self.pick([u for u in self.types if u not in FLOATS])
        return f"({self.expr(t, scope, depth - 1)} {op} {self.expr(other, scope, depth - 1)})"
