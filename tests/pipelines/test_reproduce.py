"""The paper's tables on a small corpus, stopped in the middle and resumed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from atd_dask.baselines import requirements
from atd_dask.baselines.grid import Grid, Point, list_points
from atd_dask.cli.command import atd
from atd_dask.config import paper_corpora
from atd_dask.config.run_config import TopicsConfig
from atd_dask.pipelines import reproduce
from tests.pipelines.hold import hold_after

GRID = Grid(
    topics=(3, 4),
    genres=(2,),
    neighbours=(1, 3),
    nu=(0.1, 0.5),
    gamma=(10.0,),
    near=(3, 5),
    strength=(10.0,),
    clusters=(4,),
)
PROGRAM = """
from atd_dask.config import paper_corpora
from atd_dask.pipelines import reproduce
from tests.pipelines.test_reproduce import make_small
make_small(setattr, dict.__setitem__)
from atd_dask.cli.command import main
main()
"""


def make_small(set_attribute, set_item):
    """A small grid and a short search, in this process."""
    set_attribute(reproduce, "Grid", lambda: GRID)
    set_item(paper_corpora.TOPICS, "reuters", TopicsConfig(max=4, min=2))


def write_corpus(folder):
    """Normal documents of three topics; in the test part ten documents are about coffee on
    ships."""
    own = folder / "reuters"
    own.mkdir(parents=True)
    stream = np.random.default_rng(1)
    n_words = 80
    own.joinpath("vocabulary.txt").write_text("".join(f"word{n}\n" for n in range(n_words)))
    usual = np.full(n_words, 0.3 / n_words)
    for part, n_docs, n_odd in (("train", 120, 0), ("validation", 40, 0), ("test", 50, 10)):
        lines, labels = [], []
        for d in range(n_docs):
            odd = d >= n_docs - n_odd
            p = usual.copy()
            first = 60 if odd else 20 * (d % 3)
            p[first : first + 20] += 0.7 / 20
            counts = stream.multinomial(60, p)
            terms = np.flatnonzero(counts)
            lines.append(" ".join([str(len(terms)), *(f"{t}:{counts[t]}" for t in terms)]))
            labels.append("coffee ship" if odd else f"normal{d % 3}")
        own.joinpath(f"{part}.ldac.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
        own.joinpath(f"{part}.labels").write_text("\n".join(labels) + "\n")


def list_kept(folder):
    return {
        file.name: file.stat().st_mtime_ns
        for file in (folder / "out/reuters/grid").glob("*.checkpoint")
    }


def wait_for(process, condition):
    """Wait until the process has reached a point; ATD and its kernels come first."""
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a reproduction that was stopped in its grid and then finished, what was saved
    when it was stopped, and what the second run printed."""
    folder = tmp_path_factory.mktemp("reproduce")
    write_corpus(folder / "corpora")
    arguments = ["reproduce", "reuters", "--corpora", str(folder / "corpora"), "--seeds", "1"]
    arguments += ["--output", str(folder / "out")]
    held = os.environ | hold_after(folder / "hold", 4, "grid")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, env=held
    ) as process:
        try:
            wait_for(process, lambda: len(list_kept(folder)) >= 2)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 130, err
    kept = list_kept(folder)
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch.setattr, patch.setitem)
        result = CliRunner().invoke(atd, arguments)
    assert result.exit_code == 0, result.stderr
    return folder, kept, result


def test_what_was_finished_when_it_was_stopped_is_not_done_again(made):
    folder, before, result = made
    points = list_points(GRID, [1])
    assert 2 <= len(before) < len(points)
    after = list_kept(folder)
    assert len(after) == len(points)
    assert {name: after[name] for name in before} == before
    assert result.stderr.count("the result is up to date") == 2


def test_the_tables(made):
    folder, _, result = made
    text = (folder / "out/tables.md").read_text()
    assert result.stdout.startswith(text)
    assert "## Table 2. Comparison on Reuters" in text
    assert "## Table 2, given the true numbers. Comparison on Reuters" in text
    assert "## Table 3. Sample words" in text
    row = next(line for line in text.splitlines() if line.startswith("| coffee |"))
    assert row.split("|")[5].strip() == "1.00"
    page = (folder / "out/tables.html").read_text()
    assert "Table 5. Clusters that ATD finds in Reuters" in page
    assert page.count('<svg class="chart"') == 4
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_figures(made):
    folder, _, _ = made
    told = json.loads((folder / "out/tables.json").read_text())["corpora"]["reuters"]
    methods = {method["method"]: method for method in told["methods"]}
    ranking = [
        *("M4", "LB", "SVM_linear", "SVM_RBF", "NN_LDA", "NN_BOW"),
        *("NN_batch", "LR_batch", "KMeans_batch"),
    ]
    assert list(methods) == ["ATD", "ATD_LDA", *ranking]
    assert methods["ATD"]["group_f1"]["mean"] > 0.9
    assert methods["M4"]["individual_f1"] is None
    # The odd documents have words of their own, which every one of these methods sees.
    for name in ("LB", "SVM_linear", "NN_BOW", "NN_batch", "LR_batch", "KMeans_batch"):
        assert methods[name]["individual_f1"]["mean"] > 0.8
    assert methods["NN_BOW"]["group_settings"][0].startswith("topics ")
    assert methods["KMeans_batch"]["group_settings"][0] == "clusters 4"
    assert methods["KMeans_batch"]["group_f1"]["mean"] > 0.9
    informed = {method["method"]: method for method in told["told_the_true_numbers"]}
    assert list(informed) == ranking
    assert informed["LR_batch"]["individual_f1"]["mean"] > 0.8


def test_a_point_is_named_by_its_settings():
    point = Point("m4", (("topics", 20), ("genres", 3)), 2)
    assert point.name == "m4_topics-20_genres-3_seed-2"
    assert point.needs == (Point("topics", (("topics", 20),), 2),)
    assert Point("svm-rbf", (("gamma", 10.0), ("nu", 0.05))).name == "svm-rbf_gamma-10_nu-0.05"


def test_points_stand_after_those_that_they_need():
    points = list_points(Grid(), [1, 2])
    assert len({point.name for point in points}) == len(points)
    for place, point in enumerate(points):
        assert all(other in points[:place] for other in point.needs)


def test_without_scikit_learn(monkeypatch, tmp_path):
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    result = CliRunner().invoke(atd, ["reproduce", "--output", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: the baselines need scikit-learn, which is not installed:"
        " pip install 'atd-dask[baselines]'\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["brown"], "a corpus of the paper must be reuters or newsgroups or synthetic, got brown"),
        (["--corpora", "nowhere"], "the folder of prepared corpora must be"),
        (["--seeds", "0"], "0 is not in the range x>=1"),
    ],
)
def test_a_mistake_is_a_sentence(arguments, sentence, tmp_path):
    result = CliRunner().invoke(atd, ["reproduce", *arguments, "--output", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()
