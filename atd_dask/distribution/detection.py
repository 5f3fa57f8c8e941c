"""Detection on a cluster: candidates grown side by side, bootstrap replicates as tasks.

Without a client the same functions run here, one after the other, and give the same bytes: a
growth does not depend on where it runs, and replicates are judged in their order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.events import listen, report
from atd_dask.distribution.keys import task_key
from atd_dask.kernels.alternative import Alternative, NullContext
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.bootstrap import ClusterBootstrap, Pool
from atd_dask.kernels.clusters import Grower, Growth, SettleRule, StopRule, choose_seeds
from atd_dask.kernels.fitters import AuthorsFitter, Fitter
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.growth import Batch
from atd_dask.kernels.model import Block, Floats, WordTable
from atd_dask.kernels.philox import make_key
from atd_dask.kernels.reference import WithoutRows, draw_held_out, refit, take_documents
from atd_dask.kernels.training import Convergence, CostTerms
from atd_dask.kernels.wording import add_topic

if TYPE_CHECKING:
    from distributed import Client, Future

# So many replicates make a task of some hundred milliseconds for a cluster of a hundred documents.
REPLICATES_PER_TASK = 25
TASKS_PER_THREAD = 3

# A growth is kept and reported after a document that joins, but not more often.
SECONDS_BETWEEN = 1.0

Tell = Callable[[str, dict[str, Any]], None]


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
    remember: bool  # the topics of clusters that were found count as known from then on
    max_clusters: int | None = None
    max_size: int | None = None
    every_word: bool = False  # LDA in place of the parsimonious model
    authors: bool = False  # the authors' programs in place of the paper's equations

    @property
    def home(self) -> str:
        """The corpus from which mothers are drawn."""
        return "train" if self.pool == "train" else "validation"

    @property
    def most_above(self) -> int:
        """So many replicates may score more than a cluster that is significant."""
        return int(np.floor(self.level * (self.replicates + 1) + 1e-9)) - 1

    def fitter(self, table: WordTable) -> Fitter:
        kind = AuthorsFitter if self.authors else Fitter
        return kind(NullContext.of(table, self.every_word))

    def make_pool(self, fitter: Fitter, block: Block, fit: Fit) -> Pool:
        return Pool.of(fitter, block, fit.proportions, self.mothers, once=self.mothers > 1)


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
    chance: Floats | None = None  # the gains of the same search where there is nothing to find

    @property
    def documents(self) -> tuple[int, ...]:
        return self.growth.documents


class Keeper(Protocol):
    """Keeps what is finished, so that a detection can go on where it was. It travels."""

    def load_growth(self, index: int) -> Growth | None: ...

    def save_growth(self, index: int, growth: Growth) -> None: ...

    def load_scores(self, index: int) -> Floats: ...

    def save_scores(self, index: int, scores: Floats) -> None: ...

    def load_chance(self) -> Floats: ...

    def save_chance(self, gains: Floats) -> None: ...


class KeepNothing:
    """For a detection that is not to be gone on with."""

    def load_growth(self, index: int) -> Growth | None:
        return None

    def save_growth(self, index: int, growth: Growth) -> None:
        pass

    def load_scores(self, index: int) -> Floats:
        return np.zeros(0)

    def save_scores(self, index: int, scores: Floats) -> None:
        pass

    def load_chance(self) -> Floats:
        return np.zeros(0)

    def save_chance(self, gains: Floats) -> None:
        pass


def detect(
    table: WordTable,
    test: Corpus,
    corpora: dict[str, Corpus],
    rules: DetectionRules,
    seed: int,
    client: Client | None = None,
    keeper: Keeper | None = None,
    tell: Tell = lambda event, facts: None,
    chance: ChanceSearch | None = None,
) -> list[FoundCluster]:
    """The clusters of a batch in the order in which they are found; the last one may be the one
    that was not significant.

    `corpora` has those that the null model comes from: train, and validation, from which mothers
    are drawn unless they are drawn from train. `chance` replaces the searches in batches that are
    as large as this one, under the model as it is.
    """
    runner = Runner(client)
    keeper = keeper or KeepNothing()
    chance = chance or ChanceSearch(table, corpora, rules, test.n_docs, seed)
    available = np.ones(test.n_docs, dtype=np.bool_)
    found: list[FoundCluster] = []
    while rules.max_clusters is None or len(found) < rules.max_clusters:
        index = len(found) + 1
        if index == 1 or rules.remember:
            fitter = rules.fitter(table)
            block, fit = fit_corpus(runner, test, fitter)
            home, home_fit = fit_corpus(runner, corpora[rules.home], fitter)
            batch = fitter.batch(block, fit)
            member_pool = rules.make_pool(fitter, home, home_fit)
        search = ClusterSearch(fitter, batch, available, rules, member_pool, (seed, index))
        growth = search.propose(runner, keeper, index, tell)
        if growth is None:
            break
        outside = available.copy()
        outside[list(growth.documents)] = False
        pool = member_pool
        if rules.pool == "validation+batch":
            rest = np.flatnonzero(outside)
            around = Block.concatenate([home, block.take(rest)])
            pool = rules.make_pool(fitter, around, home_fit.join(fit.take(rest)))
        cluster = search.judge(growth, pool, runner, keeper, index, tell)
        if cluster.significant and rules.searches > 0:
            cluster = surpass_chance(cluster, search_by_chance(chance, runner, keeper, tell))
        found.append(cluster)
        if not cluster.significant:
            break
        available = outside
        if rules.remember:
            table = add_topic(table, cluster.topic.specific, cluster.topic.probabilities)
    return found


@dataclass(frozen=True)
class Runner:
    """Runs independent pieces on a cluster, or here."""

    client: Client | None = None

    def map(
        self, step: Callable[..., Any], shared: Any, pieces: Sequence[Any]
    ) -> Generator[Any, None, None]:
        """step(shared, piece) for every piece, in order, with a bound on those under way. Closed
        early, it cancels what is outstanding."""
        if self.client is None:
            for piece in pieces:
                yield step(shared, piece)
            return
        name = step.__name__.replace("_", "-")
        held = self.client.submit(hold, shared, key=task_key(f"hold-for-{name}"), pure=False)
        threads = sum(self.client.nthreads().values())
        under_way: deque[Future[Any]] = deque()
        waiting = enumerate(pieces)
        try:
            while True:
                for number, piece in waiting:
                    key = task_key(name, number)
                    under_way.append(self.client.submit(step, held, piece, key=key, pure=False))
                    if len(under_way) >= TASKS_PER_THREAD * max(threads, 1):
                        break
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            self.client.cancel([held, *under_way])


def hold(value: Any) -> Any:
    """A value as the result of a task, which Dask makes again when its worker is gone."""
    return value


def fit_corpus(runner: Runner, corpus: Corpus, fitter: Fitter) -> tuple[Block, Fit]:
    """All documents of a corpus, and their fit to the null model."""
    blocks = range(len(corpus.block_starts) - 1)
    fits = list(runner.map(fit_corpus_block, (corpus, fitter), blocks))
    return corpus.rows(0, corpus.n_docs), Fit.concatenate(fits)


def fit_corpus_block(given: tuple[Corpus, Fitter], index: int) -> Fit:
    corpus, fitter = given
    return fitter.fit(corpus.block(index))


@dataclass(frozen=True)
class ClusterSearch:
    """The search for one cluster among the documents that are still available."""

    fitter: Fitter
    batch: Batch
    available: NDArray[np.bool_]
    rules: DetectionRules
    pool: Pool  # of the tests of membership
    key: tuple[object, ...]  # what the random numbers are for

    @property
    def grower(self) -> Grower:
        rules = self.rules
        return Grower(
            self.batch,
            self.available,
            rules.stop,
            rules.settling,
            self.fitter,
            self.pool,
            self.key,
            rules.max_size,
        )

    def propose(
        self,
        runner: Runner,
        keeper: Keeper,
        index: int,
        tell: Tell = lambda event, facts: None,
    ) -> Growth | None:
        """The best candidate: several documents are grown to a few, side by side, and that of
        largest gain is grown to its end."""
        growth = keeper.load_growth(index)
        if growth is None:
            seeds = choose_seeds(self.batch, self.available, self.rules.seeds)
            if not seeds:
                return None
            seed = seeds[0]
            if len(seeds) > 1:
                gains = list(runner.map(preview_cluster, self.grower, seeds))
                seed = seeds[int(np.argmax(gains))]
            growth = Growth(seed)
        if not growth.ended:
            with listen(runner.client, lambda facts: tell("growth", facts)) as topic:
                given = (self.grower, keeper, index, topic)
                # Closed here: left to be collected, it might be closed by another thread.
                with closing(runner.map(grow_cluster, given, [growth])) as step:
                    growth = next(step)
            assert growth is not None
            keeper.save_growth(index, growth)
        tell("grown", {"cluster": index, "size": len(growth.documents), "gain": growth.gain})
        return growth

    def judge(
        self, growth: Growth, pool: Pool, runner: Runner, keeper: Keeper, index: int, tell: Tell
    ) -> FoundCluster:
        """The test of a cluster. It ends as soon as the cluster cannot be significant any more."""
        batch, rules = self.batch, self.rules
        documents = np.array(growth.documents)
        topic = batch.train(documents)
        score = batch.score(documents, topic)
        theta = batch.fit.take(documents).proportions.dense(batch.context.table.n_topics)
        lengths = batch.fit.lengths[documents]
        key = make_key(*self.key, "significance")
        bootstrap = ClusterBootstrap.of(self.fitter, pool, theta, lengths, key)
        scores = keeper.load_scores(index)
        if not bootstrap.is_possible:
            return FoundCluster(growth, topic, score, scores, 1.0, False, len(documents))
        pieces = [
            range(first, min(first + REPLICATES_PER_TASK, rules.replicates))
            for first in range(len(scores), rules.replicates, REPLICATES_PER_TASK)
        ]
        above = int(np.count_nonzero(scores > score))
        with closing(runner.map(score_replicates, bootstrap, pieces)) as results:
            while above <= rules.most_above and len(scores) < rules.replicates:
                scores = np.concatenate((scores, next(results)))
                keeper.save_scores(index, scores)
                above = int(np.count_nonzero(scores > score))
                facts = {"cluster": index, "done": len(scores)}
                tell("replicates", facts | {"p_value": (above + 1) / (len(scores) + 1)})
        return FoundCluster(
            growth,
            topic,
            score,
            scores,
            p_value=(above + 1) / (len(scores) + 1),
            significant=above <= rules.most_above,
            only_mother=bootstrap.largest_family,
        )


def preview_cluster(grower: Grower, seed: int) -> float:
    return grower.fork().preview(seed)


def grow_cluster(given: tuple[Grower, Keeper, int, str | None], growth: Growth) -> Growth:
    grower, keeper, index, topic = given
    last = time.monotonic()

    def keep(growth: Growth) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN and not growth.ended:
            last = time.monotonic()
            keeper.save_growth(index, growth)
            facts = {"cluster": index, "size": len(growth.so_far)}
            report(topic, facts | {"score": growth.steps[-1].score})

    return grower.fork().grow(growth, keep)


def score_replicates(bootstrap: ClusterBootstrap, replicates: range) -> Floats:
    return bootstrap.scores(replicates)


@dataclass(frozen=True)
class ChanceSearch:
    """The search of a detection, to be run in batches that hold no anomaly."""

    table: WordTable
    corpora: dict[str, Corpus]
    rules: DetectionRules
    n_batch: int
    seed: int


def search_by_chance(chance: ChanceSearch, runner: Runner, keeper: Keeper, tell: Tell) -> Floats:
    """The gains of all searches in held-out documents, made once for all clusters."""
    gains = keeper.load_chance()
    waiting = range(len(gains), chance.rules.searches)
    for gain in runner.map(search_held_out, chance, waiting):
        gains = np.append(gains, gain)
        keeper.save_chance(gains)
        tell("searches", {"done": len(gains), "largest_gain": float(gains.max())})
    return gains


def search_held_out(chance: ChanceSearch, index: int) -> float:
    """The gain of the best candidate in held-out training documents."""
    rules, train = chance.rules, chance.corpora["train"]
    held = draw_held_out(train.n_docs, chance.n_batch, chance.seed, index)
    rest = WithoutRows(train, held)
    terms = CostTerms(rules.authors, rules.every_word)
    fitter = rules.fitter(refit(chance.table, rest, Convergence(), terms))
    block = take_documents(train, held)
    if rules.home == "train":
        home = Block.concatenate(list(rest))
    else:
        home = chance.corpora["validation"].rows(0, chance.corpora["validation"].n_docs)
    search = ClusterSearch(
        fitter,
        fitter.batch(block, fitter.fit(block)),
        np.ones(len(block), dtype=np.bool_),
        rules,
        rules.make_pool(fitter, home, fitter.fit(home)),
        (chance.seed, "chance", index),
    )
    growth = search.propose(Runner(), KeepNothing(), 1)
    return 0.0 if growth is None else growth.gain


def surpass_chance(cluster: FoundCluster, gains: Floats) -> FoundCluster:
    """A cluster is significant only if it gains more than every search in held-out documents."""
    significant = cluster.growth.gain > max(0.0, float(gains.max()))
    return replace(cluster, chance=gains, significant=significant)
