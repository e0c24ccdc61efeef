"""MPG_CORE_14xx and 19xx: control flow, barriers and limits of kernels on every target, and Magpie's own faults."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_CORE_1400", ERROR, "Barrier in divergent control flow", """
    Every work-item of a workgroup must reach a barrier, or none; here a branch or a loop that depends on the
    work-item decides. On a GPU this hangs or gives wrong values. An early `return` of some work-items has the same
    effect on every barrier after it.

    cure: Move the barrier out of the branch; guard the work, not the barrier. A condition that is the same for all, but
    not provably, is asserted with mp.uniform(cond), gpu.uniform in .mp.

    wrong:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0:
                %i: u32 = gpu.thread_id { dim=const.u32 0 }
                %low: bool = icmp.ult { a=%i, b=const.u32 32 }
                cbr %low bb1 bb2
            bb1:
                gpu.barrier
                br bb2
            bb2:
                ret
            }
    right:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0:
                %i: u32 = gpu.thread_id { dim=const.u32 0 }
                %low: bool = icmp.ult { a=%i, b=const.u32 32 }
                cbr %low bb1 bb2
            bb1:
                br bb2
            bb2:
                gpu.barrier
                ret
            }

    wrong:  if mp.thread_id(0) < 32:
                mp.barrier()
    right:  if mp.thread_id(0) < 32:
                ...
            mp.barrier()
    """)
_d("MPG_CORE_1401", WARNING, "Barrier under a condition that is not provably uniform", """
    The condition is read from memory that the kernel writes, so it may differ between the work-items of a group.
    It is checked in checked mode and by the sanitizer.

    cure: Say that it is the same for all with mp.uniform(cond), gpu.uniform in .mp.

    warns:  gpu fn @k(%flag: gpu.TBuffer<u32>) -> unit target(spv) {
            bb0:
                %f: u32 = gpu.buffer_load<u32> { buf=%flag, idx=const.u32 0 }
                %set: bool = icmp.ne { a=%f, b=const.u32 0 }
                cbr %set bb1 bb2
            bb1:
                gpu.barrier
                br bb2
            bb2:
                gpu.buffer_store<u32> { buf=%flag, idx=const.u32 0, v=const.u32 1 }
                ret
            }
    right:  gpu fn @k(%flag: gpu.TBuffer<u32>) -> unit target(spv) {
            bb0:
                %f: u32 = gpu.buffer_load<u32> { buf=%flag, idx=const.u32 0 }
                %set: bool = icmp.ne { a=%f, b=const.u32 0 }
                %same: bool = gpu.uniform { v=%set }
                cbr %same bb1 bb2
            bb1:
                gpu.barrier
                br bb2
            bb2:
                gpu.buffer_store<u32> { buf=%flag, idx=const.u32 0, v=const.u32 1 }
                ret
            }

    warns:  while flag[0] == 0:
                mp.barrier()
    right:  while mp.uniform(flag[0] == 0):
                mp.barrier()
    """)
_d("MPG_CORE_1402", WARNING, "Loop waits on a plain load", """
    The loop ends only when memory changes that it reads with a plain load and never writes. A compiler may read
    such a place once. Work-items of one workgroup make no progress for each other except at barriers, so only a lower
    workgroup may be waited for.

    cure: Read by an atomic load.

    warns:  gpu fn @k(%flag: gpu.TBuffer<u32>) -> unit target(spv) {
            bb0:
                br bb1
            bb1:
                %f: u32 = gpu.buffer_load<u32> { buf=%flag, idx=const.u32 0 }
                %wait: bool = icmp.eq { a=%f, b=const.u32 0 }
                cbr %wait bb1 bb2
            bb2:
                ret
            }
    right:  gpu fn @k(%flag: gpu.TBuffer<u32>) -> unit target(spv) {
            bb0:
                br bb1
            bb1:
                %f: u32 = gpu.atomic_load<u32> { buf=%flag, idx=const.u32 0 }
                %wait: bool = icmp.eq { a=%f, b=const.u32 0 }
                cbr %wait bb1 bb2
            bb2:
                ret
            }

    warns:  while flag[0] == 0: pass
    right:  while mp.atomic_load(flag, 0) == 0: pass
    """)
_d("MPG_CORE_1403", WARNING, "Index width not proven to fit 32 bits", """
    This target has no 64-bit integers, and Magpie could not prove that the index expression stays below 2^31.
    It is computed in 32 bits here.

    cure: Cast parts of the expression to mp.i32 where you know that they are small, or run on a target with 64-bit
    integers.

    warns:  y[i] = x[rows[i] * stride]
    right:  y[i] = x[mp.i32(rows[i]) * mp.i32(stride)]
    """)
_d("MPG_CORE_1404", ERROR, "Unsupported type for target", """
    The target has no such type, not even through another one: for example f64 on WGSL. No target has i128 and u128.

    cure: Use a narrower type, or another target. `magpie devices` shows the types of each device.

    wrong:  %wide: i128 = cast<u32, i128> { v=%n }
    right:  %wide: i64 = cast<u32, i64> { v=%n }

    wrong:  gpu fn @k(%x: gpu.TBuffer<f64>) -> unit target(wgsl) { bb0: ret }
    right:  gpu fn @k(%x: gpu.TBuffer<f32>) -> unit target(wgsl) { bb0: ret }

    wrong:  x: mp.Array[mp.f64] on wgsl
    right:  x: mp.Array[mp.f32]
    """)
_d("MPG_CORE_1405", ERROR, "Unsupported operation for target", """
    The target cannot do this operation, natively or in parts: for example a device-scope fence on WGSL, or in a kernel
    what only host programs do. The message names what it is.

    cure: Do it on the host and pass the result, or take another target; `magpie devices` shows which device has what.

    wrong:  %devices: u32 = gpu.host.@device_count {}
    right:  gpu fn @k(%devices: u32) -> unit target(spv) { bb0: ret }
    """)
_d("MPG_CORE_1406", ERROR, "Matrix tile operation that a subgroup does not come to as one", """
    A matrix tile belongs to a subgroup: all of its work-items come to mp.mma, to loads and stores of tiles, and with
    the same place in the matrix. A copy by mp.copy_async belongs to the workgroup in the same way.

    cure: Branch on the number of the subgroup, which is the same for all of its work-items.

    wrong:  acc = mp.mma.zeros((16, 16), mp.f32)
            if mp.thread_id(0) < 16:
                mp.mma.store(acc, out, (0, 0))
    right:  if mp.subgroup.id() == 0:
                mp.mma.store(acc, out, (0, 0))
    """)
_d("MPG_CORE_1407", ERROR, "Matrix tiles without whole subgroups", """
    Matrix units work with all lanes of a subgroup, so a kernel with tiles declares a workgroup size that consists of
    whole ones.

    cure: Declare a workgroup whose size is a multiple of 32.

    wrong:  @mp.kernel
            def multiply(a, b, c): acc = mp.mma.zeros((16, 16), mp.f32) ...
    right:  @mp.kernel(workgroup=(128, 1, 1))
    """)
_d("MPG_CORE_1408", ERROR, "Barrier or subgroup operation in irreducible control flow", """
    A cycle of blocks is entered at several of them, and work-items may be in different ones at once; a barrier or a
    subgroup operation in it has no place where they meet. It is accepted where the whole workgroup enters at the same
    block.

    cure: Give the cycle one entry: a block of its own that branches on how the cycle was come to.

    wrong:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0:
                %t: u32 = gpu.thread_id { dim=const.u32 0 }
                %c: bool = icmp.ult { a=%t, b=%n }
                cbr %c bb1 bb2
            bb1:
                gpu.barrier
                br bb2
            bb2:
                %d: bool = icmp.ult { a=%n, b=const.u32 8 }
                cbr %d bb1 bb3
            bb3:
                ret
            }
    right:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0:
                br bb1
            bb1:
                gpu.barrier
                %d: bool = icmp.ult { a=%n, b=const.u32 8 }
                cbr %d bb1 bb2
            bb2:
                ret
            }
    """)
_d("MPG_CORE_1409", ERROR, "Control flow nests too deep", """
    Branches and loops stand more than 120 deep inside one another, those of called functions counted in, or calls more
    than 64. No target takes any depth, and programs written by people do not come near: text made by a program may.

    cure: Join conditions, leave early, or use a switch, which becomes a balanced tree of branches.

    wrong:  bb0: cbr %c0 bb1 bb200    bb1: cbr %c1 bb2 bb199    bb2: ...
    right:  bb0: switch %n { case 0 -> bb1 case 1 -> bb2 ... } else bb200
    """)
_d("MPG_CORE_1410", ERROR, "Too much code once calls are inlined", """
    Every call of a device function becomes a copy of its body, on every target. Where functions call others several
    times, and these others again, the copies multiply: ten functions that each call the next one four times are a
    million.

    cure: Call in a loop, or compute once what several calls compute.

    wrong:  def f9(x): return f8(x) + f8(x + 1.0)     # and f8 calls f7 twice, and so on
    right:  for k in range(2): s += f8(x + k)
    """)
_d("MPG_CORE_1411", ERROR, "Kernel that `.mp` text cannot say", """
    A kernel of Python can be printed as `.mp` text, but this one does something that the language has no operation for:
    matrix tiles, copies that run on, structs with a layout of their own. The message names what it is, and
    docs/MP_LANGUAGE.md has the operations that there are.

    cure: Print a kernel that does the same with plain loads, stores and loops.

    wrong:  acc = mp.mma.zeros((16, 16), mp.f32)
    right:  acc = mp.f32(0.0)                          # and a loop over k
    """)
_d("MPG_CORE_1900", ERROR, "Internal error", """
    Magpie broke a rule of its own, and stopped before making wrong code. This is a bug of Magpie, not of the kernel.

    cure: Please report it with the kernel. MAGPIE_DEBUG=1 shows where it was found, MAGPIE_DUMP=kir what was compiled.

    example:  error[MPG_CORE_1900]: the structurizer made IR that is not valid: ...
    """)
