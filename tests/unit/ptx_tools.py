"""ptxas, where it is installed, over many kernels in one run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Every name that our modules define: entries, library functions, variables.
_NAMES = re.compile(
    r"\b((?:magpie_\w+?|(?:math|record|subgroup|shared|table|zero|ipow|grid)_\$_[\w$]+?))(?=(?:_param_\d+)?(?![\w$]))"
)


def ptxas() -> str | None:
    """The assembler of PyPI's nvidia-cuda-nvcc-cu12, or the one on PATH."""
    for folder in sys.path:
        found = Path(folder, "nvidia", "cuda_nvcc", "bin", "ptxas")
        if found.exists():
            return str(found)
    return shutil.which("ptxas")


def assemble(texts: Sequence[str], arch: str, folder: Path) -> str:
    """Assemble PTX modules of one architecture as one; what ptxas complains about, empty if it takes all of them."""
    assembler = ptxas()
    assert assembler is not None
    versions, bodies = [], []
    for n, text in enumerate(texts):
        head, mark, body = text.partition(".address_size 64")
        assert mark, text[:200]
        found = re.search(r"^\.version (\d+)\.(\d+)$", head, re.MULTILINE)
        assert found is not None and f".target {arch}" in head
        versions.append((int(found[1]), int(found[2])))
        bodies.append(_NAMES.sub(rf"k{n}_\1", body))
    major, minor = max(versions)
    source = folder / f"{arch}.ptx"
    source.write_text(f".version {major}.{minor}\n.target {arch}\n.address_size 64\n" + "\n".join(bodies))
    command = [assembler, f"-arch={arch}", "-O0", str(source), "-o", str(folder / f"{arch}.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
