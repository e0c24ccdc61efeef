"""Modules of `.mp` text that are large in one way each: what a front end that looks too often gets slow by.

A shape is a function of its size; its number is the size that makes about a megabyte, or the most that a limit lets
through. ``realistic`` is what people write, in variety.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

HEAD = "module t\n"
KERNEL = "gpu fn @k(%b: gpu.TBuffer<i32>, %n: i32) -> unit target(spv) {\n"
KERNELS = "gpu fn @k{}(%b: gpu.TBuffer<i32>, %n: i32) -> unit target(spv) {{\n"
HOST = "fn @f(%n: i32, %c: bool) -> i32 {\n"

SHAPES: dict[str, tuple[int, Callable[[int], str]]] = {}


def shape(most: int) -> Callable[[Callable[[int], str]], Callable[[int], str]]:
    def add(make: Callable[[int], str]) -> Callable[[int], str]:
        SHAPES[make.__name__] = (most, make)
        return make

    return add


def kernel(blocks: Iterable[str]) -> str:
    return HEAD + KERNEL + "".join(blocks) + "}\n"


def host(blocks: Iterable[str]) -> str:
    return HEAD + HOST + "".join(blocks) + "}\n"


# --- control flow ----------------------------------------------------------------------------------------------------


def loops(n: int, depth: int = 0) -> list[str]:
    """``n`` loops in each other, as blocks, left for h_end."""
    made = ["bb0:\nbr bb_h0\n"]
    for k in range(n):
        inner = f"bb_h{k + 1}" if k + 1 < n else "bb_in"
        outer = f"bb_s{k - 1}" if k else "bb_end"
        made.append(f"bb_h{k}:\n%c{k}: bool = icmp.slt {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} {inner} {outer}\n")
        made.append(f"bb_s{k}:\nbr bb_h{k}\n")
    made.append(f"bb_in:\nbr bb_s{n - 1}\nbb_end:\nret\n")
    return made


@shape(9000)
def nested_loops(n: int) -> str:
    return kernel(loops(n))


@shape(100)
def nested_loops_that_may_be(n: int) -> str:
    return kernel(loops(min(n, 110)))


@shape(110)
def counted_loops_in_each_other(n: int) -> str:
    """What an analysis that goes round each loop twice needs two to the depth of steps for."""
    made = ["bb0:\nbr bb_h0\n"]
    for k in range(n):
        before = f"bb_h{k - 1}" if k else "bb0"
        inner = f"bb_h{k + 1}" if k + 1 < n else "bb_in"
        outer = f"bb_s{k - 1}" if k else "bb_end"
        made.append(f"bb_h{k}:\n%i{k}: i32 = phi i32 {{ [{before}: %n], [bb_s{k}: %j{k}] }}\n")
        made.append(f"%c{k}: bool = icmp.slt {{ a=%i{k}, b=const.i32 {k} }}\ncbr %c{k} {inner} {outer}\n")
        made.append(f"bb_s{k}:\n%j{k}: i32 = i.add {{ a=%i{k}, b=const.i32 1 }}\nbr bb_h{k}\n")
    return kernel([*made, f"bb_in:\nbr bb_s{n - 1}\nbb_end:\nret\n"])


@shape(12000)
def loops_in_a_row(n: int) -> str:
    made = ["bb0:\nbr bb_h0\n"]
    for k in range(n):
        made.append(f"bb_h{k}:\n%c{k}: bool = icmp.slt {{ a=%n, b=%n }}\ncbr %c{k} bb_b{k} bb_h{k + 1}\n")
        made.append(f"bb_b{k}:\nbr bb_h{k}\n")
    return kernel([*made, f"bb_h{n}:\nret\n"])


@shape(20000)
def switch_of_many_cases(n: int) -> str:
    cases = "".join(f"case {k} -> bb_{k}\n" for k in range(n))
    return kernel(["bb0:\nswitch %n {\n", cases, "} else bb_e\n", *(f"bb_{k}:\nret\n" for k in range(n)), "bb_e:\nret\n"])


@shape(20000)
def switch_that_meets(n: int) -> str:
    cases = "".join(f"case {k} -> bb_{k}\n" for k in range(n))
    edges = ", ".join(f"[bb_{k}: const.i32 {k}]" for k in range(n))
    made = [f"bb_{k}:\nbr bb_e\n" for k in range(n)]
    return kernel(["bb0:\nswitch %n {\n", cases, "} else bb_0\n", *made, f"bb_e:\n%r: i32 = phi i32 {{ {edges} }}\nret\n"])


@shape(50000)
def switch_of_cases_to_one(n: int) -> str:
    cases = "".join(f"case {k} -> bb1\n" for k in range(n))
    return kernel(["bb0:\nswitch %n {\n", cases, "} else bb2\nbb1:\nret\nbb2:\nret\n"])


@shape(10000)
def else_ifs(n: int) -> str:
    made = ["bb0:\nbr bb_0\n"]
    for k in range(n):
        made.append(f"bb_{k}:\n%c{k}: bool = icmp.eq {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} bb_t{k} bb_{k + 1}\n")
        made.append(f"bb_t{k}:\nbr bb_e\n")
    return kernel([*made, f"bb_{n}:\nbr bb_e\nbb_e:\nret\n"])


@shape(10000)
def else_ifs_that_return(n: int) -> str:
    made = ["bb0:\nbr bb_0\n"]
    for k in range(n):
        made.append(f"bb_{k}:\n%c{k}: bool = icmp.eq {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} bb_t{k} bb_{k + 1}\n")
        made.append(f"bb_t{k}:\nret\n")
    return kernel([*made, f"bb_{n}:\nret\n"])


@shape(10000)
def deep_ifs(n: int) -> str:
    made = ["bb0:\nbr bb_0\n"]
    for k in range(n):
        made.append(f"bb_{k}:\n%c{k}: bool = icmp.eq {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} bb_{k + 1} bb_e{k}\n")
    made.append(f"bb_{n}:\nbr bb_e{n - 1}\n")
    made += [f"bb_e{k}:\nbr bb_e{k - 1}\n" for k in range(n - 1, 0, -1)]
    return kernel([*made, "bb_e0:\nret\n"])


@shape(9000)
def ifs_in_a_row(n: int) -> str:
    made = ["bb0:\nbr bb_0\n"]
    for k in range(n):
        made.append(f"bb_{k}:\n%c{k}: bool = icmp.eq {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} bb_t{k} bb_{k + 1}\n")
        made.append(f"bb_t{k}:\nbr bb_{k + 1}\n")
    return kernel([*made, f"bb_{n}:\nret\n"])


@shape(5000)
def ifs_with_phis_in_a_row(n: int) -> str:
    made = ["bb0:\n%v0: i32 = const.i32 0\nbr bb_0\n"]
    for k in range(n):
        phi = f"%v{k}: i32 = phi i32 {{ [bb_{k - 1}: %v{k - 1}], [bb_t{k - 1}: %w{k - 1}] }}\n" if k else ""
        made.append(f"bb_{k}:\n{phi}%c{k}: bool = icmp.eq {{ a=%v{k}, b=%n }}\ncbr %c{k} bb_t{k} bb_{k + 1}\n")
        made.append(f"bb_t{k}:\n%w{k}: i32 = i.add {{ a=%v{k}, b=%n }}\nbr bb_{k + 1}\n")
    return kernel([*made, f"bb_{n}:\nret\n"])


@shape(50000)
def chain_of_blocks(n: int) -> str:
    return kernel(["bb0:\n", *(f"br bb_{k}\nbb_{k}:\n" for k in range(n)), "ret\n"])


@shape(8000)
def irreducible_cycles(n: int) -> str:
    made = ["bb0:\nbr bb_0\n"]
    for k in range(n):
        made.append(f"bb_{k}:\n%c{k}: bool = icmp.eq {{ a=%n, b=const.i32 {k} }}\ncbr %c{k} bb_a{k} bb_b{k}\n")
        made.append(f"bb_a{k}:\ncbr %c{k} bb_b{k} bb_{k + 1}\nbb_b{k}:\nbr bb_a{k}\n")
    return kernel([*made, f"bb_{n}:\nret\n"])


@shape(14000)
def one_irreducible_cycle_of_many_entries(n: int) -> str:
    cases = "".join(f"case {k} -> bb_{k}\n" for k in range(n))
    made = [f"bb_{k}:\ncbr %c bb_{(k + 1) % n} bb_e\n" for k in range(n)]
    first = f"bb0:\n%c: bool = icmp.eq {{ a=%n, b=%n }}\nswitch %n {{\n{cases}}} else bb_e\n"
    return kernel([first, *made, "bb_e:\nret\n"])


@shape(5000)
def irreducible_cycles_in_each_other(n: int) -> str:
    made = ["bb0:\n%c: bool = icmp.eq { a=%n, b=%n }\ncbr %c bb_a0 bb_b0\n"]
    for k in range(n):
        inner = k + 1 if k + 1 < n else k
        made.append(f"bb_a{k}:\ncbr %c bb_a{inner} bb_b{k}\nbb_b{k}:\ncbr %c bb_b{inner} bb_a{max(k - 1, 0)}\n")
    return kernel([*made, "bb_e:\nret\n"])


@shape(10000)
def ladder(n: int) -> str:
    """Every block may go to the next one of its side or to the other side: no block dominates the next."""
    made = ["bb0:\n%c: bool = icmp.eq { a=%n, b=%n }\ncbr %c bb_a0 bb_b0\n"]
    for k in range(n):
        made.append(f"bb_a{k}:\ncbr %c bb_a{k + 1} bb_b{k + 1}\nbb_b{k}:\ncbr %c bb_b{k + 1} bb_a{k + 1}\n")
    return kernel([*made, f"bb_a{n}:\nret\nbb_b{n}:\nret\n"])


@shape(10000)
def exits_of_one_loop(n: int) -> str:
    made = ["bb0:\n%c: bool = icmp.eq { a=%n, b=%n }\nbr bb_0\n"]
    made += [f"bb_{k}:\ncbr %c bb_{(k + 1) % n} bb_x{k}\nbb_x{k}:\nbr bb_e\n" for k in range(n)]
    return kernel([*made, "bb_e:\nret\n"])


@shape(20000)
def latches_of_one_loop(n: int) -> str:
    made = ["bb0:\n%c: bool = icmp.eq { a=%n, b=%n }\nbr bb_0\n"]
    made += [f"bb_{k}:\ncbr %c bb_0 bb_{k + 1}\n" for k in range(n)]
    return kernel([*made, f"bb_{n}:\nret\n"])


@shape(60000)
def blocks_that_nothing_reaches(n: int) -> str:
    return kernel(["bb0:\nret\n", *(f"bb_{k}:\nret\n" for k in range(n))])


# --- values ----------------------------------------------------------------------------------------------------------


@shape(25000)
def long_block(n: int) -> str:
    adds = [f"%v{k + 1}: i32 = i.add {{ a=%v{k}, b=%n }}\n" for k in range(n)]
    return kernel(["bb0:\n%v0: i32 = const.i32 1\n", *adds, "ret\n"])


@shape(16000)
def long_block_of_loads(n: int) -> str:
    loads = [f"%v{k}: i32 = gpu.buffer_load<i32> {{ buf=%b, idx=%n }}\n" for k in range(n)]
    return kernel(["bb0:\n", *loads, "ret\n"])


@shape(25000)
def many_phis(n: int) -> str:
    first = "bb0:\n%c: bool = icmp.eq { a=%n, b=%n }\ncbr %c bb1 bb2\nbb1:\nbr bb2\nbb2:\n"
    return kernel([first, *(f"%v{k}: i32 = phi [bb0: %n] [bb1: %n]\n" for k in range(n)), "ret\n"])


@shape(400)
def phis_of_many_edges(n: int) -> str:
    cases = "".join(f"case {k} -> bb_{k}\n" for k in range(n))
    made = [f"bb_{k}:\nbr bb_e\n" for k in range(n)]
    edges = " ".join(f"[bb_{k}: %n]" for k in range(n))
    phis = [f"%v{k}: i32 = phi {edges}\n" for k in range(n // 3)]
    return kernel(["bb0:\nswitch %n {\n", cases, "} else bb_0\n", *made, "bb_e:\n", *phis, "ret\n"])


@shape(20000)
def phis_of_one_loop(n: int) -> str:
    first = "bb0:\n%c: bool = icmp.eq { a=%n, b=%n }\nbr bb1\nbb1:\n"
    phis = [f"%v{k}: i32 = phi [bb0: %n] [bb1: %v{(k + 1) % n}]\n" for k in range(n)]
    return kernel([first, *phis, "cbr %c bb1 bb2\nbb2:\nret\n"])


@shape(14000)
def varying_value_that_goes_round(n: int) -> str:
    """One value of a loop differs between work-items, and each trip passes it on to the next one."""
    first = "bb0:\n%t: u32 = gpu.thread_id { dim=const.u32 0 }\n%i: i32 = cast<u32, i32> { v=%t }\n"
    phis = [f"%v{k}: i32 = phi [bb0: {'%i' if k == n - 1 else '%n'}] [bb1: %v{(k + 1) % n}]\n" for k in range(n)]
    loop = "gpu.barrier\ngpu.buffer_store<i32> { buf=%b, idx=%n, v=%v0 }\ncbr %c bb1 bb2\nbb2:\nret\n"
    return kernel([first, "%c: bool = icmp.eq { a=%n, b=%n }\nbr bb1\nbb1:\n", *phis, loop])


@shape(9000)
def values_used_far_away(n: int) -> str:
    made = ["bb0:\nbr bb_0\n"]
    for k in range(n):
        made.append(f"bb_{k}:\n%v{k}: i32 = i.add {{ a=%n, b=%n }}\n%c{k}: bool = icmp.eq {{ a=%v{k}, b=%n }}\n")
        made.append(f"cbr %c{k} bb_{k + 1} bb_x{k}\nbb_x{k}:\nret\n")
    made.append(f"bb_{n}:\n" + "".join(f"%w{k}: i32 = i.add {{ a=%v{k}, b=%n }}\n" for k in range(n)) + "ret\n")
    return kernel(made)


@shape(60000)
def constants(n: int) -> str:
    return HEAD + "".join(f"global @g{k}: i32 = const.i32 {k}\n" for k in range(n // 2))


@shape(20000)
def constants_that_a_kernel_reads(n: int) -> str:
    made = [f"global @g{k}: i32 = const.i32 {k}\n" for k in range(n)]
    return HEAD + "".join(made) + KERNEL + "bb0:\n" + "".join(f"%v{k}: i32 = @g{k}\n" for k in range(n)) + "ret\n}\n"


@shape(1000)
def globals_of_globals(n: int) -> str:
    made = [f"global @g{k}: i32 = @g{k + 1}\n" for k in range(n)]
    return HEAD + "".join(made) + f"global @g{n}: i32 = @g0\n" + KERNEL + "bb0:\n%v: i32 = @g0\nret\n}\n"


@shape(60000)
def one_list(n: int) -> str:
    return host(["bb0:\n%a: Array<i32> = arr.new { v=[", ", ".join(f"const.i32 {k}" for k in range(n)), "] }\nret %n\n"])


@shape(50000)
def many_arguments(n: int) -> str:
    return host(["bb0:\narr.new { ", ", ".join(f"v{k}=%n" for k in range(n)), " }\nret %n\n"])


# --- functions -------------------------------------------------------------------------------------------------------


def caller(k: int, callee: int) -> str:
    return f"fn @f{k}(%n: i32) -> i32 {{\nbb0:\n%r: i32 = call @f{callee} {{ n=%n }}\nret %r\n}}\n"


LEAF = "fn @leaf(%n: i32) -> i32 {\nbb0:\nret %n\n}\n"


@shape(12000)
def chain_of_functions(n: int) -> str:
    return HEAD + "".join(caller(k, (k + 1) % n) for k in range(n))


@shape(12000)
def chain_of_functions_of_a_kernel(n: int) -> str:
    last = f"fn @f{n}(%n: i32) -> i32 {{\nbb0:\nret %n\n}}\n"
    first = KERNEL + "bb0:\n%r: i32 = call @f0 { n=%n }\nret\n}\n"
    return HEAD + first + "".join(caller(k, k + 1) for k in range(n)) + last


@shape(9000)
def functions_of_one_kernel(n: int) -> str:
    made = [f"fn @f{k}(%n: i32) -> i32 {{\nbb0:\nret %n\n}}\n" for k in range(n)]
    calls = "".join(f"%r{k}: i32 = call @f{k} {{ n=%n }}\n" for k in range(n))
    return HEAD + "".join(made) + KERNEL + "bb0:\n" + calls + "ret\n}\n"


@shape(5)
def calls_that_multiply(n: int) -> str:
    made = []
    for k in range(n * 8):
        calls = "".join(f"%r{i}: i32 = call @f{k + 1} {{ n=%n }}\n" for i in range(8))
        made.append(f"fn @f{k}(%n: i32) -> i32 {{\nbb0:\n{calls}ret %r0\n}}\n")
    last = f"fn @f{n * 8}(%n: i32) -> i32 {{\nbb0:\nret %n\n}}\n"
    return HEAD + KERNEL + "bb0:\n%r: i32 = call @f0 { n=%n }\nret\n}\n" + "".join(made) + last


@shape(7000)
def kernels_that_call_one_function(n: int) -> str:
    body = "bb0:\n%r: i32 = call @leaf { n=%n }\nret\n}\n"
    return HEAD + LEAF + "".join(KERNELS.format(k) + body for k in range(n))


@shape(3000)
def kernels_that_call_one_long_function(n: int) -> str:
    """Nothing may be looked at again for each kernel that comes to it."""
    adds = "".join(f"%v{k + 1}: i32 = i.add {{ a=%v{k}, b=%n }}\n" for k in range(2 * n))
    long = f"fn @long(%n: i32) -> i32 {{\nbb0:\n%v0: i32 = const.i32 1\n{adds}ret %v0\n}}\n"
    body = "bb0:\n%r: i32 = call @long { n=%n }\nret\n}\n"
    return HEAD + long + "".join(KERNELS.format(k) + body for k in range(n))


@shape(60)
def kernels_of_a_web_of_functions(n: int) -> str:
    """Every kernel comes to every function."""
    made = []
    for k in range(n):
        calls = "".join(f"%r{i}: i32 = call @f{i} {{ n=%n }}\n" for i in range(k))
        made.append(f"fn @f{k}(%n: i32) -> i32 {{\nbb0:\n{calls}ret %n\n}}\n")
    body = f"bb0:\n%r: i32 = call @f{n - 1} {{ n=%n }}\nret\n}}\n"
    return HEAD + "".join(made) + "".join(KERNELS.format(k) + body for k in range(n * 60))


@shape(11000)
def small_kernels(n: int) -> str:
    return HEAD + "".join(KERNELS.format(k) + "bb0:\nret\n}\n" for k in range(n))


@shape(8000)
def small_hosts_that_launch(n: int) -> str:
    body = "bb0:\n%l: TResult<unit, gpu.TError> = gpu.launch { kernel=@k, args=[%b, %n] }\nret\n}\n"
    made = [f"fn @f{k}(%b: gpu.TBuffer<i32>, %n: i32) -> unit {{\n{body}" for k in range(n)]
    return HEAD + KERNEL + "bb0:\nret\n}\n" + "".join(made)


@shape(25000)
def parameters(n: int) -> str:
    return HEAD + "fn @f(" + ", ".join(f"%p{k}: i32" for k in range(n)) + ") -> unit {\nbb0:\nret\n}\n"


@shape(20000)
def parameters_of_a_kernel(n: int) -> str:
    made = ", ".join(f"%p{k}: gpu.TBuffer<i32>" for k in range(n))
    return HEAD + f"gpu fn @k({made}) -> unit target(spv) {{\nbb0:\nret\n}}\n"


@shape(15000)
def calls_of_unknown_functions(n: int) -> str:
    return host(["bb0:\n", *(f"%v{k}: i32 = call @nothing{k} {{ n=%n }}\n" for k in range(n)), "ret %n\n"])


@shape(12000)
def calls_of_imported_functions(n: int) -> str:
    names = ", ".join(f"@g{k}" for k in range(n))
    calls = "".join(f"%v{k}: i32 = call @g{k} {{ n=%n }}\n" for k in range(n))
    return HEAD + f"imports {{ other::{{ {names} }} }}\n" + HOST + "bb0:\n" + calls + "ret %n\n}\n"


@shape(9000)
def calls_of_extern_functions(n: int) -> str:
    made = "".join(f"fn @g{k}(%n: i32) -> i32\n" for k in range(n))
    calls = "".join(f"%v{k}: i32 = call @g{k} {{ n=%n }}\n" for k in range(n))
    return HEAD + f'extern "c" module lib {{\n{made}}}\n' + HOST + "bb0:\n" + calls + "ret %n\n}\n"


# --- declarations ----------------------------------------------------------------------------------------------------


@shape(400000)
def variants(n: int) -> str:
    return HEAD + "enum E {\n" + "A\n" * n + "}\n"


@shape(100000)
def variants_of_own_names(n: int) -> str:
    return HEAD + "enum E {\n" + "".join(f"A{k}\n" for k in range(n)) + "}\n"


@shape(40000)
def fields(n: int) -> str:
    return HEAD + "heap struct S {\n" + "".join(f"field a{k}: i32\n" for k in range(n)) + "}\n"


@shape(40000)
def fields_of_one_name(n: int) -> str:
    return HEAD + "value struct S {\n" + "field a: i32\n" * n + "}\n"


@shape(3000)
def fields_that_a_kernel_sets(n: int) -> str:
    made = "".join(f"field a{k}: i32\n" for k in range(n))
    news = "".join(f"%v{k}: i32 = getfield {{ obj=%s, field=a{k} }}\n" for k in range(n))
    given = ", ".join(f"a{k}=%n" for k in range(n))
    return HEAD + f"value struct S {{\n{made}}}\n" + KERNEL + f"bb0:\n%s: S = new S {{ {given} }}\n{news}ret\n}}\n"


@shape(25000)
def structs(n: int) -> str:
    return HEAD + "".join(f"value struct S{k} {{ field a: i32 }}\n" for k in range(n))


@shape(20000)
def structs_that_hold_the_next(n: int) -> str:
    return HEAD + "".join(f"value struct S{k} {{ field a: S{k + 1} }}\n" for k in range(n)) + f"value struct S{n} {{ }}\n"


@shape(20000)
def structs_in_a_ring(n: int) -> str:
    return HEAD + "".join(f"value struct S{k} {{ field a: S{(k + 1) % n} }}\n" for k in range(n))


@shape(300)
def structs_that_hold_all_before(n: int) -> str:
    made = []
    for k in range(n):
        inner = " ".join(f"field a{i}: S{i}" for i in range(k))
        made.append(f"heap struct S{k} {{ {inner} }}\n")
    return HEAD + "".join(made)


@shape(7000)
def struct_parameters(n: int) -> str:
    made = [f"value struct S{k} {{ field a: i32 }}\n" for k in range(n)]
    kernels = [f"gpu fn @k{k}(%s: S{k}) -> unit target(spv) {{\nbb0:\nret\n}}\n" for k in range(n)]
    return HEAD + "".join(made) + "".join(kernels)


@shape(25000)
def sigs(n: int) -> str:
    return HEAD + "".join(f"sig S{k}(i32, i32) -> bool\n" for k in range(n))


@shape(100000)
def exports(n: int) -> str:
    return HEAD + "exports { " + ", ".join(f"@g{k}" for k in range(n)) + " }\n"


@shape(25000)
def exports_of_what_is_there(n: int) -> str:
    names = ", ".join(f"@g{k}" for k in range(n))
    return HEAD + f"exports {{ {names} }}\n" + "".join(f"global @g{k}: i32 = const.i32 1\n" for k in range(n))


@shape(80000)
def imports(n: int) -> str:
    return HEAD + "imports { " + ", ".join(f"m{k}.a" for k in range(n)) + " }\n"


@shape(40000)
def unknown_types(n: int) -> str:
    return HEAD + "heap struct S {\n" + "".join(f"field a{k}: T{k}\n" for k in range(n)) + "}\n"


@shape(30000)
def impls(n: int) -> str:
    return HEAD + "value struct S { field a: i32 }\n" + "impl hash for S = @f\n" * n


@shape(100000)
def type_arguments(n: int) -> str:
    return HEAD + "sig S(" + "Map<i32, " * 60 + "i32" + ">" * 60 + ", Map<" + "i32, " * n + "i32>) -> bool\n"


@shape(60)
def generic_parameters(n: int) -> str:
    names = ", ".join(f"T{k}" for k in range(n * 300))
    made = "".join(f"%p{k}: T{k}, " for k in range(n * 300))
    return HEAD + f"fn @f<{names}>({made}) -> unit {{\nbb0:\nret\n}}\n"


# --- text ------------------------------------------------------------------------------------------------------------


@shape(900000)
def semicolons(n: int) -> str:
    return HEAD + ";" * n


@shape(450000)
def comments(n: int) -> str:
    return HEAD + ";\n" * n


@shape(70000)
def comments_in_code(n: int) -> str:
    return host(["bb0:\n", "; a comment\n" * n, "ret %n\n"])


@shape(40000)
def comments_behind_code(n: int) -> str:
    return host(["bb0:\n", "gpu.fence ; a comment\n" * n, "ret %n\n"])


@shape(900000)
def long_string(n: int) -> str:
    return HEAD + 'global @s: Str = const.Str "' + "x" * n + '"\n'


@shape(150000)
def long_string_of_escapes(n: int) -> str:
    return HEAD + 'global @s: Str = const.Str "' + "\\u{41}" * n + '"\n'


@shape(150000)
def string_of_wrong_escapes(n: int) -> str:
    return HEAD + 'global @s: Str = const.Str "' + "\\q" * n + '"\n'


@shape(400000)
def open_strings(n: int) -> str:
    return HEAD + '"\n' * n


@shape(900000)
def long_name(n: int) -> str:
    return HEAD + "fn @" + "f" * n + "() -> unit {\nbb0:\nret\n}\n"


@shape(400000)
def long_dotted_name(n: int) -> str:
    return HEAD + "imports { " + "a." * n + "b }\n"


@shape(900000)
def long_number(n: int) -> str:
    return HEAD + "global @g: i32 = const.i32 " + "1" * n + "\n"


@shape(900000)
def blanks(n: int) -> str:
    return HEAD + " " * n


@shape(900000)
def blanks_before_a_word(n: int) -> str:
    return HEAD + " " * n + "sig T() -> bool"


@shape(450000)
def errors(n: int) -> str:
    return HEAD + "x\n" * n


@shape(900000)
def wrong_characters(n: int) -> str:
    return HEAD + "$" * n


@shape(400000)
def wrong_characters_apart(n: int) -> str:
    return HEAD + "$ " * n


@shape(900000)
def brackets(n: int) -> str:
    return HEAD + "fn @f() -> unit {\nbb0:\nf { x=" + "[" * n


@shape(60)
def brackets_that_may_be(n: int) -> str:
    item = "f { x=" + "[" * n + "%n" + "]" * n + " }\n"
    return host(["bb0:\n", item * 6000, "ret %n\n"])


@shape(200000)
def closing_braces(n: int) -> str:
    return HEAD + "x }\n" * n


@shape(15000)
def errors_in_functions(n: int) -> str:
    return HEAD + "".join(f"fn @f{k}() -> i32 {{\nbb0:\n%x: i32 = i.add {{ a=1 }}\nret\n}}\n" for k in range(n))


@shape(15000)
def functions_that_nothing_closes(n: int) -> str:
    return HEAD + "".join(f"fn @f{k}() -> i32 {{\nbb0:\n%x i32 = {{{{\n" for k in range(n))


@shape(15000)
def names_that_are_not_there(n: int) -> str:
    return kernel(["bb0:\n", *(f"%v{k}: i32 = i.add {{ a=%m{k}, b=%o{k} }}\n" for k in range(n)), "ret\n"])


@shape(15000)
def operations_that_are_not_there(n: int) -> str:
    return kernel(["bb0:\n", *(f"%v{k}: i32 = i.ad{k} {{ a=%n, b=%n }}\n" for k in range(n)), "ret\n"])


@shape(15000)
def labels_that_are_not_there(n: int) -> str:
    return kernel(["bb0:\nbr bb_0\n", *(f"bb_{k}:\ncbr %c bbx{k} bby{k}\n" for k in range(n))])


@shape(20000)
def wrong_types(n: int) -> str:
    return kernel(["bb0:\n", *(f"%v{k}: f32 = i.add {{ a=%n, b=%n }}\n" for k in range(n)), "ret\n"])


@shape(12000)
def functions_of_one_name(n: int) -> str:
    return HEAD + "fn @f() -> unit {\nbb0:\nret\n}\n" * n


@shape(60000)
def labels_of_one_name(n: int) -> str:
    return host(["bb0:\nret %n\n" * n])


@shape(20000)
def values_of_one_name(n: int) -> str:
    return kernel(["bb0:\n", "%v: i32 = i.add { a=%n, b=%n }\n" * n, "ret\n"])


@shape(20000)
def unsafe_blocks(n: int) -> str:
    return host(["bb0:\n", "unsafe { gpu.fence }\n" * n, "ret %n\n"])


@shape(60)
def unsafe_blocks_in_each_other(n: int) -> str:
    return host(["bb0:\n", ("unsafe { " * n + "gpu.fence" + " }" * n + "\n") * 1000, "ret %n\n"])


@shape(10000)
def tries(n: int) -> str:
    made = [f"%v{k}: i32 = try %r bb1\n" for k in range(n)]
    first = "fn @f(%r: TResult<i32, gpu.TError>) -> i32 {\nbb0:\n"
    return HEAD + first + "".join(made) + "ret %v0\nbb1:\n%e: gpu.TError = phi [bb0: %r.err]\nret const.i32 1\n}\n"


@shape(10000)
def shared_arrays(n: int) -> str:
    return kernel(["bb0:\n", *(f"%s{k}: ptr = gpu.shared<1, i32>\n" for k in range(n)), "ret\n"])


@shape(9000)
def barriers_in_branches(n: int) -> str:
    made = ["bb0:\n%i: u32 = gpu.thread_id { dim=const.u32 0 }\n%c: bool = icmp.eq { a=%i, b=const.u32 0 }\nbr bb_0\n"]
    made += [f"bb_{k}:\ncbr %c bb_t{k} bb_{k + 1}\nbb_t{k}:\ngpu.barrier\nbr bb_{k + 1}\n" for k in range(n)]
    return kernel([*made, f"bb_{n}:\nret\n"])


# --- what people write -----------------------------------------------------------------------------------------------

INT_OPS = ("i.add", "i.sub", "i.mul", "i.and", "i.or", "i.xor", "i.sdiv", "i.srem")
FLOAT_OPS = ("f.add", "f.sub", "f.mul", "f.div")


def _kernel(rng: random.Random, k: int) -> str:
    """A kernel with a guard, some arithmetic, a loop and an if in it."""
    type_ = rng.choice(("f32", "i32", "u32", "i64", "f64"))
    ops = FLOAT_OPS if type_[0] == "f" else INT_OPS
    zero = f"const.{type_} {'0.5' if type_[0] == 'f' else '3'}"
    compare = "fcmp.olt" if type_[0] == "f" else "icmp.ult" if type_[0] == "u" else "icmp.slt"
    lines = [
        f";;; Kernel {k} works on {type_}.",
        f"gpu fn @kernel_{k}(%data: gpu.TBuffer<{type_}>, %out: gpu.TBuffer<{type_}>, %n: u32) -> unit "
        f"target({rng.choice(('spv', 'ptx', 'hip', 'msl', 'wgsl') if type_ in ('f32', 'i32', 'u32') else ('spv', 'ptx'))}) "
        f"workgroup({rng.choice((64, 128, 256))}, 1, 1) {{",
        "bb0:",
        "    %gid: u32 = gpu.global_id { dim=const.u32 0 }",
        "    %inside: bool = icmp.ult { a=%gid, b=%n }",
        "    cbr %inside bb1 bb9",
        "bb1:",
        f"    %first: {type_} = gpu.buffer_load<{type_}> {{ buf=%data, idx=%gid }}",
        "    br bb2",
        "bb2:",
        "    %i: u32 = phi u32 { [bb1: const.u32 0], [bb6: %next] }",
        f"    %sum: {type_} = phi {type_} {{ [bb1: %first], [bb6: %joined] }}",
        f"    %more: bool = icmp.ult {{ a=%i, b=const.u32 {rng.randrange(1, 100)} }}",
        "    cbr %more bb3 bb7",
        "bb3:",
    ]
    values = ["%first", "%sum"]
    for j in range(rng.randrange(2, 12)):
        a, b = rng.choice(values), rng.choice([*values, zero])
        lines.append(f"    %t{j}: {type_} = {rng.choice(ops)} {{ a={a}, b={b} }}")
        values.append(f"%t{j}")
    lines += [
        f"    %less: bool = {compare} {{ a={values[-1]}, b={zero} }}",
        "    cbr %less bb4 bb5",
        "bb4:",
        f"    %called: {type_} = call @helper_{type_}_{rng.randrange(8)} {{ x={values[-1]}, y=%sum }}",
        "    br bb6",
        "bb5:",
        f"    %other: {type_} = {rng.choice(ops)} {{ a=%sum, b={values[-1]} }}  ; the other way",
        "    br bb6",
        "bb6:",
        f"    %joined: {type_} = phi {type_} {{ [bb4: %called], [bb5: %other] }}",
        "    %next: u32 = i.add { a=%i, b=const.u32 1 }",
        "    br bb2",
        "bb7:",
        f"    gpu.buffer_store<{type_}> {{ buf=%out, idx=%gid, v=%sum }}",
        "    br bb9",
        "bb9:",
        "    ret",
        "}",
        "",
    ]
    return "\n".join(lines)


def _helper(rng: random.Random, type_: str, k: int) -> str:
    ops = FLOAT_OPS if type_[0] == "f" else INT_OPS
    lines = [f"fn @helper_{type_}_{k}(%x: {type_}, %y: {type_}) -> {type_} {{", "bb0:"]
    values = ["%x", "%y"]
    for j in range(rng.randrange(1, 8)):
        lines.append(f"    %t{j}: {type_} = {rng.choice(ops)} {{ a={rng.choice(values)}, b={rng.choice(values)} }}")
        values.append(f"%t{j}")
    return "\n".join([*lines, f"    ret {values[-1]}", "}", ""])


def _host(rng: random.Random, k: int, kernel: int, type_: str) -> str:
    lines = [
        f";;; Fills a buffer, runs kernel {kernel} and gives what came of it.",
        f"fn @run_{k}(%dev: gpu.TDevice, %src: Array<{type_}>, %n: u32) -> TResult<Array<{type_}>, gpu.TError> {{",
        "bb0:",
        f"    %buf: gpu.TBuffer<{type_}> = try gpu.host.@buffer_from_array<{type_}> {{",
        "        dev=%dev,",
        "        src=%src,",
        "        usage_flags=const.u32 1",
        "    }",
        f"    %out: gpu.TBuffer<{type_}> = try gpu.host.@buffer_new<{type_}> {{",
        "        dev=%dev,",
        "        len=const.u64 1024,",
        "        usage_flags=const.u32 1,",
        "        hint=Auto",
        "    }",
        "    %launched: TResult<unit, gpu.TError> = gpu.launch {",
        "        device=%dev,",
        f"        kernel=@kernel_{kernel},",
        "        grid=[const.u32 4, const.u32 1, const.u32 1],",
        "        block=[const.u32 64, const.u32 1, const.u32 1],",
        "        args=[%buf, %out, %n]",
        "    }",
        "    %done: unit = try %launched",
        f"    %back: Array<{type_}> = try gpu.host.@buffer_to_array<{type_}> {{ buf=%out }}",
    ]
    for j in range(rng.randrange(0, 6)):
        lines.append(f"    %x{j}: {type_} = arr.get {{ arr=%back, idx=const.u64 {j} }}")
        lines.append(f'    call_void @println {{ text=const.Str "value {j} of run {k}" }}')
    lines += [
        f"    %ok: TResult<Array<{type_}>, gpu.TError> = enum.new<Ok> {{ v=%back }}",
        "    ret %ok",
        "}",
        "",
    ]
    return "\n".join(lines)


@shape(10000)
def realistic(lines: int) -> str:
    """A module of about ``lines`` lines: kernels of several types, functions that they call, host functions, types."""
    rng = random.Random(7)
    types = ("f32", "i32", "u32", "i64", "f64")
    made = ["module example.large\nimports { std.io::{@println} }\n"]
    made += [_helper(rng, type_, k) for type_ in types for k in range(8)]
    made += [f"value struct TPoint{k} {{\n    field x: f32\n    field y: f32\n}}\n" for k in range(20)]
    made += [f"enum TShape{k} {{\n    Empty\n    Circle {{\n        field r: f32\n    }}\n}}\n" for k in range(20)]
    count = sum(text.count("\n") for text in made)
    k = 0
    while count < lines:
        text = _kernel(rng, k)
        type_ = text.split("TBuffer<", 1)[1].split(">", 1)[0]
        made += [text, _host(rng, k, k, type_)]
        count += made[-1].count("\n") + made[-2].count("\n") + 2
        k += 1
    return "\n".join(made)
