from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from atd_dask import Findings, find
from atd_dask.cli.command import atd
from atd_dask.errors import InputError, UserError
from atd_dask.estimators.given import Columns, write_given

TOPICS = [
    "engine wheel brake tyre gear road driver clutch petrol motor",
    "flour butter sugar oven bake cake dough egg cream vanilla",
    "match goal league striker keeper penalty coach stadium referee pitch",
    "stock market shares profit bond dividend investor bank fund yield",
]
NEW = "volcano lava eruption ash crater magma plume seismic evacuate summit"
USUAL = "today people thing great small large place time week report many first last"
SETTINGS = {
    "null_model": {"topics": {"max": 6, "min": 2, "widen": False}},
    "detection": {"significance": {"replicates": 199, "searches": 9}},
}


def write_text(rng, topic):
    words = [*rng.choice(topic.split(), 15), *rng.choice(USUAL.split(), 15)]
    return " ".join(rng.permutation(words))


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(1)
    normal = [write_text(rng, TOPICS[d % 4]) for d in range(300)]
    batch = [write_text(rng, TOPICS[d % 4]) for d in range(80)]
    return normal, batch + [write_text(rng, NEW) for _ in range(12)]


@pytest.fixture(scope="module")
def found(texts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return find(*texts, settings=SETTINGS, progress=False)


def test_a_group_with_words_of_its_own_is_found(found):
    (cluster,) = found.clusters
    assert {int(id) for id in cluster.documents} == set(range(80, 92))
    assert set(cluster.words) <= {*NEW.split(), *USUAL.split()}
    assert cluster.p_value <= 0.01
    assert repr(found).startswith("One significant cluster was found in 92 documents: 12 documents")
    assert any(word.new for word in found.result.clusters[0].salient_words)


def test_a_notebook_shows_the_verdict_and_passages(found):
    page = found._repr_html_()
    assert "12\xa0documents" in page
    assert "<mark " in page
    assert "<script" not in page


def test_every_document_has_scores(found):
    scores = found.scores()
    assert scores["id"].tolist() == [str(row) for row in range(92)]
    assert (scores["odds"][80:] > 1).all()
    assert (scores["odds"][:80] < 1).all()
    assert scores["novelty"].between(0, 1).all()
    assert scores["surprise"][80:].mean() > scores["surprise"][:80].mean()
    frame = found.to_frame()
    assert sorted(frame["id"].astype(int)) == list(range(80, 92))
    assert (frame["share"] > 0).all()


def test_findings_are_saved_and_loaded(found, tmp_path):
    found.save(tmp_path / "kept")
    again = Findings.load(tmp_path / "kept")
    assert again.clusters == found.clusters
    again.report(tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()
    with pytest.raises(InputError, match="must be saved in a new folder"):
        found.save(tmp_path / "kept")
    with pytest.raises(InputError, match="must be the folder of a finished run"):
        Findings.load(tmp_path)


def test_the_command_finds_the_same(texts, found, tmp_path):
    for name, documents in zip(("train", "test"), texts, strict=True):
        lines = [json.dumps({"id": str(n), "text": text}) for n, text in enumerate(documents)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    sources = {p: {"format": "jsonl", "path": f"{p}.jsonl"} for p in ("train", "test")}
    conf = tmp_path / "find.yaml"
    conf.write_text(json.dumps({"corpus": sources, "seed": 1, **SETTINGS}))
    command = ["run", str(conf), "--output", str(tmp_path / "run"), "--quiet"]
    assert CliRunner().invoke(atd, command).exit_code == 0
    mine = (tmp_path / "run" / "result.json").read_bytes()
    assert mine == Path(found.folder, "result.json").read_bytes()


def test_a_search_that_is_repeated(texts, found):
    detection = {**SETTINGS["detection"], "repeats": 2}
    repeated = find(*texts, settings={**SETTINGS, "detection": detection}, progress=False)
    (cluster,) = repeated.clusters
    assert cluster.members == found.clusters[0].members
    assert (cluster.repeats.found, cluster.repeats.of, cluster.repeats.shown) == (2, 2, 1)
    assert cluster.p_value == max(cluster.repeats.p_values)
    assert "; in 2 of 2 repeats>" in repr(cluster)
    assert "found in 2 of 2 repeats" in repeated._repr_html_()
    assert found.clusters[0].repeats is None
    assert "repeats" not in repr(found.clusters[0]) + found._repr_html_()


def test_a_frame_gives_a_frame(texts):
    pandas = pytest.importorskip("pandas")
    normal, batch = texts
    ids = [f"doc-{n}" for n in range(len(batch))]
    frame = pandas.DataFrame({"body": batch, "name": ids})
    given = pandas.Series(normal)
    found = find(
        given.rename("body").to_frame().assign(name=[str(n) for n in range(len(normal))]),
        frame,
        text="body",
        id="name",
        settings=SETTINGS,
        progress=False,
    )
    assert isinstance(found.to_frame(), pandas.DataFrame)
    assert set(found.clusters[0].documents) == set(ids[80:])


def test_polars_gives_polars(texts, found):
    polars = pytest.importorskip("polars")
    normal, batch = texts
    ids = [f"doc-{n}" for n in range(len(batch))]
    mine = find(
        polars.Series(normal),
        polars.DataFrame({"body": batch, "name": ids}).lazy(),
        text="body",
        id="name",
        settings=SETTINGS,
        progress=False,
    )
    frame = mine.to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert set(frame["id"]) == set(ids[80:])
    scores = mine.scores()
    assert isinstance(scores, polars.DataFrame)
    assert scores["id"].to_list() == ids
    assert scores["odds"].to_list() == found.scores()["odds"].tolist()


def test_a_dataset_gives_a_frame(texts, found):
    datasets = pytest.importorskip("datasets")
    normal, batch = texts
    ids = [str(n) for n in range(len(batch))]
    mine = find(
        datasets.Dataset.from_dict({"text": normal}),
        datasets.Dataset.from_dict({"title": ["-"] * len(batch), "text": batch, "id": ids}),
        settings=SETTINGS,
        progress=False,
    )
    assert mine.clusters == found.clusters
    assert len(mine.to_frame()) == 12


def read_lines(given):
    return [json.loads(line) for line in Path(given.source["path"]).read_text().splitlines()]


def test_what_documents_can_be(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    from dask import bag

    table = {"text": ["one", None], "id": [7, 8], "kind": [["a", "b"], None]}
    expected = [
        {"id": "7", "text": "one", "labels": ["a", "b"]},
        {"id": "8", "text": "", "labels": None},
    ]
    for frame in (pandas.DataFrame(table), pyarrow.table(table)):
        given = write_given(frame, "batch", Columns(labels="kind"), None, tmp_path)
        assert read_lines(given) == expected
    simple = [{"id": "0", "text": "one"}, {"id": "1", "text": "two"}]
    for texts in (
        ["one", "two"],
        (text for text in ("one", "two")),
        pandas.Series(["one", "two"]),
        np.array(["one", "two"]),
        bag.from_sequence(["one", "two"]),
    ):
        assert read_lines(write_given(texts, "batch", Columns(), None, tmp_path)) == simple


def test_a_matrix_with_its_vectorizer(tmp_path):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectorizer = text.CountVectorizer()
    matrix = vectorizer.fit_transform(["one two", "two two"])
    given = write_given(matrix, "batch", Columns(), vectorizer, tmp_path)
    assert given.source["format"] == "npz"
    assert Path(given.source["vocabulary"]).read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (3, "batch must be a list of strings.*got int"),
        ({"a": 1}, "batch must be a list of strings.*got dict"),
        ("some text", "got a string that is not a path: 'some text'"),
        ("text " * 1000, r"got a string that is not a path: 'text .*\.\.\.'"),
        ("two\nlines", r"got a string that is not a path: 'two\\nlines'"),
        ("", "got a string that is not a path: ''"),
        ("~/absent*", "got a string that is not a path"),
        ("nosuch://bucket/a.csv", "batch must be a path or a URL with a protocol that fsspec"),
        (["one", 2], "the documents of batch must be strings, got int in row 1"),
        (np.ones((2, 3, 4)), "the documents of batch must be strings, got ndarray in row 0"),
        (None, "batch must be a list of strings.*got NoneType"),
        ([], "batch must have documents, got none"),
        (__file__, "batch must be a folder or a file that ends in"),
    ],
)
def test_what_documents_cannot_be(documents, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_given(documents, "batch", Columns(), None, tmp_path)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("mail", "text"),
        ("mail/*", "text"),
        ("m*", "text"),
        ("tables/*.csv", "csv"),
        ("~/mail", "text"),
        ("s3://bucket/*.jsonl.gz", "jsonl"),
    ],
)
def test_paths_may_be_folders_and_globs(path, kind, tmp_path, monkeypatch):
    for name in ("mail/1", "tables/1.csv", "tables/2.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = write_given(path, "batch", Columns(), None, tmp_path).source
    there = path if "://" in path else str(tmp_path / path.removeprefix("~/"))
    assert source == {"format": kind, "path": there}


def test_a_column_that_is_not_there(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"title": ["x"], "body": ["y"]})
    with pytest.raises(InputError, match=r"text= must name a column of batch, got 'text'.*'title'"):
        write_given(frame, "batch", Columns(), None, tmp_path)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"random_state": None}, "random_state must be a whole number of at least 0, got None"),
        ({"random_state": 1.5}, "random_state must be a whole number of at least 0, got 1.5"),
        ({"random_state": np.int64(-1)}, "random_state must be a whole number of at least 0"),
        ({"settings": "fast"}, "settings must be a mapping of sections.*got str"),
        ({"settings": {"output": "here"}}, "must not name the output: pass output= instead"),
        ({"settings": {"corpus": None}}, "corpus must have train and test, or dataset"),
        ({"settings": {"detection": object()}}, "settings must be plain values: got object"),
        (
            {"settings": {"detection": {"seeds": np.float64(1.5)}}},
            "detection.seeds must be a whole",
        ),
        (
            {"client": "tcp://127.0.0.1:8786"},
            "client must be a Client of dask.distributed, got str",
        ),
    ],
)
def test_what_arguments_cannot_be(argument, message):
    with pytest.raises(UserError, match=message):
        find(["one"], ["two"], **{"progress": False, **argument})


def test_columns_that_share_a_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["x", "y"]], columns=["text", "text"])
    with pytest.raises(InputError, match="the columns of batch must have different names"):
        write_given(frame, "batch", Columns(), None, tmp_path)


def test_columns_may_have_names_that_are_no_text(tmp_path):
    pandas = pytest.importorskip("pandas")
    for name in (0, ("title", "text")):
        frame = pandas.DataFrame({name: ["x"], "other": [1]})
        given = write_given(frame, "batch", Columns(text=name), None, tmp_path)
        assert read_lines(given) == [{"id": "0", "text": "x"}]


def test_a_column_alone_has_the_texts_whatever_its_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    for name in (None, "id", "text", 3):
        series = pandas.Series(["x", "y"], name=name)
        for documents in (series, pandas.DataFrame({name or "id": series})):
            given = write_given(documents, "batch", Columns(), None, tmp_path)
            assert read_lines(given) == [{"id": "0", "text": "x"}, {"id": "1", "text": "y"}]


def test_an_arrow_array(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    for array in (pyarrow.array(["x", None]), pyarrow.chunked_array([["x"], [None]])):
        given = write_given(array, "batch", Columns(), None, tmp_path)
        assert read_lines(given) == [{"id": "0", "text": "x"}, {"id": "1", "text": ""}]


def test_a_script_with_a_bag_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from dask import bag\n"
        "from atd_dask.estimators.given import Columns, write_given\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "write_given(bag.from_sequence(['x']), 'batch', Columns(), None, folder)\n"
    )
    subprocess.run([sys.executable, script], check=True, timeout=240)
    assert json.loads((tmp_path / "batch.jsonl").read_text()) == {"id": "0", "text": "x"}


def test_values_may_be_missing(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["x", pandas.NA], "id": [None, "b"], "of": ["l", pandas.NA]})
    columns = Columns(labels="of")
    for kind in ("string", "object"):
        write_given(frame.astype(kind), "batch", columns, None, tmp_path)
        lines = (tmp_path / "batch.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [
            {"id": "0", "text": "x", "labels": "l"},
            {"id": "b", "text": "", "labels": None},
        ]
    write_given(frame["text"].astype("string"), "batch", Columns(), None, tmp_path)


def test_what_was_skipped_is_told(texts, found):
    normal, batch = texts
    few = [*batch[:60], None, "the of", ""]
    mine = find([*normal, None], few, settings=SETTINGS, progress=False)
    told = "its text has no words that are kept"
    assert mine.skipped == {"normal": {told: 1}, "validation": {}, "batch": {told: 3}}
    assert repr(mine).endswith(". 3 documents of the batch cannot be used: see skipped.")
    assert found.skipped == {"normal": {}, "validation": {}, "batch": {}}
    assert "skipped" not in repr(found)
    Path(mine.folder, "stages", "ingest.json").write_text("{}")
    assert Findings.load(mine.folder).skipped == {}


def test_a_warning_names_the_line_that_called(texts):
    normal, batch = texts
    with pytest.warns(UserWarning, match="are among the normal ones too") as told:
        find(normal, [*batch, *normal[:10]], settings=SETTINGS, progress=False)
    assert [warning.filename for warning in told] == [__file__]
