"""The null model and the test batch give clusters, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from atd_dask.config.rules import rules_of
from atd_dask.config.run_config import RunConfig, as_dict, as_single
from atd_dask.distribution.calibration import ChanceSearch
from atd_dask.distribution.detection import detect as detect_clusters
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.newwords import admit_new_words
from atd_dask.errors import InputError
from atd_dask.evaluation.copy_groups import choose_groups, describe_copies, place_in_batch
from atd_dask.evaluation.results import (
    FORMAT,
    add_written,
    describe_clusters,
    describe_searches,
    evaluate_clusters,
    order_candidates,
    write_csv,
    write_json,
)
from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.detection_rules import DetectionRules, FoundCluster
from atd_dask.kernels.jit import STORE
from atd_dask.kernels.model import WordTable
from atd_dask.pipelines.ingest import PARTS, check_batch_labels, corpus_path
from atd_dask.pipelines.report import count_words, describe_part, open_texts, read_wording
from atd_dask.pipelines.train import MODEL
from atd_dask.stages.score_file import SCORES, keep_scores
from atd_dask.stages.watching import watch_detection
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.detection_checkpoints import DetectionKeeper
from atd_dask.storage.files import join, read_file, write_file
from atd_dask.storage.models import NullModel, read_digest, read_model
from atd_dask.storage.representatives import with_all_words
from atd_dask.storage.runs import DOCUMENTS, RESULT, RunFolders, read_result, run_folders
from atd_dask.storage.stages import finish_stage, finished_stage, stage_key

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress


def detect(
    config: RunConfig,
    client: Client,
    progress: Progress,
    fresh: bool = False,
    folders: RunFolders | None = None,
) -> dict[str, Any]:
    """Finds and tests the clusters of the test batch, once; gives what result.json says. `folders`
    are those of a repeat.

    A result that was made from the same batch and model in the same way is left as it is, and a
    detection that was cut off goes on.
    """
    folders = folders or run_folders(config.output)
    stores = {part: CorpusStore.open(corpus_path(config, part)) for part in PARTS}
    check_batch_labels(config)
    settings = {
        "detection": as_single(config.detection),
        "topic_model": config.null_model.topic_model,
        "compatibility": config.compatibility,
        "seed": config.seed,
        "evaluation": as_dict(config.evaluation),
        "name": config.name,
    }
    digests = {part: store.digest for part, store in stores.items()}
    texts = open_texts(config.output, "test")  # from which words get the form that people write
    told = None if texts is None else texts.digest
    model_url = join(folders.model, MODEL)
    key = stage_key(FORMAT, digests, told, read_digest(model_url), settings)
    kept = None if fresh else _find_result(folders, key)
    if kept is not None:
        progress.say("the result is up to date")
        return kept
    model = read_model(model_url)
    if stores["test"].vocabulary != model.vocabulary:
        raise InputError(f"{stores['test'].url} must have the words of {model_url}")
    checkpoints = Checkpoints(join(folders.model, "checkpoints", "detect"), key)
    if fresh:
        checkpoints.clear()
    rules = rules_of(config)
    normal = {part: stores[part].without_copies() for part in ("train", "validation")}
    batch = open_batch(Runner(client), stores, model, rules)
    chance = ChanceSearch(model.table, normal, rules, batch.documents.n_docs, config.seed)
    with watch_detection(progress, rules.replicates, rules.searches, STORE.is_compiling) as tell:
        found = detect_clusters(
            batch.table,
            batch.documents,
            normal,
            rules,
            config.seed,
            client,
            DetectionKeeper(checkpoints),
            tell,
            chance,
        )
    found = order_candidates(found)
    result = make_result(config, stores, model, batch, found)
    wording = read_wording(config.output, result, stores["test"])
    add_written(result, wording.forms)
    write_result(folders.result, result, wording.passages)
    keep_scores(folders.result, Runner(client), stores, batch, rules, result)
    finish_stage(folders.result, "detect", key, {"clusters": len(found)})
    checkpoints.clear()
    repeat = ""
    if folders.result == config.output:
        count(alarms=sum(cluster["significant"] for cluster in result["clusters"]))
    else:  # repeats raise alarms together
        repeat = f" of the repeat with seed {config.seed}"
    for index, cluster in enumerate(found, 1):
        warn_of_thin_pool(progress, f"{index}{repeat}", cluster)
    return result


def write_result(folder: str, result: dict[str, Any], passages: Mapping[int, str]) -> None:
    """Writes result.json and, with passages of texts, clusters.csv."""
    write_file(join(folder, RESULT), write_json(result))
    write_file(join(folder, DOCUMENTS), write_csv(result["clusters"], passages))


def _find_result(folders: RunFolders, key: str) -> dict[str, Any] | None:
    """A result that was made from the same things; one that is elsewhere is brought here."""
    for folder in folders.results:
        done = finished_stage(folder, "detect", key)
        kept = read_result(folder) if done is not None else None
        if done is None or kept is None or "repeats" in kept:
            continue
        if folder != folders.result:
            for name in (RESULT, DOCUMENTS, SCORES):
                write_file(join(folders.result, name), read_file(join(folder, name)) or b"")
            finish_stage(folders.result, "detect", key, done)
        return kept
    return None


def warn_of_thin_pool(progress: Progress, index: int | str, cluster: FoundCluster) -> None:
    if cluster.only_mother * 10 > len(cluster.documents):
        progress.warn(
            f"cluster {index}: {cluster.only_mother} of its {len(cluster.documents)} documents have"
            " one and the same document as their only mother, so its p-value says little: give"
            " more documents for validation, or choose another detection.pool or mothers"
        )


@dataclass(frozen=True)
class SearchedBatch:
    """A batch as it is searched: without copies, and with its new words where these are used."""

    documents: Corpus
    table: WordTable
    vocabulary: tuple[str, ...]


def open_batch(
    runner: Runner, stores: Mapping[str, CorpusStore], model: NullModel, rules: DetectionRules
) -> SearchedBatch:
    """The test store, under a model that knows its words."""
    test, train = stores["test"], stores["train"]
    if not rules.unseen:
        return SearchedBatch(test.without_copies(), model.table, model.vocabulary)
    # A word of too few training documents for the vocabulary is not new either.
    everything = with_all_words(test, train.unseen_words)
    documents = everything.without_copies()
    table = admit_new_words(runner, model.table, documents, train.without_copies())
    return SearchedBatch(documents, table, everything.vocabulary)


def name_normal_documents(stores: Mapping[str, CorpusStore]) -> Callable[[int], dict[str, Any]]:
    """Tells which document a row of the normal ones is: those of train, then those of validation,
    without copies."""
    rows = {part: stores[part].representatives() for part in ("train", "validation")}

    def name_row(row: int) -> dict[str, Any]:
        part = "train"
        if row >= len(rows[part]):
            part, row = "validation", row - len(rows[part])
        own = int(rows[part][row])
        return {"part": part, "row": own, "id": stores[part].ids(own, own + 1)[0]}

    return name_row


def make_result(
    config: RunConfig,
    stores: dict[str, CorpusStore],
    model: NullModel,
    batch: SearchedBatch,
    found: list[FoundCluster],
) -> dict[str, Any]:
    """What result.json says; `found` has the candidates of a batch without its copies, in the order
    in which they are listed."""
    test = stores["test"]
    shared, ids, labels = batch.table.shared, test.ids(), test.labels()
    rows = test.representatives()
    clusters = describe_clusters(
        found,
        batch.documents,
        shared,
        batch.vocabulary,
        [ids[row] for row in rows.tolist()],
        [labels[row] for row in rows.tolist()],
        test.n_words,
    )
    copies = test.copies()
    if copies is not None:
        place_in_batch(clusters, rows, copies, ids, labels)
    best = next(search for search in model.restarts if model.record in search)
    result = {
        "format": FORMAT,
        "name": config.name,
        "seed": config.seed,
        "corpus": {part: describe_part(store) for part, store in stores.items()},
        "null_model": {
            "n_topics": model.record.n_topics,
            "bic": model.record.bic,
            "order_search": [asdict(record) for record in best],
            "topics_per_document": model.record.topics_per_document,
            "salient_words_per_topic": model.record.words_per_topic,
        },
        "clusters": clusters,
    }
    if found and found[0].searches is not None:  # the same for all
        result["references"] = describe_searches(
            found[0].searches, model.vocabulary, name_normal_documents(stores)
        )
    if copies is not None:
        groups = choose_groups(copies)
        words = count_words(test, [group[0] for group in groups], unseen=True)
        usual = dict(zip(batch.vocabulary, shared.tolist(), strict=False)) if groups else {}
        result["copies"] = describe_copies(groups, words, usual, clusters, ids, labels)
    if config.evaluation.anomalous:
        result["evaluation"] = evaluate_clusters(clusters, labels, config.evaluation.anomalous)
    return result
