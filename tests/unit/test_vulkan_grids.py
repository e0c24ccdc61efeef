"""Grids that are longer than a device's dimensions: 65,535 workgroups on lavapipe and SwiftShader."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

DEVICES = ["llvmpipe", "SwiftShader"]
MOST = 65535


@pytest.fixture(params=DEVICES)
def device(request):
    found = [d for d in mp.devices() if d.backend == "spv" and d.name.startswith(request.param)]
    if not found:
        pytest.skip(f"no {request.param} here")
    return found[0]


@mp.kernel
def k_coordinates(out: mp.Array[mp.i32, 2]):
    w = mp.workgroup_id(0)
    if mp.thread_id(0) == 0:
        out[w, 0] = mp.i32(w)
        out[w, 1] = mp.i32(mp.num_workgroups(0))
        out[w, 2] = mp.i32(mp.workgroup_id(1) + mp.workgroup_id(2))
        out[w, 3] = mp.i32(mp.num_workgroups(1) * 10 + mp.num_workgroups(2))


@pytest.mark.parametrize("groups", [MOST - 1, MOST, MOST + 1, 2 * MOST, 2 * MOST + 1, 200_003])
def test_coordinates_are_those_of_the_launch(device, groups):
    out = mp.full((groups + 3, 4), -7, mp.i32, device=device)
    k_coordinates[groups, 2](out)
    found = out.to_numpy()
    assert np.array_equal(found[:groups, 0], np.arange(groups))
    assert (found[:groups, 1:] == [groups, 0, 11]).all()
    assert (found[groups:] == -7).all()  # nobody runs beyond the end


@mp.kernel
def k_sum(x: mp.Array[mp.i32], total: mp.Array[mp.i32]):
    s = mp.shared(4, mp.i32)
    t = mp.thread_id(0)
    i = mp.global_id(0)
    s[t] = x[i] if i < x.shape[0] else 0
    mp.barrier()
    if t == 0:
        mp.atomic_add(total, 0, s[0] + s[1] + s[2] + s[3])
        mp.atomic_add(total, 1, 1)


def test_barriers_and_atomics_run_once_for_each_workgroup(device):
    n = 4 * (MOST + 100) + 1
    x, total = mp.asarray(np.arange(n, dtype=np.int32) % 5, device=device), mp.zeros(2, mp.i32, device=device)
    k_sum[mp.cdiv(n, 4), 4](x, total)
    assert total.to_numpy().tolist() == [int((np.arange(n) % 5).sum()), MOST + 101]


def test_what_cannot_be_folded_is_an_error(device):
    x, total = mp.zeros(4, mp.i32, device=device), mp.zeros(2, mp.i32, device=device)
    for grid in ((1, MOST + 1), (MOST + 1, 2), (1, 1, MOST + 1)):
        with pytest.raises(mp.LaunchValueError, match=r"MPG_LAUNCH_1006.*takes 65535"):
            k_sum[grid, 4](x, total)
