from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from atd_dask.distribution.grids import run_grid
from atd_dask.storage.checkpoints import Checkpoints
from tests.clusters import local_client
from tests.pipelines.test_run import wait_for


@dataclass(frozen=True)
class Number:
    """A point that needs the one before it, up to the second."""

    value: int
    kind: str = "number"

    @property
    def name(self) -> str:
        return f"number-{self.value}"

    @property
    def needs(self) -> tuple[Number, ...]:
        return (Number(self.value - 1),) if self.value in (1, 2) else ()


@dataclass(frozen=True)
class Squares:
    """Records every point that it computes in a folder; fails at one of them, once the first three
    are saved."""

    folder: str
    fails_at: int | None = None

    def compute(self, point, needed):
        if point.value == self.fails_at:
            wait_for(Path(self.folder, "kept", "number-2.checkpoint").exists)
            raise ArithmeticError("not this one")
        with Path(self.folder, point.name).open("a") as file:
            file.write("x")
        before = sum(float(arrays["square"][0]) for arrays in needed)
        return {"square": np.array([point.value**2 + before])}


@pytest.fixture(scope="module")
def client():
    with local_client(2) as made:
        yield made


POINTS = [Number(value) for value in range(6)]


def test_points_after_those_they_need(client, tmp_path):
    told = []
    found = run_grid(
        client, Squares(str(tmp_path)), POINTS, Checkpoints(f"{tmp_path}/kept", "k"), told.append
    )
    assert [float(found[point]["square"][0]) for point in POINTS] == [0, 1, 5, 9, 16, 25]
    assert list(found) == POINTS
    assert sorted(point.value for point in told) == list(range(6))


def test_what_was_finished_is_not_done_again(client, tmp_path):
    kept = Checkpoints(f"{tmp_path}/kept", "k")
    with pytest.raises(ArithmeticError, match="not this one"):
        run_grid(client, Squares(str(tmp_path), fails_at=5), POINTS[:3] + POINTS[5:], kept)
    run_grid(client, Squares(str(tmp_path)), POINTS[:3], kept)
    run_grid(client, Squares(str(tmp_path)), POINTS, kept)
    assert {file.name: file.read_text() for file in tmp_path.glob("number-*")} == {
        point.name: "x" for point in POINTS
    }


def test_pieces_of_another_key_are_done_again(client, tmp_path):
    for key in ("first", "second"):
        run_grid(client, Squares(str(tmp_path)), POINTS, Checkpoints(f"{tmp_path}/kept", key))
    assert (tmp_path / "number-3").read_text() == "xx"
