"""Still and moving pictures of a launch, drawn with Pillow: for each kernel its threads, how many run and wait, which
registers change, and which words of memory are written, all over cycles."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from magpie.backends.tgpu.history import DONE, RUNNING, WAITING
from magpie.backends.tgpu.view import Shown
from magpie.errors import MagpieError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["colours", "moving", "panels", "still"]

_Array = np.ndarray[Any, Any]

PAPER, INK, SOFT = (255, 255, 255), (29, 36, 48), (102, 112, 127)
RUNS, WAITS, ENDED, CHANGED = (47, 123, 191), (224, 138, 30), (233, 236, 240), (178, 60, 110)
_LEFT, _TOP, _GAP, _WIDTH = 96, 30, 26, 860
_HEIGHTS = {"threads": 320, "runs and waits": 60, "registers": 110, "memory": 150}
#: Rows of the panel of memory; each stands for several words where there are more.
_MOST_ROWS = 600
#: Frames of a moving picture; of a longer launch, cycles at even distances.
_FRAMES = 150


def colours(shown: Shown, position: int) -> _Array:
    """The colour of each thread in each cycle, [thread, cycle, 3]: blue where it runs, darker further down in the
    program, orange where it waits, grey where it has ended."""
    kernel, history = shown.launch.kernels[position], shown.results[position].history
    pc = np.stack([c.pc for c in history.cycles], axis=1)
    state = np.stack([c.state for c in history.cycles], axis=1)
    depth = (pc / max(1, len(kernel.program) - 1))[..., None]
    light, dark = np.array((168, 203, 235)), np.array((24, 74, 128))
    found = light + (dark - light) * depth
    found[state == WAITING] = WAITS
    found[state == DONE] = ENDED
    whole: _Array = found.round().astype(np.uint8)
    return whole


def panels(shown: Shown, position: int) -> dict[str, _Array]:
    """The pictures of one kernel as arrays of colours, [row, cycle, 3], each with its name."""
    kernel, result = shown.launch.kernels[position], shown.results[position]
    cycles, threads = result.history.cycles, len(result.thread_cycles)
    n = len(cycles)
    busy = np.full((60, n, 3), PAPER, np.uint8)
    registers = np.zeros((kernel.program.registers, n))
    words = max(1, len(result.memory))
    memory = np.zeros((min(words, _MOST_ROWS), n))
    for x, cycle in enumerate(cycles):
        runs = round(60 * int((cycle.state == RUNNING).sum()) / threads)
        waits = round(60 * int((cycle.state == WAITING).sum()) / threads)
        busy[60 - runs :, x] = RUNS
        busy[60 - runs - waits : 60 - runs, x] = WAITS
        rows = cycle.registers[:, 0]
        registers[:, x] = np.bincount(rows[rows < len(registers)], minlength=len(registers)) / threads
        rows = cycle.memory[:, 0].astype(np.int64) * len(memory) // words
        memory[:, x] = np.minimum(1, np.bincount(rows, minlength=len(memory)) * len(memory) / words)
    return {
        "threads": colours(shown, position),
        "runs and waits": busy,
        "registers": _heat(registers),
        "memory": _heat(memory),
    }


def _heat(share: _Array) -> _Array:
    """White to red by how many of all change something."""
    amount = np.where(share > 0, 0.25 + 0.75 * share, 0)[..., None]
    found: _Array = (np.array(PAPER) + (np.array(CHANGED) - np.array(PAPER)) * amount).round().astype(np.uint8)
    return found


def still(shown: Shown) -> bytes:
    """A PNG of all kernels, one below the other."""
    pictures = [_draw(shown, i, panels(shown, i), None) for i in shown.kernels]
    return _saved(_stacked(pictures), "PNG")


def moving(shown: Shown) -> bytes:
    """A GIF that goes through the cycles of all kernels: what comes later is not there yet."""
    frames = []
    steps = [(i, t) for i in shown.kernels for t in range(1, 1 + shown.results[i].cycles)]
    if len(steps) > _FRAMES:
        steps = [steps[round(n * (len(steps) - 1) / (_FRAMES - 1))] for n in range(_FRAMES)]
    drawn = {i: panels(shown, i) for i in shown.kernels}
    for position, time in steps:
        frames.append(_draw(shown, position, drawn[position], time))
    if not frames:
        frames = [_stacked([])]
    size = (max(f.width for f in frames), max(f.height for f in frames))
    same = [_padded(frame, size).quantize(64) for frame in frames]
    return _saved(
        same[0], "GIF", save_all=True, append_images=same[1:], duration=max(60, min(400, 6000 // len(same))), loop=0
    )


def _pillow() -> Any:
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MagpieError("pictures as .png and .gif need Pillow: pip install 'magpie-gpu[view]'") from None
    return Image, ImageDraw


def _draw(shown: Shown, position: int, parts: dict[str, _Array], time: int | None) -> Image.Image:
    """The panels of a kernel below one another, up to a cycle, with their names."""
    image_of, draw_of = _pillow()
    kernel, result = shown.launch.kernels[position], shown.results[position]
    cycles = result.cycles
    height = _TOP + sum(h + _GAP for h in _HEIGHTS.values())
    picture = image_of.new("RGB", (_LEFT + _WIDTH + 16, height), PAPER)
    pen = draw_of.Draw(picture)
    now = f"cycle {time} of {cycles}" if time is not None else f"{cycles} cycles"
    blocks, threads = kernel.grid
    text = f"{kernel.name}: {blocks} blocks of {threads} threads, {now}, {result.instructions} instructions"
    pen.text((_LEFT, 9), text, fill=INK)
    at = _TOP
    for name, high in _HEIGHTS.items():
        array = parts[name]
        if time is not None:
            array = array.copy()
            array[:, time:] = PAPER
        panel = image_of.fromarray(array, "RGB").resize((_WIDTH, high), image_of.Resampling.NEAREST)
        picture.paste(panel, (_LEFT, at))
        pen.rectangle((_LEFT - 1, at - 1, _LEFT + _WIDTH, at + high), outline=SOFT)
        pen.text((6, at), name, fill=SOFT)
        pen.text((6, at + high - 12), _rows(name, kernel, result), fill=SOFT)
        if time is not None:
            x = _LEFT + round(_WIDTH * time / cycles)
            pen.line((x, at, x, at + high), fill=(192, 20, 43))
        at += high + _GAP
    pen.text((_LEFT, at - _GAP + 4), "cycle 1", fill=SOFT)
    last = f"cycle {cycles}"
    pen.text((_LEFT + _WIDTH - 6 * len(last), at - _GAP + 4), last, fill=SOFT)
    return picture  # type: ignore[no-any-return]


def _rows(name: str, kernel: Any, result: Any) -> str:
    """What the rows of a panel are."""
    if name == "threads":
        return f"0 to {len(result.thread_cycles) - 1}"
    if name == "registers":
        return f"R0 to R{kernel.program.registers - 1}"
    return f"0 to {len(result.memory) - 1}" if name == "memory" else ""


def _stacked(pictures: list[Image.Image]) -> Image.Image:
    image_of, _ = _pillow()
    width = max((p.width for p in pictures), default=320)
    whole = image_of.new("RGB", (width, max(20, sum(p.height for p in pictures))), PAPER)
    at = 0
    for picture in pictures:
        whole.paste(picture, (0, at))
        at += picture.height
    return whole  # type: ignore[no-any-return]


def _padded(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    image_of, _ = _pillow()
    whole = image_of.new("RGB", size, PAPER)
    whole.paste(picture, (0, 0))
    return whole  # type: ignore[no-any-return]


def _saved(picture: Image.Image, format_: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, format_, **options)
    return out.getvalue()
