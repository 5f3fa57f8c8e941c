"""Spools of counted documents: the same documents wherever the pieces are."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from atd_dask.distribution.counting import hold_shards
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import SIGNED_AT_ONCE, CountSpool
from atd_dask.documents import Document
from atd_dask.text.counting import count_shard
from atd_dask.text.lexicon import Encoding, Lexicon
from tests.clusters import local_client
from tests.text.test_counting import PLAIN, Texts, shard


@pytest.fixture
def gathering():
    with closing(CountSpool(Lexicon())) as made:
        yield made


def test_the_first_document_of_an_id_is_taken(gathering):
    first = Texts((Document("x", "a"), Document("y", "b")))
    second = Texts((Document("y", "c"), Document("z", "a c"), Document("z", "d")))
    for piece in (first, second):
        gathering.add(count_shard(piece, PLAIN))
    lexicon = gathering.lexicon
    assert [list(batch.ids) for batch in gathering.batches()] == [["x", "y"], ["z"]]
    assert gathering.n_docs == 3
    assert gathering.skipped == {"its id occurs earlier in the corpus": 2}
    assert gathering.examples == {"its id occurs earlier in the corpus": "document 'y'"}
    frequencies = gathering.frequencies()
    assert dict(zip(lexicon.words(), frequencies.tolist(), strict=True)) == {
        "a": 2,
        "b": 1,
        "c": 1,
        "d": 0,
    }


def test_encoding_keeps_words_outside_the_vocabulary_beside_the_counts(gathering):
    gathering.add(count_shard(shard("b a a z", "z y y", "b"), PLAIN))
    encoding = Encoding.choose(gathering, ["a", "b", "c"])
    assert encoding.unseen_words == ["y", "z"]
    (batch,) = gathering.batches()
    known, unseen = encoding.encode(batch)
    assert known.indptr.tolist() == [0, 2, 2, 3]
    assert known.terms.tolist() == [0, 1, 1]
    assert known.counts.tolist() == [2, 1, 1]
    assert unseen.indptr.tolist() == [0, 1, 3, 3]
    assert unseen.terms.tolist() == [1, 0, 1]
    assert unseen.counts.tolist() == [1, 2, 1]


def test_a_gathering_is_divided_in_its_order(gathering):
    gathering.add(count_shard(shard("a", "b", "", "a b"), PLAIN))
    parts = gathering.divide([np.array([True, False, True]), np.array([False, True, False])])
    try:
        assert [[list(batch.ids) for batch in part.batches()] for part in parts] == [
            [["0", "3"]],
            [["1"]],
        ]
        assert [part.frequencies().tolist() for part in parts] == [[2, 1], [0, 1]]
        assert [len(part.skipped) for part in parts] == [1, 0]
    finally:
        for part in parts:
            part.close()


def fill(spool, pieces):
    for handle, summary in hold_shards(spool.runner, pieces, PLAIN):
        spool.note(handle, summary)


def list_all(spool):
    words = spool.lexicon.words()
    return [
        (id, labels, dict(zip((words[n] for n in batch.terms[first:last]), counts, strict=True)))
        for batch in spool.batches()
        for id, labels, (first, last) in zip(
            batch.ids, batch.labels, pairwise(batch.indptr.tolist()), strict=True
        )
        for counts in [batch.counts[first:last].tolist()]
    ]


def check_signatures(spool, local):
    for mine, other in zip(spool.sign(), local.sign(), strict=True):
        for one, two in zip(spool.runner.fetch(mine[0]), other[0], strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(mine[1], other[1])


PIECES = (
    Texts((Document("x", "a b b"), Document("y", "b c c c", ("one",)))),
    Texts((Document("y", "c"), Document("z", "a c d"))),
    Texts((Document("x", "e"), Document("w", " ".join(map(chr, range(97, 123)))))),
)


def test_pieces_on_workers_are_those_of_a_scratch_file(gathering):
    for piece in PIECES:
        gathering.add(count_shard(piece, PLAIN))
    choices = [np.array([True, False, True, False]), np.array([False, True, False, True])]
    for workers in (1, 2):
        with (
            local_client(workers) as client,
            closing(CountSpool(Lexicon(), Runner(client))) as spool,
        ):
            fill(spool, PIECES)
            assert spool.skipped == gathering.skipped
            assert spool.n_docs == gathering.n_docs == 4
            assert list_all(spool) == list_all(gathering)
            assert spool.names() == gathering.names()
            np.testing.assert_array_equal(spool.contents(), gathering.contents())
            check_signatures(spool, gathering)
            for mine, local in zip(spool.divide(choices), gathering.divide(choices), strict=True):
                assert list_all(mine) == list_all(local)
                np.testing.assert_array_equal(mine.frequencies(), local.frequencies())
                np.testing.assert_array_equal(mine.contents(), local.contents())


def test_signatures_that_are_computed_ahead_are_the_same(gathering):
    pieces = [
        Texts((Document(f"{n}", f"a b c {n}"), Document("repeated", f"{n}")))
        for n in range(SIGNED_AT_ONCE + 1)
    ]
    for piece in pieces:
        gathering.add(count_shard(piece, PLAIN))
    with (
        local_client(2, processes=True) as client,
        closing(CountSpool(Lexicon(), Runner(client), signs_ahead=True)) as spool,
    ):
        fill(spool, pieces)
        ahead = [piece.signed is not None for piece in spool._noted]
        assert ahead == [True] * SIGNED_AT_ONCE + [False]
        check_signatures(spool, gathering)
        # Those that were on a lost worker are computed again.
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        check_signatures(spool, gathering)


def test_rows_are_taken_across_pieces(gathering):
    for piece in PIECES:
        gathering.add(count_shard(piece, PLAIN))
    (everything,) = [list(gathering.batches())]
    rows = gathering.take(np.array([1, 2]))
    assert rows.indptr.tolist() == [0, 2, 5]
    assert rows.terms.tolist() == [*everything[0].terms[2:], *everything[1].terms]
    assert len(gathering.take(np.zeros(0, np.int64))) == 0


def test_a_shard_gives_the_same_piece_in_any_process():
    first = count_shard(shard("zebra apple", "apple mango"), PLAIN)
    count_shard(shard("quince zebra mango lime"), PLAIN)
    again = count_shard(shard("zebra apple", "apple mango"), PLAIN)
    assert list(first.words) == list(again.words) == ["apple", "mango", "zebra"]
    assert first.keys is not None
    np.testing.assert_array_equal(first.keys, again.keys)
