"""Reads from a run folder what its page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from atd_dask.errors import InputError
from atd_dask.evaluation.results import FORMAT
from atd_dask.json_records import JsonObject
from atd_dask.report.links import find_folder, find_original
from atd_dask.result_types import BatchDocument, BatchScores, MemberDocument, Result
from atd_dask.run_types import RunRecord
from atd_dask.stages.result_making import count_words, describe_part
from atd_dask.stages.score_file import read_scores
from atd_dask.stages.shown_texts import MOST_GROUPS, find_tokeniser, read_shown_texts
from atd_dask.storage.atomic_files import read_file
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel, read_digest, read_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import read_result, read_run
from atd_dask.storage.stage_notes import read_skipped
from atd_dask.text.words import Tokeniser

TOPIC_WORDS = 10  # of each topic of the null model
# The most documents of a cluster, and near-duplicates of a document, that are shown.
MOST_DOCUMENTS = 500
MOST_WORDS = 300
MOST_COPIES = 100


@dataclass(frozen=True)
class Sources:
    """A result, and what the page needs from the stores next to it."""

    result: Result
    run: RunRecord | None
    counts: Mapping[int, Mapping[str, int]]  # row that is shown → word → count
    topics: Sequence[Sequence[str]]  # the words of each topic of the null model
    settings: JsonObject  # those known without run.json
    digests: Mapping[str, str]  # of the stores, by name
    texts: Mapping[int, str] = field(default_factory=dict)  # row → text, if texts are kept
    tokeniser: Tokeniser | None = None  # that counted the texts
    links: Mapping[int, str] = field(default_factory=dict)  # row → URL of the original
    scores: BatchScores | None = None  # of the batch, if they are kept
    dates: NDArray[np.int64] | None = None  # of the batch, if it has any
    skipped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by part and reason


def read_sources(output: str) -> Sources:
    """Read the sources of the page of the run in the folder `output`."""
    result = _read_result(output)
    run = read_run(output)
    layout = RunLayout(output)
    test = CorpusStore.open(layout.corpus("test"))
    model = read_model(layout.model)
    _check_origin(output, result, test, model)
    documents = [d for cluster in result.clusters for d in cluster.documents[:MOST_DOCUMENTS]]
    groups = [group.documents[:MOST_COPIES] for group in result.copy_groups[:MOST_GROUPS]]
    copies = [copy for d in documents for copy in d.all_copies[:MOST_COPIES]]
    linked: list[MemberDocument | BatchDocument] = [*documents, *copies, *chain(*groups)]
    texts = read_shown_texts(output, result)
    folder = None if run is None else find_folder(run.configuration)
    links = {d.row: find_original(d.id, folder, output) for d in linked}
    return Sources(
        result=result,
        run=run,
        counts=count_words(test, [d.row for d in documents], unseen=True),
        topics=[model.top_words(topic, TOPIC_WORDS) for topic in range(model.table.n_topics)],
        settings=model.settings,
        digests={
            layout.relative(layout.corpus("train")): model.corpus,
            layout.relative(layout.corpus("test")): test.digest,
            layout.relative(layout.model): read_digest(layout.model),
        },
        texts=texts,
        tokeniser=find_tokeniser(test) if texts else None,  # slow to load
        links={row: link for row, link in links.items() if link is not None},
        scores=read_scores(output),
        dates=test.dates(),
        skipped=read_skipped(output),
    )


def _read_result(output: str) -> Result:
    result = read_result(output)
    layout = RunLayout(output)
    path = layout.result
    if result is None and read_file(path) is None:
        raise InputError(
            f"a report needs the output folder of a run, but {output} has no"
            f" {layout.relative(path)}: name the folder that the run wrote to"
        )
    if result is None or result.format != FORMAT:
        raise InputError(f"a report needs a result of the format {FORMAT}, but {path} has another")
    if any(one.support is None and one.reference_support is not None for one in result.clusters):
        raise InputError(
            f"the clusters of a result must have a support, but those of {path} come from an"
            " earlier version: run the job again"
        )
    return result


def _check_origin(output: str, result: Result, test: CorpusStore, model: NullModel) -> None:
    told = result.null_model
    if result.corpus["test"] != describe_part(test) or (told.n_topics, told.bic) != (
        model.record.n_topics,
        model.record.bic,
    ):
        raise InputError(
            f"{RunLayout(output).result} must come from the stores next to it, but these have"
            " been replaced: run the job again"
        )
