"""The Porter stemmer with NLTK's extensions, which the paper's corpora were made with.

The steps are numbered as in M. F. Porter, *An algorithm for suffix stripping*, 1980. NLTK differs
in short words, -ied and -y, a few suffixes, and a list of irregular words. Importing NLTK would
take seconds in every process; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable

VOWELS = frozenset("aeiou")

# Words that the rules get wrong.
IRREGULAR = {
    "skies": "sky",
    "sky": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}

# Suffixes and their replacements; the first suffix that matches decides.
PLURALS = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
DOUBLE_SUFFIXES = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
)
SUFFIXES = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
LAST_SUFFIXES = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


def stem(word: str) -> str:
    """Return the stem of a word."""
    word = word.lower()
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _drop_plural(word)
    word = _drop_participle(word)
    if word.endswith("y") and len(word) > 2 and _is_consonant(word, len(word) - 2):
        word = word[:-1] + "i"
    word = _shorten_double_suffix(word)
    word = _replace(word, SUFFIXES, lambda rest: _measure(rest) > 0)
    word = _drop_last_suffix(word)
    return _tidy(word)


def _drop_plural(word: str) -> str:
    """Step 1a."""
    if len(word) == 4 and word.endswith("ies"):
        return word[:-1]
    return _replace(word, PLURALS, lambda rest: True)


def _drop_participle(word: str) -> str:
    """Step 1b."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _has_vowel(word[: -len(suffix)]):
            word = word[: -len(suffix)]
            break
    else:
        return word
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double_consonant(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_short(word) else word


def _shorten_double_suffix(word: str) -> str:
    """Step 2."""
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _shorten_double_suffix(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replace(word, DOUBLE_SUFFIXES, lambda rest: _measure(rest) > 0)


def _drop_last_suffix(word: str) -> str:
    """Step 4."""
    for suffix in LAST_SUFFIXES:
        if word.endswith(suffix):
            kept = suffix[:1] if suffix in ("sion", "tion") else ""
            rest = word[: len(word) - len(suffix)] + kept
            return rest if _measure(rest) > 1 else word
    return word


def _tidy(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_short(rest)):
            word = rest
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _replace(word: str, rules: tuple[tuple[str, str], ...], applies: Callable[[str], bool]) -> str:
    """Replace the suffix of a word if the rule applies to what precedes it."""
    for suffix, instead in rules:
        if word.endswith(suffix):
            rest = word[: len(word) - len(suffix)]
            return rest + instead if applies(rest) else word
    return word


def _is_consonant(word: str, index: int) -> bool:
    """Return whether a letter is a consonant; y is one after a vowel and at the start."""
    letter = word[index]
    if letter == "y":
        return index == 0 or not _is_consonant(word, index - 1)
    return letter not in VOWELS


def _measure(word: str) -> int:
    """Count how often a vowel is followed by a consonant."""
    count, after_vowel = 0, False
    for index, letter in enumerate(word):
        vowel = letter in VOWELS or (letter == "y" and index > 0 and not after_vowel)
        count += after_vowel and not vowel
        after_vowel = vowel
    return count


def _has_vowel(word: str) -> bool:
    return not all(_is_consonant(word, index) for index in range(len(word)))


def _ends_double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_short(word: str) -> bool:
    """Return whether a word ends in consonant, vowel and consonant other than w, x and y, or is a
    vowel and a consonant."""
    last = len(word) - 1
    if last == 1:
        return not _is_consonant(word, 0) and _is_consonant(word, 1)
    return (
        last > 1
        and _is_consonant(word, last - 2)
        and not _is_consonant(word, last - 1)
        and _is_consonant(word, last)
        and word[last] not in "wxy"
    )
