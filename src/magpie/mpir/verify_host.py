"""The rules of operations that only host programs have."""

from __future__ import annotations

from magpie.diagnostics import Diagnostic
from magpie.mpir.known import Found, Known
from magpie.mpir.nodes import FnRef, Instr

__all__ = ["LAUNCHES", "host_rules"]

LAUNCHES = ("gpu.launch", "gpu.launch_async")


def host_rules(known: Known) -> Found:
    """Every rule on what only hosts do, in the order of the text."""
    for block in known.function.blocks:
        for instr in block.instrs:
            if instr.op in LAUNCHES:
                yield from _launch(known, instr)
            elif instr.op == "global":
                yield from _global(known, instr)


def _launch(known: Known, instr: Instr) -> Found:
    """A launch names a kernel, gives it three sizes twice, and what its parameters are."""
    ref, given = instr.args.get("kernel"), instr.args.get("args")
    kernel = known.module.function(ref.name) if isinstance(ref, FnRef) else None
    if kernel is None or kernel.gpu_meta is None:
        text = f"{instr.op} names no kernel of this module"
        yield Diagnostic("MPT0010", text, instr.loc, help="write kernel=@name")
        return
    for key in ("grid", "block"):
        size = instr.args.get(key)
        if isinstance(size, tuple) and len(size) != 3:
            yield Diagnostic("MPT0010", f"{key} of {instr.op} has {len(size)} sizes, wanted 3", instr.loc)
    if not isinstance(given, tuple):
        return
    shown = f"@{kernel.name} takes ({', '.join(f'%{name}: {type_}' for name, type_ in kernel.params)})"
    if len(given) != len(kernel.params):
        text = f"{len(given)} arguments for {len(kernel.params)} parameters"
        yield Diagnostic("MPT0010", text, instr.loc, help=shown)
        return
    for value, (name, type_) in zip(given, kernel.params, strict=True):
        found = known.type(value)
        if found is not None and found != type_.owned:
            yield Diagnostic("MPT0010", f"argument %{name} has type {found}, wanted {type_}", instr.loc, help=shown)


def _global(known: Known, instr: Instr) -> Found:
    ref = instr.args["v"]
    found = known.type(ref)
    if found is None:
        yield Diagnostic("MPT0003", f"there is no global {ref} in this module", instr.loc)
    elif instr.type is None or instr.type.owned != found.owned:
        yield Diagnostic("MPS0004", f"{ref} is {found}, not {instr.type}", instr.loc)
