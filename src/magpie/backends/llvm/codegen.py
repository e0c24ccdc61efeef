"""LLVM IR text to object code, for the machine that this process runs on.

Only `llvmlite.binding` is used, and it is imported inside functions: importing it costs about 60 ms, which a process
that finds all of its kernels in the disk cache never pays. What such a process needs to look into that cache is
`host_fingerprint`, which asks the operating system instead of LLVM.
"""

from __future__ import annotations

import functools
import importlib
import os
import platform
import re
import sys
import threading
from typing import Any, Literal

from magpie.errors import GpuError, GpuErrorKind
from magpie.hashing import digest
from magpie.records import record

__all__ = [
    "CodegenError",
    "HostTarget",
    "check_llvmlite",
    "compile_object",
    "emit_assembly",
    "function_attributes",
    "host_fingerprint",
    "host_target",
    "llvm_version",
    "llvmlite_folder",
    "located",
    "make_target",
    "optimize",
    "start_preload",
    "target_machine",
]

# Versions that come with LLVM 22, whose language the generated text is in; pyproject.toml says the same.
_OLDEST, _NEWEST = (0, 48), (0, 50)

# llvmlite locks each C call; a compile is a dozen of them on one shared target machine, so it takes a lock of its own.
_lock = threading.RLock()
_initialised = False

_LOCATION = re.compile(r"<string>:(\d+):(\d+): error: (.*)")


class CodegenError(Exception):
    """LLVM refused a module: a fault of the code generator above, never of a user's kernel.

    `line` and `column` (from 1) point into the text that was given, and `source` is that line; they are None where
    LLVM's verifier names no place.
    """

    def __init__(
        self, message: str, line: int | None = None, column: int | None = None, source: str | None = None
    ) -> None:
        where = "" if line is None else f"line {line}, column {column}: "
        text = "" if source is None else f"\n  {source}"
        super().__init__(f"{where}{message}{text}")
        self.line = line
        self.column = column
        self.source = source


@record
class HostTarget:
    """What to generate code for. Hashable; two equal targets give the same object bytes.

    `features` is LLVM's feature string ("+avx2,-avx512f,..."); `vector_bits` is the widest register worth using.
    """

    triple: str
    cpu: str
    features: str
    has_avx512: bool
    has_avx2: bool
    has_fma: bool
    has_f16c: bool
    vector_bits: int

    @property
    def architecture(self) -> str:
        """The first part of the triple: x86_64, aarch64, arm64, ..."""
        return self.triple.partition("-")[0]

    @property
    def is_x86(self) -> bool:
        """Whether `llvm.x86.*` intrinsics exist here."""
        return self.architecture in ("x86_64", "amd64")


def check_llvmlite() -> None:
    """Raises GpuError BackendUnavailable for a version of llvmlite that the generated text is not written for."""
    found = llvm_version()
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:2])
    if found and not _OLDEST <= numbers <= _NEWEST:
        oldest, newest = (".".join(map(str, v)) for v in (_OLDEST, _NEWEST))
        raise GpuError(
            GpuErrorKind.BackendUnavailable,
            "",
            f"llvmlite {found} is installed, and Magpie works with {oldest} to {newest}",
            help=f"pip install 'llvmlite>={oldest},<0.{_NEWEST[1] + 1}'",
        )


def _binding() -> Any:
    """`llvmlite.binding` with the native target ready."""
    global _initialised
    check_llvmlite()
    # By name: llvmlite carries no type information.
    binding = importlib.import_module("llvmlite.binding")
    if not _initialised:
        with _lock:
            binding.initialize_native_target()
            binding.initialize_native_asmprinter()
            _initialised = True
    return binding


@functools.cache
def host_target() -> HostTarget:
    """The target of this machine, with every feature of its CPU. Imports llvmlite."""
    binding = _binding()
    triple: str = binding.get_default_triple()
    features: dict[str, bool] = dict(binding.get_host_cpu_features())
    return make_target(triple, binding.get_host_cpu_name(), features)


def make_target(triple: str, cpu: str, features: dict[str, bool]) -> HostTarget:
    """A `HostTarget` from LLVM's names; tests use it to generate code for CPUs other than this one."""
    has = features.get
    # Our vectors need all of F, VL, BW and DQ: masked byte and word forms are BW, 64-bit multiplies DQ.
    avx512 = all(has(f"avx512{part}", False) for part in ("f", "vl", "bw", "dq"))
    flags = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    if avx512:
        # LLVM splits zmm in two on CPUs whose tuning says so; the vectoriser has chosen its width already.
        flags += ",-prefer-256-bit,-prefer-128-bit"
    avx2 = has("avx2", False)
    architecture = triple.partition("-")[0]
    bits = 512 if avx512 else 256 if avx2 else 128
    aarch64 = architecture in ("aarch64", "arm64")
    return HostTarget(
        triple=triple,
        cpu=cpu,
        features=flags,
        has_avx512=avx512,
        has_avx2=avx2,
        has_fma=aarch64 or has("fma", False),
        has_f16c=has("f16c", False),
        vector_bits=bits,
    )


@functools.cache
def llvm_version() -> str:
    """llvmlite's version, read without importing it: it stands in cache keys. Empty if llvmlite is not installed."""
    folder = llvmlite_folder()
    if folder is None:
        return ""
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            found = re.search(r"""version['"]?\s*[:=]\s*['"]([^'"]+)""", file.read())
    except OSError:
        found = None
    if found:
        return found.group(1)
    import importlib.metadata

    return importlib.metadata.version("llvmlite")


@functools.cache
def host_fingerprint() -> str:
    """A hash that differs wherever `host_target` might: the CPU, its features, the system and LLVM's version.

    It takes well under a millisecond and imports nothing, so that a cache lookup needs no LLVM. Objects are only
    shared between machines where it is equal.
    """
    parts = [sys.platform, platform.machine(), llvm_version()]
    try:
        # One processor's entry is enough, and reading on would query the clock of every core.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            entry = file.read(8192).decode("ascii", "replace").partition("\n\n")[0]
        stable = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ", "isa")
        parts += [line for line in entry.splitlines() if line.startswith(stable)]
    except OSError:
        parts += [platform.processor(), platform.version()]
    return digest("\n".join(parts), 12)


def function_attributes(target: HostTarget) -> str:
    """Attributes that every function of a module should carry in its `attributes` group, as text (may be empty).

    The target machine is told the same, but an attribute survives printing the module and compiling it elsewhere.
    """
    return '"prefer-vector-width"="512" "min-legal-vector-width"="512"' if target.has_avx512 else ""


@functools.lru_cache(maxsize=16)
def _pipeline(target: HostTarget, opt_level: int, unroll: bool) -> tuple[Any, Any, str]:
    """Target machine, pass builder and the module header, made once per kind of compile."""
    binding = _binding()
    machine = target_machine(target, opt_level)
    options = binding.create_pipeline_tuning_options(speed_level=opt_level)
    # The code is vectorised already: both vectorisers would only cost time, and re-vectorise scalar tails.
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = unroll
    builder = binding.create_pass_builder(machine, options)
    header = f'target datalayout = "{machine.target_data}" target triple = "{target.triple}" '
    return machine, builder, header


def target_machine(target: HostTarget, opt_level: int = 2) -> Any:
    """A new llvmlite target machine: position independent, small code model (images are far below 2 GiB)."""
    binding = _binding()
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=opt_level, reloc="pic", codemodel="small"
    )


def _parse(text: str, header: str) -> Any:
    """The verified module of `text`, in a context of its own."""
    binding = _binding()
    # The header goes on the first line, so that line numbers in errors stay those of the text.
    full = text if "target datalayout" in text else header + text
    try:
        module = binding.parse_assembly(full, binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise located(str(error), text, len(full) - len(text)) from None
    return module


def located(message: str, text: str, shift: int = 0) -> CodegenError:
    """LLVM's words as an error with the place in ``text``, before whose first line LLVM saw ``shift`` more columns."""
    found = _LOCATION.search(message)
    if found is None:
        return CodegenError(message.strip())
    line, column = int(found.group(1)), int(found.group(2))
    lines = text.splitlines()
    source = lines[line - 1] if line <= len(lines) else None
    return CodegenError(found.group(3), line, column - shift if line == 1 else column, source)


def _run(
    text: str, target: HostTarget | None, opt_level: int, unroll: bool, result: Literal["object", "assembly", "ir"]
) -> Any:
    with _lock:
        machine, builder, header = _pipeline(target or host_target(), opt_level, unroll)
        module = _parse(text, header)
        builder.getModulePassManager().run(module, builder)
        if result == "ir":
            return str(module)
        return machine.emit_object(module) if result == "object" else machine.emit_assembly(module)


def compile_object(text: str, target: HostTarget | None = None, *, opt_level: int = 2, unroll: bool = True) -> bytes:
    """The relocatable object of a module of LLVM IR text.

    `opt_level` is 0 to 3. Measured on a 50-line kernel: 22 to 25 ms at 1 to 3, 15 ms at 2 with `unroll` off (which also
    stops full unrolling of constant trip counts), 4 ms at 0; half of it is code generation. Raises `CodegenError`.
    """
    data: bytes = _run(text, target, opt_level, unroll, "object")
    return data


def emit_assembly(text: str, target: HostTarget | None = None, *, opt_level: int = 2, unroll: bool = True) -> str:
    """The assembly of what `compile_object` would give, for people to read."""
    listing: str = _run(text, target, opt_level, unroll, "assembly")
    return listing


def optimize(text: str, target: HostTarget | None = None, *, opt_level: int = 2, unroll: bool = True) -> str:
    """The module's text after the optimiser, before code generation."""
    listing: str = _run(text, target, opt_level, unroll, "ir")
    return listing


def llvmlite_folder() -> str | None:
    """Where the package llvmlite is installed; found without importing it."""
    from importlib.util import find_spec

    spec = find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(iter(spec.submodule_search_locations))


_preloading = False


def start_preload() -> None:
    """Begin to map LLVM's library in a background thread, once, and return at once.

    Importing llvmlite needs the GIL and overlaps with nothing; mapping and relocating its library does, through libc's
    dlopen (that of ctypes holds the GIL). Importing in the background as well was measured and gains nothing.
    """
    global _preloading
    with _lock:
        if _preloading or _initialised:
            return
        _preloading = True
    # Not a daemon: the library's constructors must not run while the process ends.
    threading.Thread(target=_preload, name="magpie-llvm-library").start()


def _preload() -> None:
    """Map LLVM's library without the GIL; the import then finds it in place."""
    folder = llvmlite_folder()
    if folder is None or sys.platform != "linux":
        return
    import ctypes

    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    dlopen.restype = ctypes.c_void_p
    dlopen(os.path.join(folder, "binding", "libllvmlite.so").encode(), os.RTLD_NOW)
