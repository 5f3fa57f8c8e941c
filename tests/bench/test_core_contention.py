from __future__ import annotations

from click.testing import CliRunner

from atd_dask.cli.command import atd


def test_one_process_is_compared_with_two():
    arguments = ["bench", "passes", "--documents", "200", "--contention"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    header, row = result.stdout.splitlines()
    assert header.endswith("efficiency")
    assert row.startswith("200 ")
