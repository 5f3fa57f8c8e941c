from __future__ import annotations

from click.testing import CliRunner

from atd_dask.cli.command import atd


def test_the_command():
    arguments = ["--workers", "3", "--tasks", "4", "--seconds", "0.01"]
    result = CliRunner().invoke(atd, ["bench", "scheduler", *arguments])
    assert result.exit_code == 0, result.stderr
    header, row = result.stdout.splitlines()
    found = dict(zip(header.split(), row.split(), strict=True))
    assert found["workers"] == "3"
    assert found["blocks"] == "12"
    assert found["tasks"] == "26"  # a fit and a part for each block, and sums of four and of all
    assert float(found["seconds"]) >= float(found["seconds_of_work"]) > 0  # the pass has ended
