"""Magpie: one compute kernel, written once in Python, for many GPUs and a vectorised CPU.

    import magpie as mp

    @mp.kernel
    def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = a * x[i] + y[i]

    saxpy[mp.cdiv(n, 256), 256](2.0, x, y)

This module only re-exports the public names.  Each is imported from its own module when it is first used (PEP 562), so
that ``import magpie`` costs a few milliseconds and does not load NumPy or LLVM.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

# Public name -> the module that has it.  The TYPE_CHECKING block below says the same for editors and type checkers;
# tests/unit/test_import.py keeps the two equal.
_EXPORTS: dict[str, str] = {
    name: module
    for module, names in {
        "magpie.diagnostics": "CompileError CompileWarning Diagnostic Loc",
        "magpie.errors": "GpuError GpuErrorKind KnobError LaunchTypeError LaunchValueError MagpieError",
        "magpie.dtypes": "bf16 bool_ f16 f32 f64 i8 i16 i32 i64 index u8 u16 u32 u64 DType",
        "magpie.runtime.creation": "array_like asarray empty full ones to_numpy zeros",
        "magpie.runtime.device": "Device device devices",
        "magpie.runtime.kernel": "Kernel kernel",
        "magpie.runtime.stream": "Event Stream synchronize",
        "magpie.language": (
            "Array cdiv func struct "
            "constexpr free malloc mma print static_range trap "
            "barrier fence global_id grid_sync local num_workgroups shared thread_id uniform workgroup_id "
            "workgroup_size "
            "atomic_add atomic_and atomic_cas atomic_exchange atomic_load atomic_max atomic_min atomic_or "
            "atomic_store atomic_sub atomic_xor "
            "abs acos asin atan atan2 bitcast cbrt ceil clz copysign cos cosh ctz erf exp exp2 expm1 floor fma "
            "fmod frexp hypot isfinite isinf isnan ldexp log log10 log1p log2 max maximum min minimum popcount "
            "pow remainder round rsqrt select sin sinh sqrt tan tanh trunc "
            "subgroup e inf nan pi tau "
        ),
    }.items()
    for name in names.split()
}

if TYPE_CHECKING:
    from magpie.diagnostics import CompileError, CompileWarning, Diagnostic, Loc
    from magpie.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, index, u8, u16, u32, u64
    from magpie.errors import GpuError, GpuErrorKind, KnobError, LaunchTypeError, LaunchValueError, MagpieError
    from magpie.language import (
        Array,
        abs,
        acos,
        asin,
        atan,
        atan2,
        atomic_add,
        atomic_and,
        atomic_cas,
        atomic_exchange,
        atomic_load,
        atomic_max,
        atomic_min,
        atomic_or,
        atomic_store,
        atomic_sub,
        atomic_xor,
        barrier,
        bitcast,
        cbrt,
        cdiv,
        ceil,
        clz,
        constexpr,
        copysign,
        cos,
        cosh,
        ctz,
        e,
        erf,
        exp,
        exp2,
        expm1,
        fence,
        floor,
        fma,
        fmod,
        free,
        frexp,
        func,
        global_id,
        grid_sync,
        hypot,
        inf,
        isfinite,
        isinf,
        isnan,
        ldexp,
        local,
        log,
        log1p,
        log2,
        log10,
        malloc,
        max,
        maximum,
        min,
        minimum,
        mma,
        nan,
        num_workgroups,
        pi,
        popcount,
        pow,
        print,
        remainder,
        round,
        rsqrt,
        select,
        shared,
        sin,
        sinh,
        sqrt,
        static_range,
        struct,
        subgroup,
        tan,
        tanh,
        tau,
        thread_id,
        trap,
        trunc,
        uniform,
        workgroup_id,
        workgroup_size,
    )
    from magpie.runtime.creation import array_like, asarray, empty, full, ones, to_numpy, zeros
    from magpie.runtime.device import Device, device, devices
    from magpie.runtime.kernel import Kernel, kernel
    from magpie.runtime.stream import Event, Stream, synchronize

# `from magpie import *` leaves Python's own functions alone; as mp.abs, mp.print, ... they are there all the same.
_SHADOWS = {"abs", "max", "min", "pow", "print", "round"}

__all__ = sorted([*(_EXPORTS.keys() - _SHADOWS), "__version__"])


def __getattr__(name: str) -> object:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'magpie' has no attribute {name!r}")
    value = getattr(_import_module(module), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
