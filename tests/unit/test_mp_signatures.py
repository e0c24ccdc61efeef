"""The table of what host programs call: its rows can be read, and name types and enums that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from magpie.frontend.mp.module import lower_module
from magpie.frontend.mp.names import Names
from magpie.frontend.mp.parser import parse
from magpie.frontend.mp.source import Source
from magpie.mpir.nodes import Const, Var
from magpie.mpir.prelude import ENUMS, HANDLES, STRUCTS
from magpie.mpir.signatures import CLASSES, MODULES, NAMES, functions_of, signature
from magpie.mpir.types import TYPE_IDS, Ty

ROOT = Path(__file__).parents[2]
WORDS = {"kernel", "sizes", "list", "cpu", "word", "field", "fields", "struct", "params", "result", "TCallable", "..."}


def names_in(type_: Ty) -> set[str]:
    return {type_.name}.union(*map(names_in, type_.args)) if type_.args else {type_.name}


@pytest.mark.parametrize("name", NAMES)
def test_rows(name):
    row = signature(name)
    assert row is not None and row.name == name and row.doc and row.text.startswith(name)
    known = {"Array", "Map", "Str", "unit", "fn", "maybe", *TYPE_IDS, *ENUMS, *HANDLES, *STRUCTS, *CLASSES, *WORDS}
    used = names_in(row.result).union(*(names_in(p.type) for p in (*row.operands, *filter(None, [row.rest]))))
    assert used <= known | {param for param, _ in row.params}
    assert {cls for _, cls in row.params} <= CLASSES
    keys = [k for p in row.operands for k in (p.name, p.other) if k]
    assert len(keys) == len(set(keys))


def test_the_specification_has_these():
    """Signatures as the specification writes them, sections 8.3, 9.3 and 11.3."""
    for name, wanted in {
        "gpu.host.@buffer_copy": "(src: borrow gpu.TBuffer<T>, dst: borrow gpu.TBuffer<T>) -> TResult<unit, gpu.TError>",
        "mlx.array.@argmax": "(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<i32>, gpu.TError>",
        "gpu.profile.@end": "(session: gpu.TProfileSession) -> TResult<Array<gpu.TProfileEvent>, gpu.TError>",
        "mlx.random.@seed": "(s: u64) -> unit",
    }.items():
        row = signature(name)
        assert row is not None and re.sub(r"^[^(]*", "", row.text) == wanted


def test_modules():
    assert {"std.io", "std.math", "gpu.host", "gpu.profile", "mlx.array", "mlx.fft"} <= set(MODULES)
    assert functions_of("mlx.linalg") == ["matmul", "norm", "inv", "svd", "solve"]
    assert functions_of("std.oi") == [] and signature("arr.lenn") is None


def test_the_page_is_made_from_the_table():
    made = runpy.run_path(str(ROOT / "tools" / "gen_docs.py"), run_name="gen_docs")["PAGES"]["MP_LIBRARY.md"]()
    assert (ROOT / "docs" / "MP_LIBRARY.md").read_text(encoding="utf-8") == made, "run `make docs`"
    assert all(f"`{signature(name).text}`" in made for name in NAMES)


def lowered(body):
    text = (
        f"module t\nimports {{ std.io::{{@println}} }}\nfn @main() -> i64 {{\nbb0:\n{body}\n    ret const.i64 0\n}}\n"
    )
    names = Names(parse(Source(text, "t.mp")).module, Source(text, "t.mp"))
    return lower_module(names).functions[0].blocks[0].instrs, [d.code for d in names.found]


def test_operands_have_the_names_of_the_table():
    x = Const(Ty("Str"), "x")
    for body, wanted in (
        ('%s: Str = str.concat { lhs=const.Str "x", rhs="x" }', {"a": x, "b": x}),
        ('%s: Str = str.concat { a="x", b="x" }', {"a": x, "b": x}),
        ('call_void @println { args=["x"] }', {"text": x}),
        ('call_void std.io.@println { args=["x"] }', {"text": x}),
        ('%r: TResult<Str, TIoError> = call std.io.@read_file { args=["x"] }', {"path": x}),
        ("%y: f64 = std.math.@atan2 { args=[const.f64 1.0, const.f64 2.0] }",
         {"y": Const(Ty("f64"), 1.0), "x": Const(Ty("f64"), 2.0)}),
    ):  # fmt: skip
        (instr, *_), codes = lowered(body)
        assert instr.args == wanted and not codes, body
    _, codes = lowered('call_void @println { args=["x", "x"] }')
    assert codes == ["MPT0004"]
    instrs, codes = lowered('%t: Str = try std.io.@read_file { args=["x"] }')
    assert instrs[0].args == {"path": x} and instrs[1].args == {"v": Var(instrs[0].result)} and not codes
