"""Time to a first result: importing Magpie, and the first call of saxpy with a cold and with a warm disk cache.

    python benchmarks/bench_startup.py [runs]

Every run is a process of its own; medians of milliseconds are printed: ``import magpie``, and the definition of the
kernel with its first call. NumPy is imported in between, outside both.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import time
start = time.perf_counter()
import magpie as mp
imported = time.perf_counter()
import sys
assert "llvmlite" not in sys.modules and "numpy" not in sys.modules
import numpy as np
x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
begin = time.perf_counter()

@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]

saxpy[4, 256](2.0, x, y)
end = time.perf_counter()
assert np.array_equal(y, 2 * x + 1)
print((imported - start) * 1e3, (end - begin) * 1e3)
"""


def child(script: Path, cache: str) -> tuple[float, float]:
    """Milliseconds of the import, and of the definition with the first call, in a fresh process."""
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith("MAGPIE_") and k != "PYTHONDONTWRITEBYTECODE"
    }
    # Bytecode goes to a folder of this run: an installed package has it.
    environment |= {
        "MAGPIE_CACHE_DIR": cache,
        "MAGPIE_BACKEND": "cpu",
        "PYTHONPYCACHEPREFIX": str(script.parent / "pyc"),
    }
    command = [sys.executable, str(script)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    imported, first = out.split()
    return float(imported), float(first)


def main() -> None:
    """Print the medians."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    imports, cold, warm = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "first_call.py"
        script.write_text(CHILD)
        for k in range(runs + 1):
            cache = str(Path(folder) / f"cache{k}")
            a, c = child(script, cache)
            b, w = child(script, cache)
            if k:  # the first round writes bytecode and warms the file cache
                imports += [a, b]
                cold.append(c)
                warm.append(w)
    print(f"medians of {runs} fresh processes, in ms")
    print(f"  import magpie                          {statistics.median(imports):8.1f}")
    print(f"  first call of saxpy, cold disk cache   {statistics.median(cold):8.1f}")
    print(f"  first call of saxpy, warm disk cache   {statistics.median(warm):8.1f}")


if __name__ == "__main__":
    main()
