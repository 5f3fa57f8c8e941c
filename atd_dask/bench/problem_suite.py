"""Measures detection on problems drawn by a seed.

Each piece is a task whose result is kept: a null model for each problem and seed, and a detection
with it; for null splits the held-out searches, and a detection in every batch. The name of a piece
has a hash of all that its result depends on. For a model that is its documents and its training,
for a detection also the rules and the source code of detection, so a change of rules keeps the
models.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.baselines.batch import rank_batch, read_counts
from atd_dask.baselines.requirements import check_baselines
from atd_dask.bench.detection_quality import REPLICATES
from atd_dask.bench.problem_material import (
    ORDERS,
    SHORT_ORDERS,
    Material,
    read_pool,
    store_paper,
    take_own,
)
from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.calibration import Calibration, HeldOutSearches
from atd_dask.distribution.checkpointing import NoCheckpoints, ignore_progress
from atd_dask.distribution.detection import detect
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.grids import Arrays, run_grid
from atd_dask.distribution.rehearsal import compile_detection, compile_growth
from atd_dask.distribution.training import Training, choose_best, train_restarts
from atd_dask.errors import InputError
from atd_dask.evaluation.problem_documents import Documents, make_documents
from atd_dask.evaluation.problem_figures import (
    BaselineFigures,
    Candidate,
    NullFigures,
    ProblemFigures,
    SearchFigures,
    describe_problem,
    judge_groups,
    judge_null,
    judge_ranking,
    judge_run,
    judge_searches,
)
from atd_dask.evaluation.problem_tables import write_candidates, write_tables
from atd_dask.evaluation.problems import (
    HALVES,
    PLANS,
    SHORT_PLANS,
    Problem,
    list_null_splits,
    list_problems,
)
from atd_dask.json_records import OMITTED, JsonObject, JsonRecord
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import HeldOutSearch
from atd_dask.kernels.detection_rules import DetectionRules
from atd_dask.kernels.model import Block, Floats, WordTable
from atd_dask.kernels.training import Convergence, OrderRange
from atd_dask.kernels.word_switches import complete_table
from atd_dask.storage.atomic_files import join, write_file
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.ownership import claim_folder
from atd_dask.storage.stage_notes import stage_key

if TYPE_CHECKING:
    from atd_dask.bench.usage import Ingest
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

FORMAT = "atd-dask-problems/4"
DRAW = 1  # the seed that the problems are drawn with
NULL_SEED = 1
# Rules to compare, as settings of `detection`.
RULES: dict[str, JsonObject] = {
    "default": {},
    "paper": {"rules": "paper", "significance": {"replicates": REPLICATES}},
    "without-new-words": {"unseen": "ignore"},
}
SHORT_TEST = {"replicates": 19, "level": 0.05}
# Methods that know the batch and the number of documents planted, with a setting of each.
BASELINES: dict[str, tuple[str, float]] = {
    "NN, 20": ("neighbours", 20),
    "regression": ("regression", 1.0),
    "KMeans, 20": ("clusters", 20),
    "KMeans, 40": ("clusters", 40),
}
SOURCES = ("kernels", "distribution")  # the source code of detection


@dataclass(frozen=True)
class Request:
    """What to measure."""

    halves: tuple[str, ...]
    only: tuple[str, ...]  # patterns for names of problems; all problems if there are none
    nulls: bool
    n_seeds: int
    rules: str
    short: bool
    baselines: bool = False
    draw: int = DRAW

    def asks_for(self, problem: Problem) -> bool:
        named = not self.only or any(fnmatch(problem.name, pattern) for pattern in self.only)
        return named and problem.half in self.halves

    def may_ask_for(self, corpus: str) -> bool:
        """Return whether a problem of this corpus could match."""
        starts = [re.split(r"[*?\[]", pattern)[0] for pattern in self.only] or [""]
        return any(corpus.startswith(s) or s.startswith(f"{corpus}-") for s in starts)

    def make_rules(self) -> DetectionRules:
        given = RULES[self.rules]
        if self.short:
            given = given | {"significance": SHORT_TEST, "membership": {"replicates": 99}}
        rules = make_rules(make_detection(given))
        return replace(rules, searches=min(rules.searches, 3)) if self.short else rules


def make_request(
    half: str,
    only: Sequence[str],
    nulls: bool,
    seeds: int,
    rules: str,
    short: bool,
    baselines: bool = False,
    draw: int = DRAW,
) -> Request:
    """Make a request of the options of the command."""
    halves = HALVES if half == "both" else (half,)
    return Request(halves, tuple(only), nulls, seeds, rules, short, baselines, draw)


@dataclass(frozen=True)
class Point:
    """A piece of the benchmark."""

    kind: str  # model, detection, baselines, references or null
    problem: Problem
    seed: int
    key: str  # a hash of all that its result depends on
    needs: tuple[Point, ...] = ()
    batch: int = 0

    @property
    def name(self) -> str:
        batch = f"_batch-{self.batch + 1}" if self.kind == "null" else ""
        return f"{self.kind}_{self.problem.name}_seed-{self.seed}{batch}_{self.key[:16]}"


@dataclass(frozen=True)
class ProblemWork:
    """Computes pieces, each on one worker without a client."""

    stores: Mapping[str, tuple[str, ...]]  # the parts of every corpus
    orders: Mapping[str, OrderRange]
    rules: DetectionRules

    def compute(self, point: Point, needed: Sequence[Arrays]) -> Arrays:
        warm_up()
        documents = self._make_documents(point.problem)
        if point.kind == "model":
            return self._train(point, documents)
        if point.kind == "baselines":
            return self._rank(point, documents)
        table = _unpack_table(needed[0])
        if point.kind == "references":
            return self._calibrate(point, documents, table)
        support = needed[1]["support"] if point.kind == "null" else None
        return self._detect(point, documents, table, support)

    def _make_documents(self, problem: Problem) -> Documents:
        pools = {}
        if problem.corpus in self.stores:
            pools[problem.corpus] = read_pool(self.stores[problem.corpus])
        return make_documents(problem, pools)

    def _train(self, point: Point, documents: Documents) -> Arrays:
        orders = self.orders[point.problem.corpus]
        training = Training(documents.train, orders, Convergence(), point.seed)
        clock = Clock()
        table = choose_best(train_restarts(training, 1))
        return {
            **_pack(PieceFacts(cpu_seconds=clock.seconds, n_topics=table.n_topics)),
            "shared": table.shared,
            "indptr": table.indptr,
            "topics": table.topics,
            "probabilities": table.probabilities,
        }

    def _rank(self, point: Point, documents: Documents) -> Arrays:
        train, batch = (read_counts(part) for part in (documents.train, documents.batches[0]))
        labels, anomalous = documents.labels[0], point.problem.anomalous
        planted = {label: sum(label in some for some in labels) for label in anomalous}
        clock = Clock()
        judged, seconds = {}, {}
        for name, (method, value) in BASELINES.items():
            own = Clock()
            ranking = rank_batch(method, train, batch, point.seed, value)
            seconds[name] = own.seconds
            judged[name] = BaselineFigures(
                individual=judge_ranking(ranking.order, labels, anomalous),
                groups=judge_groups(ranking.groups, labels, planted) if ranking.groups else None,
            )
        return _pack(PieceFacts(cpu_seconds=clock.seconds, baselines=judged, seconds=seconds))

    def _calibrate(self, point: Point, documents: Documents, table: WordTable) -> Arrays:
        size = documents.batches[0].n_docs
        calibration = Calibration(documents.corpora(), self.rules, size, point.seed)
        clock = Clock()
        searches = HeldOutSearches(calibration, Runner(), NoCheckpoints(), ignore_progress)
        support = [search.support for search in searches.take(self.rules.searches)]
        facts = _pack(PieceFacts(cpu_seconds=clock.seconds, support=tuple(support)))
        return {**facts, "support": np.array(support, dtype=np.float64)}

    def _detect(
        self, point: Point, documents: Documents, table: WordTable, support: Floats | None
    ) -> Arrays:
        corpora = documents.corpora(point.batch)
        labels = documents.labels[point.batch]
        checkpointer = None if support is None else KnownSupport(support)
        clock = Clock()
        found = detect(
            table, corpora["test"], corpora, self.rules, point.seed, checkpointer=checkpointer
        )
        candidates = tuple(
            Candidate(
                documents=tuple(cluster.documents),
                labels=tuple(" ".join(labels[row]) for row in cluster.documents),
                significant=bool(cluster.significant),
                p_value=float(cluster.p_value),
                search_p_value=cluster.search_p_value,
                support=float(cluster.support),
                gain=float(cluster.growth.gain),
            )
            for cluster in found
        )
        planted = {
            label: sum(label in some for some in labels) for label in point.problem.anomalous
        }
        seconds = clock.seconds
        return _pack(PieceFacts(cpu_seconds=seconds, candidates=candidates, planted=planted))


@dataclass(frozen=True)
class KnownSupport(NoCheckpoints):
    """The held-out searches that all batches of a split share."""

    support: Floats

    def load_calibration(self) -> list[HeldOutSearch]:
        return [HeldOutSearch(support, size=None) for support in self.support.tolist()]


@dataclass(frozen=True, kw_only=True)
class PieceFacts(JsonRecord):
    """What is kept of a piece, depending on its kind."""

    cpu_seconds: float
    n_topics: int | None = field(default=None, metadata=OMITTED)
    candidates: tuple[Candidate, ...] = ()
    planted: Mapping[str, int] | None = field(default=None, metadata=OMITTED)
    support: tuple[float, ...] = ()
    baselines: Mapping[str, BaselineFigures] | None = field(default=None, metadata=OMITTED)
    seconds: Mapping[str, float] | None = field(default=None, metadata=OMITTED)  # of baselines


class Clock:
    """The CPU time of the thread that runs a piece."""

    def __init__(self) -> None:
        self._start = time.thread_time()

    @property
    def seconds(self) -> float:
        """Return the seconds since the clock started."""
        return round(time.thread_time() - self._start, 3)


@functools.cache
def warm_up() -> None:
    """Compile or load all kernels in this process, so that no piece is charged for it."""
    compile_detection()
    compile_growth()
    counts = np.ones((8, 6), np.int32) + 3 * (np.arange(6) // 3 == np.arange(8)[:, None] // 4)
    words = np.tile(np.arange(6, dtype=np.int32), 8)
    block = Block(np.arange(9) * 6, words, counts.astype(np.int32).ravel())
    corpus = MemoryCorpus(block, 6)
    train_restarts(Training(corpus, OrderRange(2, 1), Convergence(), 1), 1)


def bench_problems(
    request: Request,
    given: str | RunConfig | None,
    output: str,
    client: Client,
    ingest: Ingest,
    progress: Progress,
) -> str:
    """Measure what is asked for; return the tables, which the folder `output` has too.

    `given` is a configuration with labelled documents, or the folder of the prepared corpora of the
    paper; without it, these are fetched.
    """
    if request.baselines:
        check_baselines()
    claim_folder(output)
    if isinstance(given, RunConfig):
        material = take_own(given, output, client, ingest, progress)
    else:
        plans, orders = (SHORT_PLANS, SHORT_ORDERS) if request.short else (PLANS, ORDERS)
        plans = {
            name: plan
            for name, plan in plans.items()
            if plan.shape is not None or request.may_ask_for(name)
        }
        stores = store_paper(plans, given, output, client, ingest, progress)
        material = Material(stores, plans, orders)
    pools = {corpus: read_pool(urls) for corpus, urls in material.stores.items()}
    problems = list(filter(request.asks_for, list_problems(request.draw, pools, material.plans)))
    splits = list_null_splits(request.draw, pools, material.plans) if request.nulls else []
    splits = list(filter(request.asks_for, splits))
    if not problems and not splits:
        raise InputError(f"--only must match a problem, got {' '.join(request.only)}")
    rules = request.make_rules()
    work = ProblemWork(material.stores, material.orders, rules)
    judge_key = stage_key(FORMAT, asdict(rules), digest_sources())
    checkpointer = Checkpoints(join(output, "pieces"), FORMAT)

    def run(stage: str, points: Sequence[Point]) -> dict[Point, PieceFacts]:
        with progress.task(stage, len(points), "pieces") as task:
            found = run_grid(
                client, work, points, checkpointer, lambda point: task.advance(piece=point.name)
            )
        return {point: _unpack(found[point]) for point in points}

    results = run("planted groups", list_points(problems, material.orders, request, judge_key))
    text = _write(output, request, results)
    if splits:
        points = list_points(splits, material.orders, request, judge_key)
        results |= run("batches with nothing planted", points)
        text = _write(output, request, results)
    return text


def list_points(
    problems: Sequence[Problem],
    orders: Mapping[str, OrderRange],
    request: Request,
    judge_key: str,
) -> list[Point]:
    """List the pieces of problems, each after those that it needs."""
    points: list[Point] = []
    for problem in problems:
        for seed in range(1, request.n_seeds + 1) if problem.groups else (NULL_SEED,):
            how = (asdict(orders[problem.corpus]), asdict(Convergence()), seed)
            model = Point("model", problem, seed, stage_key(FORMAT, problem.digest, *how))
            key = stage_key(model.key, judge_key)
            points.append(model)
            if problem.groups:
                points.append(Point("detection", problem, seed, key, (model,)))
                if request.baselines:
                    others = stage_key(FORMAT, problem.digest, BASELINES, "groups", seed)
                    points.append(Point("baselines", problem, seed, others))
                continue
            references = Point("references", problem, seed, key, (model,))
            points.append(references)
            points += [
                Point("null", problem, seed, key, (model, references), batch)
                for batch in range(len(problem.batches))
            ]
    return points


def digest_sources() -> str:
    """Return a hash of the source code of detection, which determines what is found."""
    home = Path(__file__).parent.parent
    content = hashlib.sha256()
    for room in SOURCES:
        for path in sorted((home / room).rglob("*.py")):
            content.update(f"{path.relative_to(home).as_posix()}\n".encode() + path.read_bytes())
    return content.hexdigest()


def _write(output: str, request: Request, results: Mapping[Point, PieceFacts]) -> str:
    """Write the tables and the figures behind them.

    Times have a file of their own: the others have the same bytes whenever and wherever they are
    measured.
    """
    problems: dict[str, ProblemFigures] = {}
    nulls: list[NullFigures] = []
    searches: list[SearchFigures] = []
    seconds: dict[str, dict[str, float]] = {}
    for point, facts in results.items():
        problem = point.problem
        parts = {"model": "training", "references": "searches", "baselines": "baselines"}
        part = parts.get(point.kind, "detection")
        spent = seconds.setdefault(f"{problem.name} {point.seed}", {})
        spent[part] = spent.get(part, 0.0) + facts.cpu_seconds
        if point.kind == "detection":
            before = problems.get(problem.name, describe_problem(problem))
            run = judge_run(facts.planted or {}, point.seed, facts.candidates)
            run = replace(run, n_topics=results[point.needs[0]].n_topics)
            problems[problem.name] = replace(before, runs=(*before.runs, run))
        elif point.kind == "baselines":
            # A detection comes before the baselines of its problem and seed.
            *earlier, run = problems[problem.name].runs
            runs = (*earlier, replace(run, baselines=facts.baselines))
            problems[problem.name] = replace(problems[problem.name], runs=runs)
            spent |= facts.seconds or {}
        elif point.kind == "null":
            nulls.append(judge_null(problem, point.batch, facts.candidates))
        elif point.kind == "references":
            searches.append(judge_searches(problem, facts.support))
    content = {
        "format": FORMAT,
        "draw": request.draw,
        "rules": asdict(request.make_rules()),
        "problems": [problem.to_json() for problem in problems.values()],
        "nulls": [batch.to_json() for batch in nulls],
        "searches": [split.to_json() for split in searches],
    }
    figures = list(problems.values())
    text = write_tables(figures, nulls, searches, seconds)
    _write_json(join(output, "problems.json"), content)
    _write_json(join(output, "times.json"), seconds)
    write_file(join(output, "problems.md"), f"{text}\n{write_candidates(figures, nulls)}".encode())
    return text


def _write_json(url: str, content: JsonObject) -> None:
    write_file(url, json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")


def _pack(facts: PieceFacts) -> Arrays:
    """Return facts as an array, the form in which pieces are kept."""
    text = json.dumps(facts.to_json(), allow_nan=False)
    return {"facts": np.frombuffer(text.encode(), np.uint8)}


def _unpack(arrays: Arrays) -> PieceFacts:
    return PieceFacts.from_json(json.loads(arrays["facts"].tobytes()))


def _unpack_table(arrays: Arrays) -> WordTable:
    n_topics = _unpack(arrays).n_topics
    assert n_topics is not None
    return complete_table(
        n_topics, arrays["shared"], arrays["indptr"], arrays["topics"], arrays["probabilities"]
    )
