"""Kernel IR to Kernel IR for targets that have few ops: what is left is little, simple, and means what the op table
says.

`legalise(kernel, target)` wants a kernel that `magpie.passes.prepare` made with ``native_math`` (the empty set, or
under fastmath what the target approximates), with subgroup reductions and scans lowered where the target lacks them.
After it, these are the pure ops on scalars (`left_over` finds others):

any type
    const, param, select, uniform, slot_get, slot_set
integers
    add sub mul neg, and or xor not, min max, eq ne lt le gt ge; shl shr: the count is below the width; tdiv: the
    divisor is not 0, and not -1 for MIN; trem: the same, of unsigned types alone
u32
    popcount clz ctz, with clz(0) = ctz(0) = 32
f32, f64
    add sub mul neg abs, eq ne (true for a NaN) lt le gt ge, floor ceil trunc round (ties to even); fma where
    `Target.fma`; div and sqrt where `Target.exact`; div and rsqrt with the attribute ``rough``: as good as the target
    has them
f16, where `Target.f16`
    add sub mul neg abs, eq ne lt le gt ge
bool
    and or xor not eq ne
cast
    integer to integer (wraps, or extends by the sign of the source); 32-bit and 64-bit integers to f32 and f64, with
    one rounding; f32 and f64 to those integers, toward zero: what is out of range there is replaced afterwards, so any
    value will do; f32 to f64 and back; f16 to f32 and back
bitcast
    between integers; i32, u32 and f32; i64, u64 and f64; i16, u16 and f16

In a fast-math kernel, nodes without the attribute ``strict`` may also be: fma, div and sqrt as good as the target has
them, float min and max that are free in the choice of zeros and NaN, and on f32 the ops of ``native_math``.

Gone are: floordiv, mod, signed trem, pow of integers, abs of integers, popcount, clz and ctz of other types than u32,
minimum, maximum, float min and max, copysign, isnan, isinf, isfinite; fmod, remainder, ldexp, frexp and the elementary
functions by the library. What was `index`, i64 or u64 and is proved to fit in 32 bits (`magpie.passes.narrow_index`)
is an i32 node or an i32 slot, on every target.

Types that the target lacks stand at the edges only.

* f16 and bf16: buffers, shared, local and constant arrays of them hold u16, their bits; so do scalars and `param`
  nodes. (Arrays of a matrix tile stay as they are; of these, a `load` is taken by a bitcast, and a `store` takes one.)
* i8, i16, u8, u16: a `load` or `param` gives the value, and only a cast to 32 bits takes it; a `store` takes what a
  cast from 32 bits gives. So they may be held as 32-bit integers, extended by their sign. Shared, local and constant
  arrays hold i32 and u32 instead.
* i64, u64, index: a `param`, builtin, extent, stride or `subgroup_ballot` gives the value; it is taken by ``cast`` to
  u32 or i32 (the low word) and by ``cast`` to u32 of ``shr`` by the constant 32 (the high word). What takes 64 bits
  (`print`) is given ``or(cast(low), shl(cast(high), 32))``, of casts from u32. An emitter that holds them as two words
  does all of these without an instruction. Indices of accesses are i32 where that is proved, else u32, the low word:
  offsets are modulo 2**32. With ``checked``, an index that is not proved and leaves 32 bits is -1 instead, so that a
  check by 32 bits finds it.
"""

from __future__ import annotations

from magpie.ir.nodes import Kernel
from magpie.passes.legalise.target import Target, left_over

__all__ = ["Target", "left_over", "legalise"]


def legalise(kernel: Kernel, target: Target, *, checked: bool = False) -> Kernel:
    """``kernel`` with the ops and types of ``target`` alone; the same values, bit for bit, but for flushed denormals.

    ``checked``: accesses are checked by the backend.
    """
    from magpie.passes.dce import drop_dead
    from magpie.passes.legalise.division import lower_division
    from magpie.passes.legalise.floats import lower_floats
    from magpie.passes.legalise.fused import lower_fma
    from magpie.passes.legalise.integers import lower_integers
    from magpie.passes.legalise.narrow import widen_small_types
    from magpie.passes.legalise.wide import narrow_wide_types

    kernel = widen_small_types(kernel, target)
    kernel = lower_floats(kernel)
    kernel = lower_division(kernel, target)
    kernel = lower_fma(kernel, target)
    kernel = narrow_wide_types(kernel, target, checked=checked)
    kernel = lower_integers(kernel, target)
    return drop_dead(kernel)
