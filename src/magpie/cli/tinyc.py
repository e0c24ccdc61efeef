"""``tinyc``: tensor graphs from the command line, compiled for a target or run there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magpie.errors import MagpieError

if TYPE_CHECKING:
    from magpie.frontend.graph.nodes import Graph

__all__ = ["main"]

_OPTIONS = {"help_option_names": ["-h", "--help"]}
_compile = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_run = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_File = Annotated[Path, typer.Argument(help="A .tg or .onnx file.", exists=True, dir_okay=False, readable=True)]
_Target = Annotated[
    str, typer.Option("--target", "-t", metavar="ID", help="gpu (tiny-gpu), cpu, cuda, hip, vulkan, interp, ...")
]
_Opt = Annotated[
    int, typer.Option("-O", metavar="0|1|2", min=0, max=2, help="0: an op a kernel; 1: ops are fused; 2: and tiled.")
]
_Sizes = Annotated[
    list[str] | None, typer.Option("--size", metavar="NAME=N", help="A symbolic extent of an ONNX model's inputs.")
]


def main() -> None:
    """Entry point of the script ``tinyc``."""
    from magpie.cli import lenient_output
    from magpie.cli.program import show_diagnostics
    from magpie.diagnostics import CompileError

    lenient_output()
    arguments = sys.argv[1:]
    app, rest = (_run, arguments[1:]) if arguments[:1] == ["run"] else (_compile, arguments)
    try:
        app(rest or ["--help"], prog_name="tinyc run" if app is _run else "tinyc")
    except CompileError as error:
        show_diagnostics(error.diagnostics, sys.stderr)
        sys.exit(1)
    except (MagpieError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def target_name(target: str) -> str:
    """The backend's id; ``gpu`` is tiny-gpu."""
    from magpie.backends.registry import DISPLAY_NAMES, backend_ids
    from magpie.capabilities import TARGETS
    from magpie.runtime.tensor_targets import named

    found = named(target)
    if found not in TARGETS and found not in backend_ids():
        known = ", ".join(["gpu", *(DISPLAY_NAMES.get(t, t) for t in TARGETS if t != named("gpu"))])
        raise typer.BadParameter(f"there is no target {target!r}; it is one of {known}", param_hint="--target")
    return found


def _load(file: Path, sizes: list[str] | None) -> Graph:
    from magpie.runtime.tensor_graph import read_graph

    known: dict[str, int] = {}
    for item in sizes or ():
        name, _, number = item.partition("=")
        if not number.isdigit():
            raise typer.BadParameter(f"takes NAME=N; got {item!r}", param_hint="--size")
        known[name] = int(number)
    return read_graph(file, known)


@_compile.command(context_settings=_OPTIONS)
def compile_command(
    file: _File,
    target: _Target = "cpu",
    emit: Annotated[
        str,
        typer.Option(
            "--emit",
            metavar="WHAT",
            help="graph (after the passes), kernel (Kernel IR), memory (the plan), tgpu (assembly), launch (the launch "
            "document), or a stage of the target: llvm, asm, ptx, spv, ...",
        ),
    ] = "",
    opt: _Opt = 2,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write it there; a graph's large constants beside."),
    ] = None,
    size: _Sizes = None,
) -> None:
    """Compile a tensor graph and print a stage. `tinyc run FILE` runs it."""
    from magpie.frontend.graph.passes import optimise
    from magpie.frontend.graph.printer import save_graph
    from magpie.runtime.tensor_targets import target_of

    graph, backend = _load(file, size), target_name(target)
    what = emit or (backend if target_of(backend, opt).flat else "kernel")
    if what == "graph" and out is not None:
        save_graph(optimise(graph, opt, target_of(backend, opt)), out)
        return
    text = _stage(graph, backend, what, opt)
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")


def _stage(graph: Graph, backend: str, what: str, opt: int) -> str:
    from magpie.frontend.graph.passes import optimise
    from magpie.frontend.graph.printer import print_graph
    from magpie.ir.printer import print_kernel
    from magpie.runtime.tensor_graph import GraphKernel, lowered
    from magpie.runtime.tensor_targets import target_of

    flat = target_of(backend, opt).flat
    if what == "launch" or (what == backend and flat):
        from magpie.runtime.tensor_launch import launch_document

        if not flat:
            raise typer.BadParameter("only --target gpu has launch documents", param_hint="--emit")
        document = launch_document(graph, opt)
        if what == "launch":
            return document.dumps()
        parts = []
        for k in document.kernels:
            shared = f", {k.shared_size} words of shared memory" if k.shared_size else ""
            parts.append(f"; {k.name}: %{k.value}, {k.grid[0]} blocks of {k.grid[1]} threads{shared}\n{k.asm}")
        return "\n".join(parts)
    if what == "graph":  # with the constants that lowering writes into the code, so that it can be read again
        return print_graph(optimise(graph, opt, target_of(backend, opt)))
    ir, kernels = lowered(graph, target_of(backend, opt), opt)
    if what == "memory":
        return _memory(ir, backend)
    if what in ("kernel", "kir"):
        return "\n".join(print_kernel(item.kernel, locations=True) for item in kernels)
    _check_stage(what, backend)
    return "\n".join(GraphKernel(ir.name, item.kernel).inspect(what, backend=backend) for item in kernels)


def _check_stage(what: str, backend: str) -> None:
    """Whether a target has a stage. Raises BackendUnavailable (MPG_CORE_1300) where there is no such backend."""
    from magpie.backends.registry import backend as find_backend
    from magpie.runtime.tensor_targets import target_of

    stages = [s for s in find_backend(backend).stages if s != "kir"]
    if what.lower() not in (*stages, "mp"):
        launch = ("launch",) if target_of(backend, 0).flat else ()
        known = ["graph", "kernel", "memory", *launch, *stages, "mp"]
        raise typer.BadParameter(f"there is no stage {what!r}; there are {', '.join(known)}", param_hint="--emit")


def _memory(graph: Graph, backend: str) -> str:
    """The memory plan as a table."""
    from magpie.frontend.graph.passes.memory import plan_memory, storage
    from magpie.runtime.tensor_targets import target_of

    words = target_of(backend, 0).flat
    unit = "words" if words else "bytes"
    plan = plan_memory(graph, lambda v: v.size if words else v.nbytes, 1 if words else 256)
    home = storage(graph)
    lines = [f"{unit:>10}  {'from':>10}  value"]
    for value in graph.values():
        same = "" if home[value] is value else f"   the memory of %{home[value].name}"
        lines.append(f"{value.size if words else value.nbytes:>10}  {plan.offsets[value]:>10}  {value!r}{same}")
    lines.append(f"{plan.size} {unit} in all; results take {plan.peak}, and no plan takes less than {plan.bound}")
    return "\n".join(lines) + "\n"


@_run.command(context_settings=_OPTIONS)
def run_command(
    file: _File,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=FILE", help="An input, as a .npy file.")
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", metavar="NAME=FILE", help="Write an output to a .npy file.")
    ] = None,
    target: _Target = "cpu",
    opt: _Opt = 2,
    size: _Sizes = None,
) -> None:
    """Run a tensor graph on arrays from .npy files; outputs that are not written to one are printed."""
    from magpie.runtime.tensor_graph import TensorGraph, checked_inputs
    from magpie.runtime.tensor_targets import target_of

    graph, backend = _load(file, size), target_name(target)
    arrays = checked_inputs(graph.inputs, {name: _array(path) for name, path in _pairs(inputs, "--input")})
    if target_of(backend, opt).flat:
        from magpie.backends.tgpu.runner import run_launch
        from magpie.runtime.tensor_launch import launch_document

        done = run_launch(launch_document(graph, opt), arrays)
        found = done.outputs
        print(f"{len(done.kernels)} kernels: {done.cycles} cycles, {done.instructions} instructions", file=sys.stderr)
    else:
        found = TensorGraph(graph).compile(backend, opt=opt).run(arrays)
    files = dict(_pairs(outputs, "--output"))
    unknown = [name for name in files if name not in found]
    if unknown:
        raise MagpieError(f"the graph has no output {unknown[0]!r}; it has {', '.join(found)}")
    import numpy as np

    for name, array in found.items():
        if name in files:
            np.save(files[name], array, allow_pickle=False)
        else:
            print(f"{name} = {np.array2string(array, separator=', ')}")


def _pairs(items: list[str] | None, option: str) -> list[tuple[str, str]]:
    pairs = []
    for item in items or ():
        name, mark, path = item.rpartition("=")
        if not mark or not name:
            raise typer.BadParameter(f"takes NAME=FILE; got {item!r}", param_hint=option)
        pairs.append((name, path))
    return pairs


def _array(path: str) -> object:
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        found = None
    if not isinstance(found, np.ndarray):  # nor is a .npz file, which holds several
        raise MagpieError(f"{path} is no .npy file with numbers")
    return found
