"""LLVM in a process of its own, for the GPU targets.

Where LLVM's code generators meet something that they cannot select, they end the process (RULES 30). Here that is the
worker, which is started when it is first needed and kept; the user's process gets a `CodegenError` with LLVM's words,
and the next request a new worker. A request has a deadline: a worker that misses it is ended.
"""

from __future__ import annotations

import json
import os
import selectors
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Literal

from magpie.backends.llvm.codegen import CodegenError, check_llvmlite, llvmlite_folder, located

__all__ = ["Worker", "WorkerCrash", "generate", "start"]

# No kernel takes LLVM a minute; a machine under load may be ten times slower than ours.
_DEADLINE = 120.0
_START = 60.0

What = Literal["assembly", "object", "ir"]


class WorkerCrash(CodegenError):
    """LLVM ended its process, or did not answer in time."""


class Worker:
    """One worker process. Requests of several threads wait for each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None
        self._ready = False
        self._owner = 0

    def start(self) -> None:
        """Begin to start the process, and return at once."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        if self._process is not None and self._owner != os.getpid():
            # After a fork the pipes belong to the parent: leave its worker alone.
            self._process = self._words = None
        if self._process is not None:
            return
        folder = llvmlite_folder()
        if folder is None:
            raise CodegenError("the package llvmlite is not installed")
        check_llvmlite()
        program = os.path.join(os.path.dirname(__file__), "worker_process.py")
        # -I: neither the environment nor the current folder decides what is imported; -S: nor do site packages, of
        # which the worker needs one.
        command = [sys.executable, "-I", "-S", program, os.path.dirname(folder)]
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, bufsize=0
        )
        self._ready = False
        self._owner = os.getpid()

    def request(
        self, text: str, triple: str, cpu: str, features: str, opt: int, what: What, deadline: float = _DEADLINE
    ) -> bytes:
        """Optimise a module and generate code. Raises CodegenError: a WorkerCrash where LLVM ended its process."""
        body = json.dumps(
            {"triple": triple, "cpu": cpu, "features": features, "opt": opt, "what": what, "text": text}
        ).encode()
        with self._lock:
            self._start()
            try:
                if not self._ready:
                    self._receive(time.monotonic() + _START)
                    self._ready = True
                self._send(body)
                answer = self._receive(time.monotonic() + deadline)
            except BaseException:
                # Also for KeyboardInterrupt: an answer that nobody read must not become that of the next request.
                self._end()
                raise
        if answer[:1] == b"+":
            return answer[1:]
        raise located(answer[1:].decode("utf-8", "replace"), text)

    def _send(self, body: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            view = memoryview(struct.pack("<I", len(body)) + body)
            while view:
                view = view[self._process.stdin.write(view) :]
        except BrokenPipeError:
            raise self._crash() from None

    def _receive(self, until: float) -> bytes:
        (size,) = struct.unpack("<I", self._read(4, until))
        return self._read(size, until)

    def _read(self, size: int, until: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        pipe = self._process.stdout
        parts: list[bytes] = []
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while size:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise WorkerCrash("LLVM did not finish in time")
                part = pipe.read(size)
                if not part:
                    raise self._crash()
                parts.append(part)
                size -= len(part)
        return b"".join(parts)

    def _crash(self) -> WorkerCrash:
        """What the process said before it ended."""
        assert self._process is not None and self._words is not None
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = 0
        self._words.seek(0)
        # A crash ends with a stack of LLVM's own frames; what matters stands before it.
        said = self._words.read().decode("utf-8", "replace").partition("Stack dump:")[0].strip()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return WorkerCrash(f"LLVM ended with {how}" + (f": {said}" if said else ""))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._words is not None:
            self._words.close()
            self._words = None

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            if self._owner == os.getpid():
                self._end()

    def __del__(self) -> None:
        # The process ends by itself when its pipe closes; waiting for it here only spares a zombie and a warning.
        if self._process is not None and self._owner == os.getpid():
            self._end()


_worker = Worker()


def start() -> None:
    """Start the process's worker in the background; code generation will find it ready."""
    _worker.start()


def generate(text: str, triple: str, cpu: str, features: str, opt: int = 2, what: What = "assembly") -> bytes:
    """Optimise a module and generate code in the process's worker. Raises CodegenError."""
    return _worker.request(text, triple, cpu, features, opt, what)
