"""MPG_MLX and MPG_PROF: arrays of MLX, and the profiler (specification, sections 13.8 and 13.9)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_MLX_1001", ERROR, "MLX not available (not macOS / no Apple Silicon)", """
    The program uses MLX, and the package `mlx` is not installed or does not run here. MLX runs on Apple Silicon, and
    on Linux with its CPU and CUDA builds.

    cure: Install it, or branch on the error and do without: every function of mlx gives BackendUnavailable then.

    example:  %r: TResult<mlx.TArray<f32>, gpu.TError> = mlx.array.@zeros<f32> { shape=%shape }
              %a: mlx.TArray<f32> = try %r bb_without
    """)
_d("MPG_MLX_1002", ERROR, "Unsupported element type for MLX array", """
    MLX arrays hold bool, i8 to i64, u8 to u64, f16, bf16, f32 and f64, and nothing else.

    cure: Use one of these types; a wide integer can be two arrays, a struct one array a field.

    wrong:  fn @f(%a: borrow mlx.TArray<i128>) -> unit { bb0: ret }
    right:  fn @f(%low: borrow mlx.TArray<u64>, %high: borrow mlx.TArray<i64>) -> unit { bb0: ret }
    """)
_d("MPG_MLX_1003", ERROR, "Shape mismatch in MLX operation", """
    The shapes of the operands do not fit: they must be equal or broadcast, and a matrix product needs equal inner
    sizes. The message shows both shapes.

    cure: Reshape or transpose one of them before the operation.

    wrong:  mlx.linalg.@matmul { a=%x, b=%y }          ; (2, 3) by (4, 3)
    right:  mlx.linalg.@matmul { a=%x, b=%t }          ; %t is %y transposed: (2, 3) by (3, 4)
    """)
_d("MPG_MLX_1004", WARNING, "MLX operation on CPU (no GPU acceleration)", """
    The operation runs, but on the CPU: this machine has no GPU that MLX can use. It is slower than it would be on Apple
    Silicon, or with MLX's CUDA build on an NVIDIA GPU. The warning is given once in a process.

    cure: Nothing is wrong with the program. Run it on such a machine where speed matters.

    example:  warning[MPG_MLX_1004]: MLX computes on the cpu here
    """)
_d("MPG_PROF_1001", WARNING, "Vendor counters not available on this backend", """
    The profiler gives times, but no hardware counters here: the backend has none, or they need rights that the
    process does not have (NVIDIA's counters are for administrators unless the driver is told otherwise).

    cure: Ask for those that there are: @available_counters gives an empty list where there are none.

    warns:  gpu.profile.@enable_counters { session=%s, counters=%names }   ; the cpu has no counters
    right:  %names: Array<Str> = gpu.profile.@available_counters { dev=%dev }
    """)
_d("MPG_PROF_1002", ERROR, "Profiling session already active", """
    One session runs at a time, and another one was begun before it ended.

    cure: End the first one before the next begins; sessions can follow one another.

    wrong:  gpu.profile.@begin { dev=%dev }    gpu.profile.@begin { dev=%dev }
    right:  gpu.profile.@begin { dev=%dev }    gpu.profile.@end { session=%s }    gpu.profile.@begin { dev=%dev }
    """)
_d("MPG_PROF_1003", WARNING, "Counter not supported on this device", """
    The device does not have the counter that was asked for; the others are recorded. The message lists the counters
    that the device has.

    cure: Ask for counters of that list. Their names are the vendor's own, so a program that is to run on several
    vendors' devices asks for times only.

    example:  warning[MPG_PROF_1003]: the device has no counter 'sm__cycles'
    """)
