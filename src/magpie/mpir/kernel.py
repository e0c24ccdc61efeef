"""A `gpu fn` of an MPIR module as a kernel: its parameters, what it calls, and what its control flow may be."""

from __future__ import annotations

from collections.abc import Mapping

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.dtypes import StructType, Type
from magpie.ir.nodes import Array, Buffer, Kernel, Node, Region, Scalar, walk
from magpie.ir.nodes import Function as IrFunction
from magpie.ir.ops import Effect
from magpie.ir.verify import VerifyError, verify
from magpie.mpir.kernel_types import kernel_type
from magpie.mpir.lower import Body, Context
from magpie.mpir.nodes import Function, Instr, Module
from magpie.mpir.skeleton import MOST_NESTED, too_deep
from magpie.mpir.types import Ty
from magpie.passes.access import infer
from magpie.passes.counting import count_loops
from magpie.passes.inline import inline_calls
from magpie.passes.uniformity import Level, analyse

__all__ = ["lower_kernel"]

_IRREDUCIBLE = {"msl": "MPG_MSL_1001", "wgsl": "MPG_WGSL_1001"}
_DEEPEST = 64  # calls in calls


def lower_kernel(
    module: Module, function: Function, *, target: str = "", workgroup: tuple[int, int, int] | None = None
) -> Kernel:
    """The kernel of a `gpu fn` that `magpie.mpir.verify` accepts.

    ``target`` and ``workgroup`` stand in for what the function declares: code for another backend, or for launches of
    another size. Raises CompileError: control flow that the target cannot have, recursion, ops of host programs.
    """
    assert function.gpu_meta is not None
    meta = function.gpu_meta
    return _Lowering(module, function, target or meta.target, workgroup or meta.workgroup).kernel()


class _Lowering:
    def __init__(self, module: Module, function: Function, target: str, workgroup: tuple[int, int, int]) -> None:
        self.module = module
        self.function = function
        self.target = target
        self.result = Kernel(function.name, workgroup=workgroup, loc=function.loc)
        needs = function.gpu_meta.requires if function.gpu_meta else ()
        # gpu.metal.* are operations of subgroups, which others have under names of their own
        self.result.requires = frozenset(n for n in needs if target == "msl" or not n.startswith("metal."))
        self.context = Context(self.result, self.type, self.called)
        self.structs: dict[str, StructType] = {}
        self.functions: dict[tuple[str, tuple[Array, ...]], IrFunction] = {}
        self.depths: dict[IrFunction, int] = {}  # how deep control flow nests in each, calls inlined
        self.active: list[str] = [function.name]

    def type(self, type_: Ty, loc: Loc | None = None) -> Type:
        """A type as kernels have it: scalars and value structs. ``loc``: where it is written, else the kernel."""
        found = kernel_type(self.module, type_, self.structs)
        if found is not None:
            return found
        type_ = type_.owned
        text = f"a kernel has no {type_}"
        if type_.name == "ptr" or (type_.name == "rawptr" and len(type_.args) == 1):
            text = f"a kernel gives and takes no {type_}: give the buffer, or the value"
        raise CompileError(Diagnostic("MPG_CORE_1404", text, loc or self.function.loc))

    def kernel(self) -> Kernel:
        arrays: dict[str, Array] = {}
        for name, type_ in self.function.params:
            loc = self.function.place(name)
            if type_.name == "gpu.TBuffer":
                buffer = Buffer(name, self.type(type_.args[0], loc), 1, loc=loc)
                arrays[name] = buffer
                self.result.params.append(buffer)
            else:
                self.result.params.append(Scalar(name, self.type(type_, loc), loc))
        body = Body(self.function, self.context, self.result.body, arrays)
        self.refuse_irreducible(body)
        body.lower()
        self.refuse_depth(body)
        self.check_labels(body)
        count_loops(self.result)
        infer(self.result)
        try:
            verify(self.result)
        except VerifyError as error:
            raise CompileError(
                Diagnostic("MPG_CORE_1900", f"the structurizer made IR that is not valid: {error}", self.function.loc)
            ) from error
        return self.result

    def called(self, instr: Instr, arrays: Mapping[str, Array]) -> IrFunction:
        """The function that ``instr`` calls, for the arrays that it is given."""
        callee = self.module.function(instr.callee)
        assert callee is not None
        if len(self.active) > _DEEPEST:
            text = f"calls nest more than {_DEEPEST} deep at the one of @{instr.callee}"
            raise CompileError(Diagnostic("MPG_CORE_1409", text, instr.loc))
        if instr.callee in self.active:
            way = " -> ".join(f"@{n}" for n in [*self.active, instr.callee])
            raise CompileError(Diagnostic("MPG_CORE_1103", f"@{instr.callee} comes to call itself: {way}", instr.loc))
        given: dict[str, Array] = {}
        for name, type_ in callee.params:
            if type_.name in ("gpu.TBuffer", "ptr"):
                found = arrays.get(getattr(instr.args[name], "name", ""))
                if found is None:
                    raise CompileError(
                        Diagnostic(
                            "MPG_CORE_1405", f"which array %{name} of @{callee.name} is is not known here", instr.loc
                        )
                    )
                given[name] = found
        key = (callee.name, tuple(given.values()))
        if key not in self.functions:
            others = [(n, t, callee.place(n)) for n, t in callee.params if n not in given]
            scalars = [Scalar(n, self.type(t, loc), loc) for n, t, loc in others]
            results = [] if callee.ret.name == "unit" else [self.type(callee.ret, callee.loc)]
            result = IrFunction(callee.name, scalars, results, callee.loc)
            self.active.append(callee.name)
            body = Body(callee, self.context, result.body, given)
            self.refuse_irreducible(body)
            body.lower()
            self.depths[result] = self.refuse_depth(body)
            self.active.pop()
            for loop in body.dispatches.values():
                if any(_meeting(r) for r in loop.regions):
                    raise CompileError(_meets_in_cycle(callee, None))
            self.functions[key] = result
            self.result.functions.append(result)
        return self.functions[key]

    def refuse_irreducible(self, body: Body) -> None:
        """Refuse irreducible cycles on targets with structured control flow only, at the branch that closes one."""
        if not body.found.irreducible or self.target not in _IRREDUCIBLE:
            return
        tail, entry = body.found.irreducible[0]
        raise CompileError(
            Diagnostic(
                _IRREDUCIBLE[self.target],
                f"irreducible control flow: this branch to {entry} closes a cycle that is entered elsewhere too",
                body.blocks[tail].term.loc,
                ((f"{entry}, where the cycle is entered", _place(body, entry)),),
                "give the cycle one entry: a block of its own that branches on how the cycle was come to",
            )
        )

    def refuse_depth(self, body: Body) -> int:
        """How deep ifs and loops nest, those of called functions counted in: passes and backends walk what calls are
        inlined in by recursion, and text targets have limits of their own."""
        deepest = 0
        stack = [(body.region, 0)]
        while stack:
            region, depth = stack.pop()
            deepest = max(deepest, depth)
            for node in region:
                stack += [(inner, depth + 1) for inner in node.regions]
                if node.op == "call":  # early returns make a loop of what is inlined
                    deepest = max(deepest, depth + 1 + self.depths[node.attrs["function"]])
                if deepest > MOST_NESTED:
                    raise too_deep(body.function, node.loc)
            if deepest > MOST_NESTED:
                raise too_deep(body.function, region[0].loc if region else None)
        return deepest

    def check_labels(self, body: Body) -> None:
        """A barrier or subgroup operation in an irreducible cycle needs a label that is the same for the workgroup."""
        doubtful = [(d, n, loop) for d, loop in body.dispatches.items() for n in [_met(loop.regions)] if n is not None]
        if not doubtful:
            return
        uniformity = analyse(inline_calls(self.result))
        for dispatch, node, _ in doubtful:
            if uniformity.slot_level(body.labels[dispatch]) > Level.WORKGROUP:
                raise CompileError(_meets_in_cycle(self.function, node.loc))


def _met(regions: tuple[Region, ...]) -> Node | None:
    return next((n for n in map(_meeting, regions) if n is not None), None)


def _place(body: Body, label: str) -> Loc | None:
    block = body.blocks[label]
    return next((i.loc for i in block.items), block.term.loc)


def _meets_in_cycle(function: Function, loc: Loc | None) -> Diagnostic:
    return Diagnostic(
        "MPG_CORE_1408",
        "work-items may be in different blocks of an irreducible cycle, and this needs all of them",
        loc or function.loc,
        help="give the cycle one entry: a block of its own that branches on how the cycle was come to",
    )


def _meeting(region: Region) -> Node | None:
    """The first barrier or subgroup operation in a region or inside it, calls included."""
    functions: set[IrFunction] = set()
    todo = [region]
    while todo:
        for node in walk(todo.pop()):
            if node.op in ("barrier", "subgroup_barrier") or node.info.effect is Effect.CROSS_LANE:
                return node
            if node.op == "call" and node.attrs["function"] not in functions:
                functions.add(node.attrs["function"])
                todo.append(node.attrs["function"].body)
    return None
