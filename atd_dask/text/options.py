"""What a user can say about documents: where they are, and how their text becomes words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Source:
    """Where the documents of one corpus are, and in which format."""

    format: str
    path: str | None = None
    labels: str | None = None
    vocabulary: str | None = None
    id_field: str = "id"
    text_field: str = "text"
    labels_field: str = "labels"
    date_field: str | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True)
class TextOptions:
    """How raw text becomes words, and which documents and words are kept."""

    language: str = "english"
    tokens: str = "words"
    letters: str = "unicode"
    min_letters: int = 3
    stop_words: str = "language"
    extra_stop_words: tuple[str, ...] = ()
    stemmer: str = "language"
    segmentation: str = "auto"
    min_distinct: int = 1
    max_distinct: int | None = None
    max_bytes: int = 10_000_000
    min_document_frequency: int = 1

    @property
    def is_segmented(self) -> bool:
        """Whether scripts without blanks are cut into words. For English words and ASCII letters
        text is prepared as it was for the paper."""
        as_paper = self.language == "english" or self.letters == "ascii"
        return self.tokens != "words" or not as_paper


# What English follows; the lists of other languages may grow, these never change.
ENGLISH = {"stop_words": "english-1", "stemmer": "porter-nltk"}


def describe_text(options: TextOptions) -> dict[str, Any]:
    """The options as stores and keys of stages hold them: what English follows by its name, and
    the keys by which a text is anything but English words only where they differ."""
    told = dataclasses.asdict(options)
    if options.language == "english":
        told |= {key: name for key, name in ENGLISH.items() if told[key] == "language"}
    usual = TextOptions()
    for key in ("language", "tokens", "segmentation"):
        if told[key] == getattr(usual, key):
            del told[key]
    return told


def read_text(told: dict[str, Any]) -> TextOptions:
    """The options that `describe_text` described."""
    return TextOptions(**told | {"extra_stop_words": tuple(told["extra_stop_words"])})
