"""Random numbers inside kernels: Philox 4×32, ten rounds.

A stream belongs to a key and a replicate, and its draws are numbered. So each draw can be made
anywhere and in any order, and is always the same.
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
    """Return the key for a purpose."""
    text = "/".join(map(str, purpose))
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


@inner_kernel
def draw_block(key, replicate, part, number, out):
    """Write four draws below 2³² to `out`: those from 4·number on, of `part` of a replicate."""
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
    """Scale a draw to an integer from 0 to `size` − 1, where `size` is below 2³²."""
    return np.int64((drawn * np.uint64(size)) >> _SHIFT)
