"""Results and sources for the tests of pages, and a parser of what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from atd_dask.report import Sources
from atd_dask.report.view import make_view
from tests.results import make_result

HOSTILE = [
    "<script>window.ran = 1</script>",
    '"><img src=x onerror="window.ran = 1">',
    "' onmouseover='window.ran = 1",
    "</style></title></script><script>window.ran = 1</script>",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "a\x00b\x1b[31mc\x85d\ud800e",
    "invoice\u202egnp.exe",
]
WORDS = ["coffe", "export", "quota", "brazil", "bank", "rate"]


def make_cluster(
    index: int = 1,
    significant: bool = True,
    size: int = 3,
    words: list[str] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """An entry of `clusters`; all words but the last two are more likely than usual, and the last
    does not occur."""
    words = WORDS if words is None else words
    first = 100 * index
    return {
        "index": index,
        "significant": significant,
        "support": 30.5,
        "search_p_value": 0.25,
        "p_value": 0.02,
        "replicates": 49,
        "size": size,
        "score": 80.0,
        "bic_gain": 41.0,
        "n_salient": len(words),
        "n_salient_occurring": max(len(words) - 1, 0),
        "documents": [
            {
                "row": first + place,
                "id": f"document {first + place}",
                "share": round(1 / (place + 1), 6),
                "labels": ["coffee"] if place % 2 == 0 else [],
            }
            for place in range(size)
        ],
        "salient_words": [
            {
                "word": word,
                "probability": 1e-9 if place >= len(words) - 2 else 0.05 / (place + 1),
                "shared_probability": 0.001,
                "occurring": place < len(words) - 1,
            }
            for place, word in enumerate(words)
        ],
        "growth": [
            {
                "row": first + place,
                "share": 0.5 / place,
                "score": 10.0 * place,
                "bic_gain": 5.0 * place - 8,
                "failed": place > size,
            }
            for place in range(1, size + 2)
        ],
        "bootstrap_scores": [float(score) for score in range(49)],
        "reference_support": [0.0, 1.5, 12.0],
        **others,
    }


# A cluster that the bootstrap alone has judged.
UNSEARCHED = {"support": None, "search_p_value": None, "reference_support": None}


def make_sources(*clusters: dict[str, Any], **others: Any) -> Sources:
    result = make_result(
        name="reuters",
        corpus={
            part: {"documents": 1700, "tokens": 98765, "terms": 321}
            for part in ("train", "validation", "test")
        },
        null_model={
            "n_topics": 2,
            "bic": 110.25,
            "order_search": [
                {"n_topics": n, "bic": bic} for n, bic in ((4, 130.0), (3, 120.5), (2, 110.25))
            ],
            "topics_per_document": 1.25,
            "salient_words_per_topic": 436.2,
        },
        clusters=clusters,
    )
    rows = [document["row"] for cluster in clusters for document in cluster["documents"]]
    words = {word["word"]: 2 for cluster in clusters for word in cluster["salient_words"]}
    sources = Sources(
        result=result,
        run=None,
        counts={row: words | {"other": 9} for row in rows},
        topics=[["oil", "barrel"], []],
        settings={"seed": 7, "null_model": {"restarts": 1}},
        digests={"corpus/test.zarr": "0123abcd"},
    )
    return replace(sources, **others)


def tell(sources: Sources, **told: Any) -> Sources:
    """The same sources, with a result that also says something else."""
    return replace(sources, result=make_result(**sources.result.to_json() | told))


def make_search(support: float, size: int | None = 3, **others: Any) -> dict[str, Any]:
    """An entry of `references`."""
    documents = [{"part": "train", "row": n, "id": f"normal {n}"} for n in range(min(size or 0, 3))]
    words = WORDS[:3] if size else []
    return {"support": support, "size": size, "words": words, "documents": documents, **others}


def make_news(kind: str, words: Sequence[str], ids: Sequence[str]) -> dict[str, Any]:
    """A cluster as a sweep reports it."""
    documents = [{"id": id, "sweep": 4} for id in ids]
    return {"cluster": 3, "kind": kind, "size": 12, "words": words, "documents": documents}


def make_hostile() -> Sources:
    """Hostile text wherever a run can contain any."""
    cluster = make_cluster(words=HOSTILE, size=len(HOSTILE))
    for document, text in zip(cluster["documents"], HOSTILE, strict=True):
        document |= {"id": text, "labels": [text]}
    cluster["evaluation"] = dict.fromkeys(("recall", "precision", "f1", "auc"), 0.5)
    cluster["evaluation"]["label"] = HOSTILE[0]
    sources = make_sources(
        cluster,
        topics=[HOSTILE],
        digests={HOSTILE[0]: HOSTILE[1]},
        skipped={HOSTILE[0]: {HOSTILE[1]: 1}},
    )
    named = [{"part": "train", "row": n, "id": text} for n, text in enumerate(HOSTILE)]
    sources = tell(
        sources,
        name=HOSTILE[3],
        evaluation={},
        references=[make_search(1.5, 20, words=HOSTILE, documents=named)],
        sweep={"clusters": [make_news("continuing", HOSTILE, HOSTILE)]},
    )
    return replace(sources, settings={HOSTILE[0]: {HOSTILE[1]: HOSTILE}})


class Page(HTMLParser):
    """A page as a browser parses it: its elements, and its text without style and script."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.raw: dict[str, str] = {}
        self._tag = ""
        self.feed(content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._tag = tag

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag in ("style", "script"):
            self.raw[self._tag] = data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def say(sources: Sources) -> str:
    verdict = "".join(phrase.text for phrase in make_view(sources).verdict)
    return verdict.replace("\N{NO-BREAK SPACE}", " ")
