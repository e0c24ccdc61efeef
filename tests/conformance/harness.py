"""The conformance harness: a case is a kernel with an independent oracle, and runs on every kind of device present.

    @case(dtypes=FLOATS)
    def test_sqrt(t):
        x = values(t, 101)
        return Run(k_sqrt, (x, empty(101, t)), {1: in_f32(np.sqrt, t, x)})

The function builds the arguments anew for each run.  What the oracle does not mention must stay as it was, bit for
bit, and so must memory between and around the elements of a strided view.

A device that lacks what a case requires is left out by its capabilities and limits, never by name; known failures
stand in known_failures.txt with a reason, and a case listed there that passes is an error. On a device that flushes
denormals a case gets none, and a result that is one may be a zero (docs/CAPABILITIES.md: denormals).
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import inspect
import itertools
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import magpie as mp
from magpie import knobs
from magpie.backends.base import Manifest
from magpie.capabilities import CAPABILITIES
from magpie.runtime.kernel import kernel_of

from .oracle import denormals, is_denormal

HERE = Path(__file__).parent
GANGS = (4, 8, 16, 32, 64)

# What a type needs from a target.  A target that has it through another type names the capability too.
TYPE_CAPABILITY = {"i64": "int64", "u64": "int64", "f64": "f64", "f16": "f16_arithmetic", "bf16": "bf16"}


@dataclass(frozen=True)
class Target:
    """A kind of device, with launch options that must not change a result. ``manifest`` is what this device can do.
    ``any_size``: code that takes any workgroup size. ``plain``: what LLVM makes of the cpu's text without optimising it,
    in a fifth of the time. ``software``: a driver for GPUs that runs on the processor."""

    name: str
    device: str
    manifest: Manifest
    options: tuple[tuple[str, Any], ...] = ()
    any_size: bool = False
    plain: bool = False
    software: bool = False

    def has(self, capabilities: Sequence[str]) -> bool:
        return not self.lacks(capabilities)

    def lacks(self, capabilities: Sequence[str]) -> list[str]:
        """Those of the capabilities that the device does not have."""
        assert CAPABILITIES.keys() >= set(capabilities), f"no capability: {set(capabilities) - CAPABILITIES.keys()}"
        return [c for c in capabilities if c not in self.manifest.capabilities]

    @property
    def flushes(self) -> bool:
        """Whether denormal numbers may be taken for zero."""
        return self.manifest.flushes_denormals


@dataclass
class Run:
    """One launch and what it must leave behind.

    ``expect`` maps argument positions to arrays, or is a function that gets the arguments after the launch and gives
    such a map (for results that depend on the subgroup size).  ``ulps`` allows that many units in the last place;
    ``atol`` an absolute error besides; ``zero_sign=False`` lets -0 equal +0.
    """

    kernel: Any
    args: tuple[Any, ...]
    expect: dict[int, Any] | Callable[..., dict[int, Any]]
    grid: Any = None
    block: Any = 64
    ulps: float = 0
    atol: float = 0.0
    zero_sign: bool = True
    launch: dict[str, Any] = field(default_factory=dict)


@functools.cache
def targets() -> tuple[Target, ...]:
    """The kinds of devices that can run a kernel on this machine.

    Devices of a backend that can do the same are one kind. A GPU, or else the kind that can do most, is called as the
    backend; another one has the first word of its devices' name besides: spv (lavapipe) and spv-swiftshader.
    """
    from magpie.backends.registry import backend_ids
    from magpie.runtime.dispatch import runtime

    found = []
    for id_ in backend_ids():
        kinds: dict[Any, Target] = {}
        devices = () if runtime().unavailable(id_) else runtime().of_backend(id_)
        ordered = sorted(devices, key=lambda d: (d.software, -len(d.capabilities), -d.max_workgroup_size, d.index))
        # tiny-gpu has integers only; tests/unit/test_tgpu_conformance.py runs the cases that fit it.
        for device in (d for d in ordered if id_ in d.backends and "f32" in d.capabilities):
            name = f"{id_}-{_word(device.name)}" if kinds else id_
            manifest = device.driver.devices()[device.index].manifest
            key = (device.capabilities, device.subgroup_size, device.max_workgroup_size, device.max_shared_bytes)
            kinds.setdefault(key, Target(name, device.id, manifest, software=device.software))
        found += kinds.values()
    return tuple(found)


def _word(name: str) -> str:
    """The first word of a device's name, as a part of a test's name."""
    return next(iter(re.findall("[a-z0-9]+", name.lower())), "other")


def gang_targets() -> list[Target]:
    """Targets whose gang width can be chosen, at several widths; with code for any workgroup size, since the targets
    themselves have code for each one."""
    return [
        replace(t, name=f"{t.name}-g{g}", options=(("gang", g),), any_size=True)
        for t in targets()
        if "gangs" in t.manifest.capabilities
        for g in GANGS
    ]


def subgroup_targets() -> list[Target]:
    """Targets that emulate subgroups of another size than their own, at each size."""
    return [
        replace(t, name=f"{t.name}-s{n}", options=(("subgroup_size", n),), any_size=True)
        for t in targets()
        for n in t.manifest.subgroup_sizes
        if len(t.manifest.subgroup_sizes) > 1
    ]


@functools.cache
def known_failures() -> tuple[tuple[str, str], ...]:
    """(pattern of a test's name, reason) of each line of known_failures.txt."""
    rows = []
    for line in (HERE / "known_failures.txt").read_text().splitlines():
        text = line.split("#", 1)[0].strip()
        if text:
            pattern, _, reason = text.partition(" ")
            if not reason.strip():
                raise ValueError(f"known_failures.txt: {pattern} has no reason")
            rows.append((pattern, reason.strip()))
    return tuple(rows)


def _marks(name: str) -> list[Any]:
    for pattern, reason in known_failures():
        if fnmatch.fnmatchcase(name, pattern):
            return [pytest.mark.xfail(reason=reason, strict=True)]
    return []


def case(
    dtypes: Sequence[Any] = (None,),
    requires: Sequence[str] = (),
    blocks: Sequence[Any] = (None,),
    grids: Sequence[Any] = (None,),
    gangs: bool | str = False,
    subgroups: bool | str = False,
    software: int = 1,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a test of a function that gives a `Run` or several: one test a target, dtype, block and grid.

    The function takes those of ``t``, ``block`` and ``grid`` that it names.  A dtype may be a tuple of dtypes; all must
    be there.  ``gangs=True`` adds gang widths where a backend has gangs: one a row, in turn, and all of them for
    ``gangs="all"`` and in a full run.  ``subgroups`` does the same with subgroup sizes.  Those launches run code
    for any workgroup size, all others code for their own.  Drivers for GPUs that run on the
    processor have one in ``software`` rows, since they compile for long; 0: all of them are in a full run.
    """

    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        wanted = set(inspect.signature(make).parameters)
        rows = []
        combinations = list(itertools.product(dtypes, blocks, grids))
        turn = len(make.__name__)  # another width first for each case
        plan = [
            (target, row)
            for target in targets()
            for n, row in enumerate(combinations)
            if not in_turn(f"{make.__name__} {target.name} {n}", max(software, 1) if target.software else 1)
        ]
        for asked, widths in ((gangs, gang_targets()), (subgroups, subgroup_targets())):
            for k, row in enumerate(combinations if asked else ()):
                chosen = widths
                if asked != "all" and not full_size():
                    picked = {(turn + k) % len(GANGS), *([(turn + 2) % len(GANGS)] if len(combinations) == 1 else ())}
                    chosen = [w for n, w in enumerate(widths) if n % len(GANGS) in picked]
                plan += [(target, row) for target in chosen]
        for target, (t, block, grid) in plan:
            types = () if t is None else t if isinstance(t, tuple) else (t,)
            needs = [*requires, *(TYPE_CAPABILITY[u.name] for u in types if getattr(u, "name", "") in TYPE_CAPABILITY)]
            parts = [target.name, *(u.name for u in types)]
            parts += [f"b{_text(block)}"] * (block is not None) + [f"n{_text(grid)}"] * (grid is not None)
            name = "-".join(parts)
            marks = _marks(f"{make.__module__.rsplit('.', 1)[-1]}::{make.__name__}[{name}]")
            marks += lacking(target, needs, block)
            if not software and target.software and not full_size():
                marks.append(pytest.mark.skip(reason=f"{target.name} compiles it for minutes: MAGPIE_TEST_ALL=1"))
            if "gangs" in target.manifest.capabilities:  # one in six at other widths, a third or more at the kernel's own
                share = 6 if target.any_size else 3 if len(combinations) > 4 else 2 if len(combinations) > 2 else 1
                target = replace(target, plain=in_turn(make.__name__ + name, share) > 0)
            rows.append(pytest.param(target, t, block, grid, id=name, marks=marks))

        @pytest.mark.parametrize(("target", "t", "block", "grid"), rows)
        def test(target: Target, t: Any, block: Any, grid: Any) -> None:
            given = {"t": t, "block": block, "grid": grid}
            with denormals(not target.flushes):
                made = make(**{k: v for k, v in given.items() if k in wanted})
                check_all([made] if isinstance(made, Run) else list(made), target)

        def runs() -> Iterator[Run]:
            for t, block, grid in combinations:
                made = make(**{k: v for k, v in (("t", t), ("block", block), ("grid", grid)) if k in wanted})
                yield from [made] if isinstance(made, Run) else made

        test.runs = runs  # type: ignore[attr-defined]  # for who compiles the kernels and runs none of them
        test.__name__ = make.__name__
        test.__qualname__ = make.__qualname__
        test.__module__ = make.__module__
        test.__doc__ = make.__doc__
        return test

    return decorate


def lacking(target: Target, needs: Sequence[str], block: Any = None) -> list[Any]:
    """A mark that skips a test where the target has not what it needs, with the reason."""
    reason = ""
    if missing := target.lacks(needs):
        reason = f"lacks {', '.join(missing)}"
    elif block is not None and items_of(block) > target.manifest.max_workgroup_size:
        reason = f"has workgroups of at most {target.manifest.max_workgroup_size} work-items"
    return [pytest.mark.skip(reason=f"{target.name} {reason}")] if reason else []


def items_of(block: Any) -> int:
    """The work-items of a workgroup."""
    return math.prod(block) if isinstance(block, tuple) else int(block)


def beyond(target: Target, error: BaseException) -> str | None:
    """Why the device cannot do what raised the error: it lacks a capability, or has less than is asked for, where that is
    so; None for any other error.

    Most cases say in `requires=` what they need; a kernel may need more for one type, or on a device of few features.
    """
    if isinstance(error, Beyond):
        return str(error)
    have = target.manifest
    if isinstance(error, mp.CompileError):
        said = [(d.code, d.message) for d in error.diagnostics]
    else:
        said = [(error.diagnostic, error.message)] if isinstance(error, mp.GpuError) else []
    for code, message in said:
        name = re.search(r"(?:the capability '| requires )([\w.]+)", message)
        numbers = [int(n.replace(",", "")) for n in re.findall(r"[=\s]([0-9][0-9,]*)", message)]
        if code == "MPG_CORE_1200" and name and target.lacks([name[1]]):
            return f"{target.name} lacks {name[1]}"
        if code in ("MPG_SPV_2001", "MPG_LAUNCH_1012") and max(numbers, default=0) > have.max_shared_bytes:
            return f"{target.name} has {have.max_shared_bytes} bytes of shared memory"
        if code == "MPG_SPV_2007" and max(numbers, default=0) > 8192:
            return f"{target.name} takes smaller local arrays: {message}"
        if code == "MPG_LAUNCH_1021" and numbers and numbers[0] not in have.subgroup_sizes:
            return f"{target.name} has subgroups of {', '.join(map(str, have.subgroup_sizes))}"
        if code == "MPG_LAUNCH_1010" and " at once" in message and len(numbers) > 1 and numbers[0] > numbers[-1]:
            return f"{target.name} has arrays of at most {numbers[-1]} bytes"
    return None


class Beyond(Exception):  # noqa: N818 - no error: the reason why a device cannot run something
    """A launch asks for more than the device has."""


def check_all(runs: Sequence[Run], target: Target) -> None:
    """`check` each of them that the device can run; the test is skipped where it can run none."""
    done, reasons = 0, []
    for run in runs:
        try:
            check(run, target)
            done += 1
        except (Beyond, mp.CompileError, mp.GpuError) as error:
            reason = beyond(target, error)
            if reason is None:
                raise
            reasons.append(reason)
    if reasons and not done:
        pytest.skip(reasons[0])


def _text(value: Any) -> str:
    return "x".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def launch(run: Run, target: Target) -> None:
    """Launch on the target; the grid covers the first expected array unless given."""
    grid = run.grid
    if grid is None:
        assert isinstance(run.expect, dict), "a case with a computed oracle gives its grid"
        grid = cover(np.asarray(next(iter(run.expect.values()))).size, run.block)
    options = {**dict(target.options), **run.launch}
    if items_of(run.block) > target.manifest.max_workgroup_size:
        raise Beyond(f"{target.name} has workgroups of at most {target.manifest.max_workgroup_size} work-items")
    start(run.kernel, target, grid=grid, block=run.block, args=run.args, **options)


_any_size: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def start(kernel: Any, target: Target, *, sizes: int = 64, **launch: Any) -> None:
    """Launch on the target; the first ``sizes`` workgroup sizes have code of their own, unless the target says none."""
    if target.any_size:  # a second object: a kernel that had code for a size would keep using it
        sizes = 0
        same = _any_size.get(kernel)
        if same is None:
            same = kernel_of(kernel.fn, kernel.workgroup, kernel.fastmath, kernel.requires, kernel.checked)
            _any_size[kernel] = same
        kernel = same
    environment = mock.patch.dict(os.environ, {knobs.static_workgroups.name: str(sizes)})
    with environment, optimised(not target.plain), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*MPG_SPV_2003")  # padding of a struct, which many cases are about
        kernel.launch(device=target.device, **launch)


def optimised(yes: bool) -> AbstractContextManager[Any]:
    """What the cpu backend compiles inside is optimised by LLVM as ever, or not at all.

    The text that LLVM gets is the same: masks, gangs and memory forms are ours, so most of the rows at other gang widths
    than a kernel's own do without, and so find what happens to be right after optimisation only.
    """
    if yes:
        return nullcontext()
    from magpie.backends.cpu import pipeline

    return mock.patch.object(pipeline, "_level", return_value=0)


def in_turn(name: str, count: int) -> int:
    """A number below ``count`` that follows from a name; 0 in a full run: what every row gets then."""
    return 0 if full_size() else hashlib.sha256(name.encode()).digest()[0] % count


def cover(n: int, block: Any) -> int:
    """Workgroups of ``block`` that cover n items along x."""
    return mp.cdiv(n, block if isinstance(block, int) else block[0])


def check(run: Run, target: Target) -> None:
    """Launch and compare every byte of every argument with the oracle."""
    arrays = {k: a for k, a in enumerate(run.args) if isinstance(a, np.ndarray)}
    owners = {id(_owner(a)): _owner(a) for a in arrays.values()}
    before = {key: (a.copy() if a.dtype.hasobject is False else a) for key, a in owners.items()}
    for place in places(run, target, list(arrays.values())):
        for key, owner in owners.items():
            if owner.flags.writeable:
                owner[...] = before[key]
        place(run, target)
        expect = run.expect(*run.args) if callable(run.expect) else run.expect
        wanted = {key: a.copy() if a.dtype.hasobject is False else a for key, a in before.items()}
        # The oracle's view of memory: the old bytes with the expected elements written through the same strides.
        for k, value in expect.items():
            view = _same_view(arrays[k], wanted[id(_owner(arrays[k]))])
            view[...] = np.asarray(value).reshape(view.shape)
        for key, owner in owners.items():
            what = f"{target.name}: {getattr(run.kernel, '__name__', run.kernel)}"
            compare(owner, wanted[key], run, what, flushes=target.flushes)


def places(run: Run, target: Target, arrays: list[np.ndarray]) -> list[Callable[[Run, Target], None]]:
    """How to launch: on the host's arrays, or on the device's own, of which code knows that they are aligned. A device
    without memory of its own has the first alone; others have both in a full run, and one of them in turn else."""
    own = arrays and not mp.device(target.device).driver.host_memory
    whole = all(a.flags.c_contiguous and a.flags.writeable and a.size and a.base is None for a in arrays)
    if not own or not whole or len({id(a) for a in arrays}) < len(arrays) or any(a.dtype.hasobject for a in arrays):
        return [launch]
    if full_size():
        return [launch, launch_there]
    return [(launch, launch_there)[in_turn(f"{run.kernel.__name__} {target.name} {arrays[0].dtype}", 2)]]


def launch_there(run: Run, target: Target) -> None:
    """Launch on arrays of the device, and copy them back."""
    device = mp.device(target.device)
    made = {k: mp.asarray(a, device=device) for k, a in enumerate(run.args) if isinstance(a, np.ndarray)}
    launch(replace(run, args=tuple(made.get(k, a) for k, a in enumerate(run.args))), target)
    for k, array in made.items():
        run.args[k][...] = array.to_numpy()


def _owner(a: np.ndarray) -> np.ndarray:
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def _same_view(a: np.ndarray, base: np.ndarray) -> np.ndarray:
    """The elements of ``base`` (a C-ordered copy of a's owner) that ``a`` addresses in its owner."""
    owner = _owner(a)
    if a is owner:
        return base
    assert owner.flags.c_contiguous, "strided cases are views of contiguous arrays"
    offset = a.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return np.ndarray(a.shape, a.dtype, buffer=base, offset=offset, strides=a.strides)


def compare(
    actual: np.ndarray, expected: np.ndarray, run: Run | None = None, what: str = "", *, flushes: bool = False
) -> None:
    """AssertionError with the first differing elements unless the arrays agree; with ``flushes`` a zero agrees with a
    denormal number."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.names:
        for name in actual.dtype.names:
            compare(actual[name], expected[name], run, f"{what}.{name}", flushes=flushes)
        return
    run = run or Run(None, (), {})
    good = agree(np.atleast_1d(actual), np.atleast_1d(expected), run)
    if flushes and actual.dtype.kind in "fV":
        good |= is_denormal(np.atleast_1d(expected)) & (np.atleast_1d(actual) == 0)
    if good.all():
        return
    bad = np.argwhere(~good)
    lines = [f"{what}: {len(bad)} of {good.size} elements differ"]
    for index in map(tuple, bad[:8]):
        got, want = np.atleast_1d(actual)[index], np.atleast_1d(expected)[index]
        lines.append(f"  [{', '.join(map(str, index))}] got {got!r}, expected {want!r}")
        for k, a in enumerate(run.args):
            if isinstance(a, np.ndarray) and a.shape == good.shape and a is not actual:
                lines[-1] += f"   arg {k}: {a[index]!r}"
    raise AssertionError("\n".join(lines))


def agree(a: np.ndarray, b: np.ndarray, run: Run) -> np.ndarray:
    """Which elements agree: any NaN equals any NaN, everything else has the same bits or lies within the tolerance."""
    if a.dtype.kind not in "fV" or a.dtype.itemsize > 8:
        return np.asarray(a == b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        good = (np.isnan(x) & np.isnan(y)) | (x == y)
        if run.zero_sign and not run.ulps:
            good &= np.isnan(x) | (np.signbit(x) == np.signbit(y))
        if run.ulps or run.atol:
            finite = np.isfinite(x) & np.isfinite(y)
            allowed = run.ulps * spacing(b) + run.atol
            good |= finite & (np.abs(x - y) <= allowed)
    return np.asarray(good)


def spacing(a: np.ndarray) -> np.ndarray:
    """The distance from each element to the next of its type, as f64."""
    with np.errstate(all="ignore"):
        if a.dtype.name == "bfloat16":
            size = np.maximum(np.abs(a.astype(np.float64)), 2.0**-126)
            return np.exp2(np.floor(np.log2(size)) - 7)
        return np.abs(np.spacing(np.abs(a))).astype(np.float64)


def empty(n: Any, t: mp.DType, fill: int = 77) -> np.ndarray:
    """An output array, filled with something that no case expects by chance."""
    return np.full(n, fill if not t.is_bool else True, t.numpy)


def full_size() -> bool:
    """True under `make test-all`."""
    return knobs.test_all()
