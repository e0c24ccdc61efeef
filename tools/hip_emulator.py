"""Runs the hip backend's code objects without an AMD GPU: on the emulator of RDNA and CDNA in tinygrad's tests.

    git clone https://github.com/tinygrad/tinygrad
    python tools/hip_emulator.py --tinygrad tinygrad --arch gfx1100 tests/conformance/test_subgroups.py

The rest of the command line goes to pytest, and `hip` is one of the backends that the conformance suite finds. Each
instruction is compiled when it is first met, by clang, and takes half a second then; later ones take microseconds.

The emulator executes the instructions of the vendors' manuals. What it does not have is a memory model (its waves run
one after the other up to a barrier), nor a driver; it is developed apart from LLVM, and that makes it worth asking.
"""

from __future__ import annotations

import argparse
import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from magpie.backends.base import Artifact  # noqa: E402
from magpie.backends.elf_object import ElfObject  # noqa: E402
from magpie.backends.hip.metadata import metadata  # noqa: E402
from magpie.backends.record_format import clear_records, read_records  # noqa: E402
from magpie.backends.registry import backend  # noqa: E402
from magpie.runtime import dispatch, hostmem  # noqa: E402
from magpie.runtime.driver import Call, DeviceInfo, LaunchShape  # noqa: E402
from magpie.runtime.drivers.gpu.launch import dynamic_bytes  # noqa: E402
from magpie.runtime.drivers.host import HostDriver  # noqa: E402
from magpie.runtime.packing import struct_format  # noqa: E402

_RECORD_BYTES = 1 << 20
_R_AMDGPU_RELATIVE64 = 13
_PT_LOAD, _SHT_RELA, _SHF_ALLOC = 1, 4, 2

# Kernel descriptor: bits of its properties and how many scalar registers each stands for, in their order.
_USER_REGISTERS = ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1))
_KERNARG = 3
_SCRATCH = (0, 5, 6)  # where private memory lies: the emulator knows by itself
_LDS_SHIFT, _LDS_UNIT = 15, 512

# First words of buffer_gl0_inv and buffer_gl1_inv, on RDNA 3.
_INVALIDATE = (0xE0AC0000, 0xE0B00000)


def _family(arch: str) -> str:
    """What the emulator calls an architecture."""
    return {"gfx9": "cdna", "gfx11": "rdna3", "gfx12": "rdna4"}[arch[:-2]]


class EmulatedDriver(HostDriver):
    """One device, whose memory is the host's."""

    id = "hip"
    arch = "gfx1100"

    def probe(self) -> str | None:
        return None

    def devices(self) -> Sequence[DeviceInfo]:
        arch = self.arch
        return (
            DeviceInfo(
                name=f"emulated {arch}",
                index=0,
                manifest=backend("hip").manifest,
                subgroup_size=64 if arch.startswith("gfx9") else 32,
                memory_total=hostmem.total_bytes(),
                backends=("hip",),
                properties={"arch": arch},
            ),
        )

    def load(self, device: int, artifact: Artifact, **options: Any) -> EmulatedKernel:
        return EmulatedKernel(artifact)


class EmulatedKernel:
    """A code object in memory."""

    def __init__(self, artifact: Artifact) -> None:
        self.layout, self.info = artifact.layout, artifact.info
        self.reports = bool(artifact.info.get("records"))
        blob = artifact.blob
        (programs,) = struct.unpack_from("<H", blob, 56)
        rows = [struct.unpack_from("<IIQQQQQQ", blob, 64 + 56 * n) for n in range(programs)]
        loads = [row for row in rows if row[0] == _PT_LOAD]
        size = max(row[3] + row[6] for row in loads)
        self.memory = ctypes.create_string_buffer(size + 8192)
        self.base = base = -(-ctypes.addressof(self.memory) // 4096) * 4096
        for _, _, offset, address, _, in_file, _, _ in loads:
            ctypes.memmove(base + address, blob[offset : offset + in_file], in_file)
        obj = ElfObject(blob)
        for section in obj.sections:
            if section.type == _SHT_RELA and section.flags & _SHF_ALLOC:
                for place, kind, addend in struct.iter_unpack("<QQq", obj.content(section)):
                    assert kind == _R_AMDGPU_RELATIVE64
                    ctypes.c_uint64.from_address(base + place).value = base + addend
        entry = self.info["entry"]
        (descriptor,) = (s.value for s in obj.symbols if s.name == f"{entry}.kd")
        head = bytes((ctypes.c_char * 64).from_address(base + descriptor))
        self.lds, self.private = struct.unpack_from("<II", head)
        (start,) = struct.unpack_from("<q", head, 16)
        self.start, self.end = base + descriptor + start, base + size
        (self.resources,) = struct.unpack_from("<I", head, 52)
        (self.properties,) = struct.unpack_from("<H", head, 56)
        (kernel,) = (k for k in metadata(blob)["amdhsa.kernels"] if k[".name"] == entry)
        self.arguments = kernel[".kernarg_segment_size"]
        self.hidden = {a[".value_kind"]: a[".offset"] for a in kernel[".args"] if a[".value_kind"][:6] == "hidden"}

    def bind(self, shape: LaunchShape) -> Call:
        import pytest
        from test.mockgpu.amd import emu

        from magpie.runtime.records import report

        grid, block, info = shape.grid, shape.block, self.info
        extents = [n for f, ns in zip(self.layout.shared, shape.shared, strict=True) if f.dynamic for n in ns]
        records = bool(info.get("records"))
        form = struct.Struct(f"<{struct_format(self.layout)}{len(extents) + records}q")
        lds = self.lds + dynamic_bytes(info, extents)
        resources = self.resources | -(-lds // _LDS_UNIT) << _LDS_SHIFT

        def call(*words: Any) -> None:
            segment = ctypes.create_string_buffer(max(self.arguments, form.size) + 64)
            start = -(-ctypes.addressof(segment) // 64) * 64
            at = start - ctypes.addressof(segment)
            record = ctypes.create_string_buffer(_RECORD_BYTES)
            clear_records(record, _RECORD_BYTES)
            form.pack_into(segment, at, *words, *extents, *([ctypes.addressof(record)] if records else []))
            for axis, groups, items in zip("xyz", grid, block, strict=True):
                for name, value, code in (("block_count", groups, "<I"), ("group_size", items, "<H")):
                    if f"hidden_{name}_{axis}" in self.hidden:
                        struct.pack_into(code, segment, at + self.hidden[f"hidden_{name}_{axis}"], value)
            user: list[int] = []
            for bit, count in _USER_REGISTERS:
                if self.properties >> bit & 1:
                    assert bit in (_KERNARG, *_SCRATCH), f"the kernel asks for user register {bit}"
                    user += [start & 0xFFFFFFFF, start >> 32] if bit == _KERNARG else [0] * count
            where = (self.start, self.end - self.start, *grid, *block, start, resources, self.private)
            try:
                emu.run_asm(*where, _family(info["arch"]), user_data=user)
            except (RuntimeError, ValueError) as error:
                pytest.skip(f"the emulator cannot run it: {error}")
            if records:
                found, lost = read_records(record)
                error = report(found, lost, info["sites"], grid, block, "hip")
                if error is not None:
                    raise error

        return call


def _adjust(emu: Any) -> None:
    """What kernels of ours need beyond those that the emulator was made for."""
    # Denormals are kept.
    emu._get_ftz_lib = lambda: (None, 0)
    # Lanes read each other's registers before any is written, also where an instruction has one register as source and
    # destination: the emulator goes lane by lane. So it reads from a copy that is made before such an instruction.
    lanes = 64
    copy = ctypes.create_string_buffer(256 * lanes * 4 + 64)
    start = -(-ctypes.addressof(copy) // 64) * 64
    real = emu._decode_at

    def from_copy(context: Any, register: Any, lane: Any) -> Any:
        at = register.cast(emu.dtypes.uint64) * context.wave_size + lane.cast(emu.dtypes.uint64)
        return context.vmem.index(at + (start >> 2)).load()

    def load_dpp(context: Any, instruction: Any, lane: Any, fallback: Any) -> Any:
        attribute = emu._iattr
        masks = attribute(instruction, "row_mask", 0xF), attribute(instruction, "bank_mask", 0xF)
        control = attribute(instruction, "dpp")
        source, enabled, valid = emu._dpp16_ctrl(lane, control, *masks, context.wave_size)
        safe = (enabled & valid).where(source, emu._c(0, emu.dtypes.int))
        other = from_copy(context, context.inst_field(type(instruction).vsrc0), safe)
        missing = emu.UOp.const(0, fallback.dtype) if attribute(instruction, "bc") else fallback
        return enabled.where(valid.where(other, missing), fallback)

    def decode(pc: int, arch: str) -> Any:
        own = _own(emu, pc, arch)
        if own is not None:
            return own
        (program, runtime), instruction = real(pc, arch)
        kind, run, numbers = type(instruction).__name__, runtime.fxn, list(program.arg.globals)
        if kind == "VOP3SD" and "_CO_" in instruction.op.name:
            return (program, _carry_apart(emu, instruction, run, numbers.index(0), emu._wave_size(arch))), instruction
        if kind == "DS" and instruction.op.name == "DS_BPERMUTE_B32":
            return (program, _low_address(emu, instruction, run, numbers, emu._wave_size(arch))), instruction
        if "DPP" not in kind:
            return (program, runtime), instruction
        if kind not in ("VOP1_DPP16", "VOP2_DPP16", "VOPC_DPP16"):  # it reads them as if they had no DPP
            raise RuntimeError(f"[emu] no code for {kind}")
        registers = numbers.index(1)

        def copied(*buffers: Any, keep: Any = copy) -> None:
            ctypes.memmove(start, buffers[registers].value, 256 * emu._wave_size(arch) * 4)
            run(*buffers)

        return (program, SimpleNamespace(fxn=copied)), instruction

    emu._load_dpp16_src0, emu._decode_at = load_dpp, decode


def _own(emu: Any, pc: int, arch: str) -> Any:
    """Instructions that the emulator does not have: calls, and invalidations of caches, of which it has none."""
    word = ctypes.c_uint32.from_address(pc).value
    if word in _INVALIDATE:
        return _control(emu, 8, None, None), SimpleNamespace()
    try:
        instruction = emu.decode_inst(bytes((ctypes.c_char * 16).from_address(pc).raw), arch)
        name = instruction.op.name
    except (AttributeError, ValueError):
        return None
    if name not in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64"):
        return None
    target = None if "SET" in name else instruction.sdst.offset
    return _control(emu, 4, target, None if "GET" in name else word & 0xFF), instruction


def _control(emu: Any, size: int, target: int | None, source: int | None) -> tuple[Any, Any]:
    """An instruction that goes on behind itself, or at the address in a register, and may keep the place behind it."""

    def run(registers_at: Any) -> None:
        registers = (ctypes.c_uint32 * emu.SGPR_COUNT).from_address(registers_at.value)
        low, high = emu.PC_LO_IDX, emu.PC_HI_IDX
        behind = (registers[low] | registers[high] << 32) + size
        to = behind if source is None else registers[source] | registers[source + 1] << 32
        if target is not None:
            registers[target], registers[target + 1] = behind & 0xFFFFFFFF, behind >> 32
        registers[low], registers[high] = to & 0xFFFFFFFF, to >> 32

    return SimpleNamespace(arg=SimpleNamespace(globals=[0])), SimpleNamespace(fxn=run)


def _carry_apart(emu: Any, instruction: Any, run: Callable[..., None], scalars: int, wave: int) -> SimpleNamespace:
    """An addition with carry, run with both carries in a register that no kernel uses.

    The emulator reads the carry where it writes it, and writes it before it reads an operand from there.
    """
    spare, null, size, target = 122, 124, instruction.size(), instruction.sdst.offset
    bits = int.from_bytes(instruction.to_bytes(), "little")
    carry = bits >> 50 & 0x1FF if "_CI_" in instruction.op.name else None
    text = ctypes.create_string_buffer((bits & ~(0x7F << 8) | spare << 8).to_bytes(size, "little") + bytes(16))
    place, words = ctypes.addressof(text), range(wave // 32)

    def moved(*buffers: Any, keep: Any = text) -> None:
        registers = (ctypes.c_uint32 * emu.SGPR_COUNT).from_address(buffers[scalars].value)
        at = (registers[emu.PC_LO_IDX] | registers[emu.PC_HI_IDX] << 32) + size
        if carry is not None:
            for n in words:
                registers[spare + n] = registers[carry + n]
        registers[emu.PC_LO_IDX], registers[emu.PC_HI_IDX] = place & 0xFFFFFFFF, place >> 32
        run(*buffers)
        if target != null:
            for n in words:
                registers[target + n] = registers[spare + n]
        registers[emu.PC_LO_IDX], registers[emu.PC_HI_IDX] = at & 0xFFFFFFFF, at >> 32

    return SimpleNamespace(fxn=moved)


def _low_address(
    emu: Any, instruction: Any, run: Callable[..., None], numbers: list[int], wave: int
) -> SimpleNamespace:
    """A permutation. The hardware ignores high bits of addresses, and writes nothing in lanes that do not run."""
    address, target = instruction.addr.offset % 256, instruction.vdst.offset % 256
    scalars, vectors = numbers.index(0), numbers.index(1)

    def masked(*buffers: Any) -> None:
        bank = (ctypes.c_uint32 * (256 * wave)).from_address(buffers[vectors].value)
        at, to = address * wave, target * wave
        addresses, before = bank[at : at + wave], bank[to : to + wave]
        bank[at : at + wave] = [value & (4 * wave - 1) for value in addresses]
        run(*buffers)
        result = bank[to : to + wave]
        bank[at : at + wave] = addresses
        words = (ctypes.c_uint32 * 2).from_address(buffers[scalars].value + emu.EXEC_LO.offset * 4)
        active = words[0] | words[1] << 32
        bank[to : to + wave] = [
            new if active >> n & 1 else old for n, (new, old) in enumerate(zip(result, before, strict=True))
        ]

    return SimpleNamespace(fxn=masked)


def main() -> int:
    """Run pytest with the emulated device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tinygrad", required=True, help="a copy of tinygrad's repository")
    parser.add_argument("--arch", default="gfx1100", help="gfx1100, gfx1201, gfx90a or gfx942")
    options, rest = parser.parse_known_args()
    sys.path.insert(0, options.tinygrad)  # before the standard library, which has a package `test` too
    EmulatedDriver.arch = options.arch
    from test.mockgpu.amd import emu

    _adjust(emu)
    # dispatch finds this class by the name of its module, which is __main__ here.
    dispatch._DRIVERS["hip"] = ("__main__", "EmulatedDriver")
    import pytest

    return int(pytest.main(["-p", "no:cacheprovider", "-k", "hip", *rest]))


if __name__ == "__main__":
    raise SystemExit(main())
