"""MPG_MSL, PTX, HIP and WGSL: what one target refuses (specification, sections 13.4 to 13.7)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_MSL_1001", ERROR, "Irreducible control flow (cannot structure for MSL)", """
    Metal's language has only if, loops, break and continue. This function has a loop that is entered at two places,
    which none of them can express.

    cure: Give the loop one entry: a block of its own that branches on how the loop was come to.

    wrong:  gpu fn @k(%c: bool, %d: bool) -> unit target(msl) {
            bb0: cbr %c bb1 bb2
            bb1: br bb2
            bb2: cbr %d bb1 bb3
            bb3: ret
            }
    right:  gpu fn @k(%c: bool, %d: bool) -> unit target(msl) {
            bb0: br bb1
            bb1: %first: bool = phi bool { [bb0: %c], [bb3: const.bool true] }
                 cbr %first bb2 bb3
            bb2: br bb3
            bb3: cbr %d bb1 bb4
            bb4: ret
            }
    """)
_d("MPG_MSL_2001", ERROR, "Shared memory exceeds 32KB limit", """
    The shared arrays of the kernel together are over 32,768 bytes, the limit of Apple GPUs.

    cure: Use a smaller tile or a narrower type, or let two arrays share one where their lives do not overlap.

    wrong:  gpu fn @k(%n: u32) -> unit target(msl) { bb0: %tile: ptr = gpu.shared<16384, f32> ret }    ; 64 KB
    right:  gpu fn @k(%n: u32) -> unit target(msl) { bb0: %tile: ptr = gpu.shared<8192, f32> ret }     ; 32 KB

    wrong:  tile = mp.shared((128, 128), mp.f32)
    right:  tile = mp.shared((64, 64), mp.f32)
    """)
_d("MPG_MSL_2002", ERROR, "MSL compilation failed", """
    Metal's compiler refused the generated text. This is a bug of Magpie or of the driver, not of the kernel.

    cure: Please report it with the kernel, the system's version and the text that MAGPIE_DUMP=msl prints.

    example:  error[MPG_MSL_2002]: Metal rejects the text of kernel 'k': ...
    """)
_d("MPG_MSL_2003", ERROR, "Metal-specific op without requires() annotation", """
    A gpu.metal.* operation is used in a kernel that does not require its capability.

    cure: Make it an `unsafe gpu fn` and name the capability: metal.simd_reduce, metal.simd_prefix or
    metal.simd_shuffle.

    wrong:  gpu fn @k(%x: f32) -> unit target(msl) { bb0: %s: f32 = gpu.metal.simd_sum { v=%x } ret }
    right:  unsafe gpu fn @k(%x: f32) -> unit target(msl) requires(metal.simd_reduce) {
            bb0: %s: f32 = gpu.metal.simd_sum { v=%x } ret }
    """)
_d("MPG_PTX_2001", ERROR, "Shared memory exceeds limit", """
    The shared arrays of the kernel together are larger than what the architecture gives a workgroup. Every CUDA
    device has 48 KB; beyond that Magpie asks for more at launch, up to 96 KB on sm_70, 64 on sm_75, 163 on sm_80, 99 on
    sm_86, sm_89 and sm_120, and 227 on sm_90 and sm_100. Where none is named, sm_70 is meant.

    cure: Use a smaller tile or a narrower type, or compile for the architecture that the kernel is meant for.

    wrong:  gpu fn @k(%n: u32) -> unit target(ptx) { bb0: %tile: ptr = gpu.shared<36864, f32> ret }    ; 144 KB
    right:  gpu fn @k(%n: u32) -> unit target(ptx) { bb0: %tile: ptr = gpu.shared<16384, f32> ret }    ; 64 KB

    wrong:  tile = mp.shared((192, 192), mp.f32)       # 144 KB, with arch="sm_70"
    right:  tile = mp.shared((128, 128), mp.f32)       # 64 KB
    """)
_d("MPG_PTX_2002", ERROR, "PTX compilation via llc failed", """
    LLVM could not make PTX from this kernel, or there is no architecture of the name that is given. The first is a bug
    of Magpie, not of the kernel.

    cure: Name an architecture that the message lists; or please report it with the kernel and the text that
    MAGPIE_DUMP=llvm prints.

    wrong:  magpie check --arch sm_99 kernels.mp
    right:  magpie check --arch sm_90 kernels.mp
    """)
_d("MPG_PTX_2003", WARNING, "Compute capability too low for feature", """
    The architecture asked for is older than a type or an operation in the kernel, which is computed in a slower way.

    cure: Compile for a newer architecture, or do without it.

    warns with --arch sm_70:
        gpu fn @k(%data: gpu.TBuffer<bf16>) -> unit target(ptx) {
        bb0: %x: bf16 = gpu.buffer_load<bf16> { buf=%data, idx=const.u32 0 } ret }
    right with --arch sm_80:
        gpu fn @k(%data: gpu.TBuffer<bf16>) -> unit target(ptx) {
        bb0: %x: bf16 = gpu.buffer_load<bf16> { buf=%data, idx=const.u32 0 } ret }
    """)
_d("MPG_HIP_2001", ERROR, "Shared memory exceeds LDS limit", """
    The shared arrays of the kernel together are over 64 KB, the local data share of an AMD workgroup.

    cure: Use a smaller tile or a narrower type, or let two arrays share one where their lives do not overlap.

    wrong:  gpu fn @k(%n: u32) -> unit target(hip) { bb0: %tile: ptr = gpu.shared<20480, f32> ret }    ; 80 KB
    right:  gpu fn @k(%n: u32) -> unit target(hip) { bb0: %tile: ptr = gpu.shared<16384, f32> ret }    ; 64 KB

    wrong:  tile = mp.shared((160, 128), mp.f32)
    right:  tile = mp.shared((128, 128), mp.f32)
    """)
_d("MPG_HIP_2002", ERROR, "HSACO generation via llc failed", """
    LLVM could not make an AMD code object from this kernel, or it could not be linked, or there is no architecture of
    the name that is given. The first two are bugs of Magpie, not of the kernel.

    cure: Name an architecture that the message lists; or please report it with the kernel and the text that
    MAGPIE_DUMP=llvm prints.

    wrong:  magpie check --arch gfx9999 kernels.mp
    right:  magpie check --arch gfx1100 kernels.mp
    """)
_d("MPG_WGSL_1001", ERROR, "Value struct in buffer (unsupported in WGSL), or irreducible control flow", """
    For WebGPU a buffer holds plain numbers only. The code also stands for a loop that is entered at two places: WGSL,
    like Metal, has only if, loops, break and continue.

    cure: Split an array of structs into one array a field; give such a loop one entry (MPG_MSL_1001 has an example).

    wrong:  value struct TPoint { field x: f32 field y: f32 }
            gpu fn @k(%points: gpu.TBuffer<TPoint>) -> unit target(wgsl) { bb0: ret }
    right:  gpu fn @k(%x: gpu.TBuffer<f32>, %y: gpu.TBuffer<f32>) -> unit target(wgsl) { bb0: ret }

    wrong:  particles: mp.Array[Particle]
    right:  x: mp.Array[mp.f32], y: mp.Array[mp.f32], mass: mp.Array[mp.f32]
    """)
_d("MPG_WGSL_1002", ERROR, "Pointer operation (unsupported in WGSL)", """
    WGSL has no pointer arithmetic and no pointers in memory.

    cure: Use an index into the buffer or the shared array.

    wrong:  gpu fn @k(%p: rawptr<f32>, %n: u32) -> unit target(wgsl) {
            bb0: unsafe { %x: f32 = ptr.load<f32> { p=%p } } ret }
    right:  gpu fn @k(%data: gpu.TBuffer<f32>, %n: u32) -> unit target(wgsl) {
            bb0: %x: f32 = gpu.buffer_load<f32> { buf=%data, idx=%n } ret }
    """)
_d("MPG_WGSL_1003", ERROR, "bf16 type (unsupported in WGSL)", """
    WGSL has no bfloat16.

    cure: Use f16 or f32 in the kernel, or keep the bits in u16 and convert them by shifts.

    wrong:  gpu fn @k(%x: gpu.TBuffer<bf16>) -> unit target(wgsl) { bb0: ret }
    right:  gpu fn @k(%x: gpu.TBuffer<f16>) -> unit target(wgsl) { bb0: ret }

    wrong:  x: mp.Array[mp.bf16]
    right:  x: mp.Array[mp.f16]                        # or mp.f32
    """)
_d("MPG_WGSL_1004", ERROR, "requires() capability (unsupported in WGSL)", """
    Kernels for WebGPU use the portable core only: no `requires(...)` is accepted.

    cure: Write a portable kernel for wgsl and keep the other one for the targets that have the capability.

    wrong:  unsafe gpu fn @k(%n: u32) -> unit target(wgsl) requires(subgroups) { bb0: ret }
    right:  gpu fn @k(%n: u32) -> unit target(wgsl) { bb0: ret }
    """)
_d("MPG_WGSL_1005", ERROR, "Too many storage buffers (max 8)", """
    A WebGPU kernel sees at most 8 storage buffers.

    cure: Put several small arrays into one and pass offsets, or split the kernel in two.

    wrong:  gpu fn @k(
                %a: gpu.TBuffer<f32>, %b: gpu.TBuffer<f32>, %c: gpu.TBuffer<f32>,
                %d: gpu.TBuffer<f32>, %e: gpu.TBuffer<f32>, %f: gpu.TBuffer<f32>,
                %g: gpu.TBuffer<f32>, %h: gpu.TBuffer<f32>, %i: gpu.TBuffer<f32>
            ) -> unit target(wgsl) { bb0: ret }
    right:  gpu fn @k(%all: gpu.TBuffer<f32>, %b_at: u32, %c_at: u32) -> unit target(wgsl) { bb0: ret }
    """)
_d("MPG_WGSL_1006", ERROR, "Workgroup size exceeds 256 per dimension", """
    WebGPU promises 256 work-items a workgroup, in each dimension and in product.

    cure: Use a smaller workgroup and more of them.

    wrong:  gpu fn @k(%n: u32) -> unit target(wgsl) workgroup(32, 32, 1) { bb0: ret }    ; 1024
    right:  gpu fn @k(%n: u32) -> unit target(wgsl) workgroup(16, 16, 1) { bb0: ret }    ; 256

    wrong:  kernel[grid, (32, 32)]
    right:  kernel[grid, (16, 16)]
    """)
_d("MPG_WGSL_2001", ERROR, "Shared memory exceeds 16KB limit", """
    The shared arrays of the kernel together are over 16,384 bytes, what WebGPU promises.

    cure: Use a smaller tile or a narrower type, or let two arrays share one where their lives do not overlap.

    wrong:  gpu fn @k(%n: u32) -> unit target(wgsl) { bb0: %tile: ptr = gpu.shared<8192, f32> ret }    ; 32 KB
    right:  gpu fn @k(%n: u32) -> unit target(wgsl) { bb0: %tile: ptr = gpu.shared<4096, f32> ret }    ; 16 KB

    wrong:  tile = mp.shared((128, 64), mp.f32)
    right:  tile = mp.shared((64, 64), mp.f32)
    """)
