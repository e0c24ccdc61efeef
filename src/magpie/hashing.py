"""The hash of cache keys: BLAKE2b, from its own extension module where there is one.

`hashlib` opens OpenSSL's library on import, which costs a first launch 2 to 6 ms.
"""

from __future__ import annotations

from typing import Any

__all__ = ["digest"]


def _blake2b() -> Any:
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b


def digest(text: str, size: int = 20) -> str:
    """`2 * size` hexadecimal digits for a text."""
    found: str = _blake2b()(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
    return found
