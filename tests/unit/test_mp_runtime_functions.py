"""The specification's runtime functions (appendix B.1): docs/MP_LANGUAGE.md says what stands in the place of each."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import magpie as mp
from magpie.errors import GpuErrorKind
from magpie.mpir.prelude import STRUCTS
from magpie.mpir.signatures import MODULES, signature
from magpie.mpir.types import sid_hash

ROOT = Path(__file__).parents[2]

# Appendix B.1, in its order.
FUNCTIONS = """
error_new error_kind error_message error_backend error_code
device_count_unified device_default_unified device_backends device_max_workgroup_size device_max_shared_bytes
device_max_buffers device_warp_size device_memory_total device_memory_available buffer_new_hinted
profile_begin profile_end profile_mark_begin profile_mark_end profile_export_chrome profile_available_counters
profile_enable_counters profile_read_counters profile_memory_stats
"""
NAMES = [f"mp_rt_gpu_{name}" for name in FUNCTIONS.split()]
NAMES += ["mp_rt_mlx_init", "mp_rt_mlx_array_zeros", "mp_rt_mlx_array_matmul"]


def rows():
    text = (ROOT / "docs" / "MP_LANGUAGE.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(mp_rt_\w+)` \| `([^`]+)` \| (.+) \|$", text, re.MULTILINE)


def test_every_function_has_a_row():
    assert [name for name, _, _ in rows()] == NAMES


def test_what_stands_for_them_in_text_exists():
    for _, text, _ in rows():
        field = re.fullmatch(r"getfield \{ field=(\w+) \}", text)
        imported = re.fullmatch(r"imports \{ ([\w.]+) \}", text)
        if field:
            assert field[1] in dict(STRUCTS["gpu.TError"].fields)
        elif imported:
            assert imported[1] in MODULES
        elif text.startswith("new "):
            assert text.removeprefix("new ") in STRUCTS
        else:
            assert signature(text) is not None, text


def test_what_stands_for_them_in_python_exists():
    error = mp.GpuError(GpuErrorKind.BufferError, "cpu", "text", 7)
    later = []
    for name, _, python in rows():
        found = re.fullmatch(r"`mp\.([\w.]+)`", python)
        if found is None:
            later.append(name)
        elif found[1].startswith("GpuError."):
            assert attrgetter(found[1].partition(".")[2])(error) is not None
        else:
            assert attrgetter(found[1])(mp) is not None
    assert later == [name for name in NAMES if name.startswith(("mp_rt_gpu_profile", "mp_rt_mlx"))]


def test_a_kernel_has_the_number_and_the_blobs_of_a_registry():
    k = mp.load_module(ROOT / "examples" / "mp" / "vector_add_spv.mp").kernel_add
    assert k.sid == sid_hash("gpu_example_spv.@kernel_add")
    for backend, extension in (("spv", ".spv"), ("ptx", ".ptx"), ("hip", ".hsaco")):
        artifact = k.compile(backend=backend)
        assert artifact.blob and artifact.extension == extension
        assert [p.name for p in artifact.layout.params] == ["in", "out", "n"]
