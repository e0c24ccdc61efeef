"""Random integer kernels of Python that fit tiny-gpu: each work-item writes its own row, and every loop ends."""

from __future__ import annotations

import importlib.util
import random
import sys

COLUMNS = 4


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.names = {"i32": ["n"], "u32": [], "bool": []}
        self.frozen = {"n"}
        self.loops = 0
        self.fresh = 0
        self.budget = self.rng.randrange(6, 16)

    def emit(self, depth, text):
        self.lines.append("    " * depth + text)

    def value(self, t, depth=0):
        """An expression of type i32, u32 or bool."""
        rng = self.rng
        names = self.names[t]
        if depth > 2 or rng.random() < 0.3:
            if names and rng.random() < 0.75:
                return rng.choice(names)
            if t == "bool":
                return rng.choice(["(n > 2)", "(n == 3)", "(i < 5)"])
            number = (
                rng.choice([0, 1, 2, 3, 7, -1, -5, 100, 2**31 - 1, -(2**31)])
                if t == "i32"
                else rng.choice([0, 1, 5, 2**31, 2**32 - 1])
            )
            return f"mp.{t}({number})"

        def a(u=t):
            return self.value(u, depth + 1)

        if t == "bool":
            u = rng.choice(["i32", "i32", "u32"])
            return rng.choice(
                [
                    f"({a(u)} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {a(u)})",
                    f"({a(u)} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {a(u)})",
                    f"({a()} and {a()})", f"({a()} or {a()})", f"(not {a()})", f"({a()} {rng.choice('&|^')} {a()})",
                    f"(mp.i32(i) {rng.choice(['<', '>='])} n)",
                ]
            )  # fmt: skip
        choices = [
            f"({a()} {rng.choice('+-*')} {a()})", f"({a()} {rng.choice('+-*')} {a()})", f"min({a()}, {a()})", f"max({a()}, {a()})",
            f"({a()} if {self.value('bool', depth + 1)} else {a()})", f"mp.select({self.value('bool', depth + 1)}, {a()}, {a()})",
            f"({a()} << {rng.randrange(4)})", f"(~{a()})",
        ]  # fmt: skip
        if t == "i32":
            choices += [
                f"abs({a()})",
                f"(-{a()})",
                f"mp.i32({self.value('bool', depth + 1)})",
                f"mp.i32({self.value('u32', depth + 1)})",
            ]
            choices += [
                f"x[i, {rng.randrange(COLUMNS)}]",
                f"mp.i32(b[i, {rng.randrange(COLUMNS)}])",
                "mp.i32(i)",
                "(n // 3)",
                "(n % 5 - x.shape[0] // 2)",
            ]
            choices += [f"y[i, {rng.randrange(COLUMNS)}]"]
        else:
            choices += [f"mp.u32({self.value('i32', depth + 1)})"]
        return rng.choice(choices)

    def condition(self):
        return self.value("bool", 1)

    def new(self, depth, t):
        self.fresh += 1
        name = f"{t[0]}{self.fresh}"
        self.emit(depth, f"{name} = {self.value(t)}")
        self.names[t].append(name)

    def block(self, depth):
        rng = self.rng
        for _ in range(rng.randrange(1, 5)):
            self.budget -= 1
            what = rng.randrange(12) if self.budget > 0 and depth < 5 else 0
            writable = [(t, n) for t, names in self.names.items() for n in names if n not in self.frozen]
            if what < 3 and writable:
                t, name = rng.choice(writable)
                self.emit(depth, f"{name} = {self.value(t)}")
            elif what == 3 and len(self.names["i32"]) > 2:
                a, b = rng.sample([n for n in self.names["i32"] if n not in self.frozen] * 2, 2)
                self.emit(depth, f"{a}, {b} = {b}, {a} + {self.value('i32', 2)}")
            elif what == 4:
                self.emit(depth, f"y[i, {rng.randrange(COLUMNS)}] = {self.value('i32')}")
            elif what == 5:
                self.emit(depth, f"c[i, {rng.randrange(COLUMNS)}] = mp.i8(min(max({self.value('i32')}, -128), 127))")
            elif what < 9:
                self.emit(depth, f"if {self.condition()}:")
                self.inner(depth + 1)
                if rng.random() < 0.5:
                    self.emit(depth, "else:")
                    self.inner(depth + 1)
            elif what < 11:
                self.fresh += 1
                k = f"k{self.fresh}"
                self.emit(
                    depth,
                    f"for {k} in range({rng.choice(['3', '2', 'n', 'mp.i32(i) + 1', '1, 6, 2', '5, i, -2', 'i, n', 'n, 0, -1'])}):",
                )
                self.loops += 1
                use = f"v{self.fresh}"
                self.emit(depth + 1, f"{use} = mp.i32({k})")
                self.names["i32"].append(use)
                self.inner(depth + 1)
                self.names["i32"].remove(use)
                self.loops -= 1
            else:
                self.fresh += 1
                w = f"w{self.fresh}"
                self.emit(depth, f"{w} = mp.i32({rng.randrange(4)})")
                self.emit(depth, f"while {w} < 5 and {self.condition()}:")
                self.emit(depth + 1, f"{w} += 1")
                self.loops += 1
                self.inner(depth + 1)
                self.loops -= 1

    def inner(self, depth):
        kept = {t: list(names) for t, names in self.names.items()}
        self.block(depth)
        if self.loops and self.rng.random() < 0.3:
            self.emit(depth, f"if {self.condition()}:")
            self.emit(depth + 1, self.rng.choice(["break", "continue"]))
        elif self.rng.random() < 0.05:
            self.emit(depth, "return")
        self.names = kept

    def kernel(self):
        self.emit(0, "import magpie as mp")
        self.emit(0, "@mp.kernel")
        arrays = "x: mp.Array[mp.i32, 2], b: mp.Array[mp.i8, 2], y: mp.Array[mp.i32, 2], c: mp.Array[mp.i8, 2]"
        self.emit(0, f"def kernel({arrays}, n: mp.i32):")
        self.emit(1, "i = mp.global_id(0)")
        shared = self.rng.random() < 0.4
        if shared:
            self.emit(1, "s = mp.shared(8, mp.i32)")
            self.emit(1, "t = mp.thread_id(0)")
        for t in ("i32", "i32", "u32", "bool"):
            self.new(1, t)
        for _ in range(self.rng.randrange(1, 3)):
            if shared and not any(line.strip() == "return" for line in self.lines):
                self.emit(1, f"s[t] = {self.value('i32')}")
                self.emit(1, "mp.barrier()")
                self.names["i32"].append("s[mp.workgroup_size(0) - 1 - t]")
                self.frozen.add("s[mp.workgroup_size(0) - 1 - t]")
                self.new(1, "i32")
                self.names["i32"].remove("s[mp.workgroup_size(0) - 1 - t]")
                self.emit(1, "mp.barrier()")
            self.block(1)
        for column, t in enumerate(("i32", "i32", "u32", "bool")):
            writable = [n for n in self.names[t] if n not in self.frozen]
            self.emit(1, f"y[i, {column}] = y[i, {column}] * 3 + mp.i32({self.rng.choice(writable)})")
        return "\n".join(self.lines) + "\n"


def random_kernel(seed, folder):
    """A kernel of `x`, `b` (inputs of i32 and i8), `y`, `c` (both written), each with a row a work-item, and `n`."""
    name = f"tgpu_random_{seed}"
    file = folder / f"{name}.py"
    file.write_text(_Maker(seed).kernel())
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module.kernel
