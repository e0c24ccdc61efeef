"""Arrays of Kernel IR in MPIR, where each has one dimension: rows stand behind each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magpie.dtypes import DType, StructType, Type, leaf_name, leaves
from magpie.ir.nodes import Array, Buffer, ConstArray, HostExpr, LocalArray, Node, SharedArray
from magpie.mpir import nodes as m
from magpie.mpir.emit_ops import Emit, as_i64
from magpie.mpir.types import PTR, Ty

if TYPE_CHECKING:
    from magpie.mpir.emit import Emitter

__all__ = ["Arrays"]

_I64, _BOOL = Ty("i64"), Ty("bool")
_HOST = {
    "shr": "i.ashr",
    **{name: f"i.{name}" for name in ("add", "sub", "mul", "floordiv", "mod", "shl", "and", "or", "xor")},
    **{name: f"i.s{name}" for name in ("min", "max")},
    **{name: f"icmp.{name}" for name in ("eq", "ne")},
    **{name: f"icmp.s{name}" for name in ("lt", "le", "gt", "ge")},
}


class Arrays:
    """The arrays of a kernel that is emitted: where they are declared, and the places of their elements."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.dims: dict[Buffer, list[str]] = {
            b: [emitter.names.fresh(f"{b.name}_dim{d}") for d in range(b.rank)]
            for b in emitter.kernel.buffers
            if b.rank > 1
        }
        self.lengths: dict[Buffer, m.Operand] = {}
        self.declared: dict[Array, m.Operand] = {}
        self.handlers: dict[str, Emit] = {
            "extent": lambda e, node: self.extent(node.attrs["array"], node.attrs["dim"]),
            "stride": lambda e, node: self.stride(node.attrs["array"], node.attrs["dim"]),
            "load": lambda e, node: self.load(node),
            "store": lambda e, node: self.store(node),
            **{name: lambda e, node: self.atomic(node) for name in ("atomic_rmw", "atomic_cas")},
            **{name: lambda e, node: self.atomic(node) for name in ("atomic_load", "atomic_store")},
        }

    def extents(self) -> list[str]:
        """The parameters for extents, in the order of the arrays."""
        return [name for names in self.dims.values() for name in names]

    # --- declarations -------------------------------------------------------------------------------------------------
    def array(self, array: Array) -> m.Operand:
        """The buffer or pointer of an array, declared at the start of the kernel."""
        if isinstance(array, Buffer):
            return m.Var(self.e.names.params[array.name])
        if array not in self.declared:
            self.declared[array] = self.declare(array)
        return self.declared[array]

    def declare(self, array: Array) -> m.Operand:
        e, of = self.e, self.e.type(array.type)
        if isinstance(array, ConstArray):
            values = tuple(m.Const(of, v) for v in array.values)
            return e.before("gpu.table", {"values": values}, PTR, of, hint=array.name)
        assert isinstance(array, SharedArray | LocalArray)
        if isinstance(array, SharedArray) and array.dynamic:
            count: m.Operand = m.Const(_I64, 1)
            for d in range(array.rank):
                count = self.times(count, self.extent(array, d), True)
            return e.before("gpu.shared_dynamic", {"count": count}, PTR, of, hint=array.name)
        total = 1
        for n in array.shape:
            assert isinstance(n, int)
            total *= n
        op = "gpu.shared" if isinstance(array, SharedArray) else "gpu.local"
        return e.before(op, {}, PTR, max(1, total), of, hint=array.name)

    # --- extents ------------------------------------------------------------------------------------------------------
    def extent(self, array: Array, d: int) -> m.Operand:
        e = self.e
        if isinstance(array, Buffer):
            if array in self.dims:
                return m.Var(self.dims[array][d])
            if array not in self.lengths:
                of = e.type(array.type)
                buf: dict[str, m.Operand] = {"buf": self.array(array)}
                self.lengths[array] = e.before("gpu.buffer_len", buf, _I64, of, hint=f"{array.name}_len")
            return self.lengths[array]
        assert isinstance(array, SharedArray | LocalArray | ConstArray)
        n = array.shape[d]
        return m.Const(_I64, n) if isinstance(n, int) else self.host(n)

    def stride(self, array: Array, d: int) -> m.Operand:
        found: m.Operand = m.Const(_I64, 1)
        for k in range(d + 1, array.rank):
            found = self.times(found, self.extent(array, k), True)
        return found

    def host(self, expr: int | HostExpr) -> m.Operand:
        """What the host computes at launch, computed at the start of the kernel, as i64."""
        e = self.e
        if isinstance(expr, int):
            return m.Const(_I64, expr)
        head = expr[0]
        match head:
            case "const":
                return m.Const(_I64, int(expr[1]))
            case "param":
                scalar = next(s for s in e.kernel.scalars if s.name == expr[1])
                return self.wide(m.Var(e.names.params[scalar.name]), e.type(scalar.type))
            case "extent" | "stride":
                buffer = next(b for b in e.kernel.buffers if b.name == expr[1])
                return self.extent(buffer, expr[2]) if head == "extent" else self.stride(buffer, expr[2])
            case "workgroup_size" | "num_workgroups":
                dim: dict[str, m.Operand] = {"dim": m.Const(Ty("u32"), expr[1])}
                return e.before(f"gpu.{head}", dim, _I64, hint=head)
            case "cast":
                name = "i64" if expr[1] == "index" else expr[1]
                value = self.host(expr[2])
                if name != "i64":
                    value = e.before("cast", {"v": value}, Ty(name), _I64, Ty(name))
                return self.wide(value, Ty(name))
        args = [self.host(a) for a in expr[1:]]
        if head == "neg":
            return e.before("i.neg", {"v": args[0]}, _I64)
        if head == "select":
            cond = e.before("cast", {"v": args[0]}, _BOOL, _I64, _BOOL)
            return e.before("select", {"cond": cond, "a": args[1], "b": args[2]}, _I64)
        op = _HOST[head]
        found = e.before(op, {"lhs": args[0], "rhs": args[1]}, _BOOL if op.startswith("icmp") else _I64)
        return self.wide(found, _BOOL) if op.startswith("icmp") else found

    def wide(self, value: m.Operand, type_: Ty) -> m.Operand:
        return value if type_ == _I64 else self.e.before("cast", {"v": value}, _I64, type_, _I64)

    # --- places of elements -------------------------------------------------------------------------------------------
    def times(self, a: m.Operand, b: m.Operand, first: bool = False) -> m.Operand:
        """A product of i64, at the start of the kernel or here."""
        numbers = [v.value for v in (a, b) if isinstance(v, m.Const)]
        if len(numbers) == 2:
            return m.Const(_I64, int(numbers[0]) * int(numbers[1]))
        if numbers == [0]:
            return m.Const(_I64, 0)
        if numbers == [1]:
            return b if isinstance(a, m.Const) else a
        args = {"lhs": a, "rhs": b}
        return self.e.before("i.mul", args, _I64) if first else self.e.add("i.mul", args, _I64)

    def place(self, array: Array, indices: tuple[Node, ...]) -> m.Operand:
        """The number of an element among all of its array."""
        e = self.e
        if not indices:
            return m.Const(_I64, 0)
        if len(indices) == 1:
            return e.value(indices[0])
        at: m.Operand | None = None
        for d, index in enumerate(indices):
            here = as_i64(e, e.value(index), e.type(index.type))
            if at is not None:
                row = self.times(at, self.extent(array, d))
                both = [v.value for v in (row, here) if isinstance(v, m.Const)]
                if len(both) == 2:
                    here = m.Const(_I64, int(both[0]) + int(both[1]))
                elif both == [0]:
                    here = here if isinstance(row, m.Const) else row
                else:
                    here = e.add("i.add", {"lhs": row, "rhs": here}, _I64)
            at = here
        assert at is not None
        return at

    # --- accesses -----------------------------------------------------------------------------------------------------
    def load(self, node: Node) -> m.Operand:
        e, array, path = self.e, node.attrs["array"], tuple(node.attrs.get("field") or ())
        of, hint = e.type(array.type), e.hints.get(node, "")
        args: dict[str, m.Operand] = {"buf": self.array(array), "idx": self.place(array, node.args)}
        if not path:
            return e.add("gpu.buffer_load", args, of, of, hint=hint, pure=False)
        if isinstance(node.type, DType):
            args["field"] = m.Word(leaf_name("", array.type, path)[1:])
            return e.add("gpu.buffer_load_field", args, e.type(node.type), of, hint=hint, pure=False)
        return self.leaf(e.add("gpu.buffer_load", args, of, of, pure=False), array.type, path)

    def store(self, node: Node) -> None:
        e, array, path = self.e, node.attrs["array"], tuple(node.attrs.get("field") or ())
        of, value = e.type(array.type), e.value(node.args[-1])
        args: dict[str, m.Operand] = {"buf": self.array(array), "idx": self.place(array, node.args[:-1])}
        if not path:
            e.add("gpu.buffer_store", args | {"v": value}, None, of, pure=False)
            return
        type_ = node.args[-1].type
        assert isinstance(type_, DType | StructType)
        for inner, _, _ in leaves(type_):
            word = m.Word(leaf_name("", array.type, (*path, *inner))[1:])
            leaf = self.leaf(value, type_, inner)
            e.add("gpu.buffer_store_field", args | {"field": word, "v": leaf}, None, of, pure=False)

    def leaf(self, value: m.Operand, type_: Type, path: tuple[int, ...]) -> m.Operand:
        """A number inside a struct value."""
        for position in path:
            assert isinstance(type_, StructType)
            field = type_.fields[position]
            args: dict[str, m.Operand] = {"obj": value, "field": m.Word(field.name)}
            value, type_ = self.e.add("getfield", args, self.e.type(field.type)), field.type
        return value

    def atomic(self, node: Node) -> m.Operand | None:
        e, array = self.e, node.attrs["array"]
        of = e.type(array.type)
        kind = node.attrs["kind"] if node.op == "atomic_rmw" else node.op[len("atomic_") :]
        default = "device" if array.space == "buffer" else "workgroup"
        scope = node.attrs.get("scope") or default
        order = ".relaxed" if node.attrs.get("order") == "relaxed" else ""
        op = f"gpu.atomic_{kind}{order}{f'.{scope}' if scope != default else ''}"
        indices, values = node.args[: array.rank], tuple(map(e.value, node.args[array.rank :]))
        args: dict[str, m.Operand] = {"buf": self.array(array), "idx": self.place(array, indices)}
        args |= zip(("expected", "desired") if kind == "cas" else ("v",), values, strict=False)
        if node.type is None:
            e.add(op, args, None, of, pure=False)
            return None
        return e.add(op, args, of, of, hint=e.hints.get(node, "old"), pure=False)
