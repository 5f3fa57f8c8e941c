"""What a user can say about documents: where they are, and how their text becomes words."""

from __future__ import annotations

from dataclasses import dataclass


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
    encoding: str = "utf-8"


@dataclass(frozen=True)
class TextOptions:
    """How raw text becomes words, and which documents and words are kept."""

    letters: str = "unicode"
    min_letters: int = 3
    stop_words: str = "english-1"
    extra_stop_words: tuple[str, ...] = ()
    stemmer: str = "porter-nltk"
    min_distinct: int = 1
    max_distinct: int | None = None
    max_bytes: int = 10_000_000
    min_document_frequency: int = 1
