"""The short form of the benchmark of problems, on real clusters."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from atd_dask.bench import problem_suite
from atd_dask.bench.problem_material import ORDERS
from atd_dask.bench.problem_suite import Request, list_points, make_request
from atd_dask.cli.command import atd
from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.evaluation.problems import list_null_splits, list_problems
from atd_dask.pipelines.bench import bench_problems
from tests.clusters import local_client

SHORT = make_request(
    "both", only=(), nulls=True, seeds=2, rules="default", short=True, baselines=True
)


def read_files(folder):
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".md")
    }


def list_pieces(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "pieces").iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a measurement on two workers, and its tables."""
    folder = tmp_path_factory.mktemp("problems")
    with local_client(workers=2, processes=True) as client:
        text = bench_problems(SHORT, None, str(folder), client, make_progress())
    return folder, text


def test_what_is_measured(made):
    folder, text = made
    content = json.loads((folder / "problems.json").read_text())
    assert [problem["name"] for problem in content["problems"]] == [
        *("generated-choose-01", "generated-choose-02", "generated-report-01")
    ]
    for problem in content["problems"]:
        assert [run["seed"] for run in problem["runs"]] == [1, 2]
        for run in problem["runs"]:
            assert 3 <= run["n_topics"] <= 5
            assert set(run["found"]) <= {group["label"] for group in problem["groups"]}
    assert [(batch["name"], batch["batch"]) for batch in content["nulls"]] == [
        *(("generated-null-choose-01", 0), ("generated-null-choose-01", 1))
    ]
    assert all(0 < batch["p_value"] <= 1 for batch in content["nulls"])
    # A group whose every word is of its new topic is no question.
    plain = [
        run["found"].get(group["label"])
        for problem in content["problems"]
        for run in problem["runs"]
        for group in problem["groups"]
        if group["share"] == 1
    ]
    assert plain
    assert all(found is not None and found["f1"] > 0.8 for found in plain)
    seconds = json.loads((folder / "times.json").read_text())
    parts = {"training", "detection", "baselines", *problem_suite.BASELINES}
    assert set(seconds["generated-choose-01 2"]) == parts
    for run in content["problems"][0]["runs"]:
        assert list(run["baselines"]) == list(problem_suite.BASELINES)
        others = [figures["individual"] for figures in run["baselines"].values()]
        for figures in (run["individual"], *others):
            assert 0 <= figures["auc"] <= 1
            assert 0 <= figures["f1"] <= 1
    assert "| KMeans, 20: F1, AUC; ATD ahead |" in text
    assert "| KMeans, 20: found, F1; false a run; CPU s |" in text
    assert "NN, K = 20: found" not in text
    assert text.count("| choose |") > 6
    assert (folder / "problems.md").read_text().startswith(text)
    assert "## Stability" in text


def test_a_second_time_nothing_is_computed(made):
    folder, text = made
    before, pieces = read_files(folder), list_pieces(folder)
    assert len(pieces) == 3 * 2 * 3 + 4
    with local_client(workers=1) as client:
        again = bench_problems(SHORT, None, str(folder), client, make_progress())
    assert again == text
    assert read_files(folder) == before
    assert list_pieces(folder) == pieces


def test_one_worker_gives_the_same_bytes(made, tmp_path):
    folder, _ = made
    with local_client(workers=1, processes=True) as client:
        bench_problems(SHORT, None, str(tmp_path), client, make_progress())
    assert (tmp_path / "problems.json").read_bytes() == (folder / "problems.json").read_bytes()


def test_when_the_rules_change_the_models_stay(made):
    folder, _ = made
    pieces = list_pieces(folder)
    paper = replace(SHORT, rules="paper", only=("generated-choose-01",), n_seeds=1)
    with local_client(workers=1) as client:
        bench_problems(paper, None, str(folder), client, make_progress())
    new = set(list_pieces(folder)) - set(pieces)
    assert [name.split("_")[:2] for name in new] == [["detection", "generated-choose-01"]]


def test_the_command(made):
    folder, _ = made
    pieces = list_pieces(folder)
    arguments = ["bench", "problems", "--short", "--no-nulls", "--output", str(folder)]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    assert list_pieces(folder) == pieces
    assert "| choose | generated | 2 |" in result.stdout
    assert "| report |" not in result.stdout
    assert "nothing planted" not in result.stdout
    problems = json.loads((folder / "problems.json").read_text())["problems"]
    assert {problem["half"] for problem in problems} == {"choose"}


def test_a_name_that_no_problem_has_is_a_sentence(tmp_path):
    arguments = ["bench", "problems", "--short", "--only", "reuters-*", "--output", str(tmp_path)]
    result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 2
    assert "--only must match a problem, got reuters-*" in result.stderr


def test_corpora_that_no_name_asks_for_are_not_read():
    def asked(*only: str) -> list[str]:
        request = Request(("choose",), only, True, 1, "default", False)
        return [corpus for corpus in ORDERS if request.may_ask_for(corpus)]

    assert asked() == ["reuters", "newsgroups", "generated"]
    assert asked("generated-*") == ["generated"]
    assert asked("gen*", "reuters-null-*") == ["reuters", "generated"]
    assert asked("*-01") == ["reuters", "newsgroups", "generated"]


def test_pieces_stand_after_those_that_they_need():
    request = make_request("both", only=(), nulls=True, seeds=2, rules="default", short=False)
    problems = [*list_problems(1, {}), *list_null_splits(1, {})]
    points = list_points(problems, ORDERS, request, "judge")
    assert len({point.name for point in points}) == len(points)
    for place, point in enumerate(points):
        assert all(other in points[:place] for other in point.needs)
    others = list_points(problems, ORDERS, request, "another judge")
    names = [{p.name for p in some if p.kind == "model"} for some in (points, others)]
    assert names[0] == names[1]
    assert not {p.name for p in points if p.kind != "model"} & {p.name for p in others}


def test_the_rules_are_the_default_or_the_paper_s_with_fewer_replicates():
    request = Request(("choose",), (), True, 1, "default", False)
    assert request.make_rules() == make_rules(make_detection({}))
    assert not replace(request, rules="without-new-words").make_rules().unseen
    paper = replace(request, rules="paper").make_rules()
    assert (paper.replicates, paper.searches, paper.seeds) == (200, 0, 1)
