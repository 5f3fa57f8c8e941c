"""Near-duplicates, by definition and by signatures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atd_dask.kernels import copies
from atd_dask.kernels.copies import (
    LEAST_EQUAL_BITS,
    LEAST_NEAR,
    MOST_LISTED,
    N_BANDS,
    draw_multipliers,
    find_buckets,
    find_meetings,
    hash_contents,
    list_repeated,
    list_values,
    make_word_keys,
    part_copies,
    shortlist,
    sign_documents,
)
from atd_dask.kernels.model import Block
from tests import naive

N_WORDS = 400
KEYS = make_word_keys([f"word {n}" for n in range(N_WORDS)])


def make_documents(documents):
    """A block of documents (term to count), with terms in the given order."""
    return Block(
        np.cumsum([0, *map(len, documents)]),
        np.array([term for document in documents for term in document], np.int32),
        np.array([count for document in documents for count in document.values()], np.int32),
    )


def draw_document(rng, n_words):
    words = rng.permutation(N_WORDS)[:n_words].tolist()
    return dict(zip(words, rng.geometric(0.6, n_words).tolist(), strict=True))


def change(rng, document, n_changes):
    """The same document with some words replaced, counted differently, or added."""
    other = dict(document)
    for _ in range(n_changes):
        word = int(rng.integers(N_WORDS))
        if rng.random() < 0.6 and other:
            del other[list(other)[int(rng.integers(len(other)))]]
        other[word] = int(rng.geometric(0.3))
    return other


@st.composite
def donor_lists(draw):
    """Documents, some of which are changed copies of others, and the parts they are in."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    documents = []
    for _ in range(draw(st.integers(1, 5))):
        first = draw_document(rng, draw(st.sampled_from([0, 3, 5, 12, 19, 20, 25, 60])))
        documents.append(first)
        for _ in range(draw(st.integers(0, 4))):
            documents.append(change(rng, first, draw(st.sampled_from([0, 1, 2, 4, 8, 15]))))
    order = rng.permutation(len(documents)).tolist()
    parts = np.sort(rng.integers(0, draw(st.integers(1, 3)), len(documents)))
    return [documents[n] for n in order], parts


def meet_all(documents):
    """Buckets in which every document meets every other."""
    return np.zeros((len(documents), 1), np.int32), 1


def find(documents, parts=None):
    """By signatures."""
    block = make_documents(documents)
    parts = np.zeros(len(documents), np.int64) if parts is None else parts
    buckets, n_buckets = find_buckets(sign_documents(block, KEYS))
    return part_copies(block, N_WORDS, parts, buckets, n_buckets)


@settings(max_examples=60, deadline=None)
@given(donor_lists())
def test_documents_that_meet_are_parted_as_the_definition_says(case):
    documents, parts = case
    # Documents that are too short are in no bucket.
    buckets, n_buckets = meet_all(documents)
    buckets[[len(document) < copies.LEAST_WORDS for document in documents]] = -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "MOST_LISTED", len(documents))
        found = part_copies(make_documents(documents), N_WORDS, parts, buckets, n_buckets)
    copy_of, like = naive.part_copies(documents, parts.tolist())
    assert found.copy_of.tolist() == copy_of
    assert found.has_counterpart.tolist() == like


def meet_in_slices(signatures, n_slices, n_parts):
    """The meetings of parts of some documents: for each part, those in each slice of values."""
    rows = np.array_split(np.arange(len(signatures.whole)), n_parts)
    parts = [signatures.take(some) for some in rows]
    repeated = [
        list_repeated([list_values(part, index, n_slices) for part in parts])
        for index in range(n_slices)
    ]
    return [find_meetings(part, repeated) for part in parts]


def find_listed(signatures, n_slices=1, n_parts=1):
    """The documents that may be near-duplicates, if they are looked for in parts and slices."""
    rows = np.array_split(np.arange(len(signatures.whole)), n_parts)
    listed = [
        mine[some].tolist()
        for slices in zip(*meet_in_slices(signatures, n_slices, n_parts), strict=True)
        for mine, some in zip(rows, shortlist(slices), strict=True)
    ]
    return sorted({row for some in listed for row in some})


@settings(max_examples=30, deadline=None)
@given(donor_lists())
def test_signatures_are_as_defined(case):
    documents, _ = case
    found = sign_documents(make_documents(documents), KEYS)
    keys, multipliers = KEYS.tolist(), draw_multipliers().tolist()
    expected = [naive.sign_document(d, keys, multipliers, N_BANDS) for d in documents]
    assert found.whole.tolist() == [whole for whole, _, _ in expected]
    assert found.bands.tolist() == [bands for _, bands, _ in expected]
    assert found.sketches.tolist() == [sketch for _, _, sketch in expected]
    listed = naive.shortlist(expected, LEAST_EQUAL_BITS)
    assert find_listed(found) == listed
    contents = hash_contents(make_documents(documents), KEYS)
    assert contents.tolist() == [naive.hash_contents(d, keys) for d in documents]


@settings(max_examples=30, deadline=None)
@given(donor_lists(), st.integers(1, 4), st.integers(1, 3))
def test_documents_meet_if_they_share_a_value(case, n_slices, n_parts):
    documents, _ = case
    whole = sign_documents(make_documents(documents), KEYS)
    meetings = meet_in_slices(whole, n_slices, n_parts)
    rows = np.array_split(np.arange(len(documents)), n_parts)
    met = {
        row
        for slices, mine in zip(meetings, rows, strict=True)
        for some in slices
        for row in mine[some.rows].tolist()
    }
    values = [list(zip(*(column.tolist() for column in whole.columns()), strict=True))]
    assert [row in met for row in range(len(documents))] == naive.find_meetings(*values)
    assert find_listed(whole, n_slices, n_parts) == find_listed(whole)


def test_unlike_documents_that_share_a_band_are_not_listed():
    rng = np.random.default_rng(3)
    documents = [draw_document(rng, 60) for _ in range(300)]
    documents.append(change(rng, documents[7], 3))
    signatures = sign_documents(make_documents(documents), KEYS)
    meeting = np.zeros_like(signatures.bands)  # all of them share every band
    meeting[:] = np.arange(1, N_BANDS + 1)
    crowd = signatures._replace(bands=meeting)
    assert find_listed(signatures) == [7, 300]
    assert len(find_listed(crowd)) < 60


def test_near_copies_meet():
    rng = np.random.default_rng(1)
    documents = []
    for _ in range(200):
        first = draw_document(rng, 60)
        documents += [first, change(rng, first, 4)]
    found = find(documents)
    copy_of, _ = naive.part_copies(documents, [0] * len(documents))
    assert sum(row >= 0 for row in copy_of) > 190
    assert np.count_nonzero(found.copy_of != copy_of) <= 2
    assert found.n_compared < 2 * len(documents)


def test_a_group_has_one_representative_and_no_chain():
    """Each differs from the one before by two words of twenty; the third is not a near-duplicate of
    the first."""
    words = list(range(30))
    documents = [dict.fromkeys(words[n : n + 20], 1) for n in range(0, 9, 2)]
    copy_of, _ = naive.part_copies(documents, [0] * 5)
    assert copy_of == [-1, 0, -1, 2, -1]
    everyone = part_copies(
        make_documents(documents), N_WORDS, np.zeros(5, np.int64), *meet_all(documents)
    )
    assert everyone.copy_of.tolist() == copy_of


def test_a_word_that_is_repeated_makes_no_copies():
    rng = np.random.default_rng(2)
    documents = [draw_document(rng, 40) | {7: 2000} for _ in range(20)]
    assert find(documents).copy_of.tolist() == [-1] * 20
    # And it does not hide one: the same text, with the word more often.
    again = documents[3] | {7: 1000}
    assert find([*documents, again]).copy_of[-1] == 3


def test_short_documents_are_copies_only_if_they_are_equal():
    four, five = dict.fromkeys(range(4), 1), dict.fromkeys(range(5), 1)
    nineteen = dict.fromkeys(range(LEAST_NEAR - 1), 1)
    twenty = dict.fromkeys(range(LEAST_NEAR), 1)
    for document, changed, expected in (
        (four, four, -1),
        (five, five, 0),
        (five, five | {0: 2}, -1),
        (nineteen, nineteen | {0: 2}, -1),
        (nineteen, twenty, -1),
        (twenty, twenty | {300: 1}, 0),
    ):
        assert find([document, changed]).copy_of.tolist() == [-1, expected]


def test_thousands_of_equal_documents_take_as_many_comparisons():
    """Short ones, long ones, and near-duplicates that are not equal."""
    rng = np.random.default_rng(3)
    short, long = draw_document(rng, 6), draw_document(rng, 80)
    n_docs = 20_000
    for documents in ([short] * n_docs, [long] * n_docs):
        found = find(documents)
        assert found.copy_of.tolist() == [-1] + [0] * (n_docs - 1)
        assert found.n_compared == n_docs - 1
    documents = [long, *(long | {int(rng.integers(N_WORDS)): 1} for _ in range(2000))]
    found = find(documents)
    assert found.copy_of.tolist() == [-1] + [0] * 2000
    assert found.n_compared == 2000


def test_a_form_that_thousands_fill_in_takes_bounded_work():
    """Half of the words belong to the form: the documents meet in many bands, but are not
    near-duplicates."""
    rng = np.random.default_rng(4)
    form = dict.fromkeys(range(60), 1)
    n_docs = 3000
    documents = []
    for _ in range(n_docs):
        own = 60 + rng.permutation(N_WORDS - 60)[:25]
        documents.append(form | dict.fromkeys(own.tolist(), 1))
    found = find(documents)
    assert np.count_nonzero(found.copy_of >= 0) == 0
    assert found.n_compared <= n_docs * (1 + N_BANDS) * MOST_LISTED


def test_equal_documents_are_found_in_any_crowd():
    rng = np.random.default_rng(5)
    form = dict.fromkeys(range(60), 1)
    crowd = [
        form | dict.fromkeys((60 + rng.permutation(N_WORDS - 60)[:25]).tolist(), 1)
        for _ in range(500)
    ]
    found = find([*crowd, crowd[450]])
    assert found.copy_of[-1] == 450


def test_no_documents():
    for documents in ([], [{}, {}]):
        found = find(documents)
        assert found.copy_of.tolist() == [-1] * len(documents)


def test_keys_are_those_of_the_letters():
    one, other = make_word_keys(["ship", "茶", ""]), make_word_keys(["茶", "\ud800"])
    assert one[1] == other[0]
    assert len({*one.tolist(), *other.tolist()}) == 4
    assert hex(one[0]) == "0x8aee75bc567619be"
