"""Kernels on tiny-gpu: their assembly as the description of the target has it, their results, and what is refused."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import magpie as mp
from magpie.backends.tgpu.assembler import assemble, print_program
from magpie.backends.tgpu.code import LOCAL_ID, Code, Label, Virtual
from magpie.backends.tgpu.estimate import Bounds
from magpie.backends.tgpu.interp import interpret
from magpie.backends.tgpu.isa import RESERVED, Reg
from magpie.backends.tgpu.kernel import compile_for, compile_open, ends_with_if
from magpie.backends.tgpu.launch import parse_launch
from magpie.backends.tgpu.registers import TooManyValues, allocate
from magpie.backends.tgpu.runner import run_launch
from magpie.backends.tgpu.simulator import simulate
from magpie.backends.tgpu.specialise import Binding, Place, evaluate_op
from magpie.backends.tgpu.straighten import straighten
from magpie.dtypes import i32, index
from magpie.ir.layout import HostEnv, evaluate
from magpie.ir.nodes import Buffer
from magpie.runtime.inspection import _lowered
from tests.unit.kir import kernel as build
from tests.unit.tgpu_tools import random_program


def ir_of(kernel):
    return _lowered(kernel, (), {}).kernel


def three_of(dims):
    return (*dims, 1, 1)[:3] if isinstance(dims, tuple) else (dims, 1, 1)


def bind(grid, block, arrays, **scalars):
    """A binding for arrays that lie one after the other, and the memory."""
    places, at = {}, 0
    for name, array in arrays.items():
        places[name] = Place.contiguous(at, array.shape)
        at += array.size
    memory = np.concatenate([a.astype(np.int32).reshape(-1) for a in arrays.values()])
    return Binding(three_of(grid), three_of(block), places, scalars), memory


def lines(assembly):
    return [line.split(";")[0].strip() for line in assembly.text.splitlines()]


@mp.kernel
def matmul_relu(a: mp.Array[mp.i8, 2], b: mp.Array[mp.i8, 2], c: mp.Array[mp.i32, 2]):
    i, j = mp.workgroup_id(0), mp.thread_id(0)
    acc = mp.i32(0)
    for k in range(a.shape[1]):
        acc += mp.i32(a[i, k]) * mp.i32(b[k, j])
    c[i, j] = max(acc, 0)


def test_a_loop_and_a_relu_are_as_described():
    a, b, c = np.zeros((4, 8), np.int8), np.zeros((8, 6), np.int8), np.zeros((4, 6), np.int32)
    binding, _ = bind(4, 6, {"a": a, "b": b, "c": c})
    assembly = compile_for(ir_of(matmul_relu), binding, strict=True)
    assert lines(assembly) == [
        "SET R0, 0", "SET R1, 0",
        "L0:",
        "MUL R2, R5, 8", "ADD R2, R2, R1", "LD R2, R2",
        "MUL R3, R1, 6", "ADD R3, R3, R6", "ADD R3, R3, 32", "LD R3, R3",
        "MUL R2, R2, R3", "ADD R0, R0, R2",
        "ADD R1, R1, 1", "CMP R1, 8", "BRLT L0",
        "CMP R0, 0", "BRGT L1", "SET R0, 0",
        "L1:",
        "MUL R1, R5, 6", "ADD R1, R1, R6", "ADD R1, R1, 80", "ST R1, R0",
    ]  # fmt: skip
    assert assembly.num_registers == 16 and assembly.shared_size == 0 and not assembly.warnings
    code = matmul_relu.fn if hasattr(matmul_relu, "fn") else matmul_relu.__wrapped__
    first = code.__code__.co_firstlineno
    places = [i.comment for i in assembly.program.instructions]
    assert places[0] == f"{first + 3}:5" and places[2] == f"{first + 5}:23" and places[-1] == f"{first + 6}:5"


def test_its_values_and_costs():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 8), (8, 6)))
    c = np.zeros((4, 6), np.int32)
    matmul_relu.launch(grid=4, block=6, args=(a, b, c), backend="tgpu")
    product = a.astype(np.int32) @ b.astype(np.int32)
    assert (c == np.maximum(product, 0)).all()
    last = mp.device("tgpu").driver.last
    # 8 trips are 8 cycles; a thread that does not clamp branches over the SET, which is one cycle more.
    assert last.thread_cycles.reshape(4, 6).tolist() == (8 + (product > 0)).tolist()
    assert last.thread_instructions.reshape(4, 6).tolist() == (2 + 8 * 12 + 2 + 4 + (product <= 0)).tolist()
    assert last.reserved_intact


@mp.kernel
def staged(x: mp.Array[mp.i32, 2], y: mp.Array[mp.i32, 2]):
    i, j = mp.workgroup_id(0), mp.thread_id(0)
    row = mp.shared(8, mp.i32)
    row[j] = x[i, j]
    mp.barrier()
    y[i, j] = row[mp.i32(7) - mp.i32(j)] - row[j]


def test_shared_memory_and_a_barrier():
    x = np.arange(24, dtype=np.int32).reshape(3, 8) ** 2
    y = np.zeros_like(x)
    staged.launch(grid=3, block=8, args=(x, y), backend="tgpu")
    assert (y == x[:, ::-1] - x).all()
    counts = mp.device("tgpu").driver.last.opcodes
    assert counts["SYNCB"] == 24 and counts["SHST"] == 24 and counts["SHLD"] == 48 and "SUB" not in counts
    binding, _ = bind(3, 8, {"x": x, "y": y})
    assert compile_for(ir_of(staged), binding).shared_size == 8


@mp.kernel
def guarded(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    i = mp.global_id(0)
    if i < n:
        y[i] = 3 * x[i] + n // 2


def test_what_the_launch_knows_is_in_the_code():
    x = np.arange(10, dtype=np.int32)
    binding, _ = bind(2, 5, {"x": x, "y": x}, n=10)
    assert lines(compile_for(ir_of(guarded), binding)) == [
        "LD R0, R7", "MUL R0, R0, 3", "ADD R0, R0, 5", "ADD R1, R7, 10", "ST R1, R0",
    ]  # fmt: skip
    binding, _ = bind(2, 6, {"x": x, "y": x}, n=10)
    found = lines(compile_for(ir_of(guarded), binding))
    # A branch never leads to the end of the program: behind the guarded part stands what changes nothing.
    assert found[:2] == ["CMP R7, 9", "BRGT L0"] and found[-2:] == ["L0:", "CMP 0, 0"]


def test_a_kernel_that_ends_with_an_if_is_refused_where_that_is_asked():
    assert ends_with_if(ir_of(guarded)) is not None and ends_with_if(ir_of(matmul_relu)) is None
    binding, _ = bind(2, 6, {"x": np.zeros(10), "y": np.zeros(10)}, n=10)
    with pytest.raises(mp.CompileError, match="MPG_TGPU_2006"):
        compile_for(ir_of(guarded), binding, strict=True)


KERNELS = {}


def sample(*shapes, grid, block, **scalars):
    def keep(fn):
        KERNELS[fn.__name__] = (mp.kernel(fn), shapes, grid, block, scalars)
        return fn

    return keep


@sample((4, 6), (4, 6), grid=4, block=6)
def differences(x: mp.Array[mp.i32, 2], y: mp.Array[mp.i32, 2]):
    i, j = mp.workgroup_id(0), mp.thread_id(0)
    y[i, j] = abs(x[i, j]) - min(x[i, j], 3) - x[x.shape[0] // 2, j]


@sample((40,), (40,), grid=(2, 2), block=(5, 2), n=40)
def flat_2d(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    at = mp.global_id(1) * 10 + mp.global_id(0)
    y[at] = x[at] * mp.i32(mp.thread_id(1)) + mp.i32(mp.workgroup_id(0))


@sample((30,), (30,), grid=(2, 1, 3), block=(1, 5), n=7)
def flat_3d(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    at = (mp.workgroup_id(2) * 5 + mp.thread_id(1)) * 2 + mp.workgroup_id(0)
    y[at] = x[at] + n


@sample((8, 16), (8,), grid=1, block=8, n=3)
def rows(x: mp.Array[mp.i32, 2], y: mp.Array[mp.i32], n: mp.i32):
    i = mp.thread_id(0)
    best, at, seen = x[i, 0], mp.i32(0), mp.i32(0)
    for k in range(x.shape[1]):
        if x[i, k] == n:
            continue
        if x[i, k] > 40 and seen > 2:
            break
        if x[i, k] > best or (x[i, k] == best and not (at > 5)):
            best, at = x[i, k], mp.i32(k)
        seen += 1
    y[i] = best * 100 + at * 10 + seen


@sample((16,), (16,), grid=2, block=8, n=5)
def whiles(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    i = mp.global_id(0)
    a, b, count = abs(x[i]) + 1, mp.i32(i) + 1, mp.i32(0)
    while a != b:
        if a > b:
            a, b = a - b, b
        else:
            a, b = b - a, a
        count += 1
        if count == 30:
            break
    y[i] = a * n + count


@sample((12,), (12,), grid=2, block=6, n=2)
def swaps(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    i = mp.global_id(0)
    a, b, c = mp.i32(1), x[i], mp.i32(7)
    for k in range(min(mp.i32(i), 5)):
        a, b, c = b, c, a + b
    for k in range(n, 9, 2):
        a = a + b if k < 5 else b - c
    for k in range(9, i, -3):
        c += mp.i32(k)
    flag = a > b
    y[i] = a + 3 * c + mp.i32(flag) + mp.i32(flag != (b < c)) + mp.i32(not flag)


@sample((10,), (10,), grid=1, block=10, n=3)
def early(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    i = mp.thread_id(0)
    if x[i] < 0:
        y[i] = -1
        return
    for k in range(n):
        if x[i] == k:
            return
    y[i] = mp.select(x[i] > n, x[i] << 3, n)


@sample((9,), (9,), grid=3, block=3, n=3)
def unsigned(x: mp.Array[mp.u32], y: mp.Array[mp.u32], n: mp.i32):
    i = mp.global_id(0)
    a, b = x[i] * mp.u32(2000000011), x[0] + mp.u32(4000000000)
    y[i] = max(a, b) - min(a, b) if a >= b else mp.u32(n)


@sample((32,), (32,), grid=4, block=8, n=1)
def clamped(x: mp.Array[mp.i8], y: mp.Array[mp.i8], n: mp.i32):
    i = mp.global_id(0)
    y[i] = mp.i8(min(max(mp.i32(x[i]) * 5 - 7, -128), 127))


@sample((40,), (40,), grid=2, block=4, n=3)
def strides(x: mp.Array[mp.i32], y: mp.Array[mp.i32], n: mp.i32):
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        total = mp.i32(0)
        for k in range(0, 10, n):
            total += (x[i] + mp.i32(k)) << n
        for k in range(n - 1, 20, 4):
            total += mp.i32(k) * x[i]
        for k in range(12, 1 - n, -n):
            total -= mp.i32(k)
        for k in range(i, n - 1, -1):
            total += mp.i32(k) << 1
        y[i] = total


def arguments(name, seed):
    kernel, shapes, grid, block, scalars = KERNELS[name]
    dtypes = {"unsigned": np.uint32, "clamped": np.int8}
    rng = np.random.default_rng(seed)
    return (
        kernel,
        [rng.integers(0 if name == "unsigned" else -50, 50, s).astype(dtypes.get(name, np.int32)) for s in shapes],
        grid,
        block,
        scalars,
    )


@pytest.mark.filterwarnings("ignore::magpie.CompileWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KERNELS)
def test_launches_equal_the_interpreter(name, seed):
    kernel, arrays, grid, block, scalars = arguments(name, seed)
    if "n" not in [p.name for p in kernel.parameters]:
        scalars = {}
    results = []
    for backend in ("interp", "tgpu"):
        copies = [a.copy() for a in arrays]
        kernel.launch(grid=grid, block=block, args=(*copies, *scalars.values()), backend=backend)
        results.append([c.tolist() for c in copies])
    assert results[0] == results[1]


@pytest.mark.parametrize("name", KERNELS)
def test_open_code_gives_what_code_for_the_launch_gives(name):
    kernel, arrays, grid, block, scalars = arguments(name, 9)
    binding, memory = bind(grid, block, dict(zip(("x", "y"), arrays, strict=True)), **scalars)
    ir = ir_of(kernel)
    made, opened = compile_for(ir, binding), compile_open(ir)
    env = HostEnv(
        dict(scalars),
        {n: p.shape for n, p in binding.buffers.items()},
        {n: p.strides for n, p in binding.buffers.items()},
        binding.block,
        binding.grid,
    )
    numbers = {}
    for text, expr in opened.symbols.items():
        numbers[text] = evaluate(_with_addresses(expr, binding), env)
    filled = assemble(opened.text, symbols=numbers, num_registers=opened.num_registers)
    flat = int(np.prod(binding.grid)), int(np.prod(binding.block))
    runs = [simulate(p, flat, memory, shared_size=8) for p in (made.program, filled)]
    assert runs[0].memory.tolist() == runs[1].memory.tolist()
    assert interpret(made.program, flat, memory).opcodes == runs[0].opcodes


def _with_addresses(expr, binding):
    if isinstance(expr, tuple):
        if expr[0] == "addr":
            return ("const", binding.buffers[expr[1]].addr)
        return tuple(_with_addresses(e, binding) for e in expr)
    return expr


@pytest.mark.parametrize("name", KERNELS)
def test_registers_of_the_machine_are_only_read_and_labels_are_numbered(name):
    kernel, arrays, grid, block, scalars = arguments(name, 0)
    binding, _ = bind(grid, block, dict(zip(("x", "y"), arrays, strict=True)), **scalars)
    program = compile_for(ir_of(kernel), binding).program
    for instruction in program.instructions:
        if instruction.row.dest:
            assert instruction.operands[0].number not in RESERVED
        if instruction.row.kind == "branch":
            assert program.target(instruction) < len(program)
        assert instruction.comment.replace(":", "").isdigit()
    assert list(program.labels) == [f"L{i}" for i in range(len(program.labels))]
    assert print_program(assemble(print_program(program), num_registers=256)) == print_program(program)


def refused(fn, *found):
    """The kernel is refused with these codes at these lines below its `def`, when it is compiled and when it is launched."""
    kernel = mp.kernel(fn)
    with pytest.raises(mp.CompileError) as caught:
        kernel.compile(backend="tgpu")
    first = fn.__code__.co_firstlineno
    assert [(d.code, d.loc.line - first) for d in caught.value.diagnostics] == [(f"MPG_{c}", at) for c, at in found]
    return caught.value


def test_what_does_not_fit_is_named_at_its_line():
    def divides(x: mp.Array[mp.i32], y: mp.Array[mp.i32]):
        i = mp.global_id(0)
        y[i] = x[i] // 3 + x[i] % 5
        y[i] = x[i] >> 2
        y[i] = x[i] & 3
        y[i] = x[i] << x[0]

    error = refused(divides, ("TGPU_2001", 2), ("TGPU_2001", 2), ("TGPU_2001", 3), ("TGPU_2001", 4), ("TGPU_2001", 5))
    assert "`floordiv`" in str(error) and "halve a number that the launch knows" in str(error)

    def floats(x: mp.Array[mp.f32], y: mp.Array[mp.i32]):
        i = mp.global_id(0)
        y[i] = mp.i32(x[i])

    refused(floats, ("CORE_1200", 2))

    def atomics(x: mp.Array[mp.i32]):
        mp.atomic_add(x, 0, 1)

    refused(atomics, ("CORE_1200", 1))

    def narrow(x: mp.Array[mp.i8], y: mp.Array[mp.i8]):
        i = mp.global_id(0)
        y[i] = x[i] + x[0]
        y[i] = mp.i8(mp.i32(x[i]) * 3)

    assert "clamp with min and max" in str(refused(narrow, ("TGPU_2003", 2), ("TGPU_2003", 3)))

    def waits(x: mp.Array[mp.i32]):
        for _ in range(3):
            mp.barrier()
        x[mp.thread_id(0)] = 1

    refused(waits, ("TGPU_2004", 2))

    def own(x: mp.Array[mp.i32]):
        a = mp.local(4, mp.i32)
        a[0] = x[0]
        x[mp.thread_id(0)] = a[x[1]]

    assert {d.code for d in refused(own, ("TGPU_2001", 2), ("TGPU_2001", 3)).diagnostics} == {"MPG_TGPU_2001"}


def test_a_range_whose_direction_is_not_known():
    def ranges(x: mp.Array[mp.i32], n: mp.i32):
        for k in range(mp.global_id(0), 9, n):
            x[k] = n

    assert "goes up or down" in str(refused(ranges, ("TGPU_2001", 1)))

    def shifts(x: mp.Array[mp.i32], n: mp.i32):
        x[mp.global_id(0)] = n << x[0]

    assert "that the launch does not know" in str(refused(shifts, ("TGPU_2001", 1)))


def test_a_launch_warns_where_64_bits_may_be_needed():
    @mp.kernel
    def k(x: mp.Array[mp.i32], y: mp.Array[mp.i32]):
        acc = 0
        for i in range(x.shape[0]):
            acc += i * x[i]
        y[mp.thread_id(0)] = 1 if acc > 0 else 2

    y = np.zeros(2, np.int32)
    with pytest.warns(mp.CompileWarning, match="MPG_TGPU_2005"):
        k.launch(grid=1, block=2, args=(np.array([3, -4, 3], np.int32), y), backend="tgpu")
    assert y.tolist() == [1, 1]


def warned(fn, *args):
    """The lines below its `def` at which a launch of the kernel warns."""
    lines = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mp.kernel(fn).launch(grid=1, block=2, args=args, backend="tgpu")
    for warning in caught:
        assert warning.message.diagnostic.code == "MPG_TGPU_2005"
        lines.append(warning.message.diagnostic.loc.line - fn.__code__.co_firstlineno)
    return lines


def test_counters_of_while_loops_need_no_warning():
    def counts(x: mp.Array[mp.i32], n: mp.i32):
        k = 0
        while k < x.shape[0] and n < 100:
            j = 2
            while not (j >= x.shape[0]):
                j += 3
                if j == 4:
                    j += 1
            k += 1
        x[mp.thread_id(0)] = 1 if k > 2 else 0

    def endless(x: mp.Array[mp.i32], n: mp.i32):
        k = 0
        while k * 2 < x.shape[0]:
            k += 1
        x[mp.thread_id(0)] = 1 if k > 2 else 0

    def either(x: mp.Array[mp.i32], n: mp.i32):
        k = 0
        while k < x.shape[0] or x[0] > k:
            k += 1

    def doubled(x: mp.Array[mp.i32], n: mp.i32):
        k = 1
        while k < x.shape[0]:
            k = k + k
        x[mp.thread_id(0)] = mp.i32(k)

    x = np.arange(8, dtype=np.int32)
    assert warned(counts, x.copy(), 6) == []
    assert warned(endless, x.copy(), 6) == [2, 4]
    assert warned(either, x.copy(), 6) == [2, 2]
    assert warned(doubled, x.copy(), 6) == [2]


def test_too_many_values_at_once():
    def body(b):
        x = b.tid()
        values = [b.load(buffer, b.i(k)) for k in range(300)]
        total = values[0]
        for value in values[1:]:
            total = b.emit("add", total, value)
        b.store(buffer, (x,), total)

    buffer = Buffer("x", i32, 1, "read_write")
    kernel = build([buffer], body)
    binding = Binding((1, 1, 1), (4, 1, 1), {"x": Place.contiguous(0, (300,))}, {})
    with pytest.raises(mp.CompileError, match="MPG_TGPU_2007"):
        compile_for(kernel, binding)


def test_more_than_sixteen_registers_where_they_are_needed():
    @mp.kernel
    def k(x: mp.Array[mp.i32], y: mp.Array[mp.i32]):
        for k in mp.static_range(20):
            x[k + 20 * mp.thread_id(0)] = k * k
        a = x[0]
        b, c, d, e, f, g, h = x[1], x[2], x[3], x[4], x[5], x[6], x[7]
        i, j, k1, l, m, n, o, p = x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]
        y[mp.thread_id(0)] = a * (b + c * (d + e * (f - g * (h + i * (j - k1 * (l + m * (n - o * p)))))))

    x, y, z = np.zeros(40, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32)
    k.launch(grid=1, block=2, args=(x, y), backend="tgpu")
    k.launch(grid=1, block=2, args=(x, z), backend="interp")
    assert y.tolist() == z.tolist()


def test_the_allocator_gives_the_machine_s_registers_to_nobody():
    with pytest.raises(AssertionError, match="reserved"):
        Code().emit("ADD", LOCAL_ID, LOCAL_ID, 1)
    code, values = Code(), [Virtual() for _ in range(40)]
    for value in values:
        code.emit("SET", value, 1)
    for value in values:
        code.emit("ST", 0, value)
    found = allocate(code)
    assert set(found.values()) == {*range(43)} - RESERVED
    many = Code()
    values = [Virtual() for _ in range(254)]
    for value in values:
        many.emit("SET", value, 1)
    for value in values:
        many.emit("ST", 0, value)
    with pytest.raises(TooManyValues):
        allocate(many)


@pytest.mark.parametrize("seed", range(30))
def test_allocation_keeps_what_random_code_computes(seed):
    """Straight code over many values, against a dictionary of them."""
    rng = random.Random(seed)
    code, values, numbers = Code(), [Virtual() for _ in range(30)], {}
    for _ in range(200):
        value = rng.choice(values)
        known = [v for v in values if v in numbers]
        a, b = (rng.choice(known) if known and rng.random() < 0.8 else rng.randrange(9) for _ in range(2))
        x, y = (numbers.get(o, o) for o in (a, b))
        op = rng.choice(["SET", "ADD", "MUL"])
        code.emit(op, value, *((a,) if op == "SET" else (a, b)))
        numbers[value] = {"SET": x, "ADD": x + y, "MUL": x * y}[op] if op != "SET" else x
        numbers[value] = (numbers[value] + 2**31) % 2**32 - 2**31
    for at, value in enumerate(numbers):
        code.emit("ST", at, value)
    found = allocate(code)
    text = "\n".join(
        f"{item.op} {', '.join(f'R{found[o]}' if isinstance(o, Virtual) else str(o) for o in item.operands)}"
        for item in code.items
    )
    memory = simulate(assemble(text, num_registers=64), (1, 1), [0] * 30, num_registers=64).memory
    assert memory.tolist()[: len(numbers)] == list(numbers.values())


def code_of(program):
    """A program before registers are given out; registers keep their numbers."""
    values, labels, code = {}, {name: Label() for name in program.labels}, Code()
    for at in range(len(program) + 1):
        for name, address in program.labels.items():
            if address == at:
                code.place(labels[name])
        if at < len(program):
            instruction = program.instructions[at]
            operands = [
                values.setdefault(o.number, Virtual(o.number if o.number in RESERVED else None))
                if isinstance(o, Reg)
                else labels.get(o, o)
                for o in instruction.operands
            ]
            code.emit(instruction.op, *operands)
    return code, values, labels


@pytest.mark.parametrize("seed", range(40))
def test_straightening_keeps_what_a_program_does(seed):
    text = "\n".join(line for line in random_program(seed, racy=False).splitlines() if ": " not in line)
    before = assemble(text)
    code, values, labels = code_of(before)
    straighten(code)
    numbers = {value: number for number, value in values.items()}
    names = {label: name for name, label in labels.items()}
    lines = []
    for item in code.items:
        if isinstance(item, Label):
            lines.append(f"{names[item]}:")
            continue
        shown = [f"R{numbers[o]}" if isinstance(o, Virtual) else names.get(o, o) for o in item.operands]
        lines.append(f"{item.op} {', '.join(map(str, shown))}")
    after = assemble("\n".join(lines))
    memory = np.random.default_rng(seed).integers(-9, 9, 64)
    runs = [simulate(p, (2, 4), memory, num_registers=16, shared_size=8) for p in (before, after)]
    assert runs[0].memory.tolist() == runs[1].memory.tolist() and runs[1].cycles <= runs[0].cycles
    assert len(after) <= len(before)


def straightened(text):
    code, _, _ = code_of(assemble(text))
    straighten(code)
    return [item.op for item in code.items if not isinstance(item, Label)]


def test_branches_are_straightened():
    assert straightened("BEQ R0, 0, a\nJMP b\na: SET R0, 1\nb: SET R1, 1") == ["BNE", "SET", "SET"]
    assert straightened("JMP a\nSET R0, 1\na: SET R1, 1") == ["SET"]
    assert straightened("BRZ a\nSET R0, 1\nJMP b\na: JMP c\nb: SET R2, 1\nc: SET R1, 1") == ["BRZ", "SET", "SET", "SET"]
    # An endless loop stays one: a jump to itself would not be taken.
    assert straightened("a: BEQ R0, 0, b\nb: JMP a") == ["CMP", "JMP"]
    assert straightened("a: BEQ R0, 0, b\nJMP a\nb: SET R0, 1") == ["BEQ", "JMP", "SET"]


@pytest.mark.parametrize(
    ("op", "type_", "values", "expected"),
    [
        ("floordiv", i32, [-7, 2], -4), ("floordiv", i32, [7, 0], 0), ("floordiv", i32, [-(2**31), -1], -(2**31)),
        ("tdiv", i32, [-7, 2], -3), ("trem", i32, [-7, 2], -1), ("mod", i32, [-7, 2], 1), ("mod", i32, [5, 0], 0),
        ("shl", i32, [1, 33], 2), ("shr", i32, [-8, 1], -4), ("clz", i32, [1], 31), ("ctz", i32, [0], 32),
        ("popcount", i32, [-1], 32), ("not", i32, [5], -6), ("pow", i32, [3, 40], (3**40 + 2**31) % 2**32 - 2**31),
        ("pow", i32, [-1, -3], -1), ("trip_count", index, [10, 0, -3], 4), ("trip_count", index, [0, 5, 0], 0),
        ("abs", i32, [-(2**31)], -(2**31)), ("fma", i32, [1, 2, 3], None),
    ],
)  # fmt: skip
def test_what_is_computed_before_has_the_meaning_of_the_op_table(op, type_, values, expected):
    assert evaluate_op(op, type_, type_, values) == expected


@mp.struct
class Line:
    a: mp.i32
    b: mp.i16


@mp.kernel
def along(x: mp.Array[mp.i32], line: Line, flag: mp.bool_):
    i = mp.global_id(0)
    if flag:
        x[i] = line.a * x[i] + line.b


def test_structs_and_flags_are_numbers_in_the_code():
    x = np.arange(6, dtype=np.int32)
    for flag in (True, False):
        along.launch(grid=2, block=3, args=(x, Line(3, -2), flag), backend="tgpu")
    assert x.tolist() == [3 * i - 2 for i in range(6)]


def test_views_and_arrays_that_overlap():
    @mp.kernel
    def shift(x: mp.Array[mp.i32], y: mp.Array[mp.i32]):
        i = mp.thread_id(0)
        v = x[i]
        y[i] = v

    base = np.arange(12, dtype=np.int32)
    shift.launch(grid=1, block=4, args=(base[8::-2][:4], base[1::3]), backend="tgpu")
    expected = np.arange(12, dtype=np.int32)
    # Threads of one step go in order: 8 to place 1, then 6 to 4, then what is at 4 now to 7, and 2 to 10.
    expected[1], expected[4], expected[7], expected[10] = 8, 6, 6, 2
    assert base.tolist() == expected.tolist()


def test_the_last_launch_as_a_document():
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 8), (8, 6)))
    c = np.zeros((4, 6), np.int32)
    driver = mp.device("tgpu").driver
    matmul_relu.launch(grid=4, block=6, args=(a, b, c), backend="tgpu")
    launch, inputs = driver.last_launch()
    again = run_launch(parse_launch(launch.dumps()), inputs)
    assert launch.outputs == ("c",) and (again.outputs["c"] == c).all() and again.cycles == driver.last.cycles
    assert (inputs["a"] == a).all() and inputs["a"].dtype == np.int8 and not inputs["c"].any()
    assert driver.last.instructions in Bounds(**launch.estimate["total"]["instructions"])
    same = np.arange(9, dtype=np.int32)
    guarded.launch(grid=1, block=8, args=(same[:8], same[1:], 8), backend="tgpu")
    with pytest.raises(mp.GpuError, match="overlap"):
        driver.last_launch()
    with pytest.raises(mp.GpuError, match="nothing was launched"):
        type(driver)().last_launch()


def test_the_device_and_its_artifact(tmp_path):
    device = mp.device("tgpu")
    assert device.software and device.id == "tgpu:0" and "f32" not in device.capabilities
    assert device.id in [d.id for d in mp.devices()]
    artifact = matmul_relu.compile(backend="tgpu")
    assert artifact.extension == ".tgpu" and "CMP R1, ${max(0, a.shape[1])}" in artifact.text
    assert matmul_relu.inspect("tgpu", backend="tgpu") == artifact.text
    with pytest.raises(mp.CompileError, match="MPG_CORE_1200"):
        matmul_relu.compile(backend="tgpu", checked=True)


def test_a_kernel_of_the_mp_language(tmp_path):
    file = tmp_path / "scale.mp"
    file.write_text(
        "module t.scale\n\ngpu fn @scale(%x: gpu.TBuffer<i32>, %n: u32) -> unit target(cpu) workgroup(4, 1, 1) {\n"
        "bb0:\n  %g: u32 = gpu.global_id { dim=const.u32 0 }\n  %c: bool = icmp.ult { lhs=%g, rhs=%n }\n"
        "  cbr %c bb1 bb2\nbb1:\n  %v: i32 = gpu.buffer_load<i32> { buf=%x, idx=%g }\n"
        "  %w: i32 = i.mul.wrap { lhs=%v, rhs=const.i32 3 }\n  gpu.buffer_store<i32> { buf=%x, idx=%g, v=%w }\n"
        "  br bb2\nbb2:\n  ret\n}\n"
    )
    module = mp.load_module(str(file))
    x = np.arange(8, dtype=np.int32)
    module.scale.launch(grid=2, block=4, args=(x, 7), backend="tgpu")
    assert x.tolist() == [0, 3, 6, 9, 12, 15, 18, 7]
