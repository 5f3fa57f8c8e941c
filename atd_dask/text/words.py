"""Turns text into words: lower case, runs of letters, stop words, stems."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from atd_dask.errors import ConfigError
from atd_dask.text import porter
from atd_dask.text.languages import DENSE, LANGUAGES, find_stemmer, find_stop_words, fold
from atd_dask.text.options import ENGLISH, TextOptions
from atd_dask.text.segmentation import SEGMENTATIONS
from atd_dask.text.splitting import TOKENS, Splitter

LETTERS = ("unicode", "ascii")
STOP_WORDS = ("language", "english-1", "none")
STEMMERS = ("language", "porter-nltk", "none")

# A longer run of letters is an encoded file, not a word, and the stemmer recurses over it.
MAX_LETTERS = 100

# At about 200 bytes per word, a memo stays under 50 MB.
MEMO_WORDS = 200_000

# Lower case for ASCII letters, a space for every other byte.
_ASCII = bytes(ord(chr(b).lower()) if chr(b).isalpha() and b < 128 else 32 for b in range(256))
# Matches letters, but also numerals such as ² and Ⅷ, which no short pattern excludes.
_UNICODE_RUN = re.compile(r"[^\W\d_]+")
_UNICODE = _UNICODE_RUN.findall
_ASCII_RUN = re.compile(r"[a-z]+")

# A word with one of these needs only two characters.
_DENSE = re.compile(rf"[\d{DENSE}]")
ENOUGH = 2

# The kernel that counts runs sees only letters and non-ASCII bytes, so these characters move to
# code points that are no letters.
_VEIL = {ord(char): 0xE000 + ord(char) for char in "0123456789.,<>"}
_UNVEIL = {veiled: char for char, veiled in _VEIL.items()}


class Tokeniser:
    """Splits text into words as `TextOptions` says.

    A word is a run of letters of the lower-cased text that has at least `min_letters` and at most
    `MAX_LETTERS` letters and is not a stop word. It is stemmed after that, so a stem may be shorter
    than `min_letters` or equal a stop word. Anything but a letter ends a word, including NUL and
    U+FFFD.

    That is all for English words and ASCII letters. Otherwise a `Splitter` finds the runs, and they
    are normalised first. Two characters are enough for a word with a digit or with a letter of a
    script in which words are short, such as Han, kana, Hangul and Thai. Only words of letters are
    stemmed.
    """

    def __init__(self, options: TextOptions) -> None:
        problems = [
            f"corpus.text.{key} must be one of {', '.join(known)}, got {value!r}"
            for key, value, known in (
                ("language", options.language, LANGUAGES),
                ("tokens", options.tokens, TOKENS),
                ("letters", options.letters, LETTERS),
                ("stop_words", options.stop_words, STOP_WORDS),
                ("stemmer", options.stemmer, STEMMERS),
                ("segmentation", options.segmentation, SEGMENTATIONS),
            )
            if value not in known
        ]
        if options.language == "auto":
            problems.append("corpus.text.language must be chosen before text is split, got 'auto'")
        if problems:
            raise ConfigError(problems)
        self._options = options
        self._only_ascii = options.letters == "ascii"
        self._splitter: Splitter | None = None
        if options.is_segmented:
            self._splitter = Splitter(
                options.tokens, self._only_ascii, options.segmentation, options.language
            )
        # ASCII letters make the same words in every language, except for the Turkish I.
        self._splits_ascii = options.tokens == "words" and options.language != "turkish"
        names = {
            key: ENGLISH[key] if options.language == "english" else options.language
            for key in ENGLISH
        }
        listed, stemmer = options.stop_words, options.stemmer
        self._stop_words = stop_words(
            names["stop_words"] if listed == "language" else listed
        ).union(self._fold(word.lower()) for word in options.extra_stop_words)
        self._stem = _stemmer(names["stemmer"] if stemmer == "language" else stemmer)
        self._word_of = _Memo(self.normalise)

    def __reduce__(self) -> tuple[type[Tokeniser], tuple[TextOptions]]:
        return type(self), (self._options,)

    def words(self, text: str) -> list[str]:
        """Return the words of `text` in order, with repetitions."""
        return list(filter(None, map(self._word_of.__getitem__, self.split(text))))

    def split(self, text: str) -> list[str]:
        """Return the runs of `text` that may be words, lower-cased, in order."""
        if self._splitter is not None and not (self._splits_ascii and text.isascii()):
            return [run for _, _, run in self._splitter.find(text)]
        if self._only_ascii or text.isascii():
            return self.encode(text).translate(_ASCII).decode("ascii").split()
        runs: list[str] = _UNICODE(text.lower())
        if all(map(str.isalpha, runs)):
            return runs
        return "".join(char if char.isalpha() else " " for char in " ".join(runs)).split()

    def locate(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the words that `words` returns, each with the start and end of its run in `text`.
        Bigrams overlap."""
        for start, end, run in self._find_runs(text):
            word = self._word_of[run]
            if word:
                yield start, end, word

    def _find_runs(self, text: str) -> Iterator[tuple[int, int, str]]:
        if self._splitter is not None:
            yield from self._splitter.find(text)
            return
        lower = text.lower()
        # The lower case of a few capitals has two characters.
        source: Sequence[int] = range(len(text))
        if len(lower) != len(text):
            source = [index for index, char in enumerate(text) for _ in char.lower()]
        for run in (_ASCII_RUN if self._only_ascii else _UNICODE_RUN).finditer(lower):
            for start, end in _cut_at_numerals(lower, *run.span()):
                yield source[start], source[end - 1] + 1, lower[start:end]

    def encode(self, text: str) -> bytes:
        """Encode `text` as UTF-8 in which its runs are runs of ASCII letters and non-ASCII bytes.
        `decode` restores a run."""
        if self._splitter is not None and not (self._splits_ascii and text.isascii()):
            return " ".join(self.split(text)).translate(_VEIL).encode("utf-8")
        if text.isascii():
            return text.encode("ascii")
        if self._only_ascii:
            # Lower case first: some non-ASCII characters become ASCII letters.
            return text.lower().encode("ascii", "replace")
        return " ".join(self.split(text)).encode("utf-8")

    def decode(self, run: bytes) -> str:
        """Decode a run of encoded text."""
        return run.decode().translate(_UNVEIL) if self._splitter is not None else run.decode()

    def normalise(self, run: str) -> str | None:
        """Return the word for a run, or None if it is dropped."""
        run = self._fold(run)
        least = self._options.min_letters
        if self._splitter is not None and least > ENOUGH and _DENSE.search(run):
            least = ENOUGH
        if not least <= len(run) <= MAX_LETTERS or run in self._stop_words:
            return None
        if self._splitter is not None and not _is_stemmed(run):
            return run
        return self._stem(run)

    def _fold(self, run: str) -> str:
        return run if self._splitter is None else fold(run)


def _cut_at_numerals(lower: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of letters in a run that may contain numerals such as ²."""
    if lower[start:end].isalpha():
        yield start, end
        return
    first = start
    for index in range(start, end + 1):
        if index == end or not lower[index].isalpha():
            if index > first:
                yield first, index
            first = index + 1


def _is_stemmed(run: str) -> bool:
    """Return whether a run has letters only: no mask, no digits."""
    return run[0] != "<" and not any(map(str.isdecimal, run))


class _Memo(dict[str, str | None]):
    """Remembers the word for each run of letters.

    When it is full it is emptied; words in use are soon back.
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


def stop_words(name: str) -> frozenset[str]:
    """Return the stop words of the list `name`: `none`, `english-1` or a language."""
    return frozenset() if name == "none" else find_stop_words(name)


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    """Return a stemmer with a memo that all tokenisers of a process share: stemming is slow."""
    if name == "none":
        return str
    if name != "porter-nltk":
        stem = find_stemmer(name)
        return stem if stem is str else lru_cache(MEMO_WORDS)(stem)
    return lru_cache(MEMO_WORDS)(porter.stem)
