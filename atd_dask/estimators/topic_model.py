"""The parsimonious topic model as a scikit-learn estimator."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.engine.clients import check_client
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.errors import InputError
from atd_dask.estimators.base import Estimator, check_whole, not_fitted_error
from atd_dask.estimators.corpora import are_numbers, as_corpus
from atd_dask.kernels import authors
from atd_dask.kernels.fitting import Fit, fit_block
from atd_dask.kernels.training import (
    Convergence,
    CostTerms,
    OrderRange,
    OrderRecord,
)
from atd_dask.storage.models import NullModel, read_model, write_model

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client

COMPATIBILITIES = ("paper", "authors")


class ParsimoniousTopicModel(Estimator):
    """A topic model in which each topic has its own probabilities for few words only.

    Documents are a `CorpusStore`, a matrix (documents × words) of NumPy, SciPy or `sparse`, or a
    list of mappings from word to count, one for each document. The same documents and seed give the
    same model, byte for byte, with or without a Dask client.

    Parameters
    ----------
    n_topics
        The number of topics, or a pair (least, most) from which the number with the lowest BIC is
        chosen.
    step
        The distance between the numbers of topics that are tried.
    widen
        Whether to try more numbers of topics, up to `limit` or a tenth of the documents, if the
        best one is at an end of the range. Has no effect with `compatibility="authors"`.
    limit
        The largest number of topics to widen the range to.
    restarts
        How many times to train; the model with the lowest BIC is kept.
    tolerance
        The relative change of the BIC at which training has converged.
    max_iterations
        The largest number of iterations for a number of topics.
    random_state
        The seed.
    compatibility
        `"paper"`, or `"authors"` to train as the program of the paper's authors does.
    vocabulary
        The words that name the columns of a matrix, or a `CountVectorizer` that is fitted by the
        time `fit` runs, such as the one before the model in a pipeline. The columns of a DataFrame
        name themselves.

    Attributes
    ----------
    n_topics_ : int
        The number of topics.
    components_ : ndarray
        Word probabilities, topics × words.
    vocabulary_ : tuple of str
        The words, in the order of the columns.
    bic_ : float
        The BIC on the documents that the model was fitted on.
    order_search_ : tuple
        The figures for each number of topics that was tried, for each restart.

    Notes
    -----
    Cloning a pipeline (`clone`, a grid search, `memory=`) makes two vectorizers, only one of which
    gets fitted, and `fit` raises an error. Pass the words to both then:
    `CountVectorizer(vocabulary=…)`.

    Examples
    --------
    >>> from atd_dask import ParsimoniousTopicModel
    >>> from collections import Counter
    >>> from random import Random
    >>> random = Random(1)
    >>> def write(words):
    ...     return Counter(random.choices(words.split(), k=30))
    >>> documents = [write("flour sugar oven egg the of a") for _ in range(40)]
    >>> documents += [write("engine brake wheel road the of a") for _ in range(40)]
    >>> model = ParsimoniousTopicModel(n_topics=2).fit(documents)
    >>> model.top_words(1, 2)
    ['egg', 'oven']
    >>> model.transform(documents[::40])
    array([[0., 1.],
           [1., 0.]])
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
        vocabulary: Any = None,
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
        self.vocabulary = vocabulary

    def fit(
        self,
        documents: Any,
        y: None = None,
        *,
        vocabulary: Any = None,
        client: Client | None = None,
    ) -> Self:
        """Learn the topics.

        Parameters
        ----------
        documents
            The documents to learn from.
        y
            Ignored.
        vocabulary
            The words; they take precedence over those of `__init__`.
        client
            A Dask client whose cluster does the work.

        Returns
        -------
        ParsimoniousTopicModel
            This model, fitted.

        Raises
        ------
        InputError
            If a setting or the documents cannot be used.
        """
        check_client(client)
        orders, settings = self._check_orders(), self._check_settings()
        corpus, words = as_corpus(documents, self.vocabulary if vocabulary is None else vocabulary)
        if not corpus.lengths().any():
            known = f"0 feature(s) (shape=({corpus.n_docs}, 0)) while a minimum of 1 is required."
            raise InputError(
                "a topic model must be fitted on documents with words, got none"
                + (f" ({known})" if corpus.n_words == 0 else "")
            )
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
                "n_topics must be a number of at least 1, or a pair of them in ascending order,"
                f" got {given!r}"
            )
        if not isinstance(self.widen, bool | np.bool_):
            raise InputError(f"widen must be True or False, got {self.widen!r}")
        step, limit = check_whole("step", self.step, 1), check_whole("limit", self.limit, 1)
        authors = self.compatibility == "authors"
        widens = self.widen and pair[0] < pair[1] and not authors
        return OrderRange(
            int(pair[1]), int(pair[0]), step, limit if widens else None, every=authors
        )

    def _check_settings(self) -> dict[str, Any]:
        """Check the settings, and return them as JSON values."""
        if not isinstance(self.tolerance, Real) or not 0 <= self.tolerance < math.inf:
            raise InputError(f"tolerance must be a number of at least 0, got {self.tolerance!r}")
        if self.compatibility not in COMPATIBILITIES:
            names = " or ".join(map(repr, COMPATIBILITIES))
            raise InputError(f"compatibility must be {names}, got {self.compatibility!r}")
        given: Any = self.n_topics
        return {
            "n_topics": int(given) if isinstance(given, Integral) else [int(n) for n in given],
            "step": check_whole("step", self.step, 1),
            "widen": bool(self.widen),
            "limit": check_whole("limit", self.limit, 1),
            "restarts": check_whole("restarts", self.restarts, 1),
            "tolerance": float(self.tolerance),
            "max_iterations": check_whole("max_iterations", self.max_iterations, 1),
            "random_state": check_whole("random_state", self.random_state, 0),
            "compatibility": self.compatibility,
        }

    @property
    def model_(self) -> NullModel:
        """The fitted model."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted_error()("a topic model must be fitted before it is used")
        return self._model

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags

    @property
    def n_topics_(self) -> int:
        """The number of topics."""
        return self.model_.table.n_topics

    @property
    def bic_(self) -> float:
        """The BIC on the documents that the model was fitted on."""
        return self.model_.record.bic

    @property
    def order_search_(self) -> tuple[tuple[OrderRecord, ...], ...]:
        """The figures for each number of topics that was tried, for each restart."""
        return self.model_.restarts

    @property
    def components_(self) -> NDArray[np.float64]:
        """Word probabilities, topics × words."""
        return self.model_.table.dense()

    @property
    def vocabulary_(self) -> tuple[str, ...]:
        """The words, in the order of the columns."""
        return self.model_.vocabulary

    @property
    def n_features_in_(self) -> int:
        """The number of columns of a matrix of documents."""
        return len(self.vocabulary_)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The words, if they were named."""
        words = self.vocabulary_
        if are_numbers(words):
            raise AttributeError("the columns of the documents were not named")
        return np.array(words, object)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return a name for each column of the output of `transform`."""
        kind = type(self).__name__.lower()
        if input_features is not None and len(input_features) != self.n_features_in_:
            raise InputError(
                f"input_features should have length equal to {self.n_features_in_}, the number of"
                f" words, got {len(input_features)}"
            )
        return np.array([f"{kind}{topic}" for topic in range(self.n_topics_)], object)

    def top_words(self, topic: int, n: int = 10) -> list[str]:
        """Return the words that a topic makes more likely, most telling first.

        Parameters
        ----------
        topic
            The number of the topic, from 0.
        n
            The largest number of words.

        Returns
        -------
        list of str

        Raises
        ------
        InputError
            If there is no such topic.
        """
        if not 0 <= topic < self.n_topics_:
            raise InputError(
                f"a topic must be a number from 0 to {self.n_topics_ - 1}, got {topic}"
            )
        return self.model_.top_words(topic, n)

    def transform(self, documents: Any) -> NDArray[np.float64]:
        """Return the topic proportions of documents.

        Parameters
        ----------
        documents
            Documents, with the words that the model was fitted on.

        Returns
        -------
        ndarray
            Documents × topics. The row of a document without known words is zero.

        Raises
        ------
        InputError
            If the documents cannot be used.
        """
        fits = self._fit_documents(documents)
        return np.concatenate([fit.proportions.dense(self.n_topics_) for fit in fits])

    def fit_transform(self, documents: Any, y: None = None, **options: Any) -> NDArray[np.float64]:
        """Fit the model, and return the topic proportions of the same documents."""
        return self.fit(documents, **options).transform(documents)

    def log_likelihood(self, documents: Any) -> NDArray[np.float64]:
        """Return the log-likelihood of each document.

        Parameters
        ----------
        documents
            Documents, with the words that the model was fitted on.

        Returns
        -------
        ndarray
            Natural logarithms; 0 for a document without known words.
        """
        return np.concatenate([fit.log_likelihoods for fit in self._fit_documents(documents)])

    def score(self, documents: Any, y: None = None) -> float:
        """Return the log-likelihood of all documents together.

        Parameters
        ----------
        documents
            Documents, with the words that the model was fitted on.
        y
            Ignored, for scikit-learn's sake.

        Returns
        -------
        float
        """
        return math.fsum(self.log_likelihood(documents))

    def bic(self, documents: Any) -> float:
        """Return the BIC of documents that the model was not fitted on.

        It has the log-likelihood and the cost of the topics of each document (equation testbic of
        the paper), but not that of the words of the topics.

        Parameters
        ----------
        documents
            Documents, with the words that the model was fitted on.

        Returns
        -------
        float
        """
        fits = self._fit_documents(documents)
        return math.fsum(np.concatenate([fit.costs - fit.log_likelihoods for fit in fits]))

    def _fit_documents(self, documents: Any) -> list[Fit]:
        corpus, _ = as_corpus(documents, self.vocabulary_, type(self).__name__)
        table = self.model_.table
        fit = authors.fit_block if self.compatibility == "authors" else fit_block
        if corpus.n_docs == 0:
            return [fit(corpus.rows(0, 0), table)]
        return [fit(corpus.block(index), table) for index in range(len(corpus.block_starts) - 1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a store.

        Parameters
        ----------
        path
            Where to write it: a path, or a URL such as `s3://bucket/model.zarr`.
        """
        write_model(path, self.model_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ParsimoniousTopicModel:
        """Read a model that `save` wrote or a run trained.

        Its words are not among its settings: pass them again to fit it on other documents.

        Parameters
        ----------
        path
            The path or URL of the store.

        Returns
        -------
        ParsimoniousTopicModel

        Raises
        ------
        InputError
            If there is no model.
        """
        model = read_model(path)
        known = cls().get_params()
        settings = {name: model.settings[name] for name in known if name in model.settings}
        if isinstance(settings.get("n_topics"), list):
            settings["n_topics"] = tuple(settings["n_topics"])
        made = cls(**settings)
        made._model = model
        return made
