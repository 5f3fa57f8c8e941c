"""A scheduled sweep: what is new in a repository is tested against a kept null model.

A sweep is a small state machine over its folder. It looks for new documents and writes them down
with a plan; carries the plan out, which makes the folder of a run; and commits by writing the
state. Killed before the plan, it has not happened; killed after it, the next call goes on with it
and then looks for what is newer. Nothing but the state says what has been done, and it is written
whole or not at all. What follows from it, the history and the alerts, is made up for by the next
call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from atd_dask.pipelines.assembly import Assembly, gather
from atd_dask.pipelines.collect import collect
from atd_dask.pipelines.detect import make_result, warn_of_thin_pool
from atd_dask.pipelines.ingest import corpus_path, store_part
from atd_dask.pipelines.known import find_same, known_path, list_words, recognise, store_known
from atd_dask.pipelines.record import record_run
from atd_dask.pipelines.report import write_report
from atd_dask.pipelines.retrain import FIRST, batch_store, find_reason, make_model, model_config
from atd_dask.pipelines.train import model_path

from atd_dask.distribution.detection import (
    ChanceSearch,
    DetectionRules,
    FoundCluster,
    Runner,
    fit_corpus,
)
from atd_dask.distribution.detection import detect as detect_clusters
from atd_dask.distribution.lazy import LazyClient, when_open
from atd_dask.distribution.observation import name_tasks
from atd_dask.errors import AtdError, InputError
from atd_dask.evaluation.results import write_csv, write_json
from atd_dask.interface.alerts import deliver, list_channels
from atd_dask.interface.config import RunConfig, as_dict
from atd_dask.interface.report.history import render_history
from atd_dask.interface.rules import make_rules
from atd_dask.interface.watching import watch_detection
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.detections import SweepKeeper
from atd_dask.storage.files import join, read_file, write_file
from atd_dask.storage.journal import Segment
from atd_dask.storage.models import read_digest, read_model, write_model
from atd_dask.storage.stages import stage_key
from atd_dask.storage.sweeps import (
    ALERT,
    LINE,
    PAGE,
    PLAN,
    Drift,
    KnownCluster,
    ModelNote,
    SweepState,
    model_folder,
    read_object,
    read_state,
    sweep_folder,
    update_history,
    write_object,
    write_state,
)
from atd_dask.text.readers import COUNT_FORMATS, FILE_FORMATS

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.interface.progress import Progress

ALERT_FORMAT = "atd-dask-alert/1"
# Stands among those who are to be told for whoever reads the exit status of this process.
CALLER = "caller"


@dataclass(frozen=True)
class Outcome:
    """What a call did: the lines of the history that it added, and all that it had to tell."""

    lines: tuple[dict[str, Any], ...]
    alerts: tuple[dict[str, Any], ...]
    undelivered: tuple[str, ...]  # what went wrong


def sweep(
    config: RunConfig,
    client: Client | LazyClient,
    progress: Progress,
    command: Sequence[str] = (),
) -> Outcome:
    """Sweeps the repository `corpus.test`; the caller holds the lock of the folder."""
    check_repository(config)
    key = _make_key(config)
    state = read_state(config.output) or SweepState(key=key)
    if state.key != key:
        raise InputError(
            f"the sweeps in {config.output} were begun with other settings of corpus: set them"
            " back, or choose another folder with --output"
        )
    cluster = cast("Client", client)
    _publish(config, state)
    state, undelivered = _tell(config, state, progress)
    if state.model is None:
        note = make_model(config, state, FIRST, cluster, progress)
        state = _commit(config, replace(state, model=note))
    before = state.sweep
    while True:
        plan = _read_plan(config, state)
        left_over = plan is not None
        if plan is None:
            state, plan = _make_plan(config, state, cluster, progress)
        if plan is None:
            break
        state = _carry_out(config, state, plan, client, progress, command)
        _publish(config, state)
        if not left_over:
            break
    if state.sweep == before:
        progress.say(f"nothing new since sweep {before}" if before else "nothing to sweep yet")
    state, problems = _tell(config, state, progress, before)
    alerts = tuple(
        _read_alert(config, sweep) for sweep, to in state.pending.items() if CALLER in to
    )
    lines = tuple(
        cast("dict[str, Any]", read_object(join(sweep_folder(config.output, number), LINE)))
        for number in range(before + 1, state.sweep + 1)
    )
    told = {n: tuple(c for c in to if c != CALLER) for n, to in state.pending.items()}
    told = {n: to for n, to in told.items() if to}
    if told != state.pending:
        _commit(config, replace(state, pending=told))
    return Outcome(lines, alerts, (*undelivered, *problems))


def check_repository(config: RunConfig) -> None:
    """A sweep needs normal documents to begin with, and a repository that can grow."""
    train, test = config.corpus.train, config.corpus.test
    if train is None or test is None:
        raise InputError(
            "a sweep needs corpus.train, normal documents to begin with, and corpus.test, the"
            f" repository that grows, but there is the dataset {config.corpus.dataset}"
        )
    formats = sorted(FILE_FORMATS | COUNT_FORMATS | {"zarr"})
    if test.format not in formats:
        raise InputError(
            f"corpus.test.format must be one of {', '.join(formats)} for a sweep, got {test.format}"
        )


def _make_key(config: RunConfig) -> str:
    """Of the settings that all sweeps of a folder share."""
    corpus = as_dict(replace(config.corpus, test=None))
    return stage_key(corpus, config.compatibility, config.null_model.topic_model)


def _commit(config: RunConfig, state: SweepState) -> SweepState:
    write_state(config.output, state)
    return state


def _make_plan(
    config: RunConfig, state: SweepState, client: Client, progress: Progress
) -> tuple[SweepState, dict[str, Any] | None]:
    """Looks for new documents; without any, files that were read in vain are noted all the same."""
    assert state.model is not None
    number = state.sweep + 1
    folder = sweep_folder(config.output, number)
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    train = CorpusStore.open(corpus_path(model_config(config, state.model.generation), "train"))
    journal = state.journal(config.output)
    collected = collect(replace(config, output=folder), journal, train, client, progress)
    taken = {segment.name for segment in state.segments}
    name = next(n for n in (f"{number:04d}-{i}" for i in range(len(taken) + 1)) if n not in taken)
    later = journal.add(name, collected.keys)
    if collected.summary is None:
        if later is not journal:
            state = _commit(config, replace(state, segments=later.segments))
        return state, None
    plan = {
        "sweep": number,
        "started": started,
        "seconds": round(time.monotonic() - start, 3),
        "new": collected.summary,
        "segments": [{"name": s.name, "keys": s.keys} for s in later.segments],
        "reason": find_reason(config.sweep, state),
    }
    write_object(join(folder, PLAN), plan)
    return state, plan


def _read_plan(config: RunConfig, state: SweepState) -> dict[str, Any] | None:
    """The plan of a sweep that was cut off."""
    plan = read_object(join(sweep_folder(config.output, state.sweep + 1), PLAN))
    if plan is None:
        return None
    try:
        whole = batch_store(config, plan["sweep"]).digest == plan["new"]["digest"]
    except AtdError:
        whole = False
    return plan if whole else None


def _carry_out(
    config: RunConfig,
    state: SweepState,
    plan: dict[str, Any],
    client: Client | LazyClient,
    progress: Progress,
    command: Sequence[str],
) -> SweepState:
    """Tests the new documents of a plan, with the window; gives the state after it, committed."""
    number, start = plan["sweep"], time.monotonic()
    mine = replace(
        config, output=sweep_folder(config.output, number), name=f"{config.name} sweep {number}"
    )
    progress.say(f"sweep {number}", new_documents=plan["new"]["documents"])
    cluster = cast("Client", client)

    def prepare(opened: Client) -> None:
        span.enter_context(name_tasks(config.name, f"sweep {number}"))

    with (
        record_run(mine, client, command) as record,
        ExitStack() as span,
        when_open(client, prepare),
    ):
        if plan["reason"] is not None:
            with record.stage("train", fresh=True):
                note = make_model(config, state, plan["reason"], cluster, progress)
                state = replace(state, model=note, drift=())
        with record.stage("detect", fresh=True):
            test = _Test(config, mine, state, plan, cluster, progress)
            found = test.detect()
            state = test.conclude(found)
        record.write("finished")
        with record.stage("report", fresh=True):
            write_report(mine.output)
    line = test.line | {"seconds": round(plan["seconds"] + time.monotonic() - start, 3)}
    write_object(join(mine.output, LINE), line)
    segments = tuple(Segment(**segment) for segment in plan["segments"])
    state = _commit(config, replace(state, sweep=number, segments=segments))
    with suppress(Exception):  # what is left lying about does no harm
        state.journal(config.output).tidy()
    return state


class _Test:
    """The test of one sweep: its documents, the null model with what is known, what comes of it."""

    def __init__(
        self,
        config: RunConfig,
        mine: RunConfig,
        state: SweepState,
        plan: dict[str, Any],
        client: Client,
        progress: Progress,
    ) -> None:
        self._config, self._mine, self._state, self._plan = config, mine, state, plan
        self._client, self._progress, self._runner = client, progress, Runner(client)
        self._number: int = plan["sweep"]
        self._model: ModelNote = cast("ModelNote", state.model)
        self._trained = model_config(config, self._model.generation)
        self._base = read_model(model_path(self._trained))
        self._rules: DetectionRules = make_rules(
            config.detection,
            every_word=config.null_model.topic_model == "lda",
            authors=config.compatibility == "authors",
        )
        self._known = (
            None if state.known is None else CorpusStore.open(known_path(config, state.known))
        )
        first = max(1, self._number - config.sweep.window)
        self._sweeps = np.arange(first, self._number + 1)
        self.line: dict[str, Any] = {}

    def detect(self) -> list[FoundCluster]:
        """Sets aside what belongs to known clusters, and looks for others in the rest."""
        everything = self._assemble()
        self._store(everything)
        recognised = recognise(
            self._base.table,
            self._base.vocabulary,
            self._state.clusters,
            self._known,
            self._open("test"),
            self._rules,
            self._runner,
        )
        is_known = recognised.members >= 0
        self._members = recognised.members[is_known]
        self._recognised = everything.take(np.flatnonzero(is_known))
        self._rest = everything.take(np.flatnonzero(~is_known))
        if is_known.any():
            self._store(self._rest)
        self._table = recognised.table
        write_model(model_path(self._mine), replace(self._base, table=self._table))
        if not len(self._rest):
            return []
        with watch_detection(self._progress, self._rules.replicates, self._rules.searches) as tell:
            return detect_clusters(
                self._table,
                self._open("test"),
                self._stores,
                self._rules,
                self._config.seed,
                self._client,
                self._keeper(),
                tell,
                self._chance,
            )

    def _assemble(self) -> Assembly:
        """The new documents, and those of the window that are in no cluster and have not come
        anew since."""
        stores = [batch_store(self._config, int(sweep)) for sweep in self._sweeps]
        reported = {id for cluster in self._state.clusters for id in cluster.documents}
        keep = []
        for store in reversed(stores):
            ids = store.ids()
            keep.insert(0, np.array([id not in reported or not keep for id in ids], dtype=np.bool_))
            reported.update(ids)
        return Assembly.of(stores, keep)

    def _store(self, documents: Assembly) -> None:
        with closing(gather(documents.pieces())) as gathered:
            store_part(self._mine, "test", gathered, self._base.vocabulary, self._progress)

    def _open(self, part: str) -> CorpusStore:
        config = self._mine if part == "test" else self._trained
        return CorpusStore.open(corpus_path(config, part))

    @property
    def _stores(self) -> dict[str, Any]:
        return {part: self._open(part) for part in ("train", "validation", "test")}

    @property
    def _chance(self) -> ChanceSearch:
        """Searches under the model as it was trained, in batches that are a little larger than this
        one: so they serve for other batches too, and can only find more."""
        stores = {part: self._open(part) for part in ("train", "validation")}
        return ChanceSearch(
            self._base.table, stores, self._rules, round_up(len(self._rest)), self._config.seed
        )

    def _keeper(self) -> SweepKeeper:
        chance = self._chance
        digests = [store.digest for store in chance.corpora.values()]  # type: ignore[attr-defined]
        settings = [as_dict(self._config.detection), self._config.seed]
        model = read_digest(model_path(self._trained))
        folder = model_folder(self._config.output, self._model.generation)
        return SweepKeeper(
            Checkpoints(
                join(self._mine.output, "checkpoints", "detect"),
                stage_key(self._open("test").digest, read_digest(model_path(self._mine)), settings),
            ),
            Checkpoints(
                join(folder, "searches", str(chance.n_batch)), stage_key(model, digests, settings)
            ),
        )

    def conclude(self, found: list[FoundCluster]) -> SweepState:
        """Writes the result; gives the state in which the clusters are known."""
        model = replace(self._base, table=self._table)
        result = make_result(self._mine, self._stores, model, found)
        for cluster in result["clusters"]:
            warn_of_thin_pool(self._progress, cluster["index"], found[cluster["index"] - 1])
        told = self._classify(found, result)
        state = self._remember(told)
        drift = self._measure(found)
        sweep = {
            "number": self._number,
            "sweeps": self._sweeps.tolist(),
            "new_documents": self._plan["new"]["documents"],
            "recognised_documents": len(self._recognised),
            "generation": self._model.generation,
            "known_topics": len(self._state.clusters),
            "clusters": told,
        }
        write_file(join(self._mine.output, "result.json"), write_json(result | {"sweep": sweep}))
        write_file(join(self._mine.output, "clusters.csv"), write_csv(result["clusters"]))
        self.line = self._make_line(result, told, drift)
        pending = dict(state.pending)
        if told:
            write_object(join(self._mine.output, ALERT), self._make_alert(told))
            pending[str(self._number)] = (CALLER, *list_channels(self._config.sweep.alert))
        return replace(state, drift=(*state.drift, drift), pending=pending)

    def _classify(self, found: list[FoundCluster], result: dict[str, Any]) -> list[dict[str, Any]]:
        """The clusters that have something to tell: known ones that go on, and new ones. Each
        document of the result gets the sweep in which it was new."""
        ids = self._open("test").ids()
        origins = self._sweeps[self._rest.owners]
        told: dict[int, dict[str, Any]] = {}

        def add(place: int, documents: Assembly, names: list[str], facts: dict[str, Any]) -> None:
            entry = told.setdefault(place, facts | {"documents": [], "sources": []})
            entry["sources"].append(documents)
            entry["documents"] += [
                {"id": id, "sweep": int(sweep)}
                for id, sweep in zip(names, self._sweeps[documents.owners], strict=True)
            ]

        known = list(self._state.clusters)
        for place in np.unique(self._members).tolist():
            documents = self._recognised.take(np.flatnonzero(self._members == place))
            add(place, documents, _read_ids(documents), _describe(known[place], "continuing"))
        for cluster, described in zip(found, result["clusters"], strict=True):
            for document in described["documents"]:
                document["sweep"] = int(origins[document["row"]])
            if not cluster.significant:
                continue
            words = list_words(cluster.topic, self._table.shared, self._base.vocabulary)
            place = find_same(words, known)
            kind = "continuing"
            if place is None:
                place, kind = len(known), "new"
                known.append(
                    KnownCluster(
                        number=place + 1,
                        sweeps=(),
                        documents=(),
                        words=words,
                        p_value=cluster.p_value,
                    )
                )
            described["cluster"], described["kind"] = place + 1, kind
            rows = np.sort(np.array(cluster.documents))
            names = [ids[row] for row in rows]
            add(place, self._rest.take(rows), names, _describe(known[place], kind))
        return [told[place] for place in sorted(told)]

    def _remember(self, told: list[dict[str, Any]]) -> SweepState:
        """Adds documents to clusters, and keeps them for their topics."""
        clusters = {cluster.number: cluster for cluster in self._state.clusters}
        if not told:
            return self._state
        sources, numbers = [], []
        for entry in told:
            number = entry["cluster"]
            added = tuple(document["id"] for document in entry["documents"])
            before = clusters.get(number)
            if before is None:
                before = KnownCluster(
                    number=number,
                    sweeps=(),
                    documents=(),
                    words=tuple(entry["words"]),
                    p_value=entry["p_value"],
                )
            documents = tuple(dict.fromkeys((*before.documents, *added)))
            clusters[number] = replace(
                before, sweeps=(*before.sweeps, self._number), documents=documents
            )
            entry["size"] = len(documents)
            for source in entry.pop("sources"):
                sources.append(source)
                numbers += [number] * len(source)
        joining = Assembly(
            sources[0].stores,
            np.concatenate([source.owners for source in sources]),
            np.concatenate([source.rows for source in sources]),
        )
        order = np.lexsort((joining.rows, joining.owners))
        store_known(
            self._mine,
            self._known,
            joining.take(order),
            [numbers[place] for place in order.tolist()],
            self._base.vocabulary,
            self._progress,
        )
        return replace(self._state, clusters=tuple(clusters.values()), known=self._number)

    def _measure(self, found: list[FoundCluster]) -> Drift:
        """How well the null model explains the new documents that are in no cluster."""
        test = self._open("test")
        _, fit = fit_corpus(self._runner, test, self._rules.fitter(self._table))
        counted = self._sweeps[self._rest.owners] == self._number
        for cluster in found:
            if cluster.significant:
                counted[list(cluster.documents)] = False
        n_tokens = int(fit.lengths[counted].sum())
        n_unseen = int(test.unseen()[np.flatnonzero(counted)].sum())
        likelihood = float(fit.log_likelihoods[counted].sum()) / n_tokens if n_tokens else None
        return Drift(
            sweep=self._number,
            generation=self._model.generation,
            tokens=n_tokens,
            unseen_tokens=n_unseen,
            log_likelihood=likelihood,
        )

    def _make_line(
        self, result: dict[str, Any], told: list[dict[str, Any]], drift: Drift
    ) -> dict[str, Any]:
        return {
            "sweep": self._number,
            "started": self._plan["started"],
            "documents": self._plan["new"]["documents"],
            "skipped": sum(s["documents"] for s in self._plan["new"]["skipped"].values()),
            "tested": len(self._rest),
            "generation": self._model.generation,
            "trained": self._plan["reason"] if self._number > 1 else FIRST,
            "unseen_share": drift.unseen_tokens / max(drift.tokens + drift.unseen_tokens, 1),
            "log_likelihood": drift.log_likelihood,
            "clusters": [
                {
                    "cluster": entry["cluster"],
                    "kind": entry["kind"],
                    "added": len(entry["documents"]),
                    "size": entry["size"],
                    "p_value": entry["p_value"],
                    "words": entry["words"][:8],
                }
                for entry in told
            ],
            "candidates": [
                {name: cluster[name] for name in ("size", "p_value", "search_p_value")}
                | {"significant": cluster["significant"]}
                for cluster in result["clusters"]
            ],
        }

    def _make_alert(self, told: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "format": ALERT_FORMAT,
            "name": self._config.name,
            "sweep": self._number,
            "result": join(self._mine.output, "result.json"),
            "report": join(self._mine.output, "report.html"),
            "clusters": told,
        }


def round_up(n_docs: int) -> int:
    """The size of the batches in which chance is searched: the next power of two."""
    return 1 << max(n_docs - 1, 0).bit_length()


def _describe(cluster: KnownCluster, kind: str) -> dict[str, Any]:
    return {
        "cluster": cluster.number,
        "kind": kind,
        "p_value": cluster.p_value,
        "words": list(cluster.words),
    }


def _read_ids(documents: Assembly) -> list[str]:
    return [id for piece in documents.pieces() for id in piece.batch.ids]


def _publish(config: RunConfig, state: SweepState) -> None:
    """Brings the history and its page up to the state."""
    if state.sweep:
        lines, changed = update_history(config.output, state.sweep)
        page = join(config.output, PAGE)
        if changed or read_file(page) is None:
            write_file(page, render_history(config.name, lines))


def _read_alert(config: RunConfig, sweep: str) -> dict[str, Any]:
    alert = read_object(join(sweep_folder(config.output, int(sweep)), ALERT))
    return cast("dict[str, Any]", alert)


def _tell(
    config: RunConfig, state: SweepState, progress: Progress, after: int = 0
) -> tuple[SweepState, list[str]]:
    """Delivers what waits of the sweeps after one, to all but the caller, and notes what has
    arrived. Also gives what went wrong."""
    problems = []
    for sweep, waiting in list(state.pending.items()):
        if int(sweep) <= after:
            continue
        path = join(sweep_folder(config.output, int(sweep)), ALERT)
        left = []
        for channel in waiting:
            if channel == CALLER or channel not in list_channels(config.sweep.alert):
                left += [channel] if channel == CALLER else []
                continue
            message = read_file(path)
            assert message is not None
            problem = deliver(config.sweep.alert, channel, message)
            if problem is not None:
                left.append(channel)
                problems.append(f"the alert of sweep {sweep} could not be delivered: {problem}")
        pending = {n: to for n, to in state.pending.items() if n != sweep}
        if left:
            pending[sweep] = tuple(left)
        if tuple(left) != waiting:
            state = _commit(config, replace(state, pending=pending))
    for problem in problems:
        progress.warn(f"{problem}; the next sweep tries again")
    return state, problems
