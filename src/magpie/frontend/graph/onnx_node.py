"""One node of an ONNX model, as the importers of operators see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from magpie.dtypes import DType, f32, i32
from magpie.frontend.graph.nodes import Shape, Value

if TYPE_CHECKING:
    from magpie.frontend.graph.passes.decompose import Maker

__all__ = ["Importer", "Node", "Unsupported"]

Array = np.ndarray[Any, Any]


class Unsupported(Exception):
    """What of a node graphs cannot express."""


class Importer(Protocol):
    """What a node asks the importer of its model."""

    maker: Maker
    opset: int

    def array(self, name: str) -> Array | None: ...
    def value(self, name: str) -> Value | None: ...
    def constant(self, array: Array, name: str) -> Value: ...


class Node:
    """Inputs by number, attributes by name, and the ops that the node becomes."""

    def __init__(self, proto: Any, importer: Importer) -> None:
        self.proto = proto
        self.importer = importer
        self.maker = importer.maker
        self.opset = importer.opset
        self.count = len(proto.input)
        self.attributes = {a.name: _attribute(a) for a in proto.attribute}
        self.base = "$" + (proto.output[0] if proto.output else "v")

    def has(self, n: int) -> bool:
        """Whether input ``n`` is given."""
        return n < self.count and bool(self.proto.input[n])

    def __getitem__(self, n: int) -> Value:
        """Input ``n`` as a value."""
        found = self.importer.value(self.proto.input[n]) if self.has(n) else None
        if found is None:
            raise ValueError(f"input {n} is missing")
        return found

    def array(self, n: int) -> Array | None:
        """What input ``n`` holds, where that is known without a run."""
        return self.importer.array(self.proto.input[n]) if self.has(n) else None

    def known(self, n: int, what: str) -> Array:
        """What input ``n`` holds; it must be known."""
        found = self.array(n)
        if found is None:
            raise Unsupported(f"{what} that depends on the model's inputs")
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def ints(self, name: str, n: int) -> tuple[int, ...] | None:
        """Integers that are an attribute in old opsets and input ``n`` in new ones; None where they are left out."""
        if name in self.attributes:
            return tuple(int(v) for v in self.attributes[name])
        return tuple(int(v) for v in self.known(n, name).reshape(-1)) if self.has(n) else None

    # --- making ops --------------------------------------------------------------------------------------------------
    def needed_ints(self, name: str, n: int) -> tuple[int, ...]:
        """`ints` that the operator cannot do without."""
        found = self.ints(name, n)
        if found is None:
            raise ValueError(f"{name} is missing")
        return found

    def op(self, name: str, *operands: Value, **attrs: Any) -> Value:
        return self.maker.op(name, operands, self.base, **attrs)

    def const(self, data: Any, dtype: DType) -> Value:
        return self.maker.const(data, dtype, self.base)

    def like(self, number: float, x: Value) -> Value:
        """A constant of a value's dtype, without dimensions."""
        return self.const(number, x.dtype)

    def cast(self, x: Value, to: DType) -> Value:
        return x if x.dtype is to else self.op("cast", x, to=to)

    def reshape(self, x: Value, shape: Shape) -> Value:
        return self.maker.reshape(x, shape, self.base)

    def number(self, x: Value) -> Value:
        """A value that arithmetic takes: of integers i32."""
        return self.cast(x, i32) if x.dtype.is_int else x

    def float(self, x: Value) -> Value:
        return x if x.dtype.is_float else self.cast(x, f32)


def _attribute(proto: Any) -> Any:
    """An attribute's value; a tensor as an array."""
    import onnx

    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if proto.type == onnx.AttributeProto.TENSOR:
        return onnx.numpy_helper.to_array(value)
    return value
