"""The ONE table of diagnostic codes.

Each code is defined once, by one ``_d(...)`` call in the file of its family in ``codes/``::

    _d("MPG_PY_1001", ERROR, "title", \"\"\"
        Why it is refused.

        cure: What to do about it.

        wrong:  code that has it
        right:  the same without
        \"\"\")

What is only a warning `warns:`; where no code can show it, `example:` has a message. Examples of `.mp` text are checked
by the tests: each wrong one raises its code and nothing else, each right one raises nothing.

Nothing else lists codes: the renderer, ``magpie explain``, the docs and the tests read ``table()``.
A backend outside this repository calls ``define`` for its own codes when it is loaded.
"""

from __future__ import annotations

import enum
import importlib
import re

from magpie.records import record


class Severity(enum.Enum):
    """How bad a diagnostic is; only errors stop a compilation."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


ERROR = Severity.ERROR
WARNING = Severity.WARNING
NOTE = Severity.NOTE

# Families in the order in which listings show them; each is a module of magpie.diagnostics.codes.
_FAMILY_MODULES = (
    *("core", "control", "spirv", "targets", "mlx", "python", "launch", "sanitizer", "cpu", "tgpu", "env"),
    *("text", "types", "mpir", "graph"),
)

#: ``MPG_<FAMILY>_<NNNN>``; of `.mp` text MPP (how it is written), MPL (what is doubtful) and others of three letters.
CODE = re.compile(r"MPG_[A-Z]+_[0-9]{4}|MP[A-FH-Z][0-9]{4}")


@record
class Code:
    """One row of the table: a stable code, its default severity, a title and the text that ``explain`` shows."""

    code: str
    severity: Severity
    title: str
    text: str

    @property
    def family(self) -> str:
        """The middle part of the code: ``PY`` of ``MPG_PY_1001``; ``MPP`` of ``MPP0001``."""
        return self.code.split("_")[1] if "_" in self.code else self.code[:3]


_rows: dict[str, Code] = {}
_loaded = False


def define(code: str, severity: Severity, title: str, text: str) -> Code:
    """Add a row to the table; a malformed or repeated code is a ValueError."""
    if not CODE.fullmatch(code):
        raise ValueError(f"{code!r} is not of the form MPG_<FAMILY>_<NNNN> or MP<LETTER><NNNN>")
    if code in _rows:
        raise ValueError(f"{code} is defined twice")
    import inspect

    row = _rows[code] = Code(code, severity, title, inspect.cleandoc(text))
    return row


def table() -> dict[str, Code]:
    """All codes, by code, in the order of their families."""
    global _loaded
    if not _loaded:
        for name in _FAMILY_MODULES:
            importlib.import_module(f"magpie.diagnostics.codes.{name}")
        _loaded = True
    return _rows


def lookup(code: str) -> Code:
    """The row of ``code``; KeyError says where to add it."""
    row = table().get(code)
    if row is None:
        raise KeyError(f"{code} is not in the table of diagnostics: add it to its family in magpie/diagnostics/codes")
    return row


# Names that the three seed documents used before the codes had families.
_LEGACY = {"MPG1200": "MPG_CORE_1300", "MPG1201": "MPG_CORE_1201", "XPU-N01": "MPG_CPU_1001", "XPU-N02": "MPG_CPU_1002"}


def resolve(name: str) -> Code | None:
    """The row for a code or a legacy name (``MPG1103``, ``XPU-N01``) in any case; None when there is none."""
    key = name.strip().upper()
    if key in _LEGACY:
        key = _LEGACY[key]
    elif match := re.fullmatch(r"MPG(1[0-9]{3})", key):
        key = f"MPG_CORE_{match[1]}"
    else:
        key = key.replace("-", "_")
    return table().get(key)


__all__ = ["ERROR", "NOTE", "WARNING", "Code", "Severity", "define", "lookup", "resolve", "table"]
