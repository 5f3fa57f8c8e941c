"""Counts the words of documents, shard by shard."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import NO_DATE, CountBatch, Shard, Skipped
from atd_dask.kernels.copies import Hashes, make_word_keys
from atd_dask.kernels.letter_runs import FIRST_PLACE, TokenTable
from atd_dask.text.options import TextOptions
from atd_dask.text.readers.contents import Content
from atd_dask.text.readers.files import clean_labels, clean_text
from atd_dask.text.words import MAX_LETTERS, Tokeniser

# How many runs of letters a process remembers, at about 200 bytes each.
MAX_RUNS = 1_000_000

# How many characters of a text are kept.
KEPT_CHARACTERS = 2**16

# Bytes of text whose runs are looked up together; the working set stays in the CPU cache.
BYTES_AT_ONCE = 2**17


# How many skipped documents of a shard are listed one by one for each reason.
MOST_LISTED = 1000


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Counted documents; their terms are indices into `words`."""

    words: Sequence[str]
    batch: CountBatch
    skipped: Sequence[Skipped] = ()
    keys: Hashes | None = None  # words: a hash of each; made when needed if missing
    seen: tuple[str, Content] | None = None  # a file that was read, and what it contains

    def find_keys(self) -> Hashes:
        return make_word_keys(self.words) if self.keys is None else self.keys

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.batch) + 64 * len(self.words)


class _Numbers:
    """Numbers the words that a process sees, in order of first occurrence.

    It remembers each run of letters with the number of its word, or -1 if the run is dropped. So
    each run is filtered and stemmed once, and tokens never become strings.
    """

    def __init__(self, options: TextOptions) -> None:
        self.tokeniser = Tokeniser(options)
        self.words: list[str] = []
        self._number_of_word: dict[str, int] = {}
        # A piece has room for any letter, so every run that can be a word fits.
        self._runs = TokenTable(np.frombuffer(os.urandom(8 * MAX_LETTERS), dtype=np.uint64))
        self._runs_learnt = FIRST_PLACE
        self._number_of_run = np.zeros(0, dtype=np.int32)
        self._keys = np.zeros(0, dtype=np.uint64)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._number_of_run)

    def count(
        self, texts: Iterable[bytes]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Count the words of texts that the tokeniser encoded.

        Return the number of distinct words of each text, their numbers in ascending order, and how
        often each occurs.
        """
        parts = [_count_tokens(*self._number_tokens(some)) for some in _cut(texts)]
        distinct, terms, counts = zip(*parts, strict=True)
        return np.concatenate(distinct), np.concatenate(terms), np.concatenate(counts)

    def find_keys(self) -> Hashes:
        """Return a hash of every word numbered so far; each is computed once."""
        with self._lock:
            if len(self._keys) < len(self.words):
                fresh = make_word_keys(self.words[len(self._keys) :])
                self._keys = np.append(self._keys, fresh)
            return self._keys

    def _number_tokens(self, texts: list[bytes]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the word number of each token, -1 if dropped, and the token count of each text."""
        with self._lock:
            runs, sizes = self._runs.number(texts)
            self._learn_runs()
            return self._number_of_run[runs], sizes

    def _learn_runs(self) -> None:
        runs, index = self._runs.read(self._runs_learnt)
        if runs:
            numbers = [self._number_run(self.tokeniser.decode(run)) for run in runs]
            self._number_of_run = np.append(self._number_of_run, np.array(numbers, np.int32))
            self._runs_learnt = index

    def _number_run(self, run: str) -> int:
        word = self.tokeniser.normalise(run)
        if word is None:
            return -1
        number = self._number_of_word.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number


def _cut(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the texts in order, some at a time; the last list may be empty."""
    some: list[bytes] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(text)
        if size >= BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    yield some


@cache
def _kept_numbers(options: TextOptions) -> list[_Numbers]:
    return [_Numbers(options)]


def _find_numbers(options: TextOptions) -> _Numbers:
    """Return the numbering that this process keeps across shards, or a new one if it is full."""
    kept = _kept_numbers(options)
    if len(kept[0]) > MAX_RUNS:
        kept[0] = _Numbers(options)
    return kept[0]


def count_shard(shard: Shard, options: TextOptions, keep_text: bool = False) -> WordCounts:
    """Read a shard and count the words of its documents.

    Documents with too few or too many distinct words are skipped, as `options` says. With
    `keep_text`, texts are kept. Words are in alphabetical order, so that the result is the same in
    every process.
    """
    numbers = _find_numbers(options)
    ids: list[str] = []
    labels: list[tuple[str, ...]] = []
    dates: list[int] = []
    skipped: list[Skipped] = []
    n_skipped: Counter[str] = Counter()
    kept: list[bytes] | None = [] if keep_text else None

    def texts() -> Iterator[bytes]:
        for item in shard.read():
            if isinstance(item, Skipped):
                n_skipped[item.reason] += 1
                if n_skipped[item.reason] <= MOST_LISTED:
                    skipped.append(item)
                continue
            ids.append(item.id)
            labels.append(clean_labels(item.labels))
            dates.append(NO_DATE if item.date is None else item.date)
            if kept is not None:
                kept.append(clean_text(item.text[:KEPT_CHARACTERS]).encode("utf-8"))
            yield numbers.tokeniser.encode(item.text)

    distinct, terms, counts = numbers.count(texts())
    skipped += [
        Skipped(reason, "", n - MOST_LISTED) for reason, n in n_skipped.items() if n > MOST_LISTED
    ]
    indptr = np.concatenate(([0], np.cumsum(distinct)))
    moments = np.array(dates, dtype=np.int64)
    dated = moments if np.any(moments != NO_DATE) else None
    batch = CountBatch(ids, labels, indptr, terms, counts, kept, dated)
    keep = np.ones(len(batch), dtype=np.bool_)
    for too, reason in (
        (distinct == 0, "its text has no words that are kept"),
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
    used = np.flatnonzero(np.bincount(batch.terms)).tolist()
    used.sort(key=numbers.words.__getitem__)
    mine = np.zeros(max(used, default=-1) + 1, dtype=np.int32)
    mine[used] = np.arange(len(used))
    batch = dataclasses.replace(batch, terms=mine[batch.terms]).sort(len(used))
    words = [numbers.words[number] for number in used]
    return WordCounts(words, batch, skipped, numbers.find_keys()[used])


def _count_tokens(
    words: NDArray[np.int32],  # tokens, -1 where the word was dropped
    sizes: NDArray[np.int64],  # texts
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    n_bits = int(words.max(initial=0)).bit_length()
    starts = np.arange(len(sizes) + 1) << n_bits
    keys = np.repeat(starts[:-1], sizes)
    keys |= words
    keys.sort()
    keys = keys[np.searchsorted(keys, 0) :]  # without dropped tokens, which are -1
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    entries = keys[firsts]
    distinct = np.diff(np.searchsorted(entries, starts))
    terms = (entries & ((1 << n_bits) - 1)).astype(np.int32)
    return distinct, terms, np.diff(firsts, append=len(keys)).astype(np.int32)
