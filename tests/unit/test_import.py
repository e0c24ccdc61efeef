"""`import magpie` is light, and gives what it promises."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from pathlib import Path

import pytest

import magpie

HEAVY = ("numpy", "llvmlite", "typer", "rich", "scipy", "inspect", "dataclasses", "asyncio", "ast", "subprocess")


def loaded_after(code: str) -> list[str]:
    """The modules in a fresh interpreter after ``code``, started without site packages' own imports."""
    script = f"import sys, json\nbefore = set(sys.modules)\n{code}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_nothing_heavy():
    loaded = loaded_after("import magpie")
    tops = {name.split(".")[0] for name in loaded}
    assert not tops & set(HEAVY)
    assert not [name for name in loaded if name.startswith(("magpie.passes", "magpie.lib", "magpie.cli", "magpie.tools"))]


def test_defining_a_kernel_loads_nothing_more():
    """The first launch of a kernel that lies in the disk cache has 20 ms; its modules come with `import magpie`."""
    code = "import magpie as mp\nbefore |= set(sys.modules)\nexec('@mp.kernel\\ndef k(x: mp.Array[mp.f32]):\\n  x[0] = 1')"
    assert loaded_after(code) == []


@pytest.mark.parametrize("name", ["GpuErrorKind", "CompileError", "f32"])
def test_errors_and_dtypes_need_no_numpy_and_no_llvm(name):
    tops = {module.split(".")[0] for module in loaded_after(f"import magpie\nmagpie.{name}")}
    assert not tops & {"numpy", "llvmlite", "typer", "rich"}


def test_explain_needs_neither_typer_nor_numpy():
    code = (
        "sys.argv = ['magpie', 'explain', 'MPG_CORE_1400']\nfrom magpie.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert stop.code == 0"
    )
    tops = {module.split(".")[0] for module in loaded_after(code)}
    assert not tops & {"numpy", "llvmlite", "typer", "rich"}


@pytest.mark.parametrize("name", sorted(magpie._EXPORTS))
def test_every_public_name_exists(name):
    assert getattr(magpie, name) is not None
    assert name in vars(magpie), "kept after the first use"


def test_dir_and_all():
    assert set(magpie.__all__) == {*magpie._EXPORTS, "__version__"} - set(dir(builtins))
    assert {*magpie.__all__, "abs", "print"} <= set(dir(magpie))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        magpie.no_such_name  # noqa: B018
    assert not hasattr(magpie, "__wrapped__")


def test_type_checkers_see_the_same_names():
    """The TYPE_CHECKING block is a second list by need; this keeps it equal to the first."""
    tree = ast.parse(Path(magpie.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (alias.asname or alias.name): node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == magpie._EXPORTS
    assert not [node for node in block.body if not isinstance(node, ast.ImportFrom | ast.Import)]


def test_version():
    assert magpie.__version__.count(".") >= 2
