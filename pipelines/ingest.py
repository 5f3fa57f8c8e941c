"""Raw documents become three corpus stores: train, validation and test, over one vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import numpy as np

from atd_dask.config.run_config import RunConfig, as_dict
from atd_dask.distribution.copies import find_copies
from atd_dask.distribution.counting import count_shards
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.documents import Copies
from atd_dask.errors import AtdError, InputError
from atd_dask.kernels.jit import STORE
from atd_dask.kernels.streams import open_stream
from atd_dask.stages.checks import (
    check_batch,
    check_documents,
    check_labels,
    check_sources,
    tell_unseen,
)
from atd_dask.stages.text_settings import (
    lacks_segmentation,
    settle_language,
    settle_segmentation,
)
from atd_dask.storage.corpus import FORMAT, CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.files import join
from atd_dask.storage.locations import Place
from atd_dask.storage.stages import finish_stage, finished_stage, stage_key
from atd_dask.storage.texts import TextStore, TextWriter
from atd_dask.text import datasets, readers, synthetic
from atd_dask.text.counting import Encoding, Gathering, Lexicon, WordCounts
from atd_dask.text.options import Source, describe_text
from atd_dask.text.readers.counted import CountedCorpus
from atd_dask.text.readers.files import Inputs, look_at_files
from atd_dask.text.segmentation import MISSING

if TYPE_CHECKING:
    from distributed import Client

    from atd_dask.progress import Progress, Task

PARTS = ("train", "validation", "test")


def corpus_path(config: RunConfig, part: str) -> str:
    """Where the store of a part is."""
    return join(config.output, "corpus", f"{part}.zarr")


def texts_path(output: str, part: str = "test") -> str:
    """Where the texts of a part are, if they are kept."""
    return join(output, "corpus", f"{part}-texts.zarr")


def ingest(
    config: RunConfig, client: Client, progress: Progress, fresh: bool = False
) -> dict[str, Any]:
    """Reads, counts and stores the corpus of `config`; gives a summary of each part.

    Stores that were made from the same documents in the same way are left as they are.
    """
    check_sources(config)
    with progress.task("look at the documents", unit="bytes") as task:
        inputs = _look_at_inputs(config, progress, task)
    digests = [given.sha256 for given in inputs.values()]
    config = settle_segmentation(config)
    corpus = as_dict(config.corpus) | {"text": describe_text(config.corpus.text)}
    key = stage_key(FORMAT, config.seed, corpus, digests)
    done = None if fresh else finished_stage(config.output, "ingest", key)
    if done is not None and all(_is_there(part) for part in done.values()):
        progress.say("the corpus stores are up to date")
        check_batch_labels(config)
        return done
    summary = _ingest(config, client, progress, inputs)
    finish_stage(config.output, "ingest", key, summary)
    check_batch_labels(config)
    return summary


def check_batch_labels(config: RunConfig) -> None:
    """The labels that are to be found must be in the store of the batch."""
    if config.evaluation.anomalous:
        check_labels(config, CorpusStore.open(corpus_path(config, "test")).labels())


def _look_at_inputs(
    config: RunConfig, progress: Progress, task: Task
) -> dict[tuple[str, str], Inputs]:
    """Every input that the corpus is made from, by its part and the key that names it."""
    paths = {
        (part, key): getattr(source, key)
        for part in PARTS
        if (source := getattr(config.corpus, part)) is not None
        for key in ("path", "labels", "vocabulary")
    }
    if config.corpus.dataset in datasets.NAMES:
        located = datasets.locate(config.corpus.dataset, config.corpus.path, progress.say)
        paths[config.corpus.dataset, "path"] = located.path
    return {
        place: look_at_files(path, task.advance)
        for place, path in paths.items()
        if path is not None
    }


def _expect_documents(source: Source | None, inputs: Inputs | None) -> int | None:
    """About how many documents a source has, as far as that is seen without reading them."""
    if source is None or inputs is None:
        return None
    if source.format == "text":
        return inputs.n_files
    return inputs.n_lines if source.format in ("jsonl", "csv", "tsv") else None


def _is_there(part: dict[str, Any]) -> bool:
    try:
        texts = part.get("texts")
        return bool(
            CorpusStore.open(part["path"]).digest == part["digest"]
            and (texts is None or TextStore.open(texts["path"]).digest == texts["digest"])
        )
    except AtdError:
        return False


def _ingest(
    config: RunConfig, client: Client, progress: Progress, inputs: dict[tuple[str, str], Inputs]
) -> dict[str, Any]:
    config = settle_language(config, progress)
    lexicon = Lexicon()
    with ExitStack() as scratch:

        def gather(name: str, pieces: Iterator[WordCounts]) -> Gathering:
            gathering = scratch.enter_context(closing(Gathering(lexicon)))
            source = getattr(config.corpus, name, None)
            total = _expect_documents(source, inputs.get((name, "path")))
            with progress.task(f"read {name}", total, "documents", STORE.is_compiling) as task:
                for piece in pieces:
                    gathering.add(piece)
                    task.advance(len(piece.batch) + len(piece.skipped))
            check_documents(config, name, gathering, progress)
            return gathering

        vocabulary: Sequence[str] | None = None
        if config.corpus.dataset in datasets.NAMES:
            parts = _gather_dataset(config, client, gather)
        else:
            parts, vocabulary = _gather_parts(config, client, gather)
        for part in parts.values():
            scratch.enter_context(closing(part))
        if lacks_segmentation(config.corpus.text, lexicon.words()):
            progress.warn(MISSING)
        if vocabulary is None:
            vocabulary = choose_vocabulary(config, parts["train"])
        parts = {part: parts[part] for part in PARTS if part in parts}
        copies = look_for_copies(config, parts, client, progress)
        if "test" in parts:
            check_batch(parts, copies, progress)
        summary = {
            part: store_part(config, part, documents, vocabulary, progress, copies.get(part))
            for part, documents in parts.items()
        }
        if "test" in parts:
            digest = summary["test"]["digest"]
            summary["test"]["texts"] = store_texts(config, "test", parts["test"], digest, progress)
            tell_unseen(config, CorpusStore.open(summary["test"]["path"]), progress)
        return summary


Gather = Callable[[str, Iterator[WordCounts]], Gathering]


def _gather_dataset(config: RunConfig, client: Client, gather: Gather) -> dict[str, Gathering]:
    """A named collection, divided as the paper does."""
    name = config.corpus.dataset
    assert name is not None
    source = datasets.locate(name, config.corpus.path)
    shards = readers.shards(source, config.corpus.text)
    pieces = count_shards(client, shards, config.corpus.text, config.corpus.keep_text)
    documents = gather(name, pieces)
    ids: list[str] = []
    labels: list[tuple[str, ...]] = []
    for batch in documents.batches():
        ids += batch.ids
        labels += batch.labels
    assigned = np.array(
        datasets.assign_parts(name, ids, labels, config.corpus.anomalous, config.seed), object
    )
    return dict(zip(PARTS, documents.divide([assigned == part for part in PARTS]), strict=True))


def _gather_parts(
    config: RunConfig, client: Client, gather: Gather
) -> tuple[dict[str, Gathering], Sequence[str] | None]:
    """A source for each part, and the vocabulary if train brings its own. Without a source for
    validation, a share of train is set aside."""
    parts: dict[str, Gathering] = {}
    vocabulary: Sequence[str] | None = None
    for part in PARTS:
        counted = open_counted(config, part)
        if counted is not None:
            parts[part] = gather(part, counted_pieces(counted))
            if part == "train":
                vocabulary = counted.vocabulary or _numbers(parts[part])
            continue
        source: Source | None = getattr(config.corpus, part)
        if source is not None:
            readers.check_fields(source, config.corpus.text)
            shards = readers.shards(source, config.corpus.text)
            keep_text = config.corpus.keep_text and part == "test"
            parts[part] = gather(part, count_shards(client, shards, config.corpus.text, keep_text))
    if "validation" not in parts:
        n_docs = parts["train"].n_docs
        aside = np.zeros(n_docs, dtype=np.bool_)
        order = open_stream(config.seed, "validation").permutation(n_docs)
        aside[order[: round(config.corpus.validation_share * n_docs)]] = True
        parts["train"], parts["validation"] = parts["train"].divide([~aside, aside])
    return parts, vocabulary


def open_counted(config: RunConfig, part: str) -> CountedCorpus | None:
    """The part as a corpus that is counted already, or None if it is text or absent."""
    source: Source | None = getattr(config.corpus, part)
    if config.corpus.dataset == "synthetic" or (source and source.format == "synthetic"):
        return synthetic.generate(config.seed, part)
    if source is None or source.format in readers.TEXT_FORMATS:
        return None
    if source.format == "zarr":
        store = CorpusStore.open(source.path or "")
        return CountedCorpus(store.vocabulary, store.batches)
    return readers.counts(source)


def counted_pieces(corpus: CountedCorpus) -> Iterator[WordCounts]:
    """Its documents, as a shard of text would give them."""
    for batch in corpus.batches():
        words = corpus.vocabulary
        if words is None:
            words = tuple(map(str, range(int(batch.terms.max(initial=-1)) + 1)))
        count(documents_ingested=len(batch))
        yield WordCounts(words, batch)


def _numbers(train: Gathering) -> Sequence[str]:
    """The vocabulary of a corpus whose words are numbers: all up to the largest."""
    largest = max(map(int, train.lexicon.words()), default=-1)
    return tuple(map(str, range(largest + 1)))


def choose_vocabulary(config: RunConfig, train: Gathering) -> Sequence[str]:
    """The words of enough training documents, in alphabetical order."""
    least = config.corpus.text.min_document_frequency
    words = train.lexicon.words()
    vocabulary = sorted(words[n] for n in np.flatnonzero(train.frequencies() >= max(least, 1)))
    if not vocabulary:
        raise InputError(
            "the training documents must have a word that is kept, got none: look at "
            f"corpus.train and corpus.text (min_document_frequency is {least})"
        )
    return vocabulary


def look_for_copies(
    config: RunConfig, parts: Mapping[str, Gathering], client: Client, progress: Progress
) -> dict[str, Copies]:
    """The near-copies in each part, unless every document is to be taken for itself."""
    if config.corpus.copies == "keep":
        return {}
    n_docs = sum(part.n_docs for part in parts.values())
    with progress.task("look for copies", n_docs, "documents", STORE.is_compiling) as task:
        return find_copies(Runner(client), parts, task.advance)


def store_part(
    config: RunConfig,
    part: str,
    documents: Gathering,
    vocabulary: Sequence[str],
    progress: Progress,
    copies: Copies | None = None,
) -> dict[str, Any]:
    """Writes documents as a part of the corpus, over a vocabulary; gives a summary."""
    encoding = Encoding.choose(documents, vocabulary)
    path = corpus_path(config, part)
    attributes = {
        "part": part,
        "dataset": config.corpus.dataset,
        "text": describe_text(config.corpus.text),
        "skipped": documents.skipped,
    }
    n_unseen = 0
    with (
        CorpusWriter(path, vocabulary, encoding.unseen_words, attributes, copies) as writer,
        progress.task(f"store {part}", documents.n_docs, "documents") as task,
    ):
        for batch in documents.batches():
            known, unseen = encoding.encode(batch)
            writer.append(known, unseen)
            n_unseen += int(unseen.counts.sum())
            task.advance(len(batch))
    store = CorpusStore.open(path)
    return {
        "path": path,
        "digest": store.digest,
        "documents": store.n_docs,
        "copies": store.n_copies,
        "tokens": store.n_tokens,
        "terms": store.n_words,
        "unseen_terms": len(encoding.unseen_words),
        "unseen_tokens": n_unseen,
        "skipped": {
            reason: {"documents": number, "first": documents.examples[reason]}
            for reason, number in documents.skipped.items()
        },
    }


def store_texts(
    config: RunConfig, part: str, documents: Gathering, corpus: str, progress: Progress
) -> dict[str, Any] | None:
    """Stores the texts of a part, if there are any and they are to be kept; else removes those of
    an earlier run."""
    path = texts_path(config.output, part)
    if not documents.has_texts:
        Place.of(path).remove()
        return None
    with (
        TextWriter(path, corpus) as writer,
        progress.task("store texts", documents.n_docs, "documents") as task,
    ):
        for batch in documents.batches():
            writer.append(batch.texts or ())
            task.advance(len(batch))
    return {"path": path, "digest": TextStore.open(path).digest}
