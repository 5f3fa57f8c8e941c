"""Makes result.json from the clusters that were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.evaluation.copy_groups import choose_groups, describe_copies, place_in_batch
from atd_dask.evaluation.results import (
    FORMAT,
    describe_clusters,
    describe_searches,
    evaluate_result,
    write_csv,
    write_json,
)
from atd_dask.kernels.detection_rules import FoundCluster
from atd_dask.result_types import (
    ModelFigures,
    NormalDocument,
    OrderFigures,
    PartSizes,
    Result,
)
from atd_dask.stages.batches import PreparedBatch
from atd_dask.stages.spreadsheets import guard_table
from atd_dask.storage.checksums import write_checked
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.progress import Progress


def describe_part(store: CorpusStore) -> PartSizes:
    """Return what a result says about a part of the corpus."""
    return PartSizes(
        documents=store.n_docs, tokens=store.n_tokens, terms=store.n_words, copies=store.n_copies
    )


def count_words(
    store: CorpusStore, rows: Iterable[int], unseen: bool = False
) -> dict[int, dict[str, int]]:
    """Return the words of some documents with their counts, with `unseen` also those outside the
    vocabulary; only the blocks that have them are read."""
    wanted = np.array(sorted(set(rows)), dtype=np.int64)
    owners = np.searchsorted(store.block_starts, wanted, side="right") - 1
    counts: dict[int, dict[str, int]] = {}
    for index in np.unique(owners).tolist():
        block = store.block(index)
        for row in wanted[owners == index].tolist():
            first, last = block.indptr[row - block.start : row - block.start + 2]
            pairs = zip(block.terms[first:last], block.counts[first:last], strict=True)
            counts[row] = {store.vocabulary[term]: int(count) for term, count in pairs}
    if unseen and counts:
        beside = store.unseen()
        for row, words in counts.items():
            of_row = beside[row]
            pairs = zip(of_row.indices, of_row.data, strict=True)
            words |= {store.unseen_words[term]: int(count) for term, count in pairs}
    return counts


def write_result(output: str, result: Result, passages: Mapping[int, str]) -> None:
    """Write result.json and, with passages of texts, clusters.csv."""
    layout = RunLayout(output)
    write_checked(layout.result, write_json(result))
    write_checked(layout.documents, guard_table(write_csv(result.clusters, passages)))


def warn_of_thin_pool(progress: Progress, index: int | str, cluster: FoundCluster) -> None:
    if cluster.only_donor * 10 > len(cluster.documents):
        progress.warn(
            f"cluster {index}: {cluster.only_donor} of its {len(cluster.documents)} documents have"
            " the same document as their only donor, so its p-value says little: give"
            " more documents for validation, or choose another detection.pool or donors"
        )


def name_normal_documents(stores: Mapping[str, CorpusStore]) -> Callable[[int], NormalDocument]:
    """Return a function that finds the document of a row of the normal ones: those of train, then
    those of validation, without near-duplicates."""
    rows = {part: stores[part].representatives() for part in ("train", "validation")}

    def name_row(row: int) -> NormalDocument:
        part = "train"
        if row >= len(rows[part]):
            part, row = "validation", row - len(rows[part])
        own = int(rows[part][row])
        return NormalDocument(part=part, row=own, id=stores[part].ids(own, own + 1)[0])

    return name_row


def make_result(
    config: RunConfig,
    stores: dict[str, CorpusStore],
    model: NullModel,
    batch: PreparedBatch,
    found: list[FoundCluster],
) -> Result:
    """Make the result; `found` has the candidates of a batch without near-duplicates, in the order
    in which they are listed."""
    test = stores["test"]
    shared, ids, labels = batch.table.shared, test.ids(), test.labels()
    rows = test.representatives()
    clusters = describe_clusters(
        found,
        batch.documents,
        shared,
        batch.vocabulary,
        [ids[row] for row in rows.tolist()],
        [labels[row] for row in rows.tolist()],
        test.n_words,
    )
    copies = test.copies()
    groups = None
    if copies is not None:
        clusters = place_in_batch(clusters, rows, copies, ids, labels)
        chosen = choose_groups(copies)
        words = count_words(test, [group[0] for group in chosen], unseen=True)
        usual = dict(zip(batch.vocabulary, shared.tolist(), strict=False)) if chosen else {}
        groups = describe_copies(chosen, words, usual, clusters, ids, labels)
    # Each cluster has as many of the same searches as its decision needed.
    searches = max((cluster.searches or () for cluster in found), key=len, default=())
    best = next(search for search in model.restarts if model.record in search)
    result = Result(
        format=FORMAT,
        name=config.name,
        seed=config.seed,
        corpus={part: describe_part(store) for part, store in stores.items()},
        null_model=ModelFigures(
            n_topics=model.record.n_topics,
            bic=model.record.bic,
            order_search=tuple(OrderFigures(**asdict(record)) for record in best),
            topics_per_document=model.record.topics_per_document,
            salient_words_per_topic=model.record.words_per_topic,
        ),
        clusters=clusters,
        references=None
        if not searches
        else describe_searches(searches, model.vocabulary, name_normal_documents(stores)),
        copies=groups,
    )
    if config.evaluation.anomalous:
        return evaluate_result(result, labels, config.evaluation.anomalous)
    return result
