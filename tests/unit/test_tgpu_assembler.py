"""tiny-gpu assembly as text: what it means, how it is printed, and what is refused where."""

from __future__ import annotations

import random

import pytest

from magpie.backends.tgpu.assembler import MOST_ERRORS, assemble, print_program
from magpie.backends.tgpu.isa import OPCODES, Instruction, Reg, Symbol, wrap
from magpie.diagnostics import CompileError, lookup
from tests.unit.explain_parts import parts
from tests.unit.tgpu_tools import random_program


def plain(program):
    return [(i.op, i.operands, i.comment) for i in program.instructions], dict(program.labels)


def errors_of(text):
    try:
        assemble(text)
    except CompileError as error:
        return error.diagnostics
    return ()


def test_every_instruction():
    text = """
    ; a comment alone
    start:
      SET R0, 5        ; 3:14
      set r1, R0
      ADD R2,R0,-1
      MUL R2 , 0x10, R2
      LD R3, 7
      ST R3, R2
      CMP R1, 0
    a: b: JMP start
      BEQ R0, R1, a
      BNE 1, -0x2, end
      BRZ a
      BRLT a
      BRGT end
      SYNC
      SYNCB
      SHLD R4, R6
      SHST 0, 1
      CSWAP R0, R1
    end:"""
    program = assemble(text)
    assert {i.op for i in program.instructions} == OPCODES.keys()
    assert program.labels == {"start": 0, "a": 7, "b": 7, "end": 18} and len(program) == 18
    first = program.instructions[0]
    assert first == Instruction("SET", (Reg(0), 5), "3:14", 4)
    assert program.instructions[3].operands == (Reg(2), 16, Reg(2))
    assert program.instructions[9].operands == (1, -2, "end")
    assert program.registers == 8


@pytest.mark.parametrize("seed", range(40))
def test_what_is_printed_reads_back(seed):
    program = assemble(random_program(seed))
    text = print_program(program)
    assert plain(assemble(text)) == plain(program)
    assert print_program(assemble(text)) == text


def test_comments_stay_and_stand_in_a_column():
    text = print_program(assemble("L0: SET R0, 1 ; 1:2\nADD R10, R10, R11;3:4\nJMP L0"))
    assert text == "L0:\n    SET R0, 1         ; 1:2\n    ADD R10, R10, R11 ; 3:4\n    JMP L0\n"


def test_symbols_are_numbers_that_a_launch_decides():
    program = assemble("SET R0, ${n}\nADD R0, R0, ${floordiv(n, 2)}", symbols={"n": 7})
    assert program.instructions[0].operands == (Reg(0), 7)
    assert program.instructions[1].operands == (Reg(0), Reg(0), Symbol("floordiv(n, 2)"))
    assert "${floordiv(n, 2)}" in print_program(program)
    with pytest.raises(CompileError, match="MPG_TGPU_1004"):
        assemble("SET R0, ${n}", symbols={"n": 1 << 31})


@pytest.mark.parametrize(
    ("text", "code", "line", "col", "words"),
    [
        ("SUB R0, R1, R2", 1001, 1, 0, "'SUB' is not an instruction"),
        ("  5", 1001, 1, 2, "not an instruction or a label"),
        ("SET R0, 1\n SET R0", 1001, 2, 1, "has 2 operands; 1 are given"),
        ("SET R0, 1, 2", 1001, 1, 11, "3 are given"),
        ("SET R0 1", 1001, 1, 7, "where a comma should"),
        ("SET R0,, 1", 1001, 1, 7, "where an operand should"),
        ("SET R0, 1,", 1001, 1, 9, "missing behind the comma"),
        ("SET 5, 1", 1001, 1, 4, "the result goes to a register"),
        ("SET R0, x", 1001, 1, 8, "neither a register nor a number"),
        ("SET R0, 1.5", 1001, 1, 8, "does not belong"),
        ("SET R0, 5x", 1001, 1, 8, "does not belong"),
        ("SET R0, é", 1001, 1, 8, "does not belong"),
        ("a b: SET R0, 1", 1001, 1, 0, "'a' is not an instruction"),
        ("SYNC: SYNC SYNC", 1001, 1, 11, "has 0 operands"),
        ("JMP 5", 1001, 1, 4, "leads to a label"),
        ("relu_end: SET R0, 1", 1002, 1, 0, "for a register"),
        ("R1: SET R0, 1", 1002, 1, 0, "for a register"),
        ("JMP return", 1002, 1, 4, "for a register"),
        ("JMP a", 1003, 1, 4, "no label 'a'"),
        ("a: JMP a\n a: SET R0, 1", 1003, 2, 1, "defined twice"),
        ("SET R16, 1", 1004, 1, 4, "no register R16"),
        ("SET R99999999999999999999, 1", 1004, 1, 4, "no register"),
        ("SET R0, 2147483648", 1004, 1, 8, "more than 32 bits"),
        ("SET R0, -2147483649", 1004, 1, 8, "more than 32 bits"),
        ("SET R0, " + "9" * 5000, 1004, 1, 8, "more than 32 bits"),
        ("SET R0, 0x" + "f" * 5000, 1004, 1, 8, "more than 32 bits"),
    ],
)
def test_what_is_refused(text, code, line, col, words):
    with pytest.raises(CompileError) as caught:
        assemble(text, file="k.asm")
    (found,) = caught.value.diagnostics
    assert found.code == f"MPG_TGPU_{code}"
    assert (found.loc.file, found.loc.line, found.loc.col) == ("k.asm", line, col)
    assert words in found.message


def test_a_near_label_is_named_and_all_errors_come_in_order():
    with pytest.raises(CompileError) as caught:
        assemble("loop: BRLT Loop\nSUB R0\nSET R0")
    found = caught.value.diagnostics
    assert [d.loc.line for d in found] == [1, 2, 3] and found[0].help == "there is 'loop'"
    with pytest.raises(CompileError) as caught:
        assemble("bad\n" * 100)
    assert len(caught.value.diagnostics) == MOST_ERRORS


def test_more_registers_where_the_launch_has_them():
    assert assemble("SET R31, 1", num_registers=32).registers == 32
    with pytest.raises(CompileError, match="MPG_TGPU_1004"):
        assemble("SET R8, 1", num_registers=8)


def test_mutated_text_gives_a_program_or_a_place():
    rng = random.Random(7)
    pieces = ["\0", "R", "R99", ":", ";", ",", "${", "}", "0x", "-", "\n", "é", "JMP", "SET R0,", "L0", "9" * 30, " "]
    for seed in range(1500):
        text = random_program(seed % 50)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice([*pieces, ""]) + text[at + rng.randrange(3) :]
        lines = text.split("\n")
        for found in errors_of(text):
            assert 1 <= found.loc.line <= len(lines) and 0 <= found.loc.col <= len(lines[found.loc.line - 1])


@pytest.mark.parametrize("code", ["MPG_TGPU_1001", "MPG_TGPU_1002", "MPG_TGPU_1003", "MPG_TGPU_1004"])
def test_explanations_show_what_is_refused_and_what_is_not(code):
    for example in parts(lookup(code).text).examples:
        assert [d.code for d in errors_of(example.text)] == ([] if example.good else [code])


@pytest.mark.parametrize("n", [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 3 * 2**32 + 5, -(2**40)])
def test_wrap_is_two_s_complement(n):
    assert wrap(n) == int.from_bytes((n % 2**32).to_bytes(4, "little"), "little", signed=True)
