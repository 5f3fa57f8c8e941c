"""Documents to counts: each shard over its own words, all shards over one vocabulary."""

from __future__ import annotations

import dataclasses
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import CountBatch, Shard, Skipped
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser

# Runs of letters that a process remembers, some 200 bytes each.
MAX_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Counted documents whose terms are positions in `words`."""

    words: Sequence[str]
    batch: CountBatch
    skipped: Sequence[Skipped] = ()


class _Numbers(dict[str, int]):
    """The number of each run of letters that a process has met: that of its word, or -1 for a run
    that is dropped. So a token costs one look-up, and dropping and stemming happen once."""

    def __init__(self, options: TextOptions) -> None:
        self.tokeniser = Tokeniser(options)
        self.words: list[str] = []
        self._number_of_word: dict[str, int] = {}
        self._lock = Lock()

    def __missing__(self, run: str) -> int:
        word = self.tokeniser.normalise(run)
        with self._lock:
            if word is None:
                number = -1
            else:
                number = self._number_of_word.setdefault(word, len(self.words))
                if number == len(self.words):
                    self.words.append(word)
            self[run] = number
        return number


@cache
def _kept_numbers(options: TextOptions) -> list[_Numbers]:
    return [_Numbers(options)]


def _find_numbers(options: TextOptions) -> _Numbers:
    """The numbers that this process keeps from shard to shard; begun anew when they are many."""
    kept = _kept_numbers(options)
    if len(kept[0]) > MAX_RUNS:
        kept[0] = _Numbers(options)
    return kept[0]


def count_shard(shard: Shard, options: TextOptions) -> WordCounts:
    """Reads a shard and counts the words of its documents; the limits of `options` on a
    document's number of distinct words are applied here."""
    numbers = _find_numbers(options)
    split = numbers.tokeniser.split
    number_of = numbers.__getitem__
    tokens: list[int] = []
    ends = [0]
    ids: list[str] = []
    labels: list[tuple[str, ...]] = []
    skipped: list[Skipped] = []
    for item in shard.read():
        if isinstance(item, Skipped):
            skipped.append(item)
            continue
        tokens.extend(map(number_of, split(item.text)))
        ends.append(len(tokens))
        ids.append(item.id)
        labels.append(item.labels)
    batch = _count_tokens(
        ids, labels, np.array(tokens, np.int32), np.array(ends), len(numbers.words)
    )
    distinct = np.diff(batch.indptr)
    keep = np.ones(len(batch), dtype=np.bool_)
    for too, reason in (
        (distinct == 0, "no word is left of its text"),
        (distinct < options.min_distinct, "fewer distinct words than corpus.text.min_distinct"),
        (
            distinct > (options.max_distinct or np.inf),
            "more distinct words than corpus.text.max_distinct",
        ),
    ):
        skipped += [Skipped(reason, f"document {id!r}") for id in compress(ids, keep & too)]
        keep &= ~too
    if not keep.all():
        batch = batch.take_documents(keep)
    used = np.flatnonzero(np.bincount(batch.terms, minlength=len(numbers.words)))
    mine = np.zeros(len(numbers.words), dtype=np.int32)
    mine[used] = np.arange(len(used))
    words = [numbers.words[number] for number in used]
    return WordCounts(words, dataclasses.replace(batch, terms=mine[batch.terms]), skipped)


def _count_tokens(
    ids: list[str],
    labels: list[tuple[str, ...]],
    tokens: NDArray[np.int32],  # all documents' tokens, -1 where the word was dropped
    ends: NDArray[np.int64],  # documents + 1
    n_words: int,
) -> CountBatch:
    keep = tokens >= 0
    keys = np.repeat(np.arange(len(ids)) * n_words, np.diff(ends))[keep]
    keys += tokens[keep]
    keys.sort()
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    rows, terms = np.divmod(keys[firsts], max(n_words, 1))
    return CountBatch(
        ids=ids,
        labels=labels,
        indptr=np.searchsorted(rows, np.arange(len(ids) + 1)),
        terms=terms.astype(np.int32),
        counts=np.diff(firsts, append=len(keys)).astype(np.int32),
    )


class Lexicon:
    """Numbers the words of a whole corpus in the order in which they are first met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def words(self) -> list[str]:
        return list(self._numbers)

    def number(self, words: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of `words`; a new word gets the next one."""
        found = list(map(self._numbers.get, words))
        for place in [place for place, number in enumerate(found) if number is None]:
            found[place] = self._numbers.setdefault(words[place], len(self._numbers))
        return np.array(found, dtype=np.int32)


class Gathering:
    """Counted documents, in a scratch file until the vocabulary is known.

    The first document with an id is taken, a later one with the same id is skipped. To be closed.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.n_docs = 0
        self.skipped: dict[str, int] = {}
        self.examples: dict[str, str] = {}  # the first place for each reason
        self._scratch = tempfile.TemporaryFile(prefix="atd-dask-")  # noqa: SIM115
        self._n_batches = 0
        self._seen: set[str] = set()
        self._frequencies = np.zeros(0, dtype=np.int64)

    def add(self, counts: WordCounts) -> None:
        batch = counts.batch.rename(self.lexicon.number(counts.words))
        fresh = self._find_new(batch.ids)
        repeated = [
            Skipped("its id stands earlier in the corpus", f"document {id!r}")
            for id in compress(batch.ids, ~fresh)
        ]
        for skip in (*counts.skipped, *repeated):
            self.skipped[skip.reason] = self.skipped.get(skip.reason, 0) + 1
            self.examples.setdefault(skip.reason, skip.place)
        self._write(batch.take_documents(fresh) if repeated else batch)

    def _find_new(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        fresh = np.ones(len(ids), dtype=np.bool_)
        if self._seen.isdisjoint(ids) and len(set(ids)) == len(ids):
            self._seen.update(ids)
            return fresh
        for row, id in enumerate(ids):
            fresh[row] = id not in self._seen
            self._seen.add(id)
        return fresh

    def _write(self, batch: CountBatch) -> None:
        pickle.dump(batch, self._scratch, protocol=pickle.HIGHEST_PROTOCOL)
        self._n_batches += 1
        self.n_docs += len(batch)
        self._frequencies = self.frequencies() + np.bincount(
            batch.terms, minlength=len(self.lexicon)
        )

    def frequencies(self) -> NDArray[np.int64]:
        """In how many documents each word of the lexicon occurs."""
        padding = len(self.lexicon) - len(self._frequencies)
        return np.pad(self._frequencies, (0, padding))

    def batches(self) -> Iterator[CountBatch]:
        """Every document, in order; terms are numbers of the lexicon."""
        self._scratch.seek(0)
        for _ in range(self._n_batches):
            yield pickle.load(self._scratch)  # noqa: S301

    def divide(self, choices: Sequence[NDArray[np.bool_]]) -> list[Gathering]:
        """A gathering for each choice of documents; what was skipped is told by the first."""
        parts = [Gathering(self.lexicon) for _ in choices]
        parts[0].skipped, parts[0].examples = self.skipped, self.examples
        first = 0
        for batch in self.batches():
            for part, chosen in zip(parts, choices, strict=True):
                part._write(batch.take_documents(chosen[first : first + len(batch)]))
            first += len(batch)
        return parts

    def close(self) -> None:
        self._scratch.close()


@dataclass(frozen=True)
class Encoding:
    """The words of one part of a corpus: those of the vocabulary, and those outside it."""

    vocabulary: Sequence[str]
    unseen_words: Sequence[str]
    to_vocabulary: NDArray[np.int32]  # lexicon's number → term, -1 outside the vocabulary
    to_unseen: NDArray[np.int32]

    @classmethod
    def choose(cls, documents: Gathering, vocabulary: Sequence[str]) -> Encoding:
        words = documents.lexicon.words()
        occurring = documents.frequencies() > 0
        known = {word: term for term, word in enumerate(vocabulary)}
        to_vocabulary = np.fromiter((known.get(word, -1) for word in words), np.int32, len(words))
        outside = sorted(compress(words, occurring & (to_vocabulary < 0)))
        unseen = {word: term for term, word in enumerate(outside)}
        to_unseen = np.fromiter((unseen.get(word, -1) for word in words), np.int32, len(words))
        return cls(vocabulary, outside, to_vocabulary, to_unseen)

    def encode(self, batch: CountBatch) -> tuple[CountBatch, CountBatch]:
        """The counts of known words, and the counts of words outside the vocabulary."""
        return (
            batch.rename(self.to_vocabulary).sort(len(self.vocabulary)),
            batch.rename(self.to_unseen).sort(len(self.unseen_words)),
        )
