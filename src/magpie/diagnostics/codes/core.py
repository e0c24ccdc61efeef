"""MPG_CORE_11xx to 13xx: what no kernel holds, what it requires, where it can run (specification, section 13.2)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_CORE_1100", ERROR, "Heap allocation in gpu fn", """
    A kernel has no heap: lists, strings, maps, closures and heap structs cannot be made in one.

    cure: Use memory of a fixed size: a value struct, a local array or a shared array.

    wrong:  %parts: Array<f32> = arr.new<f32> {}
    right:  %parts: ptr = gpu.local<3, f32>

    wrong:  parts = [0.0, 0.0, 0.0]                    # Python: a list
    right:  parts = mp.local(3, mp.f32)
    """)
_d("MPG_CORE_1101", ERROR, "ARC operation in gpu fn", """
    Reference counting and ownership changes (retain, release, share, clone) work on heap objects; a kernel has none.

    cure: Pass plain values, value structs and buffers to a kernel, and do the sharing on the host.

    wrong:  retain { v=%data }
            gpu.buffer_store<f32> { buf=%data, idx=%n, v=%x }
            release { v=%data }
    right:  gpu.buffer_store<f32> { buf=%data, idx=%n, v=%x }   ; the host keeps the buffer
    """)
_d("MPG_CORE_1102", ERROR, "Dynamic dispatch in gpu fn", """
    A call in a kernel must name its function: GPUs have no portable call through a value, so callables and the
    array functions that take one (map, filter, reduce, foreach) are refused.

    cure: Call a function by its name, or branch on a number to one of several. In Python a function that is known when
    the kernel is compiled may be passed, as a closure or a constexpr.

    wrong:  fn @square(%x: f32) -> f32 { bb0: %y: f32 = f.mul { a=%x, b=%x } ret %y }
            gpu fn @k(%x: f32) -> unit target(spv) { bb0: %y: f32 = call.indirect { f=@square, x=%x } ret }
    right:  fn @square(%x: f32) -> f32 { bb0: %y: f32 = f.mul { a=%x, b=%x } ret %y }
            gpu fn @k(%x: f32) -> unit target(spv) { bb0: %y: f32 = call @square { x=%x } ret }
    """)
_d("MPG_CORE_1103", ERROR, "Recursion in gpu fn", """
    A function that a kernel calls must not call itself, directly or through others: most targets have no call stack.

    cure: Write a loop, with a local array as the stack if one is needed.

    wrong:  fn @last(%n: u32) -> u32 { bb0: %m: u32 = call @last { n=%n } ret %m }
            gpu fn @k(%n: u32) -> unit target(spv) { bb0: %m: u32 = call @last { n=%n } ret }
    right:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0:
                br bb1
            bb1:
                %m: u32 = phi u32 { [bb0: %n], [bb1: %half] }
                %half: u32 = i.lshr { a=%m, b=const.u32 1 }
                %more: bool = icmp.ugt { a=%half, b=const.u32 0 }
                cbr %more bb1 bb2
            bb2:
                ret
            }

    wrong:  def gcd(a, b): return a if b == 0 else gcd(b, a % b)
    right:  def gcd(a, b):
                while b != 0:
                    a, b = b, a % b
                return a
    """)
_d("MPG_CORE_1104", ERROR, "Str type in gpu fn", """
    Strings live on the heap and do not exist in a kernel, neither as a parameter nor as a value.

    cure: Pass a number that stands for the text, and turn it into text on the host.

    wrong:  gpu fn @k(%mode: Str) -> unit target(spv) { bb0: ret }
    right:  gpu fn @k(%mode: i32) -> unit target(spv) { bb0: ret }
    """)
_d("MPG_CORE_1105", ERROR, "Array type in gpu fn", """
    The host's growing Array cannot be used in a kernel: it lives on the heap.

    cure: Give the kernel device memory, a gpu.TBuffer<T>.

    wrong:  gpu fn @k(%xs: Array<f32>) -> unit target(spv) { bb0: ret }
    right:  gpu fn @k(%xs: gpu.TBuffer<f32>) -> unit target(spv) { bb0: ret }
    """)
_d("MPG_CORE_1106", ERROR, "Map type in gpu fn", """
    Maps live on the heap and do not exist in a kernel.

    cure: Give the kernel two buffers, sorted keys and values, and search in them, or a dense table that the key
    indexes.

    wrong:  gpu fn @k(%m: Map<i32, f32>) -> unit target(spv) { bb0: ret }
    right:  gpu fn @k(%keys: gpu.TBuffer<i32>, %values: gpu.TBuffer<f32>) -> unit target(spv) { bb0: ret }
    """)
_d("MPG_CORE_1107", ERROR, "TCallable type in gpu fn", """
    A callable value cannot be passed to a kernel or made in one.

    cure: Call a named function; for several variants make one kernel each, or select by a number.

    wrong:  sig TStep(f32) -> f32
            gpu fn @k(%step: TCallable<TStep>, %x: f32) -> unit target(spv) { bb0: ret }
    right:  gpu fn @k(%step: i32, %x: f32) -> unit target(spv) {
            bb0: switch %step { case 0 -> bb1 } else bb2
            bb1: br bb2                                         ; call the first one here
            bb2: ret
            }
    """)
_d("MPG_CORE_1200", ERROR, "Unsupported capability for target", """
    The kernel requires a capability that its target does not have, or one that does not exist; the message
    lists those that do.

    cure: Choose another target, write the name as docs/CAPABILITIES.md has it, or do without the capability.

    wrong:  unsafe gpu fn @k() -> unit target(msl) requires(atomics_f64) { bb0: ret }
    right:  unsafe gpu fn @k() -> unit target(ptx) requires(atomics_f64) { bb0: ret }

    wrong:  @mp.kernel(requires=("tensor_cores",))
    right:  @mp.kernel(requires=("cuda.tensor_cores",))
    """)
_d("MPG_CORE_1201", ERROR, "Non-portable feature without requires()", """
    The kernel uses something that not every target has and does not say so. docs/CAPABILITIES.md marks the capabilities
    that this is about.

    cure: Make it an `unsafe gpu fn` and name the capability in `requires(...)`, so that a reader sees where the kernel
    can run. In Python the decorator names it.

    wrong:  gpu fn @k(%sums: gpu.TBuffer<f64>) -> unit target(ptx) {
            bb0: gpu.atomic_add<f64> { buf=%sums, idx=const.u32 0, v=const.f64 1.0 } ret }
    right:  unsafe gpu fn @k(%sums: gpu.TBuffer<f64>) -> unit target(ptx) requires(atomics_f64) {
            bb0: gpu.atomic_add<f64> { buf=%sums, idx=const.u32 0, v=const.f64 1.0 } ret }

    wrong:  @mp.kernel
            def k(x): p = mp.malloc(4, mp.f32) ...
    right:  @mp.kernel(requires=("device_malloc",))
            def k(x): p = mp.malloc(4, mp.f32) ...
    """)
_d("MPG_CORE_1202", WARNING, "unsafe gpu fn is non-portable", """
    A reminder, given for every `unsafe gpu fn`, and by `kernel.check()` for a Python kernel that requires what not
    every target has: this kernel runs only on the targets that have all the capabilities in its `requires(...)`.

    cure: Nothing is wrong. Keep a portable kernel beside it if the program must run elsewhere.

    warns:  unsafe gpu fn @k(%n: u32) -> unit target(ptx) requires(device_malloc) { bb0: ret }
    right:  gpu fn @portable(%n: u32) -> unit target(spv) { bb0: ret }
    """)
_d("MPG_CORE_1300", ERROR, "Backend not available at compile time", """
    The target is unknown, or a tool that it needs is missing here.

    cure: Name a target that there is: the message lists them. `magpie devices` shows the backends of this installation,
    and why one that is installed cannot be used.

    wrong:  gpu fn @k(%n: u32) -> unit target(cuda12) { bb0: ret }
    right:  gpu fn @k(%n: u32) -> unit target(ptx) { bb0: ret }

    wrong:  kernel.compile(x, backend="cudaa")
    right:  kernel.compile(x, backend="cuda")          # or ptx, its id
    """)
_d("MPG_CORE_1301", ERROR, "llc invocation failed", """
    The code generator of LLVM failed or ended while it made code for this kernel; Magpie itself goes on.

    cure: Try another target, or take apart the expression at the line shown. Set MAGPIE_DUMP=llvm to see what the code
    generator was given, and please report the kernel with that text.

    example:  error[MPG_CORE_1301]: kernel 'k': the code generator ended with signal 11
    """)
_d("MPG_CORE_1302", ERROR, "Invalid workgroup size", """
    Each of the three sizes of a workgroup is at least 1, and their product at most 1024.

    cure: Use a smaller workgroup and more of them, and let a work-item do several elements in a loop.

    wrong:  gpu fn @k(%n: u32) -> unit target(spv) workgroup(64, 64, 1) { bb0: ret }    ; 4096 work-items
    right:  gpu fn @k(%n: u32) -> unit target(spv) workgroup(32, 32, 1) { bb0: ret }    ; 1024

    wrong:  @mp.kernel(workgroup=(64, 64, 1))
    right:  @mp.kernel(workgroup=(32, 32, 1))
    """)
