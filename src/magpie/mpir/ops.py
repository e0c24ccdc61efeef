"""The table of MPIR operations: what each takes and gives. Parser, verifier and lowering read it.

Kernels run the ops of this table alone. What only a host program does (arrays, maps, strings, launches) is known by its
prefix, `HOST`; its operands are the host interpreter's matter.
"""

from __future__ import annotations

from magpie.records import record

__all__ = [
    "FENCES",
    "FLOAT_COMPARES",
    "HEAP_OPS",
    "MATH",
    "NO_CODE",
    "OPS",
    "ORDERS",
    "SCOPES",
    "Op",
    "is_host",
    "is_sync",
]


@record
class Op:
    """``keys`` are the operands in order, ``classes`` their types (`magpie.mpir.verify_types`). ``result``:
    ``same`` (as the first operand), ``targ0`` or ``targ1`` (that argument in angle brackets, of which there are
    ``targs``), ``any`` (a rule of its own), ``id`` (u32, or i64 where that is asked for), ``none``, or a type.
    ``same``: all operands have one type. ``sync``: the work-items of a workgroup or subgroup come to it together.
    ``capability``: what a kernel with it requires."""

    name: str
    keys: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    result: str = "any"
    targs: int = 0
    same: bool = False
    sync: bool = False
    capability: str = ""


OPS: dict[str, Op] = {}

#: Functions of one float, by the names that Kernel IR has for them.
MATH = (
    *("rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "erf"),
)
#: Ordered ones are false for a NaN, unordered ones true.
FLOAT_COMPARES = tuple(f"{kind}{name}" for kind in "ou" for name in ("eq", "ne", "lt", "gt", "le", "ge"))


def _op(
    name: str, operands: str, result: str, targs: int = 0, same: bool = False, sync: bool = False, capability: str = ""
) -> None:
    pairs = [word.split(":") for word in operands.split()]
    keys, classes = tuple(k for k, _ in pairs), tuple(c for _, c in pairs)
    OPS[name] = Op(name, keys, classes, result, targs, same, sync, capability)


def _subgroup(name: str, operands: str, result: str, capability: str = "subgroups") -> None:
    _op(f"gpu.{name}", operands, result, sync=True, capability=capability)


#: Suffixes of an atomic operation with the scope and the order that they name; without one: the device for a buffer and
#: the workgroup for shared memory, and loads acquire, stores release.
SCOPES = ("", ".workgroup", ".device")
ORDERS = ("", ".relaxed")
FENCES = tuple(f"gpu.fence{scope}{order}" for scope in ("", ".workgroup") for order in ("", ".acquire", ".release"))

# --- integers and bits ------------------------------------------------------------------------------------------------
for _name in ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem"):
    for _suffix in ("", ".wrap", ".checked"):
        _op(f"i.{_name}{_suffix}", "lhs:int rhs:int", "same", same=True)
for _name in ("and", "or", "xor"):
    _op(f"i.{_name}", "lhs:bits rhs:bits", "same", same=True)
for _name in ("shl", "lshr", "ashr", "floordiv", "mod", "smin", "smax", "umin", "umax", "spow", "upow"):
    _op(f"i.{_name}", "lhs:int rhs:int", "same", same=True)
for _name in ("neg", "abs", "popcount", "clz", "ctz"):
    _op(f"i.{_name}", "v:int", "same")
_op("i.not", "v:bits", "same")
_op("i.trip_count", "start:i64 stop:i64 step:i64", "i64")  # of range(start, stop, step)

# --- floats -----------------------------------------------------------------------------------------------------------
for _name in ("add", "sub", "mul", "div", "rem"):
    for _suffix in ("", ".fast"):
        _op(f"f.{_name}{_suffix}", "lhs:float rhs:float", "same", same=True)
for _name in ("min", "max", "minimum", "maximum", "floordiv", "mod", "copysign"):
    _op(f"f.{_name}", "lhs:float rhs:float", "same", same=True)
for _name in ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round"):
    _op(f"f.{_name}", "v:float", "same")
for _name in ("is_nan", "is_inf", "is_finite"):
    _op(f"f.{_name}", "v:float", "bool")
_op("f.fma", "a:float b:float c:float", "same", same=True)
for _name in MATH:
    _op(f"math.{_name}", "v:float", "same")
for _name in ("pow", "atan2", "hypot", "remainder"):
    _op(f"math.{_name}", "lhs:float rhs:float", "same", same=True)
_op("math.ldexp", "v:float n:i32", "same")
_op("math.frexp_mantissa", "v:float", "same")
_op("math.frexp_exponent", "v:float", "i32")
for _name in ("add", "sub", "mul", "div"):
    _op(f"bf16.{_name}", "lhs:bf16 rhs:bf16", "bf16", same=True)

# --- comparisons, choices and conversions -----------------------------------------------------------------------------
for _name in ("eq", "ne", "slt", "sgt", "sle", "sge", "ult", "ugt", "ule", "uge"):
    _op(f"icmp.{_name}", "lhs:bits rhs:bits", "bool", same=True)
for _name in (*FLOAT_COMPARES, "ord", "uno"):
    _op(f"fcmp.{_name}", "lhs:float rhs:float", "bool", same=True)
_op("bf16.to_f32", "v:bf16", "f32")
_op("f32.to_bf16", "v:f32", "bf16")
_op("f64.to_bf16", "v:f64", "bf16")  # rounds once
_op("cast", "v:scalar", "targ1", targs=2)
_op("bitcast", "v:num", "targ1", targs=2)
_op("select", "cond:bool a:any b:any", "any")
_op("const", "v:any", "same")  # a literal that has a name
_op("getfield", "obj:any field:name", "any")

# --- work-items and memory --------------------------------------------------------------------------------------------
for _name in ("thread_id", "workgroup_id", "workgroup_size", "global_id", "num_workgroups"):
    _op(f"gpu.{_name}", "dim:dim", "id")
_op("gpu.linear_local_id", "", "id")
_op("gpu.buffer_load", "buf:buf idx:idx", "targ0", targs=1)
_op("gpu.buffer_store", "buf:buf idx:idx v:any", "none", targs=1)
_op("gpu.buffer_load_field", "buf:buf idx:idx field:name", "any", targs=1)
_op("gpu.buffer_store_field", "buf:buf idx:idx field:name v:any", "none", targs=1)
_op("gpu.buffer_len", "buf:buf", "any", targs=1)
_op("gpu.shared", "", "ptr", targs=2)
_op("gpu.shared_dynamic", "count:idx", "ptr", targs=1)  # as many elements as the host computes for a launch
_op("gpu.local", "", "ptr", targs=2)
_op("gpu.table", "values:list", "ptr", targs=1)
_op("gpu.malloc", "count:idx", "any", targs=1, capability="device_malloc")  # null where there is no room
_op("gpu.free", "p:rawptr", "none", capability="device_malloc")
_op("ptr.load", "p:rawptr", "targ0", targs=1)
_op("ptr.store", "p:rawptr v:any", "none", targs=1)
_op("ptr.add", "p:rawptr count:idx", "same", targs=1)
_op("ptr.is_null", "p:rawptr", "bool", targs=1)

# --- synchronisation --------------------------------------------------------------------------------------------------
_op("gpu.barrier", "", "none", sync=True)
_op("gpu.grid_sync", "", "none", sync=True, capability="cooperative_groups")
for _name in FENCES:  # acquire and release where neither is named
    _op(_name, "", "none")
for _scope in SCOPES:
    for _name in ("add", "sub", "min", "max", "and", "or", "xor", "exchange"):  # each gives the old value
        _op(f"gpu.atomic_{_name}{_scope}", "buf:buf idx:idx v:any", "targ0", targs=1)
    _op(f"gpu.atomic_cas{_scope}", "buf:buf idx:idx expected:any desired:any", "targ0", targs=1)
    for _order in ORDERS:
        _op(f"gpu.atomic_load{_order}{_scope}", "buf:buf idx:idx", "targ0", targs=1)
        _op(f"gpu.atomic_store{_order}{_scope}", "buf:buf idx:idx v:any", "none", targs=1)
_op("gpu.uniform", "v:scalar", "same")

# --- subgroups --------------------------------------------------------------------------------------------------------
for _name in ("size", "lane", "id", "count"):
    _op(f"gpu.subgroup_{_name}", "", "id", capability="subgroups")
for _name in ("sum", "prod", "min", "max"):
    _subgroup(f"subgroup_{_name}", "v:num", "same")
for _name in ("and", "or", "xor"):
    _subgroup(f"subgroup_{_name}", "v:bits", "same")
for _name in ("sum", "prod", "min", "max", "and", "or", "xor"):
    for _suffix in ("", ".exclusive"):  # without the own value
        _subgroup(f"subgroup_scan_{_name}{_suffix}", "v:bits" if _name in ("and", "or", "xor") else "v:num", "same")
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

# --- for debugging, and what names functions and structs --------------------------------------------------------------
_op("gpu.print", "text:text args:list", "none")
_op("gpu.assert", "cond:bool text:text", "none")
_op("gpu.trap", "text:text", "none")
# Their operands depend on what they name, and have rules of their own.
_op("new", "", "any", targs=1)
_op("call", "", "any")

#: What host programs have besides: families of operations, and single ones. Functions of modules are called by their
#: full names, which have an @.
_HOST_FAMILIES = (
    "arr.",
    "map.",
    "str.",
    "enum.",
    "callable.",
    "weak.",
    "std.",
    "ptr.",
    "mlx.",
    "gpu.host.",
    "gpu.profile.",
)
_LAUNCHES = ("gpu.launch", "gpu.launch_async")
_COUNTED = ("retain", "release", "share", "clone")
_HOST_OPS = frozenset((*_LAUNCHES, *_COUNTED, "call.indirect", "setfield", "global", "try"))

#: What some devices can do in a kernel and there is no code for yet, with the capability (specification, sections 2.2
#: and 6.1). Hosts launch by other rules.
NO_CODE = {
    "gpu.metal.imageblock": "metal.imageblock",
    "gpu.metal.tile_memory": "metal.tile_memory",
    **dict.fromkeys(_LAUNCHES, "dynamic_parallelism"),
}

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
