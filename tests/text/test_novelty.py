"""Documents are recognised by their id and by what they say."""

from __future__ import annotations

import numpy as np

from atd_dask.documents import CountBatch
from atd_dask.text.counting import WordCounts
from atd_dask.text.novelty import describe_documents


def make_counts(words: list[str], rows: list[dict[str, int]]) -> WordCounts:
    number = {word: term for term, word in enumerate(words)}
    ordered = [sorted((number[word], count) for word, count in row.items()) for row in rows]
    flat = [entry for row in ordered for entry in row]
    batch = CountBatch(
        [str(row) for row in range(len(rows))],
        [()] * len(rows),
        np.cumsum([0, *map(len, ordered)], dtype=np.int64),
        np.array([term for term, _ in flat], dtype=np.int32),
        np.array([count for _, count in flat], dtype=np.int32),
    )
    return WordCounts(tuple(words), batch)


def test_content_does_not_depend_on_the_numbers_of_words() -> None:
    rows = [{"a": 1, "b": 2}, {"c": 1}, {}]
    first = describe_documents(make_counts(["a", "b", "c"], rows))
    assert first == describe_documents(make_counts(["c", "x", "b", "a"], rows))
    assert [id for id, _ in first] == [b"0", b"1", b"2"]


def test_another_count_is_another_content() -> None:
    contents = [
        describe_documents(make_counts(["a", "b"], [row]))[0][1]
        for row in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}, {})
    ]
    assert len(set(contents)) == 5
