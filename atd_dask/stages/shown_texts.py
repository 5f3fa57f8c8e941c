"""Reads the texts that a result shows, and how words are written in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atd_dask.result_types import BatchDocument, MemberDocument, Result
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.locations import Location
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.texts import TextStore
from atd_dask.text.options import read_text
from atd_dask.text.passages import find_forms, join_excerpt, mark_words
from atd_dask.text.words import Tokeniser

MOST_TEXTS = 200  # of a cluster
MOST_GROUPS = 50  # of copies

Documents = Sequence[MemberDocument | BatchDocument]


def read_shown_texts(output: str, result: Result) -> dict[int, str]:
    """Read the texts that a result shows, by row, if texts are kept: those of the first documents
    of each cluster, and one for each group of near-duplicates."""
    shown: list[MemberDocument | BatchDocument] = []
    for cluster in result.clusters:
        shown += cluster.documents[:MOST_TEXTS]
    shown += [group.documents[0] for group in result.copy_groups[:MOST_GROUPS]]
    of_sweep = any(document.sweep is not None for document in shown)
    return (read_texts_of_sweeps if of_sweep else read_texts)(output, shown)


@dataclass(frozen=True)
class Wording:
    """The most frequent form of each counted word in the texts of a result, and a passage of each
    row."""

    forms: Mapping[str, str]
    passages: Mapping[int, str]


def read_wording(output: str, result: Result, test: CorpusStore) -> Wording:
    """Return the wording of the texts that a result shows; empty if no texts are kept."""
    texts = read_shown_texts(output, result)
    tokeniser = find_tokeniser(test) if texts else None
    if tokeniser is None:
        return Wording({}, {})
    passages = {}
    for cluster in result.clusters:
        kinds = {word.word: "more" for word in cluster.raised_words}
        for row in cluster.rows:
            if (text := texts.get(row)) is not None:
                passage = mark_words(text, tokeniser.locate(text), kinds)
                passages[row] = join_excerpt(passage)
    return Wording(find_forms(texts.values(), tokeniser), passages)


def read_texts(output: str, documents: Documents) -> dict[int, str]:
    """Read the texts of some documents by row, if texts are kept; only the chunks needed are
    read."""
    store = open_texts(output, "test")
    rows = {document.row for document in documents}
    return {} if store is None else {row: store.read(row) for row in sorted(rows)}


def read_texts_of_sweeps(output: str, documents: Documents) -> dict[int, str]:
    """Do the same for the folder of a sweep; each sweep has the texts of its new documents."""
    texts: dict[int, str] = {}
    for sweep in sorted({document.sweep for document in documents if document.sweep is not None}):
        layout = RunLayout(output).neighbour(sweep)
        store = open_texts(layout.folder, "new")
        if store is not None:
            ids = CorpusStore.open(layout.corpus("new")).ids()
            places = {id: row for row, id in enumerate(ids)}
            mine = [document for document in documents if document.sweep == sweep]
            texts |= {document.row: store.read(places[document.id]) for document in mine}
    return texts


def open_texts(output: str, part: str) -> TextStore | None:
    """Open the texts of a part; return None if there are none, or only those of other documents."""
    layout = RunLayout(output)
    path = layout.texts(part)
    if not Location.of(path).names():
        return None
    store = TextStore.open(path)
    corpus = CorpusStore.open(layout.corpus(part))
    return store if store.corpus == corpus.digest else None


def find_tokeniser(store: CorpusStore) -> Tokeniser | None:
    """Return the tokeniser that counted the words of a corpus, or None."""
    told = store.attributes.get("text")
    return None if told is None else Tokeniser(read_text(told))
