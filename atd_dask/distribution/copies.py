"""Finds near-duplicates on a cluster.

Tasks compute the signatures of documents, which is most of the work. The few documents that share a
signature are compared in this process, in row order. The result does not depend on how documents
are split into tasks, or on where these run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.engine.runner import Runner, align
from atd_dask.documents import Copies, CountBatch
from atd_dask.kernels.blocks import BLOCK_ENTRIES
from atd_dask.kernels.copies import (
    MOST_TOKENS,
    Hashes,
    Signatures,
    find_buckets,
    make_word_keys,
    part_copies,
    sign_documents,
)
from atd_dask.kernels.model import Block, Ints
from atd_dask.text.counting import CountSpool


def find_copies(
    runner: Runner,
    parts: Mapping[str, CountSpool],
    on_progress: Callable[[int], None] = lambda n_docs: None,
) -> dict[str, Copies]:
    """Return the near-duplicates within each part of a corpus, the last of which is the batch.

    The parts share a lexicon. A group in the batch counts as in training if one of its documents is
    a near-duplicate of a document of another part. `on_progress` is called with the number of
    documents read.
    """
    lexicon = next(iter(parts.values())).lexicon
    with _Shelf() as shelf:
        pieces = (
            shelf.put(piece)
            for part in parts.values()
            for batch in part.batches()
            for piece in _cut(batch)
        )
        keys = make_word_keys(lexicon.words())
        signed = []
        for some in runner.map(sign_piece, keys, pieces):
            signed.append(some)
            on_progress(len(some.whole))
        buckets, n_buckets = find_buckets(Signatures.concatenate(signed))
        del signed
        sizes = [part.n_docs for part in parts.values()]
        owners = np.repeat(np.arange(len(sizes)), sizes)
        parting = part_copies(shelf.read(), len(lexicon), owners, buckets, n_buckets)
    found = {}
    start = 0
    for name, size in zip(parts, sizes, strict=True):
        mine = parting.copy_of[start : start + size]
        copies = np.where(mine < 0, -1, mine - start)
        like = parting.has_counterpart[start : start + size]
        found[name] = Copies(copies, _spread(copies, like), like)
        start += size
    return found


def sign_piece(keys: Hashes, block: Block) -> Signatures:
    return sign_documents(align(block), keys)


def _spread(copy_of: Ints, like: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend a flag from one document of a group of copies to the whole group."""
    homes = np.where(copy_of < 0, np.arange(len(copy_of)), copy_of)
    among = np.zeros(len(copy_of), dtype=np.bool_)
    among[homes[like]] = True
    several = np.bincount(homes, minlength=len(copy_of)) > 1
    spread: NDArray[np.bool_] = (among & several)[homes]
    return spread


def _cut(batch: CountBatch) -> Iterator[Block]:
    """Yield the documents of a batch, as many at a time as a task gets."""
    ends = batch.indptr[1:]
    start = 0
    while start < len(batch):
        first = int(batch.indptr[start])
        stop = max(int(np.searchsorted(ends, first + BLOCK_ENTRIES, side="right")), start + 1)
        last = int(batch.indptr[stop])
        yield Block(
            batch.indptr[start : stop + 1] - first,
            batch.terms[first:last],
            batch.counts[first:last],
        )
        start = stop


class _Shelf:
    """Documents in scratch files, which are mapped into memory."""

    def __init__(self) -> None:
        self._ends: list[Sequence[int] | Ints] = [[0]]
        self._n_entries = 0
        self._terms: IO[bytes] = tempfile.TemporaryFile(prefix="atd-dask-")  # noqa: SIM115
        self._counts: IO[bytes] = tempfile.TemporaryFile(prefix="atd-dask-")  # noqa: SIM115

    def __enter__(self) -> _Shelf:
        return self

    def __exit__(self, *error: object) -> None:
        self._terms.close()
        self._counts.close()

    def put(self, block: Block) -> Block:
        """Append documents, and return them."""
        self._ends.append(block.indptr[1:] + self._n_entries)
        self._n_entries += len(block.terms)
        self._terms.write(block.terms.astype(np.int32).data)
        self._counts.write(np.minimum(block.counts, MOST_TOKENS).astype(np.int32).data)
        return block

    def read(self) -> Block:
        if self._n_entries == 0:
            nothing = np.zeros(0, np.int32)
            return Block(np.concatenate(self._ends), nothing, nothing)
        return Block(np.concatenate(self._ends), self._map(self._terms), self._map(self._counts))

    def _map(self, file: IO[bytes]) -> NDArray[np.int32]:
        file.flush()
        return np.asarray(np.memmap(file, dtype=np.int32, mode="r+", shape=(self._n_entries,)))
