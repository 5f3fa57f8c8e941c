"""What a search finds if there is nothing to find.

The bootstrap test asks how a given set of documents scores, and ignores that the set is the result
of a search. So the same search runs in batches without an anomaly: held-out normal documents,
compared with the other ones. The largest support of each of these searches is a maximum over many
candidates, and such maxima follow Gumbel's law.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from atd_dask.kernels.blocks import Corpus, MemoryCorpus
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.passes import add_up
from atd_dask.kernels.streams import open_stream

EULER = 0.5772156649015329

# The largest support of a search has about the same standard deviation everywhere: in eight
# collections in four languages it differed by no more than estimates from 19 searches do. So this
# value is combined with the searches of a run, with the weight of 40 of them.
USUAL_DEVIATION = 3.2
USUAL_COUNT = 40

# The variance of Gumbel's law of scale 1, and n times the relative variance of a standard deviation
# that is estimated from n of its values.
UNIT_VARIANCE = math.pi**2 / 6
SPREAD_VARIANCE = 1.1

# If the law makes it this improbable that as many searches reach a support as did, it is refused.
LEAST_FIT = 0.05

# A few searches say nothing about smaller probabilities.
LEAST_CHANCE = 1e-6
FARTHEST = 20.0  # in scales; by any of the laws, what is farther off has a smaller probability

# To read a block of a store costs more than to decompress it, so several are read together.
BLOCKS_AT_ONCE = 16

# A decision is certain if it would change only with errors of the law of this many standard
# deviations.
CERTAIN = 3.0


@dataclass(frozen=True)
class HeldOutSearch:
    """The best supported candidate of a whole search in held-out normal documents."""

    support: float
    size: int | None = 0  # None if it was not stored
    documents: tuple[int, ...] = ()  # the surest ones, as rows of all normal documents
    words: tuple[int, ...] = ()  # most telling first


def list_support(searches: Sequence[HeldOutSearch]) -> Floats:
    return np.array([search.support for search in searches])


def estimate_p_value(support: float, references: Floats) -> float:
    """Estimate how often a whole search finds this much support if there is nothing to find.

    The estimate is Gumbel's law, fitted to the references, or the share of references that reached
    this support if the law does not agree with that.
    """
    n = len(references)
    mean = add_up(references) / n
    around = add_up((references - mean) ** 2) + USUAL_COUNT * USUAL_DEVIATION**2
    scale = math.sqrt(around / (n - 1 + USUAL_COUNT) / UNIT_VARIANCE)
    distance = (support - mean) / scale + EULER
    # The mean over all laws that the references may come from: an error of `distance` with variance
    # v makes the tail larger by exp(v / 2).
    distance -= estimate_variance(distance, n) / 2
    by_law = -math.expm1(-math.exp(min(-distance, 700.0)))
    n_reaching = int(np.count_nonzero(references >= support))
    if n_reaching and _betainc(n_reaching, n - n_reaching + 1, by_law) < LEAST_FIT:
        return max(n_reaching / (n + 1), by_law)
    return max(by_law, LEAST_CHANCE)


def _betainc(a: float, b: float, x: float) -> float:
    # Few processes come here, and all would spend time on importing it.
    from scipy.special import betainc

    return float(betainc(a, b, x))


def estimate_variance(distance: float, n: int) -> float:
    """Estimate the variance of a distance from the mode of the law, in scales, if the law is fitted
    to n references."""
    of_scale = SPREAD_VARIANCE / (n + USUAL_COUNT)
    return UNIT_VARIANCE / n + min(max(distance, 0.0), FARTHEST) ** 2 * of_scale


def is_certain(p_value: float, level: float, n: int) -> bool:
    """Return whether a decision from n references is so clear that more would not change it."""
    error = math.sqrt(estimate_variance(-math.log(level), n))
    return abs(math.log(p_value / level)) > CERTAIN * error


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


def _find_runs(numbers: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers, at most so many at once."""
    places = np.arange(len(numbers))
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers - places)) + 1):
        for start in range(0, len(run), most):
            yield int(run[start]), int(run[start : start + most][-1])


@dataclass(frozen=True)
class SomeRows:
    """Some documents of a corpus, as a corpus with its blocks. It reads a few blocks at a time."""

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
        homes = np.unique(np.searchsorted(bounds, wanted, side="right") - 1)
        for first, last in _find_runs(homes, BLOCKS_AT_ONCE):
            low, high = int(bounds[first]), int(bounds[last + 1])
            mine = wanted[np.searchsorted(wanted, low) : np.searchsorted(wanted, high)]
            parts.append(self.corpus.rows(low, high).take(mine - low))
        return replace(Block.concatenate(parts), start=start)

    def lengths(self) -> Ints:
        return self.corpus.lengths()[self.chosen]


class RowsInMemory(SomeRows):
    """Some documents of a corpus that are read once, in one pass. In all else they are as before,
    the estimated number of entries included."""

    @cached_property
    def _read(self) -> MemoryCorpus:
        return MemoryCorpus(super().rows(0, self.n_docs), self.n_words, self.block_starts)

    def rows(self, start: int, stop: int) -> Block:
        return self._read.rows(start, stop)
