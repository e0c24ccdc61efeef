"""MPG_CORE: what every target refuses or warns about (specification, section 13.2)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_CORE_1100", ERROR, "Heap allocation in gpu fn", """
    A kernel has no heap: lists, strings, maps, closures and heap structs cannot be made in one.
    Memory of a fixed size comes from a value struct, a local array or a shared array.

    wrong:  %p: TPoint = new TPoint { x=%a, y=%b }     ; TPoint is a heap struct
    right:  declare TPoint as a value struct; `new` of one makes no allocation

    wrong:  parts = [0.0, 0.0, 0.0]                    # Python: a list
    right:  parts = mp.local(3, mp.f32)
    """)
_d("MPG_CORE_1101", ERROR, "ARC operation in gpu fn", """
    Reference counting and ownership changes (retain, release, share, clone) work on heap objects; a kernel has none.
    Pass plain values, value structs and buffers to a kernel, and do the sharing on the host.

    wrong:  %s: shared TPoint = share { v=%p }         ; inside a gpu fn
    right:  read the fields on the host and pass them as scalars or in a value struct
    """)
_d("MPG_CORE_1102", ERROR, "Dynamic dispatch in gpu fn", """
    A call in a kernel must name its function: GPUs have no portable call through a value, so callables and the
    array functions that take one (map, filter, reduce, foreach) are refused.

    wrong:  %y: f32 = call.indirect %f { %x }
    right:  %y: f32 = call @square { x=%x }

    In Python a function that is known when the kernel is compiled may be passed, as a closure or a constexpr.
    """)
_d("MPG_CORE_1103", ERROR, "Recursion in gpu fn", """
    A function that a kernel calls must not call itself, directly or through others: most targets have no call stack.
    Write a loop, with a local array as the stack if one is needed.

    wrong:  def gcd(a, b): return a if b == 0 else gcd(b, a % b)
    right:  def gcd(a, b):
                while b != 0:
                    a, b = b, a % b
                return a
    """)
_d("MPG_CORE_1104", ERROR, "Str type in gpu fn", """
    Strings live on the heap and do not exist in a kernel, neither as a parameter nor as a value.
    Pass a number that stands for the text, and turn it into text on the host.

    wrong:  gpu fn @k(%mode: Str) -> unit target(spv) { ... }
    right:  gpu fn @k(%mode: i32) -> unit target(spv) { ... }
    """)
_d("MPG_CORE_1105", ERROR, "Array type in gpu fn", """
    The host's growing Array cannot be used in a kernel. Device memory is a gpu.TBuffer<T>.

    wrong:  gpu fn @k(%xs: Array<f32>) -> unit target(spv) { ... }
    right:  gpu fn @k(%xs: gpu.TBuffer<f32>) -> unit target(spv) { ... }
    """)
_d("MPG_CORE_1106", ERROR, "Map type in gpu fn", """
    Maps live on the heap and do not exist in a kernel. Give the kernel two buffers, sorted keys and values,
    and search in them, or a dense table that the key indexes.

    wrong:  gpu fn @k(%m: Map<i32, f32>) -> unit target(spv) { ... }
    right:  gpu fn @k(%keys: gpu.TBuffer<i32>, %values: gpu.TBuffer<f32>, %n: u32) -> unit target(spv) { ... }
    """)
_d("MPG_CORE_1107", ERROR, "TCallable type in gpu fn", """
    A callable value cannot be passed to a kernel or made in one. Call a named function; for several variants make
    one kernel each, or select by a number.

    wrong:  gpu fn @k(%f: TCallable<(f32) -> f32>) -> unit target(spv) { ... }
    right:  switch on an i32 parameter and call @f0, @f1, ... by name
    """)
_d("MPG_CORE_1200", ERROR, "Unsupported capability for target", """
    The kernel requires a capability that its target does not have, or one that does not exist; the message
    lists those that do. Choose another target or do without the capability.

    wrong:  @mp.kernel(requires=("tensor_cores",))
    right:  @mp.kernel(requires=("cuda.tensor_cores",))

    wrong:  unsafe gpu fn @k() -> unit target(wgsl) requires(atomics_f64) { ... }
    right:  unsafe gpu fn @k() -> unit target(ptx) requires(atomics_f64) { ... }
    """)
_d("MPG_CORE_1201", ERROR, "Non-portable feature without requires()", """
    The kernel uses something that not every target has and does not say so. Such a feature needs `unsafe gpu fn`
    and its capability in `requires(...)`, so that a reader sees where the kernel can run. In Python the decorator
    names it; docs/CAPABILITIES.md marks the capabilities that this is about.

    wrong:  @mp.kernel
            def k(x): p = mp.malloc(4, mp.f32) ...
    right:  @mp.kernel(requires=("device_malloc",))
            def k(x): p = mp.malloc(4, mp.f32) ...

    wrong:  gpu fn @k(...) -> unit target(ptx) { ... gpu.malloc ... }
    right:  unsafe gpu fn @k(...) -> unit target(ptx) requires(device_malloc) { ... gpu.malloc ... }
    """)
_d("MPG_CORE_1202", WARNING, "unsafe gpu fn is non-portable", """
    A reminder, given for every `unsafe gpu fn`, and by `kernel.check()` for a Python kernel that requires what not
    every target has: this kernel runs only on the targets that have all the capabilities in its `requires(...)`. Keep
    a portable kernel beside it if the program must run elsewhere.
    """)
_d("MPG_CORE_1300", ERROR, "Backend not available at compile time", """
    The target is unknown, or a tool that it needs is missing here. `magpie devices` lists the backends of this
    installation, and why one that is installed cannot be used.

    wrong:  kernel.compile(x, backend="cudaa")
    right:  kernel.compile(x, backend="cuda")          # or ptx, its id
    """)
_d("MPG_CORE_1301", ERROR, "llc invocation failed", """
    The code generator of LLVM failed or ended while it made code for this kernel; Magpie itself goes on.
    Set MAGPIE_DUMP=llvm to see what it was given, and please report the kernel with that text.
    As a way around it, try another target or take apart the expression at the line shown.
    """)
_d("MPG_CORE_1302", ERROR, "Invalid workgroup size", """
    Each of the three sizes of a workgroup is at least 1, and their product at most 1024.

    wrong:  @mp.kernel(workgroup=(64, 64, 1))          # 4096 work-items
    right:  @mp.kernel(workgroup=(32, 32, 1))          # 1024
    """)
_d("MPG_CORE_1400", ERROR, "Barrier in divergent control flow", """
    Every work-item of a workgroup must reach a barrier, or none; here a branch or a loop that depends on the
    work-item decides. On a GPU this hangs or gives wrong values. Move the barrier out of the branch.

    wrong:  if mp.thread_id(0) < 32:
                mp.barrier()
    right:  if mp.thread_id(0) < 32:
                ...
            mp.barrier()

    An early `return` of some work-items has the same effect on every barrier after it: guard the work, not the
    barrier. A condition that is the same for all, but not provably, is asserted with mp.uniform(cond).
    """)
_d("MPG_CORE_1401", WARNING, "Barrier under a condition that is not provably uniform", """
    The condition is read from memory that the kernel writes, so it may differ between the work-items of a group.
    It is checked in checked mode and by the sanitizer. Say that it is the same for all with mp.uniform(cond).

    warns:  while flag[0] == 0:
                mp.barrier()
    says:   while mp.uniform(flag[0] == 0):
                mp.barrier()
    """)
_d("MPG_CORE_1402", WARNING, "Loop waits on a plain load", """
    The loop ends only when memory changes that it reads with a plain load and never writes. A compiler may read
    such a place once; waiting for another work-item needs an atomic load. Work-items of one workgroup make
    no progress for each other except at barriers, so only a lower workgroup may be waited for.

    wrong:  while flag[0] == 0: pass
    right:  while mp.atomic_load(flag, 0) == 0: pass
    """)
_d("MPG_CORE_1403", WARNING, "Index width not proven to fit 32 bits", """
    This target has no 64-bit integers, and Magpie could not prove that the index expression stays below 2^31.
    It is computed in 32 bits here. Cast parts of the expression to mp.i32 where you know that they are small, or
    run on a target with 64-bit integers.
    """)
_d("MPG_CORE_1404", ERROR, "Unsupported type for target", """
    The target has no such type, not even through another one: for example f64 on WGSL. `magpie devices` shows the
    types of each device. Use a narrower type, or another target.

    wrong:  x: mp.Array[mp.f64] on wgsl
    right:  x: mp.Array[mp.f32]
    """)
_d("MPG_CORE_1405", ERROR, "Unsupported operation for target", """
    The target cannot do this operation, natively or in parts: for example a device-scope fence on WGSL.
    The message names the capability that is missing; `magpie devices` shows which device has it.
    """)
_d("MPG_CORE_1406", ERROR, "Matrix tile operation that a subgroup does not come to as one", """
    A matrix tile belongs to a subgroup: all of its work-items come to mp.mma, to loads and stores of tiles, and with
    the same place in the matrix. A copy by mp.copy_async belongs to the workgroup in the same way.

    wrong:  acc = mp.mma.zeros((16, 16), mp.f32)
            if mp.thread_id(0) < 16:
                mp.mma.store(acc, out, (0, 0))
    right:  if mp.subgroup.id() == 0:
                mp.mma.store(acc, out, (0, 0))
    """)
_d("MPG_CORE_1407", ERROR, "Matrix tiles without whole subgroups", """
    Matrix units work with all lanes of a subgroup, so a kernel with tiles declares a workgroup size that consists of
    whole ones: a multiple of 32.

    wrong:  @mp.kernel
            def multiply(a, b, c): acc = mp.mma.zeros((16, 16), mp.f32) ...
    right:  @mp.kernel(workgroup=(128, 1, 1))
    """)
_d("MPG_CORE_1408", ERROR, "Barrier or subgroup operation in irreducible control flow", """
    A cycle of blocks is entered at several of them, and work-items may be in different ones at once; a barrier or a
    subgroup operation in it has no place where they meet. It is accepted where the whole workgroup enters at the same
    block. Give the cycle one entry: a block of its own that branches on how the cycle was come to.

    wrong:  cbr %c bb1 bb2    bb1: gpu.barrier; br bb2    bb2: cbr %d bb1 bb3
    right:  br bb1            bb1: %c ... cbr %c bb2 bb3  bb2: ...; br bb3    bb3: gpu.barrier; cbr %d bb1 bb4
    """)
_d("MPG_CORE_1409", ERROR, "Control flow nests too deep", """
    Branches and loops stand more than 120 deep inside one another. No target takes any depth, and programs written by
    people do not come near: text made by a program may. Move inner parts to functions, or use a switch, which becomes
    a balanced tree of branches.
    """)
_d("MPG_CORE_1410", ERROR, "Too much code once calls are inlined", """
    Every call of a device function becomes a copy of its body, on every target. Where functions call others several
    times, and these others again, the copies multiply: ten functions that each call the next one four times are a
    million. Call in a loop, or compute once what several calls compute.

    wrong:  def f9(x): return f8(x) + f8(x + 1.0)     # and f8 calls f7 twice, and so on
    right:  for k in range(2): s += f8(x + k)
    """)
_d("MPG_CORE_1900", ERROR, "Internal error", """
    Magpie broke a rule of its own, and stopped before making wrong code. This is a bug of Magpie, not of the kernel.
    Please report it with the kernel; MAGPIE_DEBUG=1 shows where it was found, MAGPIE_DUMP=kir what was compiled.
    """)
