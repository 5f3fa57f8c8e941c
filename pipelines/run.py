"""The whole job, stage after stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atd_dask.pipelines.detect import detect
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.train import train

from atd_dask.interface.config import RunConfig

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.interface.progress import Progress


def run(
    config: RunConfig, client: Client, progress: Progress, fresh: bool = False
) -> dict[str, Any]:
    """All stages; what is finished is reused."""
    return {
        "corpus": ingest(config, client, progress, fresh),
        "null_model": train(config, client, progress, fresh),
        "result": detect(config, client, progress, fresh),
    }
