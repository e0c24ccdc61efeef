"""Types of MPIR: names with arguments, the fixed type numbers, and the hash of a function's SID."""

from __future__ import annotations

from magpie.dtypes import DType, by_name
from magpie.records import record

__all__ = ["BOOL", "PTR", "TYPE_IDS", "UNIT", "Ty", "scalar", "sid_hash"]


@record
class Ty:
    """A type: ``f32``, ``gpu.TBuffer<f32>``, ``borrow TPoint``. ``mode``: borrow, mutborrow, shared, weak or empty."""

    name: str
    args: tuple[Ty, ...] = ()
    mode: str = ""

    def __str__(self) -> str:
        inner = f"<{', '.join(map(str, self.args))}>" if self.args else ""
        return f"{self.mode + ' ' if self.mode else ''}{self.name}{inner}"

    @property
    def owned(self) -> Ty:
        """The type without its mode: an owned value goes where a borrowed one is expected. A weak reference is a type
        of its own."""
        if not self.mode or self.mode == "weak":
            return self
        return Ty(self.name, self.args, "weak" if "weak" in self.mode else "")

    @property
    def is_int(self) -> bool:
        return self.name in _INTS

    @property
    def is_float(self) -> bool:
        return self.name in ("f16", "bf16", "f32", "f64")

    @property
    def is_bool(self) -> bool:
        return self.name == "bool"

    @property
    def is_unsigned(self) -> bool:
        return self.is_int and self.name[0] == "u"

    @property
    def bits(self) -> int:
        """The width of an integer type."""
        return int(self.name[1:])


UNIT = Ty("unit")
BOOL = Ty("bool")
PTR = Ty("ptr")

# The specification fixes f64 = 15, bf16 = 16 and all from 30 on; the primitive types fill the numbers below in the
# order in which the language lists them. 17 to 29 and 41 to 49 are reserved. `unit` is no type of a value: no number.
_NUMBERED = [
    *(f"{sign}{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64, 128)),
    *("bool", "f16", "f32", "f64", "bf16"),
]
_INTS = frozenset(_NUMBERED[:12])
TYPE_IDS: dict[str, int] = {name: number for number, name in enumerate(_NUMBERED)} | {
    "gpu.TDevice": 30,
    "gpu.TBuffer": 31,  # the base: one number for all element types
    "gpu.TFence": 32,
    "gpu.TError": 33,
    "gpu.ErrorKind": 34,
    "gpu.TProfileSession": 35,
    "gpu.TProfileEvent": 36,
    "gpu.TMemoryStats": 37,
    "mlx.TArray": 38,
    "mlx.nn.TLayerHandle": 39,
    "mlx.optim.TOptimizerHandle": 40,
    "gpu.TKernel": 50,  # of the runtime alone
}


def scalar(type_: Ty) -> DType | None:
    """The scalar type that kernels compute with; None where ``type_`` is no scalar or too wide for a kernel."""
    if type_.args or type_.mode or type_.name not in TYPE_IDS or type_.name in ("i1", "u1"):
        return None
    try:
        return by_name(type_.name)
    except KeyError:
        return None


def sid_hash(sid: str) -> int:
    """FNV-1a of 64 bits over the UTF-8 bytes of ``sid`` (draft-eastlake-fnv): how a registry of kernels names it."""
    found = 0xCBF29CE484222325
    for byte in sid.encode():
        found = ((found ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return found
