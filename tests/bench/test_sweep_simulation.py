"""A few simulated days with real processes, some of which are killed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from atd_dask.bench.sweep_simulation import (
    N_SUBJECTS,
    N_WORDS,
    OUTBREAK_DOCUMENTS,
    Course,
    Outbreak,
    Simulation,
    World,
    make_rows,
    simulate,
)
from atd_dask.cli.outputs import make_progress
from atd_dask.pipelines.sweep import sweep

# A few days must not take long: a small model, and few replicates.
SETTINGS = (
    "null_model.topics=10",
    "detection.seeds=6",
    "detection.membership.replicates=100",
    "detection.significance.replicates=100",
    "detection.significance.searches=2",
    "sweep.window=1",
)


def test_the_world_drifts_and_has_outbreaks():
    world = World.of(1, 90, 3)
    assert [outbreak.number for outbreak in world.outbreaks] == [1, 2, 3]
    assert all(outbreak.first_day >= 1 and outbreak.last_day <= 88 for outbreak in world.outbreaks)
    early, late = world.topics(0), world.topics(90)
    np.testing.assert_allclose(late.sum(axis=1), 1)
    assert early.shape == (N_SUBJECTS, N_WORDS + 1)
    fresh = late[:, N_WORDS:].sum() / N_SUBJECTS
    assert 0.05 < fresh < 0.2, "so much of the text is new words after a quarter"
    day = world.outbreaks[0].first_day
    documents = list(world.draw_day(day, 20))
    assert len(documents) == 20 + OUTBREAK_DOCUMENTS // 3
    assert documents == list(world.draw_day(day, 20))
    assert len({document["id"] for document in documents}) == len(documents)


def test_the_rows():
    outbreaks = tuple(Outbreak(n, 10 * n, np.zeros(0, np.int64)) for n in (1, 2))
    course = Course(seconds=[1.0, 3.0], idle_seconds=[0.5], kills=4)
    course.lines = [
        {"sweep": 1, "documents": 20, "trained": "the first one"},
        {"sweep": 2, "documents": 20, "trained": None, "drifts": [{"words": ["a", "b"]}]},
    ]
    course.found = {
        1: [
            (11, ["day 11 outbreak 1 document 0"]),
            (12, ["day 12 outbreak 1 document 1"]),
            (19, ["day 19 document 1", "day 19 document 2", "day 19 document 3"]),
        ],
        2: [
            (15, ["day 15 document 3"]),
            (21, ["day 21 outbreak 2 document 0", "day 21 outbreak 2 document 1"]),
        ],
    }
    rows = {
        row.pop("what"): list(row.values()) for row in make_rows(World(1, outbreaks), course, 2.0)
    }
    assert rows["outbreak of the days 10 to 12"] == [11, 1, "2 of 30", 0]
    assert rows["outbreak of the days 20 to 22, late"][0] == "never"
    later = "sweeps in which others joined the cluster of an outbreak later"
    assert rows[later] == ["19", "", 3, ""]
    assert rows["false alarms, 2 accepted"] == ["15", 1, 3, ""]
    assert rows["drift reported"][0] == "1 times, of 2 words"
    assert rows["killed mid-run"][0] == "4"
    assert rows["seconds of a sweep, after starting Python"][0] == "2.0 (1.0 to 3.0)"


@pytest.mark.long
def test_days_with_an_outbreak_and_kills(tmp_path):
    world = World.of(1, 4, 1)
    asked = Simulation(days=4, documents=60, outbreaks=1, seed=1, killed=0.7)
    course = simulate(world, tmp_path, asked, SETTINGS, sweep, make_progress(quiet=True))
    assert [line["sweep"] for line in course.lines] == [1, 2, 3, 4]
    assert sum(line["documents"] for line in course.lines) == 4 * 60 + OUTBREAK_DOCUMENTS
    assert course.kills
    row, *_ = make_rows(world, course, 2.0)
    assert row["reported in sweep"] <= world.outbreaks[0].last_day + 2
    assert row["documents"].endswith(" of 30")
    assert int(row["documents"].split()[0]) >= 25
    assert max(course.idle_seconds) < 5
    state = json.loads((tmp_path / "runs/year/state.json").read_text())
    assert state["pending"] == {}
