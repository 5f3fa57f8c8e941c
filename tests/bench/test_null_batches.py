from __future__ import annotations

import numpy as np
from click.testing import CliRunner

from atd_dask.bench.large_batch import Shape, draw_documents
from atd_dask.bench.null_batches import NO_ROWS, judge_by_others
from atd_dask.cli.command import atd


def test_seeds_give_other_documents_and_topics():
    first, same, other = (
        next(draw_documents("train", 50, NO_ROWS, Shape(500, 3, seed=seed))) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.terms, same.terms)
    assert first.terms.tolist() != other.terms.tolist()


def test_a_search_is_judged_by_the_others():
    references = np.array([15.0, 16.0, 17.0, 18.0, 60.0])
    p_values = judge_by_others(references)
    assert min(p_values) == p_values[4] < 1e-3
    assert p_values[0] > p_values[1] > p_values[2] > p_values[3] > 0.05


def test_the_command():
    arguments = ["--documents", "1000", "--words", "2000", "--topics", "3", "--nulls", "2"]
    result = CliRunner().invoke(atd, ["bench", "scale", *arguments, "--seed", "3"])
    assert result.exit_code == 0, result.stderr
    header, row = result.stdout.splitlines()
    assert header.startswith("seed  normal documents  batch")
    assert row.split()[:4] == ["3", "1,000", "100", "2"]
