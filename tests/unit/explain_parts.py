"""The parts of what `magpie explain` says of a code: its cause, its cure, and its examples."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

#: What stands before an example that has the diagnostic, before one that does not, and before a message.
BAD = ("wrong", "warns", "refused")
GOOD = ("right", "better", "instead")
NEUTRAL = ("example",)

_HEAD = re.compile(rf"^({'|'.join(BAD + GOOD + NEUTRAL)})( with (--[^:\n]+))?:(?: +|$)", re.MULTILINE)
# What `.mp` text begins with; no Python does.
_DECLARES = re.compile(r"(unsafe |async )?(gpu )?fn @|(value|heap) struct |sig T|enum T|global @|digest|exports|imports")
_INSTRUCTION = re.compile(r"%\w+(:| =)|[a-z]+(\.\w+)*(<.*>)? \{")

# Names that examples of single instructions may use.
FRAME = "gpu fn @k(%data: gpu.TBuffer<f32>, %x: f32, %i: i32, %n: u32, %c: bool) -> unit target(spv) {\nbb0:\n"


@dataclass(frozen=True)
class Example:
    """A piece of text; ``good`` is None for a message. ``options`` are those of `magpie check`."""

    good: bool | None
    text: str
    options: tuple[str, ...]

    @property
    def program(self) -> str | None:
        """The module that an example of `.mp` text is; None for Python, commands, messages and what leaves parts out."""
        if self.good is None or "..." in self.text:
            return None
        if _DECLARES.match(self.text):
            return f"module example\n{self.text}\n"
        if _INSTRUCTION.match(self.text):
            return f"module example\n{FRAME}{self.text}\nret\n}}\n"
        return None


@dataclass(frozen=True)
class Parts:
    cause: str
    cure: str
    examples: tuple[Example, ...]


def parts(text: str) -> Parts:
    """Take an explanation apart."""
    heads = list(_HEAD.finditer(text))
    prose = text[: heads[0].start()] if heads else text
    cause, _, cure = prose.partition("\n\ncure: ")
    examples = []
    for k, head in enumerate(heads):
        end = heads[k + 1].start() if k + 1 < len(heads) else len(text)
        shown = " " * (head.end() - head.start()) + text[head.end() : end]
        shown = shown.lstrip(" ") if shown.lstrip(" ").startswith("\n") else shown
        good = None if head[1] in NEUTRAL else head[1] in GOOD
        examples.append(Example(good, textwrap.dedent(shown).strip(), tuple((head[3] or "").split())))
    return Parts(cause.strip(), cure.strip(), tuple(examples))
