"""Each row of the table of what host programs call: a call with its types is right, and each other one is an error."""

from __future__ import annotations

import pytest

from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.mpir.signatures import NAMES, signature

pytestmark = pytest.mark.filterwarnings("error")


def errors(text):
    return [(d.code, d.loc.line) for d in check_source(Source(text, "t.mp")).diagnostics]


#: A type of each class, and one that is not in it.
OF_CLASS = {"any": "i32", "int": "i64", "real": "f64", "num": "u8", "scalar": "bool", "text": "Str", "equal": "Str"}
OF_CLASS |= {"ordered": "f32", "element": "f32", "key": "Str", "enum": "TOption<i32>"}
#: Rows with rules of their own, which LINES shows.
SPECIAL = ("enum.", "setfield", "callable.", "call.", "gpu.launch", "gpu.profile.@launch_profiled")


class Program:
    """The program that calls one row with values of the types that it takes."""

    def __init__(self, name):
        self.row = signature(name)
        self.types = {p: OF_CLASS[cls] for p, cls in self.row.params}
        if name.startswith("mlx."):
            self.types = {p: "i32" if p == "I" else "f32" for p in self.types}
        self.sigs = {}

    def text_of(self, type_):
        if type_.name == "fn":
            *params, ret = (self.text_of(a) for a in type_.args if a.name != "...")
            shown = f"({', '.join(params)}) -> {ret}"
            return f"TCallable<{self.sigs.setdefault(shown, f'TSig{len(self.sigs)}')}>"
        if type_.name == "maybe":
            return self.text_of(type_.args[0])
        name = self.types.get(type_.name) or OF_CLASS.get(type_.name, type_.name)
        inner = f"<{', '.join(map(self.text_of, type_.args))}>" if type_.args else ""
        return f"{'weak ' if type_.mode == 'weak' else ''}{name}{inner}"

    def operands(self):
        found = {p.name: self.text_of(p.type) for p in self.row.operands}
        if self.row.rest is not None:
            found |= {"v0": self.text_of(self.row.rest.type), "v1": self.text_of(self.row.rest.type)}
        return found

    def text(self, operands, result=None):
        result = result or self.text_of(self.row.result)
        params = ", ".join(f"%{k}: {t}" for k, t in operands.items())
        sigs = "".join(f"sig {name}{shown}\n" for shown, name in self.sigs.items())
        call = f"call {self.row.name}" if "@" in self.row.name else self.row.name
        given = ", ".join(f"{k}=%{k}" for k in operands)
        return f"module t\nfn @f({params}) -> unit {{\nbb0:\n%out_: {result} = {call} {{ {given} }}\nret\n}}\n{sigs}"


ROWS = [name for name in NAMES if not name.startswith(SPECIAL)]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_takes_its_types_and_no_others(name):
    program = Program(name)
    operands = program.operands()
    assert errors(program.text(operands)) == []
    for key in operands:
        rest = {k: t for k, t in operands.items() if k != key}
        optional = any(p.name == key and p.optional for p in program.row.operands) or key == "v1"
        assert errors(program.text(rest)) == ([] if optional else [("MPS0001", 4)])
        wrong = {**operands, key: "gpu.TFence" if operands[key] != "gpu.TFence" else "gpu.TDevice"}
        free = name in ("retain", "release")  # of any type
        assert errors(program.text(wrong)) in ([] if free else [("MPS0004", 4)], [] if free else [("MPT0014", 4)])
    assert [code for code, _ in errors(program.text({**operands, "more": "i32"}))] == ["MPS0001"]
    assert [code for code, _ in errors(program.text(operands, "gpu.TFence"))] == ["MPS0004"]


def test_type_parameters_have_their_classes():
    """A type outside of its class is refused where it stands alone."""
    refused = {"int": "f32", "real": "i32", "num": "bool", "scalar": "Str", "text": "Array<i32>", "equal": "Array<i32>"}
    refused |= {"ordered": "bool", "element": "Str", "key": "f64", "enum": "i32"}
    seen = set()
    for name in ROWS:
        program = Program(name)
        for param, cls in program.row.params:
            if cls != "any" and not name.startswith("mlx."):
                seen.add(cls)
                other = Program(name)
                other.types[param] = refused[cls]
                found = errors(other.text(other.operands()))  # a Map<f64, V> stands in the head of the function
                assert found in ([("MPT0014", 4)], [("MPT0014", 2)] if cls == "key" else []), name
    assert seen >= {"real", "num", "scalar", "text", "equal", "ordered", "element", "key"}
