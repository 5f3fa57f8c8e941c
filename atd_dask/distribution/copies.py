"""Finds near-duplicates among spooled documents.

Signatures are computed where the documents are, and stay there. Their values are divided among
tasks, which find those that occur more than once, and then which of the documents that have such a
value are alike enough to be compared. Only these come here, in row order. The result does not
depend on the pieces of a spool, or on where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import CountSpool, Mask
from atd_dask.documents import Copies
from atd_dask.kernels.copies import (
    Meetings,
    Parting,
    Signatures,
    find_buckets,
    find_meetings,
    list_repeated,
    list_values,
    part_copies,
    shortlist,
)
from atd_dask.kernels.model import Block, Ints

GROUPED = 16  # pieces of documents that a task takes together
MOST_SLICES = 64  # of all values; a task finds what is repeated in one


def find_copies(
    parts: Mapping[str, CountSpool], on_progress: Callable[[int], None] = lambda n_docs: None
) -> dict[str, Copies]:
    """Return the near-duplicates within each part of a corpus, the last of which is the batch.

    The parts share a lexicon. A group in the batch counts as in training if one of its documents is
    a near-duplicate of a document of another part. `on_progress` is called with the number of
    documents read.
    """
    rows, signatures = _shortlist(parts, on_progress)
    sizes = [part.n_docs for part in parts.values()]
    parting = _compare(parts, sizes, rows, signatures)
    found = {}
    start = 0
    for name, size in zip(parts, sizes, strict=True):
        mine = parting.copy_of[start : start + size]
        copies = np.where(mine < 0, -1, mine - start)
        like = parting.has_counterpart[start : start + size]
        found[name] = Copies(copies, _spread(copies, like), like)
        start += size
    return found


def _shortlist(
    parts: Mapping[str, CountSpool], on_progress: Callable[[int], None]
) -> tuple[Ints, Signatures]:
    """Return the rows that may be near-duplicates, and their signatures."""
    runner, signed = _sign(parts)
    starts = range(0, len(signed), GROUPED)
    joined = [zip(*signed[start : start + GROUPED], strict=True) for start in starts]
    # The client waits for this, so it comes before what is being written.
    groups = runner.derive_all([(_join_signatures, *map(list, two)) for two in joined], priority=1)
    n_slices = min(runner.count_threads(), MOST_SLICES)
    slices = [
        runner.derive_all([(list_values, group, n, n_slices) for group in groups], priority=1)
        for n in range(n_slices)
    ]
    repeated = runner.derive_all([(list_repeated, some) for some in slices if some], priority=1)
    met = runner.derive_all([(find_meetings, group, repeated) for group in groups], priority=1)
    sent = [
        # Only what a slice needs is sent from elsewhere.
        runner.derive_all([(_take_slice, mine, n) for mine in met], priority=1)
        for n in range(len(repeated))
    ]
    listed = runner.derive_all([(shortlist, some) for some in sent], priority=1)
    questions = (([group, *listed], number) for number, group in enumerate(groups))
    rows, few, start = [np.zeros(0, np.int64)], [], 0
    for mine, signatures, n_docs in runner.combine(_take_listed, None, questions, at_least=1):
        rows.append(mine + start)
        few.append(signatures)
        start += n_docs
        on_progress(n_docs)
    return np.concatenate(rows), Signatures.concatenate(few)


def _sign(parts: Mapping[str, CountSpool]) -> tuple[Runner, list[tuple[Any, Mask | None]]]:
    """Return the signatures of all pieces, or their handles, with the documents that count; and who
    has them."""
    runners = [part.runner for part in parts.values()]
    if all(runner.client is runners[0].client for runner in runners):
        return runners[0], [signed for part in parts.values() for signed in part.sign()]
    return Runner(), [
        (part.runner.fetch(signed), keep) for part in parts.values() for signed, keep in part.sign()
    ]


def _join_signatures(parts: Sequence[Signatures], keeps: Sequence[Mask | None]) -> Signatures:
    return Signatures.concatenate(
        [
            part if keep is None else part.take(np.flatnonzero(keep))
            for part, keep in zip(parts, keeps, strict=True)
        ]
    )


def _take_slice(slices: Sequence[Meetings], index: int) -> Meetings:
    return slices[index]


def _take_listed(parts: Sequence[Any], _: None, number: int) -> tuple[Ints, Signatures, int]:
    """Return the documents of a group that are listed in a slice, their signatures, and the number
    of all."""
    signed, *listed = parts
    rows = np.unique(np.concatenate([some[number] for some in listed]))
    return rows, signed.take(rows), len(signed.whole)


def _compare(
    parts: Mapping[str, CountSpool], sizes: list[int], rows: Ints, signatures: Signatures
) -> Parting:
    """Partition the documents of these rows, which may be near-duplicates; all others stand for
    themselves."""
    buckets, n_buckets = find_buckets(signatures)
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
