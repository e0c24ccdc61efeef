"""Writes the pages of docs/ that are made from the code; ``--check`` fails where one is not up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from magpie import capabilities, knobs
from magpie.mpir import prelude, signatures

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def knobs_page() -> str:
    """docs/KNOBS.md."""
    lines = [
        "# Environment variables",
        "",
        "Made from `src/magpie/knobs.py` by `make docs`; `magpie knobs` shows the same with the values in force.",
        "A variable is read when it is needed, not when Magpie is imported. A value that is not allowed is an error.",
        "",
        "| variable | values | default | what it does |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{knob.name}` | {knob.allowed} | {knob.default} | {knob.doc} |" for knob in knobs.describe()]
    return "\n".join(lines) + "\n"


def capabilities_page() -> str:
    """docs/CAPABILITIES.md."""
    lines = [
        "# Capabilities",
        "",
        "Made from `src/magpie/capabilities.py` by `make docs`. A backend's manifest is its column, and a device's",
        "`capabilities` is what is left of that where the device lacks something (`magpie devices`).",
        "",
        *(f"- **{name}**: {doc}" for name, doc in capabilities.CELLS.items()),
        "",
        'A kernel that uses a capability with a * names it: `@mp.kernel(requires=("device_malloc",))`. Without',
        "that it is MPG_CORE_1201, and on a target that lacks the capability MPG_CORE_1200. `kernel.check()` reminds",
        "of where such a kernel runs (MPG_CORE_1202).",
        "",
        "| capability | " + " | ".join(capabilities.TARGETS) + " | |",
        "|---|" + "---|" * len(capabilities.TARGETS) + "---|",
    ]
    for row in capabilities.CAPABILITIES.values():
        more = f" With it comes {', '.join(f'`{n}`' for n in row.implies)}." if row.implies else ""
        lines.append(f"| `{row.name}`{' *' if row.declare else ''} | {' | '.join(row.cells)} | {row.doc}{more} |")
    lines += [
        "",
        "Limits, as every device of the target has them (and the largest, where that differs):",
        "",
        "| limit | " + " | ".join(capabilities.TARGETS) + " | | of a device |",
        "|---|" + "---|" * len(capabilities.TARGETS) + "---|---|",
    ]
    for limit in capabilities.LIMITS.values():
        shown = [_amount(limit, a, b) for a, b in zip(limit.least, limit.most, strict=True)]
        lines.append(f"| `{limit.name}` | {' | '.join(shown)} | {limit.doc} | `device.{limit.query}` |")
    return "\n".join(lines) + "\n"


def _amount(limit: capabilities.Limit, least: int | None, most: int | None) -> str:
    def text(n: int) -> str:
        if not limit.name.endswith("_bytes"):
            return str(n)
        return f"{n // 1024} KB" if n < 1024 * 1024 else f"{n // 1024 // 1024} MB"

    if least is None or most is None:
        return ""
    return text(least) if least == most else f"{text(least)}, up to {text(most)}"


_TITLES = {
    "arr": "Arrays",
    "map": "Maps",
    "str": "Strings",
    "enum": "Enums, structs and callables",
    "retain": "Owners",
    "std": "The modules std",
    "gpu": "Devices, buffers, launches, profiles",
    "mlx": "The modules mlx",
}


_LIBRARY = """\
# What host programs of `.mp` files call

Made from `src/magpie/mpir/signatures` by `make docs`. [MP_LANGUAGE.md](MP_LANGUAGE.md) is about the language.

Each row is an operation, or a function of a module by its full name, with its operands and what it gives. Type
arguments are found from the operands and the result, or written in `<>`, all of them. `a/lhs` may be written
either way, `hint?` may be left out, and `v...` are any number of operands v0, v1, ... in order. The operands of
functions may also stand in a list: `args=[%x, %y]`. A value goes where `borrow` or `mutborrow` of its type is
wanted. Where a row names an enum, as gpu.MemoryHint, the bare name of a variant will do: `hint=Auto`.

`<T: ...>` and operands without a type of their own say what is allowed: `int` any integer type, `real` f32 and
f64, `num` integers and floats, `scalar` these and bool, `text` these and Str, `equal` these and enums without
fields, `ordered` num and Str, `element` scalars and value structs of them, and `key` what a Map takes: integers,
bool, Str, and types with an `impl hash` and an `impl eq`. `fn(T) -> U` is a TCallable of a signature with these
types, more parameters behind `...`; `maybe T` is T or `TResult<T, gpu.TError>`.
"""


def library_page() -> str:
    """docs/MP_LIBRARY.md."""
    lines = _LIBRARY.splitlines()
    title = ""
    for name in signatures.NAMES:
        found = signatures.signature(name)
        assert found is not None
        family = re.split(r"[.(<]", name)[0]
        if _TITLES.get(family, title) != title:
            title = _TITLES[family]
            lines += ["", f"## {title}", "", "| | |", "|---|---|"]
        lines.append(f"| `{found.text}` | {found.doc} |")
    lines += ["", "## Types", "", "| | |", "|---|---|"]
    for struct in prelude.STRUCTS.values():
        params = f"<{', '.join(struct.params)}>" if struct.params else ""
        lines.append(f"| `{struct.name}{params}` | heap struct: {', '.join(f'`{n}: {t}`' for n, t in struct.fields)} |")
    for enum in prelude.ENUMS.values():
        params = f"<{', '.join(enum.params)}>" if enum.params else ""
        shown = ", ".join(f"`{v} {{ {f[0][0]}: {f[0][1]} }}`" if f else f"`{v}`" for v, f in enum.variants)
        lines.append(f"| `{enum.name}{params}` | enum: {shown} |")
    handles = ", ".join(f"`{name}{'<T>' if count else ''}`" for name, count in prelude.HANDLES.items())
    return "\n".join([*lines, "", f"{handles} are handles: nobody looks into them."]) + "\n"


def launch_schema() -> str:
    """docs/launch.schema.json, which the package holds."""
    return (ROOT / "src/magpie/backends/tgpu/launch.schema.json").read_text(encoding="utf-8")


PAGES = {
    "KNOBS.md": knobs_page,
    "CAPABILITIES.md": capabilities_page,
    "MP_LIBRARY.md": library_page,
    "launch.schema.json": launch_schema,
}


def main() -> int:
    """Write all pages, or compare them."""
    stale = 0
    for name, make in PAGES.items():
        path = DOCS / name
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            print(f"docs/{name} is not up to date: run `make docs`")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
