"""The alerts of sweeps: written to a file, delivered, and retried until they arrive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig
from atd_dask.errors import DamagedStoreError
from atd_dask.result_types import Alert, ClusterNews
from atd_dask.storage.checksums import read_checked, write_checked
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import read_result
from atd_dask.sweeps.alerts import deliver, list_channels
from atd_dask.sweeps.plan import commit
from atd_dask.sweeps.state import SweepState
from atd_dask.wording import hide_credentials

if TYPE_CHECKING:
    from atd_dask.progress import Progress


ALERT_FORMAT = "atd-dask-alert/1"
# The channel to the caller, who reads the exit status of this process.
CALLER = "caller"


def make_alert(
    config: RunConfig, sweep_config: RunConfig, number: int, news: Sequence[ClusterNews]
) -> Alert:
    layout = RunLayout(sweep_config.output)
    return Alert(
        format=ALERT_FORMAT,
        name=config.name,
        sweep=number,
        result=hide_credentials(layout.result),
        report=hide_credentials(layout.report),
        clusters=tuple(news),
    )


def write_alert(path: str, alert: Alert) -> bytes:
    """Write an alert, and return the bytes to deliver."""
    text = json.dumps(alert.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
    content = text.encode() + b"\n"
    write_checked(path, content)
    return content


def read_alert(config: RunConfig, sweep: str, progress: Progress) -> bytes | None:
    """Return the alert of a sweep, or None if it has none. A damaged one is made again from the
    result of the sweep."""
    layout = RunLayout(config.output).sweep(int(sweep))
    try:
        return read_checked(layout.alert)
    except DamagedStoreError as error:
        result = read_result(layout.folder)
        if result is None or result.sweep is None:
            raise
        progress.warn(f"{error}: making it again")
    sweep_config = replace(config, output=layout.folder)
    alert = make_alert(config, sweep_config, int(sweep), result.sweep.clusters)
    return write_alert(layout.alert, alert)


def deliver_alerts(
    config: RunConfig, state: SweepState, progress: Progress, after: int = 0
) -> tuple[SweepState, list[str]]:
    """Deliver the alerts that have been pending since a sweep, except those for the caller, and
    note which ones arrived. Also return what went wrong."""
    problems = []
    for sweep, waiting in list(state.pending.items()):
        if int(sweep) <= after:
            continue
        message = read_alert(config, sweep, progress)
        left = [CALLER] if CALLER in waiting else []
        for channel in list_channels(config.sweep.alert):
            if channel not in waiting or message is None:
                continue
            problem = deliver(config.sweep.alert, channel, message)
            if problem is not None:
                left.append(channel)
                problems.append(f"the alert of sweep {sweep} could not be delivered: {problem}")
        pending = {n: to for n, to in state.pending.items() if n != sweep}
        if left:
            pending[sweep] = tuple(left)
        if tuple(left) != waiting:
            state = commit(config, replace(state, pending=pending))
    for problem in problems:
        progress.warn(f"{problem}; the next sweep tries again")
    return state, problems
