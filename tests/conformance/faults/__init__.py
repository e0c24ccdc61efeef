"""Planted faults, and kernels that look like them and are right."""
