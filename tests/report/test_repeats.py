"""The page of a detection that was repeated with other null models."""

from __future__ import annotations

from typing import Any

from atd_dask.report import Sources, render
from tests.report.pages import Page, make_cluster, make_sources, say, tell


def make_repeats(found: int, **others: Any) -> dict[str, Any]:
    told = {"found": found, "of": 5, "p_value": 0.03, "p_values": [None] * 5, "shown": 1}
    return {"repeats": told | others}


def make_repeated(*clusters: dict[str, Any]) -> Sources:
    sources = make_sources(
        *clusters, settings={"detection": {"significance": {"level": 0.01}, "repeats": 5}}
    )
    return tell(sources, repeats={"n": 5})


def test_repeats_with_other_null_models() -> None:
    page = Page(
        render(
            make_repeated(
                make_cluster(1, **make_repeats(5, p_value=0.002)),
                make_cluster(2, **make_repeats(3, p_value=0.005, shown=2)),
                make_cluster(3, significant=False, **make_repeats(2)),
                make_cluster(4, significant=False, **make_repeats(0, p_value=1.0)),
            )
        )
    )
    for sentence in (
        "Training and search were run 5 times,",
        "This was found in some repeats and is not significant: candidate 3 , 3 documents about"
        " coffe",
        "(in 2 of 5).",
        "Found in 5 of 5 repeats, each with its own null model; the p-value over all of them is"
        " 0.002. Against",
        "p-value over all of them is 0.005. It is shown as found by repeat 2, the first to find"
        " it.",
        "It was found in 2 of 5 repeats, but its p-value over all of them is above the level of"
        " 0.01.",
        "Found in none of 5 repeats,",
    ):
        assert sentence in page.text
    assert "#cluster-3" in [link.get("href") for link in page.find("a")]


def test_the_verdict_on_a_cluster_that_some_repeats_found() -> None:
    cluster = make_cluster(significant=False, **make_repeats(2))
    assert say(make_repeated(cluster)).endswith(
        "the best candidate, 3 documents, was found in 2 of 5 repeats, but is not significant over"
        " all of them."
    )


def test_without_repeats_nothing_is_said_of_them() -> None:
    assert "repeat" not in Page(render(make_sources(make_cluster()))).text
