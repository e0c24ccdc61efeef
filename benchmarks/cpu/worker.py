"""Magpie as one side of a comparison whose driver hands out the cases and the clock.

The driver starts `peer_*.py` in the folder of its own `cases.py`, whose `serve` speaks the protocol: build functions
that return jobs, one for each case, and the host time of a launch.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import jobs
import numpy as np

import magpie as mp


def main(*, fastmath: bool, numpy: bool) -> None:
    """Serve the driver in whose folder this process runs."""
    sys.path.append(os.getcwd())
    from cases import per_call_us, serve

    maker = jobs.Maker(fastmath, numpy)

    def launch() -> dict[str, Any]:
        saxpy = maker.k["saxpy"]
        x, y = maker.zeros(1), maker.zeros(1)
        bound = saxpy[1, 256]
        return {
            "saxpy, n=1": per_call_us(lambda: saxpy[1, 256](2.0, x, y)),
            "saxpy, n=1, bound": per_call_us(lambda: bound(2.0, x, y)),
            "saxpy, 2 workgroups, bound": per_call_us(lambda: saxpy[2, 256](2.0, x, y)),
        }

    def cold(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        maker.k["saxpy"][mp.cdiv(x.size, 256), 256](2.0, x, y)
        return y

    kinds = f"{'fastmath' if fastmath else 'strict'}, {'NumPy' if numpy else 'mp'} arrays"
    build = {name: (lambda inp, make=make: make(maker, inp)) for name, make in jobs.BUILD.items()}
    serve(build, launch, cold, lambda: f"magpie {mp.__version__}, {kinds}")
