"""The interface of a backend, and what a backend gives: an artifact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from magpie.records import record

if TYPE_CHECKING:
    from magpie.diagnostics import Diagnostic
    from magpie.ir.layout import KernelLayout
    from magpie.ir.nodes import Kernel

__all__ = ["Artifact", "Backend", "Manifest", "Options"]


@record
class Manifest:
    """What a target can do: capability names (as in the op table and `requires=`) and limits."""

    id: str
    capabilities: frozenset[str]
    max_workgroup_size: int
    max_shared_bytes: int
    max_buffers: int = 1 << 16
    flushes_denormals: bool = False
    # Bytes of alignment that the "aligned" launch fact promises on this target; 1 where its code gains nothing from
    # that: then nothing is compiled for it.
    alignment: int = 16
    # Code that knows the workgroup size is faster: launches are specialised on it (`Facts.workgroup`).
    static_workgroup: bool = False
    # What `launch(subgroup_size=)` may ask for; empty where the backend itself says so for each architecture.
    subgroup_sizes: tuple[int, ...] = ()


@record
class Options:
    """What an artifact depends on besides the kernel. Part of every cache key, so plain values only."""

    arch: str = ""
    opt_level: int | None = None  # 0 to 3; None = the backend decides per kernel
    checked: bool = False
    gang: int = 0  # cpu: work-items per gang, 0 = chosen per kernel
    subgroup_size: int = 0  # 0 = the target's own
    coarsen: int = 0  # workgroups that a block of a GPU runs where it can: 0 = chosen per kernel and grid, 1, 2, 4, 8


class Artifact:
    """A compiled kernel: `blob` (what the driver loads), readable `text`, and the layout to launch it by.

    ``text`` may be given as a function, which is called when the text is first asked for.
    `payload` is an object that only means something in this process (the interpreter keeps the kernel itself there).
    `info` is plain data of the backend's own (entry symbol, gang width, ...), stored with the blob.
    """

    __slots__ = ("_text", "backend", "blob", "extension", "info", "kernel", "layout", "payload")

    def __init__(
        self,
        backend: str,
        kernel: str,
        blob: bytes,
        layout: KernelLayout,
        extension: str,
        text: str | Callable[[], str] = "",
        info: dict[str, Any] | None = None,
        payload: Any = None,
    ) -> None:
        self.backend = backend
        self.kernel = kernel
        self.blob = blob
        self.layout = layout
        self.extension = extension
        self._text = text
        self.info = {} if info is None else info
        self.payload = payload

    @property
    def text(self) -> str:
        """The code as people read it; empty where the artifact came from a cache."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    def __repr__(self) -> str:
        return f"<artifact of kernel {self.kernel!r} for {self.backend}: {len(self.blob)} bytes>"

    def save(self, path: str) -> None:
        """Write `blob` to ``path``."""
        with open(path, "wb") as f:
            f.write(self.blob)


class Backend(ABC):
    """One target. Found by entry point group `magpie.backends`; has no state that depends on a launch."""

    id: str
    extension: str
    manifest: Manifest
    #: What the names of the target's architectures begin with; empty where there is only one.
    arch_prefix: str = ""

    @abstractmethod
    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        """What this target cannot do in ``kernel``; a list with an error stops compilation.

        The kernel is asked about without facts: whether it is accepted must not depend on a launch.
        """

    def check_arch(self, kernel: Kernel, arch: str) -> list[Diagnostic]:
        """What `validate` does not say, since it is asked of kernels for other targets too: what an architecture lacks
        for ``kernel``, or has to do in a slower way. The name may be empty: what no architecture has is said then.
        Raises CompileError for one that is not known."""
        return []

    def shared_bytes(self, arch: str) -> int:
        """The most shared memory of a workgroup of an architecture; empty: of the one that code is made for where none
        is named. Raises CompileError for one that is not known."""
        return self.manifest.max_shared_bytes

    @abstractmethod
    def layout(self, kernel: Kernel) -> KernelLayout:
        """The argument layout of ``kernel`` on this target."""

    @abstractmethod
    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        """Compile. The kernel is not changed. Raises CompileError."""

    @property
    @abstractmethod
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        """Ordered, named views of the pipeline: stage name -> text of the kernel after it (MAGPIE_DUMP, inspect)."""

    def warm_up(self) -> None:  # noqa: B027 - optional
        """Begin in the background what the first `emit` needs; called when a kernel is about to be lowered for it."""

    def cache_key(self, options: Options) -> str:
        """What of the machine the artifact depends on (host CPU, toolchain version), as text."""
        return ""
