"""Topic models of this and other packages, trained on the same documents."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.config.run_config import TopicsConfig
from atd_dask.estimators.corpora import as_corpus
from atd_dask.estimators.topic_model import ParsimoniousTopicModel
from atd_dask.kernels.fitting import fit_block
from atd_dask.kernels.model import Floats, WordTable
from atd_dask.kernels.statistics import collect_block
from atd_dask.kernels.word_switches import make_table
from atd_dask.storage.corpus import CorpusStore

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

GENSIM_PASSES = 10
TOMOTOPY_ITERATIONS = 1000
SMOOTHING = 1000.0  # tokens; anything from 300 to 3000 makes little difference

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
        expected = collect_block(block, table, fit_block(block, table).proportions).expected()
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
