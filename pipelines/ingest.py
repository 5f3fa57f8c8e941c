"""Raw documents become three corpus stores: train, validation and test, over one vocabulary."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig, as_dict
from atd_dask.stages.checks import (
    check_labels,
    check_sources,
)
from atd_dask.stages.corpus_making import make_corpus
from atd_dask.stages.reading import (
    look_at_inputs,
)
from atd_dask.stages.text_settings import (
    resolve_segmentation,
)
from atd_dask.storage.corpus import FORMAT, CorpusStore
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import (
    CorpusSummary,
    describe_corpus,
    has_note,
    load_corpus,
    reuse_or_make,
    stage_key,
)
from atd_dask.text.options import describe_text
from atd_dask.text.readers.contents import Inputs

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress


def ingest(
    config: RunConfig, client: Client, progress: Progress, fresh: bool = False
) -> CorpusSummary:
    """Read, count and store the corpus of `config`; return a summary of each part.

    Stores that were made from the same documents in the same way are reused. If there are none, the
    documents are not read to find out.
    """
    check_sources(config)
    layout = RunLayout(config.output)
    fresh = fresh or not has_note(layout, "ingest")
    with progress.task("look at the documents", unit="bytes") as task:
        inputs = look_at_inputs(config, progress, task, each=not fresh)
    config = resolve_segmentation(config)
    corpus = as_dict(config.corpus) | {"text": describe_text(config.corpus.text)}

    def identify() -> str:
        digests = [given.sha256 for given in inputs.values() if isinstance(given, Inputs)]
        return stage_key(FORMAT, config.seed, corpus, digests)

    make = partial(make_corpus, config, client, progress, inputs)
    summary: CorpusSummary
    summary, reused = reuse_or_make(
        layout,
        "ingest",
        identify,
        partial(load_corpus, layout),
        make,
        partial(describe_corpus, layout),
        progress.warn,
        fresh=fresh,
    )
    if reused:
        progress.say("the corpus stores are up to date")
    check_batch_labels(config)
    return summary


def check_batch_labels(config: RunConfig) -> None:
    """Check that the batch has the labels that are to be found."""
    if config.evaluation.anomalous:
        check_labels(config, CorpusStore.open(RunLayout(config.output).corpus("test")).labels())
