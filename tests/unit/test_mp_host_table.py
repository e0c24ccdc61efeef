"""The table of signatures and what the host implements are one list."""

from __future__ import annotations

from inspect import Parameter
from inspect import signature as python_signature

import magpie.host.program  # noqa: F401  # all that registers
from magpie.host.builtins import BUILTINS, OPERATIONS
from magpie.mpir.ops import OPS
from magpie.mpir.signatures import NAMES, signature

#: What the machine does itself, and what only kernels do.
OWN = {"call", "call.indirect", "try"}


def test_every_row_is_implemented():
    assert set(NAMES) - OWN <= BUILTINS.keys() | OPERATIONS.keys()


def test_everything_that_is_implemented_has_a_row():
    assert {n for n in (*BUILTINS, *OPERATIONS) if n not in OPS} - {"global"} <= set(NAMES)


def test_operations_of_kernels_on_numbers_are_those_of_the_host():
    assert {n for n in OPS if not n.startswith("gpu.")} - OWN <= OPERATIONS.keys()


def test_no_operation_has_two_implementations():
    assert not BUILTINS.keys() & OPERATIONS.keys()


def test_builtins_take_the_operands_of_their_rows():
    for name, function in BUILTINS.items():
        row = signature(name)
        if row is None:
            continue
        params = list(python_signature(function).parameters.values())[1:]
        if any(p.kind is Parameter.VAR_KEYWORD for p in params):
            continue
        names = [p.name if p.name in {o.name for o in row.operands} else p.name.rstrip("_") for p in params]
        assert names == [o.name for o in row.operands], name
        assert [p.default is not Parameter.empty for p in params] == [o.optional for o in row.operands], name
