"""The locations of everything in an output folder."""

from __future__ import annotations

import doctest

import pytest

from atd_dask.storage import run_layout
from atd_dask.storage.run_layout import RunLayout


def test_the_examples() -> None:
    done = doctest.testmod(run_layout)
    assert (done.attempted, done.failed) == (2, 0)


@pytest.mark.parametrize("folder", ["runs/a", "runs/a/", "/runs/a", "s3://bucket/a"])
def test_paths_are_below_the_folder(folder: str) -> None:
    layout = RunLayout(folder)
    for path, name in (
        (layout.result, "result.json"),
        (layout.corpus("train"), "corpus/train.zarr"),
        (layout.repeat(2).model, "repeats/2/null_model.zarr"),
        (layout.sweep(12).alert, "sweeps/0012/alert.json"),
    ):
        assert path == f"{folder.rstrip('/')}/{name}"
        assert layout.relative(path) == name


def test_a_sweep_knows_the_others() -> None:
    layout = RunLayout("s3://bucket/a")
    assert layout.sweep(3).neighbour(1) == layout.sweep(1)
