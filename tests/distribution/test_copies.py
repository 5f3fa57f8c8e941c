"""Near-duplicates of spooled documents: the same wherever they are found."""

from __future__ import annotations

from contextlib import ExitStack, closing

import numpy as np
import pytest

from atd_dask.distribution import copies
from atd_dask.distribution.copies import find_copies
from atd_dask.distribution.engine.runner import Runner
from atd_dask.documents import CountBatch
from atd_dask.text.counting import CountSpool, Lexicon, WordCounts
from tests.clusters import local_client

WORDS = [f"word{n}" for n in range(300)]


def make_batch(documents, name):
    return CountBatch(
        [f"{name}{n}" for n in range(len(documents))],
        [()] * len(documents),
        np.cumsum([0, *map(len, documents)]),
        np.array([word for document in documents for word in document], np.int32),
        np.ones(sum(map(len, documents)), np.int32),
    )


def draw(rng, n_docs):
    return [rng.permutation(300)[:50].tolist() for _ in range(n_docs)]


@pytest.fixture
def parts():
    """Train has two near-duplicates, the batch three groups, one of which has a match in train."""
    rng = np.random.default_rng(1)
    train, test = draw(rng, 40), draw(rng, 30)
    train += [train[3], train[3][1:]]
    test += [train[5][2:], train[5][:-1], test[7][1:], test[8], test[8], test[8]]
    lexicon = Lexicon()
    with ExitStack() as scratch:
        parts = {}
        for name, documents in (("train", train), ("validation", draw(rng, 5)), ("test", test)):
            parts[name] = scratch.enter_context(closing(CountSpool(lexicon)))
            for start in range(0, len(documents), 7):
                batch = make_batch(documents[start : start + 7], f"{name}{start}-")
                parts[name].add(WordCounts(WORDS, batch))
        yield parts


def test_copies_are_found_in_each_part(parts):
    heard = []
    found = find_copies(Runner(), parts, heard.append)
    assert sum(heard) == sum(part.n_docs for part in parts.values())
    assert found["train"].copy_of.tolist() == [-1] * 40 + [3, 3]
    assert found["validation"].copy_of.tolist() == [-1] * 5
    assert found["test"].copy_of.tolist() == [-1] * 31 + [30, 7, 8, 8, 8]
    # All of a group that has a counterpart, and no other.
    assert np.flatnonzero(found["test"].in_training).tolist() == [30, 31]
    assert not found["train"].in_training.any()


def test_a_single_document_with_a_counterpart_is_no_group(parts):
    found = find_copies(Runner(), {"validation": parts["train"], "test": parts["train"]})
    groups = np.flatnonzero(found["test"].in_training).tolist()
    assert groups == [3, 40, 41]


def test_every_cluster_finds_the_same(parts, monkeypatch):
    alone = find_copies(Runner(), parts)
    monkeypatch.setattr(copies, "BLOCK_ENTRIES", 200)
    for workers in (1, 2):
        with local_client(workers) as client:
            found = find_copies(Runner(client), parts)
        for part, expected in alone.items():
            np.testing.assert_array_equal(found[part].copy_of, expected.copy_of)
            np.testing.assert_array_equal(found[part].in_training, expected.in_training)


def test_parts_without_documents_have_no_copies():
    with closing(CountSpool(Lexicon())) as empty:
        found = find_copies(Runner(), {"test": empty})
    assert len(found["test"].copy_of) == len(found["test"].in_training) == 0
