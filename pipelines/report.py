"""The result and the stores beside it become a page for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from atd_dask.errors import InputError
from atd_dask.evaluation.results import FORMAT, is_raised
from atd_dask.pipelines.ingest import texts_path
from atd_dask.report import Sources, render
from atd_dask.report.sources import (
    MOST_COPIES,
    MOST_DOCUMENTS,
    MOST_GROUPS,
    MOST_TEXTS,
)
from atd_dask.stages.score_file import read_scores
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.files import join, read_file, write_file
from atd_dask.storage.locations import Place
from atd_dask.storage.models import NullModel, read_digest, read_model
from atd_dask.storage.runs import RESULT, read_result, read_run
from atd_dask.storage.texts import TextStore
from atd_dask.sweeps.state import sweep_name
from atd_dask.text.options import read_text
from atd_dask.text.passages import find_forms, join_excerpt, mark_words
from atd_dask.text.words import Tokeniser

TOPIC_WORDS = 10


def write_report(output: str) -> str:
    """Writes report.html of the run in the folder `output`; gives its path."""
    result = _read_result(output)
    run = read_run(output)
    test = CorpusStore.open(join(output, "corpus", "test.zarr"))
    model_url = join(output, "null_model.zarr")
    model = read_model(model_url)
    _check_origin(output, result, test, model)
    listed = [cluster["documents"][:MOST_DOCUMENTS] for cluster in result["clusters"]]
    documents = [document for some in listed for document in some]
    groups = [group["documents"][:MOST_COPIES] for group in result.get("copies", ())[:MOST_GROUPS]]
    copies = [copy for d in documents for copy in d.get("copies", ())[:MOST_COPIES]]
    linked = [*documents, *copies, *(document for group in groups for document in group)]
    texts = read_shown_texts(output, result)
    folder = _find_folder(run)
    links = {d["row"]: find_original(d["id"], folder, output) for d in linked}
    sources = Sources(
        result=result,
        run=run,
        counts=count_words(test, [d["row"] for d in documents], unseen=True),
        topics=[model.top_words(topic, TOPIC_WORDS) for topic in range(model.table.n_topics)],
        settings=model.settings,
        digests={
            "corpus/train.zarr": model.corpus,
            "corpus/test.zarr": test.digest,
            "null_model.zarr": read_digest(model_url),
        },
        texts=texts,
        tokeniser=find_tokeniser(test) if texts else None,  # slow to load
        links={row: link for row, link in links.items() if link is not None},
        scores=read_scores(output),
    )
    path = join(output, "report.html")
    write_file(path, render(sources))
    return path


def _read_result(output: str) -> dict[str, Any]:
    result = read_result(output)
    path = join(output, RESULT)
    if result is None and read_file(path) is None:
        raise InputError(
            f"a report is made from the output folder of a run, but {output} has no {RESULT}: name"
            " the folder that the run wrote to"
        )
    if result is None or result["format"] != FORMAT:
        raise InputError(f"a report needs a result of the format {FORMAT}, but {path} is none")
    if any("support" not in cluster for cluster in result["clusters"]):
        raise InputError(
            f"the clusters of a result must have their support, those of {path} were found by an"
            " earlier version: run the job again"
        )
    return result


def _check_origin(
    output: str, result: Mapping[str, Any], test: CorpusStore, model: NullModel
) -> None:
    told = result["null_model"]
    if result["corpus"]["test"] != describe_part(test) or (told["n_topics"], told["bic"]) != (
        model.record.n_topics,
        model.record.bic,
    ):
        raise InputError(
            f"{join(output, RESULT)} must come from the stores beside it, but they were"
            " made anew: run the job again"
        )


def describe_part(store: CorpusStore) -> dict[str, int]:
    """What a result says of a part of the corpus."""
    sizes = {"documents": store.n_docs, "tokens": store.n_tokens, "terms": store.n_words}
    return sizes if store.n_copies is None else sizes | {"copies": store.n_copies}


def count_words(
    store: CorpusStore, rows: Iterable[int], unseen: bool = False
) -> dict[int, dict[str, int]]:
    """The words of some documents, with `unseen` also those outside the vocabulary; of the store,
    the blocks that have them are read."""
    wanted = np.array(sorted(set(rows)), dtype=np.int64)
    owners = np.searchsorted(store.block_starts, wanted, side="right") - 1
    counts: dict[int, dict[str, int]] = {}
    for index in np.unique(owners).tolist():
        block = store.block(index)
        for row in wanted[owners == index].tolist():
            first, last = block.indptr[row - block.start : row - block.start + 2]
            pairs = zip(block.terms[first:last], block.counts[first:last], strict=True)
            counts[row] = {store.vocabulary[term]: int(count) for term, count in pairs}
    if unseen and counts:
        beside = store.unseen()
        for row, words in counts.items():
            of_row = beside[row]
            pairs = zip(of_row.indices, of_row.data, strict=True)
            words |= {store.unseen_words[term]: int(count) for term, count in pairs}
    return counts


def read_shown_texts(output: str, result: Mapping[str, Any]) -> dict[int, str]:
    """The texts of a result that people get to see, by their rows, where they are kept: of the
    first documents of each cluster, and of one for each group of copies."""
    shown = [d for cluster in result["clusters"] for d in cluster["documents"][:MOST_TEXTS]]
    shown += [group["documents"][0] for group in result.get("copies", ())[:MOST_GROUPS]]
    of_sweep = any("sweep" in document for document in shown)
    return (read_texts_of_sweeps if of_sweep else read_texts)(output, shown)


@dataclass(frozen=True)
class Wording:
    """What the texts of a result say: of each word that was counted its usual form, and of each
    row a passage."""

    forms: Mapping[str, str]
    passages: Mapping[int, str]


def read_wording(output: str, result: Mapping[str, Any], test: CorpusStore) -> Wording:
    """The wording of the texts that people get to see; empty where no texts are kept."""
    texts = read_shown_texts(output, result)
    tokeniser = find_tokeniser(test) if texts else None
    if tokeniser is None:
        return Wording({}, {})
    passages = {}
    for cluster in result["clusters"]:
        kinds = {word["word"]: "more" for word in cluster["salient_words"] if is_raised(word)}
        for document in cluster["documents"]:
            if (text := texts.get(document["row"])) is not None:
                passage = mark_words(text, tokeniser.locate(text), kinds)
                passages[document["row"]] = join_excerpt(passage)
    return Wording(find_forms(texts.values(), tokeniser), passages)


Documents = Sequence[Mapping[str, Any]]  # as a result has them


def read_texts(output: str, documents: Documents) -> dict[int, str]:
    """The texts of some documents by their rows, where they are kept; of the store, the chunks that
    have them are read."""
    store = open_texts(output, "test")
    rows = {document["row"] for document in documents}
    return {} if store is None else {row: store.read(row) for row in sorted(rows)}


def read_texts_of_sweeps(output: str, documents: Documents) -> dict[int, str]:
    """Likewise for the folder of a sweep: each sweep keeps the texts of its own new documents."""
    texts: dict[int, str] = {}
    for sweep in sorted({document["sweep"] for document in documents}):
        folder = Place.of(output).sibling(sweep_name(sweep)).url
        store = open_texts(folder, "new")
        if store is not None:
            ids = CorpusStore.open(join(folder, "corpus", "new.zarr")).ids()
            places = {id: row for row, id in enumerate(ids)}
            mine = [document for document in documents if document["sweep"] == sweep]
            texts |= {document["row"]: store.read(places[document["id"]]) for document in mine}
    return texts


def open_texts(output: str, part: str) -> TextStore | None:
    """The texts of a part; None where there are none, or those of other documents."""
    path = texts_path(output, part)
    if not Place.of(path).names():
        return None
    store = TextStore.open(path)
    corpus = CorpusStore.open(join(output, "corpus", f"{part}.zarr"))
    return store if store.corpus == corpus.digest else None


def find_tokeniser(store: CorpusStore) -> Tokeniser | None:
    """The tokeniser that counted the words of a corpus."""
    told = store.attributes.get("text")
    return None if told is None else Tokeniser(read_text(told))


def _find_folder(run: Mapping[str, Any] | None) -> Path | None:
    """The folder of a test corpus of text files, below which ids are paths."""
    value: Any = run
    for key in ("configuration", "corpus", "test"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and value.get("format") == "text" and value.get("path"):
        return Path(value["path"]).absolute()
    return None


def find_original(id: str, folder: Path | None, output: str) -> str | None:
    """Where a document is that is named by a web address or by the path of a file that is there, as
    seen from a page in `output`; nothing else becomes a link."""
    if _is_address(id):
        return id
    path = Path(id) if folder is None else folder / id
    try:
        if not (path.is_absolute() and path.is_file()):
            return None
        page = Place.of(output)
        if not page.local:
            return path.as_uri()
        # So the link holds where both are moved together. A colon is quoted too, so that no name
        # of a file is taken for the scheme of a URL.
        return quote(Path(os.path.relpath(path, page.url)).as_posix())
    except (OSError, ValueError):  # too long, or characters that no path has
        return None


def _is_address(id: str) -> bool:
    if not id.isprintable() or " " in id:
        return False
    try:
        parts = urlsplit(id)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
