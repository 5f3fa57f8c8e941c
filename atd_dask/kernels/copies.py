"""Near-duplicates: documents that say the same in nearly the same words.

A document is the set of its tokens: a word that occurs three times is (word, 1), (word, 2) and
(word, 3). All words count, including those outside the vocabulary. Two documents are
near-duplicates if they share three quarters of their tokens and three quarters of their words:
|A ∩ B| ≥ ¾ |A ∪ B| for both. This is decided exactly; banded MinHash signatures only select the
pairs to compare, and sketches of one bit per hash function spare most of them: of unlike documents
that happen to share a band, few agree in enough bits.

- The sets of words must match as well, and a word has at most `MOST_TOKENS` tokens, so that a word
  repeated hundreds of times does not make near-duplicates.
- Three quarters of a short document may be a form that others fill in too. With fewer than
  `LEAST_NEAR` words, only documents with equal counts are duplicates.
- Very short documents are equal by chance. If two tokens agree with probability 1/200, which is
  high for prose without stop words, two documents of n words are equal with probability n!/200ⁿ:
  for five words, that is at most once in a corpus of ten thousand documents. Documents with fewer
  than `LEAST_WORDS` words have no near-duplicates.

Near-duplicates do not chain: in row order, a document becomes a copy of the first representative
that it matches, or else a representative itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import inner_kernel, kernel
from atd_dask.kernels.model import Block, Ints

MOST_TOKENS = 8  # of one word
LEAST_WORDS = 5
LEAST_NEAR = 20

# A pair with a share s of common tokens is compared with probability 1 - (1 - s⁶)²⁰: 0.98 for three
# quarters, 0.9999 for 0.85, and 0.001 for a fifth, which two documents on one subject may share.
# Equal documents are always compared.
N_BANDS = 20
BAND_SIZE = 6

# How many representatives in a bucket a document is compared with. So the work stays linear in the
# number of documents, even if thousands of them fill in one form.
MOST_LISTED = 16

# Near-duplicates agree in a bit with probability 7/8, and in fewer than 84 of 120 bits once in ten
# million. Documents that share a fifth of their tokens agree in as many once in 67.
LEAST_EQUAL_BITS = 84
SKETCH_WORDS = 2

Hashes = NDArray[np.uint64]
Buckets = NDArray[np.int32]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


# The values of each signature, of the whole and of each band, of some documents.
Values = list[NDArray[Any]]


class Signatures(NamedTuple):
    """Hashes that bring similar documents together; 0 for documents that are not compared."""

    whole: Hashes  # documents: the same for equal documents
    bands: NDArray[np.uint32]  # documents × bands
    sketches: Hashes  # documents × SKETCH_WORDS: a bit of each hash

    def take(self, documents: NDArray[np.intp]) -> Signatures:
        return Signatures(
            self.whole.take(documents),
            self.bands.take(documents, axis=0),
            self.sketches.take(documents, axis=0),
        )

    def columns(self) -> Values:
        return [self.whole, *self.bands.T]

    @classmethod
    def concatenate(cls, parts: Sequence[Signatures]) -> Signatures:
        nothing = Signatures(
            np.zeros(0, np.uint64),
            np.zeros((0, N_BANDS), np.uint32),
            np.zeros((0, SKETCH_WORDS), np.uint64),
        )
        return cls(*map(np.concatenate, zip(nothing, *parts, strict=True)))


class Meetings(NamedTuple):
    """Documents that agree with another one in a value of a slice."""

    rows: Ints  # documents: their rows, ascending
    sketches: Hashes  # documents × SKETCH_WORDS
    places: list[Ints]  # signatures: those of `rows` that agree in it
    values: Values  # signatures: what these agree in

    @classmethod
    def choose(cls, signatures: Signatures, rows: Sequence[Ints], values: Values) -> Meetings:
        """Return the documents of these rows, which agree in a value of each signature."""
        every = np.unique(np.concatenate(rows))
        places = [np.searchsorted(every, mine) for mine in rows]
        return cls(every, signatures.sketches.take(every, axis=0), places, values)


class Parting(NamedTuple):
    """A partition of documents into representatives and their copies."""

    copy_of: Ints  # documents: the representative of a copy, -1 for representatives
    has_counterpart: NDArray[np.bool_]  # documents: matches one of an earlier part
    n_compared: int  # pairs whose words were compared


def make_word_keys(words: Sequence[str]) -> Hashes:
    """Hash each word, depending on nothing but its letters."""
    digests = (hashlib.blake2b(w.encode("utf-8", "surrogatepass"), digest_size=8) for w in words)
    return np.frombuffer(b"".join(digest.digest() for digest in digests), dtype="<u8").astype(
        np.uint64
    )


def draw_multipliers() -> NDArray[np.uint32]:
    """Return the odd factors and the summands of the hash functions, 2 × (bands · size).

    They do not depend on the seed of a run: the same documents always have the same copies.
    """
    size = N_BANDS * BAND_SIZE
    content = b"".join(
        hashlib.blake2b(f"near-copies/{n}".encode(), digest_size=8).digest() for n in range(size)
    )
    drawn = np.frombuffer(content, dtype="<u4").reshape(size, 2).T.astype(np.uint32)
    drawn[0] |= np.uint32(1)
    return np.ascontiguousarray(drawn)


def sign_documents(block: Block, keys: Hashes) -> Signatures:
    """Compute the signatures of documents whose terms have these keys."""
    return Signatures(*_sign(*block.arrays, keys, draw_multipliers(), N_BANDS))


@inner_kernel
def _mix(value):
    """Apply the finaliser of SplitMix64."""
    value = (value ^ (value >> np.uint64(30))) * _MIX[0]
    value = (value ^ (value >> np.uint64(27))) * _MIX[1]
    return value ^ (value >> np.uint64(31))


def hash_contents(block: Block, keys: Hashes) -> Hashes:
    """Hash each document: the same for the same words and counts, whatever their order."""
    hashes: Hashes = _hash(*block.arrays, keys)
    return hashes


# d = documents, e = entries
@kernel
def _hash(indptr, terms, counts, keys):
    hashes = np.zeros(len(indptr) - 1, np.uint64)
    for d in range(len(hashes)):
        total = np.uint64(0)
        for e in range(indptr[d], indptr[d + 1]):
            total += _mix(keys[terms[e]] + _GOLDEN) * np.uint64(counts[e])
        hashes[d] = total
    return hashes


# d = documents, e = entries, k = hash functions, b = bands
@kernel
def _sign(indptr, terms, counts, keys, multipliers, n_bands):
    n_docs = len(indptr) - 1
    n_hashes = multipliers.shape[1]
    band_size = n_hashes // n_bands
    whole = np.zeros(n_docs, np.uint64)
    bands = np.zeros((n_docs, n_bands), np.uint32)
    sketches = np.zeros((n_docs, SKETCH_WORDS), np.uint64)
    factors, summands = multipliers[0], multipliers[1]
    least = np.zeros(n_hashes, np.uint32)
    for d in range(n_docs):
        n_words = indptr[d + 1] - indptr[d]
        if n_words < LEAST_WORDS:
            continue
        for k in range(n_hashes):
            least[k] = np.uint32(0xFFFFFFFF)
        total = np.uint64(0)
        for e in range(indptr[d], indptr[d + 1]):
            key = keys[terms[e]]
            for i in range(min(counts[e], MOST_TOKENS)):
                token = _mix(key + np.uint64(i + 1) * _GOLDEN)
                total += token
                if n_words >= LEAST_NEAR:
                    half = np.uint32(token >> np.uint64(32))
                    for k in range(n_hashes):
                        hashed = np.uint32(factors[k] * half + summands[k])
                        least[k] = min(least[k], hashed)
        whole[d] = max(_mix(total), np.uint64(1))
        if n_words >= LEAST_NEAR:
            for k in range(n_hashes):
                bit = np.uint64(least[k] & np.uint32(1)) << np.uint64(k % 64)
                sketches[d, k // 64] |= bit
            for b in range(n_bands):
                joined = np.uint64(b + 1)
                for k in range(b * band_size, (b + 1) * band_size):
                    joined = _mix(joined ^ (np.uint64(least[k]) + _GOLDEN))
                bands[d, b] = max(np.uint32(joined >> np.uint64(32)), np.uint32(1))
    return whole, bands, sketches


def list_values(signatures: Signatures, index: int = 0, n_slices: int = 1) -> Values:
    """Return the values of each signature that are in one of so many slices of all values."""
    columns = signatures.columns()
    return [values[_are_in_slice(values, index, n_slices)] for values in columns]


def list_repeated(parts: Sequence[Values]) -> Values:
    """Return the values of each signature that occur more than once in all parts together."""
    return [_find_repeated(np.concatenate(values)) for values in zip(*parts, strict=True)]


def find_meetings(signatures: Signatures, repeated: Sequence[Values]) -> list[Meetings]:
    """Return the documents that agree with another one in a signature, for each slice of values,
    given those that are repeated in it. They are few, and no others can be near-duplicates."""
    columns, found = signatures.columns(), []
    rows = [_find_rows(values, lists) for values, *lists in zip(columns, *repeated, strict=True)]
    values = [column[mine] for column, mine in zip(columns, rows, strict=True)]
    for index in range(len(repeated)):
        chosen = [_are_in_slice(some, index, len(repeated)) for some in values]
        found.append(
            Meetings.choose(
                signatures,
                [mine[some] for mine, some in zip(rows, chosen, strict=True)],
                [mine[some] for mine, some in zip(values, chosen, strict=True)],
            )
        )
    return found


def _are_in_slice(values: NDArray[Any], index: int, n_slices: int) -> NDArray[np.bool_]:
    are_in_slice: NDArray[np.bool_] = values % values.dtype.type(n_slices) == index
    return are_in_slice


def _find_rows(values: NDArray[Any], slices: Sequence[NDArray[Any]]) -> Ints:
    """Return the documents with a value that is listed in one of the slices."""
    again = np.sort(np.concatenate(slices).astype(np.uint64))
    n_slots = 1 << (8 * len(again)).bit_length()
    slots = np.zeros(n_slots, np.bool_)
    slots[(again & np.uint64(n_slots - 1)).astype(np.int64)] = True
    met = np.zeros(len(values), np.bool_)
    _mark(values.astype(np.uint64), again, slots, met)
    return np.flatnonzero(met)


def _find_repeated(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values, apart from 0, that occur more than once, in ascending order."""
    # Values alone are sorted several times as fast as their rows.
    ordered = np.sort(values)
    again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    repeated: NDArray[Any] = again[again != 0]
    return repeated


# d = documents
@kernel
def _mark(values, again, slots, marked):
    """Mark the documents whose values are listed. Only these, and a few others, have a slot."""
    last = np.uint64(len(slots) - 1)
    for d in range(len(values)):
        if slots[np.int64(values[d] & last)]:
            low, high = 0, len(again)
            while low < high:
                middle = (low + high) // 2
                if again[middle] < values[d]:
                    low = middle + 1
                else:
                    high = middle
            if low < len(again) and again[low] == values[d]:
                marked[d] = True


def shortlist(parts: Sequence[Meetings]) -> list[Ints]:
    """Return the documents of each part that may be near-duplicates: those that agree with another
    one in a value of a slice, and in enough bits of their sketches."""
    starts = np.cumsum([0, *(len(part.rows) for part in parts)])
    listed = np.zeros(int(starts[-1]), np.bool_)
    for index in range(1 + N_BANDS):
        places = np.concatenate(
            [
                np.zeros(0, np.int64),
                *(part.places[index] + start for part, start in zip(parts, starts, strict=False)),
            ]
        )
        if not len(places):
            continue
        values = np.concatenate([part.values[index] for part in parts]).astype(np.uint64)
        sketches = np.concatenate(
            [part.sketches.take(part.places[index], axis=0) for part in parts]
        )
        mine = np.zeros(len(places), np.bool_)
        n_slots = 1 << (2 * len(places)).bit_length()
        # Equal documents need no sketch.
        least = LEAST_EQUAL_BITS if index else 0
        _shortlist(values, sketches, n_slots, least, MOST_LISTED, mine)
        listed[places[mine]] = True
    chosen = np.split(listed, starts[1:-1]) if parts else []
    return [part.rows[some] for part, some in zip(parts, chosen, strict=True)]


@inner_kernel
def _count_bits(value):
    """Return the number of bits that are set."""
    value -= (value >> np.uint64(1)) & np.uint64(0x5555555555555555)
    value = (value & np.uint64(0x3333333333333333)) + (
        (value >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((value * np.uint64(0x0101010101010101)) >> np.uint64(56))


# d = documents, s = slots of a hash table, w = words of a sketch
@kernel
def _shortlist(values, sketches, n_slots, least, most_listed, listed):
    most_unequal = N_BANDS * BAND_SIZE - least
    firsts = np.full(n_slots, np.int32(-1))  # the first document with the value of a slot
    following = np.full(len(values), np.int32(-1))
    for d in range(len(values)):
        if values[d] == 0:
            continue
        s = np.int64(_mix(values[d]) & np.uint64(n_slots - 1))
        while firsts[s] >= 0 and values[firsts[s]] != values[d]:
            s = (s + 1) & (n_slots - 1)
        other = np.int64(firsts[s])
        if other < 0:
            firsts[s] = d
            continue
        n_seen = 0
        while True:
            n_seen += 1
            n_unequal = np.int64(0)
            for w in range(SKETCH_WORDS):
                n_unequal += _count_bits(sketches[d, w] ^ sketches[other, w])
            if n_unequal <= most_unequal:
                listed[d] = True
                listed[other] = True
            if following[other] < 0 or n_seen == most_listed:
                break
            other = np.int64(following[other])
        if n_seen < most_listed:
            following[other] = d


def find_buckets(signatures: Signatures) -> tuple[Buckets, int]:
    """Return the bucket of each signature, documents × (1 + bands), -1 if no other document shares
    it, and the number of buckets."""
    columns = signatures.columns()
    buckets = np.full((len(signatures.whole), len(columns)), -1, dtype=np.int32)
    n_buckets = 0
    for index, column in enumerate(columns):
        shared = _find_repeated(column)
        if len(shared):
            index_of = np.searchsorted(shared, column)
            index_of[index_of == len(shared)] = 0
            rows = np.flatnonzero(shared[index_of] == column)
            buckets[rows, index] = n_buckets + index_of[rows]
            n_buckets += len(shared)
    return buckets, n_buckets


def part_copies(
    block: Block,
    n_words: int,
    parts: Ints,
    buckets: Buckets,
    n_buckets: int,
    n_parts: int | None = None,
) -> Parting:
    """Partition documents into representatives and their copies.

    `parts` (documents, ascending) has the part of the corpus of each document. A document is a copy
    of one in its own part; documents of the last part are compared with the other parts too. The
    last part is that of the last document, unless `n_parts` says how many there are.
    """
    if n_parts is None:
        n_parts = int(parts.max(initial=0)) + 1
    copy_of, has_counterpart, n_compared = _part(
        block.arrays, n_words, parts, n_parts, buckets, n_buckets, MOST_LISTED
    )
    return Parting(copy_of, has_counterpart, n_compared)


@inner_kernel
def _are_near(indptr, terms, counts, other, mine, n_mine, n_tokens):
    """Return whether a document is a near-duplicate of the one whose counts are in `mine`."""
    first, last = indptr[other], indptr[other + 1]
    least = n_mine if n_mine < last - first else last - first
    most = n_mine + last - first - least
    share = np.int64(4)
    wanted = np.int64(4) if least < LEAST_NEAR else np.int64(3)
    if share * least < wanted * most:
        return False
    common_words = np.int64(0)
    common = np.int64(0)
    total = n_tokens
    for e in range(first, last):
        count = min(np.int64(counts[e]), np.int64(MOST_TOKENS))
        here = mine[terms[e]]
        total += count
        if here > 0:
            common_words += 1
            common += min(count, here)
    return share * common_words >= wanted * (
        n_mine + last - first - common_words
    ) and share * common >= wanted * (total - common)


# d = documents, e = entries, c = columns of buckets, r = representatives
@kernel
def _part(rows, n_words, parts, n_parts, buckets, n_buckets, most_listed):
    indptr, terms, counts = rows
    n_docs, n_columns = buckets.shape
    copy_of = np.full(n_docs, np.int64(-1))
    has_counterpart = np.zeros(n_docs, np.bool_)
    # The representatives of a part in a bucket form a linked list.
    firsts = np.full((n_buckets, n_parts), np.int32(-1))
    lasts = np.full((n_buckets, n_parts), np.int32(-1))
    sizes = np.zeros((n_buckets, n_parts), np.int32)
    following = np.full((n_docs, n_columns), np.int32(-1))
    asked_by = np.full(n_docs, np.int64(-1))  # the last document compared with a representative
    mine = np.zeros(n_words, np.int64)
    n_compared = np.int64(0)
    for d in range(n_docs):
        n_mine = indptr[d + 1] - indptr[d]
        n_tokens = np.int64(0)
        for e in range(indptr[d], indptr[d + 1]):
            mine[terms[e]] = min(np.int64(counts[e]), np.int64(MOST_TOKENS))
            n_tokens += mine[terms[e]]
        own = parts[d]
        # Only documents of the last part look at other parts.
        for part in range(np.int64(0) if own == n_parts - 1 else own, own + 1):
            best = np.int64(-1)
            for c in range(n_columns):
                if buckets[d, c] < 0:
                    continue
                r = firsts[buckets[d, c], part]
                while r >= 0 and (best < 0 or r < best):
                    if asked_by[r] != d:
                        asked_by[r] = d
                        n_compared += 1
                        if _are_near(indptr, terms, counts, r, mine, n_mine, n_tokens):
                            best = np.int64(r)
                    r = following[r, c]
            if part == own:
                copy_of[d] = best
            elif best >= 0:
                has_counterpart[d] = True
        for e in range(indptr[d], indptr[d + 1]):
            mine[terms[e]] = 0
        if copy_of[d] >= 0:
            continue
        for c in range(n_columns):
            bucket = buckets[d, c]
            if bucket < 0 or sizes[bucket, own] == most_listed:
                continue
            if firsts[bucket, own] < 0:
                firsts[bucket, own] = d
            else:
                following[lasts[bucket, own], c] = d
            lasts[bucket, own] = d
            sizes[bucket, own] += 1
    return copy_of, has_counterpart, n_compared
