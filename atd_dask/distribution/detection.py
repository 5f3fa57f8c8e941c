"""Detection on a cluster: candidates grown side by side, bootstrap replicates as tasks.

Without a client the same functions run here, one after the other, and give the same bytes: a
growth does not depend on where it runs, and replicates are judged in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.alternative import Alternative, NullContext
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.bootstrap import ClusterBootstrap, Pool
from atd_dask.kernels.clusters import (
    Grower,
    Growth,
    SettleRule,
    StopRule,
    choose_seeds,
)
from atd_dask.kernels.fitting import Fit, fit_block
from atd_dask.kernels.growth import Batch
from atd_dask.kernels.model import Block, Floats, WordTable
from atd_dask.kernels.philox import make_key
from atd_dask.kernels.reference import WithoutRows, draw_held_out, refit, take_documents
from atd_dask.kernels.training import Convergence

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
    settling: SettleRule | None
    pool: str  # validation, validation+batch or train
    mothers: int  # the nearest documents from which one is drawn; 1 for the paper's rule
    replicates: int
    level: float
    searches: int  # in held-out training documents, whose gains a cluster must surpass
    max_clusters: int | None = None
    max_size: int | None = None

    @property
    def home(self) -> str:
        """The corpus from which mothers are drawn."""
        return "train" if self.pool == "train" else "validation"


@dataclass(frozen=True)
class FoundCluster:
    """A candidate that was grown to its end and tested."""

    growth: Growth
    topic: Alternative
    score: float
    scores: Floats  # of the bootstrap clusters
    p_value: float
    chance: Floats | None  # the gains of the same search where there is nothing to find
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

    def load_chance(self) -> Floats: ...

    def save_chance(self, gains: Floats) -> None: ...


Tell = Callable[[str, dict[str, Any]], None]


def detect(
    table: WordTable,
    test: Corpus,
    corpora: dict[str, Corpus],
    rules: DetectionRules,
    seed: int,
    client: Client | None = None,
    keeper: Keeper | None = None,
    tell: Tell = lambda event, facts: None,
    every_word: bool = False,
) -> list[FoundCluster]:
    """The clusters of a batch in the order in which they are found; the last one may be the one
    that was not significant.

    `corpora` has those that the null model comes from: train, and validation, from which mothers
    are drawn unless they are drawn from train.
    """
    context = NullContext.of(table, every_word)
    runner = _Runner(client)
    block, fit = runner.fit_corpus(test, table)
    home, home_fit = runner.fit_corpus(corpora[rules.home], table)
    batch = Batch(context, block, fit)
    chance = ChanceSearch(table, corpora, rules, every_word, len(batch), seed)
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
                context,
                rules,
                Block.concatenate([home, block.take(rest)]),
                home_fit.join(fit.take(rest)),
            )
        cluster = runner.judge(batch, growth, pool, rules, (seed, index), keeper, tell)
        if cluster.significant and rules.searches > 0:
            cluster = surpasses_chance(cluster, runner.search_chance(chance, keeper, tell))
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
        tell: Tell = lambda event, facts: None,
    ) -> Growth | None:
        """The best candidate: several documents are grown to a few, side by side, and the cluster
        of largest gain is grown to its end."""
        seeds = choose_seeds(batch, available, rules.seeds)
        if not seeds:
            return None
        grower = Grower(batch, available, rules.stop, rules.settling, pool, key, rules.max_size)
        seed = seeds[0]
        if len(seeds) > 1:
            gains = list(self.map(preview, grower, seeds))
            seed = seeds[int(np.argmax(gains))]
        grown: Growth = next(self.map(grow, grower, [Growth(seed)]))
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
            return FoundCluster(growth, topic, score, scores, 1.0, None, False, len(documents))
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
        return FoundCluster(
            growth, topic, score, scores, p_value, None, above <= most, bootstrap.largest_family
        )

    def search_chance(self, chance: ChanceSearch, keeper: Keeper | None, tell: Tell) -> Floats:
        """The gains of all searches in held-out documents, made once for all clusters."""
        gains = keeper.load_chance() if keeper else np.zeros(0)
        for gain in self.map(find_by_chance, chance, range(len(gains), chance.rules.searches)):
            gains = np.append(gains, gain)
            if keeper:
                keeper.save_chance(gains)
            tell("searches", {"done": len(gains), "largest_gain": float(gains.max())})
        return gains


@dataclass(frozen=True)
class ChanceSearch:
    """The search of a detection, to be run in batches that hold no anomaly."""

    table: WordTable
    corpora: dict[str, Corpus]
    rules: DetectionRules
    every_word: bool
    n_batch: int
    seed: int


def find_by_chance(search: ChanceSearch, index: int) -> float:
    """The gain of the best candidate in held-out training documents."""
    rules, train = search.rules, search.corpora["train"]
    held = draw_held_out(train.n_docs, search.n_batch, search.seed, index)
    rest = WithoutRows(train, held)
    table = refit(search.table, rest, Convergence())
    context = NullContext.of(table, search.every_word)
    block = take_documents(train, held)
    home = search.corpora["validation"].rows(0, search.corpora["validation"].n_docs)
    if rules.home == "train":
        home = Block.concatenate(list(rest))
    batch = Batch(context, block, fit_block(block, table))
    pool = _make_pool(context, rules, home, fit_block(home, table))
    growth = _Runner(None).propose(
        batch, np.ones(len(batch), dtype=np.bool_), rules, pool, (search.seed, "chance", index)
    )
    return 0.0 if growth is None else growth.gain


def surpasses_chance(cluster: FoundCluster, gains: Floats) -> FoundCluster:
    """A cluster is significant only if it gains more than every search in held-out documents."""
    significant = cluster.growth.gain > max(0.0, float(gains.max()))
    return replace(cluster, chance=gains, significant=significant)


def hold(value: Any) -> Any:
    """A value as the result of a task, which Dask makes again when its worker is gone."""
    return value


def fit_corpus_block(given: tuple[Corpus, WordTable], index: int) -> Fit:
    corpus, table = given
    return fit_block(corpus.block(index), table)


def preview(grower: Grower, seed: int) -> float:
    return grower.fork().preview(seed)


def grow(grower: Grower, growth: Growth) -> Growth:
    return grower.fork().grow(growth)


def score_replicates(bootstrap: ClusterBootstrap, replicates: range) -> Floats:
    return bootstrap.scores(replicates)
