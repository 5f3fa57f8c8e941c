"""The search of a detection where there is nothing to find: in training documents held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from atd_dask.distribution.fields import is_small, open_field
from atd_dask.distribution.rules import DetectionRules, FoundCluster, Keeper, KeepNothing, Tell
from atd_dask.distribution.running import Runner
from atd_dask.distribution.training import ClusterPasses
from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Floats, WordTable
from atd_dask.kernels.passes import LocalPasses, Passes
from atd_dask.kernels.reference import BlocksOf, draw_held_out, refit
from atd_dask.kernels.training import Convergence, CostTerms


@dataclass(frozen=True)
class ChanceSearch:
    """The search of a detection, to be run in batches that hold no anomaly."""

    table: WordTable
    corpora: Mapping[str, Corpus]
    rules: DetectionRules
    n_batch: int
    seed: int


def search_by_chance(chance: ChanceSearch, runner: Runner, keeper: Keeper, tell: Tell) -> Floats:
    """The gains of all searches in held-out documents, made once for all clusters.

    Searches in small batches run side by side, a task each; those in large ones are spread.
    """
    gains = keeper.load_chance()
    waiting = range(len(gains), chance.rules.searches)
    found: Iterable[float]
    if is_small(draw_held_out(chance.corpora["train"], chance.n_batch, chance.seed, 0)[0]):
        found = runner.map(search_held_out, chance, waiting)
    else:
        found = (search_held_out(chance, index, runner) for index in waiting)
    for gain in found:
        gains = np.append(gains, gain)
        keeper.save_chance(gains)
        tell("searches", {"done": len(gains), "largest_gain": float(gains.max())})
    return gains


def search_held_out(chance: ChanceSearch, index: int, runner: Runner | None = None) -> float:
    """The gain of the best candidate in held-out training documents."""
    runner = runner or Runner()
    rules, train = chance.rules, chance.corpora["train"]
    held: Corpus
    rest: Corpus
    held, rest = draw_held_out(train, chance.n_batch, chance.seed, index)
    if is_small(train):
        held, rest = MemoryCorpus.read(held), MemoryCorpus.read(rest)
    terms = CostTerms(rules.authors, rules.lda)
    with ExitStack() as opened:
        passes: Passes = LocalPasses(BlocksOf(rest), rest.n_words)
        if runner.client is not None:
            passes = opened.enter_context(ClusterPasses(runner.client, rest))
        fitter = rules.fitter(refit(chance.table, passes, Convergence(again=False), terms))
    home = rest if rules.home == "train" else chance.corpora["validation"]
    everyone = np.ones(held.n_docs, dtype=np.bool_)
    with open_field(runner, held, home, rules, fitter) as field:
        search = field.search(everyone, (chance.seed, "chance", index))
        growth = search.propose(runner, KeepNothing(), 1)
    return 0.0 if growth is None else growth.gain


def surpass_chance(cluster: FoundCluster, gains: Floats) -> FoundCluster:
    """A cluster is significant only if it gains more than every search in held-out documents."""
    significant = cluster.growth.gain > max(0.0, float(gains.max()))
    return replace(cluster, chance=gains, significant=significant)
