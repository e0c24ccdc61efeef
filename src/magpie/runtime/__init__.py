"""Devices, arrays, launches, dispatch and caches: everything that happens after a kernel is compiled."""
