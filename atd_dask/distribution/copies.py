"""Finds near-duplicates among spooled documents.

Signatures are computed where the documents are. Only those that share a signature come here to be
compared, in row order. The result does not depend on the pieces of a spool, or on where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import Copies
from atd_dask.kernels.copies import Parting, Signatures, find_buckets, part_copies, shortlist
from atd_dask.kernels.model import Block, Ints


def find_copies(
    parts: Mapping[str, CountSpool], on_progress: Callable[[int], None] = lambda n_docs: None
) -> dict[str, Copies]:
    """Return the near-duplicates within each part of a corpus, the last of which is the batch.

    The parts share a lexicon. A group in the batch counts as in training if one of its documents is
    a near-duplicate of a document of another part. `on_progress` is called with the number of
    documents read.
    """
    signed = []
    for part in parts.values():
        for some in part.sign():
            signed.append(some)
            on_progress(len(some.whole))
    signatures = Signatures.concatenate(signed)
    del signed
    sizes = [part.n_docs for part in parts.values()]
    parting = _compare(parts, sizes, signatures)
    found = {}
    start = 0
    for name, size in zip(parts, sizes, strict=True):
        mine = parting.copy_of[start : start + size]
        copies = np.where(mine < 0, -1, mine - start)
        like = parting.has_counterpart[start : start + size]
        found[name] = Copies(copies, _spread(copies, like), like)
        start += size
    return found


def _compare(parts: Mapping[str, CountSpool], sizes: list[int], signatures: Signatures) -> Parting:
    """Partition the documents that may be near-duplicates; all others stand for themselves."""
    rows = np.flatnonzero(shortlist(signatures))
    buckets, n_buckets = find_buckets(signatures.take(rows))
    owners = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum([0, *sizes])
    blocks = [
        part.take(rows[(rows >= start) & (rows < start + size)] - start)
        for part, start, size in zip(parts.values(), starts, sizes, strict=False)
    ]
    n_words = len(next(iter(parts.values())).lexicon)
    few = part_copies(
        Block.concatenate(blocks), n_words, owners[rows], buckets, n_buckets, len(sizes)
    )
    copy_of = np.full(len(owners), -1, np.int64)
    copy_of[rows] = np.where(few.copy_of < 0, -1, rows[few.copy_of])
    has_counterpart = np.zeros(len(owners), np.bool_)
    has_counterpart[rows] = few.has_counterpart
    return Parting(copy_of, has_counterpart, few.n_compared)


def _spread(copy_of: Ints, like: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend a flag from one document of a group of copies to the whole group."""
    homes = np.where(copy_of < 0, np.arange(len(copy_of)), copy_of)
    among = np.zeros(len(copy_of), dtype=np.bool_)
    among[homes[like]] = True
    several = np.bincount(homes, minlength=len(copy_of)) > 1
    spread: NDArray[np.bool_] = (among & several)[homes]
    return spread
