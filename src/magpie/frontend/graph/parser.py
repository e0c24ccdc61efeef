"""`.tg` text to a graph, checked: every error of a run with its place, not only the first one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from magpie.diagnostics import CompileError, Loc
from magpie.dtypes import DType, f32
from magpie.frontend.graph.constants import array_of, everywhere, literal, load_file
from magpie.frontend.graph.cursor import Cursor, Stop
from magpie.frontend.graph.fused import epilogue_value
from magpie.frontend.graph.nodes import Graph, Op, Operand, Prev, Shape, Step, Value, type_text
from magpie.frontend.graph.ops import DTYPES, OPS, Attr, infer
from magpie.frontend.graph.rules import MOST_DIMS, Mismatch, checked
from magpie.frontend.graph.text import MAX_ERRORS, Token
from magpie.frontend.mp.source import Source

__all__ = ["parse"]

_CLOSE = {"[": "]", "(": ")", "{": "}"}


def parse(source: Source, folder: Path | None = None) -> Graph:
    """Read and check a text. ``folder`` is where .npy files of constants lie; None: there are none.

    Raises CompileError with up to MAX_ERRORS diagnostics in the order of lines.
    """
    run = _Parser(source, folder)
    graph = run.graph()
    if run.found:
        run.found.sort(key=lambda d: (d.loc.line, d.loc.col) if d.loc is not None else (0, 0))
        raise CompileError(run.found[:MAX_ERRORS])
    return graph


class _Parser(Cursor):
    """One pass over the tokens. A statement with an error gives a value that later errors are not reported for."""

    def __init__(self, source: Source, folder: Path | None) -> None:
        super().__init__(source)
        self.folder = folder
        self.known: dict[str, Value | None] = {}  # None: its statement is wrong
        self.missing: set[str] = set()  # read where they were not there, which was said

    # --- the whole ---------------------------------------------------------------------------------------------------
    def graph(self) -> Graph:
        graph = Graph("main")
        try:
            start = self.take("name", "graph", "a text begins with `graph NAME(%x: f32[2, 3]) {`")
            graph.name = self.take("name").text
            graph.loc = self.loc(start)
            self._parameters(graph)
            results = self._results()
            self.take("mark", "{")
        except Stop:
            return graph  # what follows would be read as something else
        returned = False
        while self.peek().text != "}" and self.peek().kind != "end" and len(self.found) < MAX_ERRORS:
            try:
                if self.peek().kind == "name" and self.peek().text == "return":
                    returned = True
                    self._return(graph, results)
                    break
                self._statement(graph)
            except Stop:
                self.recover()
        if not self.found:
            if not returned:
                self.error("MPG_GRAPH_1002", "a graph ends in `return %y`", self.peek())
            else:
                self._end()
        return graph

    def _end(self) -> None:
        try:
            self.take("mark", "}")
            if self.peek().kind != "end":
                self.error("MPG_GRAPH_1002", f"expected the end of the file, found {self.shown(self.peek())}")
        except Stop:
            pass

    def _parameters(self, graph: Graph) -> None:
        self.take("mark", "(")
        while not self.accept(")"):
            token = self.take("value")
            self.take("mark", ":")
            dtype, shape = self._type()
            value = Value(token.text, dtype, shape, self.loc(token))
            try:
                checked((dtype, shape))
            except Mismatch as error:
                self.mismatch(error, token)
            self._define(token, value)
            graph.inputs.append(value)
            if not self.accept(","):
                self.take("mark", ")")
                break

    def _results(self) -> list[tuple[DType, Shape]] | None:
        if not self.accept("->"):
            return None
        if not self.accept("("):
            return [self._type()]
        found = [self._type()]
        while self.accept(","):
            found.append(self._type())
        self.take("mark", ")")
        return found

    def _return(self, graph: Graph, results: list[tuple[DType, Shape]] | None) -> None:
        start = self.take("name", "return")
        while True:
            token = self.peek()
            value = self._use()
            if value is not None:
                if value in graph.outputs:
                    self.error("MPG_GRAPH_1003", f"%{value.name} is returned twice", token)
                graph.outputs.append(value)
            if not self.accept(","):
                break
        given = [(v.dtype, v.shape) for v in graph.outputs]
        if results is not None and results != given and not self.found:
            wanted, got = (", ".join(type_text(*t) for t in ts) for ts in (results, given))
            same = [t[0] for t in results] == [t[0] for t in given]
            code = "MPG_GRAPH_1005" if same else "MPG_GRAPH_1006"
            self.error(code, f"the graph is declared to give {wanted}, and returns {got}", start)

    def _type(self) -> tuple[DType, Shape]:
        token = self.take("name", None, "a type is written f32[2, 3]")
        dtype = DTYPES.get(token.text)
        if dtype is None:
            known = ", ".join(DTYPES)
            self.stop("MPG_GRAPH_1006", f"there is no dtype {token.text}; values are {known}", token)
        assert dtype is not None
        self.take("mark", "[")
        shape = []
        while not self.accept("]"):
            number = self.take("number")
            if not number.text.isdigit() or len(number.text) > 10:
                self.stop("MPG_GRAPH_1005", f"{number.text} is no extent", number)
            shape.append(int(number.text))
            if not self.accept(","):
                self.take("mark", "]")
                break
        if len(shape) > MOST_DIMS:
            self.stop("MPG_GRAPH_1005", f"a value has at most {MOST_DIMS} dimensions; got {len(shape)}", token)
        return dtype, tuple(shape)

    # --- statements --------------------------------------------------------------------------------------------------
    def _define(self, token: Token, value: Value | None) -> None:
        if token.text in self.missing:
            self.missing.discard(token.text)
            value = None
        elif token.text in self.known:
            self.error("MPG_GRAPH_1003", f"%{token.text} is defined twice", token, "every value has a name of its own")
        self.known[token.text] = value

    def _use(self) -> Value | None:
        token = self.take("value")
        if token.text not in self.known:
            self.error("MPG_GRAPH_1003", f"there is no value %{token.text} here", token, self._near(token.text))
            self.known[token.text] = None
            self.missing.add(token.text)
        return self.known[token.text]

    def _near(self, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, self.known, n=1)
        return f"did you mean %{near[0]}?" if near else "a value is defined before it is used"

    def _statement(self, graph: Graph) -> None:
        token = self.take("value", None, "a statement is `%y = op %x`")
        made: Value | None = None
        try:
            declared = self._type() if self.accept(":") else None
            self.take("mark", "=")
            name = self.take("name", None, "behind = stands an op")
            if name.text not in OPS:
                self.unknown_op(name)
            made = self._op(graph, token, name, declared)
        finally:
            self._define(token, made)

    def _op(self, graph: Graph, token: Token, name: Token, declared: tuple[DType, Shape] | None) -> Value | None:
        if name.text == "const":
            op = self._const(token, name, declared)
        else:
            found = self._applied(token, name)
            if found is None:
                return None
            op = found
        value = op.result
        if declared is not None and declared != (value.dtype, value.shape):
            code = "MPG_GRAPH_1006" if declared[1] == value.shape else "MPG_GRAPH_1005"
            self.error(
                code, f"%{value.name} is declared {type_text(*declared)}, and {name.text} gives {value.type}", token
            )
            value.dtype, value.shape = declared
        graph.ops.append(op)
        return value

    def _const(self, token: Token, name: Token, declared: tuple[DType, Shape] | None) -> Op:
        if declared is None:
            self.stop("MPG_GRAPH_1007", "a constant has a type", token, f"%{token.text}: f32[2, 3] = const ...")
        assert declared is not None
        dtype, shape = declared
        start = self.peek()
        try:
            checked(declared)
            if start.kind == "string":
                self.next()
                data = load_file(start.text, self.folder, dtype, shape)
            elif start.text == "[":
                data = array_of(self._list(dtype, shape), dtype, shape)
            else:
                data = everywhere(literal(self._word().text, dtype), dtype, shape)
        except Mismatch as error:
            self.mismatch(error, start)
            raise Stop from None
        result = Value(token.text, dtype, shape, self.loc(token))
        return Op("const", (), result, {"data": data, "dtype": dtype}, self.loc(name))

    def _word(self) -> Token:
        token = self.peek()
        if token.kind not in ("number", "name"):
            self.unexpected("a number")
        return self.next()

    def _list(self, dtype: DType, shape: Shape) -> list[int | float | bool]:
        """The numbers of nested lists, whose lengths are those of ``shape``."""
        start = self.peek()
        values: list[int | float | bool] = []
        counts = [0] * len(shape)
        depth = 0
        while True:
            token = self.next()
            if token.text == "[" and token.kind == "mark":
                if depth == len(shape):
                    raise Mismatch("MPG_GRAPH_1005", f"lists nest deeper than {type_text(dtype, shape)} has dimensions")
                counts[depth] = 0
                depth += 1
            elif token.text == "]" and token.kind == "mark":
                depth -= 1
                if counts[depth] != shape[depth]:
                    raise Mismatch(
                        "MPG_GRAPH_1005",
                        f"a list of {counts[depth]} along dimension {depth}, and the type is {type_text(dtype, shape)}",
                    )
                if depth == 0:
                    return values
                counts[depth - 1] += 1
            elif token.kind in ("number", "name") and depth == len(shape):
                values.append(literal(token.text, dtype))
                counts[depth - 1] += 1
            else:
                self.unexpected(f"numbers in {len(shape)} levels of brackets", token)
            following = self.peek()
            if token.text != "[" and following.text != "]":
                if following.text != ",":
                    self.unexpected("`,` or `]`", start if following.kind == "end" else following)
                self.next()

    def _applied(self, token: Token, name: Token) -> Op | None:
        """An op with operands; None where an operand's own statement is wrong."""
        attrs: dict[str, Any] = {}
        steps: dict[str, list[tuple[Token, dict[str, Any], list[Operand | None]]]] = {}
        if self.accept("{"):
            self._attributes(name.text, attrs, steps)
        operands: list[Operand | None] = []
        while True:
            operands.append(self._operand(len(steps.get("prologue", ())) if not operands else 0))
            if not self.accept(","):
                break
        if None in operands or any(None in args for part in steps.values() for *_, args in part):
            return None
        return self._checked(token, name, attrs, steps, operands)

    def _checked(self, token: Token, name: Token, attrs: dict[str, Any], steps: Any, operands: Any) -> Op | None:
        at = name
        try:
            before: list[Step] = []
            values: list[Value] = []
            for at, step_attrs, args in steps.get("prologue", ()):
                parts = [values[a.index] if isinstance(a, Prev) else a for a in args]
                dtype, shape = infer(at.text, parts, step_attrs)
                before.append(Step(at.text, tuple(args), tuple(step_attrs.items()), dtype, self.loc(at)))
                values.append(Value("_", dtype, shape))
            if before and not isinstance(operands[0], Prev):
                raise Mismatch("MPG_GRAPH_1004", "the first operand of an op with a prologue is `_`, what that gives")
            at = name
            parts = [values[-1] if isinstance(x, Prev) else x for x in operands]
            if before and any(v.shape != values[-1].shape for v in values[:-1]):
                raise Mismatch("MPG_GRAPH_1005", "all steps of a prologue have one shape")
            own, shape = infer(name.text, parts, attrs)
            after: list[Step] = []
            results = [Value("_", own, shape)]
            for at, step_attrs, args in steps.get("epilogue", ()):
                results.append(epilogue_value(at.text, args, step_attrs, results))
                after.append(Step(at.text, tuple(args), tuple(step_attrs.items()), results[-1].dtype, self.loc(at)))
            result = Value(token.text, results[-1].dtype, shape, self.loc(token))
            op = Op(name.text, operands, result, attrs, self.loc(name), before, after, own)
            if before and OPS[name.text].kind not in ("reduce", "row"):
                raise Mismatch("MPG_GRAPH_1004", f"{name.text} takes no prologue", "reductions, softmax, layernorm do")
            return op
        except Mismatch as error:
            self.mismatch(error, at)
            return None

    def _operand(self, before: int) -> Operand | None:
        if before and self.peek().text == "_":
            self.next()
            return Prev(before - 1)
        return self._use()

    # --- attributes --------------------------------------------------------------------------------------------------
    def _attributes(self, op: str, attrs: dict[str, Any], steps: dict[str, Any] | None) -> None:
        while not self.accept("}"):
            token = self.take("name")
            self.take("mark", "=")
            if token.text in attrs or (steps is not None and token.text in steps):
                self.error("MPG_GRAPH_1004", f"{token.text} is given twice", token)
            if steps is not None and token.text in ("prologue", "epilogue"):
                steps[token.text] = self._steps(int(token.text == "epilogue"))
            else:
                found = OPS[op].attrs.get(token.text)
                if found is None:
                    known = ", ".join(OPS[op].attrs) or "none"
                    self.stop("MPG_GRAPH_1004", f"{op} has no attribute {token.text}; it has {known}", token)
                assert found is not None
                attrs[token.text] = self._attribute(found)
            if not self.accept(","):
                self.take("mark", "}")
                break

    def _attribute(self, attr: Attr) -> Any:
        token = self.peek()
        if attr.kind == "ints":
            self.take("mark", "[")
            found = []
            while not self.accept("]"):
                found.append(self._integer(attr))
                if not self.accept(","):
                    self.take("mark", "]")
                    break
            return tuple(found)
        if attr.kind == "int":
            return self._integer(attr)
        self.next()
        if attr.kind == "bool" and token.text in ("true", "false"):
            return token.text == "true"
        if attr.kind == "dtype" and token.text in DTYPES:
            return DTYPES[token.text]
        if attr.kind == "float" and token.kind == "number":
            return literal(token.text, f32)
        wanted = {"bool": "true or false", "dtype": f"a dtype ({', '.join(DTYPES)})", "float": "a number"}[attr.kind]
        self.unexpected(f"{wanted} for {attr.name}", token)
        return None

    def _integer(self, attr: Attr) -> int:
        token = self.take("number", None, f"{attr.name} takes whole numbers")
        try:
            if len(token.text) > 12:
                raise ValueError
            return int(token.text, 0)
        except ValueError:
            self.stop("MPG_GRAPH_1004", f"{token.text} is no whole number of at most 32 bits", token)
            raise

    def _steps(self, count: int) -> list[tuple[Token, dict[str, Any], list[Operand | None]]]:
        """``[add(_, %b), relu(_)]``; ``count`` results are there before the first step."""
        found: list[tuple[Token, dict[str, Any], list[Operand | None]]] = []
        self.take("mark", "[")
        while True:
            name = self.take("name")
            if name.text not in OPS:
                self.unknown_op(name)
            if OPS[name.text].kind != "elementwise":
                self.stop("MPG_GRAPH_1004", f"{name.text} is not elementwise, and no step", name)
            attrs: dict[str, Any] = {}
            if self.accept("{"):
                self._attributes(name.text, attrs, None)
            self.take("mark", "(")
            args: list[Operand | None] = []
            while True:
                args.append(self._argument(count))
                if not self.accept(","):
                    break
            self.take("mark", ")")
            found.append((name, attrs, args))
            count += 1
            if not self.accept(","):
                self.take("mark", "]")
                return found

    def _argument(self, count: int) -> Operand | None:
        token = self.peek()
        if token.kind == "name" and token.text[0] == "_":
            self.next()
            at = count - 1 if token.text == "_" else int(token.text[1:]) if token.text[1:].isdigit() else -1
            if not 0 <= at < count:
                self.stop("MPG_GRAPH_1003", f"there is no result {token.text} before this step", token)
            return Prev(at)
        return self._use()

    def unknown_op(self, name: Token) -> None:
        import difflib

        near = difflib.get_close_matches(name.text, OPS, n=1)
        help = f"did you mean {near[0]}?" if near else f"there are {', '.join(OPS)}"
        self.stop("MPG_GRAPH_1004", f"there is no op {name.text}", name, help)

    def loc(self, token: Token) -> Loc:
        return self.source.loc(token.at, token.end)
