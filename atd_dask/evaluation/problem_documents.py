"""The documents of a detection problem: its parts as corpora, with the junk.

The vocabulary is that of the whole pool. Words that do not occur in the training documents of a
problem have the shared probability 0, which detection takes as new words, so nothing is dropped
here. One document stands for its near-copies in a part, as after ingest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atd_dask.evaluation.generated import Planted, count_tokens, generate_documents
from atd_dask.evaluation.metrics import Labels
from atd_dask.evaluation.problems import Pool, Problem
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.copies import find_buckets, make_word_keys, part_copies, sign_documents
from atd_dask.kernels.model import Block, Ints
from atd_dask.kernels.streams import open_stream

# No class of a corpus has such a name.
COPIES = "+copies"
BURSTY = "+bursty"

CHANGED = 0.05  # of a near-copy's tokens


@dataclass(frozen=True)
class Documents:
    """The input of a detection: the normal parts, and the batches with their labels."""

    train: MemoryCorpus
    validation: MemoryCorpus
    batches: tuple[MemoryCorpus, ...]
    labels: tuple[Labels, ...]  # of each batch

    def corpora(self, batch: int = 0) -> dict[str, MemoryCorpus]:
        """Return the three parts, with one of the batches as the test."""
        return {"train": self.train, "validation": self.validation, "test": self.batches[batch]}


def make_documents(problem: Problem, pools: Mapping[str, Pool]) -> Documents:
    """Return the documents of a problem, without near-copies."""
    return leave_out_copies(lay_out(problem, pools))


def lay_out(problem: Problem, pools: Mapping[str, Pool]) -> Documents:
    """Return all documents of a problem; batches are shuffled."""
    pool = pools[problem.corpus] if problem.shape is None else generate_pool(problem)
    train = pool.documents.take(problem.train)
    batches, labels = [], []
    for rows in problem.batches:
        batches.append(pool.documents.take(rows))
        labels.append([pool.labels[row] for row in rows.tolist()])
    if problem.extras:
        extras, junk = _make_extras(problem, pool, train)
        whole = Block.concatenate([batches[0], *extras])
        every = [*labels[0], *junk]
        order = open_stream(problem.seed, f"problems/{problem.name}/order").permutation(len(whole))
        batches[0] = whole.take(order)
        labels[0] = [every[row] for row in order.tolist()]
    return Documents(
        MemoryCorpus(train, pool.n_words),
        MemoryCorpus(pool.documents.take(problem.validation), pool.n_words),
        tuple(MemoryCorpus(block, pool.n_words) for block in batches),
        tuple(labels),
    )


def leave_out_copies(documents: Documents) -> Documents:
    """Leave out documents that are near-copies of others in their part."""
    corpora = (documents.train, documents.validation, *documents.batches)
    n_words = documents.train.n_words
    blocks = [corpus.whole for corpus in corpora]
    kept = find_representatives(blocks, n_words)
    some = [
        MemoryCorpus(block.take(rows), n_words) for block, rows in zip(blocks, kept, strict=True)
    ]
    labels = [
        [mine[row] for row in rows] for mine, rows in zip(documents.labels, kept[2:], strict=True)
    ]
    return Documents(some[0], some[1], tuple(some[2:]), tuple(labels))


def find_representatives(parts: Sequence[Block], n_words: int) -> list[Ints]:
    """Return the documents of each part that are not near-copies of others in it."""
    whole = Block.concatenate(parts)
    sizes = [len(part) for part in parts]
    owners = np.repeat(np.arange(len(parts)), sizes)
    keys = make_word_keys([str(word) for word in range(n_words)])
    buckets = find_buckets(sign_documents(whole, keys))
    stays = part_copies(whole, n_words, owners, *buckets).copy_of < 0
    return [np.flatnonzero(mine) for mine in np.split(stays, np.cumsum(sizes)[:-1])]


def generate_pool(problem: Problem) -> Pool:
    """Generate the documents of a problem; those of its groups come last."""
    shape = problem.shape
    assert shape is not None
    parts = (problem.train, problem.validation, problem.originals, *problem.batches)
    n_normal = sum(map(len, parts)) - problem.n_planted
    planted = [Planted(g.label, g.size, g.share or 0.0) for g in problem.groups]
    purpose = f"problems/{problem.name}"
    documents, labels = generate_documents(problem.seed, purpose, shape, n_normal, planted)
    return Pool(documents, labels, shape.n_words)


def _make_extras(
    problem: Problem, pool: Pool, train: Block
) -> tuple[list[Block], list[tuple[str, ...]]]:
    """Return the junk of a batch, and its labels."""
    stream = open_stream(problem.seed, f"problems/{problem.name}/extras")
    originals = [pool.documents.take(np.array([row])) for row in problem.originals.tolist()]
    extras: list[Block] = []
    labels: list[tuple[str, ...]] = [(COPIES,)] * problem.copies
    labels += [(BURSTY,)] * len(problem.bursts)
    known = np.repeat(train.terms, train.counts).astype(np.int64)
    if problem.copies:
        original = originals.pop(0)
        extras += [_change(stream, original, known, pool.n_words) for _ in range(problem.copies)]
    for original, times in zip(originals, problem.bursts, strict=True):
        extras.append(_burst(stream, original, times, known))
    return extras, labels


def _change(stream: np.random.Generator, original: Block, known: Ints, n_words: int) -> Block:
    """Replace some tokens of a document by tokens from training."""
    tokens = np.repeat(original.terms, original.counts).astype(np.int64)
    others = known[stream.integers(len(known), size=len(tokens))]
    tokens = np.where(stream.random(len(tokens)) < CHANGED, others, tokens)
    return count_tokens(np.zeros(len(tokens), np.int64), tokens, 1, n_words)


def _burst(stream: np.random.Generator, original: Block, times: int, known: Ints) -> Block:
    """Add one of the words that a document shares with training to it, `times` times."""
    words = np.flatnonzero(np.isin(original.terms, known))
    counts = original.counts.copy()
    if len(words):
        counts[words[int(stream.integers(len(words)))]] += times
    return Block(original.indptr, original.terms, counts)
