"""Near-duplicates of spooled documents: the same wherever they are found."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
import pytest

from atd_dask.distribution import copies
from atd_dask.distribution.copies import find_copies
from atd_dask.distribution.counting import hold_shards
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import CountBatch, Document
from atd_dask.text.counting import WordCounts
from atd_dask.text.lexicon import Lexicon
from atd_dask.text.options import TextOptions
from tests.clusters import local_client
from tests.text.test_counting import Texts

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
    found = find_copies(parts, heard.append)
    assert sum(heard) == sum(part.n_docs for part in parts.values())
    assert found["train"].copy_of.tolist() == [-1] * 40 + [3, 3]
    assert found["validation"].copy_of.tolist() == [-1] * 5
    assert found["test"].copy_of.tolist() == [-1] * 31 + [30, 7, 8, 8, 8]
    # All of a group that has a counterpart, and no other.
    assert np.flatnonzero(found["test"].in_training).tolist() == [30, 31]
    assert not found["train"].in_training.any()


def test_a_single_document_with_a_counterpart_is_no_group(parts):
    found = find_copies({"validation": parts["train"], "test": parts["train"]})
    groups = np.flatnonzero(found["test"].in_training).tolist()
    assert groups == [3, 40, 41]


def test_every_cluster_finds_the_same():
    rng = np.random.default_rng(2)
    documents = draw(rng, 60)
    documents += [documents[3][1:], documents[40][2:], documents[3]]
    words = ["".join("abcdefghij"[int(digit)] for digit in f"{n:03}") for n in range(300)]
    texts = [" ".join(words[n] for n in document) for document in documents]
    named = [Document(str(n), text) for n, text in enumerate(texts)]
    shards = [Texts(tuple(named[start : start + 9])) for start in range(0, len(named), 9)]
    options = TextOptions(stop_words="none", stemmer="none")
    found = []
    for workers in (0, 1, 2):
        with ExitStack() as stack:
            client = stack.enter_context(local_client(workers)) if workers else None
            spool = stack.enter_context(closing(CountSpool(Lexicon(), Runner(client))))
            for handle, summary in hold_shards(spool.runner, shards, options):
                spool.note(handle, summary)
            found.append(find_copies({"test": spool})["test"].copy_of.tolist())
    assert found[0] == [-1] * 60 + [3, 40, 3]
    assert found[1:] == found[:1] * 2


def test_parts_without_documents_have_no_copies():
    with closing(CountSpool(Lexicon())) as empty:
        found = find_copies({"test": empty})
    assert len(found["test"].copy_of) == len(found["test"].in_training) == 0


@pytest.mark.parametrize(("grouped", "most_slices"), [(1, 1), (2, 2), (3, 5)])
def test_pieces_may_be_taken_together_and_values_divided_in_any_way(
    parts, grouped, most_slices, monkeypatch
):
    expected = find_copies(parts)
    monkeypatch.setattr(copies, "GROUPED", grouped)
    monkeypatch.setattr(copies, "MOST_SLICES", most_slices)
    monkeypatch.setattr(Runner, "count_threads", lambda self: 99)
    found = find_copies(parts)
    for name, one in expected.items():
        np.testing.assert_array_equal(found[name].copy_of, one.copy_of)
        np.testing.assert_array_equal(found[name].in_training, one.in_training)


def test_parts_may_be_in_different_places(parts):
    expected = find_copies(parts)
    with local_client(1) as client:
        remote = parts["train"]
        pieces = [(client.scatter(p.handle.load()), p) for p in remote._noted]
        with closing(CountSpool(remote.lexicon, Runner(client))) as spool:
            spool._noted = [replace(piece, handle=handle) for handle, piece in pieces]
            found = find_copies({**parts, "train": spool})
    assert found["train"].copy_of.tolist() == expected["train"].copy_of.tolist()
    assert found["test"].in_training.tolist() == expected["test"].in_training.tolist()


def test_signatures_do_not_come_to_the_client(monkeypatch):
    """Only those of documents that are alike enough to be compared."""
    rng = np.random.default_rng(3)
    lexicon, received = Lexicon(), []
    take = copies._take_listed
    monkeypatch.setattr(
        copies, "_take_listed", lambda *given: received.append(take(*given)) or received[-1]
    )
    documents = draw(rng, 200)
    documents.append(documents[7])
    with closing(CountSpool(lexicon)) as spool:
        spool.add(WordCounts(WORDS, make_batch(documents, "d")))
        assert find_copies({"test": spool})["test"].copy_of.tolist() == [-1] * 200 + [7]
    ((rows, signatures, n_docs),) = received
    assert rows.tolist() == [7, 200]
    assert len(signatures.whole) == 2
    assert n_docs == 201
