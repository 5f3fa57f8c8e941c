"""What a page is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atd_dask.text.words import Tokeniser

# So many documents, texts and words of a cluster are shown.
MOST_DOCUMENTS = 500
MOST_TEXTS = 200
MOST_WORDS = 300
# So many copies of a document, and so many groups of copies.
MOST_COPIES = 100
MOST_GROUPS = 50


@dataclass(frozen=True)
class Sources:
    """A result, and what only the stores beside it know."""

    result: Mapping[str, Any]
    run: Mapping[str, Any] | None  # run.json, where there is one
    counts: Mapping[int, Mapping[str, int]]  # of each row that is shown, its words
    topics: Sequence[Sequence[str]]  # of each topic of the null model, its words
    settings: Mapping[str, Any]  # those that are known without run.json
    digests: Mapping[str, str]  # of the stores, by what they hold
    texts: Mapping[int, str] = field(default_factory=dict)  # of rows, where they are kept
    tokeniser: Tokeniser | None = None  # by which those were counted
    links: Mapping[int, str] = field(default_factory=dict)  # row to the original's URL
    scores: Mapping[str, Any] | None = None  # of all documents of the batch, where they are kept
