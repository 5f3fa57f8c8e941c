"""Guesses the language of documents from a sample of them.

Some scripts identify a language. Among languages that share a script, stop words decide: each
token is one vote, split between the languages in whose list of stop words it is. The guess depends
on nothing but the texts of the sample.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

from atd_dask.documents import Document, Shard
from atd_dask.text.languages import (
    BURMESE,
    HAN,
    HANGUL,
    KANA,
    KHMER,
    LAO,
    SNOWBALL,
    THAI,
    UNSPACED,
    WITH_STOP_WORDS,
    find_stop_words,
)
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser

# The least evidence for a guess: the letters of the sample, the share of all tokens that vote for
# the winner, and the ratio of its votes to those of the runner-up. Text in a known language has a
# share of 0.2 to 0.5, text in a related one, such as Galician, about 0.1.
LEAST_LETTERS = 200
LEAST_SHARE = Fraction(1, 7)
LEAST_LEAD = Fraction(11, 10)

# How much a sample takes: shards, documents per shard, characters per document.
SAMPLE_SHARDS, SAMPLE_DOCUMENTS, SAMPLE_CHARACTERS = 20, 100, 1000

# Letters that distinguish a language from all others listed here; the first match wins.
_SCRIPTS = {
    "thai": THAI,
    "lao": LAO,
    "khmer": KHMER,
    "burmese": BURMESE,
    "korean": HANGUL,
    "japanese": KANA,
    "chinese": HAN,
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "armenian": "\u0531-\u0587",
    "tamil": "\u0b80-\u0bff",
    "gujarati": "\u0a80-\u0aff",
    "yiddish": "\u05f0-\u05f2",
    "hebrew": "\u05d0-\u05ea",
    "serbian": "\u0452\u045b",  # Macedonian has neither
}
# In these languages the distinguishing letters are a minority: kana stand among Han characters, and
# only a few letters are specific to Yiddish or Serbian.
_SHARES = {"japanese": Fraction(1, 10), "yiddish": Fraction(1, 100), "serbian": Fraction(1, 200)}
_PATTERNS = {language: re.compile(f"[{letters}]") for language, letters in _SCRIPTS.items()}
_LETTER = re.compile(rf"[^\W\d_]|[{UNSPACED}]")


@dataclass(frozen=True)
class Guess:
    """A language, or `other` if the sample does not tell, and a sentence about it."""

    language: str
    words: str


def guess_language(texts: Iterable[str]) -> Guess:
    """Return the language that most of the texts are written in."""
    texts = list(texts)
    lower = "\n".join(texts).lower()
    n_letters = len(_LETTER.findall(lower))
    if n_letters < LEAST_LETTERS:
        return _give_up(f"the documents have too few letters to guess their language ({n_letters})")
    for language, pattern in _PATTERNS.items():
        if len(pattern.findall(lower)) >= _SHARES.get(language, Fraction(1, 2)) * n_letters:
            return _say(language)
    return _ask_stop_words(texts)


def _ask_stop_words(texts: Iterable[str]) -> Guess:
    options = TextOptions(stop_words="none", stemmer="none", min_letters=1, segmentation="bigrams")
    tokeniser = Tokeniser(replace(options, language="other"))
    running = Counter(word for text in texts for word in tokeniser.words(text))
    # Malay shares most of its words with Indonesian, which has a stemmer.
    languages = sorted((WITH_STOP_WORDS | {"english"}) - {"malaysian"})
    asked = {language: find_stop_words(language) for language in languages}
    votes: dict[str, Fraction] = dict.fromkeys(asked, Fraction(0))
    for word, count in running.items():
        having = [language for language, listed in asked.items() if word in listed]
        for language in having:
            votes[language] += Fraction(count, len(having))
    best, second = sorted(asked, key=lambda language: (-votes[language], language))[:2]
    if votes[best] < LEAST_SHARE * running.total():
        return _give_up("the documents have few stop words of any known language")
    if votes[best] < LEAST_LEAD * votes[second]:
        return _give_up(f"the documents may be {_name(best)} or {_name(second)}")
    return _say(best)


def _name(language: str) -> str:
    return language.title()


def _say(language: str) -> Guess:
    has_stems = language in SNOWBALL or language == "english"
    has_stop_words = language in WITH_STOP_WORDS or language == "english"
    name = _name(language)
    stems = f"{name} stems" if has_stems else "no stems"
    if has_stems and has_stop_words:
        listed = "and stop words"
    else:
        listed = f"and {name if has_stop_words else 'no'} stop words"
    return Guess(language, f"the documents look {name}: {stems} {listed}")


def _give_up(why: str) -> Guess:
    return Guess(
        "other", f"{why}: no stemming and no stop words unless you set corpus.text.language"
    )


def sample_texts(shards: Iterable[Shard]) -> Iterator[str]:
    """Yield the beginnings of the first documents of the first shards, the same on any cluster."""
    for shard in islice(shards, SAMPLE_SHARDS):
        documents = (item for item in shard.read() if isinstance(item, Document))
        for document in islice(documents, SAMPLE_DOCUMENTS):
            yield document.text[:SAMPLE_CHARACTERS]
