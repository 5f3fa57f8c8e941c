"""The page in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atd_dask.report import Sources, render
from atd_dask.result_types import BatchScores
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser
from tests.report.pages import HOSTILE, make_cluster, make_hostile, make_search, make_sources, tell

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="needs Chromium and its driver (on Debian the packages chromium and chromium-driver)",
)
FLAGS = """
--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync
"""
# Long words, as one and as many, and text that runs from right to left.
AWKWARD = ["x" * 300, "Донаудампфшиффартсгезельшафт" * 6, "שלום עולם", "مرحبا", "zzz", "absent"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        made.get("about:blank")
        yield made
    finally:
        made.quit()


class Shown:
    """A page in the browser."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser = browser
        self.url = url

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def see(self, selector: str) -> list[str]:
        """The texts of the elements that are visible."""
        texts: list[str] = self.run(
            """return [...document.querySelectorAll(arguments[0])]
                .filter(element => element.checkVisibility({visibilityProperty: true}))
                .map(element => element.innerText.trim())""",
            selector,
        )
        return texts

    def resize(self, width: int) -> None:
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def do(self, command: str, **options: Any) -> Any:
        return self.browser.execute_cdp_cmd(command, options)

    def list_requests(self) -> set[str]:
        """The URLs that the browser has requested."""
        events = [json.loads(entry["message"]) for entry in self.browser.get_log("performance")]
        return {
            event["message"]["params"]["request"]["url"]
            for event in events
            if event["message"]["method"] == "Network.requestWillBeSent"
        }


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    def open_page(sources: Sources, width: int = 1280, scripts: bool = True, **media: Any) -> Shown:
        path = tmp_path / "report.html"
        path.write_bytes(render(sources))
        shown = Shown(browser, path.as_uri())
        shown.resize(width)
        shown.do("Emulation.setScriptExecutionDisabled", value=not scripts)
        shown.do("Emulation.setEmulatedMedia", **media)
        browser.get(shown.url)
        return shown

    for log in ("browser", "performance"):
        browser.get_log(log)
    yield open_page
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.get("about:blank")


def make_scores(n_docs: int) -> BatchScores:
    """Scores of documents, the last of which are in a cluster."""
    inside = [n >= 100 for n in range(n_docs)]
    return BatchScores(
        format="",
        result="",
        usual=(5.5, 6.5, 7.5),
        row=tuple(range(n_docs)),
        surprise=tuple(
            8.0 + n / n_docs if here else 6.0 + n / n_docs for n, here in enumerate(inside)
        ),
        novelty=(None,) * n_docs,
        nearest=(None,) * n_docs,
        log_odds=tuple(40.0 + n if here else -6.0 for n, here in enumerate(inside)),
    )


def make_long(size: int = 60) -> Sources:
    words = [f"word{n}" for n in range(40)]
    return make_sources(make_cluster(size=size, words=words), make_cluster(2, significant=False))


def test_nothing_runs_and_nothing_is_fetched(show: Any) -> None:
    page = show(make_hostile())
    assert page.browser.get_log("browser") == []
    assert page.list_requests() == {page.url}
    assert page.run("return window.ran") is None
    assert page.run("return document.scripts.length") == 1
    assert [
        page.run("return document.querySelectorAll(arguments[0]).length", tag)
        for tag in ("img", "[onerror]", "[onmouseover]")
    ] == [0, 0, 0]
    for text in HOSTILE[:6]:
        assert text in page.see(".documents .c-id bdi")


def test_the_policy_holds(show: Any) -> None:
    page = show(make_sources())
    blocked = page.browser.execute_async_script("""
        const done = arguments[0], seen = [];
        document.addEventListener("securitypolicyviolation", event => {
            seen.push(event.effectiveDirective);
            if (seen.length === 3) done(seen.sort());
        });
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/x.png";
        const script = document.createElement("script");
        script.textContent = "window.ran = 1";
        const style = document.createElement("style");
        style.textContent = "body { display: none }";
        document.body.append(image, script, style);
    """)
    assert blocked == ["img-src", "script-src-elem", "style-src-elem"]
    assert page.run("return window.ran") is None


def test_sorting(show: Any) -> None:
    page = show(make_long())
    numbers = [f"document {100 + n}" for n in range(60)]
    assert page.see("#cluster-1 .documents tbody .c-id bdi") == numbers[:10]
    head = page.find("#cluster-1 .documents thead .c-place")
    button = head.find_element("tag name", "button")
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert page.see("#cluster-1 .documents tbody .c-id bdi") == numbers[::-1][:10]
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.see("#cluster-1 .documents tbody .c-id bdi") == numbers[:10]
    page.find("#cluster-1 .documents thead .c-id button").click()
    assert head.get_attribute("aria-sort") is None
    page.find("#cluster-1 .documents thead .c-share button").click()
    assert page.see("#cluster-1 .documents tbody .share")[:3] == ["100%", "50%", "33%"]
    page.find("#cluster-1 .words thead th button").click()
    assert page.see("#cluster-1 .words tbody th")[:3] == ["word0", "word1", "word2"]
    assert page.browser.get_log("browser") == []


def test_filtering(show: Any) -> None:
    page = show(make_long())
    box = page.find("#cluster-1 .filter input")
    box.send_keys("14 Document")
    assert page.see("#cluster-1 .documents tbody .c-id bdi") == [
        f"document {n}" for n in (114, *range(140, 150))
    ]
    assert page.see("#cluster-1 .filter output") == ["11 of 60"]
    box.clear()
    box.send_keys("coffee")
    assert len(page.see("#cluster-1 .documents tbody .c-id bdi")) == 30
    box.clear()
    box.send_keys("<none>")
    assert page.see("#cluster-1 .documents tbody .c-id bdi") == []
    assert page.see("#cluster-2 .documents tbody .c-id bdi") == []


@pytest.mark.parametrize("scripts", [True, False])
def test_failed_candidates_open(show: Any, scripts: bool) -> None:
    page = show(make_long(), scripts=scripts)
    (told,) = page.see("#candidates summary")
    assert " ".join(told.split()) == (
        "3 documents support 30.5 coffe export quota brazil"
        " Its search p-value, 0.25, is above the level."
    )
    assert page.see("#cluster-2 .documents tbody .c-id bdi") == []
    page.find("#candidates summary").click()
    assert len(page.see("#cluster-2 .documents tbody .c-id bdi")) == 3
    page.browser.get("about:blank")
    page.browser.get(f"{page.url}#cluster-2")
    assert len(page.see("#cluster-2 .documents tbody .c-id bdi")) == 3


def test_texts_open_and_are_searched(show: Any) -> None:
    sources = make_sources(make_cluster(size=3))
    texts = {100: "coffee " + "filler " * 300 + "needle", 101: "Bank of coffee"}
    page = show(replace(sources, texts=texts, tokeniser=Tokeniser(TextOptions())))
    assert page.see(".documents .whole") == ["Bank of coffee"]
    assert page.see(".documents .excerpt")[0].startswith("coffee filler")
    assert page.see(".documents mark.more") == ["coffee", "coffee"]
    assert page.see(".documents mark.less") == ["Bank"]
    summary = page.find(".documents summary")
    summary.send_keys(Keys.ENTER)
    assert page.see(".documents .excerpt") == []
    assert page.see(".documents .whole")[0].endswith("filler needle")
    summary.click()
    assert len(page.see(".documents .whole")) == 1
    page.find("#cluster-1 .filter input").send_keys("needle")
    assert page.see("#cluster-1 .documents tbody .c-id bdi") == ["document 100"]
    page = show(replace(sources, texts=texts, tokeniser=Tokeniser(TextOptions())), media="print")
    assert page.see(".documents .switch, .documents details .whole") == []


def test_hostile_texts_are_shown_and_never_run(show: Any) -> None:
    text = "coffee " + "\n".join(HOSTILE * 2)
    sources = make_sources(make_cluster(size=1), texts={100: text})
    page = show(replace(sources, tokeniser=Tokeniser(TextOptions())))
    page.find(".documents summary").click()
    assert page.run("return [window.ran, document.scripts.length, document.images.length]") == [
        *(None, 1, 0)
    ]
    (shown,) = page.see(".documents .whole")
    for hostile in HOSTILE[:6]:
        assert hostile in shown
    assert "invoice�gnp.exe" in shown
    assert page.browser.get_log("browser") == []


def test_long_tables_open(show: Any) -> None:
    page = show(make_long())
    assert len(page.see("#cluster-1 .documents tbody tr")) == 10
    button = page.find("#cluster-1 .documents + .toggle")
    assert button.text == "Show all 60 documents"
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-expanded") == "true"
    assert len(page.see("#cluster-1 .documents tbody tr")) == 60


def test_without_scripts_everything_is_there(show: Any) -> None:
    page = show(make_long(), scripts=False)
    assert page.see("button, input") == []
    assert len(page.see("#cluster-1 .documents tbody tr")) == 60
    assert len(page.see("#cluster-1 .words tbody tr")) == 40


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("scripts", [True, False])
def test_no_width_scrolls_sideways(show: Any, width: int, scripts: bool) -> None:
    cluster = make_cluster(words=AWKWARD, size=len(AWKWARD))
    for document, text in zip(cluster["documents"], AWKWARD, strict=True):
        document |= {"id": text, "labels": [text]}
    texts = {
        document["row"]: f"{text} {text} " * 20
        for document, text in zip(cluster["documents"], AWKWARD, strict=True)
    }
    metrics = dict.fromkeys(("recall", "precision", "f1", "auc"), 0.5)
    cluster["evaluation"] = {"label": AWKWARD[0], **metrics}
    sources = make_sources(cluster, topics=[AWKWARD], settings={AWKWARD[0]: AWKWARD[0]})
    named = [{"part": "validation", "row": n, "id": text} for n, text in enumerate(AWKWARD)]
    references = [make_search(9.5, 1234, words=AWKWARD, documents=named)]
    sources = tell(sources, name=AWKWARD[0], evaluation={}, references=references)
    sources = replace(sources, scores=make_scores(120))
    sources = replace(sources, texts=texts, tokeniser=Tokeniser(TextOptions(stemmer="none")))
    page = show(sources, width, scripts)
    opened = "document.querySelectorAll('details').forEach(each => each.open = true)"
    page.do("Runtime.evaluate", expression=opened)
    outside = page.run(
        """
        return [...document.querySelectorAll("main *")].filter(element => {
            const box = element.getBoundingClientRect();
            return box.width && box.right > arguments[0] + 1 && !element.closest(".sr, .scroll");
        }).map(element => element.outerHTML.slice(0, 80));
    """,
        width,
    )
    assert outside == []
    assert page.run("return document.documentElement.scrollWidth") <= width


def test_print(show: Any) -> None:
    page = show(make_long(), media="print")
    assert len(page.see("#cluster-1 .documents tbody tr")) == 60
    assert len(page.see("#cluster-1 .words tbody tr")) == 40
    assert page.see(".toggle, .filter") == []
    assert page.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    assert page.do("Page.printToPDF", printBackground=True)["data"]


def test_dark_mode(show: Any) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page = show(make_long(), features=[{"name": "prefers-color-scheme", "value": scheme}])
        colours.append(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(253, 252, 250)", "rgb(23, 22, 20)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_picture_of_the_batch(show: Any, scheme: str, width: int) -> None:
    """Its words do not overlap, it is visible without scripts, and marks differ from what is behind
    them."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    sources = replace(make_sources(make_cluster(size=20)), scores=make_scores(120))
    page = show(sources, width, scripts=False, features=features)
    boxes = page.run("""
        return [...document.querySelectorAll("#batch text")].map(element => {
            const box = element.getBoundingClientRect();
            return [box.left, box.top, box.right, box.bottom];
        });
    """)
    assert len(boxes) > 8
    for place, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= width
        for other in boxes[place + 1 :]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, (place, other)
    mark, paper = page.run("""
        return [getComputedStyle(document.querySelector("#batch .mark")).fill,
            getComputedStyle(document.body).backgroundColor];
    """)
    assert mark != paper
    assert page.see("#batch .keys li")[0].startswith("cluster 1 coffe")


def test_text_from_right_to_left_stays_in_its_place(show: Any) -> None:
    cluster = make_cluster(words=["שלום", "x", "y"])
    cluster["documents"][0] |= {"id": "שלום עולם 12", "labels": ["تجربة"]}
    page = show(make_sources(cluster))
    first, second = page.run("""
        return [...document.querySelectorAll(".documents tbody .c-id bdi")].slice(0, 2)
            .map(element => element.getBoundingClientRect().left);
    """)
    assert first == second
    assert (
        page.run("return getComputedStyle(document.querySelector('.c-id bdi')).direction") == "rtl"
    )
