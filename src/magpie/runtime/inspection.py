"""What a kernel can show of itself without running: artifacts, stages, diagnostics, variants."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact, Options
from magpie.backends.registry import backend as find_backend
from magpie.backends.registry import backend_ids, canonical
from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.dtypes import DType
from magpie.errors import GpuError, LaunchTypeError, LaunchValueError
from magpie.frontend.python.annotations import NO_DEFAULT, Parameter
from magpie.frontend.signature import Arg, ArrayArg, ConstArg, ScalarArg
from magpie.language.declare import Array, ArrayAnnotation
from magpie.passes.capabilities import missing_capabilities, not_portable
from magpie.records import record
from magpie.runtime.arguments import bind, check_constant, describe_args, signature
from magpie.runtime.compiling import compile_artifact, with_facts
from magpie.runtime.grid import check_subgroup_size, parse_block, show_dims
from magpie.runtime.specialise import Lowering, Specialisation, Variant
from magpie.runtime.types import struct_type

if TYPE_CHECKING:
    from magpie.ir.nodes import Kernel as KernelIR
    from magpie.runtime.driver import Dims
    from magpie.runtime.kernel import Kernel

__all__ = ["VariantInfo", "check_kernel", "compile_kernel", "inspect_kernel", "stage_names", "variants"]

_RANKS = (1, 2, 3, 4, 0)
_TEXT = "mp"


@record
class VariantInfo:
    """One compiled specialisation: for which arguments, under which facts, on what, and whether it came from disk.

    `workgroup` is the only workgroup size that the code runs with, None where it takes any.
    """

    args: tuple[Arg, ...]
    facts: str
    workgroup: Dims | None
    device: str
    options: Options
    from_cache: bool
    blob_bytes: int
    info: dict[str, Any]

    def __str__(self) -> str:
        source = "disk cache" if self.from_cache else "compiled"
        facts = self.facts if self.workgroup is None else f"{self.facts} {show_dims(self.workgroup)}"
        return f"{describe_args(self.args)} {facts} on {self.device} ({source}, {self.blob_bytes} bytes)"


def compile_kernel(
    kernel: Kernel,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    backend: str,
    arch: str,
    gang: int,
    checked: bool | None,
    variant: str,
    workgroup: Any,
    subgroup_size: int,
    opt: str | None,
) -> Artifact:
    """See `Kernel.compile`."""
    if variant not in ("fast", "aligned", "general"):
        raise LaunchValueError(f"variant= takes 'fast', 'aligned' or 'general'; got {variant!r}")
    manifest = find_backend(backend).manifest
    if manifest.subgroup_sizes:
        check_subgroup_size(subgroup_size, manifest.subgroup_sizes, manifest.id, f"backend {manifest.id}")
    wanted = kernel.checked if checked is None else checked
    options = Options(
        arch=arch,
        opt_level=_level(opt),
        checked=knobs.checked() if wanted is None else wanted,
        gang=gang or (knobs.cpu_gang() or 0),
        subgroup_size=subgroup_size,
        coarsen=knobs.coarsen() or 0,
    )
    if kernel.sized is not None and workgroup is not None:
        kernel, workgroup = kernel.sized(workgroup), None
    size = _size(kernel, workgroup)
    if size is not None and variant == "general":
        raise LaunchValueError("the general variant takes any workgroup size; leave out workgroup= or variant=")
    lowering = _lowered(kernel, args, kwargs)
    chosen = Variant(variant != "general", variant == "aligned", size)
    return compile_artifact(lowering, chosen, manifest.id, options)


def _level(opt: str | None) -> int | None:
    if opt is None:
        return None
    if opt not in ("O0", "O1", "O2", "O3"):
        raise LaunchValueError(f"opt= takes 'O0', 'O1', 'O2' or 'O3'; got {opt!r}")
    return int(opt[1])


def _size(kernel: Kernel, workgroup: Any) -> Dims | None:
    """A workgroup size that code is asked for, None where it is for any or declared."""
    if workgroup is None:
        return None
    size = parse_block(workgroup, kernel.workgroup, kernel.__name__)
    return size if kernel.workgroup is None else None


def inspect_kernel(
    kernel: Kernel,
    stage: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    backend: str | None,
    workgroup: Any,
    opt: str | None,
    arch: str,
) -> str:
    """See `Kernel.inspect`."""
    name = stage.lower()
    if name == _TEXT:
        return _text(kernel, _lowered(kernel, args, kwargs).kernel, backend)
    if backend is not None:
        candidates = [canonical(backend)]
    else:
        # A stage that several backends have is shown by the one that a launch would use.
        candidates = list(dict.fromkeys([knobs.backend() or "cpu", *backend_ids()]))
    known: list[str] = []
    level = _level(opt)
    if kernel.sized is not None and workgroup is not None:
        kernel, workgroup = kernel.sized(workgroup), None
    size = _size(kernel, workgroup)
    for id_ in candidates:
        try:
            found = find_backend(id_)
        except (GpuError, ImportError):
            if backend is not None:
                raise
            continue
        known += [s for s in found.stages if s not in known]
        if name in found.stages:
            ir = _lowered(kernel, args, kwargs).kernel
            if size is None and (last := _last_launch(kernel, args, kwargs)) is not None:
                size = last.variant.workgroup
            options = Options(
                arch, level, checked=bool(kernel.checked), gang=knobs.cpu_gang() or 0, coarsen=knobs.coarsen() or 0
            )
            return found.stages[name](with_facts(ir, Variant(True, False, size)), options)
    raise LaunchValueError(f"there is no stage {stage!r}; there are {', '.join([*known, _TEXT])}")


def _text(kernel: Kernel, ir: KernelIR, backend: str | None) -> str:
    """The kernel as `.mp` text, which is no stage of a backend: it is what all of them could be given."""
    from magpie.capabilities import TARGETS
    from magpie.frontend.mp.emit import kernel_text

    id_ = canonical(backend) if backend is not None else ""
    return kernel_text(ir, id_ if id_ in TARGETS else "", kernel.__doc__ or "")


def stage_names(backend: str | None) -> tuple[str, ...]:
    """See `Kernel.stages`."""
    found: dict[str, None] = {}
    for id_ in [backend] if backend is not None else backend_ids():
        try:
            found |= dict.fromkeys(find_backend(id_).stages)
        except (GpuError, ImportError):
            if backend is not None:
                raise
    return (*found, _TEXT)


def check_kernel(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Diagnostic]:
    """See `Kernel.check`."""
    if not args and not kwargs and not _annotated(kernel.parameters):
        return []
    try:
        lowering = _lowered(kernel, args, kwargs, warn=False)
        reminder = not_portable(lowering.kernel, kernel.requires)
        return [*lowering.diagnostics, *_validated(lowering.kernel, kernel.requires), *reminder]
    except CompileError as error:
        return list(error.diagnostics)


def _validated(ir: KernelIR, declared: frozenset[str]) -> list[Diagnostic]:
    """What the in-tree backends find, once; what only one of them cannot do stands with its own code.

    Those that lack what the kernel declares to need are not asked, unless there is no other; nor are those without
    floats, which run kernels that are made for them.
    """
    found: list[Diagnostic] = []
    refused: list[Diagnostic] = []
    accepted = not declared
    for id_ in backend_ids(plugins=False):
        try:
            backend = find_backend(id_)
            if "f32" not in backend.manifest.capabilities:
                continue
            if backend.manifest.capabilities >= declared:
                found += backend.validate(ir)
                accepted = True
            else:
                refused += missing_capabilities(ir, backend.manifest)
        except (GpuError, ImportError):
            continue
    return list(dict.fromkeys(found if accepted else refused))


def variants(kernel: Kernel) -> list[VariantInfo]:
    """See `Kernel.variants`."""
    return [
        VariantInfo(
            s.args,
            s.variant.name,
            kernel.workgroup or s.variant.workgroup,
            s.device.id,
            s.options,
            s.from_cache,
            len(s.artifact.blob),
            dict(s.artifact.info),
        )
        for s in kernel._specialiser().specialisations
    ]


# --- what to compile for ---------------------------------------------------------------------------------------------
def _annotated(parameters: Sequence[Parameter]) -> bool:
    return all(_annotation_arg(p) is not None for p in parameters)


def _annotation_arg(p: Parameter) -> Arg | None:
    """What the annotation (or the default) alone says; rank -1 for an array of any rank."""
    if p.kind == "array" and p.type is not None:
        return ArrayArg(p.type, -1 if p.rank is None else p.rank)
    if p.kind == "scalar" and p.type is not None:
        return ScalarArg(p.type)
    if p.default is not NO_DEFAULT:
        if p.kind == "constexpr":
            return ConstArg(check_constant(p.default, p.name))
        return signature((p,), (p.default,)).args[0]
    return None


def _last_launch(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> Specialisation | None:
    """What was compiled last, if that is what to show: nothing was named, and the annotations do not say enough."""
    if args or kwargs or _annotated(kernel.parameters):
        return None
    return next(reversed(kernel._specialiser().specialisations), None)


def _lowered(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any], *, warn: bool = True) -> Lowering:
    """The IR for these arguments; arrays without a rank are tried with each until one compiles."""
    parameters = kernel.parameters
    specialiser = kernel._specialiser()
    last = _last_launch(kernel, args, kwargs)
    if last is not None:
        return specialiser.lower(last.args, warn=warn)
    given = _given(kernel, parameters, args, kwargs)
    open_ranks = [i for i, a in enumerate(given) if isinstance(a, ArrayArg) and a.rank < 0]
    first: CompileError | None = None
    for ranks in itertools.product(_RANKS, repeat=min(len(open_ranks), 3)):
        # Ranks beyond the third open one follow the first: nobody waits for 5**6 compiles.
        chosen = dict(zip(open_ranks, itertools.chain(ranks, itertools.repeat(ranks[0] if ranks else 1)), strict=False))
        full = tuple(
            ArrayArg(a.type, chosen[i]) if isinstance(a, ArrayArg) and i in chosen else a for i, a in enumerate(given)
        )
        try:
            return specialiser.lower(full, warn=warn)
        except CompileError as error:
            first = first or error
    assert first is not None
    raise first


def _given(
    kernel: Kernel, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Arg, ...]:
    """One descriptor a parameter, from dtypes, annotations, arrays and numbers."""
    filled = [
        Parameter(p.name, p.kind, p.type, p.rank, _annotation_arg(p) or NO_DEFAULT, p.keyword_only) for p in parameters
    ]
    values = bind(kernel.__name__, filled, args, kwargs)
    return tuple(_as_arg(p, v) for p, v in zip(parameters, values, strict=True))


def _as_arg(p: Parameter, value: Any) -> Arg:
    if isinstance(value, ArrayArg | ScalarArg | ConstArg) or type(value).__name__ == "WeakArg":
        arg: Arg = value
        return arg
    if p.kind == "constexpr":
        return ConstArg(check_constant(value, p.name))
    if value is Array or (isinstance(value, ArrayAnnotation) and value.type is None):
        if p.kind == "array" and p.type is not None:
            return ArrayArg(p.type, -1 if p.rank is None else p.rank)
        raise LaunchTypeError(f"argument {p.name!r}: mp.Array needs an element type here, as in mp.Array[mp.f32, 1]")
    if isinstance(value, ArrayAnnotation):
        assert value.type is not None
        _agree(p, p.kind == "scalar", value)
        if p.type is not None and p.type != value.type:
            _agree(p, True, value)
        rank = value.rank if value.rank is not None else p.rank
        if p.rank is not None and rank != p.rank:
            _agree(p, True, value)
        return ArrayArg(value.type, -1 if rank is None else rank)
    struct = struct_type(value) if isinstance(value, type) else None
    if isinstance(value, DType) or struct is not None:
        type_ = value if isinstance(value, DType) else struct
        assert type_ is not None
        _agree(p, p.kind == "array" or (p.type is not None and p.type != type_), value)
        return ScalarArg(type_)
    return signature((p,), (value,)).args[0]


def _agree(p: Parameter, differs: bool, value: Any) -> None:
    if differs:
        from magpie.runtime.arguments import describe_parameter

        raise LaunchTypeError(
            f"argument {p.name!r} is given as {value!r}, and the kernel declares {describe_parameter(p)}",
            diagnostic="MPG_LAUNCH_1002",
        )
