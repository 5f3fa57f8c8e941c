from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.key_rules import FORMATS, RULES
from atd_dask.config.loader import load, make_table
from atd_dask.config.run_config import RunConfig, as_dict, as_single, fingerprint
from atd_dask.config.settings import describe_keys
from atd_dask.errors import ConfigError
from atd_dask.text import datasets
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers import COUNT_FORMATS, TEXT_FORMATS

ROOT = Path(__file__).resolve().parent.parent.parent

COMPLETE = """\
name: reuters
seed: 1
output: runs/reuters
cluster:                         # optional; exactly one of local, address, scheduler_file, class
  local: {workers: 1, threads: auto, memory_limit: auto}
corpus:
  train:      {format: ldac, path: t.ldac.gz, labels: t.labels, vocabulary: words.txt}
  validation: {format: ldac, path: v.ldac.gz, labels: v.labels, vocabulary: words.txt}
  test:       {format: ldac, path: b.ldac.gz, labels: b.labels, vocabulary: words.txt}
null_model:
  topics: {max: 35, min: 10, step: 1, widen: true, limit: 200}  # or a fixed number: topics: 21
  topic_model: ptm
  restarts: 1
  tolerance: 1.0e-4
  max_iterations: 100
detection:
  rules: default
  seeds: 100
  settle: true
  remember: true
  unseen: use
  stop: membership
  pool: validation+batch
  donors: 10
  membership:   {replicates: 1000, level: 0.99, test_below: 0.2, min_size: 4, patience: 2}   # B1
  significance: {replicates: 99, level: 0.01, searches: 39}
  failures: 3
  max_clusters: null
  max_size: null
  repeats: 1
evaluation: {anomalous: [ship, coffee]}
compatibility: paper
"""


def write(folder: Path, text: str, *files: str) -> Path:
    for file in files:
        (folder / file).write_text("")
    path = folder / "c.yaml"
    path.write_text(text)
    return path


def find_problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError, match=r" \(.+\)$") as caught:
        load(path, overrides)
    return [problem.replace(str(path), "c.yaml") for problem in caught.value.problems]


def test_complete_configuration(tmp_path: Path) -> None:
    files = [f"{part}.{kind}" for part in "tvb" for kind in ("ldac.gz", "labels")]
    config = load(write(tmp_path, COMPLETE, "words.txt", *files))
    assert config.name == "reuters"
    assert config.output == "runs/reuters"
    assert config.cluster == ClusterOptions(local=LocalOptions(1, "auto", "auto"))
    assert config.corpus.test == Source(
        format="ldac",
        path=str(tmp_path / "b.ldac.gz"),
        labels=str(tmp_path / "b.labels"),
        vocabulary=str(tmp_path / "words.txt"),
    )
    assert config.evaluation.anomalous == ("ship", "coffee")


def test_the_defaults_are_those_of_the_complete_configuration(tmp_path: Path) -> None:
    config = as_dict(load(write(tmp_path, "corpus: {dataset: synthetic}\n")))
    complete = yaml.safe_load(COMPLETE)
    for section in ("seed", "null_model", "detection", "compatibility"):
        assert config[section] == complete[section]
    assert config["name"] == "c"
    assert config["output"] == "runs/c"
    assert config["cluster"] is None
    assert config["corpus"]["text"] == as_dict(TextOptions())


def test_all_mistakes_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """\
seed: -1
corpus:
  dataset: reuter
  txt: {}
null_model:
  topics:
    max: 1
detection:
  membership: {level: 1.5}
"""
    assert find_problems(write(tmp_path, text), "detection.seeds=0", "sed=1") == [
        "seed must be at least 0, got -1 (c.yaml, line 1)",
        "corpus.dataset must be reuters, newsgroups or synthetic, got reuter (c.yaml, line 3)",
        "corpus.txt is not a known key: did you mean corpus.text? (c.yaml, line 4)",
        "null_model.topics.max must be at least 2, got 1 (c.yaml, line 7)",
        "detection.membership.level must be more than 0 and less than 1, got 1.5 (c.yaml, line 9)",
        "sed is not a known key: did you mean seed? (--set sed=1)",
        "detection.seeds must be at least 1, got 0 (--set detection.seeds=0)",
    ]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0", "must be at least 1 and at most 100, got 0"),
        ("-1", "must be at least 1 and at most 100, got -1"),
        ("10000", "must be at least 1 and at most 100, got 10000"),
        ("three", "must be a whole number, got three"),
        ("2.5", "must be a whole number, got 2.5"),
    ],
)
def test_repeats_are_a_small_number(tmp_path: Path, value: str, rule: str) -> None:
    path = write(tmp_path, f"corpus: {{dataset: synthetic}}\ndetection: {{repeats: {value}}}\n")
    assert find_problems(path) == [f"detection.repeats {rule} (c.yaml, line 2)"]


def test_paper_rules_are_repeated_where_that_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "corpus: {dataset: synthetic}\ndetection: {rules: paper}\n")
    assert load(path).detection.repeats == 1
    assert load(path, ["detection.repeats=3"]).detection.repeats == 3


def test_a_single_detection_does_not_depend_on_repeats(tmp_path: Path) -> None:
    path = write(tmp_path, "corpus: {dataset: synthetic}\n")
    one, many = (load(path, [f"detection.repeats={n}"]).detection for n in (1, 5))
    assert as_single(one) == as_single(many)
    assert as_dict(one).keys() - as_single(one).keys() == {"repeats"}


def test_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "name: a\ncorpus: {dataset: synthetic}\nnull_model: {topics: 21}\n")
    config = load(path, ["null_model.topics.min=5", "null_model.topics.max=7", "name=b"])
    assert (config.null_model.topics.max, config.null_model.topics.min) == (7, 5)
    assert config.output == "runs/b"
    config = load(path, ["output=/tmp/elsewhere"])
    assert config.output == "/tmp/elsewhere"


def test_a_fixed_number_of_topics(tmp_path: Path) -> None:
    path = write(tmp_path, "corpus: {dataset: synthetic}\nnull_model: {topics: 21}\n")
    topics = load(path).null_model.topics
    assert (topics.max, topics.min, topics.step) == (21, 21, 1)
    path = write(tmp_path, "corpus: {dataset: synthetic}\nnull_model: {topics: 1}\n")
    assert find_problems(path) == ["null_model.topics must be at least 2, got 1 (c.yaml, line 2)"]


def test_paper_rules_give_way_to_what_is_given(tmp_path: Path) -> None:
    text = "corpus: {dataset: synthetic}\ndetection: {rules: paper, membership: {level: 0.9}}\n"
    config = load(write(tmp_path, text), ["detection.pool=train"])
    detection = config.detection
    assert detection.seeds == 1
    assert detection.stop == "membership"
    assert detection.pool == "train"
    assert detection.membership.level == 0.9
    assert detection.membership.replicates == 1000


def test_copies_are_grouped_but_by_the_rules_of_others(tmp_path: Path) -> None:
    corpus = "corpus: {dataset: synthetic}\n"
    paper, authors = "detection: {rules: paper}\n", "compatibility: authors\n"
    for text, expected in (("", "group"), (paper, "keep"), (authors, "keep")):
        path = write(tmp_path, corpus + text)
        assert load(path).corpus.copies == expected
        assert load(path, ["corpus.copies=group"]).corpus.copies == "group"
        assert load(path, ["corpus.copies=keep"]).corpus.copies == "keep"
    (problem,) = find_problems(write(tmp_path, "corpus: {dataset: synthetic, copies: drop}\n"))
    assert problem == "corpus.copies must be group or keep, got drop (c.yaml, line 1)"


def test_mistakes_are_found_under_paper_rules(tmp_path: Path) -> None:
    text = "corpus: {dataset: synthetic}\ndetection: {rules: paper, membership: 5}\n"
    assert find_problems(write(tmp_path, text)) == [
        "detection.membership must be a mapping of keys to values, got 5 (c.yaml, line 2)"
    ]


def test_text_of_a_named_dataset_follows_the_paper_where_nothing_is_given(tmp_path: Path) -> None:
    text = "corpus: {dataset: reuters, text: {min_letters: 4, letters: unicode}}\n"
    found = load(write(tmp_path, text)).corpus.text
    paper = datasets.preparation("reuters")
    assert found.max_distinct == paper.max_distinct
    assert found.min_letters == 4
    assert found.letters == "unicode" != paper.letters
    text = "corpus: {dataset: reuters, text: {min_distinct: 500}}\n"
    (problem,) = find_problems(write(tmp_path, text))
    assert problem.startswith("corpus.text.min_distinct must be at most corpus.text.max_distinct")


def test_anomalous_labels_of_the_corpus_are_evaluated(tmp_path: Path) -> None:
    text = "corpus: {dataset: reuters, anomalous: [ship]}\n"
    assert load(write(tmp_path, text)).evaluation.anomalous == ("ship",)
    config = load(write(tmp_path, text), ["evaluation.anomalous=[coffee]"])
    assert config.evaluation.anomalous == ("coffee",)


@pytest.mark.parametrize("name", ["a/b", ".hidden", "..", "a\\b", ""])
def test_names_that_are_no_folder(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "corpus: {dataset: synthetic}\n")
    (problem,) = find_problems(path, f"name={json.dumps(name)}")
    assert problem.startswith("name must be ")


def test_fingerprints_depend_on_settings_alone(tmp_path: Path) -> None:
    one = load(write(tmp_path, "corpus: {dataset: synthetic}\nseed: 3\n"))
    (tmp_path / "other").mkdir()
    same = load(write(tmp_path / "other", "seed: 3\n# a remark\ncorpus:\n  dataset: synthetic\n"))
    assert fingerprint(one) == fingerprint(same)
    assert len(fingerprint(one)) == 64
    assert fingerprint(one.corpus) != fingerprint(one)
    changed = load(tmp_path / "c.yaml", ["null_model.tolerance=1e-5"])
    assert fingerprint(changed) != fingerprint(one)
    assert fingerprint(changed.corpus) == fingerprint(one.corpus)


def test_the_canonical_form_is_read_back_as_the_same(tmp_path: Path) -> None:
    text = """\
corpus: {dataset: reuters, anomalous: [ship]}
cluster: {class: a.B, kwargs: {n: 1, m: [x, null]}, adapt: {maximum: 4}}
"""
    config = load(write(tmp_path, text))
    canonical = json.loads(json.dumps(as_dict(config)))
    assert canonical["cluster"]["class"] == "a.B"
    for section in ("train", "validation", "test"):
        del canonical["corpus"][section]
    del canonical["corpus"]["validation_share"]
    (tmp_path / "again.yaml").write_text(json.dumps(canonical))
    assert load(tmp_path / "again.yaml") == config


def test_formats_are_those_of_the_readers() -> None:
    assert set(FORMATS) == {*TEXT_FORMATS, *COUNT_FORMATS, "synthetic", "zarr"}


def test_every_rule_belongs_to_a_field_and_every_key_has_a_meaning() -> None:
    for cls, rules in RULES.items():
        assert is_dataclass(cls)
        assert set(rules) == {field.name for field in fields(cls)}
    assert all(entry.meaning for entry in describe_keys(RunConfig, RULES))


def test_the_page_on_configuration_has_the_table_of_keys() -> None:
    text = (ROOT / "conf" / "README.md").read_text(encoding="utf-8")
    table = text.partition("<!-- keys -->")[2].partition("<!-- /keys -->")[0]
    assert table.strip() == make_table(), "put in what `atd-dask validate --keys` prints"


@pytest.mark.parametrize("file", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda file: file.name)
def test_every_configuration_is_valid(file: Path, tmp_path: Path) -> None:
    # A newcomer's documents are not in the project: they lie beside a copy of the file.
    copy = write(tmp_path, file.read_text(encoding="utf-8"), "normal.jsonl", "batch.jsonl")
    (tmp_path / "repository").mkdir()
    config = load(copy)
    assert config.cluster is None, "conf/ says nothing about where it runs"


def test_configurations_are_there() -> None:
    names = {file.stem for file in (ROOT / "conf").glob("*.yaml")}
    assert {"synthetic", "reuters", "newsgroups", "own-documents", "sweep"} <= names


def list_keys(value: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(sorted({part for key in value for part in key.split(".")}))


KEYS = list_keys([entry.key for entry in describe_keys(RunConfig, RULES)])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["paper", "synthetic", "jsonl", "auto", "s3://a/b", "x://y", "1e-4", "."])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=12,
)
FUZZ = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=200,
)


def check_that_only_sentences_come_out(path: Path, overrides: list[str]) -> None:
    problems: tuple[str, ...] = ()
    try:
        load(path, overrides)
    except ConfigError as error:
        problems = error.problems or ("",)
    assert all(len(problem.splitlines()) == 1 for problem in problems)


@FUZZ
@given(st.text() | st.binary())
def test_any_text_gives_a_configuration_or_sentences(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    check_that_only_sentences_come_out(path, [])


@FUZZ
@given(st.dictionaries(KEYS, VALUES, max_size=6), st.lists(st.text(max_size=12), max_size=2))
def test_any_structure_gives_a_configuration_or_sentences(
    tmp_path: Path, tree: dict[str, Any], overrides: list[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    check_that_only_sentences_come_out(path, overrides)


@FUZZ
@given(st.data())
def test_any_damage_to_a_good_configuration_gives_sentences(
    tmp_path: Path, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(COMPLETE)))
    stop = data.draw(st.integers(start, min(start + 40, len(COMPLETE))))
    text = COMPLETE[:start] + data.draw(st.text(max_size=8)) + COMPLETE[stop:]
    path = tmp_path / "c.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    check_that_only_sentences_come_out(path, [])
