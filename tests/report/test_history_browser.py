"""The page about all sweeps in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atd_dask.report.history import render_history
from atd_dask.result_types import SweepLine
from tests.report.pages import HOSTILE
from tests.report.test_history import make_hostile_lines, make_lines
from tests.report.test_page_browser import (
    AWKWARD,
    Shown,
    browser,
    pytestmark,
)

__all__ = ["browser", "pytestmark"]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Any:
    def open_page(name: str, lines: list[SweepLine], width: int = 1280) -> Shown:
        path = tmp_path / "index.html"
        path.write_bytes(render_history(name, lines))
        shown = Shown(browser, path.as_uri())
        shown.resize(width)
        browser.get(shown.url)
        return shown

    for log in ("browser", "performance"):
        browser.get_log(log)
    return open_page


def test_it_shows_sweeps_and_sorts_them(show: Any) -> None:
    page = show("wire", make_lines())
    assert page.see("#sweeps tbody th") == ["5", "4", "3", "2", "1"]
    assert page.see("#clusters tbody .overview-words") == ["flood", "cholera"]
    page.find("#sweeps thead th:first-child button").click()
    page.find("#sweeps thead th:first-child button").click()
    assert page.see("#sweeps tbody th") == ["1", "2", "3", "4", "5"]
    links = page.run("return [...document.querySelectorAll('tbody a')].map(a => a.pathname)")
    folder = page.url.removeprefix("file://").removesuffix("/index.html")
    assert set(links) == {f"{folder}/sweeps/{n:04d}/report.html" for n in range(1, 6)}
    assert len(page.see("#course figure")) == 4
    assert page.browser.get_log("browser") == []


def test_nothing_runs_and_nothing_is_fetched(show: Any) -> None:
    page = show(HOSTILE[0], make_hostile_lines())
    assert page.browser.get_log("browser") == []
    assert page.list_requests() == {page.url}
    assert page.run("return window.ran") is None
    assert page.run("return document.scripts.length") == 1
    for text in HOSTILE[:6]:
        assert text in page.see("#clusters bdi")


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_no_width_scrolls_sideways(show: Any, width: int) -> None:
    page = show(AWKWARD[0], make_lines(tuple(AWKWARD)), width)
    assert page.run("return document.documentElement.scrollWidth") <= width
