"""`unsafe { }` in kernels: checked mode leaves alone what stands in it, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

BACKENDS = ["cpu", "ptx", "hip", "vulkan"]
TEXT = """module t
value struct TPair {{
    field a: i32
    field b: i32
}}

{kind} @k({params}) -> unit target({target}) workgroup(1, 1, 1){requires} {{
bb0:
{body}
    ret
}}
"""
ONES = {
    "load": ("gpu.buffer_load<i32> { buf=%x, idx=%at }", "bounds"),
    "rmw": ("gpu.atomic_add<i32> { buf=%x, idx=%at, v=%at }", "bounds"),
    "cas": ("gpu.atomic_cas<i32> { buf=%x, idx=%at, expected=%at, desired=%at }", "bounds"),
    "atomic load": ("gpu.atomic_load<i32> { buf=%x, idx=%at }", "bounds"),
    "sdiv": ("i.sdiv { a=%at, b=%by }", "divide"),
    "srem": ("i.srem { a=%at, b=%by }", "divide"),
    "udiv": ("i.udiv { a=%at, b=%by }", "divide"),
}


def load(tmp_path, body, params="%x: gpu.TBuffer<i32>, %at: i32, %by: i32", requires=""):
    path = tmp_path / "t.mp"
    kind, target = ("unsafe gpu fn", "ptx") if requires else ("gpu fn", "spv")
    path.write_text(
        TEXT.format(kind=kind, params=params, target=target, requires=requires and f" requires({requires})", body=body)
    )
    return mp.load_module(path).k


def sites(kernel, backend):
    return [(s["kind"], s.get("line")) for s in kernel.compile(backend=backend, checked=True).info["sites"]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ONES)
def test_one_of_two_is_checked(tmp_path, backend, name):
    text, kind = ONES[name]
    body = f"    %a: i32 = {text}\n    unsafe {{\n        %b: i32 = {text}\n    }}\n"
    body += "    %sum: i32 = i.add { a=%a, b=%b }\n    unsafe {\n"
    body += "        gpu.buffer_store<i32> { buf=%x, idx=%at, v=%sum }\n    }\n"
    found = sites(load(tmp_path, body), backend)
    assert [k for k, _ in found] == [kind]


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_of_structs(tmp_path, backend):
    read = "gpu.buffer_load<TPair> { buf=%x, idx=%at }"
    write = "gpu.buffer_store<TPair> { buf=%x, idx=%by, v=%a }"
    body = f"    unsafe {{\n        %a: TPair = {read}\n    }}\n    {write}\n"
    params = "%x: gpu.TBuffer<TPair>, %at: i32, %by: i32"
    assert len(sites(load(tmp_path, body, params), backend)) == 2  # one a field of what is written


@pytest.mark.parametrize("backend", ["ptx", "cpu"])
def test_memory_of_the_heap(tmp_path, backend):
    body = """    %p: rawptr<i32> = gpu.malloc<i32> { count=%by }
    unsafe {
        ptr.store<i32> { p=%p, v=%at }
        %v: i32 = ptr.load<i32> { p=%p }
    }
    gpu.buffer_store<i32> { buf=%x, idx=%at, v=%v }
"""
    assert [k for k, _ in sites(load(tmp_path, body, requires="device_malloc"), backend)] == ["bounds"]
    every = load(tmp_path, body.replace("unsafe {", "").replace("    }\n", ""), requires="device_malloc")
    assert [k for k, _ in sites(every, backend)] == ["bounds"] * 3  # in a function that is unsafe as a whole


def test_an_access_that_checked_mode_would_have_refused(tmp_path):
    read = "    %v: i32 = gpu.buffer_load<i32> { buf=%x, idx=%at }\n"
    write = "    gpu.buffer_store<i32> { buf=%x, idx=%by, v=%v }\n"
    whole = np.arange(100, 108, dtype=np.int32)
    plain = load(tmp_path, read + write)
    with pytest.raises(mp.GpuError, match=r"x\[5\]"):
        plain.launch(grid=1, args=(whole[:4], 5, 0), device="cpu", checked=True)
    exempt = load(tmp_path, f"    unsafe {{\n    {read}    }}\n{write}")
    exempt.launch(grid=1, args=(whole[:4], 5, 0), device="cpu", checked=True)
    assert whole.tolist() == [105, 101, 102, 103, 104, 105, 106, 107]
    with pytest.raises(mp.GpuError, match=r"x\[6\]"):
        exempt.launch(grid=1, args=(whole[:4], 5, 6), device="cpu", checked=True)
