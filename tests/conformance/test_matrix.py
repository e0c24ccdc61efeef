"""What the default plan of the shape tests covers."""

from __future__ import annotations

import itertools

from .matrix import COUNTS, GANGS, SHAPES_3D, SIZES, THREADS, plan


def test_the_default_plan_has_every_pair_of_levels():
    rows = [(size, count, threads, gang) for gang in GANGS for size, count, threads, _ in plan(gang, False)]
    levels = (SIZES, COUNTS, THREADS, GANGS)
    for a, b in itertools.combinations(range(4), 2):
        assert {(row[a], row[b]) for row in rows} == set(itertools.product(levels[a], levels[b]))
    assert len(rows) == len(SIZES) * len(GANGS)


def test_every_size_gets_code_of_its_own_at_every_gang_in_some_turn():
    alone = {(gang, row[0]) for turn in range(64) for gang in GANGS for row in plan(gang, False, turn=turn) if row[3]}
    assert alone == set(itertools.product(GANGS, SIZES))
    assert sum(row[3] for gang in GANGS for row in plan(gang, False, turn=5)) == 2


def test_the_full_plan_is_the_whole_product():
    assert set(plan(8, True)) == set(itertools.product(SIZES, COUNTS, THREADS, (False, True)))
    assert set(plan(None, True, sizes=(1, 33))) == set(itertools.product((1, 33), COUNTS, (1,), (False,)))


def test_the_shapes_of_three_dimensions_have_the_sizes():
    assert [x * y * z for x, y, z in (SHAPES_3D[n] for n in SIZES)] == list(SIZES)
