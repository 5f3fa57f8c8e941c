from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.report import render
from atd_dask.report.batch_picture import (
    COLOURS,
    HEIGHT,
    LEFT,
    MOST_BYTES,
    MOST_DOTS,
    MOST_MARKS,
    MOST_NAMED,
    RIGHT,
    SHAPES,
    WIDTH,
    BatchPicture,
    view_batch,
)
from atd_dask.result_types import BatchScores, ClusterResult
from tests.report.pages import HOSTILE, Page, make_cluster, make_sources
from tests.report.test_charts import check_drawing
from tests.report.test_view import check_structure
from tests.results import make_cluster_result


def make_scores(
    surprise: list[float | None],
    log_odds: list[float | None] | None = None,
    usual: tuple[float, ...] = (5.0, 6.5, 8.0),
) -> BatchScores:
    """The scores of documents with rows counted from 0."""
    nothing = (None,) * len(surprise)
    return BatchScores(
        format="",
        result="",
        usual=usual,
        row=tuple(range(len(surprise))),
        surprise=tuple(surprise),
        novelty=nothing,
        nearest=nothing,
        log_odds=nothing if log_odds is None else tuple(log_odds),
    )


def draw_scores(n_docs: int, n_clusters: int = 2, share: float = 0.1) -> tuple[Any, list[Any]]:
    """Random scores; the last documents are in clusters of the same size."""
    chance = random.Random(3)
    n_inside = int(share * n_docs) if n_clusters else 0
    surprise: list[float | None] = [chance.gauss(6.5, 0.8) for _ in range(n_docs - n_inside)]
    log_odds: list[float | None] = [chance.uniform(-7, 4) for _ in range(n_docs - n_inside)]
    surprise += [chance.gauss(8.0, 0.8) for _ in range(n_inside)]
    log_odds += [chance.uniform(0, 220) for _ in range(n_inside)]
    first = n_docs - n_inside
    clusters = [
        make_members(index, range(first + index - 1, n_docs, n_clusters))
        for index in range(1, n_clusters + 1)
    ]
    return make_scores(surprise, log_odds), clusters


def make_members(index: int, rows: Any) -> ClusterResult:
    return make_cluster_result(index=index, documents=[{"row": row} for row in rows])


def view(scores: Any, *clusters: Any, about: Any = None) -> BatchPicture:
    made = view_batch(scores, clusters, about or {})
    assert made is not None
    return made


def count_marks(svg: str, kind: str) -> int:
    paths = [
        path.get("d", "")
        for path in ElementTree.fromstring(svg).iter("path")
        if kind in path.get("class", "").split()
    ]
    return sum(path.count("M") for path in paths)


def test_every_document_has_its_mark() -> None:
    scores = make_scores([5.0, 6.0, 7.0, 8.5, 9.0], [-5.0, -4.0, -3.0, 30.0, 80.0])
    made = view(scores, make_members(1, [3, 4]), about={1: ["tea", "cup", "pot", "mug", "lid"]})
    check_drawing(made.drawing)
    assert count_marks(made.drawing, "alone") == 3
    assert count_marks(made.drawing, "colour-1") == 2
    assert [(entry.text, entry.cluster, entry.words) for entry in made.legend] == [
        ("cluster 1", 1, ("tea", "cup", "pot", "mug")),
        ("in no cluster", None, ()),
    ]
    told = ElementTree.fromstring(made.drawing).get("aria-label", "").replace("\xa0", " ")
    assert told == (
        "5 documents by surprise and by the odds of the nearest cluster: 2 in cluster 1, 3 in none."
    )
    assert "shaded strip" in made.sentence
    assert "left out" not in made.sentence


def test_what_is_unusual_is_to_the_right_and_what_belongs_is_above() -> None:
    scores = make_scores([5.0, 9.0, 7.0], [-5.0, -5.0, 50.0])
    svg = view(scores, make_members(1, [2])).drawing
    (alone,) = re.findall(r'class="alone" d="([^"]*)"', svg)
    (x1, y1), (x2, y2) = [map(int, place) for place in re.findall(r"M(\d+) (\d+)h0", alone)]
    assert x1 < x2
    assert y1 == y2
    ((x, y),) = re.findall(r'colour-1" d="M(\d+) (\d+)', svg)
    assert x1 < int(x) < x2
    assert int(y) < y1


@pytest.mark.parametrize("odds", [None, float("inf"), float("-inf"), float("nan"), 1e300])
def test_odds_without_end_stay_on_the_picture(odds: float | None) -> None:
    scores = make_scores([5.0, 6.0, 7.0], [odds, 3.0, odds])
    root = check_drawing(view(scores, make_members(1, [2])).drawing)
    for path in root.iter("path"):
        for x, y in re.findall(r"M(\d+) (\d+)", path.get("d", "")):
            assert LEFT <= int(x) <= WIDTH - RIGHT
            assert 0 <= int(y) <= HEIGHT


def test_scores_that_are_all_equal() -> None:
    for value in (0.0, 6.0):
        scores = make_scores([value] * 5, [value] * 5, (value, value, value))
        check_drawing(view(scores, make_members(1, [0])).drawing)
        check_drawing(view(scores).drawing)
        check_drawing(view(replace(scores, usual=())).drawing)


def test_one_document() -> None:
    made = view(make_scores([6.0], [5.0]), make_members(1, [0]))
    check_drawing(made.drawing)
    assert [entry.text for entry in made.legend] == ["cluster 1"]
    made = view(make_scores([6.0]))
    assert check_drawing(made.drawing).findall("rect[@class='bar']")


def test_nothing_to_draw() -> None:
    assert view_batch(None, [], {}) is None
    assert view_batch(make_scores([]), [], {}) is None
    assert view_batch(make_scores([None, None]), [], {}) is None


def test_without_a_cluster_documents_are_counted() -> None:
    scores, _ = draw_scores(3000, 0)
    made = view(scores)
    root = check_drawing(made.drawing)
    assert len(root.findall("rect[@class='bar']")) > 20
    assert not root.findall("path")
    assert "There is no cluster that they could belong to." in made.sentence
    assert made.legend == ()


def test_documents_without_a_known_word_are_left_out() -> None:
    made = view(make_scores([6.0, None, 7.0], [1.0, None, 2.0]), make_members(1, [0]))
    assert made.sentence.endswith(" 1\xa0document without known words is left out.")
    made = view(make_scores([6.0, None, None]))
    assert made.sentence.endswith(" 2\xa0documents without known words are left out.")


def test_many_documents_are_counted_in_squares() -> None:
    few, clusters = draw_scores(MOST_DOTS, share=0.1)
    assert count_marks(view(few, *clusters).drawing, "alone") > 1500
    many, clusters = draw_scores(50_000, share=0.01)
    made = view(many, *clusters)
    check_drawing(made.drawing)
    assert count_marks(made.drawing, "alone") == 0
    assert 0 < count_marks(made.drawing, "cell") < 4000
    assert count_marks(made.drawing, "mark") > 450
    assert [entry.text for entry in made.legend][2:5] == [
        "1 document in no cluster",
        "2 to 9",
        "10 to 99",
    ]
    assert "counted in squares" in made.sentence


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("n_clusters", [1, 6, 40])
def test_the_bound_on_the_bytes(n_clusters: int, share: float) -> None:
    scores, clusters = draw_scores(50_000, n_clusters, share)
    made = view(scores, *clusters)
    size = len(made.drawing.encode()) + sum(len(entry.mark.encode()) for entry in made.legend)
    assert size <= MOST_BYTES
    assert count_marks(made.drawing, "mark") <= MOST_MARKS
    if share == 1.0:
        assert "One in 42 documents of clusters is drawn" in made.sentence


def test_the_largest_picture() -> None:
    """Every square is drawn, and as many marks as possible, all of the longest shape."""
    alone = [(x / 9, y / 10) for x in range(160) for y in range(-98, 99, 2)]
    inside = [(x / 4, y / 4) for x in range(40) for y in range(-15, 15)]
    assert len(inside) == MOST_MARKS
    places = [*alone, *inside]
    odds: list[float | None] = [math.log(10) * math.sinh(bent) for _, bent in places]
    scores = make_scores([surprise for surprise, _ in places], odds, (1.0, 2.0))
    longest = max(range(len(SHAPES)), key=lambda place: len(SHAPES[place]))
    clusters = [make_members(n, []) for n in range(1, MOST_NAMED + 1)]
    clusters[longest] = make_members(longest + 1, range(len(alone), len(places)))
    drawing = view(scores, *clusters).drawing
    assert count_marks(drawing, "mark") == MOST_MARKS
    assert count_marks(drawing, "cell") > 3300
    assert len(drawing.encode()) <= MOST_BYTES


def test_clusters_differ_in_colour_and_shape() -> None:
    scores, clusters = draw_scores(600, MOST_NAMED + 3, 0.5)
    made = view(scores, *clusters)
    marks = [entry.mark for entry in made.legend]
    assert len(set(marks)) == len(marks) == MOST_NAMED + 2
    shapes = {re.sub('.* d="', "", mark) for mark in marks[:COLOURS]}
    assert len(shapes) == COLOURS
    assert made.legend[MOST_NAMED].text.replace("\xa0", " ") == "3 other clusters"


def test_the_same_scores_give_the_same_bytes() -> None:
    scores, clusters = draw_scores(5000)
    assert view(scores, *clusters) == view(scores, *clusters)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, 40)),
            st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from([(), (1.0, 2.0, 3.0), (4.0, 4.0, 4.0)]),
)
def test_any_scores_can_be_drawn(
    documents: list[tuple[float | None, float | None, int]], usual: tuple[float, ...]
) -> None:
    surprise, odds, owners = map(list, zip(*documents, strict=True))
    clusters = [
        make_members(n, [row for row, owner in enumerate(owners) if owner == n]) for n in (1, 2, 3)
    ]
    made = view_batch(make_scores(surprise, odds, usual), clusters, {})
    assert (made is None) == all(value is None for value in surprise)
    if made is not None:
        check_drawing(made.drawing)


def test_the_picture_on_the_page() -> None:
    cluster = make_cluster(words=HOSTILE)
    rows = [document["row"] for document in cluster["documents"]]
    surprise: list[float | None] = [6.0 + n / 100 for n in range(200)]
    scores = make_scores(surprise, [9.0 if n in rows else -4.0 for n in range(200)])
    sources = make_sources(cluster)
    content = render(replace(sources, scores=scores))
    page = check_structure(content)
    assert content == render(replace(sources, scores=scores))
    assert "All documents of the batch" in page.text
    assert "cluster 1 <script>" in page.text
    assert "197 in none." in content.decode()
    assert "All documents of the batch" not in Page(render(sources)).text


def test_no_style_of_its_own() -> None:
    scores, clusters = draw_scores(300)
    made = view(scores, *clusters)
    marks = "".join(entry.mark for entry in made.legend)
    assert not re.search(r"style=|fill=|stroke=|href|<title", made.drawing + marks)
