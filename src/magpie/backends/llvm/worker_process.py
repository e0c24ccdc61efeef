"""The code-generation worker: reads requests from standard input and writes answers to standard output until it ends.

A program of its own, run by path (`magpie.backends.llvm.worker`), so that it imports LLVM and nothing of Magpie: it is
ready in some 70 ms. Where LLVM meets what it cannot select it ends the process, with its reason on standard error;
then this one ends, and not the user's.

Both directions carry messages of a 4-byte length and that many bytes. A request is a JSON object: triple, cpu,
features, opt (0 to 3), what ("assembly", "object" or "ir") and text, a module in LLVM's language. An answer is one
byte, "+" or "-", and the result or LLVM's words.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import IO, Any


def main() -> None:
    """Serve requests. The first argument is the folder that has the package llvmlite."""
    sys.path.insert(0, sys.argv[1])
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that LLVM prints may end up between answers
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    answer(sink, b"+ready")
    machines: dict[tuple[str, str, str, int], Any] = {}
    while True:
        request = read(source)
        if request is None:
            return
        try:
            result = b"+" + compile_(binding, machines, json.loads(request))
        except Exception as error:  # whatever it is, it belongs to this request
            result = b"-" + str(error).encode("utf-8", "replace")
        answer(sink, result)


def compile_(binding: Any, machines: dict[tuple[str, str, str, int], Any], request: dict[str, Any]) -> bytes:
    """What a request asks for."""
    key = (request["triple"], request["cpu"], request["features"], request["opt"])
    machine = machines.get(key)
    if machine is None:
        target = binding.Target.from_triple(request["triple"])
        machine = machines[key] = target.create_target_machine(
            cpu=request["cpu"], features=request["features"], opt=request["opt"]
        )
    head = f'target datalayout = "{machine.target_data}" target triple = "{request["triple"]}" '
    module = binding.parse_assembly(head + request["text"], binding.create_context())
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=request["opt"])
    # One work-item is scalar code: what may be wide are its memory accesses, which the code generator joins itself.
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    if request["what"] == "ir":
        return str(module).encode()
    if request["what"] == "object":
        data: bytes = machine.emit_object(module)
        return data
    text: str = machine.emit_assembly(module)
    return text.encode()


def read(source: IO[bytes]) -> bytes | None:
    """The next message, None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack("<I", head)
    data = source.read(size)
    return data if len(data) == size else None


def answer(sink: IO[bytes], data: bytes) -> None:
    """Send a message."""
    sink.write(struct.pack("<I", len(data)) + data)
    sink.flush()


if __name__ == "__main__":
    main()
