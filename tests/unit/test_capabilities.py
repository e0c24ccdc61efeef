"""The table of capabilities against the specification, the backends against the table, and what kernels require."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import magpie as mp
from magpie.backends.base import Manifest
from magpie.backends.ptx.arch import ARCHS
from magpie.backends.registry import backend, backend_ids
from magpie.capabilities import CAPABILITIES, CELLS, LIMITS, TARGETS, cell, supported, targets_with
from magpie.diagnostics.explain import explain
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Kernel
from magpie.ir.ops import OPS
from magpie.passes.capabilities import missing_capabilities

ROOT = Path(__file__).resolve().parents[2]

SPEC = ("spv", "msl", "ptx", "hip", "wgsl")

# Specification, 6.1: hardware capabilities.
HARDWARE = """
device_malloc           no      no      yes     yes     no
recursion               no      no      yes     yes     no
dynamic_parallelism     no      no      yes     yes     no
atomics_f32             yes*    yes     yes     yes     no
atomics_f64             no      no      yes     yes     no
subgroups               yes     yes     yes     yes     no
cooperative_groups      no      no      yes     yes     no
int64                   yes     yes     yes     yes     no
f16_arithmetic          yes     yes     yes     yes     yes
"""
# 6.1: capabilities of one backend.
OWN = {
    "metal.simd_shuffle": "msl",
    "metal.simd_reduce": "msl",
    "metal.simd_prefix": "msl",
    "metal.imageblock": "msl",
    "metal.tile_memory": "msl",
    "cuda.tensor_cores": "ptx",
    "cuda.cooperative_launch": "ptx",
    "hip.wave64": "hip",
}
# Appendix C, with our name of each feature.
MATRIX = """
buffers                 yes     yes     yes     yes     yes
shared_memory           yes     yes     yes     yes     yes
barrier                 yes     yes     yes     yes     yes
atomics_int             yes     yes     yes     yes     yes
atomics_f32             ext     yes     yes     yes     no
atomics_f64             no      no      yes     yes     no
bf16                    ext     yes     yes     yes     no
f16_arithmetic          yes     yes     yes     yes     yes
subgroups               yes     yes     yes     yes     no
device_malloc           no      no      yes     yes     no
recursion               no      no      yes     yes     no
dynamic_parallelism     no      no      yes     yes     no
cooperative_groups      no      no      yes     yes     no
value_structs           yes     yes     yes     yes     no
"""
# What a cell of ours means in the specification's words: it asks what a target can do, not what Magpie has code for.
WORDS = {"yes": ("yes",), "later": ("yes",), "ext": ("ext", "yes*"), "no": ("no",), "soft": ("no",)}

# Where the specification asks for hardware, and Magpie has another way: loops of compare-and-exchange, bf16 through f32.
# And Vulkan promises only the simplest subgroup operations of every device.
DIFFERENT = {
    ("atomics_f32", "spv"): "soft",
    ("atomics_f64", "spv"): "ext",
    ("bf16", "spv"): "soft",
    ("subgroups", "spv"): "ext",
}


def _rows(text):
    return [
        (line.split()[0], target, want)
        for line in text.strip().splitlines()
        for target, want in zip(SPEC, line.split()[1:], strict=True)
    ]


@pytest.mark.parametrize(("name", "target", "want"), [*_rows(HARDWARE), *_rows(MATRIX)])
def test_cells_of_the_specification(name, target, want):
    assert want in WORDS[cell(name, target)] or cell(name, target) == DIFFERENT.get((name, target))


@pytest.mark.parametrize(("name", "owner"), OWN.items())
def test_capabilities_of_one_backend(name, owner):
    for target in SPEC:
        assert ("yes" in WORDS[cell(name, target)]) == (target == owner), target


def test_limits_of_the_specification():
    sizes = dict(zip(TARGETS, LIMITS["max_workgroup_size"].least, strict=True))
    # The specification has typical devices of Vulkan, 1024 and 48 KB; these are what Vulkan 1.3 promises of each
    # (maxComputeWorkGroupInvocations, maxComputeSharedMemorySize; Vulkan specification, "Required Limits").
    assert [sizes[t] for t in SPEC] == [128, 1024, 1024, 1024, 256]
    shared = dict(zip(TARGETS, LIMITS["max_shared_bytes"].least, strict=True))
    assert [shared[t] for t in SPEC] == [n * 1024 for n in (16, 32, 48, 64, 16)]
    assert backend("spv").manifest.max_workgroup_size == 1024 and backend("spv").manifest.max_shared_bytes >= 48 * 1024
    # "48-96KB" there: what the oldest architecture gives by opting in; newer ones give 163 or 227.
    assert ARCHS["sm_70"].shared == 96 * 1024 and ARCHS["sm_80"].shared == 163 * 1024
    most = dict(zip(TARGETS, LIMITS["max_shared_bytes"].most, strict=True))
    assert most["ptx"] == max(a.shared for a in ARCHS.values()) == 227 * 1024
    buffers = dict(zip(TARGETS, LIMITS["max_buffers"].least, strict=True))
    assert buffers["wgsl"] == 8  # MPG_WGSL_1005
    assert set(LIMITS) == {"max_workgroup_size", "max_shared_bytes", "max_buffers", "warp_size"}


def test_a_device_answers_each_limit():
    for device in mp.devices():
        for limit in LIMITS.values():
            assert getattr(device, limit.query) >= 0, limit.name
        assert device.max_workgroup_size >= 256 and device.max_shared_bytes >= 16 * 1024


def test_the_table_is_consistent():
    assert set(OWN) | {r[0] for r in _rows(HARDWARE)} <= set(CAPABILITIES)
    for row in CAPABILITIES.values():
        assert set(row.cells) <= set(CELLS)
        assert set(row.implies) <= set(CAPABILITIES)
        for target in targets_with(row.name):
            assert set(row.implies) <= supported(target), f"{row.name} on {target}"
    assert {row.capability for row in OPS.values()} - {None} <= set(CAPABILITIES)


@pytest.mark.parametrize("id_", backend_ids(plugins=False))
def test_a_manifest_is_a_column(id_):
    try:
        manifest = backend(id_).manifest
    except (mp.GpuError, ImportError):
        assert id_ not in ("cpu", "interp", "ptx"), "these need nothing but the package"
        pytest.skip(f"{id_} is not built here")
    assert manifest.capabilities == supported(id_)
    column = TARGETS.index(id_)
    for name in ("max_workgroup_size", "max_shared_bytes"):
        assert getattr(manifest, name) == LIMITS[name].most[column]


def test_the_page_is_up_to_date():
    made = runpy.run_path(str(ROOT / "tools" / "gen_docs.py"), run_name="gen_docs")["PAGES"]["CAPABILITIES.md"]()
    assert (ROOT / "docs" / "CAPABILITIES.md").read_text(encoding="utf-8") == made, "run `make docs`"


# --- requires= -----------------------------------------------------------------------------------------------------------
def _declare(*requires):
    @mp.kernel(requires=requires)
    def k(x: mp.Array[mp.f32, 1]):
        x[0] = 1.0

    return k


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tensor_cores", "did you mean 'cuda.tensor_cores'?"),
        ("cuda.tensor_core", "did you mean 'cuda.tensor_cores'?"),
        ("Device_Malloc", "did you mean 'device_malloc'?"),
        ("wave64", "did you mean 'hip.wave64'?"),
        ("max_shared_bytes", "device.max_shared_bytes"),
        ("warp_size", "device.subgroup_size"),
        ("zzz", "they are buffers, "),
    ],
)
def test_unknown_names_are_found_at_the_decorator(name, hint):
    with pytest.raises(mp.CompileError, match="MPG_CORE_1200") as caught:
        _declare("subgroups", name)
    (found,) = caught.value.diagnostics
    assert hint in (found.help or "") and found.loc is not None and found.loc.file == __file__


def test_an_op_whose_capability_is_not_named():
    @mp.kernel
    def k(x: mp.Array[mp.f32, 1]):
        x[0] = 1.0
        mp.grid_sync()

    with pytest.raises(mp.CompileError) as caught:
        k.compile(backend="interp")
    (found,) = caught.value.diagnostics
    assert found.code == "MPG_CORE_1201" and "grid_sync" in found.message
    assert found.loc is not None and found.loc.line == k.fn.__code__.co_firstlineno + 3
    assert found.help == "write requires=('cooperative_groups',) in the kernel's decorator"


def test_what_a_capability_implies_need_not_be_named():
    @mp.kernel(requires=("cuda.cooperative_launch",))
    def k(x: mp.Array[mp.i32, 1]):
        i = mp.workgroup_id(0)
        x[i] = i + 1
        mp.grid_sync()
        x[2 + i] = x[1 - i]

    x = np.zeros(4, np.int32)
    k.launch(grid=2, block=1, args=(x,), backend="interp")
    assert x.tolist() == [1, 2, 2, 1]


def test_what_a_target_lacks():
    k = Kernel("k", [])
    Builder(k.body).emit("grid_sync")
    for target in TARGETS:
        found = missing_capabilities(k, Manifest(target, supported(target), 1024, 1 << 16))
        assert [d.code for d in found] == ([] if "cooperative_groups" in supported(target) else ["MPG_CORE_1200"])
    with pytest.raises(mp.CompileError, match="requires the capability 'hip.wave64', which ptx does not have"):
        _declare("hip.wave64").compile(backend="ptx")


@pytest.mark.parametrize(
    ("type_", "needs"),
    [(mp.f32, "atomics_f32"), (mp.f64, "atomics_f64"), (mp.i32, "atomics_int"), (mp.u64, "atomics_int64")],
    ids=str,
)
def test_what_atomics_need_follows_from_their_type(type_, needs):
    x = Buffer("x", type_, 1, "read_write")
    for op in ("atomic_rmw", "atomic_store"):
        k = Kernel("k", [x])
        b = Builder(k.body)
        more = {"kind": "add"} if op == "atomic_rmw" else {}
        b.emit(op, b.emit("global_id", dim=0), b.const(1, type_), array=x, scope="device", **more)
        for target in TARGETS:
            found = missing_capabilities(k, Manifest(target, supported(target), 1024, 1 << 16))
            assert sum(needs in d.message for d in found) == (needs not in supported(target)), target


@pytest.mark.parametrize("name", ["recursion", "dynamic_parallelism"])
def test_what_is_not_built_yet_says_so(name):
    with pytest.raises(mp.CompileError, match=f"requires the capability '{name}', which Magpie has no code for on ptx"):
        _declare(name).compile(backend="ptx")
    assert cell(name, "ptx") == cell(name, "hip") == "later"


def test_the_reminder_of_where_a_kernel_runs():
    k = _declare("cooperative_groups")
    (found,) = k.check()
    assert found.code == "MPG_CORE_1202" and not found.is_error
    assert f"it runs on {', '.join(targets_with('cooperative_groups'))} only" in found.message
    with warnings.catch_warnings():  # these name a target, or have found one
        warnings.simplefilter("error")
        k.compile(backend="interp")
        k.launch(grid=1, block=1, args=(np.zeros(1, np.float32),), backend="interp")
    assert _declare("subgroups").check() == [], "implied by use, so there is nothing to remind of"


def test_a_device_that_lacks_what_its_backend_has(monkeypatch):
    from magpie.records import replaced

    device = mp.device("interp")
    less = replaced(device._info.manifest, capabilities=device.capabilities - {"cooperative_groups"})
    monkeypatch.setattr(device, "_info", replaced(device._info, manifest=less))
    with pytest.raises(
        mp.GpuError, match=r"Unsupported\[MPG_CORE_1200\].*requires cooperative_groups, which"
    ) as caught:
        _declare("cooperative_groups").launch(grid=1, block=1, args=(np.zeros(1, np.float32),), device=device)
    assert caught.value.kind is mp.GpuErrorKind.Unsupported


def test_the_codes_are_explained():
    for code in ("MPG_CORE_1200", "MPG_CORE_1201", "MPG_CORE_1202"):
        assert "requires" in explain(code)
