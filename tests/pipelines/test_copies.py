"""Near-duplicates in a whole job: one document stands for them, and they are reported
separately."""

from __future__ import annotations

import csv
import json
import random

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.cli.printing import print_clusters
from atd_dask.config.loader import load
from atd_dask.pipelines.run import run
from atd_dask.result_types import Result
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout
from tests.clusters import local_client
from tests.pipelines import sweeping

CONFIG = """
corpus:
  train: {format: jsonl, path: train.jsonl}
  validation: {format: jsonl, path: validation.jsonl}
  test: {format: jsonl, path: test.jsonl}
  text: {stop_words: none, stemmer: none}
null_model: {topics: 2}
detection:
  seeds: 20
  membership: {replicates: 100}
  significance: {replicates: 100, searches: 9}
evaluation: {anomalous: [unusual]}
"""


def make_words(mark, n_words):
    return [f"{mark}{a}{b}" for a in "bcdfghkl" for b in "aeiouyrs"][:n_words]


SUBJECTS = [make_words("aa", 60), make_words("ee", 60)]
UNUSUAL = make_words("zz", 25)
SPAM = " ".join(make_words("qq", 40))  # no word of which is in training
CIRCULAR = " ".join([*SUBJECTS[0][:25], *SUBJECTS[1][:20]])


def draw_text(chance, unusual=False):
    """Fifty words on a subject, with an occasional unusual one; half of them unusual if asked
    for."""
    words = chance.choices(chance.choice(SUBJECTS), k=25 if unusual else 49)
    return " ".join(words + chance.choices(UNUSUAL, k=25 if unusual else 1))


def write(path, texts, labels=()):
    lines = [{"id": name, "text": text} for name, text in texts]
    for line in lines:
        line["labels"] = ["unusual"] if line["id"].startswith("unusual") else []
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def vary(text, number):
    """A near-duplicate: one word is gone, another is new."""
    words = text.split()
    return " ".join([*words[:number], f"other{'bcdfghk'[number]}", *words[number + 1 :]])


def prepare(folder, with_copies):
    chance = random.Random(1)
    normal = [(f"normal-{n}", draw_text(chance)) for n in range(220)]
    train = [*normal[:180], *((f"circular-{n}", vary(CIRCULAR, n)) for n in range(3))]
    write(folder / "train.jsonl", train)
    write(folder / "validation.jsonl", normal[180:])
    batch = [(f"batch-{n}", draw_text(chance)) for n in range(60)]
    batch += [(f"unusual-{n}", draw_text(chance, True)) for n in range(15)]
    batch += [("circular", CIRCULAR), ("spam", SPAM)]
    if with_copies:
        batch += [(f"spam-{n}", vary(SPAM, n)) for n in range(4)]
        batch += [(f"circular-{n}", vary(CIRCULAR, n)) for n in range(3)]
        batch += [(f"unusual-again-{n}", vary(batch[62][1], n)) for n in range(2)]
    write(folder / "test.jsonl", batch)
    (folder / "conf.yaml").write_text(CONFIG)
    return folder


def add_junk(folder):
    """Five near-duplicates of an ordinary text, and a text with one word two thousand times."""
    chance = random.Random(2)
    text = draw_text(chance)
    junk = [(f"junk-{n}", vary(text, n)) for n in range(5)]
    junk.append(("bursty", f"{draw_text(chance)} {' '.join([SUBJECTS[0][0]] * 2000)}"))
    lines = [json.dumps({"id": name, "text": text, "labels": []}) for name, text in junk]
    with (folder / "test.jsonl").open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return folder


def configure(folder, *overrides):
    return load(folder / "conf.yaml", [f"output={folder / 'out'}", *overrides])


def do(folder, client, *overrides):
    config = configure(folder, *overrides)
    made = run(config, client, make_progress(quiet=True), command=["atd-dask", "run"])
    return made.result.to_json()


@pytest.fixture(scope="module")
def client():
    with local_client(2) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("copies"), True)


@pytest.fixture(scope="module")
def result(folder, client):
    return do(folder, client)


def test_copies_are_kept_in_the_stores(folder, result):
    stores = {
        part: CorpusStore.open(RunLayout(configure(folder).output).corpus(part))
        for part in ("train", "validation", "test")
    }
    assert {part: store.n_copies for part, store in stores.items()} == {
        "train": 2,
        "validation": 0,
        "test": 9,
    }
    assert {part: sizes["copies"] for part, sizes in result["corpus"].items()} == {
        "train": 2,
        "validation": 0,
        "test": 9,
    }


def test_junk_changes_no_cluster(tmp_path, client):
    found = []
    for name, change in (("plain", lambda folder: folder), ("junk", add_junk)):
        (tmp_path / name).mkdir()
        result = do(change(prepare(tmp_path / name, False)), client)
        found.append(
            [
                sorted(document["id"] for document in cluster["documents"])
                for cluster in result["clusters"]
                if cluster["significant"]
            ]
        )
    assert [len(documents) for documents in found[0]] == [15]
    assert found[0] == found[1]


def test_the_clusters_are_those_of_a_batch_without_copies(tmp_path, client, result):
    """No figure differs."""
    alone = do(prepare(tmp_path, False), client)
    assert [c["index"] for c in result["clusters"] if c["significant"]] == [1]
    assert alone["copies"] == []
    for mine, other in zip(result["clusters"], alone["clusters"], strict=True):
        assert other.pop("n_copies") == 0
        told = {key: value for key, value in mine.items() if key != "n_copies"}
        told["documents"] = [
            {key: value for key, value in document.items() if key != "copies"}
            for document in mine["documents"]
        ]
        # Copies are members when clusters are compared with labels.
        told.pop("evaluation", None)
        other.pop("evaluation", None)
        assert told == other


def test_a_cluster_lists_the_copies_of_its_documents(folder, result):
    cluster = result["clusters"][0]
    (document,) = [one for one in cluster["documents"] if one["id"] == "unusual-2"]
    assert document["copies"] == [
        {"row": row, "id": f"unusual-again-{n}", "labels": ["unusual"]}
        for n, row in enumerate((84, 85))
    ]
    assert cluster["n_copies"] == 2
    assert cluster["size"] == len(cluster["documents"])
    assert not {"unusual-again-0", "spam-0"} & {one["id"] for one in cluster["documents"]}
    found = cluster["size"] + 2
    assert cluster["evaluation"]["recall"] == pytest.approx(found / 17)
    with (folder / "out/clusters.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["cluster"] == "1"]
    place = [row["id"] for row in rows].index("unusual-2")
    told = [(row["id"], row["copy_of"], row["labels"]) for row in rows[place : place + 3]]
    assert told == [
        ("unusual-2", "", "unusual"),
        ("unusual-again-0", "62", "unusual"),
        ("unusual-again-1", "62", "unusual"),
    ]
    assert len(rows) == found


def test_groups_of_copies_that_training_lacks_are_a_finding(result, capsys):
    """The circular has a match in training, but as many near-duplicates."""
    spam, unusual = result["copies"]
    assert (spam["size"], spam["cluster"]) == (5, None)
    assert [one["id"] for one in spam["documents"]] == ["spam", *(f"spam-{n}" for n in range(4))]
    assert set(spam["words"]) < set(SPAM.split())
    assert (unusual["size"], unusual["cluster"]) == (3, 1)
    print_clusters(Result.from_json(result))
    out = " ".join(capsys.readouterr().out.split())
    assert "near-duplicates: 2 groups (8 documents) without a match in training;" in out
    assert "the largest: 5 documents, qq" in out
    assert f"{result['clusters'][0]['size']} + 2" in out


def test_the_page_tells_of_copies_after_the_clusters(folder, result):
    page = (folder / "out/report.html").read_text()
    assert "8 documents in 2 groups of near-duplicates" in page
    assert page.index('id="cluster-1"') < page.index('id="copies"') < page.index('id="evaluation"')
    assert "2 near-duplicates</summary>" in page
    assert "4 near-duplicates</summary>" in page
    assert SPAM[:100] in page
    assert 'in <a href="#cluster-1">cluster 1</a>' in page


def test_copies_may_be_kept(folder, client, tmp_path):
    kept = do(folder, client, "corpus.copies=keep", f"output={tmp_path / 'kept'}")
    assert "copies" not in kept
    assert "copies" not in kept["corpus"]["test"]
    assert all("n_copies" not in cluster for cluster in kept["clusters"])
    store = CorpusStore.open(tmp_path / "kept/corpus/test.zarr")
    assert store.n_copies is None


def test_every_number_of_workers_gives_the_same_bytes(folder, client, result, tmp_path):
    with local_client(1) as other:
        do(folder, other, f"output={tmp_path / 'one'}")
    for name in ("result.json", "clusters.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_copies_in_a_sweep(tmp_path, client):
    """Near-duplicates of a document of an unusual cluster belong to it; others are reported
    separately, unless the normal documents have them too."""
    sweeping.prepare(tmp_path)
    texts = {
        "spam": " ".join(make_words("qq", 25)),
        "circular": " ".join([*sweeping.SUBJECTS[0], *sweeping.SUBJECTS[1], *make_words("oo", 3)]),
        "again": sweeping.make_documents("day1", 30, 12)[30]["text"],
    }
    with (tmp_path / "normal.jsonl").open("a") as file:
        file.write(sweeping.make_lines([{"id": "circular", "text": texts["circular"]}]))
    sweeping.add_day(tmp_path, 1, n_unusual=12)
    path = tmp_path / "repository" / "1.jsonl"
    with path.open("a") as file:
        for name, text in texts.items():
            more = [{"id": f"{name}-{n}", "text": text} for n in range(3)]
            file.write(sweeping.make_lines(more))
    sweeping.age(path)
    outcome = sweeping.run_sweep(tmp_path, client)
    folder = tmp_path / "out/sweeps/0001"
    result = json.loads((folder / "result.json").read_bytes())
    groups = {group["documents"][0]["id"]: group for group in result["copies"]}
    assert {name: (group["size"], group["cluster"]) for name, group in groups.items()} == {
        "day1-unusual-0": (4, 1),
        "spam-0": (3, None),
    }
    assert all(one["sweep"] == 1 for group in groups.values() for one in group["documents"])
    (alert,) = outcome.alerts
    told = {one.id for one in alert.clusters[0].documents}
    assert {"day1-unusual-0", "again-0", "again-1", "again-2"} <= told
    assert not {"spam-0", "circular-0"} & told
    assert "7 documents in 2 groups of near-duplicates" in (folder / "report.html").read_text()
