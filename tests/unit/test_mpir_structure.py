"""The structurizer: what it makes of the shapes that programs have, and that it never changes what a program does."""

from __future__ import annotations

import random
from dataclasses import replace

import mpir_tools as tools
import numpy as np
import pytest

import magpie as mp
from magpie import CompileError, knobs
from magpie.backends.interp.engine import Program
from magpie.ir.nodes import Kernel, walk
from magpie.mpir import lower_kernel, parse_module, verify
from magpie.mpir.cfg import dominators
from magpie.mpir.nodes import Module
from magpie.mpir.skeleton import skeleton
from magpie.runtime.specialise import Lowering

ITEMS = 64
SEEDS = range(4000) if knobs.test_all() else range(200)
CHUNK = 100


def kernel(text: str, **options) -> Kernel:
    """The kernel @k of a module whose text begins behind its name."""
    module = parse_module("mpir m\n" + text)
    found = verify(module)
    assert not found, found[0]
    return lower_kernel(module, module.function("k"), **options)


def skeleton_of(kernel: Kernel) -> str:
    """The control of a kernel alone: ``loop{break_if if{store}}step``, where a step is not empty."""

    def show(region) -> str:
        words = []
        for node in region:
            if node.op == "if":
                then, other = map(show, node.regions)
                words.append(f"if{{{then}}}" + (f"else{{{other}}}" if other else ""))
            elif node.op == "loop":
                words.append(f"loop{{{show(node.regions[0])}}}" + ("step" if node.regions[1] else ""))
            elif node.op in ("break", "break_if", "continue", "return", "store", "barrier"):
                words.append(node.op)
        return " ".join(words)

    return show(kernel.body)


def assert_same(module: Module, seed: int) -> None:
    """The kernel of a random module gives on the interpreter what its blocks give, for each of 64 work-items."""
    found = verify(module)
    assert not found, f"seed {seed}: {found[0]}"
    function = module.functions[0]
    got = np.zeros(ITEMS * 5, np.uint32)
    Program(lower_kernel(module, function)).run((2,), (32,), (got,))
    wanted = [0] * len(got)
    for item in range(ITEMS):
        tools.execute(function, {"out": wanted}, {"global_id": item})
    assert got.tolist() == wanted, f"seed {seed}"
    assert len(set(wanted)) > ITEMS


@pytest.mark.parametrize("irreducible", [False, True])
@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_random_graphs_do_what_their_blocks_do(first, irreducible):
    for seed in SEEDS[first : first + CHUNK]:
        assert_same(tools.make(seed, irreducible=irreducible), seed)


def test_large_random_graphs():
    for seed in range(6 if not knobs.test_all() else 200):
        assert_same(tools.make(seed, irreducible=seed % 2 == 1, most=60), seed)


def test_the_random_graphs_hold_what_they_shall_hold():
    shapes = [skeleton_of(lower_kernel(m, m.functions[0])) for m in map(tools.make, range(200))]
    assert sum("loop" in s for s in shapes) > 100
    assert any("step" in s for s in shapes) and any("continue" in s for s in shapes)
    odd = 0
    for seed in range(60):
        module = tools.make(seed, irreducible=True)
        function = module.functions[0]
        if not skeleton(function).irreducible:
            continue
        odd += 1
        with pytest.raises(CompileError, match="irreducible"):
            lower_kernel(module, function, target="msl")
    assert odd > 15
    for seed in range(60):  # and none where it was not asked for
        module = tools.make(seed)
        lower_kernel(module, module.functions[0], target="wgsl")


def test_dominators_are_those_of_the_definition():
    for seed in range(200):
        graph = tools.shape(random.Random(seed), 2 + seed % 20, irreducible=seed % 2 == 0)
        above = tools.dominators(graph)
        found = dominators(dict(enumerate(graph)), 0)
        assert found.keys() == set(range(1, len(graph)))
        for node, idom in found.items():
            # the immediate dominator is the one that all others dominate
            assert above[node] - {node} == above[idom]


# --- shapes -----------------------------------------------------------------------------------------------------------
HEAD = "gpu fn @k(%o: gpu.TBuffer<u32>, %n: u32) -> unit target(interp) workgroup(32, 1, 1) {\nbb0:\n"
IDS = "  %g: u32 = gpu.global_id { dim=const.u32 0 }\n  %c: bool = icmp.ult { a=%g, b=%n }\n"


def store(value: int) -> str:
    return f"  gpu.buffer_store<u32> {{ buf=%o, idx=%g, v=const.u32 {value} }}\n"


SHAPES = {
    "if": (f"{IDS}cbr %c bb1 bb2\nbb1:\n{store(1)}br bb2\nbb2:\nret\n}}", "if{store}"),
    "if not": (f"{IDS}cbr %c bb2 bb1\nbb1:\n{store(1)}br bb2\nbb2:\nret\n}}", "if{store}"),
    "if else": (
        f"{IDS}cbr %c bb1 bb2\nbb1:\n{store(1)}br bb3\nbb2:\n{store(2)}br bb3\nbb3:\n{store(3)}ret\n}}",
        "if{store}else{store} store",
    ),
    "early return": (f"{IDS}cbr %c bb1 bb2\nbb1:\n{store(1)}ret\nbb2:\n{store(2)}ret\n}}", "if{store return} store"),
    "and": (
        f"{IDS}cbr %c bb1 bb3\nbb1:\n%d: bool = icmp.eq {{ a=%g, b=%n }}\ncbr %d bb2 bb3\nbb2:\n{store(1)}br bb3\nbb3:\nret\n}}",
        "if{if{store}}",
    ),
    "or": (
        f"{IDS}cbr %c bb2 bb1\nbb1:\n%d: bool = icmp.eq {{ a=%g, b=%n }}\ncbr %d bb2 bb3\nbb2:\n{store(1)}br bb3\nbb3:\nret\n}}",
        "loop{if{break_if} store break}",
    ),
    "while": (
        f"{IDS}br bb1\nbb1:\n%i: u32 = phi {{ [bb0: const.u32 0], [bb2: %j] }}\n%d: bool = icmp.ult {{ a=%i, b=%n }}\n"
        f"cbr %d bb2 bb3\nbb2:\n{store(1)}%j: u32 = i.add {{ a=%i, b=const.u32 1 }}\nbr bb1\nbb3:\n{store(2)}ret\n}}",
        "loop{break_if store}step store",
    ),
    "do while": (
        f"{IDS}br bb1\nbb1:\n%i: u32 = phi {{ [bb0: const.u32 0], [bb1: %j] }}\n{store(1)}"
        f"%j: u32 = i.add {{ a=%i, b=const.u32 1 }}\n%d: bool = icmp.ult {{ a=%j, b=%n }}\ncbr %d bb1 bb2\nbb2:\nret\n}}",
        "loop{store break_if}",
    ),
    "found and break": (
        f"{IDS}br bb1\nbb1:\n%i: u32 = phi {{ [bb0: const.u32 0], [bb4: %j] }}\n%d: bool = icmp.ult {{ a=%i, b=%n }}\n"
        f"cbr %d bb2 bb5\nbb2:\n%e: bool = icmp.eq {{ a=%i, b=%g }}\ncbr %e bb3 bb4\nbb3:\n{store(1)}br bb5\n"
        f"bb4:\n%j: u32 = i.add {{ a=%i, b=const.u32 1 }}\nbr bb1\nbb5:\n{store(2)}ret\n}}",
        "loop{break_if if{store break}}step store",
    ),
    "continue": (
        f"{IDS}br bb1\nbb1:\n%i: u32 = phi {{ [bb0: const.u32 0], [bb5: %j] }}\n%d: bool = icmp.ult {{ a=%i, b=%n }}\n"
        f"cbr %d bb2 bb6\nbb2:\n%e: bool = icmp.eq {{ a=%i, b=%g }}\ncbr %e bb3 bb5\nbb3:\n{store(1)}cbr %c bb4 bb5\n"
        f"bb4:\n{store(3)}br bb5\nbb5:\n%j: u32 = i.add {{ a=%i, b=const.u32 1 }}\nbr bb1\nbb6:\nret\n}}",
        "loop{break_if if{store if{store}}}step",
    ),
    "continue out of a nest": (
        f"{IDS}br bb1\nbb1:\n%i: u32 = phi {{ [bb0: const.u32 0], [bb6: %j] }}\n%d: bool = icmp.ult {{ a=%i, b=%n }}\n"
        f"cbr %d bb2 bb7\nbb2:\n%e: bool = icmp.eq {{ a=%i, b=%g }}\ncbr %e bb3 bb4\nbb3:\n{store(1)}cbr %c bb6 bb5\n"
        f"bb4:\n{store(2)}br bb5\nbb5:\n{store(3)}br bb6\nbb6:\n%j: u32 = i.add {{ a=%i, b=const.u32 1 }}\nbr bb1\nbb7:\nret\n}}",
        "loop{break_if if{store if{continue}}else{store} store}step",
    ),
    "switch": (
        f"{IDS}switch %g {{ case 1 -> bb1 case 5 -> bb2 case 3 -> bb3 }} else bb4\n"
        + "".join(f"bb{k}:\n{store(k)}br bb4\n" for k in (1, 2, 3))
        + "bb4:\nret\n}",
        "if{if{store}}else{if{if{store}}else{if{store}}}",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_programs_come_out_as_people_write_them(name):
    text, wanted = SHAPES[name]
    assert skeleton_of(kernel(HEAD + text)) == wanted


def test_leaving_two_loops_at_once_takes_a_flag():
    text = f"""{HEAD}{IDS}  br bb1
bb1:
  %i: u32 = phi {{ [bb0: const.u32 0], [bb5: %i1] }}
  %more: bool = icmp.ult {{ a=%i, b=%n }}
  cbr %more bb2 bb6
bb2:
  %j: u32 = phi {{ [bb1: const.u32 0], [bb4: %j1] }}
  %p: u32 = i.mul {{ a=%i, b=%j }}
  %hit: bool = icmp.eq {{ a=%p, b=%g }}
  cbr %hit bb6 bb3
bb3:
  %again: bool = icmp.ult {{ a=%j, b=%i }}
  cbr %again bb4 bb5
bb4:
  %j1: u32 = i.add {{ a=%j, b=const.u32 1 }}
  br bb2
bb5:
  %i1: u32 = i.add {{ a=%i, b=const.u32 1 }}
  br bb1
bb6:
  %v: u32 = phi {{ [bb1: const.u32 999], [bb2: %i] }}
  gpu.buffer_store<u32> {{ buf=%o, idx=%g, v=%v }}
  ret
}}"""
    built = kernel(text)
    assert skeleton_of(built) == "loop{if{break} loop{if{break} break_if} break_if} store"
    got = np.zeros(32, np.uint32)
    Program(built).run((1,), (32,), (got, 6))
    wanted = [next((i for i in range(6) if any(i * j == g for j in range(i + 1))), 999) for g in range(32)]
    assert got.tolist() == wanted


def test_phis_that_exchange_values():
    text = f"""{HEAD}{IDS}  br bb1
bb1:
  %a: u32 = phi {{ [bb0: const.u32 0], [bb1: %b] }}
  %b: u32 = phi {{ [bb0: const.u32 1], [bb1: %a] }}
  %i: u32 = phi {{ [bb0: const.u32 0], [bb1: %j] }}
  %j: u32 = i.add {{ a=%i, b=const.u32 1 }}
  %more: bool = icmp.ult {{ a=%i, b=%g }}
  cbr %more bb1 bb2
bb2:
  gpu.buffer_store<u32> {{ buf=%o, idx=%g, v=%a }}
  ret
}}"""
    got = np.zeros(32, np.uint32)
    Program(kernel(text)).run((1,), (32,), (got, 0))
    assert got.tolist() == [g % 2 for g in range(32)]


# --- irreducible control flow --------------------------------------------------------------------------------------
def irreducible(cond: str, inside: str = "") -> str:
    """A cycle of bb1 and bb2 that %first enters at either; it counts in %o[g] to 7."""
    return f"""gpu fn @k(%o: gpu.TBuffer<u32>, %n: u32) -> unit target(interp) workgroup(32, 1, 1) {{
bb0:
  %g: u32 = gpu.global_id {{ dim=const.u32 0 }}
  %first: bool = icmp.eq {{ a={cond}, b=const.u32 0 }}
  cbr %first bb1 bb2 !4:1
bb1:
  %a: u32 = phi {{ [bb0: const.u32 0], [bb2: %b1] }}
  %a1: u32 = i.add {{ a=%a, b=const.u32 1 }}
  br bb2 !6:1
bb2:
  %b: u32 = phi {{ [bb0: const.u32 100], [bb1: %a1] }}
  {inside}
  %b1: u32 = i.add {{ a=%b, b=const.u32 1 }}
  %r: u32 = i.urem {{ a=%b1, b=const.u32 100 }}
  %more: bool = icmp.ult {{ a=%r, b=const.u32 7 }}
  cbr %more bb1 bb3 !8:1
bb3:
  gpu.buffer_store<u32> {{ buf=%o, idx=%g, v=%b1 }}
  ret
}}"""


@pytest.mark.parametrize("target", ["msl", "wgsl"])
def test_targets_with_structured_control_flow_only_refuse_irreducible_cycles(target):
    with pytest.raises(CompileError) as caught:
        kernel(irreducible("%g"), target=target)
    (found,) = caught.value.diagnostics
    assert found.code == f"MPG_{target.upper()}_1001"
    assert found.loc.line in (6, 8)
    assert "irreducible" in found.message


def test_other_targets_run_irreducible_cycles_through_a_label():
    built = kernel(irreducible("%g"))
    assert any(n.op == "slot_set" and n.attrs["slot"].name == "dispatch.0" for n in walk(built.body))
    got = np.zeros(32, np.uint32)
    Program(built).run((1,), (32,), (got, 0))
    # item 0 counts two a trip from 0, the others come in in the middle, at 100
    assert got.tolist() == [8] + [107] * 31


MEETINGS = ["gpu.barrier {}", "%m: u32 = gpu.subgroup_max { v=%b }"]


@pytest.mark.parametrize("meeting", MEETINGS)
def test_who_meets_in_an_irreducible_cycle_needs_one_label_for_the_workgroup(meeting):
    def built_with(cond: str, inside: str) -> Kernel:
        text = irreducible(cond, inside).replace("gpu fn", "unsafe gpu fn", 1)
        return kernel(text.replace("workgroup(32, 1, 1)", "workgroup(32, 1, 1) requires(subgroups)"))

    built = built_with("%n", meeting)
    got = np.zeros(32, np.uint32)
    Program(built).run((1,), (32,), (got, 0))
    assert got.tolist() == [8] * 32
    with pytest.raises(CompileError) as caught:
        built_with("%g", meeting)
    assert caught.value.code == "MPG_CORE_1408"
    built_with("%g", "%m: u32 = gpu.subgroup_lane {}")  # which asks nobody else


# --- size ----------------------------------------------------------------------------------------------------------------
def test_long_functions_do_not_nest():
    count = 2000
    parts = [HEAD + IDS + "  br bb1\n"]
    for k in range(count):
        a, b, c = 2 * k + 1, 2 * k + 2, 2 * k + 3
        parts.append(f"bb{a}:\n  cbr %c bb{b} bb{c}\nbb{b}:\n{store(k)}  br bb{c}\n")
    built = kernel("".join(parts) + f"bb{2 * count + 1}:\n  ret\n}}")
    assert sum(n.op == "if" for n in built.body) == count


def test_what_nests_too_deep_is_a_diagnostic():
    count = 3000
    parts = [HEAD + IDS + "  br bb1\n"]
    parts += [f"bb{k}:\n  cbr %c bb{k + 1} bb{count}\n" for k in range(1, count)]
    with pytest.raises(CompileError) as caught:
        kernel("".join(parts) + f"bb{count}:\n{store(1)}  br bb{count + 1}\nbb{count + 1}:\n  ret\n}}")
    assert caught.value.code == "MPG_CORE_1409"


@mp.kernel
def k_stand_in(out: mp.Array[mp.u32, 1]):
    out[0] = mp.u32(1)


@pytest.mark.parametrize("name", ["", "llvmpipe", "SwiftShader"])
@pytest.mark.parametrize("seed", range(300) if knobs.test_all() else range(10))
def test_random_graphs_on_devices(seed, name, monkeypatch):
    """As vector code, which the drivers of Vulkan that need no GPU make of SPIR-V as well: the gangs are not full, and
    their lanes go different ways."""
    device = next((d for d in mp.devices() if d.backend == ("spv" if name else "cpu") and d.name.startswith(name)), None)
    if device is None:
        pytest.skip(f"no {name} here")
    monkeypatch.setenv("MAGPIE_CACHE", "0")
    module = tools.make(seed, irreducible=seed % 2 == 1, most=12)
    function = module.functions[0]
    built = replace(lower_kernel(module, function), workgroup=None)
    launched = mp.kernel(k_stand_in.fn)
    monkeypatch.setattr(launched._specialiser(), "_lower", lambda args: Lowering(built, (), None))
    got, wanted = np.zeros(66 * 5, np.uint32), [0] * (66 * 5)
    launched.launch(grid=2, block=33, args=(got,), device=device)
    for item in range(66):
        tools.execute(function, {"out": wanted}, {"global_id": item})
    assert got.tolist() == wanted
