"""Finds runs of letters in text, and numbers them in order of first occurrence.

Text is bytes here. Letters are the ASCII letters, regardless of case, and all non-ASCII bytes. Any
other byte ends a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import kernel

PIECE = 4  # bytes of a run that are hashed and compared together
FIRST_PLACE = 1  # the offset of the first known run; 0 marks an empty slot

# The letter for each byte, 0 if it is not a letter.
_LETTERS = np.zeros(256, dtype=np.uint8)
_LETTERS[ord("a") : ord("z") + 1] = np.arange(ord("a"), ord("z") + 1)
_LETTERS[ord("A") : ord("Z") + 1] = np.arange(ord("a"), ord("z") + 1)
_LETTERS[128:] = np.arange(128, 256)

_HEAD = 2  # a known run is stored as its number, its number of pieces, and the pieces
_HALF = np.uint64(32)  # bits
_LOWER_HALF = np.uint64(2**32 - 1)

# Tokens to make room for at a time, so that the table grows with the runs, not with the text.
_TOKENS_AT_ONCE = 2**15


# b = bytes, d = documents, t = tokens, p = pieces of all tokens
@kernel
def _split(data, ends, letters, max_pieces, pieces, bounds, sizes):
    """Fill in the pieces of every run, where they end, and the number of runs of each document;
    return the total. Runs of more than `max_pieces` are left out.

    The letters of a piece start at its lowest byte, and zeros follow the last one.
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
    """Return the slot to probe first, in proportion to the hash."""
    return np.int64((hashed * np.uint64(n_slots)) >> _HALF)


# t = tokens, p = pieces of all tokens, s = slots, k = known runs
@kernel
def _number(pieces, bounds, secrets, slots, known, n_runs, top, numbers):
    """Fill in the number of each token; a new run gets the next number and is stored at `top`.

    The upper half of a slot has the hash of a run, and the lower half its offset.
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
    """A hash table of runs of letters, each with a number.

    Runs are compared by their letters; the hash only selects the first slot. It is keyed by
    `secrets`, one for each piece of a run; runs of more pieces are left out. With random secrets,
    any two runs start at the same slot with a probability of at most 2 over the number of slots
    (multiply-shift), so that no text can be crafted to make the table slow.

    It is not thread-safe.
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
        """Return the numbers of the runs of all texts, and how many runs each text has."""
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
        """Grow the table so that at least half of the slots stay empty."""
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
        """Return the runs from an offset on, in the order of their numbers, and the offset after
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
