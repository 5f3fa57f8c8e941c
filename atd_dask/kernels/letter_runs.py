"""Runs of letters in text: found, and numbered in the order in which they are first met.

Text is bytes here. Letters are the ASCII letters, whose case is folded, and all bytes beyond
ASCII; any other byte ends a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import kernel

PIECE = 4  # bytes of a run that are hashed and compared at once
FIRST_PLACE = 1  # of a known run; 0 marks an empty slot

# The letter that a byte stands for, 0 for one that is none.
_LETTERS = np.zeros(256, dtype=np.uint8)
_LETTERS[ord("a") : ord("z") + 1] = np.arange(ord("a"), ord("z") + 1)
_LETTERS[ord("A") : ord("Z") + 1] = np.arange(ord("a"), ord("z") + 1)
_LETTERS[128:] = np.arange(128, 256)

_HEAD = 2  # a known run is kept as its number, how many pieces it has, and these
_HALF = np.uint64(32)  # bits
_LOWER_HALF = np.uint64(2**32 - 1)

# Room is made for so many tokens at a time: the table is to grow with the runs, not with the text.
_TOKENS_AT_ONCE = 2**15


# b = bytes, d = documents, t = tokens, p = pieces of all tokens
@kernel
def _split(data, ends, letters, max_pieces, pieces, bounds, sizes):
    """Fill in the pieces of every run, where the pieces of each end, and how many runs each
    document has; gives how many there are. A longer run than `max_pieces` is left out.

    The letters of a piece stand from its lowest byte on, behind the last one are zeros.
    """
    n_tokens = 0
    top = 0
    at = 0
    for d in range(len(ends)):
        before = n_tokens
        while at < ends[d]:
            if letters[data[at]] == 0:
                at += 1
                continue
            size = 0
            piece = np.uint32(0)
            shift = np.uint32(0)
            while at < ends[d]:
                letter = letters[data[at]]
                if letter == 0:
                    break
                at += 1
                piece |= np.uint32(letter) << shift
                shift += np.uint32(8)
                if shift == 32:
                    pieces[top + size] = piece
                    size += 1
                    piece = np.uint32(0)
                    shift = np.uint32(0)
            if shift > 0:
                pieces[top + size] = piece
                size += 1
            if size <= max_pieces:
                top += size
                n_tokens += 1
                bounds[n_tokens] = top
        sizes[d] = n_tokens - before
    return n_tokens


@kernel
def _slot_of(hashed, n_slots):
    """Return where to look first, in proportion to the hash."""
    return np.int64((hashed * np.uint64(n_slots)) >> _HALF)


# t = tokens, p = pieces of all tokens, s = slots, k = known runs
@kernel
def _number(pieces, bounds, secrets, slots, known, n_runs, top, numbers):
    """Fill in the number of each token; a new run gets the next number and is kept at `top`.

    A slot holds the hash of a run in its upper half and the place of the run in its lower half.
    """
    for t in range(len(numbers)):
        start = bounds[t]
        size = bounds[t + 1] - start
        hashed = np.uint64(0)
        for k in range(size):
            hashed += secrets[k] * np.uint64(pieces[start + k])
        hashed >>= _HALF
        slot = _slot_of(hashed, len(slots))
        while True:
            found = slots[slot]
            if found == 0:
                slots[slot] = (hashed << _HALF) | np.uint64(top)
                known[top] = n_runs
                known[top + 1] = size
                for k in range(size):
                    known[top + _HEAD + k] = pieces[start + k]
                numbers[t] = n_runs
                n_runs += 1
                top += _HEAD + size
                break
            if found >> _HALF == hashed:
                place = np.int64(found & _LOWER_HALF)
                if known[place + 1] == size:
                    k = 0
                    while k < size and known[place + _HEAD + k] == pieces[start + k]:
                        k += 1
                    if k == size:
                        numbers[t] = known[place]
                        break
            slot += 1
            if slot == len(slots):
                slot = 0
    return n_runs, top


@kernel
def _refill(old, slots):
    for filled in old:
        if filled != 0:
            slot = _slot_of(filled >> _HALF, len(slots))
            while slots[slot] != 0:
                slot += 1
                if slot == len(slots):
                    slot = 0
            slots[slot] = filled


class TokenTable:
    """The runs of letters that were met, each with a number.

    Runs are told apart by their letters alone; a hash only says where to look first. It is keyed
    by `secrets`, one for each piece of a run: a run of more pieces is left out. For random secrets,
    any two runs begin at the same slot with a chance of at most 2 in the number of slots
    (multiply-shift), so that nobody can write a text that makes the table slow.

    Not for several threads at once.
    """

    def __init__(self, secrets: NDArray[np.uint64]) -> None:
        self._secrets = np.array(secrets, dtype=np.uint64)
        self._slots = np.zeros(2, dtype=np.uint64)
        self._known = np.zeros(FIRST_PLACE, dtype=np.uint32)
        self._n_runs = 0
        self._top = FIRST_PLACE

    def __len__(self) -> int:
        return self._n_runs

    def number(self, texts: Sequence[bytes]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the numbers of all runs of all texts, and how many runs each text has."""
        data = np.frombuffer(b"".join(texts), dtype=np.uint8)
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        sizes = np.zeros(len(texts), dtype=np.int64)
        pieces = np.empty(len(data), dtype=np.uint32)
        bounds = np.zeros(len(data) + 1, dtype=np.int64)
        n_tokens = _split(data, ends, _LETTERS, len(self._secrets), pieces, bounds, sizes)
        numbers = np.empty(n_tokens, dtype=np.int32)
        for first in range(0, n_tokens, _TOKENS_AT_ONCE):
            some = numbers[first : first + _TOKENS_AT_ONCE]
            limits = bounds[first : first + len(some) + 1]
            self._make_room(len(some), int(limits[-1] - limits[0]))
            self._n_runs, self._top = _number(
                pieces,
                limits,
                self._secrets,
                self._slots,
                self._known,
                self._n_runs,
                self._top,
                some,
            )
        return numbers, sizes

    def _make_room(self, n_runs: int, n_pieces: int) -> None:
        """At least half of the slots stay empty."""
        n_slots = len(self._slots)
        while n_slots < 2 * (self._n_runs + n_runs):
            n_slots *= 2
        if n_slots > len(self._slots):
            old, self._slots = self._slots, np.zeros(n_slots, dtype=np.uint64)
            _refill(old, self._slots)
        short = self._top + _HEAD * n_runs + n_pieces - len(self._known)
        if short > 0:
            self._known = np.pad(self._known, (0, max(short, len(self._known))))

    def read(self, place: int = FIRST_PLACE) -> tuple[list[bytes], int]:
        """Return the runs from a place on, in the order of their numbers, and the place behind
        them."""
        known = self._known[place : self._top].astype("<u4")
        data = known.tobytes()
        runs = []
        start = 0
        while start < len(known):
            stop = start + _HEAD + int(known[start + 1])
            runs.append(data[PIECE * (start + _HEAD) : PIECE * stop].rstrip(b"\0"))
            start = stop
        return runs, self._top
