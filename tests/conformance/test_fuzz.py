"""Differential fuzz: random kernels give the interpreter's bits on every other backend present, and random barrier kernels
what their model gives.

A failure prints the seed and saves the smallest kernel found to ``failures/``; running that file shows it again.
``make test`` runs a fixed sample, MAGPIE_TEST_ALL=1 many more, MAGPIE_TEST_SEED another sample.
"""

from __future__ import annotations

import random
import re
import time
import warnings
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

import magpie as mp
from magpie import knobs

from . import fuzz_barriers
from .barriergen import BarrierGenerator
from .fuzz import arguments, differ, is_strided, load, partners, save, shapes_of, split
from .fuzzgen import Generator
from .harness import full_size, targets
from .matrix import GANGS

SHARDS = 12
KERNELS = 20 if not full_size() else 400  # a shard; 240 in all
BARRIER_SHARDS = 4
BARRIER_KERNELS = 5 if not full_size() else 300

SHRINK_SECONDS = 40


@st.composite
def programs(draw):
    """One random program; every choice is drawn from hypothesis, so that it can shrink."""
    return Generator(lambda n: draw(st.integers(0, n - 1))).program()


@st.composite
def barrier_programs(draw):
    """One random program around barriers."""
    return BarrierGenerator(lambda n: draw(st.integers(0, n - 1))).program()


def _search(strategy, examples, start, examine, keep) -> None:
    """``examine`` each of ``examples`` programs; the smallest that fails is kept in a file and reported."""
    outcomes: dict[str, Exception] = {}
    deadline = [float("inf")]

    @with_seed(start)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(strategy)
    def kernels_agree(program):
        # Once a failure is found, shrinking goes on for a limited time: afterwards only what is known to fail does.
        if program.source in outcomes:
            raise outcomes[program.source]
        if time.monotonic() > deadline[0]:
            return
        try:
            examine(program)
        except Exception as error:
            if not outcomes:
                deadline[0] = time.monotonic() + SHRINK_SECONDS
            file = keep(program, f"{type(error).__name__}: {error}")
            text = f"MAGPIE_TEST_SEED={knobs.test_seed()}, saved to {file}: {type(error).__name__}: {error}"
            outcomes[program.source] = AssertionError(text)
            raise outcomes[program.source] from error

    kernels_agree()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_kernels_give_the_same_bits(shard, tmp_path):
    base, others = split(list(targets()))
    if not others:
        pytest.skip("only the reference backend is present")

    def examine(program):
        kernel = load(program, tmp_path).kernel
        chosen, shapes = partners(program, others), shapes_of(program)
        differ(kernel, program.types, program.atomics, base, chosen, is_strided(program), shapes)

    def keep(program, message):
        return save(program, f"shard{shard}", message, knobs.test_seed())

    _search(programs(), KERNELS, knobs.test_seed() * 1000 + shard, examine, keep)


@pytest.mark.parametrize("shard", range(BARRIER_SHARDS))
def test_random_barrier_kernels_do_what_their_models_do(shard, tmp_path):
    turn = [0]

    def examine(program):
        turn[0] += 1
        kernel = fuzz_barriers.load(program, tmp_path)
        fuzz_barriers.judge(program, kernel, (GANGS[(turn[0] + shard) % 4],), turn[0])

    def keep(program, message):
        return fuzz_barriers.save(program, f"barriers{shard}", message)

    _search(barrier_programs(), BARRIER_KERNELS, knobs.test_seed() * 1000 + shard, examine, keep)


def test_the_sanitizer_finds_nothing_in_random_barrier_kernels(tmp_path):
    """A barrier stands wherever the next access would race."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        for k in range(15 if not full_size() else 300):
            program = BarrierGenerator(random.Random(knobs.test_seed() * 100_000 + k).randrange).program()
            block = 33 if program.dims == 1 else (5, 3, 2)
            args = fuzz_barriers.arguments(2, 33 if program.dims == 1 else 30, k)
            checks = ("race", "bounds", "uninit", "barrier")
            reports = list(fuzz_barriers.load(program, tmp_path).sanitize(grid=2, block=block, args=args, checks=checks))
            if reports:
                raise AssertionError(f"saved to {fuzz_barriers.save(program, 'barriers', str(reports[0]))}: {reports[0]}")


@pytest.mark.parametrize("part", range(2))
def test_the_sanitizer_finds_nothing_in_random_kernels(part, tmp_path):
    """They have no race, no access out of bounds and no uninitialised read by construction."""
    count = 20 if not full_size() else 300
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        for k in range(count):
            seed = knobs.test_seed() * 100_000 + part * 10_000 + k
            program = Generator(random.Random(seed).randrange).program()
            kernel = load(program, tmp_path).kernel
            args = arguments(program.types, program.atomics, 66, k)
            reports = list(kernel.sanitize(grid=2, block=33, args=args, checks=("race", "bounds", "uninit", "barrier")))
            if reports:
                file = save(program, f"sanitizer{part}", str(reports[0]), seed)
                raise AssertionError(f"saved to {file}: {reports[0]}")


# an exchange at the top level of a kernel, where each item reads another's element just after the barrier
_EXCHANGE = re.compile(r"^    mp\.barrier\(\)\n(?=    v\d+ = s\[\(*(?:63 - t|\(t \+ 1\) % 64|t \^ 1)\))", re.MULTILINE)


def test_a_barrier_taken_out_of_a_random_kernel_is_a_reported_race(tmp_path):
    found = 0
    seed = knobs.test_seed() * 100_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        while found < (10 if not full_size() else 200):
            seed += 1
            program = Generator(random.Random(seed).randrange).program()
            source = _EXCHANGE.sub("", program.source, count=1)
            if source == program.source:
                continue
            found += 1
            program = replace(program, source=source)
            args = arguments(program.types, program.atomics, 64, 1)
            reports = list(load(program, tmp_path).kernel.sanitize(grid=1, block=64, args=args))
            if not any(r.code == "MPG_SAN_1002" for r in reports):
                raise AssertionError(f"no race reported: saved to {save(program, 'mutant', 'no race reported', seed)}")
