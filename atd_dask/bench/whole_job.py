"""Measures the whole job: wall-clock time, and the CPU time of all processes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atd_dask.bench.usage import Row, measure
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.settings import key_name
from atd_dask.errors import AtdError
from atd_dask.storage.runs import read_run

if TYPE_CHECKING:
    from atd_dask.progress import Progress

COMMAND = (sys.executable, "-c", "from atd_dask.cli.command import main; main()")


def bench_job(name: str, corpora: str | None, progress: Progress) -> list[Row]:
    """Measure the job of a corpus in a process of its own, twice: the second time everything is
    compiled."""
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        config = paper_config(name, corpora, f"{folder}/{name}")
        path = Path(folder, f"{name}.yaml")
        path.write_text(json.dumps(spell_out(config)), encoding="utf-8")
        rows = []
        for what in ("compiling what is not compiled yet", "compiled"):
            with progress.task(f"run {name}, {what}"), measure() as usage:
                ended = subprocess.run(
                    [*COMMAND, "run", str(path), "--fresh", "--quiet"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    check=False,
                )
            record = read_run(config.output)
            if ended.returncode != 0 or record is None:
                raise AtdError(f"the job failed: {ended.stderr.strip()}")
            rows.append(
                {
                    "what": what,
                    "seconds": round(usage.seconds, 1),
                    "cpu_seconds": round(usage.cpu_seconds, 1),
                    "peak_gigabytes": round(usage.peak_bytes / 1e9, 2),
                }
                | {name: round(stage.seconds, 1) for name, stage in record.stages.items()}
            )
        return rows


def spell_out(part: Any) -> Any:
    """Return a configuration as it would be written in a file: only keys that are not defaults."""
    if isinstance(part, list | tuple):
        return [spell_out(value) for value in part]
    if not dataclasses.is_dataclass(part):
        return part
    return {
        key_name(item): spell_out(value)
        for item in dataclasses.fields(part)
        if (value := getattr(part, item.name)) != _default(item)
    }


def _default(item: dataclasses.Field[Any]) -> Any:
    made = item.default_factory
    return item.default if made is dataclasses.MISSING else made()
