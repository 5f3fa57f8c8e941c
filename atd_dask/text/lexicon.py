"""The words of a whole corpus, and their numbers in a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from atd_dask.documents import CountBatch


class Lexicon:
    """Numbers the words of a whole corpus, in order of first occurrence."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def words(self) -> list[str]:
        return list(self._numbers)

    def number(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return the numbers of `words`; a new word gets the next number."""
        found = list(map(self._numbers.get, words))
        for index in [index for index, number in enumerate(found) if number is None]:
            found[index] = self._numbers.setdefault(words[index], len(self._numbers))
        return np.array(found, dtype=np.int32)

    def find(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return the index in `words` of each word that is numbered, -1 if it has none."""
        numbers = [self._numbers.get(word, -1) for word in words]
        indices = np.full(len(self) + 1, -1, np.int32)  # the last one is of those without a number
        indices[numbers] = np.arange(len(numbers))
        return indices[:-1]


class Counted(Protocol):
    """Documents whose words are numbered by a lexicon."""

    @property
    def lexicon(self) -> Lexicon: ...

    def frequencies(self) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class WordCodes:
    """Numbers of words → terms of the vocabulary, and of the unseen words; -1 where a word is in
    the other one."""

    to_vocabulary: NDArray[np.int32]
    to_unseen: NDArray[np.int32]
    n_words: int
    n_unseen: int

    def __sizeof__(self) -> int:
        return self.to_vocabulary.nbytes + self.to_unseen.nbytes

    def take(self, numbers: NDArray[np.int32]) -> WordCodes:
        """Return the codes of words that are numbered otherwise."""
        return WordCodes(
            self.to_vocabulary[numbers], self.to_unseen[numbers], self.n_words, self.n_unseen
        )

    def encode(self, batch: CountBatch) -> tuple[CountBatch, CountBatch]:
        """Return the counts of words in the vocabulary, and of words outside it."""
        return (
            batch.rename(self.to_vocabulary).sort(self.n_words),
            batch.rename(self.to_unseen).sort(self.n_unseen),
        )


@dataclass(frozen=True)
class Encoding:
    """Maps the words of one part of a corpus to the vocabulary, or to the unseen words."""

    vocabulary: Sequence[str]
    unseen_words: Sequence[str]
    codes: WordCodes

    @classmethod
    def choose(cls, documents: Counted, vocabulary: Sequence[str]) -> Encoding:
        words = documents.lexicon.words()
        occurring = documents.frequencies() > 0
        to_vocabulary = documents.lexicon.find(vocabulary)
        others = np.flatnonzero(occurring & (to_vocabulary < 0)).tolist()
        others.sort(key=words.__getitem__)
        outside = [words[number] for number in others]
        to_unseen = np.full(len(words), -1, np.int32)
        to_unseen[others] = np.arange(len(others))
        codes = WordCodes(to_vocabulary, to_unseen, len(vocabulary), len(outside))
        return cls(vocabulary, outside, codes)

    def encode(self, batch: CountBatch) -> tuple[CountBatch, CountBatch]:
        """Return the counts of words in the vocabulary, and of words outside it."""
        return self.codes.encode(batch)
