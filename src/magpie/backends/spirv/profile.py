"""Profiles: what of Vulkan a module may use, and their text, which is `Options.arch` and `Device.arch`.

A profile is a version of Vulkan and features, with the size of subgroups and the KB of shared memory of a workgroup
where these are known: "vulkan1.3+i64+f16+sg32+shared32". The text is canonical (features in the order of
`FEATURES`), so that equal profiles are one entry of a cache. What Vulkan 1.3 promises of every device is no feature:
its memory model, timeline semaphores, LocalSizeId, 32-bit integers and floats.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from magpie.records import record

__all__ = ["FEATURES", "GENERIC", "SUBGROUP_SIZES", "Profile", "profile"]

#: Feature -> what it says of a device. The Vulkan names are those of the specification's features.
FEATURES: dict[str, str] = {
    "i64": "64-bit integers (shaderInt64)",
    "i16": "16-bit integers (shaderInt16)",
    "i8": "8-bit integers (shaderInt8)",
    "f16": "f16 arithmetic (shaderFloat16)",
    "f64": "f64 (shaderFloat64)",
    "s8": "8-bit elements of buffers (storageBuffer8BitAccess)",
    "s16": "16-bit elements of buffers (storageBuffer16BitAccess)",
    "bf16": "the type bf16 (VK_KHR_shader_bfloat16)",
    "subgroups": "vote, ballot, shuffle and relative shuffle in compute shaders",
    "subgroup_types": "subgroup operations on 8-, 16- and 64-bit types (shaderSubgroupExtendedTypes)",
    "atomic_f32": "f32 addition in buffers and shared memory (VK_EXT_shader_atomic_float)",
    "atomic_i64": "64-bit atomics in buffers and shared memory (shaderBufferInt64Atomics, shaderSharedInt64Atomics)",
    "fma": "Fma is fused: one rounding",
    "div": "division of f32 and f64 is correctly rounded",
    "sqrt32": "the square root of f32 is correctly rounded",
    "sqrt64": "the square root of f64 is correctly rounded",
    "denorm16": "keeps denormals of f16 where the module says so (shaderDenormPreserveFloat16)",
    "denorm32": "keeps denormals of f32 (shaderDenormPreserveFloat32)",
    "denorm64": "keeps denormals of f64 (shaderDenormPreserveFloat64)",
    "rte16": "rounds f16 to nearest even where the module says so (shaderRoundingModeRTEFloat16)",
    "rte32": "rounds f32 to nearest even (shaderRoundingModeRTEFloat32)",
    "rte64": "rounds f64 to nearest even (shaderRoundingModeRTEFloat64)",
    "szinp16": "keeps the zero's sign, infinities and NaN of f16 (shaderSignedZeroInfNanPreserveFloat16)",
    "szinp32": "the same of f32 (shaderSignedZeroInfNanPreserveFloat32)",
    "szinp64": "the same of f64 (shaderSignedZeroInfNanPreserveFloat64)",
    "reconverge": "maximal reconvergence (VK_KHR_shader_maximal_reconvergence)",
    "lockstep": "a driver that is known to reconverge where control flow meets again",
    "push256": "256 bytes of push constants instead of 128 (maxPushConstantsSize)",
    "coopmat": "cooperative matrices of 16x16x16, f16 to f32 (VK_KHR_cooperative_matrix)",
    "coopmat_bf16": "the same of bf16 (shaderBFloat16CooperativeMatrix)",
    "coopmat_i8": "cooperative matrices of 16x16x32, i8 to i32 and u8 to u32",
}

_ORDER = {name: k for k, name in enumerate(FEATURES)}

#: How many work-items a subgroup has on one device or another.
SUBGROUP_SIZES = (4, 8, 16, 32, 64, 128)

# What a workgroup has of shared memory on a desktop GPU of today, in KB.
_SHARED_KB = 48

_VERSION = re.compile(r"vulkan(1\.[3-9])", re.ASCII)


@record
class Profile:
    """A version such as "1.3", features, the size of a subgroup where all have one (0: not known), and the KB of
    shared memory that a workgroup has (0: those that most devices have)."""

    version: str = "1.3"
    features: frozenset[str] = frozenset()
    subgroup_size: int = 0
    shared_kb: int = 0

    def __post_init__(self) -> None:
        unknown = sorted(self.features - FEATURES.keys())
        if unknown:
            raise ValueError(f"there is no feature {', '.join(unknown)}; there are {', '.join(FEATURES)}")
        if self.subgroup_size and self.subgroup_size not in SUBGROUP_SIZES:
            raise ValueError(
                f"a subgroup has {', '.join(map(str, SUBGROUP_SIZES))} work-items, not {self.subgroup_size}"
            )
        if self.shared_kb == _SHARED_KB:  # said or not, it is the same profile
            object.__setattr__(self, "shared_kb", 0)

    def __contains__(self, feature: str) -> bool:
        return feature in self.features

    @property
    def text(self) -> str:
        """The profile as `arch=` takes it."""
        sizes = [f"sg{self.subgroup_size}"] if self.subgroup_size else []
        sizes += [f"shared{self.shared_kb}"] if self.shared_kb else []
        return "+".join([f"vulkan{self.version}", *sorted(self.features, key=_ORDER.__getitem__), *sizes])

    def __str__(self) -> str:
        return self.text

    def missing(self, needs: Iterable[str]) -> list[str]:
        """Those of ``needs`` that this profile does not have; a need "sg32" is a size of subgroups."""
        found = []
        for need in needs:
            size = _number(need, "sg")
            if need not in self.features and (size is None or size != self.subgroup_size):
                found.append(need)
        return found

    @property
    def push_bytes(self) -> int:
        """How many bytes of push constants a module may have."""
        return 256 if "push256" in self.features else 128

    @property
    def shared_bytes(self) -> int:
        """How many bytes of shared memory a workgroup may have."""
        return 1024 * (self.shared_kb or _SHARED_KB)


def _number(part: str, word: str) -> int | None:
    """The number behind a word such as sg."""
    digits = part.removeprefix(word)
    return int(digits) if digits != part and digits.isdecimal() and digits.isascii() else None


#: A desktop GPU of today. Where no device says more, this is what code is made for: neither what the size of a subgroup
#: is nor where work-items come together again is assumed, and neither Fma nor division is taken to be exact.
GENERIC = Profile(features=frozenset(("i64", "i16", "i8", "f16", "f64", "s8", "s16", "subgroups")))


@functools.lru_cache(256)
def profile(text: str) -> Profile:
    """The profile of a text in any order, the generic one for an empty one. Raises ValueError."""
    if not text:
        return GENERIC
    first, *rest = text.strip().lower().split("+")
    version = _VERSION.fullmatch(first)
    if version is None:
        raise ValueError(f"{text!r} is no profile: it starts with vulkan1.3, vulkan1.4, ...")
    numbers = {word: [n for n in (_number(p, word) for p in rest) if n is not None] for word in ("sg", "shared")}
    if any(len(found) > 1 for found in numbers.values()):
        raise ValueError(f"{text!r} names more than one size of subgroups or of shared memory")
    features = frozenset(p for p in rest if _number(p, "sg") is None and _number(p, "shared") is None)
    return Profile(version[1], features, *((numbers[word] or [0])[0] for word in ("sg", "shared")))
