from __future__ import annotations

import pytest
from click.testing import CliRunner

from atd_dask.bench.training_passes import FIT_PASSES, Measured, tabulate
from atd_dask.bench.usage import Usage
from atd_dask.cli.command import atd


def test_the_command():
    arguments = ["bench", "passes", "--documents", "300", "--documents", "150"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    header, *rows = result.stdout.splitlines()
    assert "bytes to the client per pass" in header
    assert [row.split()[0] for row in rows] == ["150", "300"]


def test_the_model_is_the_same_on_any_cluster():
    arguments = ["bench", "passes", "--documents", "400", "--same"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    _, *rows = result.stdout.splitlines()
    assert len(rows) == 5
    assert len({row.split()[-1] for row in rows}) == 1


def test_a_sampler_to_compare_with():
    pytest.importorskip("tomotopy", reason="pip install '.[bench]'")
    arguments = ["bench", "passes", "--documents", "200", "--sampling"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    header, ours, theirs = result.stdout.splitlines()
    assert header.endswith("tokens per CPU second")
    assert ours.startswith("PTM")
    assert theirs.startswith("tomotopy")


def test_steps_of_a_pass():
    arguments = ["bench", "passes", "--documents", "200", "--steps"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    header, *rows = result.stdout.splitlines()
    assert header.endswith("gigabytes per CPU second")
    steps = ["update the words", "fit and collect", "of that, collect", "copy"]
    for row, step in zip(rows, steps, strict=True):
        assert row.startswith(step)


def test_the_exponent_is_that_of_the_cpu_time_of_a_pass():
    small = Measured(1_000, 2, 100_000, Usage(2.0, FIT_PASSES * 2.0, 0), 5_000, 10**8)
    large = Measured(10_000, 2, 1_000_000, Usage(2.0, FIT_PASSES * 20.0, 0), 5_000, 10**8)
    assert tabulate(small, None)["exponent"] == ""
    row = tabulate(large, small)
    assert row["exponent"] == "1.00"
    assert row["tokens per CPU second"] == 50_000
    assert row["megabytes of the client"] == 100


def test_efficiency_compares_several_workers_with_one():
    one = Measured(1_000, 1, 100_000, Usage(3.0, 3.0, 0), 5_000, 10**8)
    two = Measured(1_000, 2, 100_000, Usage(2.0, 4.0, 0), 5_000, 10**8)
    assert tabulate(one, None, one)["efficiency"] == ""
    assert tabulate(two, None)["efficiency"] == ""
    assert tabulate(two, None, one)["efficiency"] == "0.75"
    assert tabulate(two, None, one)["workers are busy"] == "1.00"
    waiting = Measured(1_000, 2, 100_000, Usage(2.0, 3.5, 0, own_cpu_seconds=0.5), 5_000, 10**8)
    assert tabulate(waiting, None, one)["workers are busy"] == "0.75"
