"""`record` looks like a frozen dataclass with slots."""

from __future__ import annotations

import copy
import pickle

import pytest

from magpie.records import record, replaced


@record
class Point:
    """A point."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        return self.x + self.y


@record
class One:
    x: int


def test_record():
    p = Point(1)
    assert (p.x, p.y, p.total) == (1, 2, 3)
    assert p == Point(1, 2) == Point(x=1, y=2) == Point(1, y=2)
    assert p != Point(2)
    assert p != (1, 2)
    assert hash(p) == hash(Point(1, 2))
    assert len({p, Point(1, 2), One(1), One(1)}) == 2
    assert repr(p) == "Point(x=1, y=2)"
    assert Point.__doc__ == "A point."
    assert copy.deepcopy(p) == p
    assert pickle.loads(pickle.dumps(p)) == p
    assert replaced(p, y=5) == Point(1, 5)
    match p:
        case Point(a, b):
            assert (a, b) == (1, 2)
    for wrong in (
        lambda: Point(),
        lambda: Point(1, 2, 3),
        lambda: Point(1, x=1),
        lambda: Point(1, z=1),
        lambda: replaced(p, z=1),
    ):
        with pytest.raises(TypeError):
            wrong()
    for change in (lambda: setattr(p, "x", 2), lambda: setattr(p, "z", 2), lambda: delattr(p, "x")):
        with pytest.raises(AttributeError):
            change()
