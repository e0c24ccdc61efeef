"""Differential fuzz: random kernels give the interpreter's bits on every other backend present.

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

from .fuzz import arguments, differ, is_strided, load, partners, save, shapes_of, split
from .fuzzgen import Generator
from .harness import full_size, targets

SHARDS = 12
KERNELS = 26 if not full_size() else 400  # a shard; 312 in all

SHRINK_SECONDS = 40


@st.composite
def programs(draw):
    """One random program; every choice is drawn from hypothesis, so that it can shrink."""
    return Generator(lambda n: draw(st.integers(0, n - 1))).program()


def _run(shard: int, folder) -> None:
    start = knobs.test_seed() * 1000 + shard
    base, others = split(list(targets()))
    if not others:
        pytest.skip("only the reference backend is present")

    outcomes: dict[str, Exception] = {}
    deadline = [float("inf")]

    @with_seed(start)
    @settings(
        max_examples=KERNELS,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(programs())
    def kernels_agree(program):
        # Once a failure is found, shrinking goes on for a limited time: afterwards only what is known to fail does.
        if program.source in outcomes:
            raise outcomes[program.source]
        if time.monotonic() > deadline[0]:
            return
        module = load(program, folder)
        try:
            chosen, shapes = partners(program, others), shapes_of(program)
            differ(module.kernel, program.types, program.atomics, base, chosen, is_strided(program), shapes)
        except Exception as error:
            if not outcomes:
                deadline[0] = time.monotonic() + SHRINK_SECONDS
            file = save(program, f"shard{shard}", f"{type(error).__name__}: {error}", knobs.test_seed())
            text = f"MAGPIE_TEST_SEED={knobs.test_seed()}, shard {shard}, saved to {file}: {type(error).__name__}: {error}"
            outcomes[program.source] = AssertionError(text)
            raise outcomes[program.source] from error

    kernels_agree()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_kernels_give_the_same_bits(shard, tmp_path):
    _run(shard, tmp_path)


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
