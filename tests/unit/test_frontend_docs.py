"""The blocks of the language reference compile, and so do the declarations in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from frontend_helpers import define

import magpie as mp
from magpie.frontend.python import NO_DEFAULT, lower, signature_of
from magpie.frontend.signature import ArrayArg, ConstArg, ScalarArg

PAGE = Path(__file__).resolve().parents[2] / "docs" / "LANGUAGE.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: re.findall(r"def (\w+)", b)[-1])
def test_block(block):
    kernels = [v for v in define(block).values() if isinstance(v, mp.Kernel)]
    assert kernels
    for kernel in kernels:
        args = []
        for p in signature_of(kernel.fn):
            if p.kind == "array":
                args.append(ArrayArg(p.type, 1 if p.rank is None else p.rank))
            elif p.kind == "scalar":
                args.append(ScalarArg(p.type))
            else:
                assert p.default is not NO_DEFAULT
                args.append(ConstArg(p.default))
        assert lower(kernel.fn, tuple(args)).kernel.body


def test_every_builtin_is_named():
    from magpie import language
    from magpie.language._builtin import Builtin

    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", text))
    missing = [
        name
        for name in language.__all__
        if isinstance(getattr(language, name), Builtin) and not {name, name.removeprefix("atomic_").rstrip("_")} & named
    ]
    assert not missing
