"""ONNX models to Graph IR: MLPs, CNNs and transformers, quantised ones included.

The package onnx is imported when a model is read. int64 becomes i32, float64 f32; nodes whose inputs are all known are
computed at once by onnx's own reference, so that shapes that exporters compute node by node are numbers here. Operators
that have no equivalent are collected and reported together. A value keeps its name in the model, and its place is the
number of its node, with the node's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.dtypes import DType, bf16, bool_, f16, f32, i8, i32, u8
from magpie.frontend.graph.nodes import Graph, Value
from magpie.frontend.graph.onnx_node import Node, Unsupported
from magpie.frontend.graph.onnx_quantised import IMPORTERS
from magpie.frontend.graph.passes.decompose import Maker
from magpie.frontend.graph.rules import Mismatch, checked

__all__ = ["IMPORTERS", "import_model", "import_onnx"]

Array = np.ndarray[Any, Any]

#: Elements above which a node on constants is not computed while a model is read, but becomes an op.
_FOLDED = 1 << 20

#: Elements of the largest constant that nodes may make.
_LARGEST_FOLDED = 1 << 24

# What an importer meets where a node has other inputs or attributes than its operator's specification says.
_NOT_AS_SPECIFIED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

# Operators whose result differs from run to run, or that are no functions of their inputs.
_NEVER_FOLDED = frozenset(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"))


def import_onnx(path: Path, sizes: Mapping[str, int]) -> Graph:
    """The graph of an ONNX file; see `import_model`. Raises OSError for a file that cannot be read."""
    onnx = _package(str(path))
    with path.open("rb"):
        pass  # a missing file is an OSError, not a damaged model
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf and onnx raise many kinds for damaged files
        text = str(error).strip().split("\n")[0] or type(error).__name__
        raise CompileError(Diagnostic("MPG_GRAPH_1011", f"no ONNX model: {text}", Loc(str(path), 0))) from None
    return import_model(model, str(path), sizes)


def import_model(model: Any, file: str = "<onnx>", sizes: Mapping[str, int] | None = None) -> Graph:
    """The graph of an `onnx.ModelProto`. ``sizes`` gives symbolic extents of inputs by name.

    Raises CompileError: MPG_GRAPH_1010 without the package, 1011 for damaged models, 1012 with all operators that have
    no equivalent, 1013 where a shape is not known.
    """
    _package(file)
    return _Importer(model, file, sizes or {}).graph()


def _package(file: str) -> Any:
    try:
        import onnx
    except ImportError:
        help = "pip install 'magpie-gpu[onnx]'"
        raise CompileError(Diagnostic("MPG_GRAPH_1010", f"reading {file} takes the package onnx", help=help)) from None
    return onnx


class _Importer:
    """One model on its way."""

    def __init__(self, model: Any, file: str, sizes: Mapping[str, int]) -> None:
        self.model = model
        self.file = file
        self.sizes = sizes
        self._check_strings()
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in model.graph.name) or "main"
        self.ir = Graph(name if not name[0].isdigit() else f"g{name}")
        self.maker = Maker(self.ir)
        self.known: dict[str, Array] = {}  # values that do not depend on inputs
        self.values: dict[str, Value | None] = {"": None}
        self.missing: set[str] = set()  # values of nodes that could not be imported
        self.found: list[Diagnostic] = []
        self.opset = next((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)

    def _check_strings(self) -> None:
        """Protobuf gives bytes for a string that is no UTF-8."""
        proto = self.model.graph
        names: list[Any] = [proto.name, *(t.name for t in proto.initializer)]
        for value in (*proto.input, *proto.output):
            names += [value.name, *(d.dim_param for d in value.type.tensor_type.shape.dim)]
        for node in proto.node:
            names += [
                node.name,
                node.op_type,
                node.domain,
                *node.input,
                *node.output,
                *(a.name for a in node.attribute),
            ]
        wrong = next((n for n in names if not isinstance(n, str)), None)
        if wrong is not None:
            raise self._damaged(f"the name {wrong!r} is not UTF-8")

    def graph(self) -> Graph:
        import onnx

        proto = self.model.graph
        for tensor in proto.initializer:
            try:
                self.known[tensor.name] = onnx.numpy_helper.to_array(tensor, base_dir=str(Path(self.file).parent))
            except Exception as error:
                raise self._damaged(f"initializer {tensor.name!r}: {_first_line(error)}") from None
        self._check_names()
        self._check_sizes()
        if self.found:
            raise CompileError(self.found)
        for value in proto.input:
            if value.name not in self.known:
                self._input(value)
        if self.found:
            raise CompileError(self.found)
        for number, node in enumerate(proto.node):
            self._node(number, node)
        if self.found:
            raise CompileError(self.found)
        self.maker.loc = Loc(self.file, 0)
        for value in proto.output:
            self._output(value.name)
        if not self.ir.outputs:
            raise self._damaged("the model has no outputs")
        return self._compact()

    def _check_names(self) -> None:
        """Names of the model's values are kept: new ones must not take them."""
        for node in self.model.graph.node:
            self.maker.names.update(node.output)
        self.maker.names.update(v.name for v in self.model.graph.input)

    def _check_sizes(self) -> None:
        """Extents that are given by name are whole numbers from 1 on, and the model has each."""
        inputs = [v for v in self.model.graph.input if v.name not in self.known]
        symbols = dict.fromkeys(d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim if d.dim_param)
        for name, n in self.sizes.items():
            text = None
            if name not in symbols:
                text = f"no input has an extent {name!r}; there are {', '.join(symbols) or 'none with names'}"
            elif not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
                text = f"extent {name!r} is {n!r}, and extents are whole numbers from 1 on"
            if text is not None:
                self.found.append(Diagnostic("MPG_GRAPH_1013", text, Loc(self.file, 0)))

    def _damaged(self, text: str, loc: Loc | None = None) -> CompileError:
        return CompileError(Diagnostic("MPG_GRAPH_1011", text, loc or Loc(self.file, 0)))

    # --- inputs and outputs ------------------------------------------------------------------------------------------
    def _input(self, value: Any) -> None:
        tensor = value.type.tensor_type
        loc = Loc(self.file, 0, function=value.name)
        try:
            dtype = graph_dtype(tensor.elem_type)
        except Unsupported as error:
            self.found.append(Diagnostic("MPG_GRAPH_1012", f"input {value.name!r}: {error}", loc))
            return
        shape = []
        for dim in tensor.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value < 1:
                text = f"input {value.name!r} has an extent of {dim.dim_value}"
                self.found.append(Diagnostic("MPG_GRAPH_1013", text, loc, help="export the model with fixed shapes"))
                return
            n = int(dim.dim_value) if dim.HasField("dim_value") else self.sizes.get(dim.dim_param)
            if n is None:
                what = f"extent {dim.dim_param!r}" if dim.dim_param else "an extent without a name"
                help = (
                    f"give it: sizes={{{dim.dim_param!r}: 1}}"
                    if dim.dim_param
                    else "export the model with fixed shapes"
                )
                self.found.append(
                    Diagnostic("MPG_GRAPH_1013", f"input {value.name!r} has {what} that is not known", loc, help=help)
                )
                return
            shape.append(n)
        try:
            checked((dtype, tuple(shape)))
        except Mismatch as error:
            self.found.append(Diagnostic("MPG_GRAPH_1011", f"input {value.name!r}: {error.message}", loc))
            return
        if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
            self.found.append(Diagnostic("MPG_GRAPH_1013", f"input {value.name!r} has no shape", loc))
            return
        made = Value(value.name, dtype, tuple(shape), loc)
        self.values[value.name] = made
        self.ir.inputs.append(made)

    def _output(self, name: str) -> None:
        try:
            value = self.value(name)
        except Unsupported as error:
            raise CompileError(Diagnostic("MPG_GRAPH_1012", f"output: {error}", Loc(self.file, 0))) from None
        if value is None and name in self.missing:
            text = f"output {name!r}: further results of its operator"
            raise CompileError(Diagnostic("MPG_GRAPH_1012", text, Loc(self.file, 0)))
        if value is None:
            raise self._damaged(f"output {name!r} is made by no node")
        if value in self.ir.outputs or value in self.ir.inputs or value.name != name:
            value = self._renamed(value, name)
        self.ir.outputs.append(value)

    def _renamed(self, value: Value, name: str) -> Value:
        """The value under the name of an output."""
        taken = name in {v.name for v in self.ir.values()}
        made = Value(self.maker.fresh(name) if taken else name, value.dtype, value.shape, self.maker.loc)
        self.maker.op("reshape", (value,), name, made, shape=value.shape)
        return made

    # --- nodes -------------------------------------------------------------------------------------------------------
    def _node(self, number: int, proto: Any) -> None:
        loc = Loc(self.file, number + 1, function=proto.name or proto.output[0] if proto.output else proto.name)
        what = f"node {proto.name!r} ({proto.op_type})" if proto.name else f"node {number} ({proto.op_type})"
        if any(name in self.missing for name in proto.input):
            self.missing.update(proto.output)
            return
        unknown = [name for name in proto.input if name and name not in self.values and name not in self.known]
        if unknown:
            self.missing.update(proto.output)
            self.found.append(Diagnostic("MPG_GRAPH_1011", f"{what} reads {unknown[0]!r}, which nothing makes", loc))
            return
        twice = [name for name in proto.output if name in self.values or name in self.known] if proto.output else []
        if any(twice):
            self.found.append(Diagnostic("MPG_GRAPH_1011", f"{what} makes {max(twice)!r}, which is there already", loc))
            return
        try:
            if self._folded(proto):
                return
            if proto.domain not in ("", "ai.onnx", "com.microsoft") or proto.op_type not in IMPORTERS:
                raise Unsupported(f"operator {proto.op_type} of {proto.domain or 'ai.onnx'}")
            self.maker.loc = loc
            results = IMPORTERS[proto.op_type](Node(proto, self))
            for name, result in zip(proto.output, results, strict=False):
                self.values[name] = self._named(result, name)
            self.missing.update(proto.output[len(results) :])
            return
        except Unsupported as error:
            self.found.append(Diagnostic("MPG_GRAPH_1012", f"{what}: {error}", loc))
        except Mismatch as error:
            code = "MPG_GRAPH_1012" if error.code == "MPG_GRAPH_1006" else "MPG_GRAPH_1011"
            self.found.append(Diagnostic(code, f"{what}: {error.message}", loc, help=error.help))
        except _NOT_AS_SPECIFIED as error:
            # an attribute or an input that is not as the operator's specification says
            self.found.append(Diagnostic("MPG_GRAPH_1011", f"{what}: {_first_line(error)}", loc))
        self.missing.update(proto.output)

    def _named(self, result: Value, name: str) -> Value:
        """Give the last op's value the name that it has in the model, where it has no other use."""
        op = self.ir.ops[-1] if self.ir.ops else None
        if op is not None and op.result is result and result.name.startswith("$"):
            result.name = name
        return result

    def _folded(self, proto: Any) -> bool:
        """Compute a node on known values alone; False where it depends on inputs, or cannot be computed."""
        inputs = [name for name in proto.input if name]
        if proto.op_type in _NEVER_FOLDED or any(a.type in (5, 10) for a in proto.attribute):
            return False  # with graphs as attributes: If, Loop, Scan
        value = self.values.get(inputs[0]) if proto.op_type == "Shape" and inputs else None
        if value is not None:
            node = Node(proto, self)
            start, end = node.get("start", 0), node.get("end", len(value.shape))
            self.known[proto.output[0]] = np.array(value.shape[slice(start, end)], np.int64)
            return True
        if any(name not in self.known for name in inputs):
            return False
        if sum(self.known[name].size for name in inputs) > _FOLDED and proto.op_type in IMPORTERS:
            return False
        if _grown(proto.op_type, [self.known[name] for name in inputs]) > _LARGEST_FOLDED:
            raise Unsupported("a constant of that size that no file holds")
        results = _computed(proto, {name: self.known[name] for name in inputs}, self.model)
        if results is None or sum(r.size for r in results) > _LARGEST_FOLDED:
            return False
        self.known.update(zip(proto.output, results, strict=False))
        return True

    # --- what importers ask ------------------------------------------------------------------------------------------
    def array(self, name: str) -> Array | None:
        """The content of a value that is known, else None."""
        return self.known.get(name)

    def value(self, name: str) -> Value | None:
        """A value as one of the graph; a known one becomes a constant. None for an input that is left out."""
        if name in self.values:
            return self.values[name]
        if name not in self.known:
            return None
        made = self.values[name] = self.constant(self.known[name], name)
        return made

    def constant(self, array: Array, name: str) -> Value:
        dtype, data = graph_array(array)
        if 0 in data.shape:
            raise Unsupported(f"{name!r} has no elements")
        base = name if name not in self.maker.names else f"${name}"
        return self.maker.const(data, dtype, base)

    def _compact(self) -> Graph:
        """Without constants that nothing reads, and every value under a name of its own."""
        from magpie.frontend.graph.passes.simplify import eliminate_dead

        done = eliminate_dead(self.ir)
        names: set[str] = {v.name for v in (*done.inputs, *done.outputs)}
        for op in done.ops:
            if op.result in done.outputs:
                continue
            base = op.result.name.lstrip("$") or "v"
            name, n = base, 0
            while name in names:
                n += 1
                name = f"{base}.{n}"
            op.result.name = name
            names.add(name)
        return done


def _grown(operator: str, inputs: list[Array]) -> float:
    """At most so many elements has the result of an operator that makes much of little; 0 for all others."""
    with np.errstate(all="ignore"):
        numbers = [np.abs(a.astype(np.float64)) for a in inputs if a.dtype.kind in "iuf"]
        if operator in ("ConstantOfShape", "Expand", "Tile") and numbers:
            return float(np.maximum(numbers[-1], 1).prod() * (inputs[0].size if len(inputs) > 1 else 1))
        if operator == "Range" and len(numbers) == 3 and all(a.size == 1 for a in numbers):
            return float((numbers[0].sum() + numbers[1].sum()) / max(float(numbers[2].sum()), 1e-30))
        if operator in ("Pad", "OneHot", "Resize", "EyeLike") and numbers:
            return float(max(a.max(initial=0) for a in numbers) * max(a.size for a in inputs))
    return 0.0


def _computed(proto: Any, known: Mapping[str, Array], model: Any) -> list[Array] | None:
    """A node's results by onnx's reference, or None where it has none."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        made = onnx.helper.make_model(
            onnx.helper.make_graph(
                [proto],
                "one",
                [
                    onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                    for n, a in known.items()
                ],
                [onnx.helper.make_empty_tensor_value_info(n) for n in proto.output if n],
            ),
            opset_imports=list(model.opset_import),
        )
        results = ReferenceEvaluator(made).run(None, dict(known))
    except Exception:  # what it cannot do, the importer may
        return None
    return [np.asarray(r) for r in results] if all(isinstance(r, np.ndarray | np.generic) for r in results) else None


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


_ELEMENTS: dict[int, DType] = {1: f32, 2: u8, 3: i8, 6: i32, 7: i32, 9: bool_, 10: f16, 11: f32, 16: bf16}


def graph_dtype(element: int) -> DType:
    """The dtype for an ONNX element type; int64 is i32 and float64 is f32. Raises Unsupported."""
    found = _ELEMENTS.get(element)
    if found is None:
        import onnx

        names = {v: k for k, v in onnx.TensorProto.DataType.items()}
        raise Unsupported(f"element type {names.get(element, element)}")
    return found


def graph_array(array: Array) -> tuple[DType, Array]:
    """An array in the dtype that it has in a graph. Raises Unsupported where a number does not fit."""
    kinds: dict[str, DType] = {
        "float32": f32, "float64": f32, "float16": f16, "bfloat16": bf16, "bool": bool_, "int8": i8, "uint8": u8,
    }  # fmt: skip
    name = array.dtype.name
    if name in kinds:
        return kinds[name], array.astype(kinds[name].numpy)
    if array.dtype.kind in "iu":
        # Beyond 32 bits stand only ends of slices, "as far as it goes".
        return i32, np.clip(array.astype(np.int64), i32.min, i32.max).astype(np.int32)
    raise Unsupported(f"elements of type {name}")
