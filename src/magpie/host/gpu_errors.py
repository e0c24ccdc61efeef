"""Errors of the runtime as values: `gpu.TError`, of one of the kinds of the specification's section 4.3."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from magpie.diagnostics import CompileError
from magpie.errors import GpuError, GpuErrorKind
from magpie.host.builtins import Call
from magpie.host.values import EnumValue, StructValue
from magpie.mpir.types import Ty

__all__ = ["error_value", "fallible", "unavailable"]

_P = ParamSpec("_P")
_ERROR, _KIND = Ty("gpu.TError"), Ty("gpu.ErrorKind")

#: What asks for more than a device or a target has: work-items, shared memory, buffers.
_EXHAUSTED = frozenset(
    ["MPG_LAUNCH_1007", "MPG_LAUNCH_1012", "MPG_WGSL_1005"]
    + [f"MPG_{target}_2001" for target in ("SPV", "MSL", "PTX", "HIP", "WGSL")]
)


def error_value(error: GpuError | CompileError, backend: str = "") -> StructValue:
    """An error as a `gpu.TError`. ``backend`` is where it happened, if the error does not say."""
    if isinstance(error, CompileError):
        codes = {d.code for d in error.diagnostics}
        kind = GpuErrorKind.ResourceExhausted if codes & _EXHAUSTED else GpuErrorKind.CompilationFailed
        kind = GpuErrorKind.Unsupported if "MPG_CORE_1200" in codes else kind
        text = "; ".join(f"{d.message} [{d.code}]" for d in error.diagnostics)
        return _made(kind, backend, text, 0)
    kind = GpuErrorKind.ResourceExhausted if error.diagnostic in _EXHAUSTED else error.kind
    return _made(kind, error.backend or backend, error.message, error.code)


def _made(kind: GpuErrorKind, backend: str, message: str, code: int) -> StructValue:
    fields: dict[str, Any] = {
        "kind": EnumValue(_KIND, kind.name, int(kind)),
        "backend": backend,
        "message": message,
        # numbers of vendors are 32 bits wide, of either sign
        "code": (code + (1 << 31)) % (1 << 32) - (1 << 31),
    }
    return StructValue(_ERROR, fields)


def unavailable(backend: str, message: str) -> GpuError:
    return GpuError(GpuErrorKind.BackendUnavailable, backend, message)


def fallible(function: Callable[Concatenate[Call, _P], Any]) -> Callable[Concatenate[Call, _P], EnumValue]:
    """A builtin whose result is a TResult: what it gives is the Ok, and an error of the GPU the Err."""

    @wraps(function)
    def step(call: Call, *args: _P.args, **kwargs: _P.kwargs) -> EnumValue:
        try:
            return call.ok(function(call, *args, **kwargs))
        except (GpuError, CompileError) as error:
            return call.err(error_value(error))

    return cast("Callable[Concatenate[Call, _P], EnumValue]", step)
