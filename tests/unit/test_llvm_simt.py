"""The scalar emitter that GPU targets share, through a target that runs one work-item a call on the host."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import magpie as mp
from magpie.backends.cpu.launch import Launch
from magpie.backends.cpu.loader import load_object
from magpie.backends.llvm import codegen
from magpie.backends.llvm.emitter import Module
from magpie.backends.llvm.simt import Simt
from magpie.dtypes import DType, StructType, f16, f32, i32, index
from magpie.ir.builder import Builder
from magpie.ir.layout import compute_layout
from magpie.ir.nodes import Array, Buffer, Kernel, LocalArray, Node, Scalar, Slot, leaf_offset
from magpie.passes import prepare

ROOT = Path(__file__).resolve().parents[2]


class HostItem(Simt):
    """``void item(ptr args, i64 thread)``, with a workgroup of 8 items and the arguments laid out as for cpu."""

    def __init__(self, kernel: Kernel) -> None:
        module = Module()
        module.node("!{}")
        super().__init__(prepare(kernel), module, native_half=False)
        self.launch = Launch(self.c, self.kernel, kernel, compute_layout(kernel))
        start = self.c.block("start")
        self.c.place(start)
        self.body()
        self.c.ret()
        self.c.entry.end = f"  br label %{start.label}"
        module.functions.append(self.c.function("define void @item(ptr %args, i64 %thread) nounwind"))
        self.text = module.text()

    def coordinate(self, op: str, dim: int) -> str:
        return {"thread_id": "%thread", "workgroup_size": "8", "num_workgroups": "1"}.get(op, "0") if dim == 0 else "0"

    def parameter(self, name: str, t: DType) -> str:
        return self.launch.scalar(Node("param", (), t, {"name": name})).text

    def pointer(self, array: Array) -> tuple[str, str]:
        assert isinstance(array, Buffer)
        return self.launch.pointer(array), ""

    def extent(self, array: Array, dim: int) -> str:
        return self.launch.extent(array, dim)

    def stride(self, array: Array, dim: int) -> str:
        return self.launch.stride(array, dim)

    def barrier(self, node: Node) -> None:
        return

    def subgroup(self, node: Node, args: list[str]) -> str:
        raise NotImplementedError


def run(kernel: Kernel, *arrays: np.ndarray, scalar: float = 0.0) -> None:
    text = HostItem(kernel).text
    image = load_object(codegen.compile_object(text))
    item = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(image.address("item"))
    words = b""
    for a in arrays:
        words += struct.pack(f"<Q{2 * a.ndim}q", a.ctypes.data, *a.shape, *(s // a.itemsize for s in a.strides))
    block = ctypes.create_string_buffer(words + struct.pack("<f4x", scalar))
    for thread in range(8):
        item(ctypes.addressof(block), thread)


def test_values_branches_and_loops() -> None:
    x, y, a = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "write"), Scalar("a", f32)
    k = Kernel("k", [x, y, a])
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    total = Slot("total", f32)
    _, then, else_ = b.if_(b.emit("lt", i, b.const(5, index)))
    with b.into(then), b.counted(b.const(0, index), b.emit("add", i, b.const(1, index)), b.const(1, index)) as n:
        _, skip, _ = b.if_(b.emit("eq", n, b.const(2, index)))
        with b.into(skip):
            b.emit("continue")
        b.set(total, b.emit("add", b.get(total), b.load(x, n)))
    with b.into(else_):
        _, out, _ = b.if_(b.emit("eq", i, b.const(7, index)))
        with b.into(out):
            b.emit("return")
        b.set(total, b.emit("param", type=f32, name="a"))
    b.store(y, (i,), b.get(total))
    values, result = np.arange(1, 9, dtype=np.float32), np.full(8, -1, np.float32)
    run(k, values, result, scalar=0.5)
    assert result.tolist() == [1, 3, 3, 7, 12, 0.5, 0.5, -1]


def test_local_arrays_atomics_and_halves() -> None:
    x, n = Buffer("x", f16, 2, "read_write"), Buffer("n", i32, 1, "read_write")
    k = Kernel("k", [x, n])
    local = LocalArray("l", f32, (3, 2))
    k.locals.append(local)
    b = Builder(k.body)
    i = b.emit("thread_id", dim=0)
    one, zero = b.const(1, index), b.const(0, index)
    b.store(local, (one, one), b.cast(b.load(x, zero, i), f32))
    both = b.emit("add", b.load(local, one, one), b.load(local, one, zero))
    b.store(x, (one, i), b.cast(both, f16))
    b.emit("atomic_rmw", zero, b.cast(i, i32), array=n, kind="add", scope="device")
    b.emit("atomic_cas", one, b.const(3, i32), b.cast(i, i32), array=n, scope="device")
    values, counts = np.arange(16, dtype=np.float16).reshape(2, 8) / 4, np.array([0, 3], np.int32)
    want = values[0].copy()
    run(k, values, counts)
    assert (values[1] == want).all()
    assert counts.tolist() == [28, 0]


@pytest.mark.parametrize(("path", "offset"), [((0,), 0), ((1,), 8)])
def test_leaves_of_a_struct_element(path: tuple[int, ...], offset: int) -> None:
    pair = StructType.build("pair", [("a", i32), ("b", index)])
    assert leaf_offset(Buffer("x", pair, 1), path) == (pair.fields[path[0]].type, offset, 16)


# --- LLVM ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("version", "good"), [("0.47.0", False), ("0.48.0", True), ("0.50.1", True), ("0.51.0rc1", False)]
)
def test_versions_of_llvmlite(monkeypatch, version, good):
    monkeypatch.setattr(codegen, "llvm_version", lambda: version)
    if good:
        codegen.check_llvmlite()
        return
    with pytest.raises(
        mp.GpuError, match=f"llvmlite {version} is installed, and Magpie works with 0.48 to 0.50"
    ) as caught:
        codegen.check_llvmlite()
    assert caught.value.kind is mp.GpuErrorKind.BackendUnavailable
    assert caught.value.help == "pip install 'llvmlite>=0.48,<0.51'"


def test_the_package_asks_for_the_versions_that_are_checked():
    asked = re.search(r'"llvmlite>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert asked is not None
    oldest, beyond = (tuple(map(int, v.split("."))) for v in asked.groups())
    assert oldest == codegen._OLDEST and beyond == (codegen._NEWEST[0], codegen._NEWEST[1] + 1)
