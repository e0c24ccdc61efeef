"""The intrinsics that NVPTX selects on every architecture that we compile for, and no others.

LLVM ends the process for an intrinsic that a target cannot select (RULES, DESIGN 4), so a name that is not listed here
never reaches it. tests/unit/test_ptx.py compiles each of them for sm_70.
"""

from __future__ import annotations

from collections.abc import Iterable

from magpie.backends.llvm.intrinsics import OVERLOADED, types_of

__all__ = ["NEWER", "PLAIN", "unknown"]

#: Those of NVPTX, without the prefix llvm.nvvm.
PLAIN = frozenset(
    [
        *(f"read.ptx.sreg.{name}.{dim}" for name in ("tid", "ntid", "ctaid", "nctaid") for dim in "xyz"),
        "read.ptx.sreg.laneid",
        "read.ptx.sreg.lanemask.lt",
        "barrier.cta.sync.aligned.all",
        "bar.warp.sync",
        *(f"shfl.sync.{kind}.i32" for kind in ("idx", "up", "bfly")),
        "vote.ballot.sync",
        "vote.any.sync",
        "vote.all.sync",
        *(f"{name}.approx.ftz.f" for name in ("ex2", "lg2", "sin", "cos", "sqrt", "rsqrt")),
    ]
)

_PRODUCTS = (
    "m16n8k16.row.col.f32.f32",
    "m16n8k16.row.col.bf16",
    "m16n8k8.row.col.tf32",
    "m8n8k4.row.col.f64",
    *(f"m16n8k{k}.row.col.{kind}" for k in (16, 32) for kind in ("s8", "u8", "s8.u8", "u8.s8")),
)

#: Those that need a newer architecture, with its number.
NEWER = {
    **{f"redux.sync.{kind}": 80 for kind in ("add", "min", "max", "umin", "umax", "and", "or", "xor")},
    "tanh.approx.f32": 75,
    **{f"ldmatrix.sync.aligned.m8n8.x{n}{how}.b16.p3": 75 for n in (2, 4) for how in ("", ".trans")},
    **{f"mma.{kind}": 80 for kind in _PRODUCTS},
    "f2tf32.rna": 80,
    **{
        f"cp.async.{name}": 80
        for name in ("cg.shared.global.16", "cg.shared.global.16.s", "commit.group", "wait.group")
    },
}


def unknown(names: Iterable[str], number: int) -> list[str]:
    """Those of ``names`` that the architecture of this number has no code for."""
    return [name for name in names if not _known(name, number)]


def _known(name: str, number: int) -> bool:
    rest = name.removeprefix("llvm.nvvm.")
    if rest != name:
        return rest in PLAIN or NEWER.get(rest, 1 << 30) <= number
    kind, types = types_of(name)
    return types in OVERLOADED.get(kind, ())
