"""What the LLVM targets (cpu, ptx, hip) share."""
