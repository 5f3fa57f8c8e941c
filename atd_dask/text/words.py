"""Text to words: lower case, runs of letters, stop words, stems."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources

from atd_dask.errors import ConfigError
from atd_dask.text.options import TextOptions

LETTERS = ("unicode", "ascii")
STOP_WORDS = ("english-1", "none")
STEMMERS = ("porter-nltk", "none")

# A longer run of letters is no word but an encoded file; the stemmer's recursion grows with it.
MAX_LETTERS = 100

# At some 200 bytes a word, a memo stays under 50 MB.
MEMO_WORDS = 200_000

# Lower case for ASCII letters, a blank for every other byte.
_ASCII = bytes(ord(chr(b).lower()) if chr(b).isalpha() and b < 128 else 32 for b in range(256))
# Letters, but also numerals such as ² and Ⅷ, which no short pattern leaves out.
_UNICODE_RUN = re.compile(r"[^\W\d_]+")
_UNICODE = _UNICODE_RUN.findall
_ASCII_RUN = re.compile(r"[a-z]+")


class Tokeniser:
    """Gives the words of a text as `TextOptions` asks for them.

    A word is a run of letters of the lower-cased text that has at least `min_letters` and at most
    `MAX_LETTERS` letters and is no stop word. Only then is it stemmed: a stem may be shorter than
    `min_letters` or equal a stop word. Whatever is no letter ends a word, NUL and U+FFFD included.
    """

    def __init__(self, options: TextOptions) -> None:
        problems = [
            f"corpus.text.{key} must be one of {', '.join(known)}, got {value!r}"
            for key, value, known in (
                ("letters", options.letters, LETTERS),
                ("stop_words", options.stop_words, STOP_WORDS),
                ("stemmer", options.stemmer, STEMMERS),
            )
            if value not in known
        ]
        if problems:
            raise ConfigError(problems)
        self._options = options
        self._only_ascii = options.letters == "ascii"
        self._stop_words = stop_words(options.stop_words).union(
            word.lower() for word in options.extra_stop_words
        )
        self._stem = _stemmer(options.stemmer)
        self._word_of = _Memo(self.normalise)

    def __reduce__(self) -> tuple[type[Tokeniser], tuple[TextOptions]]:
        return type(self), (self._options,)

    def words(self, text: str) -> list[str]:
        """The words of `text` in their order, each as often as it occurs."""
        return list(filter(None, map(self._word_of.__getitem__, self.split(text))))

    def split(self, text: str) -> list[str]:
        """The runs of letters of `text`, lower-cased, in their order."""
        if self._only_ascii or text.isascii():
            return self.encode(text).translate(_ASCII).decode("ascii").split()
        runs: list[str] = _UNICODE(text.lower())
        if all(map(str.isalpha, runs)):
            return runs
        return "".join(char if char.isalpha() else " " for char in " ".join(runs)).split()

    def locate(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The words of `text` as `words` gives them, each with where its run of letters begins and
        ends in `text`."""
        lower = text.lower()
        # A few capitals have two characters in lower case.
        source: Sequence[int] = range(len(text))
        if len(lower) != len(text):
            source = [place for place, char in enumerate(text) for _ in char.lower()]
        for start, end in self._find_runs(lower):
            word = self._word_of[lower[start:end]]
            if word:
                yield source[start], source[end - 1] + 1, word

    def _find_runs(self, lower: str) -> Iterator[tuple[int, int]]:
        for run in (_ASCII_RUN if self._only_ascii else _UNICODE_RUN).finditer(lower):
            start, end = run.span()
            if run[0].isalpha():
                yield start, end
                continue
            first = start
            for place in range(start, end + 1):
                if place == end or not lower[place].isalpha():
                    if place > first:
                        yield first, place
                    first = place + 1

    def encode(self, text: str) -> bytes:
        """UTF-8 that has the runs of letters of `text` as runs of ASCII letters of either case and
        bytes beyond ASCII."""
        if text.isascii():
            return text.encode("ascii")
        if self._only_ascii:
            # Python's lower case first: beyond ASCII some characters become ASCII letters.
            return text.lower().encode("ascii", "replace")
        return " ".join(self.split(text)).encode("utf-8")

    def normalise(self, run: str) -> str | None:
        """The word that a run of letters stands for; None for one that is dropped."""
        if self._options.min_letters <= len(run) <= MAX_LETTERS and run not in self._stop_words:
            return self._stem(run)
        return None


class _Memo(dict[str, str | None]):
    """The word of each run of letters that was met, worked out once for each.

    Full, it is emptied: the words in use come back at once.
    """

    def __init__(self, normalise: Callable[[str], str | None]) -> None:
        super().__init__()
        self._normalise = normalise

    def __missing__(self, run: str) -> str | None:
        word = self._normalise(run)
        if len(run) <= MAX_LETTERS:
            if len(self) >= MEMO_WORDS:
                self.clear()
            self[run] = word
        return word


@cache
def stop_words(name: str) -> frozenset[str]:
    """The words of the list `name`. A list never changes; a better one gets another number."""
    if name == "none":
        return frozenset()
    file = f"stop_words_{name.replace('-', '_')}.txt"
    return frozenset(resources.files("atd_dask.text").joinpath(file).read_text("utf-8").split())


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    """The stemmer, with a memo that all tokenisers of a process share: stems are slow to make."""
    if name == "none":
        return str
    from nltk.stem.porter import PorterStemmer

    return lru_cache(MEMO_WORDS)(PorterStemmer().stem)
