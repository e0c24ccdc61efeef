"""The simulator of tiny-gpu beside its interpreter, which runs thread after thread: instructions a microsecond.

    python benchmarks/bench_tgpu.py

4,096 threads. Medians of 5 rounds for the interpreter and the simulator, taking turns. `matrix product` goes straight,
`divergent` has a branch on data in every trip, `barriers` waits twice in every trip, and in `meeting` all threads add
to one word, so that every step is run again thread after thread.
"""

from __future__ import annotations

import numpy as np
from timing import interleaved

from magpie.backends.tgpu.assembler import assemble
from magpie.backends.tgpu.interp import interpret
from magpie.backends.tgpu.simulator import simulate

GRID = (64, 64)
LOOP = "SET R0, 0\nL0:\n{body}\nADD R0, R0, 1\nCMP R0, {trips}\nBRLT L0\nADD R3, R7, 8192\nST R3, R1"
PRODUCT = "MUL R2, R5, 64\nADD R2, R2, R0\nLD R2, R2\nMUL R3, R0, 64\nADD R3, R3, R6\nADD R3, R3, 4096\nLD R3, R3\n"
NEGATIVES = "ADD R2, R7, R0\nLD R2, R2\nCMP R2, 0\nBRGT L1\nMUL R2, R2, -3\nADD R2, R2, R7\nL1:\nADD R1, R1, R2"
PROGRAMS = {
    "matrix product": LOOP.format(body=PRODUCT + "MUL R2, R2, R3\nADD R1, R1, R2", trips=16),
    "divergent": LOOP.format(body=NEGATIVES, trips=16),
    "barriers": LOOP.format(
        body="SHST R6, R7\nSYNCB\nMUL R2, R6, -1\nADD R2, R2, 63\nSHLD R2, R2\nADD R1, R1, R2\nSYNCB", trips=8
    ),
    "meeting": LOOP.format(body="LD R1, 0\nADD R1, R1, 1\nST 0, R1", trips=8),
}


def main() -> None:
    """Print one line a program."""
    memory = np.random.default_rng(0).integers(-9, 9, 3 * 4096)
    print(f"{'':16}{'interpreter':>12}{'simulator':>12}{'times':>8}")
    for name, text in PROGRAMS.items():
        program = assemble(text)
        count = simulate(program, GRID, memory, shared_size=64).instructions / 1e6
        seconds = interleaved(
            {
                "interp": lambda p=program: interpret(p, GRID, memory, shared_size=64),
                "sim": lambda p=program: simulate(p, GRID, memory, shared_size=64),
            },
            rounds=5,
            warmup=1,
        )
        slow, fast = seconds["interp"], seconds["sim"]
        print(f"{name:16}{count / slow:12.2f}{count / fast:12.2f}{slow / fast:8.1f}")


if __name__ == "__main__":
    main()
