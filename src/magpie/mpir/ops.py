"""The table of MPIR operations: what each takes and gives. Parser, verifier and lowering read it.

Kernels run the ops of this table alone. What only a host program does (arrays, maps, strings, launches) is known by its
prefix, `HOST`; its operands are the host interpreter's matter.
"""

from __future__ import annotations

from magpie.records import record

__all__ = ["HEAP_OPS", "OPS", "Op", "is_host", "is_sync"]


@record
class Op:
    """``keys`` are the operands in order, ``classes`` their types (`magpie.mpir.verify_types`). ``result``:
    ``same`` (as the first operand), ``targ0`` or ``targ1`` (that argument in angle brackets, of which there are
    ``targs``), ``any`` (a rule of its own), ``none``, or a type. ``same``: all operands have one type. ``sync``: the
    work-items of a workgroup or subgroup come to it together. ``capability``: what a kernel with it requires."""

    name: str
    keys: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    result: str = "any"
    targs: int = 0
    same: bool = False
    sync: bool = False
    capability: str = ""


OPS: dict[str, Op] = {}


def _op(
    name: str, operands: str, result: str, targs: int = 0, same: bool = False, sync: bool = False, capability: str = ""
) -> None:
    pairs = [word.split(":") for word in operands.split()]
    keys, classes = tuple(k for k, _ in pairs), tuple(c for _, c in pairs)
    OPS[name] = Op(name, keys, classes, result, targs, same, sync, capability)


def _subgroup(name: str, operands: str, result: str, capability: str = "subgroups") -> None:
    _op(f"gpu.{name}", operands, result, sync=True, capability=capability)


for _name in ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem"):
    for _suffix in ("", ".wrap", ".checked"):
        _op(f"i.{_name}{_suffix}", "lhs:int rhs:int", "same", same=True)
for _name in ("and", "or", "xor"):
    _op(f"i.{_name}", "lhs:bits rhs:bits", "same", same=True)
for _name in ("shl", "lshr", "ashr"):
    _op(f"i.{_name}", "lhs:int rhs:int", "same", same=True)
for _name in ("add", "sub", "mul", "div", "rem"):
    for _suffix in ("", ".fast"):
        _op(f"f.{_name}{_suffix}", "lhs:float rhs:float", "same", same=True)
for _name in ("add", "sub", "mul", "div"):
    _op(f"bf16.{_name}", "lhs:bf16 rhs:bf16", "bf16", same=True)
for _name in ("eq", "ne", "slt", "sgt", "sle", "sge", "ult", "ugt", "ule", "uge"):
    _op(f"icmp.{_name}", "lhs:bits rhs:bits", "bool", same=True)
for _name in ("oeq", "one", "olt", "ogt", "ole", "oge"):
    _op(f"fcmp.{_name}", "lhs:float rhs:float", "bool", same=True)
_op("bf16.to_f32", "v:bf16", "f32")
_op("f32.to_bf16", "v:f32", "bf16")
_op("cast", "v:scalar", "targ1", targs=2)
_op("const", "v:any", "same")  # a literal that has a name
_op("getfield", "obj:any field:name", "any")
for _name in ("thread_id", "workgroup_id", "workgroup_size", "global_id", "num_workgroups"):
    _op(f"gpu.{_name}", "dim:dim", "u32")
_op("gpu.buffer_load", "buf:buf idx:idx", "targ0", targs=1)
_op("gpu.buffer_store", "buf:buf idx:idx v:any", "none", targs=1)
_op("gpu.buffer_len", "buf:buf", "any", targs=1)
_op("gpu.shared", "", "ptr", targs=2)
_op("gpu.malloc", "count:idx", "any", targs=1, capability="device_malloc")  # null where there is no room
_op("gpu.free", "p:rawptr", "none", capability="device_malloc")
_op("ptr.load", "p:rawptr", "targ0", targs=1)
_op("ptr.store", "p:rawptr v:any", "none", targs=1)
_op("ptr.add", "p:rawptr count:idx", "same", targs=1)
_op("ptr.is_null", "p:rawptr", "bool", targs=1)
_op("gpu.barrier", "", "none", sync=True)
_op("gpu.fence", "", "none")  # of the device: acquire and release
for _name in ("add", "sub", "min", "max", "and", "or", "xor", "exchange"):  # each gives the old value
    _op(f"gpu.atomic_{_name}", "buf:buf idx:idx v:any", "targ0", targs=1)
_op("gpu.atomic_cas", "buf:buf idx:idx expected:any desired:any", "targ0", targs=1)
_op("gpu.atomic_load", "buf:buf idx:idx", "targ0", targs=1)  # acquires
_op("gpu.atomic_store", "buf:buf idx:idx v:any", "none", targs=1)  # releases
for _name in ("size", "lane", "id", "count"):
    _op(f"gpu.subgroup_{_name}", "", "u32", capability="subgroups")
for _name in ("sum", "prod", "min", "max"):
    _subgroup(f"subgroup_{_name}", "v:num", "same")
    _subgroup(f"subgroup_scan_{_name}", "v:num", "same")
for _name in ("and", "or", "xor"):
    _subgroup(f"subgroup_{_name}", "v:bits", "same")
for _name, _key in (("", "lane"), ("_xor", "mask"), ("_up", "delta"), ("_down", "delta")):
    _subgroup(f"subgroup_shuffle{_name}", f"v:scalar {_key}:idx", "same")
_subgroup("subgroup_broadcast", "v:scalar lane:idx", "same")
_subgroup("subgroup_ballot", "v:bool", "u64")
_subgroup("subgroup_any", "v:bool", "bool")
_subgroup("subgroup_all", "v:bool", "bool")
_subgroup("subgroup_elect", "", "bool")
_subgroup("subgroup_barrier", "", "none")
_subgroup("metal.simd_shuffle", "v:scalar lane:idx", "same", "metal.simd_shuffle")
_subgroup("metal.simd_sum", "v:num", "same", "metal.simd_reduce")
_subgroup("metal.simd_prefix_sum", "v:num", "same", "metal.simd_prefix")  # includes the own value
# Their operands depend on what they name, and have rules of their own.
_op("new", "", "any", targs=1)
_op("call", "", "any")

#: What host programs have besides: families of operations, and single ones. Functions of modules are called by their
#: full names, which have an @.
_HOST_FAMILIES = ("arr.", "map.", "str.", "enum.", "callable.", "std.", "ptr.", "mlx.", "gpu.host.", "gpu.profile.")
_LAUNCHES = ("gpu.launch", "gpu.launch_async")
_COUNTED = ("retain", "release", "share", "clone")
_HOST_OPS = frozenset((*_LAUNCHES, *_COUNTED, "call.indirect", "setfield", "global", "try"))

#: What a kernel must not do, with the code of its refusal (specification, section 5.1).
HEAP_OPS: dict[str, str] = {
    **dict.fromkeys(("arr.new", "map.new", "str.builder.new", "callable.capture"), "MPG_CORE_1100"),
    **dict.fromkeys(_COUNTED, "MPG_CORE_1101"),
    **dict.fromkeys(("call.indirect", "arr.map", "arr.filter", "arr.reduce", "arr.foreach"), "MPG_CORE_1102"),
}


def is_host(name: str) -> bool:
    """Whether only host programs have this op."""
    return name not in OPS and (name in _HOST_OPS or "@" in name or name.startswith(_HOST_FAMILIES))


def is_sync(name: str) -> bool:
    """Whether the work-items of a workgroup or subgroup come to the op together."""
    found = OPS.get(name)
    return found is not None and found.sync
