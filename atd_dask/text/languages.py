"""Languages: their stemmers, stop words and scripts.

Stemmers come from `snowballstemmer`, the Snowball project's own pure Python package, and stop words
from `stop-words`. A language that one of them lacks goes without.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from threading import Lock

SNOWBALL = frozenset(
    {
        "arabic",
        "armenian",
        "basque",
        "catalan",
        "czech",
        "danish",
        "dutch",
        "esperanto",
        "estonian",
        "finnish",
        "french",
        "german",
        "greek",
        "hindi",
        "hungarian",
        "indonesian",
        "irish",
        "italian",
        "lithuanian",
        "nepali",
        "norwegian",
        "persian",
        "polish",
        "portuguese",
        "romanian",
        "russian",
        "serbian",
        "sesotho",
        "spanish",
        "swedish",
        "tamil",
        "turkish",
        "yiddish",
    }
)

# The package's Greek list is left out, because it is ancient Greek.
WITH_STOP_WORDS = frozenset(
    {
        "arabic",
        "bulgarian",
        "catalan",
        "chinese",
        "czech",
        "danish",
        "dutch",
        "finnish",
        "french",
        "german",
        "gujarati",
        "hebrew",
        "hindi",
        "hungarian",
        "indonesian",
        "italian",
        "japanese",
        "korean",
        "malaysian",
        "norwegian",
        "persian",
        "polish",
        "portuguese",
        "romanian",
        "russian",
        "slovak",
        "spanish",
        "swedish",
        "turkish",
        "ukrainian",
        "vietnamese",
    }
)

# Written without spaces between words; Lao, Khmer and Burmese have no stemmer and no stop words.
UNSPACED_LANGUAGES = frozenset({"burmese", "chinese", "japanese", "khmer", "lao", "thai"})

# `other` is any language that is not listed: no stemming, no stop words.
LANGUAGES = (
    "english",
    "auto",
    *sorted(SNOWBALL | WITH_STOP_WORDS | UNSPACED_LANGUAGES),
    "other",
)

HAN = "\u3005-\u3007\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
THAI = "\u0e01-\u0e3a\u0e40-\u0e4e"
LAO = "\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
KHMER = "\u1780-\u17d3\u17d7\u17dc\u17dd"
BURMESE = "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"

# For character classes: letters and marks of scripts without spaces between words, and of scripts
# in which two characters can be a word.
UNSPACED = HAN + KANA + THAI + LAO + KHMER + BURMESE
DENSE = UNSPACED + HANGUL

# Punctuation around and within the entries of a list of stop words.
_PUNCTUATION = str.maketrans(dict.fromkeys("'’\",.", " "))


def fold(run: str) -> str:
    """Normalise a run of letters to NFKC: full-width letters become ordinary ones, and a letter and
    its mark become one character if there is one."""
    if run.isascii():
        return run
    folded = unicodedata.normalize("NFKC", run.replace("\xad", "")).lower()
    # A few ligatures expand to several words.
    return run if len(folded.split()) != 1 else folded


@cache
def find_stop_words(name: str) -> frozenset[str]:
    """Return the stop words `english-1` or those of a language, which may be none.

    The list `english-1` never changes; a better one would get another number.
    """
    if name in ("english", "english-1"):
        file = resources.files("atd_dask.text").joinpath("stop_words_english_1.txt")
        return frozenset(file.read_text("utf-8").split())
    if name not in WITH_STOP_WORDS:
        return frozenset()
    from stop_words import get_stop_words

    # The parts of c'est are words; entries of several words are not.
    entries = (entry for entry in get_stop_words(name) if " " not in entry)
    parts = (part for entry in entries for part in entry.translate(_PUNCTUATION).split())
    return frozenset(fold(part.lower()) for part in parts)


@cache
def find_stemmer(language: str) -> Callable[[str], str]:
    """Return the Snowball stemmer of a language, or the identity if there is none."""
    if language not in SNOWBALL:
        return str
    # The package's public function would return PyStemmer if that is installed, in any version.
    module = import_module(f"snowballstemmer.{language}_stemmer")
    stemmer = getattr(module, f"{language.title()}Stemmer")()
    lock = Lock()

    def stem(word: str) -> str:
        with lock:  # a stemmer has state
            return str(stemmer.stemWord(word))

    return stem
