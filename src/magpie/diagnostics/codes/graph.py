"""MPG_GRAPH: tensor graphs, as `.tg` text and as ONNX files."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d(
    "MPG_GRAPH_1001",
    ERROR,
    "Not the text of a graph",
    """
    A `.tg` file is text in UTF-8 without NUL characters, of at most 64,000,000 bytes. Large constants stand in .npy
    files beside it.

    cure: Save the text as UTF-8, and put large constants into .npy files.

    wrong:  a .tg file with a million numbers in it
    right:  %w: f32[1000, 1000] = const "w.npy"
    """,
)
_d(
    "MPG_GRAPH_1002",
    ERROR,
    "Syntax error in a graph",
    """
    The text does not follow the grammar at the place shown. Reading goes on at the next statement, so one run shows
    up to 20 errors.

    cure: Write what the message says could stand there; docs/GRAPH.md has the grammar.

    wrong:  %y = matmul(%x, %w)
    right:  %y = matmul %x, %w
    """,
)
_d(
    "MPG_GRAPH_1003",
    ERROR,
    "Unknown value, or one that is defined twice",
    """
    A value is defined before it is used, once, and returned once.

    cure: Define the value above its use, and give each a name of its own.

    wrong:  %y = relu %z            where %z comes later, or never
    right:  %z = neg %x
            %y = relu %z
    """,
)
_d(
    "MPG_GRAPH_1004",
    ERROR,
    "Unknown op, or wrong operands or attributes",
    """
    The table of ops says how many operands an op takes and which attributes it has. Only elementwise ops are steps
    of an epilogue, and only reductions, softmax and layernorm have a prologue.

    cure: Use the operands and attributes that docs/GRAPH.md lists for the op.

    wrong:  %y = softmax{dim=1} %x
    right:  %y = softmax{axis=1} %x
    """,
)
_d(
    "MPG_GRAPH_1005",
    ERROR,
    "Shapes do not fit",
    """
    The shapes of operands do not fit together, or a result is declared with another shape than the op gives.
    Elementwise ops broadcast as NumPy does; every extent is known, and at least 1.

    cure: Transpose or reshape an operand, or declare the shape that the op gives.

    wrong:  %y = matmul %a, %b      of f32[4, 8] and f32[6, 8]
    right:  %t = transpose %b
            %y = matmul %a, %t
    """,
)
_d(
    "MPG_GRAPH_1006",
    ERROR,
    "Dtypes do not fit",
    """
    Values are i8, u8, i32, f32, f16, bf16 and bool. Floats meet floats of their own width; integers of any width
    give i32. There are no implicit casts between integers and floats.

    cure: Cast one of the operands.

    wrong:  %y = add %f, %i         of f32[4] and i32[4]
    right:  %g = cast{to=f32} %i
            %y = add %f, %g
    """,
)
_d(
    "MPG_GRAPH_1007",
    ERROR,
    "Invalid constant",
    """
    A constant has a type, and its numbers are of that type: in brackets that nest as its shape does, one number for all
    elements, or the name of a .npy file beside the graph that holds such an array.

    cure: Write numbers that the type holds, nested as the shape is.

    wrong:  %b: i8[3] = const [1, 2, 300]
    right:  %b: i8[3] = const [1, 2, 100]
    """,
)
_d(
    "MPG_GRAPH_1010",
    ERROR,
    "ONNX is not installed",
    """
    Reading ONNX files takes the package onnx, which Magpie does not install by itself. It is part of the extra "onnx".
    Text of graphs (.tg) needs no other package.

    cure: Install the extra, or write the graph as text.

    wrong:  mp.graph.load("model.onnx")     without it
    right:  pip install 'magpie-gpu[onnx]'
    """,
)
_d(
    "MPG_GRAPH_1011",
    ERROR,
    "Damaged ONNX file",
    """
    The file is no ONNX model, or a node of it is not as its operator's specification says. The message names the
    node and the attribute or input.

    cure: Export the model again, with its data beside it.

    wrong:  a file that was cut off, or external data that is not beside it
    right:  onnx.checker.check_model("model.onnx") passes
    """,
)
_d(
    "MPG_GRAPH_1012",
    ERROR,
    "ONNX operators without an equivalent",
    """
    The model has nodes that graphs cannot express. All of them are listed, each with its name, operator and what of
    it is not supported. docs/GRAPH.md lists what is.

    cure: Export the part of the model that has equivalents, or write the rest with other operators.

    wrong:  a model with LSTM, Loop or NonZero nodes
    right:  the part of the model between them, exported by itself
    """,
)
_d(
    "MPG_GRAPH_1013",
    ERROR,
    "ONNX shape is not static",
    """
    Graphs have static shapes. An input of the model has a symbolic or unknown extent that was not given a value, or
    a shape depends on data; or sizes= names an extent that no input has.

    cure: Give the extent with sizes=, or export the model with static shapes.

    wrong:  mp.graph.load("model.onnx")                      whose input is ["batch", 64]
    right:  mp.graph.load("model.onnx", sizes={"batch": 8})
    """,
)
_d(
    "MPG_GRAPH_1020",
    ERROR,
    "Graph does not run on this target",
    """
    The target lacks a dtype or an operation that the graph needs. The message names the first value or op that it
    cannot hold or compute, at its place in the graph.

    cure: Choose another target, or a dtype that this one has.

    wrong:  tinyc net.tg --target gpu       with floats in it: tiny-gpu has 32-bit integers only
    right:  tinyc net.tg --target cpu
    """,
)
_d(
    "MPG_GRAPH_1021",
    ERROR,
    "Inputs do not fit the graph",
    """
    A run names every input of the graph once, with an array of its shape; integers must be in the range of its
    dtype, and floats are rounded to it.

    cure: Pass one array for each input, of the shape and dtype that the graph declares.

    wrong:  g.run({"X": np.zeros((4, 7), np.int8)})         for an input i8[4, 8]
    right:  g.run({"X": np.zeros((4, 8), np.int8)})
    """,
)
