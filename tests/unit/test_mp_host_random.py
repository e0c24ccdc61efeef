"""Random control flow on the host, as a walk through the blocks does it: branches, switches, phis, cycles of any kind."""

from __future__ import annotations

import mpir_tools as tools
import pytest
from mpir_tools import U32

from magpie.host.program import Program
from magpie.host.values import ArrayValue
from magpie.mpir.nodes import Function, Module
from magpie.mpir.types import Ty


def on_the_host(module: Module) -> Module:
    """The kernel as a function: the work-item's number and an Array are its parameters."""
    (kernel,) = module.functions
    for block in kernel.blocks:
        block.instrs = [i for i in block.instrs if i.op != "gpu.global_id"]
        for instr in block.instrs:
            if instr.op in ("i.add", "i.mul"):
                instr.op += ".wrap"
            elif instr.op == "gpu.buffer_store":
                instr.op, instr.targs = "arr.set", ()
                instr.args = {"arr": instr.args["buf"], "idx": instr.args["idx"], "v": instr.args["v"]}
    params = [("gid", U32), ("out", Ty("Array", (U32,)))]
    return Module("random", functions=[Function("f", params, blocks=kernel.blocks)])


@pytest.mark.parametrize("irreducible", [False, True])
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_graphs(first, irreducible):
    for seed in range(first, first + 100):
        program = Program(on_the_host(tools.make(seed, irreducible=irreducible)))
        (kernel,) = tools.make(seed, irreducible=irreducible).functions
        for item in range(3):
            wanted, mine = [0] * 20, ArrayValue(U32, [0] * 20)
            tools.execute(kernel, {"out": wanted}, {"global_id": item})
            program.call("f", (item, mine))
            assert mine.items == wanted and any(wanted), seed
