"""`mlx.*`: without MLX, what gives a TResult gives an error, and the rest cannot go on.

`mlx.random.@seed` gives nothing, so it does nothing: the first function that makes an array says what is wrong.
"""

from __future__ import annotations

from typing import Any

from magpie.host.builtins import Call, builtin
from magpie.host.gpu_errors import error_value, unavailable
from magpie.host.values import EnumValue
from magpie.mpir.signatures import NAMES, signature

_MESSAGE = "MLX cannot be used here: this version of Magpie does not open it"


def _results() -> dict[str, str]:
    """The functions of mlx by name, with what the type of their result is called."""
    found = {name: signature(name) for name in NAMES if name.startswith("mlx.")}
    return {name: row.result.name for name, row in found.items() if row is not None}


_RESULTS = _results()


@builtin(*(name for name, result in _RESULTS.items() if result == "TResult"))
def absent(call: Call, **operands: Any) -> EnumValue:
    return call.err(error_value(unavailable("mlx", _MESSAGE)))


@builtin(*(name for name, result in _RESULTS.items() if result not in ("TResult", "unit")))
def impossible(call: Call, **operands: Any) -> Any:
    raise call.panic(f"BackendUnavailable: {_MESSAGE}")


@builtin(*(name for name, result in _RESULTS.items() if result == "unit"))
def nothing(call: Call, **operands: Any) -> None:
    """There is no state to change."""
