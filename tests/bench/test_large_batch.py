from __future__ import annotations

import numpy as np
from click.testing import CliRunner

from atd_dask.bench import large_batch
from atd_dask.cli.command import atd
from atd_dask.distribution import vector_batches


def test_a_large_batch_holds_what_was_planted():
    planted = large_batch.choose_planted(25_000, 200)
    assert len(planted) == 200
    shape = large_batch.Shape(n_groups=3)
    drawn = large_batch.draw_documents("test", 25_000, planted, shape)
    assert [len(batch) for batch in drawn] == [10_000, 10_000, 5_000]
    assert len(large_batch.choose_planted(300, 200)) == 30
    topics = large_batch.draw_topics(shape)
    assert topics.shape == (13, 5_000)
    np.testing.assert_allclose(topics.sum(axis=1), 1)


def test_the_command(monkeypatch):
    monkeypatch.setattr(vector_batches, "SMALL_ENTRIES", 0)
    arguments = ["--documents", "400", "--train", "500", "--group-size", "40"]
    result = CliRunner().invoke(atd, ["bench", "batch", *arguments])
    assert result.exit_code == 0, result.stderr
    header, row = result.stdout.splitlines()
    found = dict(zip(header.split(), row.split(), strict=True))
    assert found["documents"] == "400"
    assert int(found["found"]) >= 30
    assert int(found["others"]) <= 4
