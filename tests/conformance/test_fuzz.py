"""Differential fuzz: random kernels give the interpreter's bits on every other backend present.

A failure prints the seed and saves the smallest kernel found to ``failures/``; running that file shows it again.
``make test`` runs a fixed sample, MAGPIE_TEST_ALL=1 many more, MAGPIE_TEST_SEED another sample.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from magpie import knobs

from .fuzz import differ, is_strided, load, partners, save, split
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
            differ(module.kernel, program.types, program.atomics, base, partners(program, others), is_strided(program))
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
