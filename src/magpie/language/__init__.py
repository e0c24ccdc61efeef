"""The names that kernel code uses. Builtins raise a clear error (``MPG_PY_1027``) when they are called on the host."""

from __future__ import annotations

from magpie.language import atomics as _a
from magpie.language import declare as _d
from magpie.language import indexing as _i
from magpie.language import matrix as _m
from magpie.language import numeric as _n
from magpie.language import special as _s
from magpie.language import subgroup, workgroup
from magpie.language.atomics import *  # noqa: F403
from magpie.language.declare import *  # noqa: F403
from magpie.language.indexing import *  # noqa: F403
from magpie.language.matrix import *  # noqa: F403
from magpie.language.numeric import *  # noqa: F403
from magpie.language.special import *  # noqa: F403

pi = 3.141592653589793
e = 2.718281828459045
tau = 6.283185307179586
inf = float("inf")
nan = float("nan")

__all__ = [
    *_a.__all__,
    *_d.__all__,
    *_i.__all__,
    *_m.__all__,
    *_n.__all__,
    *_s.__all__,
    "e",
    "inf",
    "nan",
    "pi",
    "subgroup",
    "tau",
    "workgroup",
]
