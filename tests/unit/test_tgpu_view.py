"""Pictures of launches: the page in a browser, still and moving pictures, and the commands that make them."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from magpie.backends.tgpu.history import DONE, WAITING
from magpie.backends.tgpu.runner import run_launch
from magpie.backends.tgpu.view import show, simulate_for_view
from magpie.backends.tgpu.view.image import ENDED, WAITS, colours, panels
from magpie.backends.tgpu.view.page import page
from magpie.errors import GpuError, MagpieError
from tests.unit.test_tgpu_launch import document, parsed

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)

BARRIER = """
SET R0, 0
L0:
BEQ R0, R6, L1
ADD R0, R0, 1
JMP L0
L1:
ADD R1, R7, 10
SHST R6, R1
SYNCB
SHLD R2, 0
ST R7, R2
"""


def launch():
    value = document()
    value["kernels"].append(
        {"name": "k2_<b>", "value": "2", "op": "stage", "grid": [2, 4], "shared_size": 4, "asm": BARRIER}
    )
    return parsed(value)


def shown(**options):
    x = np.random.default_rng(0).integers(-128, 128, (4, 8)).astype(np.int8)
    return simulate_for_view(launch(), {"X": x}, **options), x


def test_the_colour_of_a_cell_says_what_a_thread_does():
    made, _ = shown()
    found = colours(made, 2)
    cycles = made.results[2].history.cycles
    assert found.shape == (8, len(cycles), 3)
    for at, cycle in enumerate(cycles):
        assert (found[cycle.state == WAITING, at] == WAITS).all() and (found[cycle.state == DONE, at] == ENDED).all()
    # Thread 0 waits from its second step on, thread 3 comes last.
    assert (found[0, 1] == WAITS).all() and not (found[3, 1] == WAITS).all()


def test_the_panels_have_what_the_history_has():
    made, _ = shown()
    parts = panels(made, 0)
    assert parts["threads"].shape == (24, 8, 3) and parts["memory"].shape == (140, 8, 3)
    # The product is stored in the last cycle, to words 104 to 127.
    written = (parts["memory"] != 255).any(axis=2)
    assert written[:, 7].nonzero()[0].tolist() == list(range(104, 128)) and not written[:, :7].any()
    changed = (parts["registers"] != 255).any(axis=2)
    assert changed[1].all() and not changed[5:8].any()
    # All threads of the matrix product run in all cycles.
    assert (parts["runs and waits"] == (47, 123, 191)).all()


def test_a_large_memory_has_rows_for_several_words():
    value = document() | {"mem_size": 6000}
    value["kernels"][1]["asm"] = "ADD R0, R7, 5000\nST R0, 1"
    made = simulate_for_view(parsed(value), {})
    rows = (panels(made, 1)["memory"] != 255).any(axis=2)
    # 24 words from 5000 on, ten a row.
    assert rows.shape == (600, 1) and rows[:, 0].nonzero()[0].tolist() == [500, 501, 502]


def test_still_and_moving_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    made, _ = shown()
    show(made, tmp_path / "a.png")
    show(made, tmp_path / "a.gif")
    still = image.open(tmp_path / "a.png")
    assert still.format == "PNG" and still.height > 3 * 600
    pixels = np.asarray(still.convert("RGB")).reshape(-1, 3)
    assert (pixels == WAITS).all(axis=1).any() and (pixels == (168, 203, 235)).all(axis=1).any()
    moving = image.open(tmp_path / "a.gif")
    assert moving.format == "GIF" and moving.n_frames == sum(r.cycles for r in made.results)
    # In the first frame hardly anything has happened yet.
    counts = []
    for frame in (0, 7):
        moving.seek(frame)
        counts.append(int((np.asarray(moving.convert("RGB")) < 100).all(axis=2).sum()))
    assert counts[0] != counts[1]


def test_what_is_not_shown(tmp_path, monkeypatch):
    made, _ = shown(kernel="k1_relu")
    assert made.kernels == [1]
    with pytest.raises(MagpieError, match="it has k0_matmul, k1_relu"):
        shown(kernel="relu")
    with pytest.raises(MagpieError, match="ends in .html"):
        show(made, tmp_path / "a.jpg")
    with pytest.raises(MagpieError, match="No such file"):
        show(made, tmp_path / "none" / "a.html")
    monkeypatch.setattr("magpie.backends.tgpu.view.MOST_WORDS", 300)
    with pytest.raises(GpuError, match="MPG_TGPU_1203.*428 words of memory"):  # 3 * 140, and 2 blocks of 4
        shown()
    monkeypatch.setattr("magpie.backends.tgpu.view.MOST_CELLS", 100)
    with pytest.raises(GpuError, match="MPG_TGPU_1203.*288 cells") as caught:  # 8 * 24 + 2 * 24 + 6 * 8
        shown()
    assert "--kernel" in str(caught.value)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MagpieError, match="need Pillow"):
        show(made, tmp_path / "a.png")


def test_the_page_holds_no_markup_of_the_document():
    made, _ = shown()
    text = page(made)
    assert "k2_<b>" not in text and "k2_\\u003cb>" in text and "@DATA@" not in text
    assert "http" not in text.replace("http-equiv", "")


class Browser:
    """Chromium over its debugging pipe: messages of JSON with a zero byte between them."""

    def __init__(self, folder: Path) -> None:
        inward, self.to = os.pipe()
        self.back, outward = os.pipe()

        def pipes() -> None:
            os.dup2(inward, 3)
            os.dup2(outward, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        # The pipe has the numbers 3 and 4 in the browser; both may be something else here.
        high = [os.dup(fd) if fd > 9 else os.dup2(fd, 40 + n) for n, fd in enumerate((inward, outward))]
        inward, outward = high
        self.process = subprocess.Popen(
            [CHROMIUM, *flags, "about:blank"],
            preexec_fn=pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in high:
            os.close(fd)
        self.read, self.number, self.session = b"", 0, None

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.read:
                assert select.select([self.back], [], [], 60)[0], f"the browser does not answer to {method}"
                part = os.read(self.back, 1 << 16)
                assert part, "the browser has gone"
                self.read += part
            text, self.read = self.read.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, file: Path) -> None:
        target = self.call("Target.createTarget", url=file.as_uri())["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            # The script draws when it can: a busy machine shows the page without its numbers for a moment.
            if self.value("(document.getElementById('at') || {}).textContent || ''"):
                return
            time.sleep(0.02)
        raise AssertionError("the page did not load")

    def value(self, script):
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key):
        self.value(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}})), 0")

    def close(self) -> None:
        try:
            self.session = None
            self.call("Browser.close")
        finally:
            self.process.terminate()
            self.process.wait(20)
            os.close(self.to)
            os.close(self.back)


def table(browser, name):
    """The numbers of a table of values, row after row."""
    return [int(v) for v in browser.value(f"[...document.querySelectorAll('#{name} td')].map(c => c.textContent)")]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (packages.apt)")
def test_the_page_steps_forwards_and_back_in_a_browser(tmp_path):
    made, x = shown()
    file = tmp_path / "launch.html"
    show(made, file)
    run = run_launch(launch(), {"X": x}, history=True)
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(file)
        matmul = run.kernels[0].history
        assert browser.value("document.getElementById('at').textContent") == "cycle 0 of 8"
        assert table(browser, "registers") == matmul.registers[:8, 0].tolist()
        states = [matmul.registers[:8, 0].tolist()]
        registers = matmul.registers.copy()
        for cycle in matmul.cycles:
            registers[cycle.registers[:, 0], cycle.registers[:, 1]] = cycle.registers[:, 2]
            states.append(registers[:8, 0].tolist())
        for step in range(1, 9):
            browser.value("document.getElementById('next').click(), 0")
            assert table(browser, "registers") == states[step]
        # The buffer that the kernel computes is the one that is shown; now it is there, and marked as new.
        assert table(browser, "memory") == run.kernels[0].memory[104:128].tolist()
        assert browser.value("document.querySelectorAll('#memory td.new').length") == 24
        for step in range(7, -1, -1):
            browser.press("ArrowLeft")
            assert table(browser, "registers") == states[step]
        assert table(browser, "memory") == [0] * 24
        assert browser.value("document.getElementById('back').click(), view.time") == 0
        browser.press("End")
        assert browser.value("view.time") == 8 and table(browser, "registers") == states[8]

        # Another kernel: who waits, another thread, shared memory, the line that is executed.
        browser.value(
            "document.getElementById('kernel').value = 2, document.getElementById('kernel').onchange({target: document.getElementById('kernel')}), 0"
        )
        browser.value(
            "document.getElementById('slider').value = 2, document.getElementById('slider').oninput({target: document.getElementById('slider')}), 0"
        )
        assert (
            browser.value("document.getElementById('threadTitle').textContent")
            == "thread 0 of block 0: waits at a barrier"
        )
        assert browser.value("document.querySelector('#code .waits').textContent").strip() == "SYNCB"
        for _ in range(3):
            browser.press("ArrowDown")
        assert browser.value("document.getElementById('threadTitle').textContent") == "thread 3 of block 0: ran"
        browser.press("End")
        assert table(browser, "shared") == [10, 11, 12, 13]
        waits = [int((c.state == WAITING).sum()) for c in run.kernels[2].history.cycles]
        drawn = browser.value(
            "(() => { const c = document.getElementById('map'), k = kernel(), n = threads(), p = c.getContext('2d');"
            " p.putImageData(c.still, 0, 0); const w = c.width / k.cycles.length, h = c.height / n, out = [];"
            " k.cycles.forEach((_, x) => { let count = 0; for (let t = 0; t < n; t++) {"
            " const d = p.getImageData(x * w + w / 2, t * h + h / 2, 1, 1).data; count += d[0] === 224 && d[1] === 138; } out.push(count); });"
            " return out; })()"
        )
        assert drawn == waits and max(waits) > 0
        # It runs by itself, and stops at the end.
        browser.press("Home")
        browser.value("document.getElementById('play').click(), new Promise(done => setTimeout(done, 900))")
        assert browser.value("view.time") >= 1
        browser.press(" ")
        assert browser.value("view.timer") is None
    finally:
        browser.close()


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "magpie", "tgpu", *map(str, arguments)], capture_output=True, text=True
    )


def test_the_commands(tmp_path):
    made, x = shown()
    file = tmp_path / "main.json"
    file.write_text(made.launch.dumps())
    np.save(tmp_path / "x.npy", x)
    given = ("--input", f"X={tmp_path / 'x.npy'}")
    done = command("run", file, *given, "--output", f"3={tmp_path / 'y.npy'}")
    assert done.returncode == 0, done.stderr
    assert "k0_matmul: 8 cycles" in done.stdout and f"3 written to {tmp_path / 'y.npy'}" in done.stdout
    expected = run_launch(made.launch, {"X": x})
    assert (np.load(tmp_path / "y.npy") == expected.outputs["3"]).all()
    again = command("run", file, *given, "--interp")
    assert again.stdout.splitlines()[:4] == done.stdout.splitlines()[:4] and "3 =\n" in again.stdout
    done = command("view", file, "-o", tmp_path / "a.html", "-k", "k1_relu")
    assert done.returncode == 0 and "1 kernel, 1 cycle" in done.stdout and "zeros for X" in done.stderr
    assert "k1_relu" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "FILE"), "MPG_TGPU_1202"),
        (("run", "FILE", "-i", "X"), "takes NAME=FILE.npy"),
        (("run", "FILE", "-i", "X=none.npy"), "No such file"),
        (("run", "FILE", "-i", "X=FILE"), "no array of NumPy"),
        (("run", "FILE", "-i", "X=FILE.npz"), "a file of several"),
        (("run", "FILE", "-o", "9=a.npy"), "has no output 9"),
        (("run", "BROKEN"), "kernels[0].asm: line 1, column 1: 'SUB' is not an instruction"),
        (("view", "FILE", "-o", "a.jpg"), "ends in .html"),
        (("view", "BROKEN", "-o", "a.html"), "MPG_TGPU_1201"),
    ],
)
def test_what_the_commands_refuse(tmp_path, arguments, words):
    value = document()
    (tmp_path / "main.json").write_text(json.dumps(value))
    np.savez(tmp_path / "main.json.npz", X=np.zeros((4, 8), np.int8))
    value["kernels"][0]["asm"] = "SUB R0"
    (tmp_path / "broken.json").write_text(json.dumps(value))
    names = {"FILE": "main.json", "BROKEN": "broken.json"}
    changed = [
        a.replace("FILE", str(tmp_path / "main.json")) if "FILE" in a else str(tmp_path / names[a]) if a in names else a
        for a in arguments
    ]
    done = command(*changed)
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
