"""Eighteen kernels, written as for a GPU, on the cpu backend: medians and ratios.

    python benchmarks/cpu/run.py [--cases a,b] [--rounds N]
    python benchmarks/cpu/run.py --peers FOLDER [--only a,b] [--cases a,b]

Alone, it times strict and fastmath kernels on mp arrays and on NumPy arrays, and checks every result against NumPy.
With `--peers`, a folder that has `run_all.py` and `cases.py` (other compilers on the same cases), all sides are run in
turn there, and the table has every peer, the ratio of Magpie's better column to the better gcc build, and their
geometric means. `OMP_NUM_THREADS` and `MAGPIE_CPU_THREADS` set the number of threads.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

OURS = {
    "strict": "peer_strict_mp.py",
    "fastmath": "peer_fast_mp.py",
    "strict, NumPy": "peer_strict_numpy.py",
    "fastmath, NumPy": "peer_fast_numpy.py",
}


def alone(cases: list[str], rounds: int) -> None:
    """Time Magpie's four columns, and check them."""
    import jobs
    from problems import PROBLEMS, error
    from timing import interleaved

    print("medians in ms".ljust(14), *(f"{name:>16s}" for name in OURS))
    for case in cases:
        make, expect, tolerance = PROBLEMS[case]
        given = make()
        expected = expect(given)
        sides = {
            name: jobs.BUILD[case](jobs.Maker("fast" in script, "numpy" in script), given)
            for name, script in OURS.items()
        }
        notes = []
        for name, job in sides.items():
            job.run()
            found = job.fetch()
            if case == "mandelbrot":
                share = float((found != expected).mean())
                notes += [f"{name}: {share:.2%} of the pixels differ"] if share else []
                continue
            worst = error(found, expected)
            if worst > (tolerance or 0.0):
                raise SystemExit(f"{case}, {name}: wrong result, error {worst}")
        medians = interleaved({name: job.run for name, job in sides.items()}, rounds, 1)
        print(case.ljust(14), *(f"{t * 1e3:16.3f}" for t in medians.values()), *notes, flush=True)
        del sides, given, expected
        gc.collect()


def _geometric(ratios: list[float]) -> float:
    return math.exp(sum(math.log(r) for r in ratios) / len(ratios))


def beside(folder: Path, only: list[str], cases: list[str]) -> None:
    """Run the folder's driver with our four columns, and print the table as Markdown."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "results.json"
        command = [sys.executable, "run_all.py", "--no-cold", "--out", str(out), "--cases", ",".join(cases)]
        for name, script in OURS.items():
            command += ["--add", name, sys.executable, str(HERE / script)]
        names = [*only, *OURS]
        # commas separate peers for the driver
        command = [part.replace(", ", "+") if part in OURS else part for part in command]
        names = [name.replace(", ", "+") for name in names]
        source = str(Path(__import__("magpie").__file__).parent.parent)
        environment = os.environ | {"PYTHONPATH": source}
        subprocess.run([*command, "--peers", ",".join(names)], cwd=folder, env=environment, check=True)
        show(json.loads(out.read_text()), only, cases)


def show(results: dict[str, Any], only: list[str], cases: list[str]) -> None:
    """The table: medians in ms, ratios and their geometric means."""
    ours = [name.replace(", ", "+") for name in OURS]
    print("\n| ms |", " | ".join([*only, *OURS, "better / better gcc", "on NumPy arrays"]), "|")
    print("|---" * (len(only) + len(ours) + 3) + "|")
    ratios: list[list[float]] = [[], []]
    for case in cases:
        medians = {name: r.get("median_ms") for name, r in results["cases"][case].items()}
        cells = ["-" if medians.get(n) is None else f"{medians[n]:.2f}" for n in [*only, *ours]]
        gcc = [medians[n] for n in ("gcc", "gcc-fast") if medians.get(n)]
        for k in range(2):
            mine = [medians[n] for n in ours[2 * k : 2 * k + 2] if medians.get(n)]
            if gcc and mine:
                ratios[k].append(min(mine) / min(gcc))
                cells.append(f"{ratios[k][-1]:.2f}")
        print(f"| {case} |", " | ".join(cells), "|")
    for name, values in zip(("mp arrays", "NumPy arrays"), ratios, strict=True):
        if values:
            print(f"\ngeometric mean of the better column over the better gcc build, {name}: {_geometric(values):.3f}")


def main() -> None:
    """Parse the command line."""
    from problems import PROBLEMS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(PROBLEMS), help="which cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=9, help="counted runs of each side")
    parser.add_argument("--peers", type=Path, help="the folder of a driver that runs other compilers")
    parser.add_argument("--only", default="gcc,gcc-fast,numpy,numba,numba-fast,taichi,warp,pocl3.1,intel-ocl")
    given = parser.parse_args()
    cases = given.cases.split(",")
    if given.peers:
        beside(given.peers.resolve(), given.only.split(","), cases)
    else:
        alone(cases, given.rounds)


if __name__ == "__main__":
    main()
