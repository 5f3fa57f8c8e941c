"""What `atd-dask calibrate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from atd_dask.wording import clean

if TYPE_CHECKING:
    from atd_dask.evaluation.trials import SetUpFigures


def print_figures(output: str, figures: SetUpFigures) -> None:
    """The table of what was found, the sentence, and where the page is."""
    from atd_dask.cli.printing import print_table
    from atd_dask.evaluation.trials import say_figures
    from atd_dask.storage.run_layout import RunLayout

    rows = [
        [
            f"{one.share:.0%}",
            str(one.size),
            f"{one.rate.happened} of {one.rate.of}",
            f"{one.rate.low:.0%} to {one.rate.high:.0%}",
        ]
        for one in figures.found
    ]
    if rows:
        header = ["share of the new subject", "documents", "found", "interval"]
        print_table(header, rows, width=None)
    alarms = figures.false_alarms
    click.echo(
        f"false alarms: {alarms.happened} of {alarms.of}, a rate of {alarms.low:.2%} to"
        f" {alarms.high:.2%}; the level is {figures.level:g}"
    )
    click.echo(clean(say_figures(figures)))
    click.echo(clean(f"report: {RunLayout(output).calibration.figures_page}"))
