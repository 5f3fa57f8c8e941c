"""The detection of one sweep: its new documents together with the window, against what is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.config.rules import rules_of
from atd_dask.config.run_config import RunConfig, as_single
from atd_dask.distribution.calibration import Calibration
from atd_dask.distribution.detection import detect as detect_clusters
from atd_dask.distribution.engine.observation import check_memory, describe_cluster
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.search_space import fit_corpus
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import PARTS, Copies
from atd_dask.errors import TooLittleTrainingError
from atd_dask.evaluation.copy_groups import choose_groups
from atd_dask.evaluation.results import add_written, order_candidates
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.calibration import JoinedCorpus
from atd_dask.kernels.detection_rules import FoundCluster
from atd_dask.kernels.fitting import Fit
from atd_dask.kernels.jit import STORE
from atd_dask.result_types import (
    ClusterNews,
    ClusterResult,
    LineDrift,
    Result,
    SweepFigures,
    SweptDocument,
)
from atd_dask.stages.batches import PreparedBatch, open_batch
from atd_dask.stages.memory import estimate_memory
from atd_dask.stages.result_making import make_result, warn_of_thin_pool, write_result
from atd_dask.stages.score_file import keep_scores
from atd_dask.stages.shown_texts import read_wording
from atd_dask.stages.storing import look_for_copies, store_part
from atd_dask.stages.watching import watch_detection
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.detection_checkpoints import SweepCheckpointer
from atd_dask.storage.models import read_digest, read_model, write_model
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import stage_key
from atd_dask.sweeps.alarm_series import AlarmSeries, note_test
from atd_dask.sweeps.assembly import Assembly, gather, read_pieces
from atd_dask.sweeps.confirmation import confirm_clusters
from atd_dask.sweeps.known_clusters import find_same, known_path, list_words, recognise, store_known
from atd_dask.sweeps.news import News, SweepFindings, name_sweeps
from atd_dask.sweeps.retraining import batch_store, model_config
from atd_dask.sweeps.state import Drift, KnownCluster, SweepState
from atd_dask.sweeps.word_drift import (
    FEW_WORDS,
    TopicShares,
    find_topics,
    is_drift,
    leave_normal,
    list_new_words,
    measure_trend,
    take_some,
    weigh_arrival,
)

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress

LINE_WORDS = 8  # of a cluster, in the history


class SweepDetection:
    """The documents of a sweep, and the null model with the topics of earlier clusters."""

    def __init__(
        self,
        config: RunConfig,
        sweep_config: RunConfig,
        state: SweepState,
        number: int,
        client: Client,
        progress: Progress,
    ) -> None:
        """`sweep_config` is the configuration of the sweep as a run."""
        assert state.model is not None
        self._config, self._sweep_config, self._state, self._number = (
            config,
            sweep_config,
            state,
            number,
        )
        self._client, self._progress, self._runner = client, progress, Runner(client)
        self._generation = state.model.generation
        self._trained = model_config(config, self._generation)
        self._base = read_model(RunLayout(self._trained.output).model)
        self._rules = rules_of(sweep_config)
        self._level = sweep_config.detection.significance.level
        self._tested = False  # whether there was a search
        self._drifts: list[LineDrift] = []
        self._known = (
            None if state.known is None else CorpusStore.open(known_path(config, state.known))
        )
        self._sweeps = np.arange(max(1, number - config.sweep.window), number + 1)

    def run(self) -> SweepFindings:
        """Set aside what belongs to known clusters, look for others in the rest, and write the
        result."""
        everything = self._assemble()
        self._store(everything)
        stores = {part: self._open(part) for part in PARTS}
        facts = describe_cluster(self._client)
        check_memory(facts, *estimate_memory(self._config, stores, facts.workers))
        recognised = recognise(
            self._base.table,
            self._base.vocabulary,
            self._state.clusters,
            self._known,
            self._open("test"),
            self._rules,
            self._runner,
            self._number,
        )
        self._table = recognised.table
        write_model(
            RunLayout(self._sweep_config.output).model, replace(self._base, table=self._table)
        )
        members = recognised.members
        if (members >= 0).any():
            everyone = self._find_topics(self._open("test"))
            members = leave_normal(members, everyone, self._normal_topics)
        is_known = members >= 0
        self._rest = everything.take(np.flatnonzero(~is_known))
        if is_known.any():
            self._store(self._rest)
        self._news: dict[int, News] = {}  # by the index of the cluster
        for place in np.unique(members[is_known]).tolist():
            cluster = self._state.clusters[place]
            if cluster.number not in self._config.sweep.dismissed:
                documents = everything.take(np.flatnonzero(members == place))
                self._add_news(cluster, "continuing", documents)
        found = self._detect() if len(self._rest) else []
        return self._conclude(found)

    def _assemble(self) -> Assembly:
        """Return the new documents, and those of the window that are in no cluster and have not
        arrived again since."""
        stores = [batch_store(self._config, int(sweep)) for sweep in self._sweeps]
        gone = {id for cluster in self._state.clusters for id in cluster.documents}
        keep = [np.ones(stores[-1].n_docs, dtype=np.bool_)]
        gone.update(stores[-1].ids())
        for store in reversed(stores[:-1]):
            ids = store.ids()
            keep.insert(0, np.array([id not in gone for id in ids], dtype=np.bool_))
            gone.update(ids)
        return Assembly.of(stores, keep)

    def _store(self, documents: Assembly) -> None:
        with closing(gather(documents.pieces())) as gathered:
            copies = self._look_for_copies(gathered)
            words = self._base.vocabulary
            store_part(self._sweep_config, "test", gathered, words, self._progress, copies)

    def _look_for_copies(self, batch: CountSpool) -> Copies | None:
        """Look for near-duplicates. Training is read only if there are some that it may match."""
        alone: dict[str, Copies]
        alone = look_for_copies(self._config, {"test": batch}, self._progress)
        if "test" not in alone or not choose_groups(alone["test"]):
            return alone.get("test")
        with ExitStack() as scratch:
            parts = {}
            for part in ("train", "validation"):
                store = self._open(part)
                pieces = read_pieces(store, np.ones(store.n_docs, dtype=np.bool_))
                normal = gather(pieces, batch.lexicon)
                parts[part] = scratch.enter_context(closing(normal))
            parts["test"] = batch
            beside: dict[str, Copies]
            beside = look_for_copies(self._config, parts, self._progress)
        return beside["test"]

    def _open(self, part: str) -> CorpusStore:
        config = self._sweep_config if part == "test" else self._trained
        return CorpusStore.open(RunLayout(config.output).corpus(part))

    def _detect(self) -> list[FoundCluster]:
        rules, seed = self._rules, self._config.seed
        batch = self._batch
        test = batch.documents
        normal = {part: self._open(part).without_copies() for part in ("train", "validation")}
        # The model as it was trained, and batches a little larger than this
        # one: so they serve for other batches too, and can only find more.
        n_batch = round_up(test.n_docs)
        calibration = Calibration(dict(normal), rules, n_batch, seed)
        settings = [as_single(self._config.detection), seed]
        digests = [store.digest for store in normal.values()]
        checkpointer = SweepCheckpointer(
            Checkpoints(
                RunLayout(self._sweep_config.output).checkpoints("detect"),
                stage_key(
                    test.digest,
                    read_digest(RunLayout(self._sweep_config.output).model),
                    digests,
                    [*settings, self._level],
                ),
            ),
            Checkpoints(
                RunLayout(self._trained.output).searches(n_batch),
                stage_key(read_digest(RunLayout(self._trained.output).model), digests, settings),
            ),
        )
        try:
            with watch_detection(
                self._progress, rules.replicates, rules.searches, STORE.is_compiling
            ) as on_progress:
                found = detect_clusters(
                    batch.table,
                    test,
                    dict(normal),
                    rules,
                    seed,
                    self._client,
                    checkpointer,
                    on_progress,
                    calibration,
                )
        except TooLittleTrainingError as error:
            # A sweep that fails would be retried forever; the next ones may have fewer documents,
            # or more to train on.
            self._progress.warn(f"not searching for clusters in this sweep: {error}")
            return []
        self._tested = True
        everything = JoinedCorpus(tuple(normal.values()))
        found = confirm_clusters(found, test, everything, rules, self._runner)
        found = order_candidates(found)
        for index, cluster in enumerate(found, 1):
            warn_of_thin_pool(self._progress, index, cluster)
        return found

    @cached_property
    def _batch(self) -> PreparedBatch:
        """Return the documents that belong to no known cluster, with a model that knows these
        clusters."""
        stores = {part: self._open(part) for part in PARTS}
        model = replace(self._base, table=self._table)
        return open_batch(self._runner, stores, model, self._rules)

    def _conclude(self, found: list[FoundCluster]) -> SweepFindings:
        stores = {part: self._open(part) for part in PARTS}
        model = replace(self._base, table=self._table)
        batch = self._batch
        result = make_result(self._sweep_config, stores, model, batch, found)
        result = name_sweeps(result, self._sweeps[self._rest.owners].tolist())
        wording = read_wording(self._sweep_config.output, result, stores["test"])
        result = add_written(result, wording.forms)
        clusters = tuple(
            self._recognise_found(cluster, described, wording.forms)
            if cluster.significant
            else described
            for cluster, described in zip(found, result.clusters, strict=True)
        )
        news = tuple(self._news[place].describe() for place in sorted(self._news))
        result = replace(
            result,
            clusters=clusters,
            sweep=SweepFigures(
                number=self._number,
                sweeps=tuple(self._sweeps.tolist()),
                generation=self._generation,
                known_topics=len(self._state.clusters),
                clusters=news,
            ),
        )
        drift = self._measure(stores["test"], result)
        state = replace(
            self._remember(), drift=(*self._state.drift, drift), series=self._note_test(news)
        )
        write_result(self._sweep_config.output, result, wording.passages)
        keep_scores(self._sweep_config.output, self._runner, stores, batch, self._rules, result)
        level = self._level if self._tested else None
        drifts = tuple(self._drifts)
        return SweepFindings(result, news, len(self._rest), drift, drifts, level, state)

    def _note_test(self, news: Sequence[ClusterNews]) -> AlarmSeries | None:
        series = self._state.series
        if series is None or not self._tested:
            return series
        return note_test(series, self._level, any(entry.kind == "new" for entry in news))

    def _recognise_found(
        self, cluster: FoundCluster, described: ClusterResult, forms: Mapping[str, str]
    ) -> ClusterResult:
        """Identify a new cluster with a known one if it is about the same words; `forms` has the
        written forms of words."""
        words = list_words(cluster.topic, self._batch.table.shared, self._batch.vocabulary)
        known = {place: news.cluster for place, news in self._news.items()}
        known = dict(enumerate(self._state.clusters)) | known
        place = find_same(words, known)
        # A normal topic may take up the word of a cluster that was about little else.
        is_clear = place is not None and len(words) > FEW_WORDS
        if not is_clear and self._is_drift(cluster, described, forms):
            return replace(described, kind="drift")
        if place is None:
            fresh = KnownCluster(
                number=len(known) + 1,
                words=words,
                written=tuple(forms.get(word, word) for word in words),
                p_value=cluster.deciding_p_value,
            )
            place = len(known)
            known[place] = fresh
        if known[place].number in self._config.sweep.dismissed:
            return replace(described, cluster=known[place].number, kind="dismissed")
        kind = "continuing" if place < len(self._state.clusters) else "new"
        rows = np.sort(np.array(described.rows_with_copies))
        self._add_news(known[place], kind, self._rest.take(rows))
        return replace(described, cluster=known[place].number, kind=kind)

    def _is_drift(
        self,
        cluster: FoundCluster,
        described: ClusterResult,
        forms: Mapping[str, str],
    ) -> bool:
        """Return whether a normal topic takes up the words of a cluster bit by bit, and note it if
        so."""
        topic = self._topics.find_common(described.rows)
        if topic is None:
            return False
        batch = self._batch
        words = list_new_words(cluster.topic, batch.table, topic, batch.vocabulary)
        n_words = len(words)
        words = words or list(list_words(cluster.topic, batch.table.shared, batch.vocabulary))
        normal = [self._open(part) for part in ("train", "validation")]
        share = self._topics.share(topic)
        trend = measure_trend(self._config, self._number, words, share, normal, self._runner)
        arrival = weigh_arrival(described.rows, topic, self._topics, self._normal_topics)
        if not is_drift(n_words, trend.growth, arrival):
            return False
        self._drifts.append(
            LineDrift(
                words=tuple(words[:LINE_WORDS]),
                written=tuple(forms.get(word, word) for word in words[:LINE_WORDS]),
                size=len(cluster.documents),
                p_value=cluster.deciding_p_value,
                first=trend.first,
                counts=trend.counts,
                documents=trend.documents,
                by_day=trend.by_day,
                evidence=trend.growth + arrival,
            )
        )
        return True

    @cached_property
    def _fit(self) -> Fit:
        """Return the documents that belong to no known cluster, fitted to a model that knows these
        clusters."""
        return fit_corpus(self._runner, self._open("test"), self._rules.fitter(self._table))[1]

    @cached_property
    def _topics(self) -> TopicShares:
        """Return the main topics of the documents that belong to no known cluster."""
        return self._find_topics(self._open("test"))

    @cached_property
    def _normal_topics(self) -> TopicShares:
        """Return the main topics of normal documents, or of some of them if there are many."""
        normal = JoinedCorpus(tuple(self._open(part) for part in ("train", "validation")))
        return self._find_topics(take_some(normal))

    def _find_topics(self, corpus: Corpus) -> TopicShares:
        """Return the main topics of documents by the null model as it was trained."""
        return find_topics(self._runner, corpus, self._rules.fitter(self._base.table))

    def _add_news(self, cluster: KnownCluster, kind: str, documents: Assembly) -> None:
        place = cluster.number - 1
        news = self._news.setdefault(place, News(cluster, kind))
        ids = [id for piece in documents.pieces() for id in piece.batch.ids]
        sweeps = self._sweeps[documents.owners].tolist()
        news.parts.append(documents)
        news.documents += [
            SweptDocument(id=id, sweep=sweep) for id, sweep in zip(ids, sweeps, strict=True)
        ]
        news.cluster = replace(
            news.cluster,
            sweeps=tuple(dict.fromkeys((*cluster.sweeps, self._number))),
            documents=tuple(dict.fromkeys((*news.cluster.documents, *ids))),
        )

    def _remember(self) -> SweepState:
        """Keep the documents of clusters, to learn their topics from; return the state that knows
        them."""
        if not self._news:
            return self._state
        clusters = dict(enumerate(self._state.clusters))
        clusters |= {place: news.cluster for place, news in self._news.items()}
        parts = [(place + 1, part) for place, news in self._news.items() for part in news.parts]
        numbers = np.repeat([number for number, _ in parts], [len(part) for _, part in parts])
        joining = Assembly(
            parts[0][1].stores,
            np.concatenate([part.owners for _, part in parts]),
            np.concatenate([part.rows for _, part in parts]),
        )
        order = np.lexsort((joining.rows, joining.owners))
        store_known(
            self._sweep_config,
            self._known,
            joining.take(order),
            numbers[order].tolist(),
            self._base.vocabulary,
            self._progress,
        )
        ordered = tuple(clusters[place] for place in sorted(clusters))
        return replace(self._state, clusters=ordered, known=self._number)

    def _measure(self, test: CorpusStore, result: Result) -> Drift:
        """Return how well the null model fits the new documents that are in no cluster."""
        fit = self._fit
        counted = self._sweeps[self._rest.owners] == self._number
        for cluster in result.significant:
            if cluster.kind != "drift":
                counted[cluster.rows_with_copies] = False
        n_tokens = int(fit.lengths[counted].sum())
        return Drift(
            sweep=self._number,
            generation=self._generation,
            tokens=n_tokens,
            unseen_tokens=int(test.unseen()[np.flatnonzero(counted)].sum()),
            log_likelihood=float(fit.log_likelihoods[counted].sum()) / n_tokens
            if n_tokens
            else None,
            words=tuple(word for drift in self._drifts for word in drift.words),
        )


def round_up(n_docs: int) -> int:
    """Return the size of held-out batches: the next power of two."""
    return 1 << max(n_docs - 1, 0).bit_length()
