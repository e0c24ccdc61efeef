"""MPG_CPU: what the cpu backend refuses before anything runs.

1003 and 1006 were never issued and are not given again.
"""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d("MPG_CPU_1001", ERROR, "Operation not supported by the cpu backend", """
    The cpu backend cannot compile an operation of this kernel, or not at this gang width; the message names it. Nothing
    ran, and no other code was run instead. Widths are 4, 8, 16, 32 and 64. (XPU-N01 in older documents.)

    cure: Run the kernel with the reference interpreter, MAGPIE_BACKEND=interp, or at a width that is supported.

    example:  error[MPG_CPU_1001]: the cpu backend has no code for 'grid_sync'
    """)
_d("MPG_CPU_1002", ERROR, "Barrier shape not supported by the cpu backend", """
    A workgroup runs on one thread, region by region between barriers, so a branch that leads around a barrier is taken
    once for all its work-items. This one depends on the work-item, in a way that every work-item still meets the same
    barriers, and the backend could not turn it into a branch between two barriers. Where work-items meet different
    barriers the error is MPG_CORE_1400, on every target. (XPU-N02 in older documents.)

    cure: Write the branch so that it ends before the next barrier. No kernel is known that gets here: please report
    yours.

    refused:  if mp.thread_id(0) < 8: continue     # where the rest of the trip holds no barrier
    instead:  if mp.thread_id(0) >= 8: ...         # the rest of the trip
    """)
_d("MPG_CPU_1004", ERROR, "Local arrays too large", """
    The local arrays of a work-item lie in memory of the thread, once for each lane of a gang. More than 4 MiB for each
    work-item is refused. (Shared arrays have a limit of their own, MPG_LAUNCH_1012, and memory that is not there is
    MPG_LAUNCH_1010.)

    cure: Use smaller arrays, or a buffer with a part for each work-item.

    wrong:  table = mp.local(1 << 21, mp.f32)
    right:  table = scratch[mp.global_id(0)]       # a row of an array that the host made
    """)
_d("MPG_CPU_1005", ERROR, "Code generation for the cpu failed", """
    LLVM could not compile the kernel for this processor, or the object has an unresolved symbol. This is a bug of
    Magpie, not of the kernel.

    cure: Please report it with the kernel and the text that MAGPIE_DUMP=llvm prints.

    example:  error[MPG_CPU_1005]: kernel 'k': the object has an unresolved symbol
    """)
