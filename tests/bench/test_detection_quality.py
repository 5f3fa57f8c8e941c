from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from atd_dask.bench import detection_quality
from atd_dask.bench.detection_quality import list_variants, read_reference, split_anew
from atd_dask.cli.command import atd
from atd_dask.config import paper_corpora
from atd_dask.config.run_config import TopicsConfig
from atd_dask.distribution.engine.runner import Runner, hold
from atd_dask.errors import InputError
from tests.bench.test_training_quality import write_corpus
from tests.clusters import local_client
from tests.kernels.strategies import make_block
from tests.kernels.test_bootstrap import dense


def make_parts():
    counts = np.arange(1, 61).reshape(20, 3)
    labels = [("a", "b", "c", "d")[d % 4 : d % 4 + 1] for d in range(20)]
    bounds = {"train": slice(12), "validation": slice(12, 15), "test": slice(15, 20)}
    parts = {part: make_block(counts[rows]) for part, rows in bounds.items()}
    return counts, parts, {part: labels[rows] for part, rows in bounds.items()}


def test_another_split_has_its_classes_in_the_batch_alone():
    counts, parts, labels = make_parts()
    blocks, new_labels = split_anew(parts, labels, ("d",), ("a",))
    assert sum(label == ("a",) for label in new_labels["test"]) == 5
    for part in ("train", "validation"):
        assert all(label in (("b",), ("c",)) for label in new_labels[part])
    seen = np.vstack([dense(blocks[part], 3) for part in ("train", "validation", "test")])
    left = [row for row in counts.tolist() if (row[0] - 1) // 3 % 4 != 3]
    assert sorted(seen.tolist()) == left


def test_a_class_without_documents_is_a_sentence():
    _, parts, labels = make_parts()
    with pytest.raises(InputError, match="must have documents, but x has none"):
        split_anew(parts, labels, ("d",), ("x",))


def test_the_variants_differ():
    variants = list_variants()
    assert len({str(config) for config in variants.values()}) == len(variants)
    assert variants["rules: paper"].seeds == 1


def add_up(shared, piece):
    return float(shared["numbers"].sum()) + piece


def test_what_is_large_reaches_the_workers_in_pieces():
    """Dask warns about a graph that is too large, and here a warning is an error."""
    shared = {"numbers": np.random.default_rng(1).random(2_000_000)}
    expected = [float(shared["numbers"].sum()) + piece for piece in range(4)]
    with local_client(2) as client:
        assert list(Runner(client).map(add_up, shared, range(4))) == expected
        assert (
            Runner(client).ask(add_up, Runner(client).keep(hold, shared, [None]), [(0, 1), (0, 2)])
            == expected[1:3]
        )


def test_what_came_in_pieces_is_made_again_when_its_worker_is_gone():
    shared = {"numbers": np.random.default_rng(1).random(2_000_000)}
    with local_client(2) as client:
        runner = Runner(client)
        kept = runner.keep(hold, shared, [None])
        first = runner.ask(add_up, kept, [(0, 1)])
        (holder,) = client.who_has(kept.results[0]).values()
        for worker in client.cluster.workers.values():
            if worker.address in holder:
                client.sync(worker.close)
        assert runner.ask(add_up, kept, [(0, 1)]) == first


def test_the_command(tmp_path, monkeypatch):
    few = {name: list_variants()[name] for name in ("default", "rules: paper")}
    monkeypatch.setattr(detection_quality, "list_variants", lambda: few)
    monkeypatch.setattr(detection_quality, "TIMED_REPLICATES", 25)
    monkeypatch.setitem(paper_corpora.TOPICS, "reuters", TopicsConfig(max=3, min=2))
    monkeypatch.setitem(paper_corpora.ANOMALOUS, "reuters", ("x",))
    write_corpus(tmp_path)
    arguments = ["bench", "detect", "reuters", "--corpora", str(tmp_path), "--seeds", "1"]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    speed, table = result.stdout.rstrip("\n").split("\n\n")
    assert len(speed.splitlines()) == 6
    assert [line.split("  ")[1].strip() for line in table.splitlines()[1:]] == list(few)


def test_the_null_model_of_the_authors_is_read(tmp_path):
    shared = np.array([0.5, 0.3, 0.2])
    beta = np.array([[0.6, 0.2, 0.2], [0.5, 0.3, 0.2]])
    switches = np.array([[1, 1, 0], [0, 0, 0]])
    path = tmp_path / "reuters_null_model.npz"
    np.savez(path, shared=shared, word_switch_u=switches, beta_topics=beta)
    table = read_reference("reuters", str(tmp_path))
    np.testing.assert_array_equal(table.dense(), beta)
    assert table.specific_words().tolist() == [2, 0]


def test_a_folder_without_the_authors_null_model_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="null model of the authors must be a readable file, got"):
        read_reference("reuters", str(tmp_path))


def test_with_the_authors_null_model_the_speed_alone_is_measured(monkeypatch):
    asked = []

    def measure(*arguments):
        asked.append(arguments[:3])
        return [{"what": "growth"}]

    monkeypatch.setattr(detection_quality, "bench_speed", measure)
    monkeypatch.setattr(detection_quality, "bench_detection", None)
    result = CliRunner().invoke(atd, ["bench", "detect", "--reference", "golden"])
    assert result.exit_code == 0, result.stderr
    assert asked == [("reuters", None, "golden")]
    assert result.stdout.split() == ["what", "growth"]
