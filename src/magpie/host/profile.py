"""`gpu.profile.*`: there is no profiler yet, which each of its functions says."""

from __future__ import annotations

from typing import Any

from magpie.host.builtins import Call, builtin
from magpie.host.gpu_errors import error_value, unavailable
from magpie.host.values import ArrayValue, EnumValue
from magpie.mpir.signatures import functions_of
from magpie.mpir.types import Ty

_COUNTERS = "available_counters"


@builtin(*(f"gpu.profile.@{name}" for name in functions_of("gpu.profile") if name != _COUNTERS))
def absent(call: Call, **operands: Any) -> EnumValue:
    return call.err(error_value(unavailable("", "this version of Magpie has no profiler")))


@builtin(f"gpu.profile.@{_COUNTERS}")
def available_counters(call: Call, dev: Any) -> ArrayValue:
    return ArrayValue(Ty("Str"), [])
