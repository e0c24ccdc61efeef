"""Fastmath kernels on mp arrays, for a driver (see worker.py)."""

from worker import main

main(fastmath=True, numpy=False)
