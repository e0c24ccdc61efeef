"""The frontend of `.mp` text: reading, printing, and the canonical form.

lark and blake3 are loaded with this package's modules, so by what works on `.mp` files only.
"""

from __future__ import annotations

from magpie.frontend.mp.canonical import canonical, check_digest, digest_of, format_module, format_source
from magpie.frontend.mp.parser import Parsed, parse
from magpie.frontend.mp.printer import show
from magpie.frontend.mp.source import MAX_BYTES, Source, decode, read

__all__ = [
    "MAX_BYTES",
    "Parsed",
    "Source",
    "canonical",
    "check_digest",
    "decode",
    "digest_of",
    "format_module",
    "format_source",
    "parse",
    "read",
    "show",
]
