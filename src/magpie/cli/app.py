"""The commands and their options; what they do is in the module of each, loaded only when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Magpie: one compute kernel, written once in Python, for many GPUs and a vectorised CPU.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_MaxBytes = Annotated[
    int | None,
    typer.Option("--max-bytes", metavar="N", min=1, help="Refuse larger .mp files; 1,000,000 if not given."),
]
_File = Annotated[Path, typer.Argument(help="A file with kernels.", exists=True, dir_okay=False, readable=True)]
_Backend = Annotated[
    str | None,
    typer.Option("--backend", "-b", metavar="ID", help="Run on this backend: cpu, cuda, hip, vulkan, interp, ..."),
]
_Device = Annotated[
    str | None, typer.Option("--device", "-d", metavar="NAME", help="Run on this device, as `magpie devices` names it.")
]
_Args = Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Passed to the file as sys.argv[1:].")]


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    file: _File,
    args: _Args = None,
    backend: _Backend = None,
    device: _Device = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="For .mp: a profile of Magpie.toml.")
    ] = None,
    max_bytes: _MaxBytes = None,
) -> None:
    """Run a Python file or a .mp program, its launches on the chosen backend or device.

    Options of magpie stand before FILE; what follows FILE goes to the program. A .mp file is checked first, and nothing
    runs where it has errors; the exit status is what its @main gives.
    """
    from magpie.cli.program import run_command

    raise typer.Exit(run_command(file, args or [], backend, device, profile, max_bytes))


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def check(
    file: _File,
    args: _Args = None,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", "-s", help="Run the file's main with every launch under the sanitizer.")
    ] = False,
    checks: Annotated[
        str | None,
        typer.Option(
            "--checks",
            metavar="LIST",
            help="With --sanitize: a comma list of race, bounds, uninit, barrier, divide, overflow, or all. "
            "The default is all but overflow.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; docs/MP_LANGUAGE.md names its schema.")
    ] = False,
    arch: Annotated[
        str,
        typer.Option(
            "--arch",
            metavar="ARCH",
            help="Check kernels of a .mp file for this architecture of their target: sm_70; several: sm_70,gfx1100.",
        ),
    ] = "",
    max_bytes: _MaxBytes = None,
) -> None:
    """Compile every kernel of a file and show what is wrong, without running anything.

    Of a .mp file, how it is written, its names and types, its digest, and its kernels by the rules of their targets are
    checked. A Python file is imported (not as __main__), and every
    kernel in it whose parameters are annotated is compiled.  With --sanitize the file is run instead, and data races,
    out-of-bounds accesses, uninitialised shared reads, divergent barriers and divisions by zero are reported with their
    lines.  The exit status is 1 if there is any error or report.
    """
    from magpie.cli.check import check_command, sanitize_command

    if checks is not None and not sanitize:
        raise typer.BadParameter("needs --sanitize", param_hint="--checks")
    if args and not sanitize:
        raise typer.BadParameter("arguments for the program need --sanitize", param_hint="ARGS")
    if sanitize and json:
        raise typer.BadParameter("prints text", param_hint="--sanitize")
    if sanitize:
        raise typer.Exit(sanitize_command(file, args or [], checks, max_bytes))
    if arch and file.suffix != ".mp":
        raise typer.BadParameter("is for .mp files, whose kernels declare a target", param_hint="--arch")
    raise typer.Exit(check_command(file, json, max_bytes, arch))


@app.command()
def fmt(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Files of .mp text.", exists=True, dir_okay=False)
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; name the files that would change, and exit with 1.")
    ] = False,
    max_bytes: _MaxBytes = None,
) -> None:
    """Write .mp files in their canonical form: one layout, blocks numbered, the digest filled in.

    Comments stay. A file with errors is left as it is. The exit status is 1 if there is any.
    """
    from magpie.cli.fmt import fmt_command

    raise typer.Exit(fmt_command(files, check, max_bytes))


@app.command()
def build(
    file: _File,
    backend: Annotated[
        str,
        typer.Option("--backend", "-b", metavar="ID", help="The backend, cpu if none is given; several: cuda,vulkan."),
    ] = "",
    opt: Annotated[
        str | None,
        typer.Option("--opt", "-O", metavar="LEVEL", help="O0, O1, O2 or O3; left out, as for a launch."),
    ] = None,
    emit: Annotated[
        list[str] | None,
        typer.Option("--emit", metavar="STAGE", help="Write this stage too: kir, llvm, asm, mp, ... Repeatable."),
    ] = None,
    arch: Annotated[
        str,
        typer.Option("--arch", metavar="ARCH", help="The architecture: sm_90; several: ptx=sm_90,hip=gfx1100."),
    ] = "",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where files are written.")] = Path("."),
    checked: Annotated[
        bool | None, typer.Option("--checked/--unchecked", help="Compile bounds, assert and division checks in.")
    ] = None,
    max_bytes: _MaxBytes = None,
) -> None:
    """Compile every kernel of a file and write the code, without running anything.

    The file is imported (not as __main__), and every kernel in it whose parameters are annotated is compiled, for
    contiguous arrays.  Code is vectorised at every level.  The exit status is 1 if there is any error.
    """
    from magpie.cli.build import build_command

    raise typer.Exit(build_command(file, backend, opt, emit or [], out, checked, arch, max_bytes))


_mpir = typer.Typer(help="Tools for MPIR, the SSA form of .mp programs.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(_mpir, name="mpir")
_Text = Annotated[Path, typer.Argument(help="A file of MPIR text.", exists=True, dir_okay=False, readable=True)]


@_mpir.callback()
def _mpir_group() -> None:
    """Tools for MPIR, the SSA form of .mp programs."""


@_mpir.command("show")
def mpir_show(file: _File, max_bytes: _MaxBytes = None) -> None:
    """Print the MPIR of a .mp file, which `magpie mpir verify` reads."""
    from magpie.cli.mpir import show_command

    raise typer.Exit(show_command(file, max_bytes))


@_mpir.command("verify")
def mpir_verify(file: _Text) -> None:
    """Check MPIR text: SSA form, types, phis, control flow, and what kernels may hold; 1 if there is an error."""
    from magpie.cli.mpir import verify_command

    raise typer.Exit(verify_command(file))


_tgpu = typer.Typer(help="tiny-gpu: run and show launch documents.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(_tgpu, name="tgpu")
_Launch = Annotated[Path, typer.Argument(help="A launch document.", exists=True, dir_okay=False, readable=True)]
_Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=FILE", help="An input, a .npy file. Repeatable."),
]
_MaxSteps = Annotated[
    int, typer.Option("--max-steps", metavar="N", min=1, help="Steps after which a kernel is taken for endless.")
]


@_tgpu.callback()
def _tgpu_group() -> None:
    """tiny-gpu: run and show launch documents."""


@_tgpu.command("run")
def tgpu_run(
    file: _Launch,
    input: _Inputs = None,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", "-o", metavar="NAME=FILE", help="Write an output to a .npy file. Repeatable."),
    ] = None,
    interp: Annotated[
        bool, typer.Option("--interp", help="Count branches instead of stepping: the same figures another way.")
    ] = False,
    silent_shared: Annotated[
        bool, typer.Option("--silent-shared", help="Shared accesses out of range read 0 and are dropped.")
    ] = False,
    max_steps: _MaxSteps = 1_000_000,
) -> None:
    """Run a launch document and print what each kernel takes, and its outputs."""
    from magpie.cli.tgpu import run_launch_command

    engine = "interp" if interp else "simulator"
    raise typer.Exit(run_launch_command(file, input or [], output or [], engine, silent_shared, max_steps))


@_tgpu.command("view")
def tgpu_view(
    file: _Launch,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="A .html, .png or .gif file.")],
    input: _Inputs = None,
    kernel: Annotated[str | None, typer.Option("--kernel", "-k", metavar="NAME", help="Show this kernel only.")] = None,
    max_steps: _MaxSteps = 1_000_000,
) -> None:
    """Show a launch: threads over cycles, waits at barriers, registers and memory.

    A page (.html) steps forwards and back; .png and .gif need Pillow. Inputs that are not given are zeros.
    """
    from magpie.cli.tgpu import view_command

    raise typer.Exit(view_command(file, out, input or [], kernel, max_steps))


@app.command()
def devices(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """List the devices of this machine, the best one first, and the backends that have none."""
    from magpie.cli.devices import devices_command

    raise typer.Exit(devices_command(json))


@app.command()
def explain(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="For example MPG_PY_1004, or MPG1103.")] = None,
    list_: Annotated[bool, typer.Option("--list", "-l", help="List all codes with their titles.")] = False,
) -> None:
    """Explain a diagnostic code, with an example of wrong and right code."""
    from magpie.cli.explain import explain_command, list_command

    if list_:
        raise typer.Exit(list_command())
    if code is None:
        raise typer.BadParameter("give a code, or --list", param_hint="CODE")
    raise typer.Exit(explain_command(code))


@app.command()
def knobs() -> None:
    """List the environment variables that Magpie reads, with their defaults and what they are set to."""
    from magpie import knobs as all_knobs

    for knob in all_knobs.describe():
        now = f"   (now {knob.value})" if knob.value is not None else ""
        typer.echo(f"{knob.name}{now}\n    {knob.doc}\n    takes {knob.allowed}; default: {knob.default}")
    for name, near in all_knobs.unknown_variables():
        meant = f"; did you mean {near}?" if near else ""
        typer.echo(f"warning[MPG_ENV_1002]: nothing reads {name}{meant}", err=True)


@app.command()
def version() -> None:
    """Print the version."""
    from magpie import __version__

    typer.echo(f"magpie {__version__}")
