"""Fastmath kernels on NumPy arrays, for a driver (see worker.py)."""

from worker import main

main(fastmath=True, numpy=True)
