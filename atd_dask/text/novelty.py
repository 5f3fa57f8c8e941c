"""Fingerprints of documents, by which sweeps recognise those they have seen."""

from __future__ import annotations

import hashlib

import numpy as np

from atd_dask.text.counting import WordCounts

_ENTRY = np.dtype([("word", "<u8"), ("count", "<u4")])


def describe_documents(counts: WordCounts) -> list[tuple[bytes, bytes]]:
    """Return a fingerprint of the id and one of the content of every document.

    The content is the counts of words, so word order does not matter, and neither does the way a
    process numbers its words.
    """
    batch = counts.batch
    digests = b"".join(hashlib.blake2b(w.encode(), digest_size=8).digest() for w in counts.words)
    entries = np.empty(len(batch.terms), dtype=_ENTRY)
    entries["word"] = np.frombuffer(digests, dtype="<u8")[batch.terms]
    entries["count"] = batch.counts
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    content = entries[np.lexsort((entries["word"], rows))].tobytes()
    ends = (batch.indptr * _ENTRY.itemsize).tolist()
    return [(id.encode(), content[ends[row] : ends[row + 1]]) for row, id in enumerate(batch.ids)]
