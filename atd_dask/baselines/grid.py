"""The grid of hyperparameters, as independent pieces of work; only the topics of the training
documents are needed by others.

The paper names the hyperparameters of each method but not their values, so these are ours. A piece
computes the scores of all settings that come at no extra cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.baselines import batch, m4, neighbours, one_class
from atd_dask.baselines.features import divide_by_length
from atd_dask.baselines.lda import choose_groups, group_documents, learn_proportions
from atd_dask.kernels.model import Floats, Ints
from atd_dask.storage.corpus import CorpusStore

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# The methods of the paper, and those that see the whole batch.
METHODS = (
    *("M4", "LB", "SVM_linear", "SVM_RBF", "NN_LDA", "NN_BOW"),
    *("NN_batch", "LR_batch", "KMeans_batch"),
)

Arrays = Mapping[str, NDArray[Any]]
StoreKey = tuple[str, str]  # the URL of a store, and its digest


@dataclass(frozen=True)
class Grid:
    """The values to try."""

    topics: tuple[int, ...] = (5, 10, 15, 20, 30, 60)  # M, and the number of groups
    genres: tuple[int, ...] = (2, 3, 5)  # T of M4
    neighbours: tuple[int, ...] = (1, 2, 5, 10, 20, 50)  # K of NN
    nu: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the support vector machines
    gamma: tuple[float, ...] = (10.0, 100.0, 1000.0, 10000.0)  # of the radial kernel
    near: tuple[int, ...] = (5, 10, 20, 50, 100, 200)  # K of NN in the batch; in training 3 K
    strength: tuple[float, ...] = (
        0.1,
        1.0,
        10.0,
        100.0,
    )  # C of the regression of batch on training
    clusters: tuple[int, ...] = (20, 40)  # of the KMeans of the batch

    def describe(self) -> dict[str, list[float]]:
        return {name: list(values) for name, values in asdict(self).items()}


@dataclass(frozen=True)
class Point:
    """A piece of work: what to compute, with which settings, and with which seed if it matters."""

    kind: str
    settings: tuple[tuple[str, float], ...] = ()
    seed: int | None = None

    @property
    def name(self) -> str:
        parts = [self.kind, *(f"{name}-{value:g}" for name, value in self.settings)]
        return "_".join(parts if self.seed is None else [*parts, f"seed-{self.seed}"])

    @property
    def needs(self) -> tuple[Point, ...]:
        """The points that must be computed before."""
        if self.kind not in ("m4", "nn-lda"):
            return ()
        n_topics = dict(self.settings)["topics"]
        return (Point("topics", (("topics", n_topics),), self.seed),)


def list_points(grid: Grid, seeds: Sequence[int]) -> list[Point]:
    """List all points, each after those it needs, longest first."""

    def along(kind: str, name: str, values: Sequence[float]) -> Iterator[Point]:
        for value in values:
            for seed in seeds:
                yield Point(kind, ((name, value),), seed)

    topics = sorted(grid.topics, reverse=True)
    return [
        *along("topics", "topics", topics),
        *along("clusters", "topics", topics),
        *along("batch-clusters", "clusters", sorted(grid.clusters, reverse=True)),
        Point("nn-bow"),
        Point("batch-neighbours"),
        *along("batch-regression", "strength", grid.strength),
        *(
            Point("svm-rbf", (("gamma", gamma), ("nu", nu)))
            for gamma in grid.gamma
            for nu in grid.nu
        ),
        *(Point("svm-linear", (("nu", nu),)) for nu in grid.nu),
        *(
            Point("m4", (("topics", n_topics), ("genres", n_genres)), seed)
            for n_topics in topics
            for n_genres in grid.genres
            if n_genres <= n_topics
            for seed in seeds
        ),
        *along("nn-lda", "topics", topics),
    ]


@dataclass(frozen=True)
class GridWork:
    """What every point is computed from. It is sent to workers, which open the stores."""

    train: CorpusStore
    test: CorpusStore
    grid: Grid

    def compute(self, point: Point, needed: Sequence[Arrays]) -> Arrays:
        """Compute a point; `needed` has the results of the points it needs, in order."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            return _COMPUTE[point.kind](self, dict(point.settings), point.seed, *needed)

    def matrices(self) -> tuple[csr_matrix, csr_matrix]:
        train, test = self.store_keys
        return _read(train), _read(test)

    @property
    def store_keys(self) -> tuple[StoreKey, StoreKey]:
        return (self.train.url, self.train.digest), (self.test.url, self.test.digest)


@lru_cache(maxsize=2)
def _read(store: StoreKey) -> csr_matrix:
    """Read the counts of a store, once per worker."""
    return CorpusStore.open(store[0]).matrix()


def _compute_topics(work: GridWork, settings: dict[str, float], seed: int | None) -> Arrays:
    train, test = work.matrices()
    own, other = learn_proportions(train, test, int(settings["topics"]), seed or 0)
    return {"train": own, "test": other}


def _compute_clusters(work: GridWork, settings: dict[str, float], seed: int | None) -> Arrays:
    _, test = work.matrices()
    return {"groups": group_documents(test, int(settings["topics"]), seed or 0)}


def _compute_machine(work: GridWork, settings: dict[str, float], seed: int | None) -> Arrays:
    scores = one_class.score_documents(
        _multiply(*work.store_keys), settings["nu"], settings.get("gamma")
    )
    return {"scores": scores}


@lru_cache(maxsize=1)
def _multiply(train: StoreKey, test: StoreKey) -> one_class.Products:
    """Compute the inner products of a corpus, once per worker."""
    return one_class.Products.of(_read(train), _read(test))


def _compute_m4(
    work: GridWork, settings: dict[str, float], seed: int | None, topics: Arrays
) -> Arrays:
    train, test = work.matrices()
    n_topics, n_genres = int(settings["topics"]), int(settings["genres"])
    model = m4.learn(train, choose_groups(topics["train"]), n_topics, n_genres, seed or 0)
    return {"scores": m4.score_documents(model, test, choose_groups(topics["test"]))}


def _compute_words(work: GridWork, settings: dict[str, float], seed: int | None) -> Arrays:
    train, test = work.matrices()
    return _compare(work, divide_by_length(train), divide_by_length(test))


def _compute_proportions(
    work: GridWork, settings: dict[str, float], seed: int | None, topics: Arrays
) -> Arrays:
    return _compare(work, topics["train"], topics["test"])


def _compare(work: GridWork, train: Any, test: Any) -> Arrays:
    found = neighbours.compare_distances(train, test, work.grid.neighbours)
    return {"distances": found.distances, "p_values": found.p_values}


def _compute_batch_neighbours(
    work: GridWork, settings: dict[str, float], seed: int | None
) -> Arrays:
    vectors = _weigh(*work.store_keys)
    return {"scores": batch.compare_neighbours(*vectors, work.grid.near)}


def _compute_regression(work: GridWork, settings: dict[str, float], seed: int | None) -> Arrays:
    vectors = _weigh(*work.store_keys)
    return {"scores": batch.tell_apart(*vectors, settings["strength"], seed or 0)}


def _compute_batch_clusters(work: GridWork, settings: dict[str, float], seed: int | None) -> Arrays:
    vectors = _weigh(*work.store_keys)
    found = batch.find_clusters(*vectors, int(settings["clusters"]), seed or 0)
    return {"groups": found.groups, "excess": found.excess, "scores": found.scores}


@lru_cache(maxsize=1)
def _weigh(train: StoreKey, test: StoreKey) -> tuple[csr_matrix, csr_matrix]:
    """Compute the tf-idf of a corpus, once per worker."""
    return batch.weigh_words(_read(train), _read(test))


_COMPUTE: dict[str, Callable[..., Arrays]] = {
    "topics": _compute_topics,
    "clusters": _compute_clusters,
    "svm-linear": _compute_machine,
    "svm-rbf": _compute_machine,
    "m4": _compute_m4,
    "nn-bow": _compute_words,
    "nn-lda": _compute_proportions,
    "batch-neighbours": _compute_batch_neighbours,
    "batch-regression": _compute_regression,
    "batch-clusters": _compute_batch_clusters,
}


@dataclass(frozen=True)
class Trial:
    """A method with one setting: the scores of the test documents, and the groups."""

    setting: str
    scores: Floats  # documents: larger is more anomalous
    weights: Floats  # documents: the contribution to the weight of the group
    counted: bool  # whether the weight of a group is the sum or the mean
    groups: Ints  # documents


def list_trials(
    grid: Grid, seed: int, results: Mapping[Point, Arrays], likelihood: Floats
) -> dict[str, list[Trial]]:
    """List the trials of each method for one seed; `likelihood` has the scores of LB.

    M4 and NN (LDA) have a topic model of the training documents, which makes their groups. KMeans
    has its clusters. The groups of the other methods come from an LDA of the test batch.
    """
    trials: dict[str, list[Trial]] = {name: [] for name in METHODS}

    def add(method: str, scores: Floats, weights: Floats, groups: Ints, **setting: float) -> None:
        text = ", ".join(f"{name} {value:g}" for name, value in setting.items())
        counted = method.startswith("SVM")
        trials[method].append(Trial(text, scores, weights, counted, groups))

    def machines(method: str, kind: str, n_topics: int, groups: Ints) -> None:
        for point, arrays in results.items():
            if point.kind == kind:
                scores = arrays["scores"]
                weights = (scores > 0).astype(np.float64)
                add(method, scores, weights, groups, topics=n_topics, **dict(point.settings))

    def distances(method: str, arrays: Arrays, n_topics: int, groups: Ints) -> None:
        for index, number in enumerate(grid.neighbours):
            far, p_values = arrays["distances"][index], arrays["p_values"][index]
            add(method, far, -p_values, groups, topics=n_topics, neighbours=number)

    for n_topics in grid.topics:
        here = (("topics", n_topics),)
        groups = results[Point("clusters", here, seed)]["groups"]
        add("LB", likelihood, likelihood, groups, topics=n_topics)
        machines("SVM_linear", "svm-linear", n_topics, groups)
        machines("SVM_RBF", "svm-rbf", n_topics, groups)
        distances("NN_BOW", results[Point("nn-bow")], n_topics, groups)
        near = results[Point("batch-neighbours")]["scores"]
        for number, scores in zip(grid.near, near, strict=True):
            add("NN_batch", scores, scores, groups, topics=n_topics, neighbours=number)
        for strength in grid.strength:
            point = Point("batch-regression", (("strength", strength),), seed)
            scores = results[point]["scores"]
            add("LR_batch", scores, scores, groups, topics=n_topics, strength=strength)
        own = choose_groups(results[Point("topics", here, seed)]["test"])
        distances("NN_LDA", results[Point("nn-lda", here, seed)], n_topics, own)
        for n_genres in grid.genres:
            if n_genres <= n_topics:
                scores = results[Point("m4", (*here, ("genres", n_genres)), seed)]["scores"]
                add("M4", scores, scores, own, topics=n_topics, genres=n_genres)
    for n_clusters in grid.clusters:
        found = results[Point("batch-clusters", (("clusters", n_clusters),), seed)]
        weights = found["excess"][found["groups"]]
        add("KMeans_batch", found["scores"], weights, found["groups"], clusters=n_clusters)
    return trials
