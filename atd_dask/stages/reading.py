"""Reads and counts the documents of a corpus, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from atd_dask.config.run_config import CorpusConfig, RunConfig
from atd_dask.distribution.counting import hold_files, hold_shards
from atd_dask.distribution.engine.counters import count
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import PARTS, Shard, name_numbers
from atd_dask.kernels.streams import open_stream
from atd_dask.storage.corpus import CorpusStore
from atd_dask.text import datasets, readers, synthetic
from atd_dask.text.counting import WordCounts
from atd_dask.text.options import Source
from atd_dask.text.readers.contents import Contents, Inputs, Unread
from atd_dask.text.readers.counted import CountedCorpus
from atd_dask.text.readers.files import find_files, find_size, look_at_files

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client
    from atd_dask.progress import Progress, Task


@dataclass(frozen=True)
class TextPieces:
    """Shards of text, which are counted on the workers and stay there."""

    runner: Runner
    shards: Iterable[Shard]
    corpus: CorpusConfig
    keep_text: bool
    expected: int | None = None  # number of documents

    def expect(self) -> int | None:
        return self.expected

    def fill(self, spool: CountSpool) -> Iterator[int]:
        held = hold_shards(self.runner, self.shards, self.corpus.text, keep_text=self.keep_text)
        for handle, summary in held:
            spool.note(handle, summary)
            yield len(summary.ids) + sum(skip.times for skip in summary.skipped)


@dataclass(frozen=True)
class FilePieces:
    """The files of a source, which are read once and hashed on the way; their text is counted on
    the workers and stays there."""

    runner: Runner
    source: Source
    corpus: CorpusConfig
    keep_text: bool
    expected: Inputs | Unread
    contents: Contents = field(default_factory=Contents)

    def expect(self) -> int | None:
        if isinstance(self.expected, Inputs):
            return self.expected.n_lines
        return self.contents.expect_lines(self.expected.n_bytes)

    def fill(self, spool: CountSpool) -> Iterator[int]:
        held = hold_files(
            self.runner,
            readers.pieces(self.source, self.corpus.text, self.contents),
            self.source,
            self.corpus.text,
            self.contents,
            keep_text=self.keep_text,
        )
        for handle, summary in held:
            spool.note(handle, summary)
            yield len(summary.ids) + sum(skip.times for skip in summary.skipped)


@dataclass(frozen=True)
class CountedPieces:
    """Counts that are read here."""

    corpus: CountedCorpus
    runner: Runner = field(default_factory=Runner)

    def expect(self) -> int | None:
        return None

    def fill(self, spool: CountSpool) -> Iterator[int]:
        for piece in counted_pieces(self.corpus):
            spool.add(piece)
            yield len(piece.batch)


class Pieces(Protocol):
    """The pieces of a part; `fill` puts them into a spool, and yields the documents of each.
    `expect` estimates the number of all documents, if that is possible already."""

    @property
    def runner(self) -> Runner: ...

    def expect(self) -> int | None: ...

    def fill(self, spool: CountSpool) -> Iterator[int]: ...


Gather = Callable[[str, Pieces], CountSpool]

# The inputs of a corpus by part and key. What some contain is only known once they are read.
CorpusInputs = dict[tuple[str, str], Inputs | Unread]


def look_at_inputs(
    config: RunConfig, progress: Progress, task: Task, *, each: bool
) -> CorpusInputs:
    """Look at the inputs of the corpus: at each of them, or only at those that are not hashed as
    they are read. The others are not read now, but must be there."""
    paths = {
        (part, key): getattr(source, key)
        for part in PARTS
        if (source := getattr(config.corpus, part)) is not None
        for key in ("path", "labels", "vocabulary")
    }
    if config.corpus.dataset in datasets.NAMES:
        located = datasets.locate(config.corpus.dataset, config.corpus.path, progress.say)
        paths[config.corpus.dataset, "path"] = located.path
    found: CorpusInputs = {}
    for (part, key), path in paths.items():
        if path is None:
            continue
        source = getattr(config.corpus, part, None)
        endings = None
        if key == "path" and source is not None and source.format in readers.ONCE_FORMATS:
            endings = readers.find_endings(source)
        if endings is None or each:
            found[part, key] = look_at_files(path, task.advance, endings)
        else:
            found[part, key] = Unread(sum(map(find_size, find_files(path, endings))))
    return found


def gather_dataset(config: RunConfig, client: Client, gather: Gather) -> dict[str, CountSpool]:
    """Read a named collection, split as in the paper."""
    name = config.corpus.dataset
    assert name is not None
    source = datasets.locate(name, config.corpus.path)
    shards = readers.shards(source, config.corpus.text)
    pieces = TextPieces(Runner(client), shards, config.corpus, config.corpus.keep_text)
    documents = gather(name, pieces)
    assigned = np.array(
        datasets.assign_parts(name, *documents.names(), config.corpus.anomalous, config.seed),
        object,
    )
    return dict(zip(PARTS, documents.divide([assigned == part for part in PARTS]), strict=True))


def gather_parts(
    config: RunConfig, client: Client, gather: Gather, inputs: CorpusInputs
) -> tuple[dict[str, CountSpool], Sequence[str] | None]:
    """Read the source of each part, and return the vocabulary if train has one. Without a source
    for validation, a share of train is held out. What is hashed on the way is noted in `inputs`."""
    parts: dict[str, CountSpool] = {}
    vocabulary: Sequence[str] | None = None
    for part in PARTS:
        counted = open_counted(config, part)
        if counted is not None:
            parts[part] = gather(part, CountedPieces(counted))
            if part == "train":
                vocabulary = counted.vocabulary or _numbers(parts[part])
            continue
        source: Source | None = getattr(config.corpus, part)
        if source is not None:
            readers.check_fields(source, config.corpus.text)
            keep_text = config.corpus.keep_text and part == "test"
            known = inputs.get((part, "path"), Unread(0))
            if source.format in readers.ONCE_FORMATS:
                files = FilePieces(Runner(client), source, config.corpus, keep_text, known)
                parts[part] = gather(part, files)
                inputs[part, "path"] = files.contents.finish()
            else:
                shards = readers.shards(source, config.corpus.text)
                expected = None
                if source.format == "text" and isinstance(known, Inputs):
                    expected = known.n_files
                pieces = TextPieces(Runner(client), shards, config.corpus, keep_text, expected)
                parts[part] = gather(part, pieces)
    if "validation" not in parts:
        n_docs = parts["train"].n_docs
        aside = np.zeros(n_docs, dtype=np.bool_)
        order = open_stream(config.seed, "validation").permutation(n_docs)
        aside[order[: round(config.corpus.validation_share * n_docs)]] = True
        parts["train"], parts["validation"] = parts["train"].divide([~aside, aside])
    return parts, vocabulary


def open_counted(config: RunConfig, part: str) -> CountedCorpus | None:
    """Open a part that is counts already; return None if it is text or absent."""
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
    """Yield the documents of a counted corpus in the form of counted text."""
    where = "a corpus of numbered words"
    for batch in corpus.batches():
        words = corpus.vocabulary
        if words is None:
            words = name_numbers(int(batch.terms.max(initial=-1)) + 1, corpus.place or where)
        count(documents_ingested=len(batch))
        yield WordCounts(words, batch)


def _numbers(train: CountSpool) -> Sequence[str]:
    """Return the vocabulary of a corpus whose words are numbers: all up to the largest."""
    largest = max(map(int, train.lexicon.words()), default=-1)
    return name_numbers(largest + 1, "train")
