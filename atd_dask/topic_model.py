"""The parsimonious topic model as an estimator, with the conventions of scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.errors import InputError
from atd_dask.kernels import authors
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.fitting import Fit, fit_block
from atd_dask.kernels.model import Block
from atd_dask.kernels.training import Convergence, CostTerms, OrderRange, OrderRecord
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel, read_model, write_model

if TYPE_CHECKING:
    from distributed import Client


class ParsimoniousTopicModel:
    """A topic model in which a topic says something of its own about few words only.

    `n_topics` is a number, or a pair (least, most) between which the number of least BIC is chosen.
    `random_state` is the seed; the same seed and documents give the same model, byte for byte, with
    a Dask client or without. Documents are a `CorpusStore`, a SciPy sparse matrix or an array
    (documents × words), or a list with a mapping from word to count for each document.
    """

    def __init__(
        self,
        n_topics: int | tuple[int, int] = (10, 35),
        *,
        step: int = 1,
        restarts: int = 1,
        tolerance: float = 1e-4,
        max_iterations: int = 100,
        random_state: int = 1,
        compatibility: str = "paper",
    ) -> None:
        self.n_topics = n_topics
        self.step = step
        self.restarts = restarts
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.random_state = random_state
        self.compatibility = compatibility

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, by name."""
        names = ("n_topics", "step", "restarts", "tolerance", "max_iterations", "random_state")
        return {name: getattr(self, name) for name in (*names, "compatibility")}

    def fit(
        self,
        documents: Any,
        y: None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> Self:
        """Learns the topics. `vocabulary` names the columns of a matrix."""
        corpus, words = _as_corpus(documents, vocabulary)
        if not corpus.lengths().any():
            raise InputError("a topic model must be fitted on documents with words, got none")
        least, most = self._orders()
        training = Training(
            corpus,
            OrderRange(most, least, self.step),
            Convergence(self.tolerance, self.max_iterations),
            self.random_state,
            CostTerms(authors=self.compatibility == "authors"),
        )
        searches = train_restarts(training, self.restarts, client)
        records = tuple(search.records for search in searches)
        table = choose_best(searches)
        self._model = NullModel(table, words, records, self.get_params(), corpus.digest)
        return self

    def _orders(self) -> tuple[int, int]:
        pair = (self.n_topics, self.n_topics) if isinstance(self.n_topics, int) else self.n_topics
        least, most = pair
        if not 1 <= least <= most:
            raise InputError(
                "n_topics must be a number from 1 on, or a pair of them in ascending order,"
                f" got {self.n_topics!r}"
            )
        return least, most

    @property
    def model_(self) -> NullModel:
        """The fitted model."""
        try:
            return self._model
        except AttributeError:
            raise InputError("a topic model must be fitted before it is used") from None

    @property
    def n_topics_(self) -> int:
        return self.model_.table.n_topics

    @property
    def bic_(self) -> float:
        """The BIC on the documents that it was fitted on."""
        return self.model_.record.bic

    @property
    def order_search_(self) -> tuple[tuple[OrderRecord, ...], ...]:
        """For each restart, what was found at each number of topics."""
        return self.model_.restarts

    @property
    def components_(self) -> NDArray[np.float64]:
        """Word probabilities, topics × words."""
        return self.model_.table.dense()

    @property
    def vocabulary_(self) -> tuple[str, ...]:
        return self.model_.vocabulary

    def top_words(self, topic: int, n: int = 10) -> list[str]:
        """The words that the topic makes most more likely: of its own, by probability."""
        table = self.model_.table
        words = np.repeat(np.arange(table.n_words), np.diff(table.indptr))
        mine = (table.topics == topic) & (table.excess > 0)
        order = np.argsort(-table.probabilities[mine], kind="stable")[:n]
        return [self.vocabulary_[word] for word in words[mine][order]]

    def transform(self, documents: Any) -> NDArray[np.float64]:
        """Topic proportions, documents × topics; a document without a known word has none."""
        fits = self._fit_documents(documents)
        return np.concatenate([fit.proportions.dense(self.n_topics_) for fit in fits])

    def fit_transform(self, documents: Any, y: None = None, **options: Any) -> NDArray[np.float64]:
        return self.fit(documents, **options).transform(documents)

    def log_likelihood(self, documents: Any) -> NDArray[np.float64]:
        """The log-likelihood of each document."""
        return np.concatenate([fit.log_likelihoods for fit in self._fit_documents(documents)])

    def score(self, documents: Any, y: None = None) -> float:
        """The log-likelihood of all documents."""
        return float(np.cumsum(self.log_likelihood(documents))[-1])

    def bic(self, documents: Any) -> float:
        """The objective for documents that the model was not fitted on (equation testbic)."""
        fits = self._fit_documents(documents)
        return sum(fit.cost for fit in fits) - self.score(documents)

    def _fit_documents(self, documents: Any) -> list[Fit]:
        corpus, _ = _as_corpus(documents, self.vocabulary_)
        table = self.model_.table
        if corpus.n_words != table.n_words:
            raise InputError(
                f"documents must have the {table.n_words} words of the model, got {corpus.n_words}"
            )
        fit = authors.fit_block if self.compatibility == "authors" else fit_block
        blocks = range(len(corpus.block_starts) - 1)
        return [fit(corpus.block(index), table) for index in blocks]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted model as a store."""
        write_model(path, self.model_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ParsimoniousTopicModel:
        """A model that was saved, or that a run has trained."""
        made = cls()
        made._model = read_model(path)
        made.compatibility = made._model.settings.get("compatibility", "paper")
        return made


def _as_corpus(documents: Any, vocabulary: Sequence[str] | None) -> tuple[Corpus, tuple[str, ...]]:
    """Whatever a user has, as a corpus in blocks and its words."""
    if isinstance(documents, CorpusStore):
        return documents, documents.vocabulary
    from scipy import sparse

    if isinstance(documents, list) and documents and isinstance(documents[0], Mapping):
        if vocabulary is None:
            vocabulary = sorted({str(word) for document in documents for word in document})
        documents = _count_mappings(documents, vocabulary)
    try:
        matrix = sparse.csr_array(documents)
    except (TypeError, ValueError) as error:
        raise InputError(
            "documents must be a corpus store, a matrix of counts or a list of mappings from word"
            f" to count, got {type(documents).__name__}"
        ) from error
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    values = matrix.data
    whole = values.astype(np.int32)
    if matrix.ndim != 2 or np.any(whole != values) or np.any(whole < 0):
        raise InputError("counts must be whole numbers from 0 on, documents × words")
    n_words = matrix.shape[1]
    words = tuple(vocabulary) if vocabulary is not None else tuple(map(str, range(n_words)))
    if len(words) != n_words:
        raise InputError(f"a vocabulary must name the {n_words} columns, got {len(words)} words")
    block = Block(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), whole)
    return MemoryCorpus(block, n_words), words


def _count_mappings(documents: list[Mapping[str, int]], vocabulary: Sequence[str]) -> Any:
    from scipy import sparse

    number = {word: term for term, word in enumerate(vocabulary)}
    entries = [
        (row, number[str(word)], count)
        for row, document in enumerate(documents)
        for word, count in document.items()
        if str(word) in number
    ]
    rows, terms, counts = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(documents), len(vocabulary))
    return sparse.coo_array((np.array(counts, float), (rows, terms)), shape=shape)
