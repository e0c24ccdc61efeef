"""MPG_SAN: what the sanitizer and checked mode find while a kernel runs."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_SAN_1001", ERROR, "Data race in global memory", """
    Two work-items access one element of a buffer, one of them writes, not both are atomic, and nothing orders them.
    What they leave there depends on the device and the day.

    cure: Use an atomic, or give each work-item its own element; workgroups are ordered only by the end of the kernel,
    or by fences and atomics.

    wrong:  total[0] += x[i]
    right:  mp.atomic_add(total, 0, x[i])
    """)
_d("MPG_SAN_1002", ERROR, "Data race in shared memory", """
    Two work-items of a workgroup access one element of a shared array, one of them writes, and no barrier lies between
    the two. Most often a barrier is missing before a read or before the next write.

    cure: Put a barrier between the write and the read, or before the next write.

    wrong:  s[t] = x[i]
            y[i] = s[t ^ 1]
    right:  s[t] = x[i]
            mp.barrier()
            y[i] = s[t ^ 1]
    """)
_d("MPG_SAN_1003", ERROR, "Out-of-bounds read", """
    A work-item reads outside of an array; a negative index is outside too. Most often the last workgroup is not
    guarded.

    cure: Guard the access: `if i < n`.

    wrong:  v = x[i]
    right:  if i < x.shape[0]:
                v = x[i]
    """)
_d("MPG_SAN_1004", ERROR, "Out-of-bounds write", """
    A work-item writes outside of an array, and would change memory of something else.

    cure: Guard the store: `if i < n`.

    wrong:  y[i + 1] = v
    right:  if i + 1 < y.shape[0]:
                y[i + 1] = v
    """)
_d("MPG_SAN_1005", ERROR, "Read of uninitialised shared or local memory", """
    An element of a shared array is read that no work-item of the workgroup has written. Its value is whatever the last
    kernel left there.

    cure: Fill the array first, also where the guard of the load is false.

    wrong:  if i < n: s[t] = x[i]
            mp.barrier()
            v = s[t]
    right:  s[t] = x[i] if i < n else 0.0
            mp.barrier()
            v = s[t]
    """)
_d("MPG_SAN_1006", ERROR, "Divergent barrier", """
    Some work-items of a workgroup reached this barrier, and others ended or went another way. A GPU hangs here, or goes
    on with wrong values.

    cure: Move the barrier to where all pass.

    wrong:  if flag[0] == t:
                mp.barrier()
    right:  mp.barrier()                               # outside of the branch
    """)
_d("MPG_SAN_1007", WARNING, "Signed integer overflow", """
    The exact result does not fit the type, and wrapped. Unsigned types wrap on purpose and are not reported. Reported
    only when the check `overflow` is asked for.

    cure: Use a wider type, or an unsigned one where wrapping is meant.

    wrong:  k = i * i                                  # i32, and i is 50,000
    right:  k = mp.i64(i) * i
    """)
_d("MPG_SAN_1008", WARNING, "Integer division by zero", """
    The divisor is 0. The result is 0 in a kernel, on every device, but seldom what was meant.

    cure: Test the divisor, or select another one.

    wrong:  mean = total // count
    right:  mean = total // count if count > 0 else 0
    """)
_d("MPG_SAN_1009", WARNING, "Shift count out of range", """
    The count is negative, or not below the width of the type; it is taken modulo the width.

    cure: Mask the count, or test it.

    wrong:  mask = 1 << lane                           # i32, and lane goes to 63
    right:  mask = mp.u64(1) << lane
    """)
_d("MPG_SAN_1010", ERROR, "Shuffle from an inactive lane", """
    A subgroup shuffle or broadcast reads the value of a lane that does not take part: it is masked off or past the end
    of the subgroup. The value is unspecified.

    cure: Choose a lane that takes part, and let all lanes come to the shuffle.

    wrong:  if lane < 16:
                v = mp.subgroup.shuffle(v, lane + 16)
    right:  v = mp.subgroup.shuffle(v, (lane + 16) % 32)   # outside of the branch
    """)
_d("MPG_SAN_1011", ERROR, "Assertion failed", """
    An `assert` of the kernel does not hold for this work-item. Asserts run in checked mode and under the sanitizer, and
    cost nothing otherwise.

    cure: Look at the values that the report shows for this work-item.

    example:  assert x[i] >= 0.0, "a weight is negative"
    """)
_d("MPG_SAN_1012", ERROR, "No forward progress", """
    A loop made a trip in which nothing changed that could end it: it waits for a work-item that cannot run. Within a
    workgroup there is progress only at barriers, and a workgroup may wait only for one with a lower id.

    cure: Wait only for workgroups with a lower id, by an atomic load, and meet within a workgroup at barriers.

    wrong:  while mp.atomic_cas(lock, 0, 0, 1) != 0: pass      # by every work-item of a group
    right:  one work-item of a group takes the lock, between barriers
    """)
_d("MPG_SAN_1013", ERROR, "Condition asserted as uniform is not", """
    mp.uniform(cond) promises one value for the whole workgroup, and the work-items have different ones.

    cure: Take mp.uniform away and move what needs it out of the branch, or compute the condition from what all have.

    wrong:  if mp.uniform(x[i] > 0.0): ...
    right:  if mp.uniform(x[0] > 0.0): ...
    """)
_d("MPG_SAN_1014", ERROR, "Barrier count differs between work-items", """
    The work-items of a workgroup wait at different barriers: a loop around a barrier makes another number of trips for
    some.

    cure: Give the loop bounds that do not depend on the work-item.

    wrong:  for k in range(t): mp.barrier()
    right:  for k in range(mp.workgroup_size(0)): mp.barrier()
    """)
_d("MPG_SAN_1015", ERROR, "Use of freed device memory", """
    Memory from mp.malloc is read, written or freed after mp.free gave it back. On a device it may be another
    work-item's by then.

    cure: Free the memory behind its last use, once.

    wrong:  mp.free(p)
            y[i] = p[0]
    right:  y[i] = p[0]
            mp.free(p)
    """)
_d("MPG_SAN_1016", WARNING, "Device memory is not freed", """
    A work-item ended without giving memory from mp.malloc back. Nobody can reach it any more, and the device's heap
    stays smaller by it for the rest of the process.

    cure: Free the memory on every way out of the kernel.

    wrong:  p = mp.malloc(n, mp.f32)
            ...
    right:  p = mp.malloc(n, mp.f32)
            ...
            mp.free(p)                                 # on every way out, also before an early return
    """)
