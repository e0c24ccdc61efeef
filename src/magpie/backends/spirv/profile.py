"""Profiles: what of Vulkan a module may use, and their text, which is `Options.arch` and `Device.arch`.

A profile is a version of Vulkan and features: "vulkan1.3+i64+f16+sg32". The text is canonical (features in the order of
`FEATURES`), so that equal profiles are one entry of a cache. What Vulkan 1.3 promises of every device is no feature:
its memory model, timeline semaphores, LocalSizeId, 32-bit integers and floats.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from magpie.records import record

__all__ = ["FEATURES", "GENERIC", "Profile", "profile"]

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
    "div": "division and square root of f32 and f64 are correctly rounded",
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
}

_ORDER = {name: k for k, name in enumerate(FEATURES)}
_SIZES = (4, 8, 16, 32, 64, 128)

_VERSION = re.compile(r"vulkan(1\.[3-9])", re.ASCII)


@record
class Profile:
    """A version such as "1.3", features, and the size of a subgroup where all have one (0: not known)."""

    version: str = "1.3"
    features: frozenset[str] = frozenset()
    subgroup_size: int = 0

    def __post_init__(self) -> None:
        unknown = sorted(self.features - FEATURES.keys())
        if unknown:
            raise ValueError(f"there is no feature {', '.join(unknown)}; there are {', '.join(FEATURES)}")
        if self.subgroup_size and self.subgroup_size not in _SIZES:
            raise ValueError(f"a subgroup has {', '.join(map(str, _SIZES))} work-items, not {self.subgroup_size}")

    def __contains__(self, feature: str) -> bool:
        return feature in self.features

    @property
    def text(self) -> str:
        """The profile as `arch=` takes it."""
        size = [f"sg{self.subgroup_size}"] if self.subgroup_size else []
        return "+".join([f"vulkan{self.version}", *sorted(self.features, key=_ORDER.__getitem__), *size])

    def __str__(self) -> str:
        return self.text

    def missing(self, needs: Iterable[str]) -> list[str]:
        """Those of ``needs`` that this profile does not have; a need "sg32" is a size of subgroups."""
        found = []
        for need in needs:
            size = _size(need)
            if need not in self.features and (size is None or size != self.subgroup_size):
                found.append(need)
        return found

    @property
    def push_bytes(self) -> int:
        """How many bytes of push constants a module may have."""
        return 256 if "push256" in self.features else 128


def _size(part: str) -> int | None:
    return int(part[2:]) if part.startswith("sg") and part[2:].isdecimal() else None


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
    sizes = [n for n in map(_size, rest) if n is not None]
    if len(sizes) > 1:
        raise ValueError(f"{text!r} names more than one size of subgroups")
    return Profile(version[1], frozenset(p for p in rest if _size(p) is None), *sizes)
