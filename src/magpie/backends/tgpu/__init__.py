"""The tiny-gpu target: its assembly, a simulator of it, and kernels compiled to it."""
