"""MPG_CPU: shapes that the cpu backend refuses before anything runs."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_CPU_1001", ERROR, "Operation not supported by the cpu backend", """
    The cpu backend cannot compile an operation of this kernel; the message names it. Nothing ran, and no other code
    was run instead. MAGPIE_BACKEND=interp runs the kernel with the reference interpreter.
    (XPU-N01 in older documents.)
    """)
_d("MPG_CPU_1002", ERROR, "Barrier shape not supported by the cpu backend", """
    A workgroup runs on one thread, region by region between barriers, so the control flow around a barrier must be the
    same for all its work-items. This barrier is in a place where that cannot be had: below a branch or in a loop
    that depends on the work-item.
    (XPU-N02 in older documents.)

    wrong:  for k in range(mp.thread_id(0)): mp.barrier()
    right:  for k in range(mp.workgroup_size(0)): mp.barrier()
    """)
_d("MPG_CPU_1003", ERROR, "Type not supported by the cpu backend", """
    The cpu backend has no code for this element type in this place. Cast to a wider type, or use
    MAGPIE_BACKEND=interp.
    """)
_d("MPG_CPU_1004", ERROR, "Workgroup storage too large", """
    The shared, local and context arrays of one workgroup need more memory than the cpu backend gives a thread. Use a
    smaller workgroup, or smaller arrays.
    """)
_d("MPG_CPU_1005", ERROR, "Code generation for the cpu failed", """
    LLVM could not compile the kernel for this processor, or the object has an unresolved symbol. This is a bug of
    Magpie, not of the kernel: please report it with the kernel and the text that MAGPIE_DUMP=llvm prints.
    """)
_d("MPG_CPU_1006", WARNING, "Slow access pattern", """
    The lanes of a gang access memory at addresses that are far apart, so that every lane takes an access of its own.
    Let the fastest dimension of the array follow global_id(0).

    warns:  x[mp.global_id(0), j]
    better: x[j, mp.global_id(0)]
    """)
