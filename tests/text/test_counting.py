from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import Document, Skipped
from atd_dask.text import counting
from atd_dask.text.counting import WordCounts, count_shard
from atd_dask.text.lexicon import Lexicon
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser

PLAIN = TextOptions(min_letters=1, stop_words="none", stemmer="none", letters="ascii")


@dataclass(frozen=True)
class Texts:
    items: tuple[Document | Skipped, ...]

    def read(self):
        return iter(self.items)


def shard(*texts):
    return Texts(tuple(Document(str(n), text, (f"l{n}",)) for n, text in enumerate(texts)))


def as_counters(counts: WordCounts):
    batch = counts.batch
    return {
        id: Counter(
            {
                counts.words[batch.terms[k]]: int(batch.counts[k])
                for k in range(batch.indptr[row], batch.indptr[row + 1])
            }
        )
        for row, id in enumerate(batch.ids)
    }


@given(st.lists(st.text(alphabet="abc X.\n", max_size=40), max_size=6))
def test_counts_are_those_of_a_loop(texts):
    expected = {str(n): Counter(re.findall("[a-z]+", text.lower())) for n, text in enumerate(texts)}
    counts = count_shard(shard(*texts), PLAIN)
    assert as_counters(counts) == {id: words for id, words in expected.items() if words}
    empty = [id for id, words in expected.items() if not words]
    assert [skip.location for skip in counts.skipped] == [f"document {id!r}" for id in empty]
    for row in range(len(counts.batch)):
        terms = counts.batch.terms[counts.batch.indptr[row] : counts.batch.indptr[row + 1]]
        assert np.all(np.diff(terms) > 0)


@given(
    st.lists(
        st.text(st.characters(max_codepoint=127), max_size=60)
        | st.text(st.characters(codec=None) | st.sampled_from("aéZ K²Ⅷ½_1İΣ\0\ufffd\ud800東"))
        | st.text(st.sampled_from("aB é"), min_size=95, max_size=320),
        max_size=6,
    ),
    st.sampled_from(["unicode", "ascii"]),
    st.integers(1, 4),
    st.sampled_from(["english-1", "none"]),
)
@example(["Dogs, DOGS", "dogs über dog", "ÜBER dogs\0dog", ""], "unicode", 3, "english-1")
@example(
    ["y" * 100, "y" * 101 + " y", "é" * 100 + " " + "é" * 101, "东" * 100], "unicode", 1, "none"
)
@example(["𐐀" * 100, "𐐀" * 101, "x" * 1_000_000 + " x"], "unicode", 1, "none")
@example(["naïve K", "K2k"], "ascii", 1, "none")
def test_words_are_those_of_the_tokeniser(texts, letters, min_letters, stopped):
    options = TextOptions(letters=letters, min_letters=min_letters, stop_words=stopped)
    tokeniser = Tokeniser(options)
    expected = {str(n): Counter(tokeniser.words(text)) for n, text in enumerate(texts)}
    counts = count_shard(shard(*texts), options)
    assert as_counters(counts) == {id: words for id, words in expected.items() if words}
    assert len(set(counts.words)) == len(counts.words)


def test_texts_are_counted_alike_however_many_at_a_time(monkeypatch):
    texts = [f"{'word ' * (n % 7)} w{n} {'x' * n}é" for n in range(50)]
    whole = count_shard(shard(*texts), PLAIN)
    monkeypatch.setattr(counting, "BYTES_AT_ONCE", 100)
    pieces = count_shard(shard(*texts), PLAIN)
    assert pieces.words == whole.words
    for part in ("indptr", "terms", "counts"):
        assert_array_equal(getattr(pieces.batch, part), getattr(whole.batch, part))


def test_threads_share_what_a_process_remembers(monkeypatch):
    monkeypatch.setattr(counting, "BYTES_AT_ONCE", 100)
    options = replace(PLAIN, extra_stop_words=("threads",))
    words = ["".join(letters) for letters in product("abcdefgh", repeat=5)]
    texts = [" ".join(words[n::997]) for n in range(997)]
    expected = {str(n): Counter(text.split()) for n, text in enumerate(texts)}
    with ThreadPoolExecutor(4) as pool:
        for counts in pool.map(count_shard, [shard(*texts)] * 8, [options] * 8):
            assert as_counters(counts) == expected


def test_words_are_learnt_though_the_first_attempt_failed(monkeypatch):
    options = replace(PLAIN, extra_stop_words=("attempt",))
    normalise = Tokeniser.normalise

    def fail(tokeniser, run):
        if run == "c":
            raise MemoryError("enough")
        return normalise(tokeniser, run)

    with monkeypatch.context() as patch:
        patch.setattr(Tokeniser, "normalise", fail)
        with pytest.raises(MemoryError, match="enough"):
            count_shard(shard("a b c d"), options)
    assert as_counters(count_shard(shard("d e a"), options)) == {"0": Counter("dea")}


def test_a_shard_names_only_its_own_words():
    count_shard(shard("zebra zebra yak"), PLAIN)
    assert sorted(count_shard(shard("ant bee"), PLAIN).words) == ["ant", "bee"]


def test_limits_on_distinct_words_skip_with_a_reason():
    options = TextOptions(
        min_letters=1, stop_words="none", stemmer="none", min_distinct=2, max_distinct=3
    )
    counts = count_shard(shard("a", "a b", "a b c", "a b c d", "1 2"), options)
    assert list(counts.batch.ids) == ["1", "2"]
    assert list(counts.batch.labels) == [("l1",), ("l2",)]
    reasons = {skip.location: skip.reason for skip in counts.skipped}
    assert reasons == {
        "document '0'": "fewer distinct words than corpus.text.min_distinct",
        "document '3'": "more distinct words than corpus.text.max_distinct",
        "document '4'": "its text has no words that are kept",
    }


def test_what_a_reader_skips_is_handed_on():
    skip = Skipped("not JSON", "a.jsonl:3")
    counts = count_shard(Texts((skip, Document("x", "word"))), PLAIN)
    assert list(counts.skipped) == [skip]
    assert list(counts.batch.ids) == ["x"]


def test_a_process_begins_anew_when_it_remembers_too_much(monkeypatch):
    monkeypatch.setattr(counting, "MAX_RUNS", 3)
    for text in ("a b c d e", "f a", "b c d e f g"):
        assert as_counters(count_shard(shard(text), PLAIN)) == {"0": Counter(text.split())}


def test_a_label_with_control_characters_is_cleaned_and_its_document_stays():
    odd = ("a\tb", "\r\n", "", "c\x00\x1b[0m\u2028d", "two  blanks")
    counted = count_shard(Texts((Document("1", "one", odd), Document("2", "two"))), PLAIN)
    assert counted.batch.labels == [("a b", "c [0m d", "two  blanks"), ()]


def test_of_many_that_are_skipped_the_first_are_told_and_all_are_counted(monkeypatch):
    monkeypatch.setattr(counting, "MOST_LISTED", 3)
    items = tuple(Skipped("no field text", f"a:{n}") for n in range(10))
    counts = count_shard(Texts((*items, Document("1", "one"))), PLAIN)
    assert len(counts.skipped) == 4
    with closing(CountSpool(Lexicon())) as spool:
        spool.add(counts)
        assert (spool.skipped, spool.examples) == ({"no field text": 10}, {"no field text": "a:0"})


def test_a_lexicon_finds_its_words_in_a_list():
    lexicon = Lexicon()
    lexicon.number(["b", "a", "z"])
    assert lexicon.find(["a", "b", "c"]).tolist() == [1, 0, -1]
    assert lexicon.find([]).tolist() == [-1, -1, -1]
    assert Lexicon().find(["a"]).tolist() == []
