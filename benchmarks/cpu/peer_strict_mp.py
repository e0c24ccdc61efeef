"""Strict kernels on mp arrays, for a driver (see worker.py)."""

from worker import main

main(fastmath=False, numpy=False)
