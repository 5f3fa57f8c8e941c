"""Detection on a cluster: candidates grown side by side, bootstrap replicates as tasks.

Without a client the same functions run here, one after the other, and give the same bytes: a
growth does not depend on where it runs, and replicates are judged in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.alternative import Alternative, NullContext
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.bootstrap import ClusterBootstrap, Pool
from atd_dask.kernels.clusters import (
    PREVIEW_SIZE,
    Grower,
    Growth,
    StopRule,
    choose_seeds,
)
from atd_dask.kernels.fitting import Fit, fit_block
from atd_dask.kernels.growth import Batch
from atd_dask.kernels.model import Block, Floats, WordTable
from atd_dask.kernels.philox import make_key

if TYPE_CHECKING:
    from distributed import Client, Future

# So many replicates make a task of some hundred milliseconds for a cluster of a hundred documents.
REPLICATES_PER_TASK = 25
TASKS_PER_THREAD = 3


@dataclass(frozen=True)
class DetectionRules:
    """Where candidates start, when growth ends, which documents are mothers, how a cluster is
    judged."""

    seeds: int
    stop: StopRule
    pool: str  # validation, validation+batch or train
    mothers: int  # the nearest documents from which one is drawn; 1 for the paper's rule
    replicates: int
    level: float
    needs_gain: bool  # a cluster whose BIC is not lower with the new topic is never significant
    max_clusters: int | None = None
    max_size: int | None = None


@dataclass(frozen=True)
class FoundCluster:
    """A candidate that was grown to its end and tested."""

    growth: Growth
    topic: Alternative
    score: float
    scores: Floats  # of the bootstrap clusters
    p_value: float
    significant: bool
    only_mother: int  # so many documents have one and the same document as their only mother

    @property
    def documents(self) -> tuple[int, ...]:
        return self.growth.documents


class Keeper(Protocol):
    """Keeps what is finished, so that a detection can go on where it was."""

    def load_growth(self, index: int) -> Growth | None: ...

    def save_growth(self, index: int, growth: Growth) -> None: ...

    def load_scores(self, index: int) -> Floats: ...

    def save_scores(self, index: int, scores: Floats) -> None: ...


Tell = Callable[[str, dict[str, Any]], None]


def detect(
    table: WordTable,
    test: Corpus,
    pools: dict[str, Corpus],
    rules: DetectionRules,
    seed: int,
    client: Client | None = None,
    keeper: Keeper | None = None,
    tell: Tell = lambda event, facts: None,
    every_word: bool = False,
) -> list[FoundCluster]:
    """The clusters of a batch in the order in which they are found; the last one may be the one
    that was not significant.

    `pools` has the corpora from which mothers are drawn: validation, or train.
    """
    context = NullContext.of(table, every_word)
    runner = _Runner(client)
    block, fit = runner.fit_corpus(test, table)
    home_name = "train" if rules.pool == "train" else "validation"
    home, home_fit = runner.fit_corpus(pools[home_name], table)
    batch = Batch(context, block, fit)
    available = np.ones(len(batch), dtype=np.bool_)
    found: list[FoundCluster] = []
    while rules.max_clusters is None or len(found) < rules.max_clusters:
        index = len(found) + 1
        member_pool = _make_pool(context, rules, home, home_fit)
        growth = keeper.load_growth(index) if keeper else None
        if growth is None:
            growth = runner.propose(batch, available, rules, member_pool, (seed, index), tell)
            if growth is None:
                break
            if keeper:
                keeper.save_growth(index, growth)
        outside = available.copy()
        outside[list(growth.documents)] = False
        pool = member_pool
        if rules.pool == "validation+batch":
            rest = np.flatnonzero(outside)
            pool = _make_pool(
                context, rules, home.join(block.take(rest)), home_fit.join(fit.take(rest))
            )
        cluster = runner.judge(batch, growth, pool, rules, (seed, index), keeper, tell)
        found.append(cluster)
        if not cluster.significant:
            break
        available = outside
    return found


def _make_pool(context: NullContext, rules: DetectionRules, block: Block, fit: Fit) -> Pool:
    return Pool.of(context, block, fit.proportions, rules.mothers, once=rules.mothers > 1)


@dataclass(frozen=True)
class _Runner:
    """Runs the independent pieces on a cluster, or here."""

    client: Client | None

    def map(self, step: Callable[..., Any], shared: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        """step(shared, piece) for every piece, in order, with a bound on those under way. Closed
        early, it cancels what is outstanding."""
        if self.client is None:
            for piece in pieces:
                yield step(shared, piece)
            return
        held = self.client.submit(hold, shared, pure=False)
        threads = sum(self.client.nthreads().values())
        under_way: deque[Future[Any]] = deque()
        waiting = iter(pieces)
        try:
            while True:
                for piece in waiting:
                    under_way.append(self.client.submit(step, held, piece, pure=False))
                    if len(under_way) >= TASKS_PER_THREAD * max(threads, 1):
                        break
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            self.client.cancel([held, *under_way])

    def fit_corpus(self, corpus: Corpus, table: WordTable) -> tuple[Block, Fit]:
        """All documents of a corpus, and their fit to the null model."""
        blocks = range(len(corpus.block_starts) - 1)
        fits = list(self.map(fit_corpus_block, (corpus, table), blocks))
        return corpus.rows(0, corpus.n_docs), Fit.concatenate(fits)

    def propose(
        self,
        batch: Batch,
        available: NDArray[np.bool_],
        rules: DetectionRules,
        pool: Pool,
        key: tuple[object, ...],
        tell: Tell,
    ) -> Growth | None:
        """The best candidate: several documents are grown to a few, side by side, and the cluster
        of largest gain is grown to its end."""
        seeds = choose_seeds(batch, available, rules.seeds)
        if not seeds:
            return None
        grower = Grower(batch, available, rules.stop, pool, key, rules.max_size)
        growth = Growth(seeds[0])
        if len(seeds) > 1:
            growths = [Growth(document) for document in seeds]
            previews = list(self.map(preview, grower, growths))
            growth, _ = max(previews, key=lambda preview: preview[1])
        grown: Growth = next(self.map(grow_fully, grower, [growth]))
        tell("grown", {"size": len(grown.documents), "gain": grown.gain})
        return grown

    def judge(
        self,
        batch: Batch,
        growth: Growth,
        pool: Pool,
        rules: DetectionRules,
        key: tuple[object, ...],
        keeper: Keeper | None,
        tell: Tell,
    ) -> FoundCluster:
        """The test of a cluster. It ends as soon as the cluster cannot be significant any more."""
        documents = np.array(growth.documents)
        topic = batch.train(documents)
        score = batch.score(documents, topic)
        theta = batch.fit.take(documents).proportions.dense(batch.context.table.n_topics)
        bootstrap = ClusterBootstrap.of(
            batch.context, pool, theta, batch.fit.lengths[documents], make_key(*key, "significance")
        )
        index = int(key[-1])  # type: ignore[call-overload]
        scores = keeper.load_scores(index) if keeper else np.zeros(0)
        if not bootstrap.is_possible:
            return FoundCluster(growth, topic, score, scores, 1.0, False, len(documents))
        most = int(np.floor(rules.level * (rules.replicates + 1) + 1e-9)) - 1
        pieces = [
            range(first, min(first + REPLICATES_PER_TASK, rules.replicates))
            for first in range(len(scores), rules.replicates, REPLICATES_PER_TASK)
        ]
        results = self.map(score_replicates, bootstrap, pieces)
        while np.count_nonzero(scores > score) <= most and len(scores) < rules.replicates:
            scores = np.concatenate((scores, next(results)))
            if keeper:
                keeper.save_scores(index, scores)
            above = int(np.count_nonzero(scores > score))
            tell("replicates", {"done": len(scores), "p_value": (above + 1) / (len(scores) + 1)})
        results.close()  # type: ignore[attr-defined]
        above = int(np.count_nonzero(scores > score))
        p_value = (above + 1) / (len(scores) + 1)
        significant = above <= most and (growth.gain > 0 or not rules.needs_gain)
        return FoundCluster(
            growth, topic, score, scores, p_value, significant, bootstrap.largest_family
        )


def hold(value: Any) -> Any:
    """A value as the result of a task, which Dask makes again when its worker is gone."""
    return value


def fit_corpus_block(given: tuple[Corpus, WordTable], index: int) -> Fit:
    corpus, table = given
    return fit_block(corpus.block(index), table)


def preview(grower: Grower, growth: Growth) -> tuple[Growth, float]:
    """A candidate at the size at which candidates are compared, and its gain."""
    own = grower.fork()
    grown = own.grow(growth, PREVIEW_SIZE)
    return grown, own.preview_gain(grown)


def grow_fully(grower: Grower, growth: Growth) -> Growth:
    return grower.fork().grow(growth)


def score_replicates(bootstrap: ClusterBootstrap, replicates: range) -> Floats:
    return bootstrap.scores(replicates)
