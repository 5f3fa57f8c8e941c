"""Random numbers inside kernels: Philox 4×32, ten rounds.

A stream belongs to a key and a replicate; its draws are numbered. So each can be made anywhere, in
any order, and is always the same.
"""

from __future__ import annotations

import hashlib

import numpy as np

from atd_dask.kernels.jit import inner_kernel

_MASK = np.uint64(0xFFFFFFFF)
_MULTIPLY = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_SHIFT = np.uint64(32)
_ROUNDS = 10


def make_key(*purpose: object) -> np.uint64:
    """Return a key from what the numbers are for."""
    text = "/".join(map(str, purpose))
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


@inner_kernel
def draw_block(key, replicate, part, number, out):
    """Return four draws below 2³² into `out`: those numbered 4·number and on, of `part` of a
    replicate."""
    c0 = np.uint64(number) & _MASK
    c1 = np.uint64(part) & _MASK
    c2 = np.uint64(replicate) & _MASK
    c3 = np.uint64(replicate) >> _SHIFT
    k0 = key & _MASK
    k1 = key >> _SHIFT
    for _ in range(_ROUNDS):
        a = _MULTIPLY[0] * c0
        b = _MULTIPLY[1] * c2
        c0, c1, c2, c3 = (b >> _SHIFT) ^ c1 ^ k0, b & _MASK, (a >> _SHIFT) ^ c3 ^ k1, a & _MASK
        k0 = (k0 + _WEYL[0]) & _MASK
        k1 = (k1 + _WEYL[1]) & _MASK
    out[0] = c0
    out[1] = c1
    out[2] = c2
    out[3] = c3


@inner_kernel
def below(drawn, size):
    """Return a draw scaled to a whole number from 0 to before `size`, which is below 2³²."""
    return np.int64((drawn * np.uint64(size)) >> _SHIFT)
