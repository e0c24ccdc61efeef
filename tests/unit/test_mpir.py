"""MPIR: its text, the verifier's rules, and what each operation computes in a kernel."""

from __future__ import annotations

import re
from pathlib import Path

import mpir_tools as tools
import numpy as np
import pytest

from magpie import CompileError
from magpie.backends.interp.engine import Program
from magpie.cli.app import app
from magpie.diagnostics import lookup
from magpie.dtypes import by_name
from magpie.frontend.mp import read
from magpie.frontend.mp.kernels import check_source
from magpie.mpir import lower_kernel, parse_module, print_module, verify
from magpie.mpir.nodes import Const, Instr, Module
from magpie.mpir.ops import OPS
from magpie.mpir.types import TYPE_IDS, Ty, sid_hash

EXAMPLES = Path(__file__).parents[2] / "examples" / "mp"
EVERYTHING = """mpir shop.prices "shop.mp"
struct TPoint { x: f32, y: f32 }
heap struct TBox { inner: TPoint, name: Str }

fn @scale(%p: borrow TPoint, %by: f32) -> f32 { !3:1
bb0:
  %x: f32 = getfield { obj=%p, field=x } !4:3
  %y: f32 = f.mul { lhs=%x, rhs=%by } !5:3
  ret %y !6:3
}

unsafe gpu fn @k(%out: gpu.TBuffer<f32>, %n: u32) -> unit target(ptx) workgroup(8, 4, 1) requires(device_malloc) { !9:1
bb0:
  %g: u32 = gpu.global_id { dim=const.u32 0 } !10:3
  %s: ptr = gpu.shared<256, f32> {} !11:3
  %big: f64 = const { v=const.f64 1e+300 } !12:3
  %odd: f32 = const { v=const.f32 nan } !13:3
  %neg: f32 = const { v=const.f32 -inf } !13:3
  %t: bool = const { v=const.bool true } !14:3
  cbr %t bb_go bb_end !15:3
bb_go:
  %p: TPoint = new<TPoint> { x=const.f32 -1.5, y=const.f32 2.0 } !16:3
  %r: f32 = call @scale { p=%p, by=const.f32 3.0 } !17:3
  gpu.buffer_store<f32> { buf=%out, idx=%g, v=%r } !18:3
  switch %g { case 1 -> bb_end case 7 -> bb2 } else bb_end !19:3
bb2:
  gpu.barrier {} !20:3
  br bb_end !21:3
bb_end:
  %v: f32 = phi { [bb0: const.f32 0.0], [bb_go: %r], [bb2: %r] } !22:3
  ret !23:3
}

fn @start(%dev: gpu.TDevice, %out: gpu.TBuffer<f32>) -> i64 { !30:1
bb0:
  %a: Array<i64> = arr.new { v0=const.i64 -3 } !31:3
  %n: u32 = const { v=const.u32 1 } !31:3
  %l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%n, %n, %n], block=[%n, %n, %n], args=[%out, %n] } !32:3
  %text: Str = const { v=const.Str "a\\n\\"b\\"" } !33:3
  unreachable !34:3
}
"""


def test_text_reads_back_as_it_was_written():
    module = parse_module(EVERYTHING)
    assert print_module(module) == EVERYTHING
    assert verify(module) == []
    k = module.function("k")
    assert k.gpu_meta.workgroup == (8, 4, 1) and k.gpu_meta.requires == ("device_malloc",) and k.gpu_meta.is_unsafe
    assert module.function("scale").gpu_meta is None
    assert str(k.blocks[0].instrs[0].loc) == "shop.mp:10:3"


def test_random_modules_read_back():
    for seed in range(50):
        text = print_module(tools.make(seed, irreducible=seed % 2 == 0))
        again = parse_module(text)
        assert print_module(again, locations=False) == text


def test_the_short_names_of_operands_are_the_long_ones():
    (f,) = parse_module("mpir m\nfn @f(%x: i32) -> i32 {\nbb0:\n%y: i32 = i.add { a=%x, b=%x }\nret %y }").functions
    assert list(f.blocks[0].instrs[0].args) == ["lhs", "rhs"]


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("module m", 1, "`mpir`"),
        ("mpir m\nfn @f() -> unit {\nbb0:\n  %x f32\n}", 4, "`:`"),
        ("mpir m\nfn @f() -> unit {\nbb0:\n  ret\n", 5, "a block"),
        ("mpir m\nfn @f() -> unit {\nbb0:\n  $\n}", 4, "no word"),
        ("mpir m\nfn @f() -> unit {\nbb0:\n  %x: i32 = const { v=const.i32 1.5 }\n}", 4, "an integer"),
        ("mpir m\nfn @f() -> unit {\nbb0:\n  f.add { a=%x, a=%y }\n}", 4, "not two"),
        ("mpir m\nfn @f(%x: " + "Array<" * 99 + "i32" + ">" * 99 + ") -> unit {}", 2, "less deeply"),
        ("mpir m\ngpu fn @f() -> unit target(ptx) workgroup(1, 2) {}", 2, "three sizes"),
        ("mpir m\nfn @f() -> unit {\nbb0:\n  %x: Str = const { v=const.Str \"\\q\" }\n}", 4, "escapes"),
    ],
)
def test_what_is_no_mpir_is_shown_at_its_place(text, line, wanted):
    with pytest.raises(CompileError) as caught:
        parse_module(text, "x.mpir")
    (found,) = caught.value.diagnostics
    assert found.code == "MPS0009" and found.loc.file == "x.mpir" and found.loc.line == line
    assert wanted in found.message


def test_any_cut_and_any_changed_character_is_a_diagnostic_or_a_module():
    for at in range(0, len(EVERYTHING), 7):
        for text in (EVERYTHING[:at], EVERYTHING[:at] + "%" + EVERYTHING[at + 1 :], EVERYTHING[:at] + EVERYTHING[at + 2 :]):
            try:
                verify(parse_module(text))
            except CompileError as error:
                assert error.code == "MPS0009"  # noqa: PT017


# --- the verifier --------------------------------------------------------------------------------------------------
def plain(body: str, params: str = "%x: i32, %c: bool", ret: str = "i32") -> str:
    return f"mpir m\nstruct TP {{ x: f32 }}\nheap struct TH {{ x: f32 }}\nfn @f({params}) -> {ret} {{\n{body}\n}}"


def gpu(body: str, head: str = "-> unit target(spv)", params: str = "%o: gpu.TBuffer<f32>", before: str = "gpu") -> str:
    return f"mpir m\nheap struct TH {{ x: f32 }}\n{before} fn @k({params}) {head} {{\nbb0:\n{body}\nret\n}}"


ADD = "%y: i32 = i.add { a=%x, b=const.i32 1 }"
FAULTS = [
    ("MPS0001", 6, plain("bb0:\n%g: u32 = gpu.global_id { dim=const.u32 3 }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%g: u32 = gpu.global_id { dim=const.i32 -1 }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%g: u32 = gpu.thread_id { dim=%x }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%y: i32 = i.add { a=%x }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%y: i32 = i.add { a=%x, b=%x, c=%x }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%y: f32 = cast<i32> { v=%x }\nret %x")),
    ("MPS0001", 6, plain("bb0:\nret const.i32 2147483648")),
    ("MPS0001", 6, plain("bb0:\n%y: u8 = const { v=const.u8 -1 }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%p: i32 = call @f { x=%x }\nret %x")),
    ("MPS0001", 6, plain("bb0:\n%y: ptr = gpu.shared<0, f32> {}\nret %x")),
    ("MPS0002", 6, plain("bb0:\nret %nothing")),
    ("MPS0002", 6, plain(f"bb0:\n%z: i32 = i.add {{ a=%y, b=%x }}\n{ADD}\nret %z")),
    ("MPS0002", 6, plain("bb0:\n%y: i32 = i.add { a=%y, b=%x }\nret %y")),
    ("MPS0002", 10, plain(f"bb0:\ncbr %c bb1 bb2\nbb1:\n{ADD}\nbr bb2\nbb2: ret %y")),
    ("MPS0002", 9, plain(f"bb0:\ncbr %c bb1 bb2\nbb1:\n{ADD} br bb2\nbb2: %z: i32 = phi {{ [bb0: %y], [bb1: %x] }} ret %z")),
    ("MPS0003", 6, plain("bb0:\n%x: i32 = i.add { a=%x, b=%x }\nret %x")),
    ("MPS0003", 7, plain("bb0:\nbr bb1\nbb1: ret %x\nbb1: ret %x").replace("br bb1\nbb1: ret %x\n", "br bb1\nbb1: ret %x ")),
    ("MPS0003", 7, plain("bb0: ret %x") + "\nfn @f() -> unit {\nbb0: ret\n}"),
    ("MPS0004", 6, plain("bb0:\n%y: i64 = i.add { a=%x, b=%x }\nret %x")),
    ("MPS0004", 6, plain("bb0:\n%y: i32 = i.add { a=%x, b=const.i64 1 }\nret %x")),
    ("MPS0004", 6, plain("bb0:\n%y: i32 = f.add { a=%x, b=%x }\nret %x")),
    ("MPS0004", 6, plain("bb0:\nret %c")),
    ("MPS0004", 6, plain("bb0:\nret")),
    ("MPS0004", 6, plain("bb0:\ncbr %x bb1 bb1\nbb1: ret %x")),
    ("MPS0004", 6, plain("bb0:\nswitch %c { case 1 -> bb1 } else bb1\nbb1: ret %x")),
    ("MPS0004", 7, plain("bb0: br bb1\nbb1:\n%p: f32 = phi { [bb0: %x] }\nret %x")),
    ("MPT0012", 6, plain("bb0:\n%y: f64 = cast<bf16, f64> { v=const.bf16 1.0 }\nret %x")),
    ("MPT0012", 6, plain("bb0:\n%y: f16 = cast<bf16, f16> { v=const.bf16 1.0 }\nret %x")),
    ("MPS0004", 6, plain("bb0:\n%y: f32 = gpu.buffer_load<f32> { buf=%b, idx=const.u32 0 }\nret %x", "%x: i32, %b: gpu.TBuffer<f64>")),
    ("MPS0004", 6, plain("bb0:\n%p: TP = new<TP> { x=%x }\nret %x")),
    ("MPS0004", 6, plain("bb0:\ni.add { a=%x, b=%x }\nret %x")),
    ("MPS0005", 6, plain("bb0:\nbr bb9")),
    ("MPS0005", 7, plain("bb0: br bb1\nbb1:\nbr bb0")),
    ("MPS0005", 6, plain("bb0:\nswitch %x { case 1 -> bb1 case 1 -> bb1 } else bb1\nbb1: ret %x")),
    ("MPS0005", 4, plain("")),
    ("MPS0006", 7, plain("bb0: br bb1\nbb1:\n%p: i32 = phi { [bb0: %x], [bb7: %x] }\nret %x")),
    ("MPS0006", 7, plain("bb0: cbr %c bb1 bb2\nbb1:\n%p: i32 = phi { [bb0: %x] }\nret %x\nbb2: br bb1")),
    ("MPS0006", 6, plain("bb0:\n%p: i32 = phi { }\nret %x")),
    ("MPS0007", 6, plain("bb0:\n%y: f32 = f.plus { a=%x, b=%x }\nret %x")),
    ("MPS0007", 6, plain("bb0:\n%y: f32 = call @g { }\nret %x")),
    ("MPS0007", 6, plain("bb0:\n%y: TQ = new<TQ> { }\nret %x")),
    ("MPS0008", 3, gpu("", "-> f32 target(spv)").replace("\nret", "\nret const.f32 0.0")),
    ("MPS0008", 3, gpu("", before="unsafe gpu")),
    ("MPS0008", 3, gpu("", "-> unit target(spv) requires(subgroups)")),
    ("MPG_CORE_1100", 5, gpu("%a: TH = new<TH> { x=const.f32 1.0 }")),
    ("MPG_CORE_1100", 5, gpu("%a: i32 = callable.capture { }")),
    ("MPG_CORE_1101", 5, gpu("retain { v=%o }")),
    ("MPG_CORE_1102", 5, gpu("%a: f32 = call.indirect { f=%o }")),
    ("MPG_CORE_1104", 5, gpu('%a: Str = const { v=const.Str "a" }')),
    ("MPG_CORE_1105", 3, gpu("", params="%o: Array<f32>")),
    ("MPG_CORE_1106", 3, gpu("", params="%o: Map<i32, i32>")),
    ("MPG_CORE_1107", 3, gpu("", params="%o: TCallable<TSig>")),
    ("MPG_CORE_1200", 3, gpu("", "-> unit target(spv) requires(device_malloc)", before="unsafe gpu")),
    ("MPG_CORE_1200", 3, gpu("", "-> unit target(ptx) requires(magic)", before="unsafe gpu")),
    ("MPG_CORE_1300", 3, gpu("", "-> unit target(cuba)")),
    ("MPG_CORE_1302", 3, gpu("", "-> unit target(spv) workgroup(0, 1, 1)")),
    ("MPG_CORE_1302", 3, gpu("", "-> unit target(spv) workgroup(1024, 2, 1)")),
    ("MPG_CORE_1404", 5, gpu("%a: i128 = const { v=const.i128 1 }")),
    ("MPG_CORE_1405", 5, gpu("%a: i64 = arr.len { arr=%o }")),
]


@pytest.mark.parametrize(("code", "line", "text"), FAULTS, ids=[f"{k}-{c}" for k, (c, _, _) in enumerate(FAULTS)])
def test_every_rule_of_the_verifier_finds_its_fault(code, line, text):
    found = verify(parse_module(text, "x.mpir"))
    assert [d.code for d in found] == [code], [str(d) for d in found]
    assert found[0].loc.line == line


def test_one_run_shows_the_faults_of_several_functions():
    text = plain("bb0:\nret %nothing") + "\nfn @g() -> unit {\nbb0:\n  br bb3\n}"
    assert [d.code for d in verify(parse_module(text))] == ["MPS0002", "MPS0005"]


def test_recursion_is_refused_where_a_kernel_comes_to_it():
    text = gpu("call @f { }") + "\nfn @f() -> unit {\nbb0:\ncall @g { }\nret\n}\nfn @g() -> unit {\nbb0:\ncall @f { }\nret\n}"
    module = parse_module(text)
    (found,) = verify(module)
    assert (found.code, found.loc.line) == ("MPG_CORE_1103", 15) and "@f -> @g -> @f" in found.message
    with pytest.raises(CompileError) as caught:
        lower_kernel(module, module.function("k"))
    assert caught.value.code == "MPG_CORE_1103"
    assert "@f -> @g -> @f" in str(caught.value)


def test_unreachable_blocks_are_left_out():
    text = gpu("br bb1\nbb1: ret\nbb2: %x: i32 = i.add { a=%x, b=const.i32 1 } br bb2\nbb3:").replace("bb3:\nret", "bb3: ret")
    module = parse_module(text)
    assert verify(module) == []
    assert lower_kernel(module, module.function("k")).body == []


# --- types -----------------------------------------------------------------------------------------------------------
def test_type_numbers_are_those_of_the_specification():
    wanted = {"f64": 15, "bf16": 16, "gpu.TDevice": 30, "gpu.TBuffer": 31, "gpu.TFence": 32, "gpu.TError": 33}
    wanted |= {"gpu.ErrorKind": 34, "gpu.TProfileSession": 35, "gpu.TProfileEvent": 36, "gpu.TMemoryStats": 37}
    wanted |= {"mlx.TArray": 38, "mlx.nn.TLayerHandle": 39, "mlx.optim.TOptimizerHandle": 40, "gpu.TKernel": 50}
    assert wanted.items() <= TYPE_IDS.items()
    assert len(set(TYPE_IDS.values())) == len(TYPE_IDS)
    assert not {*range(17, 30), *range(41, 50)} & set(TYPE_IDS.values())


def test_sid_hash_is_fnv_1a():
    # the vectors of draft-eastlake-fnv, appendix C
    assert sid_hash("") == 0xCBF29CE484222325
    assert sid_hash("a") == 0xAF63DC4C8601EC8C
    assert sid_hash("foobar") == 0x85944171F73967E8
    module = Module("a.b", functions=[tools.make(1).functions[0]])
    assert module.sid(module.functions[0]) == sid_hash("a.b.@k")


# --- operations in kernels -----------------------------------------------------------------------------------------
def run(op: str, types: tuple[str, ...], result: str, columns: list[np.ndarray], targs: str = "") -> np.ndarray:
    """``op`` on each row of ``columns``, by the interpreter."""
    keys = OPS[op].keys
    params = ", ".join(f"%p{k}: gpu.TBuffer<{t}>" for k, t in enumerate(types))
    loads = "\n".join(f"%v{k}: {t} = gpu.buffer_load<{t}> {{ buf=%p{k}, idx=%g }}" for k, t in enumerate(types))
    args = ", ".join(f"{key}=%v{k}" for k, key in enumerate(keys))
    module = parse_module(
        f"mpir m\ngpu fn @k({params}, %o: gpu.TBuffer<{result}>) -> unit target(interp) workgroup(1, 1, 1) {{\nbb0:\n"
        f"%g: u32 = gpu.global_id {{ dim=const.u32 0 }}\n{loads}\n%r: {result} = {op}{targs} {{ {args} }}\n"
        f"gpu.buffer_store<{result}> {{ buf=%o, idx=%g, v=%r }}\nret\n}}"
    )
    found = verify(module)
    assert not found, found[0]
    out = np.zeros(len(columns[0]), by_name(result).numpy)
    Program(lower_kernel(module, module.functions[0])).run((len(out),), (1,), (*columns, out))
    return out


def integers(name: str) -> list[np.ndarray]:
    """All pairs of numbers at which integer operations turn."""
    t = by_name(name)
    values = [t.min, t.min + 1, 0, 1, 2, 3, 7, t.bits - 1, t.bits, t.max - 1, t.max]
    values += [] if name[0] == "u" else [-1, -7]
    pairs = np.array([(a, b) for a in values for b in values], t.numpy)
    return [pairs[:, 0].copy(), pairs[:, 1].copy()]


def wrapped(value: int, name: str) -> int:
    t = by_name(name)
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if name[0] == "i" and value >> (t.bits - 1) else value


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def toward_zero(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return 0 if b == 0 else a - b * toward_zero(a, b)


INTEGER = {
    "i.add": lambda a, b, w: a + b,
    "i.sub.wrap": lambda a, b, w: a - b,
    "i.mul.checked": lambda a, b, w: a * b,
    "i.sdiv": lambda a, b, w: toward_zero(signed(a, w), signed(b, w)),
    "i.udiv": lambda a, b, w: toward_zero(unsigned(a, w), unsigned(b, w)),
    "i.srem": lambda a, b, w: remainder(signed(a, w), signed(b, w)),
    "i.urem": lambda a, b, w: remainder(unsigned(a, w), unsigned(b, w)),
    "i.and": lambda a, b, w: a & b,
    "i.or": lambda a, b, w: a | b,
    "i.xor": lambda a, b, w: a ^ b,
    "i.shl": lambda a, b, w: a << (b % w),
    "i.lshr": lambda a, b, w: unsigned(a, w) >> (b % w),
    "i.ashr": lambda a, b, w: signed(a, w) >> (b % w),
    "icmp.eq": lambda a, b, w: a == b,
    "icmp.ne": lambda a, b, w: a != b,
    "icmp.slt": lambda a, b, w: signed(a, w) < signed(b, w),
    "icmp.sge": lambda a, b, w: signed(a, w) >= signed(b, w),
    "icmp.ult": lambda a, b, w: unsigned(a, w) < unsigned(b, w),
    "icmp.ugt": lambda a, b, w: unsigned(a, w) > unsigned(b, w),
}


@pytest.mark.parametrize("type_", ["i8", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("op", INTEGER)
def test_integer_operations_take_their_sign_from_their_name(op, type_):
    columns = integers(type_)
    got = run(op, (type_, type_), "bool" if op.startswith("icmp") else type_, columns)
    bits = by_name(type_).bits
    wanted = [INTEGER[op](int(a), int(b), bits) for a, b in zip(*columns, strict=True)]
    if not op.startswith("icmp"):
        wanted = [wrapped(v, type_) for v in wanted]
    assert got.tolist() == wanted


FLOATS = [0.0, -0.0, 1.0, -1.5, 3.25, 1e-30, 1e30, np.inf, -np.inf, np.nan]
FLOAT = {
    "f.add": np.add,
    "f.sub.fast": np.subtract,
    "f.mul": np.multiply,
    "f.div": np.divide,
    "f.rem": np.fmod,
    "fcmp.oeq": lambda a, b: a == b,
    "fcmp.one": lambda a, b: (a < b) | (a > b),
    "fcmp.olt": lambda a, b: a < b,
    "fcmp.oge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("op", FLOAT)
def test_float_operations_are_ieee(op, type_):
    pairs = np.array([(a, b) for a in FLOATS for b in FLOATS], by_name(type_).numpy)
    columns = [pairs[:, 0].copy(), pairs[:, 1].copy()]
    got = run(op, (type_, type_), "bool" if op.startswith("fcmp") else type_, columns)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, FLOAT[op](*columns))


@pytest.mark.parametrize(
    ("source", "to", "values", "wanted"),
    [
        ("f32", "i32", [1.9, -1.9, 1e20, -1e20, np.nan], [1, -1, 2147483647, -2147483648, 0]),
        ("f32", "u8", [300.0, -3.0, 7.5, np.nan], [255, 0, 7, 0]),
        ("i32", "u8", [-1, 256, 300], [255, 0, 44]),
        ("i8", "u32", [-1, 127], [4294967295, 127]),
        ("u8", "i64", [255], [255]),
        ("u32", "f32", [16777217, 5], [16777216.0, 5.0]),
        ("f64", "f32", [1 + 2**-25, 1e300], [1.0, np.inf]),
        ("bool", "i32", [True, False], [1, 0]),
    ],
)
def test_casts(source, to, values, wanted):
    got = run("cast", (source,), to, [np.array(values, by_name(source).numpy)], f"<{source}, {to}>")
    np.testing.assert_array_equal(got, np.array(wanted, by_name(to).numpy))


def test_bf16_rounds_each_operation_to_nearest_even():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.0, 1.0078125, 3.140625, -2.5, 1e38, 255.0], ml_dtypes.bfloat16)
    pairs = np.array([(a, b) for a in values for b in values])
    columns = [pairs[:, 0].copy(), pairs[:, 1].copy()]
    with np.errstate(all="ignore"):
        wide = [c.astype(np.float64) for c in columns]
        for op, compute in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            # a sum or product of two bf16 is exact in f64, so one rounding follows
            got = run(f"bf16.{op}", ("bf16", "bf16"), "bf16", columns)
            np.testing.assert_array_equal(got, compute(*wide).astype(np.float32).astype(ml_dtypes.bfloat16))


def test_structs_calls_shared_memory_and_lengths():
    text = """mpir m
struct TPair { lo: u32, hi: u32 }
fn @swap(%p: TPair) -> TPair {
bb0:
  %a: u32 = getfield { obj=%p, field=lo }
  %b: u32 = getfield { obj=%p, field=hi }
  %q: TPair = new<TPair> { lo=%b, hi=%a }
  %less: bool = icmp.ult { a=%a, b=%b }
  cbr %less bb1 bb2
bb1:
  ret %q
bb2:
  ret %p
}
fn @put(%s: ptr, %at: u32, %v: u32) -> unit {
bb0:
  gpu.buffer_store<u32> { buf=%s, idx=%at, v=%v }
  ret
}
gpu fn @k(%in: gpu.TBuffer<u32>, %out: gpu.TBuffer<u32>) -> unit target(interp) workgroup(32, 1, 1) {
bb0:
  %t: u32 = gpu.thread_id { dim=const.u32 0 }
  %s: ptr = gpu.shared<32, u32> {}
  %x: u32 = gpu.buffer_load<u32> { buf=%in, idx=%t }
  %p: TPair = new<TPair> { lo=%x, hi=const.u32 50 }
  %q: TPair = call @swap { p=%p }
  %lo: u32 = getfield { obj=%q, field=lo }
  call @put { s=%s, at=%t, v=%lo }
  gpu.barrier {}
  %u: u32 = i.sub { a=const.u32 31, b=%t }
  %y: u32 = gpu.buffer_load<u32> { buf=%s, idx=%u }
  %n: u32 = gpu.buffer_len<u32> { buf=%in }
  %z: u32 = i.add { a=%y, b=%n }
  gpu.buffer_store<u32> { buf=%out, idx=%t, v=%z }
  ret
}
"""
    module = parse_module(text)
    found = verify(module)
    assert not found, found[0]
    from magpie.passes import prepare

    given = np.arange(32, dtype=np.uint32) * 3
    got = np.zeros(32, np.uint32)
    kernel = lower_kernel(module, module.function("k"))
    Program(prepare(kernel)).run((1,), (32,), (given, got))
    largest = np.maximum(given, 50)  # the pair comes back with its greater number first
    assert got.tolist() == (largest[::-1] + 32).tolist()
    assert [b.access for b in kernel.buffers] == ["read", "write"]


def test_every_operation_of_the_table_is_lowered_or_is_refused_by_name():
    special = {"call", "new", "getfield", "gpu.print", "gpu.assert", "gpu.trap"}
    special |= {"gpu.malloc", "gpu.free", "ptr.load", "ptr.store", "ptr.add", "ptr.is_null"}
    from magpie.mpir.lower_memory import MEMORY
    from magpie.mpir.lower_ops import ELEMENTWISE

    assert OPS.keys() == ELEMENTWISE.keys() | MEMORY.keys() | special


def in_kernel(body: str, head: str, types: tuple[str, ...] = ("u32", "u32")) -> Module:
    """A kernel over buffers %p0, %p1, ...; %g is the global id and %x what %p0 holds there."""
    params = ", ".join(f"%p{k}: gpu.TBuffer<{t}>" for k, t in enumerate(types))
    return parse_module(
        f"mpir m\n{head.replace('fn', f'fn @k({params}) -> unit', 1)} {{\nbb0:\n"
        "%g: u32 = gpu.global_id { dim=const.u32 0 }\n"
        f"%x: {types[0]} = gpu.buffer_load<{types[0]}> {{ buf=%p0, idx=%g }}\n{body}\nret\n}}"
    )


ATOMICS = {
    "add": (lambda x: int(x.sum()) % 2**32, 0),
    "sub": (lambda x: -int(x.sum()) % 2**32, 0),
    "min": (lambda x: int(x.min()), 2**32 - 1),
    "max": (lambda x: int(x.max()), 0),
    "or": (lambda x: int(np.bitwise_or.reduce(x)), 0),
    "and": (lambda x: int(np.bitwise_and.reduce(x)), 2**32 - 1),
    "xor": (lambda x: int(np.bitwise_xor.reduce(x)), 0),
}


@pytest.mark.parametrize("kind", ATOMICS)
def test_atomics(kind):
    expected, start = ATOMICS[kind]
    body = f"gpu.atomic_{kind}<u32> {{ buf=%p1, idx=const.u32 0, v=%x }}"
    module = in_kernel(body, "gpu fn target(interp) workgroup(32, 1, 1)")
    assert verify(module) == []
    x = np.random.default_rng(1).integers(1, 2**31, 64, np.uint32)
    out = np.full(1, start, np.uint32)
    Program(lower_kernel(module, module.functions[0])).run((2,), (32,), (x, out))
    assert out.tolist() == [expected(x)]


def test_compare_exchange_and_ordered_accesses():
    body = """%o: u32 = gpu.atomic_cas<u32> { buf=%p1, idx=%g, expected=const.u32 7, desired=%x }
%n: u32 = gpu.atomic_load<u32> { buf=%p1, idx=%g }
%e: u32 = gpu.atomic_exchange<u32> { buf=%p0, idx=%g, v=%n }
%s: u32 = i.add { a=%o, b=%e }
gpu.fence {}
gpu.atomic_store<u32> { buf=%p2, idx=%g, v=%s }"""
    module = in_kernel(body, "gpu fn target(interp) workgroup(4, 1, 1)", ("u32", "u32", "u32"))
    assert verify(module) == []
    x, y, z = np.array([10, 11, 12, 13], np.uint32), np.array([7, 8, 7, 9], np.uint32), np.zeros(4, np.uint32)
    Program(lower_kernel(module, module.functions[0])).run((1,), (4,), (x, y, z))
    assert y.tolist() == [10, 8, 12, 9] == x.tolist()
    assert z.tolist() == [7 + 10, 8 + 11, 7 + 12, 9 + 13]


SUBGROUPS = {
    "subgroup_sum": lambda x: np.repeat(x.sum(1), 8),
    "subgroup_max": lambda x: np.repeat(x.max(1), 8),
    "subgroup_xor": lambda x: np.repeat(np.bitwise_xor.reduce(x, 1), 8),
    "subgroup_scan_sum": lambda x: x.cumsum(1).ravel(),
    "metal.simd_sum": lambda x: np.repeat(x.sum(1), 8),
    "metal.simd_prefix_sum": lambda x: x.cumsum(1).ravel(),
}


@pytest.mark.parametrize("name", SUBGROUPS)
def test_subgroup_operations(name):
    metal = {"metal.simd_sum": "metal.simd_reduce", "metal.simd_prefix_sum": "metal.simd_prefix"}
    target = f"target({'msl' if name in metal else 'interp'})"
    body = f"%r: u32 = gpu.{name} {{ v=%x }}\ngpu.buffer_store<u32> {{ buf=%p1, idx=%g, v=%r }}"
    tail = f"workgroup(32, 1, 1) requires({metal.get(name, 'subgroups')})"
    module = in_kernel(body, f"unsafe gpu fn {target} {tail}")
    assert verify(module) == []
    x = np.arange(64, dtype=np.uint32) ** 2 % 97
    out = np.zeros(64, np.uint32)
    kernel = lower_kernel(module, module.functions[0], target="interp")
    Program(kernel).run((2,), (32,), (x, out), subgroup_size=8)
    assert out.tolist() == SUBGROUPS[name](x.reshape(8, 8)).tolist()


def test_a_shuffle_and_a_ballot():
    body = """%l: u32 = gpu.subgroup_lane {}
%m: u32 = i.sub { a=const.u32 7, b=%l }
%r: u32 = gpu.subgroup_shuffle { v=%x, lane=%m }
%c: bool = icmp.ugt { a=%x, b=const.u32 40 }
%b: u64 = gpu.subgroup_ballot { v=%c }
%w: u32 = cast<u64, u32> { v=%b }
gpu.buffer_store<u32> { buf=%p1, idx=%g, v=%r }
gpu.buffer_store<u32> { buf=%p2, idx=%g, v=%w }"""
    head = "unsafe gpu fn target(interp) workgroup(32, 1, 1) requires(subgroups)"
    module = in_kernel(body, head, ("u32", "u32", "u32"))
    assert verify(module) == []
    x = np.arange(32, dtype=np.uint32) ** 2 % 97
    r, w = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    Program(lower_kernel(module, module.functions[0])).run((1,), (32,), (x, r, w), subgroup_size=8)
    assert r.tolist() == x.reshape(4, 8)[:, ::-1].ravel().tolist()
    bits = [sum(1 << k for k, v in enumerate(row) if v > 40) for row in x.reshape(4, 8)]
    assert w.tolist() == np.repeat(bits, 8).tolist()


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("MPG_CORE_1201", "%r: u32 = gpu.subgroup_sum { v=%x }"),
        ("MPG_CORE_1201", "%f: f32 = cast<u32, f32> { v=%x }\ngpu.atomic_add<f32> { buf=%p2, idx=%g, v=%f }"),
        ("MPG_MSL_2003", "%r: u32 = gpu.metal.simd_sum { v=%x }"),
        ("MPS0004", "%c: bool = icmp.eq { a=%x, b=%x }\n%r: bool = gpu.atomic_add<bool> { buf=%p3, idx=%g, v=%c }"),
        ("MPS0004", "%f: f32 = cast<u32, f32> { v=%x }\n%r: f32 = gpu.atomic_xor<f32> { buf=%p2, idx=%g, v=%f }"),
    ],
)
def test_what_is_not_portable_is_required_by_name(code, body):
    head = "gpu fn target(msl)"
    found = verify(in_kernel(body, head, ("u32", "u32", "f32", "bool")))
    assert code in [d.code for d in found]
    assert found[0].loc.line == len(body.splitlines()) + 5


# --- the command line --------------------------------------------------------------------------------------------------
def test_magpie_mpir_verify(tmp_path, capsys):
    from typer.testing import CliRunner

    good, bad, odd = tmp_path / "good.mpir", tmp_path / "bad.mpir", tmp_path / "odd.mpir"
    good.write_text(EVERYTHING)
    bad.write_text(plain("bb0:\n  %g: u32 = gpu.global_id { dim=const.u32 3 }\n  ret %x"))
    odd.write_bytes(b"mpir m\n\xff")
    runner = CliRunner()
    found = runner.invoke(app, ["mpir", "verify", str(good)])
    assert found.exit_code == 0 and "3 functions checked, 0 errors" in found.output
    found = runner.invoke(app, ["mpir", "verify", str(bad)])
    assert found.exit_code == 1 and "MPS0001" in found.output and re.search(r"bad\.mpir:6:3", found.output)
    assert "1 error" in found.output
    assert runner.invoke(app, ["mpir", "verify", str(odd)]).exit_code == 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mp")), ids=lambda path: path.stem)
def test_magpie_mpir_show_prints_what_verify_reads(tmp_path, path):
    from typer.testing import CliRunner

    runner, text = CliRunner(), tmp_path / "t.mpir"
    shown = runner.invoke(app, ["mpir", "show", str(path)])
    assert shown.exit_code == 0
    text.write_text(shown.stdout)
    assert print_module(parse_module(shown.stdout, "t.mpir")) == shown.stdout
    found = runner.invoke(app, ["mpir", "verify", str(text)])
    assert found.exit_code == 0 and "0 errors" in found.output
    wrong = tmp_path / "wrong.mp"
    wrong.write_text(path.read_text().replace("fn @main", "fn @main main"))
    found = runner.invoke(app, ["mpir", "show", str(wrong)])
    assert found.exit_code == 1 and not found.stdout and "MPP0005" in found.stderr


def test_explain_knows_the_codes():
    for code in range(1, 10):
        assert lookup(f"MPS000{code}").family == "MPS"


def test_ops_of_instructions_made_by_hand():
    module = tools.make(3)
    block = module.functions[0].blocks[0]
    block.instrs.insert(1, Instr("gpu.workgroup_id", {"dim": Const(Ty("u32"), 7)}, "w", Ty("u32")))
    assert [d.code for d in verify(module)] == ["MPS0001"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mp")), ids=lambda p: p.stem)
def test_programs_read_back_from_their_text(path):
    """Host programs too: `try`, errors of results, words, strings, functions of other modules."""
    module = check_source(read(path)).checked
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    assert verify(parse_module(text)) == []
    assert any(i.op == "try" and i.target for f in module.functions for b in f.blocks for i in b.instrs)


def test_declarations_read_back_from_their_text():
    text = """mpir t
heap struct TNode<T> { value: T, next: TOption<TNode<T>> }
enum TShape { Empty {}, Circle { radius: f32 } }
enum TPair<A, B> { Both { a: A, b: B } }
sig TCompare(i32, borrow TShape) -> bool
global @limits: Array<i64> = [const.i64 100, const.i64 -1]
impl hash TShape @f

async fn @f(%s: shared mutborrow TShape) -> unit {
bb0:
  unsafe ptr.store { p=%s, kind=Auto, v=%s.err }
  %r: unit = try { v=%s } -> bb1
  call.indirect { fn=%s, args=[const.unit, const.Str "a\\n"] }
  ret
bb1:
  unreachable
}
"""
    assert print_module(parse_module(text), locations=False) == text
