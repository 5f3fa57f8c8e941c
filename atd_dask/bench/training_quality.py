"""Measures training: the null model next to the LDA of other packages, and order selection.

Every method gets the same counts, the same number of topics, one thread, and its own default
priors. CPU time is that of training only: compilation and the conversion of documents come before,
and the proportions of test documents after.

The likelihood is that of document completion: the tokens of each test document are split into two
halves; the first one determines its topic proportions, and the words of the second are predicted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.bench.topic_learners import (
    FLOOR,
    METHODS,
    Halves,
    Learned,
    Material,
    complete_documents,
    learn_ptm,
)
from atd_dask.bench.usage import Row, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import run_on_workers
from atd_dask.distribution.training import Training, train_restarts
from atd_dask.errors import InputError, UserError
from atd_dask.estimators.topic_model import ParsimoniousTopicModel
from atd_dask.kernels.streams import open_stream
from atd_dask.kernels.training import Convergence, OrderRange
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from atd_dask.bench.usage import Ingest
    from atd_dask.progress import Progress

PACKAGES = ("gensim", "sklearn", "tomotopy")
RESTARTS = 4  # on one worker, and on two


@dataclass(frozen=True)
class SelectedOrder:
    """The result of one order selection."""

    seed: int
    bic: float
    learned: Learned

    @property
    def n_topics(self) -> int:
        return len(self.learned.words)


def bench_training(
    names: Sequence[str], corpora: str | None, n_seeds: int, ingest: Ingest, progress: Progress
) -> Iterator[list[Row]]:
    """Yield tables as they are measured: for every corpus the order selections and the comparison
    at the best order, and finally the effect of workers and compilation on wall-clock time."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise UserError(
            f"the packages to compare with must be installed, but {' and '.join(missing)} are"
            " missing: pip install 'atd-dask[bench]'"
        )
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder:
        materials = _prepare(names, corpora, folder, ingest, progress)
        train_generated()
        for material in materials:
            searches = _search(material, n_seeds, progress)
            yield tabulate_searches(material.name, searches, material.halves)
            yield _compare(material, searches, n_seeds, progress)
        largest = max(materials, key=lambda material: material.store.n_entries)
        yield [*measure_workers(largest, progress), *measure_start(progress)]


def _prepare(
    names: Sequence[str], corpora: str | None, folder: str, ingest: Ingest, progress: Progress
) -> list[Material]:
    return [_read(config) for config in ingest_corpora(names, corpora, folder, ingest, progress)]


def ingest_corpora(
    names: Sequence[str], corpora: str | None, folder: str, ingest: Ingest, progress: Progress
) -> list[RunConfig]:
    """Ingest corpora of the paper, each into a folder of its own."""
    configs = [paper_config(name, corpora, f"{folder}/{name}") for name in names]
    with connect(ClusterOptions(local=LocalOptions())) as client:
        for config in configs:
            ingest(config, client, progress)
    return configs


def _read(config: RunConfig) -> Material:
    store = CorpusStore.open(RunLayout(config.output).corpus("train"))
    train = store.matrix()
    test = CorpusStore.open(RunLayout(config.output).corpus("test")).matrix()
    halves = split_halves(test, np.asarray(train.sum(axis=0)).ravel() > 0)
    if not halves.held_out.nnz:
        raise InputError(
            f"the test documents of {config.name} must have words that occur in training, got none"
        )
    return Material(config.name, config.null_model.topics, store, train, halves)


def split_halves(documents: csr_matrix, known: np.ndarray[Any, Any]) -> Halves:
    """Split the tokens of `known` words of each document at random into halves, the second one
    larger if the number is odd. Documents with fewer than two such tokens are left out."""
    from scipy.sparse import csr_matrix

    entries = documents.tocoo()
    counts = np.where(known[entries.col], entries.data, 0)
    rows, columns = np.repeat(entries.row, counts), np.repeat(entries.col, counts)
    order = np.lexsort((open_stream(1, "bench/halves").random(len(rows)), rows))
    rows, columns = rows[order], columns[order]
    lengths = np.bincount(rows, minlength=documents.shape[0])
    firsts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    in_first = np.arange(len(rows)) - firsts[rows] < lengths[rows] // 2

    def collect(chosen: np.ndarray[Any, Any]) -> csr_matrix:
        ones = np.ones(int(chosen.sum()), np.int64)
        whole = csr_matrix((ones, (rows[chosen], columns[chosen])), shape=documents.shape)
        return whole[lengths >= 2]

    return Halves(collect(in_first), collect(~in_first))


def _search(material: Material, n_seeds: int, progress: Progress) -> list[SelectedOrder]:
    orders = (material.topics.min, material.topics.max)
    searches = []
    with progress.task(f"search the order of {material.name}", n_seeds, "searches") as task:
        for seed in range(1, n_seeds + 1):
            model, learned = learn_ptm(material, orders, seed)
            searches.append(SelectedOrder(seed, model.bic_, learned))
            task.advance(topics=model.n_topics_, bic=f"{model.bic_:,.0f}")
    return searches


def tabulate_searches(name: str, searches: Sequence[SelectedOrder], halves: Halves) -> list[Row]:
    """Make a row for each order selection, and one with the mean and range of all."""
    likelihoods = [
        complete_documents(search.learned.proportions, search.learned.words, halves.held_out)[0]
        for search in searches
    ]

    def row(seed: str, chosen: slice) -> Row:
        some = searches[chosen]
        return {
            "search over orders": name,
            "seed": seed,
            "topics": spread([search.n_topics for search in some], 0),
            "BIC": spread([search.bic for search in some], 0),
            "CPU seconds": spread([search.learned.cpu_seconds for search in some], 1),
            "held-out log-likelihood per word": spread(likelihoods[chosen], 3),
        }

    rows = [row(str(search.seed), slice(n, n + 1)) for n, search in enumerate(searches)]
    return [*rows, row("all", slice(None))]


def _compare(
    material: Material, searches: Sequence[SelectedOrder], n_seeds: int, progress: Progress
) -> list[Row]:
    """Compare PTM with LDA, at the best number of topics."""
    best = min(searches, key=lambda search: search.bic)
    results: dict[str, list[Learned]] = {}
    total = len(METHODS) * n_seeds
    with progress.task(f"compare on {material.name}", total, "models") as task:
        for method, learn in METHODS.items():
            results[method] = []
            for seed in range(1, n_seeds + 1):
                results[method].append(learn(material, best.n_topics, seed))
                task.advance(method=method)
    whole = f"PTM, {material.topics.max} to {material.topics.min} topics, best of {n_seeds}"
    seconds = [search.learned.cpu_seconds for search in searches]
    rows = [_row(material, whole, [best.learned], [sum(seconds)], progress)]
    for method, learned in results.items():
        seconds = [one.cpu_seconds for one in learned]
        rows.append(_row(material, method, learned, seconds, progress))
    return rows


def _row(
    material: Material,
    method: str,
    results: Sequence[Learned],
    seconds: Sequence[float],
    progress: Progress,
) -> Row:
    likelihoods = []
    for learned in results:
        likelihood, n_low = complete_documents(
            learned.proportions, learned.words, material.halves.held_out
        )
        likelihoods.append(likelihood)
        if n_low:
            progress.warn(f"{method}: {n_low} held-out words are less probable than {FLOOR:g}")
    return {
        "corpus": material.name,
        "method": method,
        "topics": spread([len(learned.words) for learned in results], 0),
        "CPU seconds": spread(seconds, 2),
        "held-out log-likelihood per word": spread(likelihoods, 3),
        "word parameters": spread([learned.n_parameters for learned in results], 0),
    }


def measure_workers(material: Material, progress: Progress) -> list[Row]:
    """Measure the wall-clock time of restarts on one worker and on two."""
    topics = material.topics
    training = Training(
        material.store, OrderRange(topics.max, topics.min, topics.step), Convergence(), seed=1
    )
    seconds = []
    for workers in (1, 2):
        options = ClusterOptions(local=LocalOptions(workers=workers, threads=1))
        with (
            progress.task(f"search {material.name} with workers: {workers}"),
            connect(options) as client,
        ):
            run_on_workers(client, train_generated)
            start = time.perf_counter()
            train_restarts(training, RESTARTS, client)
            seconds.append(time.perf_counter() - start)
    what = f"{material.name}, {RESTARTS} searches over orders"
    one, two = seconds
    return [
        {"what": f"{what}, 1 worker", "seconds": f"{one:.1f}"},
        {"what": f"{what}, 2 workers", "seconds": f"{two:.1f} ({one / two:.2f} times as fast)"},
    ]


def measure_start(progress: Progress) -> list[Row]:
    """Measure the time from the start of a process to a trained small model."""
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-kernels-") as cache,
        progress.task("start afresh", 2, "processes") as task,
    ):
        for what in ("nothing compiled", "kernels in the cache"):
            start = time.perf_counter()
            start_process(cache)
            seconds = time.perf_counter() - start
            rows.append({"what": f"a new process, {what}", "seconds": f"{seconds:.1f}"})
            task.advance()
    return rows


def start_process(cache: str) -> None:
    """Train a small model in a new process, with the compilation cache in the folder `cache`."""
    program = f"from {__name__} import train_generated; train_generated()"
    environment = {**os.environ, "ATD_DASK_CACHE": cache}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def train_generated() -> ParsimoniousTopicModel:
    """Train a small model and transform its documents, so that every kernel of training is
    compiled."""
    documents = generate_documents(n_docs=200, n_topics=4, n_words=200)
    model = ParsimoniousTopicModel((3, 8)).fit(documents)
    model.transform(documents)
    return model


def generate_documents(n_docs: int, n_topics: int, n_words: int) -> Any:
    """Draw counts (documents × words); half of a document's words are its topic's own."""
    stream = open_stream(1, "bench/generated")
    n_own = n_words // (2 * n_topics)
    counts = np.zeros((n_docs, n_words), np.int64)
    for d in range(n_docs):
        own = d % n_topics * n_own + stream.integers(n_own, size=30)
        np.add.at(counts[d], own, 1)
        np.add.at(counts[d], stream.integers(n_words, size=30), 1)
    return counts
