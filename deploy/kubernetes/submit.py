"""Runs the DaskJob of a manifest to its end: python submit.py job.yaml

A job of that name that is under way already is waited for; one that has ended is removed first.
Ends with status 0 if the job succeeded, else with 1.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import yaml
from kr8s.objects import new_class

DaskJob: Any = new_class("DaskJob", "kubernetes.dask.org/v1", asyncio=False)
ENDS = ("Successful", "Failed")
SECONDS_BETWEEN = 5.0


def main(path: str) -> int:
    job = DaskJob(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    if job.exists() and read_status(job) in ENDS:
        # Its cluster and its pod must be gone as well: the operator would take them for the new
        # job's.
        job.delete(propagation_policy="Foreground")
        while job.exists():
            time.sleep(SECONDS_BETWEEN)
    if not job.exists():
        job = DaskJob(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
        job.create()
    while (status := read_status(job)) not in ENDS:
        time.sleep(SECONDS_BETWEEN)
    print(f"{job.name}: {status}")
    return ENDS.index(status)


def read_status(job: Any) -> str | None:
    job.refresh()
    status: str | None = job.raw.get("status", {}).get("jobStatus")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
