"""The parsimonious topic model as an estimator, with the conventions of scikit-learn."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.errors import InputError
from atd_dask.kernels import authors
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.fitting import Fit, fit_block
from atd_dask.kernels.model import Block
from atd_dask.kernels.training import (
    Convergence,
    CostTerms,
    OrderRange,
    OrderRecord,
)
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import NullModel, read_model, write_model

if TYPE_CHECKING:
    from distributed import Client

COMPATIBILITIES = ("paper", "authors")
SETTINGS = (
    "n_topics",
    "step",
    "widen",
    "limit",
    "restarts",
    "tolerance",
    "max_iterations",
    "random_state",
    "compatibility",
)


class ParsimoniousTopicModel:
    """A topic model in which a topic says something of its own about few words only.

    `n_topics` is a number, or a pair (least, most) between which the number of least BIC is chosen.
    Where that is at an end of the range, further numbers are tried, up to `limit` or a tenth of the
    documents; with `widen=False`, or as the authors do it, the range is kept.
    `random_state` is the seed; the same seed and documents give the same model, byte for byte, with
    a Dask client or without. Documents are a `CorpusStore`, a SciPy sparse matrix or an array
    (documents × words), or a list with a mapping from word to count for each document.
    """

    def __init__(
        self,
        n_topics: int | tuple[int, int] = (10, 35),
        *,
        step: int = 1,
        widen: bool = True,
        limit: int = 200,
        restarts: int = 1,
        tolerance: float = 1e-4,
        max_iterations: int = 100,
        random_state: int = 1,
        compatibility: str = "paper",
    ) -> None:
        self.n_topics = n_topics
        self.step = step
        self.widen = widen
        self.limit = limit
        self.restarts = restarts
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.random_state = random_state
        self.compatibility = compatibility

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, by name."""
        return {name: getattr(self, name) for name in SETTINGS}

    def set_params(self, **settings: Any) -> Self:
        """Changes settings, by name."""
        for name, value in settings.items():
            if name not in SETTINGS:
                raise InputError(f"a setting must be one of {', '.join(SETTINGS)}, got {name!r}")
            setattr(self, name, value)
        return self

    def fit(
        self,
        documents: Any,
        y: None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> Self:
        """Learns the topics. `vocabulary` names the columns of a matrix."""
        orders, settings = self._check_orders(), self._check_settings()
        corpus, words = as_corpus(documents, vocabulary)
        if not corpus.lengths().any():
            raise InputError("a topic model must be fitted on documents with words, got none")
        training = Training(
            corpus,
            orders,
            Convergence(settings["tolerance"], settings["max_iterations"]),
            settings["random_state"],
            CostTerms(authors=self.compatibility == "authors"),
        )
        searches = train_restarts(training, settings["restarts"], client)
        records = tuple(search.records for search in searches)
        table = choose_best(searches)
        self._model = NullModel(table, words, records, settings, corpus.digest)
        return self

    def _check_orders(self) -> OrderRange:
        given: Any = self.n_topics
        pair: Any = (given, given) if isinstance(given, Integral) else given
        if (
            not isinstance(pair, Sequence)
            or len(pair) != 2
            or not all(isinstance(number, Integral) for number in pair)
            or not 1 <= pair[0] <= pair[1]
        ):
            raise InputError(
                "n_topics must be a number from 1 on, or a pair of them in ascending order,"
                f" got {given!r}"
            )
        if not isinstance(self.widen, bool | np.bool_):
            raise InputError(f"widen must be True or False, got {self.widen!r}")
        step, limit = _whole("step", self.step, 1), _whole("limit", self.limit, 1)
        widens = self.widen and pair[0] < pair[1] and self.compatibility != "authors"
        return OrderRange(int(pair[1]), int(pair[0]), step, limit if widens else None)

    def _check_settings(self) -> dict[str, Any]:
        """The settings, fit for JSON."""
        if not isinstance(self.tolerance, Real) or not 0 <= self.tolerance < math.inf:
            raise InputError(f"tolerance must be a number from 0 on, got {self.tolerance!r}")
        if self.compatibility not in COMPATIBILITIES:
            names = " or ".join(map(repr, COMPATIBILITIES))
            raise InputError(f"compatibility must be {names}, got {self.compatibility!r}")
        given: Any = self.n_topics
        return {
            "n_topics": int(given) if isinstance(given, Integral) else [int(n) for n in given],
            "step": _whole("step", self.step, 1),
            "widen": bool(self.widen),
            "limit": _whole("limit", self.limit, 1),
            "restarts": _whole("restarts", self.restarts, 1),
            "tolerance": float(self.tolerance),
            "max_iterations": _whole("max_iterations", self.max_iterations, 1),
            "random_state": _whole("random_state", self.random_state, 0),
            "compatibility": self.compatibility,
        }

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
        """The words of its own that the topic makes more likely, the most telling first."""
        if not 0 <= topic < self.n_topics_:
            raise InputError(
                f"a topic must be a number from 0 to {self.n_topics_ - 1}, got {topic}"
            )
        return self.model_.top_words(topic, n)

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
        return math.fsum(self.log_likelihood(documents))

    def bic(self, documents: Any) -> float:
        """The objective for documents that the model was not fitted on (equation testbic)."""
        fits = self._fit_documents(documents)
        return math.fsum(np.concatenate([fit.costs - fit.log_likelihoods for fit in fits]))

    def _fit_documents(self, documents: Any) -> list[Fit]:
        corpus, _ = as_corpus(documents, self.vocabulary_)
        table = self.model_.table
        fit = authors.fit_block if self.compatibility == "authors" else fit_block
        if corpus.n_docs == 0:
            return [fit(corpus.rows(0, 0), table)]
        return [fit(corpus.block(index), table) for index in range(len(corpus.block_starts) - 1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted model as a store."""
        write_model(path, self.model_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ParsimoniousTopicModel:
        """A model that was saved, or that a run has trained."""
        model = read_model(path)
        settings = {name: model.settings[name] for name in SETTINGS if name in model.settings}
        if isinstance(settings.get("n_topics"), list):
            settings["n_topics"] = tuple(settings["n_topics"])
        made = cls(**settings)
        made._model = model
        return made


def _whole(name: str, value: object, least: int) -> int:
    if not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} must be a whole number from {least} on, got {value!r}")
    return int(value)


def as_corpus(documents: Any, vocabulary: Sequence[str] | None) -> tuple[Corpus, tuple[str, ...]]:
    """Whatever a user has, as a corpus in blocks and its words."""
    words = None if vocabulary is None else _check_vocabulary(vocabulary)
    if isinstance(documents, CorpusStore):
        if words not in (None, documents.vocabulary):
            raise InputError(f"the store {documents.url} must have the given words, but has others")
        return documents, documents.vocabulary
    from scipy import sparse

    if isinstance(documents, tuple):
        # SciPy takes a tuple for coordinates.
        documents = list(documents)
    if isinstance(documents, list) and all(isinstance(entry, Mapping) for entry in documents):
        if words is None:
            words = tuple(sorted({str(word) for document in documents for word in document}))
        documents = _count_mappings(documents, words)
    try:
        matrix = sparse.csr_array(documents, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            "documents must be a corpus store, a matrix of counts or a list of mappings from word"
            f" to count, got {type(documents).__name__}"
        ) from error
    if matrix.ndim != 2:
        raise InputError(f"a matrix of counts must be documents × words, got {matrix.ndim} axes")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _check_counts(matrix)
    n_words = matrix.shape[1]
    if words is None:
        words = tuple(map(str, range(n_words)))
    if len(words) != n_words:
        raise InputError(f"a vocabulary must name the {n_words} columns, got {len(words)} words")
    block = Block(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.int32),
    )
    return MemoryCorpus(block, n_words), words


def _check_vocabulary(vocabulary: Sequence[str]) -> tuple[str, ...]:
    if isinstance(vocabulary, str | Mapping):
        raise InputError(
            "a vocabulary must be a sequence of words in the order of the columns,"
            f" got {type(vocabulary).__name__}"
        )
    words = tuple(map(str, vocabulary))
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise InputError(f"a vocabulary must name each word once, got {word!r} twice")
        seen.add(word)
    return words


def _check_counts(matrix: Any) -> None:
    values = matrix.data
    if values.dtype.kind not in "biuf":
        raise InputError(f"counts must be numbers, got {values.dtype}")
    # The comparisons are false for what is not a number.
    sound = (values >= 0) & (values < 2**31) & (values == np.floor(values))
    if not np.all(sound):
        first = int(np.argmin(sound))
        row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        raise InputError(
            f"counts must be whole numbers from 0 to {2**31 - 1}, got {values[first]} in row {row}"
        )


def _count_mappings(documents: list[Mapping[str, int]], vocabulary: Sequence[str]) -> Any:
    from scipy import sparse

    number = {word: term for term, word in enumerate(vocabulary)}
    entries: list[tuple[int, int, float]] = []
    for row, document in enumerate(documents):
        for word, count in document.items():
            if not isinstance(count, Real):
                raise InputError(f"counts must be numbers, got {count!r} for {word!r} in row {row}")
            if str(word) in number:
                entries.append((row, number[str(word)], float(count)))
    rows, terms, counts = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(documents), len(vocabulary))
    return sparse.coo_array((np.array(counts), (rows, terms)), shape=shape)
