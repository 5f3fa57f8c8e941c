"""Measures detection: the effect of each rule on the clusters found.

All variants use the same null models, one for each seed. Besides the paper's own split of a corpus,
`corpus:class,class` makes another: these classes are moved from training to the batch, and those of
the paper are left out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.bench.usage import Row, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.loader import make_detection
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.rules import make_rules
from atd_dask.config.run_config import DetectionConfig, RunConfig, SignificanceConfig
from atd_dask.distribution.checkpointing import NoCheckpoints
from atd_dask.distribution.cluster_search import ClusterSearch, grow_cluster
from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.runner import Runner, run_on_workers
from atd_dask.distribution.rehearsal import compile_detection
from atd_dask.distribution.replicates import WholeReplicates
from atd_dask.distribution.search_space import fit_corpus
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.distribution.vector_batches import open_vectors
from atd_dask.documents import PARTS
from atd_dask.errors import InputError
from atd_dask.evaluation.metrics import Labels
from atd_dask.evaluation.results import evaluate_clusters
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.bootstrap import ClusterBootstrap
from atd_dask.kernels.cluster_growth import Grower, Growth
from atd_dask.kernels.model import Block, WordTable
from atd_dask.kernels.next_document import Sample
from atd_dask.kernels.philox import make_key
from atd_dask.kernels.streams import open_stream
from atd_dask.kernels.training import Convergence, OrderRange
from atd_dask.kernels.word_switches import make_table
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.bench.usage import Ingest
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

REPLICATES = 200  # of B2: enough for the level 0.01
TIMED_REPLICATES = 1000
TIMED_DOCUMENTS = 85  # at most, of the first cluster
NORMAL_SHARE = 0.25  # of the normal documents, for the batch of another split


@dataclass(frozen=True)
class Split:
    """A corpus prepared for measurement."""

    name: str
    config: RunConfig
    corpora: dict[str, MemoryCorpus]
    labels: Labels  # of the batch
    anomalous: tuple[str, ...]


def list_variants() -> dict[str, DetectionConfig]:
    """Return the default rules, variants with one rule changed, and the paper's rules."""
    significance = SignificanceConfig(replicates=REPLICATES)
    default = DetectionConfig(significance=significance)
    alone = replace(significance, searches=0)
    return {
        "default": default,
        "settle: false": replace(default, settle=False),
        "settle: false, stop: bic": replace(default, settle=False, stop="bic"),
        "remember: false": replace(default, remember=False),
        "searches: 0": replace(default, significance=alone),
        "failures: 1": replace(default, failures=1),
        "seeds: 6": replace(default, seeds=6),
        "rules: paper": make_detection(
            {"rules": "paper", "significance": {"replicates": REPLICATES}}
        ),
    }


def bench_detection(
    names: Sequence[str],
    corpora: str | None,
    n_seeds: int,
    variants: Mapping[str, DetectionConfig],
    ingest: Ingest,
    progress: Progress,
) -> Iterator[list[Row]]:
    """Yield a table for each corpus, as soon as it is measured."""
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        connect(ClusterOptions(local=LocalOptions(workers=2, threads=1))) as client,
    ):
        for name in names:
            split = _read_split(name, corpora, f"{folder}/{name}", client, ingest, progress)
            models = _train(split, n_seeds, client)
            with progress.task(f"detect {name}", len(variants) * n_seeds, "runs") as task:
                rows: list[Row] = []
                for variant, config in variants.items():
                    runs = []
                    for seed, table in enumerate(models):
                        runs.append(_measure(split, table, config, seed, client))
                        task.advance(1, variant=variant, **runs[-1])
                    rows.append({"corpus": name, "variant": variant, **_summarise(runs)})
            yield rows


def _read_split(
    name: str, corpora: str | None, output: str, client: Client, ingest: Ingest, progress: Progress
) -> Split:
    corpus, _, classes = name.partition(":")
    config = paper_config(corpus, corpora, output)
    ingest(config, client, progress)
    stores = {part: CorpusStore.open(RunLayout(config.output).corpus(part)) for part in PARTS}
    parts = {part: store.rows(0, store.n_docs) for part, store in stores.items()}
    labels: dict[str, Labels] = {part: store.labels() for part, store in stores.items()}
    anomalous = tuple(config.evaluation.anomalous)
    if classes:
        wanted = tuple(classes.split(","))
        parts, labels = split_anew(parts, labels, anomalous, wanted)
        anomalous = wanted
    n_words = stores["train"].n_words
    blocks = {part: MemoryCorpus(block, n_words) for part, block in parts.items()}
    return Split(name, config, blocks, labels["test"], anomalous)


def split_anew(
    parts: dict[str, Block],
    labels: dict[str, Labels],
    left_out: Sequence[str],
    anomalous: Sequence[str],
) -> tuple[dict[str, Block], dict[str, Labels]]:
    """Split the documents with other classes as anomalous: the batch has all their documents and a
    share of the normal ones. Documents of the classes `left_out` are in no part."""
    whole = Block.concatenate([parts[part] for part in PARTS])
    every = [label for part in PARTS for label in labels[part]]
    unusual = np.array([bool(set(anomalous) & set(label)) for label in every])
    gone = np.array([bool(set(left_out) & set(label)) for label in every])
    for wanted in anomalous:
        if not any(wanted in label for label in every):
            raise InputError(f"a class of another split must have documents, but {wanted} has none")
    normal = np.flatnonzero(~unusual & ~gone)
    normal = open_stream(1, f"bench/split/{','.join(anomalous)}").permutation(normal)
    n_test = int(NORMAL_SHARE * len(normal))
    n_validation = n_test // 2
    rows = {
        "test": np.sort(np.concatenate((normal[:n_test], np.flatnonzero(unusual)))),
        "validation": np.sort(normal[n_test : n_test + n_validation]),
        "train": np.sort(normal[n_test + n_validation :]),
    }
    return (
        {part: whole.take(chosen) for part, chosen in rows.items()},
        {part: [every[row] for row in chosen] for part, chosen in rows.items()},
    )


def _train(split: Split, n_seeds: int, client: Client) -> list[WordTable]:
    topics = split.config.null_model.topics
    orders = OrderRange(topics.max, topics.min, topics.step)
    return [
        choose_best(
            train_restarts(Training(split.corpora["train"], orders, Convergence(), seed), 1, client)
        )
        for seed in range(n_seeds)
    ]


def _measure(
    split: Split, table: WordTable, config: DetectionConfig, seed: int, client: Client
) -> dict[str, float]:
    start = time.perf_counter()
    found = detect(table, split.corpora["test"], split.corpora, make_rules(config), seed, client)
    seconds = time.perf_counter() - start
    clusters = [(c.documents, c.significant) for c in found]
    evaluations, summary = evaluate_clusters(clusters, split.labels, split.anomalous)
    classes = {
        evaluation.label
        for evaluation, cluster in zip(evaluations, found, strict=True)
        if evaluation is not None and cluster.significant
    }
    return {
        "group_f1": summary.group.f1,
        "group_auc": summary.group.auc,
        "individual_f1": summary.individual.f1,
        "individual_auc": summary.individual.auc,
        "classes": len(classes),
        "clusters": sum(cluster.significant for cluster in found),
        "seconds": seconds,
    }


def _summarise(runs: Sequence[dict[str, float]]) -> dict[str, str]:
    row = {name: spread([run[name] for run in runs]) for name in runs[0] if name != "seconds"}
    return row | {"seconds": spread([run["seconds"] for run in runs], 1)}


def bench_speed(
    name: str, corpora: str | None, reference: str | None, ingest: Ingest, progress: Progress
) -> list[Row]:
    """Measure how long the pieces of a detection take, and the overhead of distributing them.

    Kernel time is CPU time of this process. The time of a cluster is wall-clock time, with one or
    two workers of one thread each computing the same replicates. The null model is trained here, or
    is that of the authors in the folder `reference`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        connect(ClusterOptions(local=LocalOptions(workers=1, threads=1))) as client,
    ):
        split = _read_split(name, corpora, f"{folder}/{name}", client, ingest, progress)
        if reference is None:
            (table,) = _train(split, 1, client)
        else:
            table = read_reference(name, reference)
    grower, growth, bootstrap = _grow_first(split, table)
    alone = _clock(lambda: grow_cluster((grower, NoCheckpoints(), 1, None), growth))
    kernel = _clock(lambda: bootstrap.scores(range(TIMED_REPLICATES)))
    rows: list[Row] = [
        {"what": "growth of the first cluster, in this process", "seconds": f"{alone:.2f}"},
        {
            "what": f"a replicate of its {len(bootstrap.lengths)} documents, in this process",
            "seconds": f"{kernel / TIMED_REPLICATES:.4f}",
        },
        {"what": f"{TIMED_REPLICATES} replicates, in this process", "seconds": f"{kernel:.2f}"},
    ]
    for workers in (1, 2):
        with progress.task(f"measure with workers: {workers}"):
            seconds = _score_on(workers, bootstrap)
        more = f"{workers * seconds / kernel - 1:.0%} more than the kernels"
        what = f"{TIMED_REPLICATES} replicates, workers: {workers}"
        rows.append({"what": what, "seconds": f"{seconds:.2f} ({more})"})
    return rows


def read_reference(name: str, folder: str) -> WordTable:
    """Read the null model that the authors' program learned from a corpus of the paper."""
    path = Path(folder, f"{name}_null_model.npz")
    try:
        with np.load(path) as model:
            return make_table(model["shared"], model["word_switch_u"] > 0, model["beta_topics"])
    except (OSError, KeyError, ValueError) as error:
        raise InputError(
            f"a null model of the authors must be a readable file, got {path}: {error}"
        ) from None


def _score_on(workers: int, bootstrap: ClusterBootstrap) -> float:
    """Return the wall-clock time in which a cluster of processes scores the replicates."""
    replicates = WholeReplicates(bootstrap)
    with connect(ClusterOptions(local=LocalOptions(workers=workers, threads=1))) as client:
        run_on_workers(client, compile_detection)
        start = time.perf_counter()
        for _ in replicates.scores(Runner(client), 0, TIMED_REPLICATES):
            pass
        return time.perf_counter() - start


def _grow_first(split: Split, table: WordTable) -> tuple[Grower, Growth, ClusterBootstrap]:
    """Return the grower, the growth and the bootstrap of the first cluster, with everything
    compiled."""
    rules = replace(make_rules(DetectionConfig()), settle=False, seeds=1)
    fitter = rules.fitter(table)
    runner = Runner()
    block, fit = fit_corpus(runner, split.corpora["test"], fitter)
    home, home_fit = fit_corpus(runner, split.corpora["validation"], fitter)
    batch = fitter.batch(block, fit)
    pool = rules.make_pool(fitter, home, home_fit)
    everyone = np.ones(len(batch), dtype=np.bool_)
    nothing = np.zeros(0, np.int64)
    with open_vectors(
        runner, split.corpora["test"], split.corpora["train"], rules.unseen
    ) as vectors:
        search = ClusterSearch(
            fitter, batch, everyone, nothing, rules, Sample(home, home_fit), vectors, (1, 1)
        )
    growth = next(search.propose(runner, NoCheckpoints(), 1))
    documents = np.array(growth.documents[:TIMED_DOCUMENTS])
    theta = fit.take(documents).proportions.dense(table.n_topics)
    key = make_key("bench")
    bootstrap = ClusterBootstrap.of(fitter, pool, theta, fit.lengths[documents], key)
    bootstrap.scores(range(1))
    return search.grower, Growth(growth.seed), bootstrap


def _clock(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
