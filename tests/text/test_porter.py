"""Stems of English words are those of NLTK."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from atd_dask.text import porter
from tests.shared import shared

SUFFIXES = [
    *(suffix for suffix, _ in (*porter.PLURALS, *porter.DOUBLE_SUFFIXES, *porter.SUFFIXES)),
    *porter.LAST_SUFFIXES,
    *("ed", "ing", "eed", "ied", "y", "logi", "logy", "ly", "ally", "fully", "e", "ll"),
]


@pytest.fixture(scope="module")
def nltk():
    return PorterStemmer().stem


def test_words_that_end_in_any_suffixes(nltk):
    chance = random.Random(3)
    for _ in range(40_000):
        start = "".join(chance.choices("aeiouybdlmstwxzé", k=chance.randint(0, 5)))
        word = start + chance.choice(SUFFIXES) + chance.choice(["", *SUFFIXES])
        assert porter.stem(word) == nltk(word)


@given(st.text(max_size=12))
def test_any_text(text):
    assert porter.stem(text) == PorterStemmer().stem(text)


@pytest.mark.parametrize("word", [*porter.IRREGULAR, "Dying", "by", "a", "", "dies", "spied"])
def test_words_that_no_rule_gets_right(nltk, word):
    assert porter.stem(word) == nltk(word)


def test_the_words_of_a_collection(nltk):
    words = {
        word
        for path in sorted(shared("raw").rglob("*"))[:500]
        if path.is_file()
        for word in path.read_text(encoding="latin-1").lower().split()
    }
    assert len(words) > 10_000
    assert [word for word in words if porter.stem(word) != nltk(word)] == []
