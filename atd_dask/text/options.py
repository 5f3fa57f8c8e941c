"""Where documents are, and how their text becomes words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from atd_dask.json_records import JsonObject


@dataclass(frozen=True)
class Source:
    """The path and the format of the documents of a corpus."""

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
        """Whether text in scripts without spaces is segmented into words.

        It is not for English words and ASCII letters, where text is prepared as for the paper.
        """
        as_paper = self.language == "english" or self.letters == "ascii"
        return self.tokens != "words" or not as_paper


# What English uses. These never change; those of other languages may.
ENGLISH = {"stop_words": "english-1", "stemmer": "porter-nltk"}


def describe_text(options: TextOptions) -> JsonObject:
    """Return the options as stores and stage keys have them.

    English stop words and stemmer are given by name, and the keys for other text than English words
    are left out if they have their defaults.
    """
    content = dataclasses.asdict(options)
    if options.language == "english":
        content |= {key: name for key, name in ENGLISH.items() if content[key] == "language"}
    usual = TextOptions()
    for key in ("language", "tokens", "segmentation"):
        if content[key] == getattr(usual, key):
            del content[key]
    return content


def read_text(content: JsonObject) -> TextOptions:
    """Read options that `describe_text` wrote."""
    return TextOptions(**content | {"extra_stop_words": tuple(content["extra_stop_words"])})
