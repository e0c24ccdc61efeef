"""MPIR: the SSA form of `.mp` programs, its text, its verifier, and the way from there to Kernel IR.

`parse_module` and `print_module` are the text form; `verify` lists what is wrong with a module; `lower_kernel` makes
the kernel of a `gpu fn`, with structured control flow.
"""

from __future__ import annotations

from magpie.mpir.kernel import lower_kernel
from magpie.mpir.parser import parse_module
from magpie.mpir.printer import print_module
from magpie.mpir.verify import verify

__all__ = ["lower_kernel", "parse_module", "print_module", "verify"]
