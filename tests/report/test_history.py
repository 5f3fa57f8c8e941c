"""The page about all sweeps: what it says, and that no text in it is interpreted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from atd_dask.report.history import make_view, render_history
from atd_dask.result_types import SweepLine
from tests.report.pages import HOSTILE
from tests.results import make_line


def make_news(
    number: int, kind: str, added: int, size: int, words: Sequence[str]
) -> dict[str, Any]:
    return {
        "cluster": number,
        "kind": kind,
        "added": added,
        "size": size,
        "p_value": 0.001,
        "words": words,
    }


def make_lines(words: tuple[str, ...] = ()) -> list[SweepLine]:
    """Lines whose clusters are about `words`, or about one word each."""
    found = {"size": 10, "p_value": 0.001, "significant": True}
    return [
        make_line(1),
        make_line(
            2, clusters=[make_news(1, "new", 10, 10, words or ["cholera"])], candidates=[found]
        ),
        make_line(3, clusters=[make_news(1, "continuing", 12, 22, words or ["cholera"])]),
        make_line(4, trained="it has been used for 3 sweeps"),
        make_line(5, clusters=[make_news(2, "new", 7, 7, words or ["flood"])], candidates=[found]),
    ]


def make_hostile_lines() -> list[SweepLine]:
    news = [make_news(n, "new", 1, 1, [text]) for n, text in enumerate(HOSTILE, 1)]
    return [make_line(1, clusters=news, started=HOSTILE[0]), make_line(2, trained=HOSTILE[1])]


def test_the_view() -> None:
    view = make_view("wire", make_lines())
    assert view.verdict.replace("\N{NO-BREAK SPACE}", " ") == (
        "5 sweeps of 1,000 documents found two clusters; the most recent update was in sweep 5."
    )
    assert [(c.number, c.first, c.last, c.size) for c in view.clusters] == [
        (2, 5, 5, 7),
        (1, 2, 3, 22),
    ]
    assert view.clusters[1].report == "sweeps/0002/report.html"
    assert [row.number for row in view.sweeps] == [5, 4, 3, 2, 1]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in view.sweeps[2].found] == [
        "cluster 1, continues: 12 documents"
    ]
    assert view.sweeps[1].model == "trained: it has been used for 3 sweeps"
    assert len(view.charts) == 4
    assert "the null model was retrained 1 times" in view.charts[2]


def test_a_first_sweep_without_a_word() -> None:
    line = make_line(1, log_likelihood=None, candidates=[], documents=1, tested=0)
    view = make_view("wire", [line])
    assert view.verdict.replace("\N{NO-BREAK SPACE}", " ") == (
        "1 sweep of 1 document found no cluster."
    )
    assert view.charts[3] == ""
    assert b"</html>" in render_history("wire", [line])


def test_the_same_lines_give_the_same_page() -> None:
    assert render_history("wire", make_lines()) == render_history("wire", make_lines())


def test_hostile_text_is_escaped() -> None:
    page = render_history(HOSTILE[0], make_hostile_lines()).decode()
    assert page.count("<script>") == 1
    assert page.count("<style>") == 1
    assert not re.search(r"<(img|svg/|iframe|a href=\"javascript)", page)
    assert "Content-Security-Policy" in page


def test_moments_are_for_people_and_sorted_as_moments() -> None:
    page = render_history("wire", make_lines()).decode()
    assert (
        '<td data-value="2026-01-02T03:00:00+00:00"><bdi><time'
        ' datetime="2026-01-02T03:00:00+00:00">2 January 2026, 03:00 UTC</time></bdi></td>'
    ) in page


def test_drift_and_what_was_promised() -> None:
    trend = {"size": 9, "p_value": 0.001, "first": 2, "evidence": 3.0, "written": ["app"]}
    early = {**trend, "words": ["app"], "counts": [0, 1], "documents": [20, 20]}
    late = {**trend, "words": ["app"], "counts": [0, 1, 4], "documents": [20, 20, 30]}
    daily = {**late, "words": ["tax"], "first": 20000, "by_day": True}
    lines = [
        make_line(1),
        make_line(2, level=0.005, chance_alarms=0.01, drifts=[early]),
        make_line(3, level=0.005, chance_alarms=0.015, drifts=[late, daily]),
    ]
    view = make_view("wire", lines, "at most 2 in a year of 365 sweeps")
    assert view.promise.replace("\N{NO-BREAK SPACE}", " ") == (
        "Accepted false alarms: at most 2 in a year of 365 sweeps. On average, chance alone"
        " accounts for at most 0.01 of 0 alarms."
    )
    day, sweep = view.drifts
    assert sweep.trend.replace("\N{NO-BREAK SPACE}", " ") == (
        "from 1 of 20 documents in sweep 3 to 4 of 30 in sweep 4"
    )
    assert day.trend.endswith("on 2024-10-05 to 4 of 30 on 2024-10-06")
    assert "at the end 13.3%" in sweep.chart
    assert not view.sweeps[0].alarm
    page = render_history("wire", lines, "at most 2").decode()
    assert 'class="level"' in page
    assert 'id="drift"' in page
