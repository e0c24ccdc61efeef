"""Host programs with words changed at random: what passes the checks gives a value, panics, or runs for ever, and
nothing else."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import signal

import pytest
from host_tools import HEAD
from host_values import value
from test_mp_generics import TEXT as GENERICS
from test_mp_host_arrays import CALLABLES
from test_mp_host_control import ACKERMANN, FIBONACCI, SUM
from test_mp_host_objects import ENUM, NODE, TRY

from magpie import knobs
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.host.panics import Panic
from magpie.host.program import Program
from magpie.mpir.ops import OPS
from magpie.mpir.signatures import NAMES

WORD = re.compile(
    r"(?P<value>%\w+)|(?P<function>@\w+)|(?P<const>const\.\w+ -?[\w.\"]+)|(?P<block>\bbb\d)|(?P<op>\b[a-z]+\.[a-z_.]+)"
    r"|(?P<type>\b(?:[iuf]\d+|bf16|bool|Str|Array|Map|TOption|TResult|unit)\b)"
)
TEXTS = [HEAD + t for t in (CALLABLES, NODE + ENUM, TRY, FIBONACCI, ACKERMANN, SUM, GENERICS)]
OPERATIONS = [n for n in (*NAMES, *OPS) if not n.startswith(("gpu.", "mlx.", "std.io."))]
CONSTS = ["const.i64 0", "const.i64 -1", "const.i64 9223372036854775807", "const.f32 nan", "const.bool true", 'const.Str "é"']


def changed(text: str, rng: random.Random) -> str:
    for _ in range(rng.randrange(1, 4)):
        words = list(WORD.finditer(text))
        word = rng.choice(words)
        same = [w[0] for w in words if w.lastgroup == word.lastgroup]
        more = {"op": OPERATIONS, "const": CONSTS}.get(word.lastgroup or "", same)
        text = text[: word.start()] + rng.choice(rng.choice((same, more))) + text[word.end() :]
    return text


class Stop(BaseException):
    """The time of a program is up."""


class Clock:
    """Ends what takes longer than 0.3 s; again and again, since a callback of Python's may swallow an exception."""

    def __init__(self) -> None:
        self.running = False

    def ring(self, *_: object) -> None:
        if self.running:
            raise Stop

    def run(self, call) -> bool:
        """Whether ``call`` ended in time."""
        ended = False
        try:
            try:
                self.running = True
                signal.setitimer(signal.ITIMER_REAL, 0.3, 1.0)
                call()
                ended = True
            finally:
                self.running = False
        except Stop:
            self.running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        return ended


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="endless programs are ended by a timer")
def test_changed_programs():
    rng, ended, clock = random.Random(7), 0, Clock()

    def outcome(program, name, arguments):
        with contextlib.suppress(Panic):
            program.call(name, arguments)

    before = signal.signal(signal.SIGALRM, clock.ring)
    try:
        for _ in range(6000 if knobs.test_all() else 600):
            checked = check_source(Source(changed(rng.choice(TEXTS), rng), "t.mp"))
            if checked.module is None or any(d.is_error for d in checked.diagnostics):
                continue
            program = Program(checked.module)
            for function in checked.module.functions:
                arguments = [value(t.owned, rng) for _, t in function.params if t.name not in ("TNode", "TShape")]
                if len(arguments) == len(function.params):
                    ended += clock.run(functools.partial(outcome, program, function.name, arguments))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended > 100
