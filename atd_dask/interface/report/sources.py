"""What a page is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# So many documents and words of a cluster are shown.
MOST_DOCUMENTS = 500
MOST_WORDS = 300


@dataclass(frozen=True)
class Sources:
    """A result, and what only the stores beside it know."""

    result: Mapping[str, Any]
    run: Mapping[str, Any] | None  # run.json, where there is one
    counts: Mapping[int, Mapping[str, int]]  # of each row that is shown, its words
    topics: Sequence[Sequence[str]]  # of each topic of the null model, its words
    settings: Mapping[str, Any]  # those that are known without run.json
    digests: Mapping[str, str]  # of the stores, by what they hold
    links: Mapping[int, str] = field(default_factory=dict)  # row to the original's URL
