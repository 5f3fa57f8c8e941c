"""What a search finds if there is nothing to find.

The bootstrap test asks how a given set of documents scores, and ignores that the set is the result
of a search. So the same search runs in batches without an anomaly: held-out normal documents,
compared with the other ones. The largest support of each of these searches is a maximum over many
candidates, and such maxima follow Gumbel's law.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from atd_dask.kernels.blocks import Corpus
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.passes import add_up
from atd_dask.kernels.streams import open_stream

EULER = 0.5772156649015329

# By chance, twice a log-likelihood ratio reaches x with a probability of about exp(-x/2). Maxima
# spread at least as much, however similar a few of them are.
LEAST_SCALE = 2.0

# A law fitted to n maxima gives p-values that are too small. With the spread widened by 1 + 3/n,
# p-values from 0.01 to 0.2 are right to within a tenth for n of at least 19.
WIDER = 3.0

# A few searches say nothing about smaller probabilities.
LEAST_CHANCE = 1e-6


@dataclass(frozen=True)
class HeldOutSearch:
    """The best supported candidate of a whole search in held-out normal documents."""

    support: float
    size: int | None = 0  # None if it was not stored
    documents: tuple[int, ...] = ()  # the surest ones, as rows of all normal documents
    words: tuple[int, ...] = ()  # most telling first


def estimate_p_value(support: float, references: Floats) -> float:
    """Estimate how often a whole search finds this much support if there is nothing to find.

    The estimate is Gumbel's law with the mean and the standard deviation of the references, but at
    least the share of references that reached this support.
    """
    n = len(references)
    mean = add_up(references) / n
    scale = LEAST_SCALE
    if n > 1:
        deviation = math.sqrt(add_up((references - mean) ** 2) / (n - 1))
        scale = max(scale, (1 + WIDER / n) * deviation * math.sqrt(6) / math.pi)
    distance = (support - mean) / scale + EULER
    by_law = -math.expm1(-math.exp(min(-distance, 700.0)))
    reached = int(np.count_nonzero(references >= support)) / (n + 1)
    return float(max(by_law, reached, LEAST_CHANCE))


def draw_held_out(normal: Corpus, n_batch: int, seed: int, index: int) -> tuple[SomeRows, SomeRows]:
    """Draw normal documents that stand in for a batch, at most half of them; return these and the
    rest."""
    stream = open_stream(seed, f"reference/{index}")
    order = stream.permutation(normal.n_docs)
    n_held = min(n_batch, normal.n_docs // 2)
    return SomeRows(normal, np.sort(order[:n_held])), SomeRows(normal, np.sort(order[n_held:]))


@dataclass(frozen=True)
class JoinedCorpus:
    """The documents of several corpora over the same words, one after the other."""

    parts: tuple[Corpus, ...]

    @property
    def n_docs(self) -> int:
        return sum(part.n_docs for part in self.parts)

    @property
    def n_words(self) -> int:
        return self.parts[0].n_words

    @property
    def n_entries(self) -> int:
        return sum(part.n_entries for part in self.parts)

    @property
    def digest(self) -> str:
        return hashlib.sha256("".join(part.digest for part in self.parts).encode()).hexdigest()

    @cached_property
    def _starts(self) -> Ints:
        return np.cumsum([0, *(part.n_docs for part in self.parts)])

    @cached_property
    def block_starts(self) -> Ints:
        pairs = zip(self._starts, self.parts, strict=False)
        return np.unique(np.concatenate([start + part.block_starts for start, part in pairs]))

    def block(self, index: int) -> Block:
        return self.rows(int(self.block_starts[index]), int(self.block_starts[index + 1]))

    def rows(self, start: int, stop: int) -> Block:
        found = []
        for first, part in zip(self._starts.tolist(), self.parts, strict=False):
            low, high = max(start - first, 0), min(stop - first, part.n_docs)
            if low < high:
                found.append(part.rows(low, high))
        nothing = np.zeros(0, np.int32)
        found = found or [Block(np.zeros(1, np.int64), nothing, nothing)]
        return replace(Block.concatenate(found), start=start)

    def lengths(self) -> Ints:
        return np.concatenate([part.lengths() for part in self.parts])


@dataclass(frozen=True)
class SomeRows:
    """Some documents of a corpus, as a corpus with its blocks. It reads one block at a time."""

    corpus: Corpus
    chosen: Ints  # ascending

    @property
    def n_docs(self) -> int:
        return len(self.chosen)

    @property
    def n_words(self) -> int:
        return self.corpus.n_words

    @property
    def n_entries(self) -> int:
        """An estimate: their share of the entries of the corpus."""
        return self.corpus.n_entries * self.n_docs // max(self.corpus.n_docs, 1)

    @property
    def digest(self) -> str:
        chosen = np.ascontiguousarray(self.chosen).data
        return hashlib.sha256(self.corpus.digest.encode() + chosen).hexdigest()

    @cached_property
    def block_starts(self) -> Ints:
        return np.searchsorted(self.chosen, self.corpus.block_starts)

    def block(self, index: int) -> Block:
        return self.rows(int(self.block_starts[index]), int(self.block_starts[index + 1]))

    def rows(self, start: int, stop: int) -> Block:
        wanted = self.chosen[start:stop]
        bounds = self.corpus.block_starts
        parts = [Block(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))]
        homes = np.searchsorted(bounds, wanted, side="right") - 1
        for index in np.unique(homes).tolist():
            block = self.corpus.block(index)
            parts.append(block.take(wanted[homes == index] - block.start))
        return replace(Block.concatenate(parts), start=start)

    def lengths(self) -> Ints:
        return self.corpus.lengths()[self.chosen]
