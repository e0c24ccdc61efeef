"""Time to a first result on a GPU: the first call of saxpy with nothing cached, and from the disk cache.

    python benchmarks/gpu/startup.py [--runs N] [--device cuda] [--profile]

Every run is a process of its own; medians of milliseconds are printed. The arrays are made before, and with them the
device's context: its time and that of opening the driver are the vendor's, and stand in rows of their own. A first call
is the definition of the kernel, its launch, and the wait for its end. Cold means that neither Magpie nor the driver has
compiled anything before, and is measured with the code-generation worker running already and with its start in it; warm
means that an earlier process has. `--profile` shows where the time of one first call of each kind goes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import json, sys, time
clock = time.perf_counter
start = clock()
import magpie as mp
imported = clock()
import numpy as np
host = np.arange(1000, dtype=np.float32)
begin = clock()
device = mp.device(sys.argv[1])
opened = clock()
x, y = mp.asarray(host, device=device), mp.ones(1000, mp.f32, device=device)
mp.synchronize(device)
used = clock()
if sys.argv[2] == "started":
    from magpie.backends.llvm.worker import generate
    generate("define void @nothing() { ret void }", "nvptx64-nvidia-cuda", "sm_70", "+ptx60")
parts = []
if sys.argv[3] == "profile":
    import importlib
    def watch(module, name, shown):
        place = importlib.import_module(module)
        for part in name.split(".")[:-1]:
            place = getattr(place, part)
        last = name.split(".")[-1]
        inner = getattr(place, last)
        def outer(*args, **kwargs):
            at = clock()
            try:
                return inner(*args, **kwargs)
            finally:
                parts.append((shown, (at - call) * 1e3, (clock() - at) * 1e3))
        setattr(place, last, outer)
    watch("magpie.runtime.specialise", "fingerprint", "source key")
    watch("magpie.runtime.specialise", "Specialiser._from_disk", "disk cache")
    watch("magpie.runtime.specialise", "Specialiser._lower", "frontend")
    watch("magpie.runtime.specialise", "Specialiser._emit", "emit and load")
    watch("magpie.runtime.drivers.gpu.driver", "GpuDriver.load", "load")
    watch("magpie.runtime.drivers.gpu.launch", "GpuKernel.bind", "bind")
    watch("magpie.runtime.launcher", "Launcher.plan", "plan")
    if sys.argv[2] != "warm":
        watch("magpie.backends.llvm.worker", "Worker.request", "worker")
        watch("magpie.backends.ptx.pipeline", "emit_llvm", "LLVM text")
call = clock()

@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]

saxpy[4, 256](2.0, x, y)
launched = clock()
mp.synchronize(device)
end = clock()
parts.append(("all, launched", 0.0, (launched - call) * 1e3))
parts.append(("wait", (launched - call) * 1e3, (end - launched) * 1e3))
again = clock()
saxpy[4, 256](2.0, x, y)
second = clock()
assert np.array_equal(y.to_numpy(), 4 * host + 1)
times = {"import": imported - start, "open": opened - begin, "context": used - opened, "first": end - call,
         "launched": launched - call, "second": second - again}
print(json.dumps({"times": {k: v * 1e3 for k, v in times.items()}, "parts": parts}))
"""


class Runs:
    """Fresh processes that share a folder for bytecode, and whose caches are folders of their own."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        self.device = device
        self.script = folder / "first_call.py"
        self.script.write_text(CHILD)

    def child(self, cache: str, mode: str, profile: bool = False) -> dict[str, object]:
        """The times of one process, and the parts of its first call. `mode`: cold, started or warm."""
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith("MAGPIE_") and k != "PYTHONDONTWRITEBYTECODE"
        }
        # Bytecode goes to a folder of this run: an installed package has it.
        environment |= {
            "MAGPIE_CACHE_DIR": str(self.folder / cache),
            "CUDA_CACHE_PATH": str(self.folder / f"{cache}-driver"),
            "PYTHONPYCACHEPREFIX": str(self.folder / "pyc"),
        }
        command = [sys.executable, str(self.script), self.device, mode, "profile" if profile else ""]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    times: dict[str, list[dict[str, float]]] = {"started": [], "cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), options.device)
        for k in range(options.runs + 1):
            for mode in times:
                found = runs.child(f"{mode}{k}" if mode == "started" else f"cache{k}", mode)["times"]
                if k:  # the first round writes bytecode and warms the file cache
                    assert isinstance(found, dict)
                    times[mode].append(found)
        print(f"medians of {options.runs} fresh processes, in ms")
        every = [t for found in times.values() for t in found]
        rows = {"import": "import magpie", "open": "open the driver", "context": "context and arrays"}
        for name, shown in rows.items():
            print(f"  {shown:<44}{statistics.median(t[name] for t in every):8.1f}")
        for mode, shown in (("started", "cold, worker running"), ("cold", "cold"), ("warm", "disk cache")):
            first = statistics.median(t["first"] for t in times[mode])
            print(f"  {'first call: ' + shown:<44}{first:8.1f}   at most {max(t['first'] for t in times[mode]):.1f}")
        if options.profile:
            for mode in times:
                parts = runs.child(f"profile-{mode}" if mode != "warm" else "profile-cold", mode, True)["parts"]
                print(f"parts of a first call, {mode}: begin, duration")
                assert isinstance(parts, list)
                for name, begin, duration in sorted(parts, key=lambda part: float(part[1])):
                    print(f"  {name:<20}{begin:8.1f}{duration:8.1f}")


if __name__ == "__main__":
    main()
