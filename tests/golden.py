"""Jobs whose `result.json` is pinned by its SHA-256 in `tests/data/golden.json`.

The pins hold for every number of workers and for a run that was interrupted and resumed. After a
change that is meant to change results, write them again:

    python -m tests.golden --write

Corpora that are not there keep the pins they have.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.run_config import RunConfig
from atd_dask.pipelines.detect import detect
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.run import run
from atd_dask.pipelines.train import train
from tests.clusters import local_client
from tests.shared import SHARED

if TYPE_CHECKING:
    from distributed import Client

ROOT = Path(__file__).resolve().parent.parent
PINS = Path(__file__).parent / "data" / "golden.json"
GENERATED = "generated"
CORPORA = ("reuters", "newsgroups", "synthetic")

# Makes the job of conf/synthetic.yaml take seconds; it still trains, settles and calibrates.
SHORT = (
    "null_model.topics={max: 11, min: 9, widen: false}",
    "detection={seeds: 6, max_clusters: 2}",
    "detection.significance={replicates: 200, searches: 2, level: 0.4}",
)


def read_pins() -> dict[str, str]:
    pins: dict[str, str] = json.loads(PINS.read_text())
    return pins


def configure(name: str, output: Path) -> RunConfig:
    """The job with this name, writing to `output`."""
    if name == GENERATED:
        return load(ROOT / "conf" / "synthetic.yaml", [f"output={output}", *SHORT])
    return paper_config(name, str(SHARED / "corpora"), str(output))


def run_job(config: RunConfig, client: Client | None = None) -> str:
    """Run a job, without a cluster if there is no client; return the SHA-256 of its result."""
    progress = make_progress(quiet=True)
    if client is not None:
        run(config, client, progress)
    else:
        for stage in (ingest, train, detect):
            stage(config, None, progress)
    return hashlib.sha256(Path(config.output, "result.json").read_bytes()).hexdigest()


def write_pins() -> None:
    pins = read_pins() if PINS.exists() else {}
    for name in (GENERATED, *CORPORA):
        if name == GENERATED or (SHARED / "corpora" / name).exists():
            with tempfile.TemporaryDirectory() as folder, local_client(2) as client:
                pins[name] = run_job(configure(name, Path(folder, "output")), client)
    PINS.write_text(json.dumps(pins, indent=1) + "\n")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write_pins()
