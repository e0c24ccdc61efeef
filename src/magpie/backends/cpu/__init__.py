"""The CPU target: SPMD on SIMD, compiled in process by LLVM."""
