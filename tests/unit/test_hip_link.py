"""The linker of the hip backend beside LLVM's, and what it refuses."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hip_tools import ARCHS, File, compiled, linked_by_lld, lld

import magpie as mp
from magpie.backends.elf_object import LinkError
from magpie.backends.hip.link import link
from magpie.backends.hip.metadata import kernel_facts, metadata, unpack

needs_lld = pytest.mark.skipif(lld() is None, reason="no ld.lld: apt-get install lld-19")

# Code that calls a function and reads a table, two tables that a linker may merge, memory that is written, and pointers.
_MODULE = """
@table = internal unnamed_addr addrspace(1) constant [4 x i32] [i32 1, i32 2, i32 3, i32 9], align 16
@other = internal unnamed_addr addrspace(1) constant [8 x i32] [i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1]
@count = protected addrspace(1) global i32 7, align 4
@zeros = protected addrspace(1) global [32 x i32] zeroinitializer, align 16
@places = protected addrspace(1) global [2 x ptr addrspace(1)] [ptr addrspace(1) @count,
  ptr addrspace(1) getelementptr (i32, ptr addrspace(1) @zeros, i32 5)], align 8

declare i32 @llvm.amdgcn.workitem.id.x()

define internal float @helper(float %x) noinline nounwind {
  %y = fdiv float 1.0, %x
  ret float %y
}

define amdgpu_kernel void @first(ptr addrspace(1) %a, i32 %n) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %low = and i32 %t, 3
  %p = getelementptr i32, ptr addrspace(1) @table, i32 %low
  %q = getelementptr i32, ptr addrspace(1) @other, i32 %low
  %x = load i32, ptr addrspace(1) %p
  %y = load i32, ptr addrspace(1) %q
  %z = add i32 %x, %y
  %c = load volatile i32, ptr addrspace(1) @count
  %w = add i32 %z, %c
  %f = sitofp i32 %w to float
  %g = call float @helper(float %f)
  %s = getelementptr float, ptr addrspace(1) %a, i32 %t
  store float %g, ptr addrspace(1) %s
  %there = load ptr addrspace(1), ptr addrspace(1) @places
  store i32 %n, ptr addrspace(1) %there
  ret void
}

define amdgpu_kernel void @second(ptr addrspace(1) %a) {
  store volatile i32 1, ptr addrspace(1) @zeros
  ret void
}
"""


def kernel_objects() -> dict[str, bytes]:
    """Objects of Magpie's own kernels: tables, shared memory, local arrays, print, library functions."""
    from magpie.backends.hip import pipeline

    table = tuple(float(k) ** 0.5 for k in range(32))

    @mp.kernel
    def k_table(x):
        i = mp.global_id(0)
        x[i] = table[i % 32] + mp.sin(x[i])

    @mp.kernel
    def k_print(x):
        t = mp.shared(64, mp.f32)
        local = mp.local(400, mp.f32)
        i = mp.thread_id(0)
        local[i] = x[i]
        t[i % 64] = local[(i * 7) % 400]
        mp.barrier()
        x[i] = t[63 - i % 64]
        mp.print("x", x[i])

    found = {}
    real = pipeline.link
    for arch in ARCHS:
        for kernel in (k_table, k_print):
            kept = []
            pipeline.link = lambda raw, kept=kept: kept.append(raw) or real(raw)
            try:
                kernel.compile(np.zeros(4, np.float32), backend="hip", arch=arch)
            finally:
                pipeline.link = real
            found[f"{arch}-{kernel.__name__}"] = kept[0]
    return found


def same(obj: bytes, folder: Path) -> None:
    """Link an object here and by LLVM's linker, and compare all that a loader or a kernel can see."""
    source = File(obj)
    mine, theirs = File(link(obj)), File(linked_by_lld(obj, folder))
    assert mine.raw[:16] == theirs.raw[:16]
    assert mine.raw[16:24] == theirs.raw[16:24] and mine.raw[48:52] == theirs.raw[48:52]  # kind, machine, flags
    assert mine.dynamic_symbols() == theirs.dynamic_symbols() != {}
    assert mine.symbols.keys() == theirs.symbols.keys() - {"_DYNAMIC"}
    assert mine.content(".note") == theirs.content(".note")

    # Kernel descriptors: the same but for how far it is to the code, which is where the symbol says.
    for name, symbol in mine.symbols.items():
        if name.endswith(".kd"):
            heads = []
            for file in (mine, theirs):
                at = file.symbols[name].value
                head = file.at(at, 64)
                (distance,) = struct.unpack_from("<q", head, 16)
                assert at + distance == file.symbols[name.removesuffix(".kd")].value
                heads.append(head[:16] + head[24:])
            assert heads[0] == heads[1] and symbol.size == 64

    # The loader's relocations: each pointer gets the address of the symbol with the same name in both.
    for file in (mine, theirs):
        relative = {}
        if ".rela.dyn" in file.sections:
            for place, kind, addend in struct.iter_unpack("<QQq", file.content(".rela.dyn")):
                assert kind == 13  # R_AMDGPU_RELATIVE64
                relative[place] = addend
        check_relocations(source, file, relative)


def check_relocations(source: File, file: File, relative: dict[int, int]) -> None:
    """Every relocation of the object, by the formulas of LLVM's AMDGPU usage, from the addresses in the linked file."""
    starts = {}  # of input sections, by a symbol in each
    for symbol in source.elf.symbols:
        if symbol.name and symbol.name in file.symbols and symbol.section < 0xFF00:
            starts[symbol.section] = file.symbols[symbol.name].value - symbol.value
    for section, offset, kind, number, addend in source.elf.relocations():
        symbol = source.elf.symbols[number]
        if section not in starts:
            assert not source.elf.sections[section].flags & 2  # debug information and its kind are not loaded
            continue
        place, value = starts[section] + offset, addend
        value += (
            file.symbols[symbol.name].value if symbol.name in file.symbols else starts[symbol.section] + symbol.value
        )
        if kind == 3:  # ABS64
            assert relative.pop(place) == value
            continue
        distance = (value - place) % (1 << 64)
        want = {5: distance, 10: distance & 0xFFFFFFFF, 11: distance >> 32, 4: distance & 0xFFFFFFFF}[kind]
        assert int.from_bytes(file.at(place, 8 if kind == 5 else 4), "little") == want, (kind, symbol)
    assert not relative


@needs_lld
@pytest.mark.parametrize("arch", ARCHS)
def test_a_module_with_every_kind_of_section_is_linked_as_by_lld(arch: str, tmp_path: Path):
    obj = compiled(_MODULE, arch)
    kinds = {r[2] for r in File(obj).elf.relocations()}
    assert kinds >= {3, 5, 10, 11}
    same(obj, tmp_path)


@needs_lld
def test_kernels_are_linked_as_by_lld(tmp_path: Path):
    for name, obj in kernel_objects().items():
        folder = tmp_path / name
        folder.mkdir()
        same(obj, folder)


@needs_lld
def test_other_tools_read_the_file(tmp_path: Path):
    """Debian's binutils know the generic part of the format."""
    path = tmp_path / "k.hsaco"
    path.write_bytes(link(compiled(_MODULE)))
    done = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert done.stderr == "" or "Warning" not in done.stderr
    assert "DYN (Shared object file)" in done.stdout and "first.kd" in done.stdout


def test_segments_are_aligned_and_apart():
    raw = link(compiled(_MODULE))
    (programs,) = struct.unpack_from("<H", raw, 56)
    rows = [struct.unpack_from("<IIQQQQQQ", raw, 64 + 56 * n) for n in range(programs)]
    loads = [r for r in rows if r[0] == 1]
    assert [r[1] for r in loads] == [4, 5, 6]  # read; read and execute; read and write
    for _, _, offset, address, _, in_file, memory, align in loads:
        assert offset % align == address % align and in_file <= memory
    pages = [set(range(r[3] // 4096, (r[3] + r[6] - 1) // 4096 + 1)) for r in loads]
    assert not pages[0] & pages[1] and not pages[1] & pages[2]
    assert loads[2][6] - loads[2][5] >= 128  # @zeros takes no room in the file


def test_the_hash_table_finds_every_symbol():
    file = File(link(compiled(_MODULE)))
    words = struct.unpack(f"<{len(file.content('.hash')) // 4}I", file.content(".hash"))
    buckets, chains = words[2 : 2 + words[0]], words[2 + words[0] :]
    table = list(struct.iter_unpack("<IBBHQQ", file.content(".dynsym")))
    strings = file.content(".dynstr")
    for name in file.dynamic_symbols():
        h = 0
        for byte in name.encode():  # the System V ABI's function
            h = (h << 4) + byte
            g = h & 0xF0000000
            if g:
                h ^= g >> 24
            h &= ~g
        at = buckets[h % len(buckets)]
        while at and strings[table[at][0] :].split(b"\0")[0] != name.encode():
            at = chains[at]
        assert at, name


# --- what is refused --------------------------------------------------------------------------------------------------
def test_what_is_no_object_for_amd_is_refused():
    obj = compiled(_MODULE)
    for wrong, words in (
        (b"", "not an ELF"),
        (b"\x7fELF", "not an ELF"),
        (obj[:4] + b"\1" + obj[5:], "not an ELF object for AMD"),
        (obj[:18] + b"\x3e\0" + obj[20:], "not an ELF object for AMD"),
        (obj[:7] + b"\0" + obj[8:], "not an ELF object for AMD"),
        (link(obj), "type 3, not a relocatable"),
    ):
        with pytest.raises(LinkError, match=words):
            link(wrong)


def test_what_our_code_never_holds_is_refused():
    with pytest.raises(LinkError, match="'elsewhere' is not defined"):
        link(
            compiled(
                "@elsewhere = external addrspace(1) global i32\n"
                "define amdgpu_kernel void @k() {\n  store i32 1, ptr addrspace(1) @elsewhere\n  ret void\n}\n"
            )
        )
    obj = compiled(_MODULE)
    file = File(obj)
    at = file.sections[".rela.text"].offset
    for kind, words in ((12, "type 12 is not supported"), (1, "not position independent"), (7, "type 7")):
        changed = bytearray(obj)
        struct.pack_into("<I", changed, at + 8, kind)
        with pytest.raises(LinkError, match=words):
            link(bytes(changed))
    changed = bytearray(obj)
    struct.pack_into("<Q", changed, at, 1 << 40)
    with pytest.raises(LinkError, match="ends behind section .text"):
        link(bytes(changed))


def test_damaged_objects_are_errors_and_nothing_else():
    obj = compiled(_MODULE)
    for size in range(64, len(obj), 97):
        with pytest.raises(LinkError):
            link(obj[:size])
    chance = random.Random(1)
    refused = 0
    for _ in range(400):
        changed = bytearray(obj)
        for _ in range(chance.choice((1, 1, 8))):
            changed[chance.randrange(16, len(obj))] = chance.randrange(256)
        try:
            link(bytes(changed))
        except LinkError:
            refused += 1
    assert refused > 40


# --- metadata ---------------------------------------------------------------------------------------------------------
def test_metadata_are_read():
    blob = link(compiled(_MODULE))
    found = metadata(blob)
    assert [k[".name"] for k in found["amdhsa.kernels"]] == ["first", "second"]
    assert found["amdhsa.target"] == "amdgcn-amd-amdhsa--gfx1100"
    facts = kernel_facts(blob, "first")
    assert facts["lds_bytes"] == 0 and facts["vgprs"] > 0 and facts["kernarg_bytes"] >= 12
    with pytest.raises(LinkError, match="do not name"):
        kernel_facts(blob, "third")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x07", 7),
        (b"\xff", -1),
        (b"\xe0", -32),
        (b"\xcc\xc8", 200),
        (b"\xcd\x01\x00", 256),
        (b"\xce\x00\x01\x00\x00", 65536),
        (b"\xcf" + b"\xff" * 8, 2**64 - 1),
        (b"\xd0\x80", -128),
        (b"\xd1\xff\x00", -256),
        (b"\xcb\x3f\xf8\0\0\0\0\0\0", 1.5),
        (b"\xc0", None),
        (b"\xc2", False),
        (b"\xc3", True),
        (b"\xa3abc", "abc"),
        (b"\xd9\x02hi", "hi"),
        (b"\x92\x01\xa1x", [1, "x"]),
        (b"\xdc\x00\x01\x05", [5]),
        (b"\x81\xa1a\x90", {"a": []}),
        (b"\xde\x00\x01\xa1a\x80", {"a": {}}),
    ],
)
def test_message_pack(data: bytes, value: object):
    """The examples of the specification's table of formats."""
    assert unpack(data) == value and type(unpack(data)) is type(value)
    with pytest.raises(LinkError):
        unpack(data + b"\0")
    for size in range(len(data)):
        with pytest.raises(LinkError):
            unpack(data[:size])


@pytest.mark.parametrize("data", [b"\xc1", b"\x81\x01\x02", b"\xdd\xff\xff\xff\xff", b"\xa2\xff\xfe"])
def test_damaged_message_pack(data: bytes):
    with pytest.raises(LinkError, match="damaged"):
        unpack(data)
