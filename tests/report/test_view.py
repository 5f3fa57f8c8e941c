from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.report import render
from atd_dask.report.sources import MOST_COPIES, MOST_DOCUMENTS, MOST_WORDS
from atd_dask.report.view import make_view
from atd_dask.run_types import ClusterFacts, StageMade, StageRecord
from atd_dask.stages.shown_texts import MOST_GROUPS
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser
from tests.report.pages import (
    HOSTILE,
    UNSEARCHED,
    WORDS,
    Page,
    make_cluster,
    make_hostile,
    make_news,
    make_search,
    make_sources,
    say,
    tell,
)
from tests.results import make_run_record


def test_the_verdict_names_size_and_words() -> None:
    found = make_cluster(), make_cluster(2, words=["gulf", "iran", "x", "y"])
    candidate = make_cluster(3, significant=False)
    assert say(make_sources(*found, candidate)) == (
        "Two significant clusters were found in 1,700 documents: 3 documents about coffe, export,"
        " quota and brazil, and 3 documents about gulf and iran."
    )
    assert say(make_sources(make_cluster(size=1, words=["ship", "x", "y"]))) == (
        "One significant cluster was found in 1,700 documents: 1 document about ship."
    )
    assert say(make_sources(make_cluster(words=["x", "y"]))) == (
        "One significant cluster was found in 1,700 documents: 3 documents that lack usual words."
    )


def test_the_verdict_on_many_clusters_is_short() -> None:
    clusters = [make_cluster(n, words=[f"w{n}", "x", "y"]) for n in range(1, 13)]
    assert say(make_sources(*clusters)) == (
        "12 significant clusters were found in 1,700 documents: 3 documents about w1, 3 documents"
        " about w2, 3 documents about w3, and 27 documents in 9 more."
    )


def test_clusters_of_earlier_sweeps_with_new_documents() -> None:
    sources = make_sources(make_cluster(significant=False))
    news = [make_news("new", ["no"], ["a"]), make_news("continuing", ["gulf", "iran"], ["b", "c"])]
    text = Page(render(tell(sources, sweep={"clusters": news}))).text
    assert "Clusters of earlier sweeps with new documents: " in text
    assert "what it is about 3 2 12 gulf iran new documents b , c " in text
    assert "earlier sweeps" not in Page(render(sources)).text


def test_the_verdict_where_nothing_was_found() -> None:
    assert say(make_sources(make_cluster(significant=False))) == (
        "No significant cluster was found in 1,700 documents; the best candidate, 3 documents, has"
        " no more support than expected by chance."
    )
    assert say(make_sources(make_cluster(significant=False, **UNSEARCHED))).endswith(
        "; the best candidate, 3 documents, failed the test."
    )
    assert say(make_sources()) == (
        "No significant cluster was found in 1,700 documents; there was no candidate to test."
    )
    assert b'class="cluster"' not in render(make_sources())


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({}, "None of 49 bootstrap clusters scored higher: p = 0.02, the smallest possible"),
        ({"score": 46.0, "p_value": 0.06}, "2 of 49 bootstrap clusters scored higher: p = 0.06."),
        ({"bootstrap_scores": [], "p_value": 1.0}, "No bootstrap cluster could be drawn"),
        (
            {},
            "3 times in held-out normal documents, found a support of at most 12.0; this cluster",
        ),
        ({}, "has 30.5, more than any of them (search p-value 0.25)."),
        (
            {"support": 1.5, "search_p_value": 0.75},
            "has 1.5, which 2 of the 3 searches reached (search p-value 0.75).",
        ),
        (UNSEARCHED, "so nothing corrects for having picked"),
        (
            {"significant": False, **UNSEARCHED},
            "Its p-value, 0.02, is above the level of 0.01; the test stopped once that was",
        ),
        (
            {"significant": False, "support": -1.0},
            "Documents on its topic are just as frequent among normal documents.",
        ),
        (
            {"significant": False, "support": 12.0},
            "1 of 3 searches in held-out normal documents found at least as much support.",
        ),
        (
            {"significant": False, "support": 1.0, "reference_support": [3.0, 1.0]},
            "Every search in held-out normal documents found at least as much support.",
        ),
        (
            {"significant": False, "support": 12.5},
            "Its search p-value, 0.25, is above the level of 0.01.",
        ),
        (
            {"significant": False, "bootstrap_scores": [], **UNSEARCHED},
            "It could not be tested, because ",
        ),
        ({}, "It grew from one document in 4 steps;"),
        ({}, "In steps with a hollow dot the new topic was not significant."),
        ({}, "The cluster is the first 3 documents."),
    ],
)
def test_sentences(others: dict[str, Any], sentence: str) -> None:
    settings = {"detection": {"significance": {"level": 0.01}}}
    sources = make_sources(make_cluster(**others), settings=settings)
    assert sentence in Page(render(sources)).text


def test_the_growth_of_a_cluster_that_settled_is_left_out() -> None:
    page = Page(render(make_sources(make_cluster(growth=[]))))
    assert "How it grew" not in page.text
    assert "Against chance" in page.text
    assert "How it grew" in Page(render(make_sources(make_cluster()))).text


def test_a_cluster_of_one_document() -> None:
    page = Page(render(make_sources(make_cluster(size=1, growth=[], bootstrap_scores=[5.0]))))
    assert "1 document about coffe" in page.text
    text = Page(render(make_sources(make_cluster(size=1)))).text
    assert "The cluster is the first document." in text


def test_what_the_figures_mean_is_said() -> None:
    text = Page(render(make_sources())).text
    assert "The support of a cluster measures how much more frequent documents" in text
    assert "Neither is the probability of a false alarm" in text
    text = Page(render(make_sources(make_cluster(**UNSEARCHED)))).text
    assert "not the probability of a false alarm" in text
    assert "does not correct for the cluster having been picked" in text
    assert "support" not in text


def test_the_overview_has_the_figures_of_clusters() -> None:
    text = Page(render(make_sources(make_cluster(), make_cluster(2, significant=False)))).text
    assert (
        "cluster documents support search p-value bootstrap p-value what it is about"
        " 1 3 30.5 0.25 0.02 coffe export quota brazil One candidate is not significant."
    ) in text
    text = Page(render(make_sources(make_cluster(**UNSEARCHED)))).text
    assert "cluster documents p-value what it is about 1 3 0.02 coffe export" in text


def test_failed_candidates_are_folded() -> None:
    failed = [make_cluster(n, significant=False, support=9.0 - n, growth=[]) for n in (2, 3, 4)]
    failed[2]["salient_words"] = []
    page = check_structure(render(make_sources(make_cluster(), *failed)))
    assert page.find("details") == [{"class": "reading fold"}] + [{"class": "candidate"}] * 3
    assert "Three candidates that failed None of these is significant." in page.text
    assert "3 documents support 7.0 coffe export quota brazil 1 of 3 searches in" in page.text
    assert "3 documents support 5.0 no words that are more frequent than usual" in page.text
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert [name for name in ids if name and name.startswith("cluster-")] == [
        f"cluster-{n}" for n in (1, 2, 3, 4)
    ]
    assert "candidates" in ids
    assert (
        "candidates" not in render(make_sources(make_cluster())).decode().partition("</style>")[2]
    )


def test_occurring_and_absent_words_stand_apart() -> None:
    (cluster,) = make_view(make_sources(make_cluster())).found
    assert [word.text for word in cluster.occurring.words] == WORDS[:-1]
    assert [word.text for word in cluster.absent.words] == WORDS[-1:]
    first, last = cluster.occurring.words[0], cluster.absent.words[0]
    assert (first.probability, first.shared, first.ratio) == ("0.050", "0.0010", "× 50")
    assert (last.probability, last.ratio) == ("1.0×10⁻⁹", "÷ 1.0×10⁶")
    assert 'class="more"' in first.bar
    assert 'class="less"' in last.bar


def test_documents_show_their_words_of_the_topic() -> None:
    many = [f"w{n}" for n in range(20)]
    cluster = make_cluster(words=[*many, "less", "absent"])
    sources = make_sources(cluster)
    counts = {100: {"w3": 1, "w7": 5, "w1": 1, "less": 9, "other": 9}, 101: dict.fromkeys(many, 1)}
    (view,) = make_view(replace(sources, counts=counts, links={101: "https://x/y"})).found
    first, second, third = view.documents
    assert first.words == (("w7", 5), ("w1", 1), ("w3", 1))
    assert (first.more_words, first.link, first.labels) == (0, None, ("coffee",))
    assert (len(second.words), second.more_words, second.link) == (12, 8, "https://x/y")
    assert third.words == ()


TOKENISER = Tokeniser(TextOptions())


def test_texts_are_shown_where_they_are_kept() -> None:
    texts = {100: "Coffee exporters met the Bank about coffee exports.", 102: ""}
    sources = make_sources(make_cluster(), texts=texts, tokeniser=TOKENISER)
    (view,) = make_view(sources).found
    first, second, third = (document.passage for document in view.documents)
    assert first is not None
    assert [(piece.text, piece.kind) for piece in first.excerpt if piece.kind] == [
        *(("Coffee", "more"), ("exporters", "more"), ("Bank", "less")),
        *(("coffee", "more"), ("exports", "more")),
    ]
    assert (first.whole, first.note, second) == ((), "", None)
    assert third is not None
    assert third.excerpt == ()
    # Words are told as people write them.
    assert [*view.about] == ["coffee", "exports", "quota", "brazil"]
    assert view.occurring.words[0].text == "coffee"
    page = check_structure(render(sources))
    assert "most frequent form" in page.text
    assert {"class": "less"} in page.find("mark")


def test_hostile_texts_are_text() -> None:
    text = "coffee\r\n" + "\n".join(HOSTILE)
    sources = make_sources(make_cluster(), texts={100: text}, tokeniser=TOKENISER)
    page = check_structure(render(sources))
    shown = "".join(page.texts)
    for hostile in HOSTILE[:6]:
        assert hostile in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", shown)


@given(st.text(max_size=400))
def test_no_text_of_a_document_changes_the_structure(text: str) -> None:
    def tags(text: str) -> list[str]:
        sources = make_sources(make_cluster(), texts={100: text}, tokeniser=TOKENISER)
        own = {"mark", "details", "summary", "div", "p", "bdi", "span"}
        return [tag for tag, _ in check_structure(render(sources)).elements if tag not in own]

    assert tags(text) == tags("plain")


def test_long_lists_are_cut_and_it_is_said() -> None:
    words = [f"word{n}" for n in range(MOST_WORDS + 50)]
    page = Page(render(make_sources(make_cluster(size=3412, words=words))))
    assert f"The first {MOST_DOCUMENTS} of 3,412 documents; all are in clusters.csv" in page.text
    assert f"The first {MOST_WORDS} of 349 words; all are in result.json" in page.text
    assert sum("data-value" in cell and cell["class"] == "c-share" for cell in page.find("td")) == (
        MOST_DOCUMENTS
    )


def test_evaluation() -> None:
    assert "Compared with the labels" not in Page(render(make_sources(make_cluster()))).text
    metrics = {"label": "coffee", "recall": 0.99, "precision": 0.875, "f1": 0.92, "auc": 0.85}
    sources = make_sources(make_cluster(evaluation=metrics), make_cluster(2))
    summary = {"group": {"f1": 0.84, "auc": 0.79}, "individual": {"f1": 0.9, "auc": 0.88}}
    text = Page(render(tell(sources, evaluation=summary))).text
    assert "1 coffee 0.99 0.88 0.92 0.85" in text
    assert "2 none – – – –" in text
    assert "mean of the significant clusters 0.84 0.79" in text


def test_the_null_model() -> None:
    sources = make_sources()
    text = Page(render(sources)).text
    assert "What is normal: 2 topics" in text
    assert "oil barrel no words of its own" in text
    assert b"BIC for 3 numbers of topics; the lowest, 110, is at 2." in render(sources)
    fixed = tell(sources, null_model={"order_search": [{"n_topics": 2, "bic": 110.25}]})
    assert "No other number of topics was tried." in Page(render(fixed)).text


def test_the_run_is_told() -> None:
    text = Page(render(make_sources())).text
    assert "atd-dask run reuters.yaml" in text
    assert "null_model. restarts 1" in text  # where the name may be parted
    assert "corpus/test. zarr 0123abcd" in text
    made = StageMade(started="2026-01-01T00:00:00", seconds=61.25, peak_memory_bytes=0)
    run = make_run_record(
        command=("atd-dask", "run", "my conf.yaml"),
        stages={"train": StageRecord(seconds=0.1, reused=True, made=made)},
        cluster=ClusterFacts("tcp://x:1", None, 1, 8, 0, 0),
        configuration={"seed": 7, "detection": {"settle": True, "max_size": None}},
    )
    text = Page(render(make_sources(run=run))).text
    for told in (
        "atd-dask run 'my conf.yaml'",
        "detection. settle yes",
        "started 2 January 2026, 00:00 train 61.2 s, reused in all 3.0 s peak memory 512 MiB",
        "cluster 1 worker, 8 threads",
        "python 3.11.7",
    ):
        assert told in text
    assert "max_size" not in text


def test_what_was_skipped_is_told() -> None:
    skipped = {"train": {}, "test": {"not JSON": 1_200, "its text has no words": 1}}
    page = Page(render(make_sources(skipped=skipped))).text
    assert "Skipped test: its text has no words 1 document test: not JSON 1,200 documents" in page
    assert "Skipped" not in Page(render(make_sources())).text


def test_the_same_sources_give_the_same_bytes() -> None:
    assert render(make_hostile()) == render(make_hostile())


def check_structure(content: bytes) -> Page:
    """Nothing on the page is loaded from elsewhere, and nothing runs but its own script."""
    page = Page(content)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == tags.count("style") == tags.count("title") == 1
    assert not {"img", "iframe", "link", "base", "object", "form", "image"} & set(tags)
    for _, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
    for link in page.find("a"):
        assert re.match(r"#|https?://|file:///|[\w./%-]+$", link["href"] or "")
    return page


def test_hostile_text_is_shown_and_never_markup() -> None:
    page = check_structure(render(make_hostile()))
    for text in HOSTILE[:6]:
        assert page.texts.count(text) >= 3
    assert "a�b�[31mc�d�e" in page.text or "a�b�[31mc d�e" in page.text
    assert "invoice�gnp.exe" in page.text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", page.text)


@given(st.text(max_size=30))
def test_no_text_changes_the_structure(text: str) -> None:
    def tags(text: str) -> list[str]:
        cluster = make_cluster(words=[text, "x", "y"])
        cluster["documents"][0] |= {"id": text, "labels": [text]}
        return [tag for tag, _ in check_structure(render(make_sources(cluster))).elements]

    assert tags(text) == tags("plain")


def test_the_policy_allows_the_own_style_and_script_alone() -> None:
    page = Page(render(make_hostile()))
    (policy,) = (
        meta["content"]
        for meta in page.find("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    hashes = {
        name: base64.b64encode(hashlib.sha256(page.raw[name].encode()).digest()).decode()
        for name in ("style", "script")
    }
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}';"
        f" script-src 'sha256-{hashes['script']}'; base-uri 'none'; form-action 'none'"
    )


def test_contrast() -> None:
    style = Page(render(make_sources())).raw["style"]
    light, dark = (
        dict(re.findall(r"--([a-z0-9-]+): #([0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    )

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colours in (light, dark):
        for ink, paper in (
            ("ink", "paper"),
            ("quiet", "paper"),
            ("accent", "paper"),
            ("ink", "accent-wash"),
            ("quiet", "accent-wash"),
            ("ink", "wash"),
        ):
            low, high = sorted((luminance(colours[ink]), luminance(colours[paper])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)
        for number in range(1, 7):  # marks, which need less than letters do
            for paper in ("paper", "wash"):
                ink = f"colour-{number}"
                low, high = sorted((luminance(colours[ink]), luminance(colours[paper])))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)


def test_copies_are_folded_and_escaped() -> None:
    hostile = "</summary><script>alert(1)</script>"
    cluster = make_cluster()
    row = cluster["documents"][0]["row"]
    copies = [{"row": 900 + n, "id": f"{hostile}{n}", "labels": []} for n in range(MOST_COPIES + 3)]
    cluster["documents"][0]["copies"] = copies
    cluster["n_copies"] = len(copies)
    sources = make_sources(cluster)
    group = {"size": 4, "cluster": 1, "words": [hostile, "tea"], "documents": copies[:4]}
    sources = tell(sources, copies=[group] * (MOST_GROUPS + 1))
    page = render(replace(sources, links={901: "https://example.org/901"})).decode()
    assert "<script>alert" not in page
    assert (
        f"{cluster['size']}\N{NO-BREAK SPACE}documents and 103\N{NO-BREAK SPACE}near-duplicates"
        in page
    )
    assert "<summary>103 near-duplicates</summary>" in page
    assert "The first 100; all are in <code>result.json</code>." in page
    assert "204 documents in 51 groups of near-duplicates" in page
    assert "The first 50 of 51 groups" in page
    assert 'href="https://example.org/901"' in page
    assert f"row {row}<" in page


def test_documents_come_before_the_evidence_and_words_last() -> None:
    text = Page(render(make_sources(make_cluster(), make_cluster(2, significant=False)))).text
    for heading in ("Why it is significant", "How it was tested"):
        _, start, text = text.partition(" Documents ")
        assert start
        places = [text.index(part) for part in (heading, "Against chance", "How it grew", "Words")]
        assert places == sorted(places)


def test_moments_are_for_people_and_for_machines() -> None:
    run = make_run_record(started="2026-11-17T09:14:54.399+00:00", cluster=None)
    page = Page(render(make_sources(run=run)))
    assert page.find("time") == [{"datetime": "2026-11-17T09:14:54.399+00:00"}]
    assert "started 17 November 2026, 09:14 UTC in all" in page.text
    page = check_structure(render(make_sources(run=replace(run, started=HOSTILE[1]))))
    assert HOSTILE[1] in page.texts


def test_what_the_searches_found_is_folded() -> None:
    sources = make_sources(make_cluster())
    found = [make_search(1.5, 1200), make_search(12.0), make_search(0.0, 0)]
    page = check_structure(render(tell(sources, references=found)))
    assert "found a support of at most 12.0, and one time no candidate at all. If a" in page.text
    assert {"href": "#searches"} in page.find("a")
    _, _, text = page.text.partition("The best candidate of each search")
    rows = [
        "search 2, support 12.0 3 coffe export quota normal 0 train , normal 1 train , normal 2",
        "search 1, support 1.5 1,200 coffe export quota normal 0 train",
        ", and 1,197 more search 3, support 0.0 0 no candidate",
    ]
    places = [text.index(row) for row in rows]
    assert places == sorted(places)


def test_searches_of_which_only_the_support_is_known_are_left_out() -> None:
    sources = make_sources(make_cluster())
    for references in ([], [make_search(2.0, None)]):
        page = Page(render(tell(sources, references=references)))
        assert "The best candidate of each search" not in page.text
        assert {"href": "#searches"} not in page.find("a")
    some = tell(sources, references=[make_search(2.0, None), make_search(1.0)])
    assert "search 1, support 2.0 – –" in Page(render(some)).text
