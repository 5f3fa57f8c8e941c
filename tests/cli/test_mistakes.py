"""What a newcomer may get wrong: the command, the sentence that is shown, and the status."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from atd_dask.cli.command import atd
from tests.clusters import local_client

WORDS = [f"{a}{b}{c}" for a in ("ban", "cof", "dor") for b in ("el", "um", "ir") for c in "aeiou"]
CONF = """
corpus:
  train: {format: jsonl, path: train.jsonl}
  test: {format: jsonl, path: test.jsonl}
"""


def make_documents(n_docs: int, seed: int, prefix: str) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "id": f"{prefix}{n}",
            "text": " ".join(rng.choices(WORDS, k=30)),
            "labels": ["odd" if n < 3 else "usual"],
        }
        for n in range(n_docs)
    ]


def write_lines(path: Path, documents: list[dict[str, Any]], bad: int = 0) -> None:
    lines = ["no JSON"] * bad + [json.dumps(document) for document in documents]
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the commands name."""
    monkeypatch.chdir(tmp_path)
    train, test = make_documents(40, 1, "n"), make_documents(12, 2, "b")
    write_lines(tmp_path / "train.jsonl", train)
    write_lines(tmp_path / "same.jsonl", train[::-1])
    write_lines(tmp_path / "test.jsonl", test)
    write_lines(tmp_path / "overlap.jsonl", test + train[:4])
    write_lines(tmp_path / "bad.jsonl", [], bad=5)
    write_lines(tmp_path / "half.jsonl", test, bad=13)
    write_lines(tmp_path / "one.json", test[:1])
    (tmp_path / "empty.jsonl").touch()
    for name, delimiter in (("test.csv", ","), ("test.tsv", "\t")):
        with (tmp_path / name).open("w", newline="") as file:
            table = csv.writer(file, delimiter=delimiter)
            table.writerow(test[0])
            table.writerows([d["id"], d["text"], *d["labels"]] for d in test)
    (tmp_path / "not-packed.jsonl.gz").write_bytes((tmp_path / "test.jsonl").read_bytes())
    (tmp_path / "header.csv").write_text("id,text\n")
    texts = tmp_path / "texts"
    texts.mkdir()
    for document in test:
        (texts / f"{document['id']}.txt").write_text(document["text"])
    (tmp_path / "nothing").mkdir()
    (tmp_path / "file").write_text("a line of text\n")
    (tmp_path / "conf.yaml").write_text(CONF)
    (tmp_path / "list.yaml").write_text("- train.jsonl\n- test.jsonl\n")
    (tmp_path / ".env").write_text("TOKEN=secret\nHOST=x\n")
    (tmp_path / "picture.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    return tmp_path


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with local_client(workers=1) as client:
        yield client.scheduler_info()["address"]


def invoke(arguments: list[str], scheduler: str) -> Result:
    if arguments[0] in ("run", "ingest", "train", "detect", "sweep"):
        arguments = [*arguments, "--scheduler", scheduler]
    return CliRunner().invoke(atd, arguments)


def tell(result: Result, level: str) -> list[str]:
    """The errors and warnings that were shown."""
    start = f"{level}: "
    return [line[len(start) :] for line in result.stderr.splitlines() if line.startswith(start)]


@dataclass(frozen=True)
class Mistake:
    """A command, its options `--set`, and what must be in the one sentence."""

    command: str
    settings: tuple[str, ...]
    told: tuple[str, ...]

    def arguments(self) -> list[str]:
        return [*self.command.split(), *(s for one in self.settings for s in ("--set", one))]


def batch(name: str, format: str = "jsonl", **keys: str) -> str:
    """The setting that makes other documents the batch."""
    return f"corpus.test={json.dumps({'format': format, 'path': name, **keys})}"


RUN = "run conf.yaml"
DOCUMENTS = "got a file of documents: name it in one, as in corpus: {test: {format: "

MISTAKES = {
    "an empty batch": Mistake(
        RUN, (batch("empty.jsonl"),), ("corpus.test must have documents", "got none at all in /")
    ),
    "a table with nothing but a header": Mistake(
        RUN, (batch("header.csv", "csv"),), ("corpus.test must have documents", "got none at all")
    ),
    "no training documents": Mistake(
        RUN, ("corpus.train.path=empty.jsonl",), ("corpus.train must have documents", "none at all")
    ),
    "a batch of which nothing can be used": Mistake(
        RUN,
        (batch("bad.jsonl"),),
        ("corpus.test must have", "got 5 that were all skipped: not JSON; the first: ", "jsonl:1"),
    ),
    "training documents of which nothing can be used": Mistake(
        RUN, ("corpus.train.path=bad.jsonl",), ("corpus.train must have", "all skipped: not JSON")
    ),
    "a table read as lines of JSON": Mistake(
        RUN, (batch("test.csv"),), ("corpus.test must have", "13 that were all skipped: not JSON")
    ),
    "lines of JSON read as a table": Mistake(
        RUN, (batch("test.jsonl", "csv"),), ("header of", "must have the column text (text_field)")
    ),
    "lines of JSON read as a matrix": Mistake(
        RUN, (batch("test.jsonl", "npz"),), ("must be a sparse matrix of numbers", "it is none")
    ),
    "a folder of texts read as lines of JSON": Mistake(
        RUN, (batch("texts"),), ("texts must hold a file that ends with .jsonl or ",)
    ),
    "a file that cannot be read": Mistake(
        RUN, (batch("not-packed.jsonl.gz"),), ("jsonl.gz must be a whole gzip file",)
    ),
    "a file where a folder of texts is expected": Mistake(
        RUN, (batch("test.jsonl", "text"),), ("test.jsonl must be a folder, but is a file",)
    ),
    "an empty folder": Mistake(
        RUN, (batch("nothing", "text"),), ("nothing must hold at least one file, has none",)
    ),
    "a path that is not there": Mistake(
        RUN, (batch("tset.jsonl"),), ("corpus.test.path must be an existing file", "tset.jsonl")
    ),
    "a text field that no line has": Mistake(
        RUN,
        (batch("test.jsonl", text_field="body"),),
        ("test.jsonl must have the field body (text_field)", "fields are id, text, labels"),
    ),
    "an id field that no line has": Mistake(
        RUN,
        (batch("test.jsonl", id_field="key"),),
        ("must have the field key (id_field)", "their fields are id, text, labels"),
    ),
    "a field of labels that no line has": Mistake(
        RUN,
        (batch("test.jsonl", labels_field="tags"),),
        ("must have the field tags (labels_field)", "their fields are id, text, labels"),
    ),
    "a column that a table lacks": Mistake(
        RUN,
        (batch("test.csv", "csv", text_field="body"),),
        ("must have the column body (text_field), got id, text, labels",),
    ),
    "a column that a table of tabs lacks": Mistake(
        RUN,
        (batch("test.tsv", "tsv", labels_field="tags"),),
        ("must have the column tags (labels_field), got id, text, labels",),
    ),
    "the training documents as the batch": Mistake(
        RUN,
        (batch("train.jsonl"),),
        ("corpus.test.path must name other documents than corpus.train.path", "train.jsonl"),
    ),
    "a copy of the training documents as the batch": Mistake(
        RUN,
        (batch("same.jsonl"),),
        ("corpus.test must hold other documents than corpus.train, got the same 40",),
    ),
    "a label that no document has": Mistake(
        RUN,
        ("evaluation.anomalous=[odd, strange]",),
        ("evaluation.anomalous must have labels of the batch", "usual (9), odd (3), got strange"),
    ),
    "a store that is none": Mistake(
        RUN, (batch("texts", "zarr"),), ("texts is not a finished store of atd-dask",)
    ),
    "a file for a store": Mistake(
        RUN, (batch("file", "zarr"),), ("is a folder, but", "file is a file")
    ),
    "a key that is not known": Mistake(
        RUN, ("null_model.topcs.max=3",), ("null_model.topcs is not a known key: did you mean",)
    ),
    "a setting without a value": Mistake(
        RUN, ("seed",), ("An option --set must be KEY=VALUE, got seed",)
    ),
    "lines of JSON as the configuration": Mistake(
        "run train.jsonl", (), (DOCUMENTS + "jsonl, path: train.jsonl}",)
    ),
    "a table as the configuration": Mistake(
        "validate test.csv", (), (DOCUMENTS + "csv, path: test.csv}",)
    ),
    "a JSON document as the configuration": Mistake(
        "validate one.json", (), (DOCUMENTS + "jsonl, path: one.json}",)
    ),
    "variables as the configuration": Mistake(
        "validate .env", (), ("must be a mapping of keys to values, got lines of KEY=VALUE",)
    ),
    "a picture as the configuration": Mistake(
        "validate picture.yaml", (), ("A configuration must be UTF-8 text, got the byte 0x89",)
    ),
    "a folder as the configuration": Mistake(
        "run texts", (), ("The configuration must be a file, got the folder texts",)
    ),
    "a list as the configuration": Mistake(
        "run list.yaml", (), ("A configuration must be a mapping of keys to values, got a list",)
    ),
    "a configuration that is not there": Mistake(
        "run cnof.yaml", (), ("The configuration must be an existing file, got cnof.yaml",)
    ),
    "a file as the output": Mistake(
        "run conf.yaml --output file", (), ("output must be a folder, but file is a file",)
    ),
    "training before ingest": Mistake(
        "train conf.yaml", (), ("there is no store at", "ingest it first")
    ),
    "a report of what is no run": Mistake(
        "report nothing", (), ("needs the output folder of a run, but nothing has no result",)
    ),
    "the verification of a file": Mistake(
        "verify conf.yaml", (), ("must be a store or a folder with stores", "is neither")
    ),
    "the verification of nothing": Mistake(
        "verify nothing", (), ("there is nothing to verify at",)
    ),
    "a look into a file": Mistake(
        "inspect conf.yaml", (), ("is a folder, but", "conf.yaml is a file")
    ),
    "a sweep without training documents": Mistake(
        "sweep conf.yaml", ("corpus.train.path=empty.jsonl",), ("corpus.train must have documents",)
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_and_status_2(
    mistake: Mistake, folder: Path, scheduler: str
) -> None:
    result = invoke(mistake.arguments(), scheduler)
    (sentence,) = tell(result, "error")
    assert result.exit_code == 2
    for words in mistake.told:
        assert words in sentence
    assert result.stdout == ""
    assert "secret" not in sentence
    assert tell(result, "warning") == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("test.jsonl", []),
        (
            "half.jsonl",
            ["13 of the 25 documents of corpus.test were skipped: not JSON; the first: "],
        ),
        ("overlap.jsonl", ["4 of the 16 documents of the batch (25%) are among the normal ones"]),
    ],
)
def test_what_may_be_a_mistake_is_a_warning(
    name: str, told: list[str], folder: Path, scheduler: str
) -> None:
    result = invoke(["ingest", "conf.yaml", "--set", batch(name)], scheduler)
    assert result.exit_code == 0
    warnings = tell(result, "warning")
    assert len(warnings) == len(told)
    assert all(warning.startswith(words) for warning, words in zip(warnings, told, strict=True))


def test_rare_words_of_training_are_no_reason_to_warn(folder: Path, scheduler: str) -> None:
    result = invoke(
        ["ingest", "conf.yaml", "--set", "corpus.text.min_document_frequency=18"], scheduler
    )
    assert result.exit_code == 0
    (warning,) = tell(result, "warning")
    assert "of the words of the batch" in warning
    assert "are in fewer than 18 training documents, such as " in warning


def test_all_stores_of_a_run_are_verified(folder: Path, scheduler: str) -> None:
    assert invoke(["ingest", "conf.yaml", "--output", "out"], scheduler).exit_code == 0
    stores = [f"out/corpus/{name}.zarr" for name in ("test-texts", "test", "train", "validation")]
    result = invoke(["verify", "out"], scheduler)
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [f"{store}: no damage" for store in stores],
    )
    (folder / "out/corpus/test.zarr/zarr.json").unlink()
    result = invoke(["verify", "out"], scheduler)
    assert result.exit_code == 1
    assert "out/corpus/test.zarr: zarr.json is missing" in result.stdout.splitlines()


def test_a_configuration_may_be_json(folder: Path, scheduler: str) -> None:
    (folder / "conf.json").write_text('{"corpus": {"dataset": "synthetic"}}\n')
    assert invoke(["validate", "conf.json"], scheduler).exit_code == 0
