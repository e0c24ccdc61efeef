"""What `tests/gpu/bits` does in its processes: one function of the library, or one file of conformance kernels, run on a
device and on the interpreter, and every bit compared."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import magpie as mp
import tests.conformance
from magpie.backends.registry import backend
from magpie.ir.nodes import Kernel, walk
from magpie.lib.math import FUNCTIONS
from tests.conformance.harness import Run, Target, _owner, launch, start

TYPES = {"f32": mp.f32, "f64": mp.f64}
_TWO = frozenset({"pow", "atan2", "hypot", "fmod", "remainder"})
_CALLS = {
    "ldexp": "mp.ldexp(x[i], n[i])",
    "frexp_mantissa": "mp.frexp(x[i])[0]",
    "frexp_exponent": "mp.frexp(x[i])[1]",
}
BLOCK = 256
SHARDS = 4  # tasks of one file, or the longest would be run alone at the end
SUBGROUP = 32  # where a device can choose


@dataclass
class Result:
    """What one task found. ``compared`` counts values or kernels, ``left_out`` kernels by the reason."""

    name: str
    compared: int = 0
    different: int = 0
    seconds: float = 0.0
    first: str = ""
    left_out: dict[str, int] = field(default_factory=dict)


def tasks(parts: list[str]) -> list[tuple[str, str, str]]:
    """(part, name, type or shard), the longest first."""
    found: list[tuple[str, str, str]] = []
    if "math" in parts:
        names = sorted([*FUNCTIONS, "sqrt"], key=lambda op: op not in _TWO)
        found += [("math", op, t) for t in ("f64", "f32") for op in names]
    if "conformance" in parts:
        files = (m.name for m in pkgutil.iter_modules(tests.conformance.__path__) if m.name.startswith("test_"))
        found += [("conformance", name, f"{k}/{SHARDS}") for name in files for k in range(SHARDS)]
    return found


def run(task: tuple[str, str, str], device: str, against: str, count: int) -> Result:
    """Do one task. What goes wrong is part of the result: the others must still run."""
    part, name, more = task
    result = Result(f"{name} {more}")
    begin = time.monotonic()
    try:
        if part == "math":
            _math(result, name, TYPES[more], device, against, count)
        else:
            _conformance(result, name, int(more.partition("/")[0]), device, against)
    except Exception as error:
        result.different += 1
        result.first = result.first or f"{type(error).__name__}: {error}"
    result.seconds = time.monotonic() - begin
    return result


# --- the math library ----------------------------------------------------------------------------------------------------
def _kernel(op: str) -> Any:
    call = _CALLS.get(op) or (f"mp.{op}(x[i], y[i])" if op in _TWO else f"mp.{op}(x[i])")
    text = f"import magpie as mp\n\n@mp.kernel\ndef k_{op}(x, y, n, z):\n    i = mp.global_id(0)\n    z[i] = {call}\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"bits_{op}.py")
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, f"k_{op}")
        kernel.parameters  # noqa: B018 - the source is read while the file is there
        given = [mp.Array[mp.f32, 1]] * 2 + [mp.Array[mp.i32, 1]]
        out = mp.i32 if op == "frexp_exponent" else mp.f32
        kernel.inspect("kir", *given, mp.Array[out, 1])
    return kernel


def specials(t: mp.DType) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the normal and subnormal ranges, small whole numbers and halves."""
    info = np.finfo(t.numpy)
    plain = [0.0, 1.0, 0.5, 1.5, 2.0, 3.0, 10.0, np.pi, np.pi / 2, np.e, info.eps, 1 + info.eps, 1 - info.epsneg]
    ends = [info.tiny, info.smallest_subnormal, info.max, info.tiny * (1 - info.epsneg), np.inf]
    found = np.array([*plain, *ends], t.numpy)
    return np.concatenate([found, -found, np.array([np.nan], t.numpy)])


def inputs(t: mp.DType, count: int, seed: int) -> np.ndarray:
    """Half of them evenly spaced over all encodings, each shifted by chance, half over what a program computes with."""
    rng = np.random.default_rng(seed)
    half = count // 2
    unsigned = np.dtype(f"u{t.itemsize}")
    step = 2 ** (8 * t.itemsize) // half
    raw = np.arange(half, dtype=np.uint64) * np.uint64(step) + rng.integers(0, step, half, np.uint64)
    everywhere = raw.astype(unsigned).view(t.numpy)
    exponent = rng.uniform(-12, 12, count - half)
    usual = (np.exp2(exponent) * rng.choice([-1.0, 1.0], count - half)).astype(t.numpy)
    return np.concatenate([everywhere, usual])


def _math(result: Result, op: str, t: mp.DType, device: str, against: str, count: int) -> None:
    s = specials(t)
    x, y = inputs(t, count, 1), inputs(t, count, 2)
    rng = np.random.default_rng(3)
    y = y[rng.permutation(count)]
    pairs = np.array(np.meshgrid(s, s)).reshape(2, -1)
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    n = rng.integers(-2200, 2200, count).astype(np.int32)
    out = np.int32 if op == "frexp_exponent" else t.numpy
    kernel = _kernel(op)
    z = []
    for where in (device, against):
        z.append(np.full(count, 7, out))
        kernel.launch(grid=mp.cdiv(count, BLOCK), block=BLOCK, args=(x, y, n, z[-1]), device=where)
    bad = np.flatnonzero(_differ(z[0], z[1]))
    result.compared, result.different = count, len(bad)
    if len(bad):
        k = bad[0]
        result.first = f"at {x[k]!r}, {y[k]!r}, {n[k]}: {z[0][k]!r} and {z[1][k]!r}"


# --- the conformance kernels -----------------------------------------------------------------------------------------------
def _conformance(result: Result, name: str, shard: int, device: str, against: str) -> None:
    module = importlib.import_module(f"tests.conformance.{name}")
    seen = set()
    for test in vars(module).values():
        runs = getattr(test, "runs", None)
        for mine, other in zip(runs(), runs(), strict=True) if runs is not None else ():
            kinds = tuple((str(a.dtype), a.ndim) if isinstance(a, np.ndarray) else repr(a) for a in mine.args)
            if (mine.kernel, kinds) in seen:
                continue
            seen.add((mine.kernel, kinds))
            if len(seen) % SHARDS != shard:
                continue
            reason = left_out(mine)
            if reason:
                result.left_out[reason] = result.left_out.get(reason, 0) + 1
                continue
            text = _both(mine, other, device, against)
            result.compared += 1
            if text:
                result.different += 1
                result.first = result.first or f"{mine.kernel.__name__}{kinds}: {text}"


def left_out(run: Run) -> str:
    """Why a kernel's bits are not compared; empty where they are."""
    if run.kernel.fastmath:
        return "fastmath"
    if not {"gang", "subgroup_size"}.isdisjoint(run.launch):
        return "another subgroup size"
    from magpie.runtime.inspection import _lowered

    return order_dependent(_lowered(run.kernel, run.args, {}, warn=False).kernel)


def order_dependent(kernel: Kernel) -> str:
    """What makes a result depend on which work-item comes first, which the bit contract leaves open (RULES 22)."""
    used = {id(a) for body in kernel.bodies() for node in walk(body) for a in node.args}
    for body in kernel.bodies():
        for node in walk(body):
            if node.op in ("atomic_cas", "atomic_load", "atomic_store"):
                return "waits or exchanges between work-items"
            if node.op == "atomic_rmw":
                if node.attrs["array"].type.is_float:
                    return "float atomics"
                if id(node) in used or node.attrs["kind"] == "exchange":
                    return "old values of atomics"
    return ""


def _both(mine: Run, other: Run, device: str, against: str) -> str:
    """Run the same case in two places; the first difference, or nothing."""
    arrays = [list(_owners(r)) for r in (mine, other)]
    assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(*map(_bytes, arrays), strict=True))
    for r, where in ((mine, device), (other, against)):
        manifest = backend(mp.device(where).backend).manifest
        chosen = (("subgroup_size", SUBGROUP),) if SUBGROUP in manifest.subgroup_sizes else ()
        target = Target(where, where, manifest, chosen)
        if r.grid is None:
            launch(r, target)
        else:
            start(r.kernel, target, grid=r.grid, block=r.block, args=r.args, **dict(chosen), **r.launch)
    for a, b in zip(*arrays, strict=True):
        text = _compare(a, b)
        if text:
            return text
    return ""


def _owners(run: Run) -> Iterator[np.ndarray]:
    seen = set()
    for a in run.args:
        if isinstance(a, np.ndarray):
            owner = _owner(a)
            if id(owner) not in seen:
                seen.add(id(owner))
                yield owner


def _bytes(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [np.ascontiguousarray(a).reshape(-1) for a in arrays if a.size]


def _compare(a: np.ndarray, b: np.ndarray) -> str:
    if a.dtype.names:
        return next((text for name in a.dtype.names if (text := _compare(a[name], b[name]))), "")
    bad = np.argwhere(np.atleast_1d(_differ(a, b)))
    if not len(bad):
        return ""
    k = tuple(bad[0])
    return f"{len(bad)} of {a.size}, first at {k}: {np.atleast_1d(a)[k]!r} and {np.atleast_1d(b)[k]!r}"


def _differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays have other bits; a NaN is one value (RULES 20)."""
    if a.dtype.kind in "biu":
        return np.asarray(a != b)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    x, y = (np.ascontiguousarray(v).view(bits).reshape(v.shape) for v in (a, b))
    with np.errstate(all="ignore"):
        nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return np.asarray((x != y) & ~nan)
