"""Random kernels around barriers, each with a model: the same text run by Python, one coroutine a work-item.

A barrier of the kernel is a `yield` of the model, so the model needs nothing of Magpie. Values stay below a small bound
and so mean the same in every type and in Python. For each shared array the generator knows what happened to it since the
last barrier, and puts a barrier where the next access would race; so every program has one result. Kernels with subgroup
operations have no model: the interpreter at the same subgroup size judges them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Draw = Callable[[int], int]  # draw(n): an integer from 0 to n - 1; 0 is the simplest choice

TYPES = ("i32", "f32", "i64", "u8", "i16", "u32", "f64", "f16")
BOUND = 97  # values are below it
LENGTH = 211  # elements of the input
COLUMNS = 3
COUNTERS = 4
LOCAL = 4

# What may follow what, on one array between two barriers: accesses to the own element, to others', and atomics.
_ALLOWED = {
    "own_write": ("idle", "written"),
    "own_read": ("idle", "written", "read"),
    "cross_read": ("idle", "read"),
    "atomic": ("idle", "atomic"),
}
_AFTER = {"own_write": "written", "cross_read": "read", "atomic": "atomic"}


@dataclass
class BarrierProgram:
    """The kernel's text, the model's (empty: none), and the number of dimensions of its workgroups."""

    source: str
    model: str
    dims: int
    subgroups: bool


@dataclass
class _Array:
    name: str
    dtype: str
    flat: bool  # one element a work-item, by its number; else one by its coordinates

    def own(self) -> str:
        return f"{self.name}[{'t' if self.flat else 'tz, ty, tx'}]"


@dataclass
class _Scope:
    varying: list[str] = field(default_factory=list)
    uniform: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)  # of uniform loops: read only
    private: list[str] = field(default_factory=list)  # of loops of one work-item
    loops: int = 0  # uniform loops around
    inner: int = 0  # loops of one work-item around


class BarrierGenerator:
    """Makes one `BarrierProgram` from a source of choices."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.kernel: list[str] = []
        self.model: list[str] = []
        self.depth = 1
        self.count = 0
        self.budget = 8 + draw(22)
        self.state: dict[str, str] = {}
        self.tail = False  # some work-items have gone on: no barrier may follow here
        self.functions: list[tuple[str, _Array]] = []

    # --- choices -----------------------------------------------------------------------------------------------------
    def pick(self, options):  # noqa: ANN001, ANN201
        return options[self.draw(len(options))]

    def chance(self, percent: int) -> bool:
        return self.draw(100) >= 100 - percent

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, text: str, model: str | None = None) -> None:
        self.kernel.append("    " * self.depth + text)
        self.model.append("    " * self.depth + (text if model is None else model))

    # --- the whole ---------------------------------------------------------------------------------------------------
    def program(self) -> BarrierProgram:
        self.dims = 3 if self.chance(35) else 1
        self.subgroups = self.chance(30)
        arrays = [_Array(f"s{k}", self.pick(TYPES), self.dims == 1 or self.chance(60)) for k in range(1 + self.draw(3))]
        arrays.append(_Array("scratch", "i32", True))
        self.arrays = arrays
        for _ in range(self.draw(3)):
            self.function(self.pick([a for a in arrays[:-1] if a.flat] or [_Array("s9", "i32", True)]))
        names = {a.name for a in arrays}
        arrays[-1:-1] = list({f[1].name: f[1] for f in self.functions if f[1].name not in names}.values())
        head, model_head = self.kernel, self.model
        self.kernel, self.model, self.depth = [], [], 1
        self.prologue()
        self.state = {a.name: "idle" for a in arrays} | {"tally": "idle"}
        scope = _Scope()
        for _ in range(2 + self.draw(3)):
            name = self.name("v")
            self.emit(f"{name} = {self.value(scope, 2)} % {BOUND}")
            scope.varying.append(name)
        for _ in range(1 + self.draw(2)):
            name = self.name("u")
            self.emit(f"{name} = {self.shared_value(scope, 1)} % {BOUND}")
            scope.uniform.append(name)
        self.block(scope, 3 + self.draw(4))
        for k, name in enumerate(scope.varying[:COLUMNS]):
            self.emit(f"out[i, {k}] = {name}")
        if self.chance(50):
            self.emit(f"out[i, 0] += {scope.uniform[0]} * 1000")
        signature = "x, out, scratch, total, n0: mp.i32, n1: mp.i32"
        kernel = ["import magpie as mp", "", "", *head, "@mp.kernel", f"def kernel({signature}):", *self.kernel, ""]
        model = [*model_head, "def kernel(w, x, out, scratch, total, n0, n1):", *self.model, ""]
        text = "" if self.subgroups else "\n".join(model)
        return BarrierProgram("\n".join(kernel), text, self.dims, self.subgroups)

    def prologue(self) -> None:
        for d, c in enumerate("xyz"):
            self.emit(f"t{c} = mp.thread_id({d})", f"t{c} = w.thread[{d}]")
            self.emit(f"n{c} = mp.workgroup_size({d})", f"n{c} = w.size[{d}]")
        self.emit("g = mp.workgroup_id(0)", "g = w.group")
        self.emit("groups = mp.num_workgroups(0)", "groups = w.groups")
        if self.dims == 1:
            self.emit("t = tx")
            self.emit("n = nx")
        else:
            self.emit("t = tx + nx * (ty + ny * tz)")
            self.emit("n = nx * ny * nz")
        self.emit("i = g * n + t")
        for a in self.arrays:
            if a.name == "scratch":
                continue
            dynamic = self.chance(50)
            whole = "mp.workgroup_size(0) * mp.workgroup_size(1) * mp.workgroup_size(2)"
            shape = (
                (whole if dynamic else "128")
                if a.flat
                else "(mp.workgroup_size(2), mp.workgroup_size(1), mp.workgroup_size(0))"
            )
            self.emit(
                f"{a.name} = mp.shared({shape}, mp.{a.dtype})",
                f"{a.name} = w.shared({a.name!r}, {'n' if a.flat else 'nz, ny, nx'})",
            )
        self.emit(f"tally = mp.shared({COUNTERS}, mp.i32)", f"tally = w.shared('tally', {COUNTERS})")
        for a in self.arrays[:-1]:
            self.emit(f"{a.own()} = mp.{a.dtype}((t * 7 + {self.draw(9)}) % {BOUND})")
        self.emit("if t == 0:")
        self.emit(f"    for k in range({COUNTERS}):")
        self.emit("        tally[k] = 0")
        self.emit(f"a = mp.local({LOCAL}, mp.i32)", f"a = [0] * {LOCAL}")
        self.emit(f"for k in range({LOCAL}):")
        self.emit("    a[k] = mp.i32(t + k) % 31", "    a[k] = (t + k) % 31")
        self.barrier()

    def function(self, array: _Array) -> None:
        """A device function with a barrier inside, and returns before and behind it."""
        name = self.name("f")
        self.depth = 0
        self.emit("@mp.func", "")
        self.emit(f"def {name}(s, t, n, v, u):")
        self.depth = 1
        if self.chance(30):
            self.emit(f"if u % {2 + self.draw(3)} == 0:")
            self.emit(f"    return v + {self.draw(9)}")

        def at(where: str) -> tuple[str, str]:
            return f"mp.i32(s[({where}) % n])", f"int(s[({where}) % n])"

        self.emit(f"s[t] = mp.{array.dtype}(v % {BOUND})", f"s[t] = v % {BOUND}")
        self.barrier()
        kernel, model = at(self.pick(("t + 1", "n - 1 - t", "t * 3 + 1", "t + u")))
        self.emit(f"r = {kernel}", f"r = {model}")
        if self.chance(40):
            self.emit(f"for k in range({2 + self.draw(3)}):")
            kernel, model = at("t + k")
            self.emit(f"    r = (r * 3 + {kernel}) % {BOUND}", f"    r = (r * 3 + {model}) % {BOUND}")
            if self.chance(50):
                self.emit(f"    if r % {3 + self.draw(4)} == 1:")
                self.emit(f"        {self.pick(('return r', 'break', 'continue', 'r += 1'))}")
        if "return r" in self.kernel[-1] or self.chance(40):
            self.emit(f"if r % {2 + self.draw(3)} == 0:")
            self.emit(f"    return r + {self.draw(5)}")
            self.emit(f"if v > {self.draw(BOUND)}:")
            self.emit("    r += v")
        elif self.chance(40):
            self.barrier()
            self.emit(f"s[t] = mp.{array.dtype}((r + v) % {BOUND})", f"s[t] = (r + v) % {BOUND}")
            self.barrier()
            kernel, model = at("t + 2")
            self.emit(f"r = r + {kernel}", f"r = r + {model}")
        self.emit("return r")
        self.kernel += ["", ""]
        self.model += ["", ""]
        self.functions.append((name, array))

    # --- barriers and what they order --------------------------------------------------------------------------------
    def barrier(self) -> None:
        self.emit("mp.barrier()", "yield")
        self.state = dict.fromkeys(self.state, "idle")

    def may(self, array: str, access: str, uniform: bool) -> bool:
        """Whether the access is right here; puts a barrier before it where one is possible."""
        if self.state[array] not in _ALLOWED[access]:
            if not uniform or self.tail:
                return False
            self.barrier()
        self.state[array] = _AFTER.get(access, self.state[array])
        return True

    def forget(self) -> None:
        """Where paths meet: nothing is known."""
        self.state = dict.fromkeys(self.state, "dirty")

    # --- code that all items of a workgroup reach ------------------------------------------------------------------
    def block(self, scope: _Scope, most: int) -> None:
        before = len(self.kernel)
        known = len(scope.varying), len(scope.uniform)
        for _ in range(1 + self.draw(most)):
            if self.budget <= 0:
                break
            self.budget -= 1
            if self.tail:
                self.item(scope)
            else:
                self.statement(scope)
        if len(self.kernel) == before:
            self.assign(scope)
        del scope.varying[known[0] :], scope.uniform[known[1] :]

    def statement(self, scope: _Scope) -> None:
        kind = self.draw(21)
        if kind <= 1:
            self.item(scope)
        elif kind == 17:
            self.walk(scope)
        elif kind == 18:
            self.tile(scope)
        elif kind == 19:
            self.verb(scope)
        elif kind <= 4:
            self.exchange(scope)
        elif kind == 5:
            self.barrier()
        elif kind == 6:
            name = self.pick(scope.uniform)
            self.emit(f"{name} = {self.shared_value(scope, 2)} % {BOUND}")
        elif kind <= 8 and self.depth < 5:
            self.uniform_if(scope)
        elif kind <= 10 and self.depth < 5:
            self.uniform_loop(scope)
        elif kind == 11 and scope.loops:
            self.emit(f"if {self.uniform_condition(scope)}:")
            self.emit(f"    {self.pick(('break', 'continue'))}")
        elif kind == 12:
            self.part_ways(scope)
        elif kind == 13:
            self.broadcast(scope)
        elif kind == 14:
            self.count_up(scope, True)
        elif kind == 15 and self.functions:
            self.call(scope)
        elif kind == 16 and self.chance(30):
            self.emit(f"if {self.uniform_condition(scope)}:")
            self.emit(f"    out[i, 0] = {self.pick(scope.varying)} + 5000")
            self.emit("    return")
        else:
            self.reduce(scope)

    def exchange(self, scope: _Scope) -> None:
        """Write the own element, sometimes of some items only, and read somebody's."""
        a = self.pick(self.arrays)
        if self.chance(70):
            self.write(scope, a, True)
        if self.chance(80):
            self.read(scope, a, True)

    def write(self, scope: _Scope, a: _Array, uniform: bool) -> bool:
        if not self.may(a.name, "own_write", uniform):
            return False
        target = "scratch[i]" if a.name == "scratch" else a.own()
        pad = ""
        if uniform and self.chance(25):
            self.emit(f"if {self.condition(scope)}:")
            pad = "    "
        value = self.value(scope, 2)
        self.emit(f"{pad}{target} = mp.{a.dtype}(({value}) % {BOUND})", f"{pad}{target} = ({value}) % {BOUND}")
        return True

    def read(self, scope: _Scope, a: _Array, uniform: bool) -> bool:
        own = self.chance(20)
        if not self.may(a.name, "own_read" if own else "cross_read", uniform):
            return False
        name = self.pick(scope.varying)
        if own:
            place = "scratch[i]" if a.name == "scratch" else a.own()
        elif a.flat:
            where = self.pick(
                ("t + 1", "n - 1 - t", "t * 5 + 3", f"t + {self.place(scope)}", f"{self.place(scope)} * 3", "t ^ 1")
            )
            base = "g * n + " if a.name == "scratch" else ""
            place = f"{a.name}[{base}({where}) % n]"
        else:
            place = f"{a.name}[{self.pick(('nz - 1 - tz', 'tz'))}, {self.pick(('(ty + 1) % ny', 'ny - 1 - ty'))}, (tx + {self.place(scope)}) % nx]"
        op = self.pick(("=", "+=", "= 3 +"))
        old = {"=": "", "+=": f"{name} + ", "= 3 +": "3 + "}[op]
        self.emit(f"{name} = ({old}mp.i32({place})) % {BOUND}", f"{name} = ({old}int({place})) % {BOUND}")
        return True

    def broadcast(self, scope: _Scope) -> None:
        """A uniform value from shared memory, which then steers control flow."""
        a = self.pick(self.arrays)
        if not self.may(a.name, "cross_read", True):
            return
        name = self.pick(scope.uniform)
        u = self.pick([*scope.uniform, "n0"])
        base = "g * n + " if a.name == "scratch" else ""
        place = f"{a.name}[{base}({u}) % n]" if a.flat else f"{a.name}[0, 0, ({u}) % nx]"
        self.emit(f"{name} = mp.i32({place}) % {BOUND}", f"{name} = int({place}) % {BOUND}")

    def count_up(self, scope: _Scope, uniform: bool) -> None:
        """Atomics whose results are dropped, on shared or buffer memory."""
        kind, where = self.pick((("add", 0), ("max", 1), ("xor", 2), ("min", 3)))
        value = self.value(scope, 1)
        plain = {
            "add": "{0}[{1}] += {2}",
            "max": "{0}[{1}] = max({0}[{1}], {2})",
            "min": "{0}[{1}] = min({0}[{1}], {2})",
            "xor": "{0}[{1}] ^= {2}",
        }[kind]
        array = self.pick(("total", "tally"))
        if array == "tally" and not self.may("tally", "atomic", uniform):
            array = "total"
        value = f"(({value}) % {BOUND})"
        self.emit(f"mp.atomic_{kind}({array}, {where}, mp.i32({value}))", plain.format(array, where, value))
        if array == "tally" and uniform and self.chance(60) and self.may("tally", "cross_read", True):
            name = self.pick([*scope.varying, *scope.uniform])
            self.emit(f"{name} = tally[{where}] % {BOUND}", f"{name} = int(tally[{where}]) % {BOUND}")

    def reduce(self, scope: _Scope) -> None:
        """A tree over the workgroup, with a barrier a level."""
        flat = [a for a in self.arrays[:-1] if a.flat and a.dtype not in ("u8", "i16", "f16")]
        if not flat:
            self.item(scope)
            return
        a = self.pick(flat)
        if not self.may(a.name, "own_write", True):
            return
        m, half, name = self.name("m"), self.name("h"), self.pick(scope.varying)
        mine = self.pick(scope.varying)
        self.emit(f"{a.own()} = mp.{a.dtype}({mine})", f"{a.own()} = {mine}")
        self.emit(f"{m} = n")
        self.emit(f"while {m} > 1:")
        self.emit(f"    {half} = ({m} + 1) // 2")
        self.emit("    mp.barrier()", "    yield")
        self.emit(f"    if t < {m} - {half}:")
        what = self.pick(("+", "max"))
        one, two = f"{a.name}[t]", f"{a.name}[t + {half}]"
        self.emit(f"        {one} = {f'{one} + {two}' if what == '+' else f'max({one}, {two})'}")
        self.emit(f"    {m} = {half}")
        self.barrier()
        target = name if self.chance(50) else self.pick(scope.uniform)
        self.emit(f"{target} = mp.i32({a.name}[0]) % {BOUND}", f"{target} = int({a.name}[0]) % {BOUND}")
        self.state[a.name] = "read"

    def walk(self, scope: _Scope) -> None:
        """A loop over the input in strides of the workgroup, of the launch or of a constant."""
        k, name = self.name("j"), self.pick(scope.varying)
        start, step = self.pick(
            (("t", "n"), ("t", "n"), ("i", "n * groups"), ("tx", "nx"), ("t % 8", "8"), ("t * 2", "n * 2"))
        )
        if self.chance(40):
            self.emit(f"for {k} in range({start}, {LENGTH}, {step}):")
        else:
            self.emit(f"{k} = {start}")
            self.emit(f"while {k} < {LENGTH}:")
        looped = self.kernel[-1].lstrip().startswith("for")
        pad = "    "
        if self.chance(25):
            self.emit(f"{pad}if x[{k}] % {2 + self.draw(4)} != 1:")
            pad += "    "
        more = self.pick(
            (f"mp.i32(x[{k}])", f"mp.i32(x[{k}]) * 2 + mp.i32(x[({k} + 1) % {LENGTH}])", f"max(mp.i32(x[{k}]), {name})")
        )
        if self.chance(35):
            kind, where = self.pick((("add", "0"), ("add", f"mp.i32(x[{k}]) % {COUNTERS}")))
            array = "tally" if self.state["tally"] in _ALLOWED["atomic"] else "total"
            if array == "tally":
                self.state["tally"] = "atomic"
            where = "0" if array == "total" else where
            self.emit(f"{pad}mp.atomic_{kind}({array}, {where}, {more} % 5)", f"{pad}{array}[{where}] += {more} % 5")
        self.emit(f"{pad}{name} = ({name} + {more}) % {BOUND}")
        if not looped:
            self.emit(f"    {k} += {step}")

    def tile(self, scope: _Scope) -> None:
        """A sum over a row of shared memory, at addresses that lanes share or that lie side by side."""
        a = self.pick([a for a in self.arrays if a.flat])
        if a.name == "scratch" or not self.may(a.name, "cross_read", True):
            self.item(scope)
            return
        k, name = self.name("j"), self.pick(scope.varying)
        where = self.pick(
            ("t // 4 * 4 + {k}", "{k} * 4 + t % 4", "t * 2 + {k}", "{k}", "t + {k} * nx", "t * 3 + {k} * 5")
        ).format(k=k)
        self.emit(f"for {k} in range({self.pick(('4', '8', 'n0 + 1'))}):")
        factor = 1 + self.draw(3)
        place = f"{a.name}[({where}) % n]"
        self.emit(
            f"    {name} = ({name} + mp.i32({place}) * {factor}) % {BOUND}",
            f"    {name} = ({name} + int({place}) * {factor}) % {BOUND}",
        )

    def verb(self, scope: _Scope) -> None:
        """An operation of the library among all work-items; it holds barriers."""
        verb = self.pick(("sum", "max", "min", "scan", "exclusive", "broadcast"))
        value = self.value(scope, 1)
        names = scope.varying if verb in ("scan", "exclusive") else [*scope.varying, *scope.uniform]
        name = self.pick(names)
        more = {"exclusive": ", exclusive=True", "broadcast": f", {self.pick(scope.uniform)} % n"}.get(verb, "")
        call = f"mp.workgroup.{'scan' if verb == 'exclusive' else verb}({value}{more})"
        at = more.removeprefix(", ") if verb == "broadcast" else "0"
        self.emit(f"{name} = {call} % {BOUND}", f"{name} = (yield from w.verb({verb!r}, t, {value}, {at})) % {BOUND}")
        self.state = dict.fromkeys(self.state, "idle")

    def call(self, scope: _Scope) -> None:
        name, a = self.pick(self.functions)
        if not self.may(a.name, "own_write", True):
            return
        target, value, u = self.pick(scope.varying), self.pick(scope.varying), self.pick([*scope.uniform, "n0"])
        call = f"{name}({a.name}, t, n, {value}, {u})"
        self.emit(f"{target} = {call} % {BOUND}", f"{target} = (yield from {call}) % {BOUND}")
        self.forget()

    def uniform_if(self, scope: _Scope) -> None:
        self.emit(f"if {self.uniform_condition(scope)}:")
        before, tail = dict(self.state), self.tail
        self.inside(scope)
        then, parted = self.state, self.tail
        self.state, self.tail = before, tail
        if self.chance(40):
            self.emit("else:")
            self.inside(scope)
        self.state = {k: v if self.state[k] == v else "dirty" for k, v in then.items()}
        self.tail |= parted

    def uniform_loop(self, scope: _Scope) -> None:
        if self.chance(65):
            k = self.name("k")
            self.emit(f"for {k} in range({self.pick(('2', '3', 'n0', 'n1 + 1', '1, 4', '4, 0, -2', f'{self.pick(scope.uniform)} % 4'))}):")
        else:
            k = self.name("k")
            self.emit(f"{k} = 0")
            self.emit(
                f"while {k} < {1 + self.draw(3)}"
                + (f" and {self.uniform_condition(scope)}:" if self.chance(40) else ":")
            )
            self.emit(f"    {k} += 1")
        self.forget()
        scope.counters.append(k)
        scope.loops += 1
        tail = self.tail
        self.inside(scope)
        self.tail = tail
        scope.loops -= 1
        scope.counters.pop()
        self.forget()

    def inside(self, scope: _Scope) -> None:
        self.depth += 1
        self.block(scope, 4)
        self.depth -= 1

    def part_ways(self, scope: _Scope) -> None:
        """Some items go on to the next trip, or return from the kernel: from here on no barrier may follow."""
        self.emit(f"if {self.condition(scope)}:")
        self.depth += 1
        if self.chance(50):
            self.assign(scope)
        if self.chance(25):
            self.emit(f"if {self.condition(scope)}:")
            self.depth += 1
            self.leave(scope)
            self.depth -= 1
            self.assign(scope)
        else:
            self.leave(scope)
        self.depth -= 1
        self.tail = True

    def leave(self, scope: _Scope) -> None:
        if scope.loops:
            self.emit("continue")
        else:
            self.emit(f"out[i, 1] = {self.pick(scope.varying)} + 9000")
            self.emit("return")

    # --- code of one item ------------------------------------------------------------------------------------------
    def item(self, scope: _Scope) -> None:
        kind = self.draw(13)
        if kind <= 3:
            self.assign(scope)
        elif kind == 12:
            self.walk(scope)
        elif kind <= 5 and self.depth < 6:
            self.emit(f"if {self.condition(scope)}:")
            self.items(scope)
            if self.chance(40):
                self.emit("else:")
                self.items(scope)
        elif kind == 6 and self.depth < 6:
            self.item_loop(scope)
        elif kind == 7:
            if not self.write(scope, self.pick(self.arrays), False):
                self.assign(scope)
        elif kind == 8:
            if not self.read(scope, self.pick(self.arrays), False):
                self.assign(scope)
        elif kind == 9:
            self.count_up(scope, False)
        elif kind == 10 and scope.inner:
            self.emit(f"if {self.condition(scope)}:")
            self.emit(f"    {self.pick(('break', 'continue'))}")
        elif self.subgroups:
            self.subgroup(scope)
        else:
            self.emit(f"a[({self.place(scope)}) % {LOCAL}] = ({self.value(scope, 1)}) % {BOUND}")

    def items(self, scope: _Scope) -> None:
        """A block below a branch on the item; what it did to arrays counts whether or not it ran."""
        self.depth += 1
        for _ in range(1 + self.draw(2)):
            self.item(scope)
        self.depth -= 1

    def item_loop(self, scope: _Scope) -> None:
        k = self.name("j")
        if self.chance(50):
            self.emit(
                f"for {k} in range({self.pick(('3', f'{self.pick(scope.varying)} % 4', 'n0', f'{self.pick(scope.varying)} % 3, 5, 2'))}):"
            )
        else:
            self.emit(f"{k} = 0")
            self.emit(f"while {k} < {1 + self.draw(4)} and {self.condition(scope)}:")
            self.emit(f"    {k} += 1")
        scope.private.append(k)
        scope.inner += 1
        self.items(scope)
        scope.inner -= 1
        scope.private.pop()

    def assign(self, scope: _Scope) -> None:
        self.emit(f"{self.pick(scope.varying)} = ({self.value(scope, 2)}) % {BOUND}")

    def subgroup(self, scope: _Scope) -> None:
        name, value, condition = self.pick(scope.varying), self.value(scope, 1), self.condition(scope)
        call = self.pick(
            (
                f"mp.subgroup.sum({value})",
                f"mp.subgroup.max({value})",
                f"mp.subgroup.min({value})",
                f"mp.subgroup.scan({value})",
                f"mp.subgroup.scan({value}, 'max')",
                f"mp.i32(mp.subgroup.ballot_count({condition}))",
                f"mp.i32(mp.subgroup.ballot_rank({condition}))",
                f"({name} if mp.subgroup.any({condition}) else 3)",
                f"({name} if mp.subgroup.all({condition}) else 4)",
                "mp.i32(mp.subgroup.lane())",
                "mp.i32(mp.subgroup.id())",
            )
        )
        self.emit(f"{name} = {call} % {BOUND}")

    # --- expressions: at least zero, and far below 2^31 ----------------------------------------------------------------
    def leaf(self, scope: _Scope) -> str:
        names = [*scope.varying, *scope.uniform, "n0", "n1"]
        choice = self.draw(8)
        if choice <= 3:
            return self.pick(names)
        if choice == 4:
            return f"mp.i32(x[({self.place(scope)}) % {LENGTH}])"
        if choice == 5:
            return f"mp.i32({self.pick(('t', 'tx', 'ty', 'g', 'n', *scope.counters, *scope.private))}) % 89"
        if choice == 6:
            return f"a[({self.place(scope)}) % {LOCAL}]"
        return str(self.draw(50))

    def place(self, scope: _Scope) -> str:
        return self.pick(
            ("t", "i", "tx", *scope.varying, *scope.uniform, *scope.counters, *scope.private, str(self.draw(9)))
        )

    def value(self, scope: _Scope, depth: int) -> str:
        if depth <= 0:
            return self.leaf(scope)
        one, two = self.value(scope, depth - 1), self.value(scope, depth - 1)
        choice = self.draw(9)
        if choice == 0:
            return one
        if choice == 1:
            return f"({one} if {self.condition(scope)} else {two})"
        if choice == 2:
            return f"{self.pick(('min', 'max'))}({one}, {two})"
        if choice == 3:
            return f"({one} // {1 + self.draw(7)})"
        if choice == 4:
            return f"({one} % {2 + self.draw(30)})"
        if choice == 5:
            return f"({one} {self.pick(('^', '|', '&'))} {two})"
        return f"({one} {self.pick(('+', '+', '*'))} ({two}) % 89)"

    def shared_value(self, scope: _Scope, depth: int) -> str:
        """The same for the whole workgroup."""
        options = [
            "n0",
            "n1",
            "mp.i32(g)",
            "mp.i32(n)",
            *scope.uniform,
            *(f"mp.i32({k})" for k in scope.counters),
            str(self.draw(30)),
        ]
        if depth <= 0:
            return self.pick(options)
        one, two = self.shared_value(scope, depth - 1), self.shared_value(scope, depth - 1)
        choice = self.draw(6)
        if choice == 0:
            return f"mp.i32(x[({one}) % {LENGTH}])"
        if choice == 1:
            return f"({one} if {self.uniform_condition(scope)} else {two})"
        return f"({one} {self.pick(('+', '*', '^', '|'))} ({two}) % 89)"

    def condition(self, scope: _Scope) -> str:
        one = self.leaf(scope)
        kind = self.draw(4)
        if kind == 0:
            return f"{one} % {2 + self.draw(4)} == {self.draw(3)}"
        if kind == 1:
            return f"t {self.pick(('<', '>='))} n // {1 + self.draw(4)}"
        if kind == 2:
            return f"{one} {self.pick(('<', '>', '!='))} {self.leaf(scope)}"
        return f"({one} > {self.draw(60)} {self.pick(('and', 'or'))} {self.leaf(scope)} % 3 != 1)"

    def uniform_condition(self, scope: _Scope) -> str:
        one = self.pick([*scope.uniform, "n0", "n1", *scope.counters])
        return self.pick(
            (f"{one} % {2 + self.draw(3)} == {self.draw(2)}", f"{one} > {self.draw(5)}", f"{one} != {self.draw(3)}")
        )
