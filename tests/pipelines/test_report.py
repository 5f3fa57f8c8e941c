from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from atd_dask.cli.command import atd
from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.pipelines.report import write_report
from atd_dask.report.links import find_original
from atd_dask.stages.result_making import count_words
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.storage.models import write_model
from atd_dask.storage.runs import write_run
from atd_dask.storage.texts import TextWriter
from atd_dask.text.options import TextOptions
from tests.report.pages import make_cluster, make_sources
from tests.results import make_run_record
from tests.storage.corpora import UNSEEN, WORDS, random_counts, write_corpus
from tests.storage.test_models import make_model


def make_run(folder: Path, **others: Any) -> Path:
    """The output folder of a run, with one cluster in the store of 20 documents."""
    store = write_corpus(folder / "corpus" / "test.zarr")
    write_model(folder / "null_model.zarr", make_model())
    result = make_sources().result.to_json()
    result["corpus"] = {
        "test": {"documents": store.n_docs, "tokens": store.n_tokens, "terms": store.n_words}
    }
    cluster = make_cluster(index=0, words=list(WORDS))
    ids = store.ids()
    for document in cluster["documents"]:
        document["id"] = ids[document["row"]]
    result["clusters"] = [cluster]
    (folder / "result.json").write_text(json.dumps(result | others))
    return folder


def test_the_page_of_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    path = write_report(str(run))
    assert path == f"{run}/report.html"
    page = Path(path).read_text()
    assert "document 2" in page
    assert '<span class="hit"><bdi>' in page
    assert "barrel</bdi> <bdi>oil" in page  # the words of the first topic of the null model
    assert CorpusStore.open(run / "corpus" / "test.zarr").digest in page
    assert Path(write_report(str(run))).read_text() == page


def test_texts_are_shown_if_they_are_of_the_batch(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    options = asdict(TextOptions(stemmer="none"))
    with CorpusWriter(run / "corpus" / "test.zarr", WORDS, UNSEEN, {"text": options}) as writer:
        writer.append(random_counts(1, 20, 8), random_counts(2, 20, 2))
    test = CorpusStore.open(run / "corpus" / "test.zarr")
    for corpus, times in ((test.digest, 1), ("of another", 0)):
        with TextWriter(run / "corpus" / "test-texts.zarr", corpus) as texts:
            texts.append(f"Alpha & row number {row}".encode() for row in range(20))
        page = Path(write_report(str(run))).read_text()
        assert page.count('<mark class="more">Alpha</mark> &amp; row number 2<') == times


def test_run_json_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_run(str(run), make_run_record(configuration={"seed": 1}))
    page = Path(write_report(str(run))).read_text()
    assert "atd-dask run mine.yaml" in page
    assert "2\N{NO-BREAK SPACE}workers" in page


def test_the_command(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    done = CliRunner().invoke(atd, ["report", str(run)])
    assert (done.exit_code, done.output) == (0, f"report: {run}/report.html\n")
    done = CliRunner().invoke(atd, ["report", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: a report needs the output folder of a run, but {tmp_path}/none has no"
        " result.json: name the folder that the run wrote to\n"
    )


def test_a_result_of_another_format_is_no_result(tmp_path: Path) -> None:
    run = make_run(tmp_path, format="atd-dask-result/9")
    with pytest.raises(
        InputError, match=r"of the format atd-dask-result/1, but .*json has another"
    ):
        write_report(str(run))


def test_clusters_without_their_support_come_from_an_earlier_version(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    result = json.loads((run / "result.json").read_text())
    del result["clusters"][0]["support"]
    (run / "result.json").write_text(json.dumps(result))
    with pytest.raises(InputError, match=r"result\.json come from an earlier version: run"):
        write_report(str(run))


def test_stores_that_were_made_anew_are_noticed(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_corpus(run / "corpus" / "test.zarr", seed=2)
    with pytest.raises(InputError, match=r"result\.json must come from the stores next to it"):
        write_report(str(run))
    make_run(run)
    model = make_model()
    search = tuple(replace(record, bic=record.bic + 1) for record in model.restarts[0])
    write_model(run / "null_model.zarr", replace(model, restarts=(search,)))
    with pytest.raises(InputError, match=r"result\.json must come from the stores next to it"):
        write_report(str(run))


def test_words_are_counted_across_blocks(tmp_path: Path) -> None:
    store = write_corpus(tmp_path / "a.zarr", block_entries=16)
    assert store.n_blocks > 2
    matrix = store.matrix().toarray()
    rows = [19, 3, 4, 3, 0]
    assert count_words(store, rows) == {
        row: {WORDS[term]: matrix[row, term] for term in np.flatnonzero(matrix[row])}
        for row in rows
    }
    assert count_words(store, []) == {}


@pytest.mark.parametrize(
    ("id", "link"),
    [
        ("https://example.org/a?b=<c>&d", "https://example.org/a?b=<c>&d"),
        ("HTTP://example.org", "HTTP://example.org"),
        ("file:///tmp/a.txt", None),
        ("file://host/share", None),
        ("http:", None),
        ("https:///path", None),
        ("http://[", None),
        ("javascript:alert(1)", None),
        ("JavaScript:alert(1)//http://x", None),
        ("\x01javascript:alert(1)", None),
        ("java\nscript:alert(1)", None),
        ("http://example.org/\u202e", None),
        ("data:text/html,<script>", None),
        ("vbscript:x", None),
        ("ftp://example.org/x", None),
        ("//example.org/x", None),
        ("", None),
        ("a\x00b", None),
        ("x" * 5000, None),
        ("639", None),
    ],
)
def test_links(id: str, link: str | None, tmp_path: Path) -> None:
    assert find_original(id, None, str(tmp_path)) == link
    assert find_original(id, tmp_path, str(tmp_path)) == link


def test_links_to_files(tmp_path: Path) -> None:
    path = tmp_path / "sub" / 'a "b" <c>.txt'
    path.parent.mkdir()
    path.write_text("")
    run = str(tmp_path / "runs" / "mine")
    link = "../../sub/a%20%22b%22%20%3Cc%3E.txt"
    assert find_original(str(path), None, run) == link
    assert find_original('sub/a "b" <c>.txt', tmp_path, run) == link
    assert find_original(str(path), None, "memory://runs/mine") == path.as_uri()
    assert find_original("sub", tmp_path, run) is None
    assert find_original("sub/none.txt", tmp_path, run) is None


def test_the_name_of_a_file_is_no_scheme(tmp_path: Path) -> None:
    (tmp_path / "javascript:alert(1)").write_text("")
    link = find_original("javascript:alert(1)", tmp_path, str(tmp_path))
    assert link == "javascript%3Aalert%281%29"


def test_files_of_a_text_folder_are_linked(tmp_path: Path) -> None:
    run, folder = tmp_path / "run", tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha")
    one = np.array([0, 1], dtype=np.int64), np.zeros(1, np.int32), np.ones(1, np.int32)
    none = np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)
    make_run(run)
    with CorpusWriter(run / "corpus" / "test.zarr", WORDS, [], {}) as writer:
        writer.append(CountBatch(["a.txt"], [()], *one), CountBatch(["a.txt"], [()], *none))
    result = json.loads((run / "result.json").read_text())
    cluster = make_cluster(index=0, size=1, words=list(WORDS))
    cluster["documents"][0]["id"] = "a.txt"
    sizes = {"documents": 1, "tokens": 1, "terms": len(WORDS)}
    result |= {"clusters": [cluster], "corpus": {"test": sizes}}
    (run / "result.json").write_text(json.dumps(result))
    source = {"format": "text", "path": str(folder)}
    write_run(str(run), make_run_record(configuration={"corpus": {"test": source}}))
    page = Path(write_report(str(run))).read_text()
    assert '<a href="../texts/a.txt"' in page
