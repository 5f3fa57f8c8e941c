from __future__ import annotations

import pickle
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.errors import ConfigError
from atd_dask.text import words
from atd_dask.text.options import TextOptions
from atd_dask.text.words import MAX_LETTERS, Tokeniser, stop_words

PLAIN = TextOptions(min_letters=1, stop_words="none", stemmer="none")


def naive_words(text: str, options: TextOptions) -> list[str]:
    """The rules of the tokeniser as a slow loop."""
    found, run = [], ""
    for char in text.lower() + " ":
        if "a" <= char <= "z" if options.letters == "ascii" else char.isalpha():
            run += char
        elif run:
            found.append(run)
            run = ""
    stopped = stop_words(options.stop_words) | set(options.extra_stop_words)
    return [w for w in found if options.min_letters <= len(w) <= MAX_LETTERS and w not in stopped]


@given(
    st.text(st.characters(codec=None) | st.sampled_from("aéZ K²Ⅷ½_1İΣ\0\ufffd東"), max_size=80),
    st.sampled_from(["unicode", "ascii"]),
    st.integers(1, 4),
)
def test_words_are_those_of_the_naive_loop(text: str, letters: str, min_letters: int) -> None:
    options = replace(PLAIN, letters=letters, min_letters=min_letters, stop_words="english-1")
    assert Tokeniser(options).words(text) == naive_words(text, options)


@given(
    st.text(st.characters(codec=None) | st.sampled_from("aéZ K²Ⅷ½_1İΣ\0\ufffd東"), max_size=80),
    st.sampled_from(["unicode", "ascii"]),
    st.sampled_from(["porter-nltk", "none"]),
)
def test_words_are_found_in_their_places(text: str, letters: str, stemmer: str) -> None:
    options = replace(PLAIN, letters=letters, stemmer=stemmer, stop_words="english-1")
    tokeniser = Tokeniser(options)
    found = list(tokeniser.locate(text))
    assert [word for _, _, word in found] == tokeniser.words(text)
    ends = [0]
    for start, end, word in found:
        # Two words may come of one character, such as one that has a dot of its own above it.
        assert ends[-1] - 1 <= start < end <= len(text)
        assert word in tokeniser.words(text[start:end])
        ends.append(end)


def test_order_of_the_rules_is_length_and_stop_words_before_stems() -> None:
    tokeniser = Tokeniser(TextOptions())
    # `ct` is too short, but the stem of `cts` may be; `being` is kept though its stem is `be`.
    assert tokeniser.words("The ct and cts were being owned") == ["ct", "be", "own"]


def test_stems_are_those_of_nltk_not_of_plain_porter() -> None:
    # Plain Porter gives `dy` and `ski`.
    assert Tokeniser(TextOptions()).words("dying skies generally") == ["die", "sky", "gener"]


def test_extra_stop_words_are_compared_in_lower_case() -> None:
    options = replace(PLAIN, extra_stop_words=("Article",))
    assert Tokeniser(options).words("An ARTICLE writes") == ["an", "writes"]


def test_split_and_normalise_are_the_two_halves_of_words() -> None:
    tokeniser = Tokeniser(TextOptions())
    runs = tokeniser.split("Of 3 running dogs")
    assert runs == ["of", "running", "dogs"]
    assert [tokeniser.normalise(run) for run in runs] == [None, "run", "dog"]


def test_stop_word_list_is_fixed() -> None:
    listed = stop_words("english-1")
    assert len(listed) == 119
    assert {"a", "the", "your", "dear", "twas"} <= listed
    assert not listed & {"more", "very", "such", "because of"}


def test_a_run_of_too_many_letters_is_no_word() -> None:
    # Stems of long runs of y would exhaust the stack.
    text = "y" * 20_000_000 + " " + "y" * MAX_LETTERS + " dogs"
    assert [len(word) for word in Tokeniser(TextOptions()).words(text)] == [MAX_LETTERS, 3]


def test_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MEMO_WORDS", 10)
    tokeniser = Tokeniser(PLAIN)
    text = " ".join(a + b for a in "abcdefgh" for b in "abcdefgh")
    for _ in range(2):
        assert tokeniser.words(text) == text.split()
    assert len(tokeniser._word_of) <= 10


def test_a_tokeniser_travels_without_its_memo() -> None:
    tokeniser = Tokeniser(TextOptions(extra_stop_words=("zebra",)))
    before = pickle.dumps(tokeniser)
    tokeniser.words("many different words to remember")
    assert pickle.dumps(tokeniser) == before
    assert pickle.loads(before).words("zebras and zebra") == ["zebra"]


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("language", "english, auto, arabic"),
        ("tokens", "words, words+numbers, code"),
        ("letters", "unicode, ascii"),
        ("stop_words", "language, english-1, none"),
        ("stemmer", "language, porter-nltk, none"),
        ("segmentation", "auto, icu, bigrams"),
    ],
)
def test_an_unknown_value_is_named(key: str, known: str) -> None:
    sentence = re.escape(f"corpus.text.{key} must be one of {known}")
    with pytest.raises(ConfigError, match=f"{sentence}.*, got 'gibberish'"):
        Tokeniser(replace(TextOptions(), **{key: "gibberish"}))
