"""Text to words: lower case, runs of letters, stop words, stems."""

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

# Two characters are enough for a word that has one of these.
_DENSE = re.compile(rf"[\d{DENSE}]")
ENOUGH = 2

# To the kernel that counts runs, only letters and what is beyond ASCII belongs to a run. No letter
# is where these are put.
_VEIL = {ord(char): 0xE000 + ord(char) for char in "0123456789.,<>"}
_UNVEIL = {veiled: char for char, veiled in _VEIL.items()}


class Tokeniser:
    """Gives the words of a text as `TextOptions` asks for them.

    A word is a run of letters of the lower-cased text that has at least `min_letters` and at most
    `MAX_LETTERS` letters and is no stop word. Only then is it stemmed: a stem may be shorter than
    `min_letters` or equal a stop word. Whatever is no letter ends a word, NUL and U+FFFD included.

    That is all for English words and for ASCII letters. Otherwise runs are those of a `Splitter`,
    and are folded to one form first. Two characters are enough for a word with a digit, or with a
    letter of a script in which words are short, such as Han, kana, Hangul and Thai. Only a word of
    letters is stemmed.
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
        # ASCII letters make words in every language alike, but for the Turkish I.
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
        """The words of `text` in their order, each as often as it occurs."""
        return list(filter(None, map(self._word_of.__getitem__, self.split(text))))

    def split(self, text: str) -> list[str]:
        """The runs of `text` that may be words, lower-cased, in their order."""
        if self._splitter is not None and not (self._splits_ascii and text.isascii()):
            return [run for _, _, run in self._splitter.find(text)]
        if self._only_ascii or text.isascii():
            return self.encode(text).translate(_ASCII).decode("ascii").split()
        runs: list[str] = _UNICODE(text.lower())
        if all(map(str.isalpha, runs)):
            return runs
        return "".join(char if char.isalpha() else " " for char in " ".join(runs)).split()

    def locate(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The words of `text` as `words` gives them, each with where its run begins and ends in
        `text`. Where letters are cut into pairs, these overlap."""
        for start, end, run in self._find_runs(text):
            word = self._word_of[run]
            if word:
                yield start, end, word

    def _find_runs(self, text: str) -> Iterator[tuple[int, int, str]]:
        if self._splitter is not None:
            yield from self._splitter.find(text)
            return
        lower = text.lower()
        # A few capitals have two characters in lower case.
        source: Sequence[int] = range(len(text))
        if len(lower) != len(text):
            source = [index for index, char in enumerate(text) for _ in char.lower()]
        for run in (_ASCII_RUN if self._only_ascii else _UNICODE_RUN).finditer(lower):
            for start, end in _cut_at_numerals(lower, *run.span()):
                yield source[start], source[end - 1] + 1, lower[start:end]

    def encode(self, text: str) -> bytes:
        """UTF-8 that has the runs of `text` as runs of ASCII letters of either case and bytes
        beyond ASCII; `decode` gives a run back."""
        if self._splitter is not None and not (self._splits_ascii and text.isascii()):
            return " ".join(self.split(text)).translate(_VEIL).encode("utf-8")
        if text.isascii():
            return text.encode("ascii")
        if self._only_ascii:
            # Python's lower case first: beyond ASCII some characters become ASCII letters.
            return text.lower().encode("ascii", "replace")
        return " ".join(self.split(text)).encode("utf-8")

    def decode(self, run: bytes) -> str:
        """A run of what `encode` gave."""
        return run.decode().translate(_UNVEIL) if self._splitter is not None else run.decode()

    def normalise(self, run: str) -> str | None:
        """The word that a run stands for; None for one that is dropped."""
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
    """The letters of a run that may have numerals such as ² in it."""
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
    """Whether it is a word, not a mask nor anything with a digit."""
    return run[0] != "<" and not any(map(str.isdecimal, run))


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


def stop_words(name: str) -> frozenset[str]:
    """The words of the list `name`: `none`, `english-1`, or the list of a language."""
    return frozenset() if name == "none" else find_stop_words(name)


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    """The stemmer, with a memo that all tokenisers of a process share: stems are slow to make."""
    if name == "none":
        return str
    if name != "porter-nltk":
        stem = find_stemmer(name)
        return stem if stem is str else lru_cache(MEMO_WORDS)(stem)
    return lru_cache(MEMO_WORDS)(porter.stem)
