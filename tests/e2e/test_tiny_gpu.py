"""The example of tiny-gpu: a sort in assembly, and a kernel's launch as a document and a page."""

from __future__ import annotations

import itertools
import json

import jsonschema
import numpy as np
import pytest

from examples import tiny_gpu
from magpie.backends.tgpu.launch import launch_schema, read_launch
from magpie.backends.tgpu.runner import run_launch


def test_it_runs_and_writes_its_pages(tmp_path, capsys):
    tiny_gpu.main(str(tmp_path))
    shown = capsys.readouterr().out
    assert "matmul_relu: 9 cycles" in shown and "sort: 16 cycles" in shown
    for name in ("matmul_relu", "sort"):
        jsonschema.validate(json.loads((tmp_path / f"{name}.json").read_text()), launch_schema())
        assert read_launch(tmp_path / f"{name}.json").estimate is not None
        assert (tmp_path / f"{name}.html").stat().st_size > 10_000


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_sort_sorts_every_row_of_zeros_and_ones(threads):
    """A network of comparisons that sorts all of these sorts everything (Knuth, 5.3.4, theorem Z)."""
    rows = list(itertools.product((0, 1), repeat=2 * threads))
    launch, _ = tiny_gpu.sorting(len(rows), threads)
    for engine in ("simulator", "interp"):
        run = run_launch(launch, {"x": np.array(rows)}, engine=engine)
        assert run.outputs["x"].tolist() == [sorted(row) for row in rows]
        assert run.cycles == launch.estimate["total"]["cycles"]["min"] == launch.estimate["total"]["cycles"]["max"]
