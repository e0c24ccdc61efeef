"""Magpie: one compute kernel, written once in Python, for many GPUs and a vectorised CPU.

    import magpie as mp

    @mp.kernel
    def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = a * x[i] + y[i]

    saxpy[mp.cdiv(n, 256), 256](2.0, x, y)

This module re-exports the public names, each imported from its own module when it is first used (PEP 562), and loads
what every launch needs, so that the first call of a kernel in the disk cache takes milliseconds. Neither NumPy
nor LLVM is loaded.
"""

from __future__ import annotations

from importlib import import_module as _import_module

__version__ = "0.1.0.dev0"

# Public name -> the module that has it.  The TYPE_CHECKING block below says the same for editors and type checkers;
# tests/unit/test_import.py keeps the two equal.
_EXPORTS: dict[str, str] = {
    name: module
    for module, names in {
        "magpie.diagnostics": "CompileError CompileWarning Diagnostic Loc",
        "magpie.errors": "GpuError GpuErrorKind KnobError LaunchTypeError LaunchValueError MagpieError",
        "magpie.dtypes": "bf16 bool_ f16 f32 f64 i8 i16 i32 i64 index u8 u16 u32 u64 DType",
        "magpie.runtime.buffer": "Buffer",
        "magpie.runtime.creation": "array_like asarray empty full ones to_numpy zeros",
        "magpie.runtime.device": "Device device devices",
        "magpie.runtime.driver": "MemoryHint",
        "magpie.runtime.graph": "Graph GraphNode graph",
        "magpie.runtime.kernel": "Kernel kernel",
        "magpie.runtime.modules": "load_module",
        "magpie.runtime.stream": "Event Stream synchronize",
        "magpie.language": (
            "Array cdiv func struct "
            "constexpr copy_async copy_wait free malloc mma print static_range trap "
            "barrier fence global_id grid_sync local num_workgroups shared thread_id uniform workgroup_id "
            "workgroup_size "
            "atomic_add atomic_and atomic_cas atomic_exchange atomic_load atomic_max atomic_min atomic_or "
            "atomic_store atomic_sub atomic_xor "
            "abs acos asin atan atan2 bitcast cbrt ceil clz copysign cos cosh ctz erf exp exp2 expm1 floor fma "
            "fmod frexp hypot isfinite isinf isnan ldexp log log10 log1p log2 max maximum min minimum popcount "
            "pow remainder round rsqrt select sin sinh sqrt tan tanh trunc "
            "subgroup workgroup e inf nan pi tau "
        ),
    }.items()
    for name in names.split()
}

# Type checkers take this name for True; importing it from typing would be most of the import time.
TYPE_CHECKING = False

# "name as name" is how a module says that it exports an import (PEP 484).
if TYPE_CHECKING:
    from magpie.diagnostics import CompileError as CompileError
    from magpie.diagnostics import CompileWarning as CompileWarning
    from magpie.diagnostics import Diagnostic as Diagnostic
    from magpie.diagnostics import Loc as Loc
    from magpie.dtypes import DType as DType
    from magpie.dtypes import bf16 as bf16
    from magpie.dtypes import bool_ as bool_
    from magpie.dtypes import f16 as f16
    from magpie.dtypes import f32 as f32
    from magpie.dtypes import f64 as f64
    from magpie.dtypes import i8 as i8
    from magpie.dtypes import i16 as i16
    from magpie.dtypes import i32 as i32
    from magpie.dtypes import i64 as i64
    from magpie.dtypes import index as index
    from magpie.dtypes import u8 as u8
    from magpie.dtypes import u16 as u16
    from magpie.dtypes import u32 as u32
    from magpie.dtypes import u64 as u64
    from magpie.errors import GpuError as GpuError
    from magpie.errors import GpuErrorKind as GpuErrorKind
    from magpie.errors import KnobError as KnobError
    from magpie.errors import LaunchTypeError as LaunchTypeError
    from magpie.errors import LaunchValueError as LaunchValueError
    from magpie.errors import MagpieError as MagpieError
    from magpie.language import Array as Array
    from magpie.language import abs as abs
    from magpie.language import acos as acos
    from magpie.language import asin as asin
    from magpie.language import atan as atan
    from magpie.language import atan2 as atan2
    from magpie.language import atomic_add as atomic_add
    from magpie.language import atomic_and as atomic_and
    from magpie.language import atomic_cas as atomic_cas
    from magpie.language import atomic_exchange as atomic_exchange
    from magpie.language import atomic_load as atomic_load
    from magpie.language import atomic_max as atomic_max
    from magpie.language import atomic_min as atomic_min
    from magpie.language import atomic_or as atomic_or
    from magpie.language import atomic_store as atomic_store
    from magpie.language import atomic_sub as atomic_sub
    from magpie.language import atomic_xor as atomic_xor
    from magpie.language import barrier as barrier
    from magpie.language import bitcast as bitcast
    from magpie.language import cbrt as cbrt
    from magpie.language import cdiv as cdiv
    from magpie.language import ceil as ceil
    from magpie.language import clz as clz
    from magpie.language import constexpr as constexpr
    from magpie.language import copy_async as copy_async
    from magpie.language import copy_wait as copy_wait
    from magpie.language import copysign as copysign
    from magpie.language import cos as cos
    from magpie.language import cosh as cosh
    from magpie.language import ctz as ctz
    from magpie.language import e as e
    from magpie.language import erf as erf
    from magpie.language import exp as exp
    from magpie.language import exp2 as exp2
    from magpie.language import expm1 as expm1
    from magpie.language import fence as fence
    from magpie.language import floor as floor
    from magpie.language import fma as fma
    from magpie.language import fmod as fmod
    from magpie.language import free as free
    from magpie.language import frexp as frexp
    from magpie.language import func as func
    from magpie.language import global_id as global_id
    from magpie.language import grid_sync as grid_sync
    from magpie.language import hypot as hypot
    from magpie.language import inf as inf
    from magpie.language import isfinite as isfinite
    from magpie.language import isinf as isinf
    from magpie.language import isnan as isnan
    from magpie.language import ldexp as ldexp
    from magpie.language import local as local
    from magpie.language import log as log
    from magpie.language import log1p as log1p
    from magpie.language import log2 as log2
    from magpie.language import log10 as log10
    from magpie.language import malloc as malloc
    from magpie.language import max as max
    from magpie.language import maximum as maximum
    from magpie.language import min as min
    from magpie.language import minimum as minimum
    from magpie.language import mma as mma
    from magpie.language import nan as nan
    from magpie.language import num_workgroups as num_workgroups
    from magpie.language import pi as pi
    from magpie.language import popcount as popcount
    from magpie.language import pow as pow
    from magpie.language import print as print
    from magpie.language import remainder as remainder
    from magpie.language import round as round
    from magpie.language import rsqrt as rsqrt
    from magpie.language import select as select
    from magpie.language import shared as shared
    from magpie.language import sin as sin
    from magpie.language import sinh as sinh
    from magpie.language import sqrt as sqrt
    from magpie.language import static_range as static_range
    from magpie.language import struct as struct
    from magpie.language import subgroup as subgroup
    from magpie.language import tan as tan
    from magpie.language import tanh as tanh
    from magpie.language import tau as tau
    from magpie.language import thread_id as thread_id
    from magpie.language import trap as trap
    from magpie.language import trunc as trunc
    from magpie.language import uniform as uniform
    from magpie.language import workgroup as workgroup
    from magpie.language import workgroup_id as workgroup_id
    from magpie.language import workgroup_size as workgroup_size
    from magpie.runtime.buffer import Buffer as Buffer
    from magpie.runtime.creation import array_like as array_like
    from magpie.runtime.creation import asarray as asarray
    from magpie.runtime.creation import empty as empty
    from magpie.runtime.creation import full as full
    from magpie.runtime.creation import ones as ones
    from magpie.runtime.creation import to_numpy as to_numpy
    from magpie.runtime.creation import zeros as zeros
    from magpie.runtime.device import Device as Device
    from magpie.runtime.device import device as device
    from magpie.runtime.device import devices as devices
    from magpie.runtime.driver import MemoryHint as MemoryHint
    from magpie.runtime.graph import Graph as Graph
    from magpie.runtime.graph import GraphNode as GraphNode
    from magpie.runtime.graph import graph as graph
    from magpie.runtime.kernel import Kernel as Kernel
    from magpie.runtime.kernel import kernel as kernel
    from magpie.runtime.modules import load_module as load_module
    from magpie.runtime.stream import Event as Event
    from magpie.runtime.stream import Stream as Stream
    from magpie.runtime.stream import synchronize as synchronize

# `from magpie import *` leaves Python's own functions alone; as mp.abs, mp.print, ... they are there all the same.
_SHADOWS = {"abs", "max", "min", "pow", "print", "round"}

__all__ = sorted([*(_EXPORTS.keys() - _SHADOWS), "__version__"])


def __getattr__(name: str) -> object:
    if name == "lib":
        return _import_module("magpie.lib")
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'magpie' has no attribute {name!r}")
    value = getattr(_import_module(module), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})


# At the end: what it loads refers to this package.
from magpie.runtime import preload as _preload  # noqa: E402
