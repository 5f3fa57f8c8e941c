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
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.bench.usage import Row, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.run_config import RunConfig, TopicsConfig
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import run_on_workers
from atd_dask.distribution.training import Training, train_restarts
from atd_dask.errors import InputError, UserError
from atd_dask.estimators.corpora import as_corpus
from atd_dask.estimators.topic_model import ParsimoniousTopicModel
from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.model import Floats, WordTable
from atd_dask.kernels.statistics import collect_block
from atd_dask.kernels.streams import open_stream
from atd_dask.kernels.training import Convergence, OrderRange
from atd_dask.kernels.word_switches import make_table
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from atd_dask.bench.usage import Ingest
    from atd_dask.progress import Progress

PACKAGES = ("gensim", "sklearn", "tomotopy")
GENSIM_PASSES = 10
TOMOTOPY_ITERATIONS = 1000
SMOOTHING = 1000.0  # tokens; anything from 300 to 3000 makes little difference
RESTARTS = 4  # on one worker, and on two

# The smallest probability of a word, so that its logarithm is finite. It is far below what any
# method would predict; a larger one would favour methods that rule words out.
FLOOR = 1e-300


@dataclass(frozen=True)
class Halves:
    """Test documents in two halves, documents × words."""

    observed: csr_matrix
    held_out: csr_matrix


@dataclass(frozen=True)
class Material:
    """A corpus prepared for measurement."""

    name: str
    topics: TopicsConfig
    store: CorpusStore  # of the training documents
    train: csr_matrix
    halves: Halves


@dataclass(frozen=True)
class Learned:
    """What a method learned from the training documents and the observed halves."""

    words: Floats  # topics × words: probabilities
    proportions: Floats  # documents × topics
    n_parameters: int
    cpu_seconds: float


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
    configs = [paper_config(name, corpora, f"{folder}/{name}") for name in names]
    with connect(ClusterOptions(local=LocalOptions())) as client:
        for config in configs:
            ingest(config, client, progress)
    return [_read(config) for config in configs]


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


def complete_documents(
    proportions: Floats, words: Floats, held_out: csr_matrix
) -> tuple[float, int]:
    """Return the log-likelihood per word of the held-out tokens, and how many of them were raised
    to `FLOOR`."""
    entries = held_out.tocoo()
    probabilities = np.einsum("ek,ke->e", proportions[entries.row], words[:, entries.col])
    logs = np.log(np.maximum(probabilities, FLOOR))
    n_low = int(entries.data[probabilities < FLOOR].sum())
    return float(entries.data @ logs / entries.data.sum()), n_low


def count_lda_parameters(n_topics: int, n_words: int) -> int:
    """Count free parameters: every topic has a probability for every word, summing to one."""
    return n_topics * (n_words - 1)


def count_parameters(table: WordTable) -> int:
    """Count free parameters: the topic-specific words, and the words of the shared model."""
    return len(table.probabilities) + int(np.count_nonzero(table.shared))


def _clock(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of `work` and its CPU time, with linear algebra on one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        start = time.process_time()
        result = work()
        return result, time.process_time() - start


def learn_ptm(
    material: Material, n_topics: int | tuple[int, int], seed: int
) -> tuple[ParsimoniousTopicModel, Learned]:
    """Fit the parsimonious topic model at one order, or at the best of a range (least, most)."""
    model = ParsimoniousTopicModel(n_topics, step=material.topics.step, random_state=seed)
    _, seconds = _clock(lambda: model.fit(material.train))
    proportions = model.transform(material.halves.observed)
    n_parameters = count_parameters(model.model_.table)
    return model, Learned(model.components_, proportions, n_parameters, seconds)


def learn_smoothed(material: Material, n_topics: int, seed: int) -> Learned:
    """Fit the same topics with their own probability of every word: its expected count, smoothed
    with `SMOOTHING` tokens of the shared model. The difference is the cost of parsimony."""
    model = ParsimoniousTopicModel(n_topics, random_state=seed)
    train, _ = as_corpus(material.train, None)
    block = train.rows(0, train.n_docs)

    def learn() -> Floats:
        table = model.fit(material.train).model_.table
        expected = collect_block(block, table, fit_block(block, table).proportions)
        words = SMOOTHING * np.tile(table.shared, (table.n_topics, 1))
        topics = np.repeat(np.arange(table.n_topics), np.diff(expected.indptr))
        words[topics, expected.words] += expected.mass
        smoothed: Floats = words / words.sum(axis=1, keepdims=True)
        return smoothed

    words, seconds = _clock(learn)
    table = make_table(model.model_.table.shared, np.ones(words.shape, np.bool_), words)
    observed, _ = as_corpus(material.halves.observed, None)
    fit = fit_block(observed.rows(0, observed.n_docs), table)
    n_parameters = count_lda_parameters(*words.shape)
    return Learned(words, fit.proportions.dense(len(words)), n_parameters, seconds)


def learn_sklearn(method: str, material: Material, n_topics: int, seed: int) -> Learned:
    """Fit scikit-learn's LDA; the method is `batch` or `online`."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(n_topics, learning_method=method, random_state=seed, n_jobs=1)
    _, seconds = _clock(lambda: model.fit(material.train))
    words = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return _learned(words, model.transform(material.halves.observed), seconds)


def learn_gensim(material: Material, n_topics: int, seed: int) -> Learned:
    """Fit gensim's LDA."""
    from gensim.models import LdaModel

    n_words = material.train.shape[1]
    documents = list(_pairs(material.train))
    model, seconds = _clock(
        lambda: LdaModel(
            documents,
            num_topics=n_topics,
            id2word={word: str(word) for word in range(n_words)},
            passes=GENSIM_PASSES,
            random_state=seed,
        )
    )
    observed = list(_pairs(material.halves.observed))
    proportions = np.zeros((len(observed), n_topics))
    for row, document in enumerate(observed):
        for topic, share in model.get_document_topics(document, minimum_probability=0):
            proportions[row, topic] = share
    return _learned(model.get_topics(), proportions, seconds)


def _pairs(documents: csr_matrix) -> Iterator[list[tuple[int, int]]]:
    for row in documents:
        yield list(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def learn_tomotopy(material: Material, n_topics: int, seed: int) -> Learned:
    """Fit tomotopy's LDA, which uses Gibbs sampling."""
    with warnings.catch_warnings():
        # Its compiled types lack an attribute that Python expects.
        warnings.filterwarnings("ignore", "builtin type", DeprecationWarning)
        import tomotopy

    model = tomotopy.LDAModel(k=n_topics, seed=seed)
    for document in _tokens(material.train):
        if document:
            model.add_doc(document)
    _, seconds = _clock(lambda: model.train(TOMOTOPY_ITERATIONS, workers=1))
    words = np.zeros((n_topics, material.train.shape[1]))
    columns = np.array([int(word) for word in model.used_vocabs])
    for topic in range(n_topics):
        words[topic, columns] = model.get_topic_word_dist(topic)
    observed = [model.make_doc(document) for document in _tokens(material.halves.observed)]
    proportions, _ = model.infer(observed, workers=1)
    return _learned(words, np.array(proportions), seconds)


def _tokens(documents: csr_matrix) -> Iterator[list[str]]:
    for row in documents:
        yield list(map(str, np.repeat(row.indices, row.data).tolist()))


def _learned(words: Floats, proportions: Floats, seconds: float) -> Learned:
    """Return what an LDA learned, with single precision renormalised to sums of one."""
    words = words.astype(np.float64)
    proportions = proportions.astype(np.float64)
    return Learned(
        words / words.sum(axis=1, keepdims=True),
        proportions / proportions.sum(axis=1, keepdims=True),
        count_lda_parameters(*words.shape),
        seconds,
    )


METHODS: dict[str, Callable[[Material, int, int], Learned]] = {
    "PTM, this number of topics": lambda *given: learn_ptm(*given)[1],
    "PTM, every word smoothed": learn_smoothed,
    "scikit-learn LDA, batch": partial(learn_sklearn, "batch"),
    "scikit-learn LDA, online": partial(learn_sklearn, "online"),
    "gensim LDA": learn_gensim,
    "tomotopy LDA": learn_tomotopy,
}


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
