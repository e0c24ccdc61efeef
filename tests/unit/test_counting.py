"""Loops of MPIR that count: which get the hint, and that they still make the trips that the text says."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.ir.nodes import Kernel, walk

TEMPLATE = """module t
gpu fn @k(%out: gpu.TBuffer<{type}>, %first: {type}, %stop: {type}) -> unit target(spv) workgroup(1, 1, 1) {{
bb0:
    br bb1
bb1:
    %i: {type} = phi {type} {{ [bb0: %first], [bb2: %next] }}
    %sum: {type} = phi {type} {{ [bb0: const.{type} 0], [bb2: %more] }}
    %in: bool = icmp.{compare} {{ a=%i, b={stop} }}
    cbr %in bb2 bb3
bb2:
    {leave}
    %next: {type} = i.add {{ a=%i, b=const.{type} {step} }}
    %mixed: {type} = i.mul {{ a=%sum, b=const.{type} 3 }}
    %more: {type} = i.add {{ a=%mixed, b=%i }}
    br bb1
bb3:
    gpu.buffer_store<{type}> {{ buf=%out, idx=const.u32 0, v=%sum }}
    gpu.buffer_store<{type}> {{ buf=%out, idx=const.u32 1, v=%i }}
    ret
}}
"""


def text(type_: str, step: int = 1, compare: str = "", stop: str = "%stop") -> str:
    compare = compare or ("ult" if type_[0] == "u" else "slt")
    return TEMPLATE.format(type=type_, step=step, compare=compare, stop=stop, leave="")


def kernel(source: str) -> Kernel:
    found = check_source(Source(source, "t.mp"))
    assert found.module is not None, list(map(str, found.diagnostics))
    return found.kernels["k"]


def counts(source: str) -> bool:
    (loop,) = (n for n in walk(kernel(source).body) if n.op == "loop")
    return loop.attrs.get("counted") is not None


def expected(type_: str, first: int, stop: int, step: int, compare: str) -> list[int]:
    """What the text says, on Python's integers cut to the type."""
    bits = int(type_[1:])

    def cut(x: int, signed: bool) -> int:
        x &= (1 << bits) - 1
        return x - (1 << bits) if signed and x >> (bits - 1) else x

    own = type_[0] == "i"
    i, total = first, 0
    while cut(i, compare[0] == "s") < cut(stop, compare[0] == "s"):
        total = cut(total * 3 + i, own)
        i = cut(i + step, own)
    return [total, i]


CASES = [
    *(("u32", f, s, 1) for f, s in [(0, 0), (0, 7), (5, 3), (2**32 - 3, 2**32 - 1), (2**31 - 2, 2**31 + 3)]),
    *(("i32", f, s, 1) for f, s in [(-4, 5), (3, -3), (2**31 - 4, 2**31 - 1), (-(2**31), -(2**31) + 3)]),
    *(("i64", f, s, 1) for f, s in [(-2, 4), (2**63 - 5, 2**63 - 1), (-(2**63), -(2**63) + 2)]),
    *(("u8", f, s, 1) for f, s in [(0, 255), (250, 255), (9, 1)]),
    *(("i16", f, s, 1) for f, s in [(-7, 7), (32760, 32767)]),
]


def _short(type_: str, first: int, stop: int, compare: str) -> bool:
    """Whether a case makes few enough trips for a test, compared the other way too."""
    bits, signed = int(type_[1:]), compare[0] == "s"

    def cut(x: int) -> int:
        x &= (1 << bits) - 1
        return x - (1 << bits) if signed and x >> (bits - 1) else x

    return cut(stop) - cut(first) <= 70_000


RUNS = [(*case, compare) for case in CASES for compare in ("slt", "ult") if _short(*case[:3], compare)]


@pytest.mark.parametrize(("type_", "first", "stop", "step", "compare"), RUNS)
@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_trips(type_, first, stop, step, compare, backend, tmp_path):
    path = tmp_path / "t.mp"
    path.write_text(text(type_, step, compare))
    module = mp.load_module(path)
    dtype = np.dtype({"u": "uint", "i": "int"}[type_[0]] + type_[1:])
    out = np.zeros(2, dtype)
    module.k.launch(grid=1, args=(out, dtype.type(first), dtype.type(stop)), device=backend)
    assert out.tolist() == expected(type_, first, stop, step, compare)


def test_which_loops_count():
    assert counts(text("u32")) and counts(text("i32")) and counts(text("i64")) and counts(text("u8"))
    assert counts(text("u32", compare="slt")) and counts(text("i64", compare="slt", stop="const.i64 100"))
    assert counts(text("u32", 4, stop="const.u32 4294967292"))
    # it would begin again at 1 where the text stops, or the other way round
    assert not counts(text("u32", 4, stop="const.u32 4294967293"))
    assert not counts(text("u32", 4)) and not counts(text("u64")) and not counts(text("i32", -1))
    assert not counts(text("u32", compare="ule")) and not counts(text("u32", compare="ne"))


def test_variables_of_a_counted_loop_are_read_behind_it():
    """The sum has one slot: a copy for what stands behind the loop would keep the loop from being unrolled."""
    found = kernel(text("u32").replace("    gpu.buffer_store<u32> { buf=%out, idx=const.u32 1, v=%i }\n", ""))
    assert {n.attrs["slot"].name for n in walk(found.body) if n.op == "slot_set"} == {"i", "sum"}
