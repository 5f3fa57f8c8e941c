from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from atd_dask.bench import order_search
from atd_dask.bench.order_search import (
    PassCounter,
    Searched,
    search,
    tabulate_orders,
    tabulate_threads,
)
from atd_dask.bench.usage import Usage
from atd_dask.cli.command import atd
from atd_dask.config import paper_corpora
from atd_dask.config.run_config import TopicsConfig
from atd_dask.distribution import training as driver
from atd_dask.distribution.training import Training, train_restarts
from atd_dask.kernels.training import Convergence, OrderRange
from tests.bench.test_training_quality import write_corpus
from tests.distribution.test_training import make_corpus


def test_passes_and_orders_are_counted():
    training = Training(make_corpus(), OrderRange(16, 2), Convergence(), seed=3)
    counter = PassCounter(1.0)
    (end,) = train_restarts(training, 1, checkpointer=counter)
    fits = sum(record.iterations for record in end.records)
    assert fits < counter.passes <= fits + 10 + 2 * len(end.records)
    assert counter.orders == {record.n_topics for record in end.records}
    found = search(training)
    assert found.bic == min(record.bic for record in end.records)
    assert (found.passes, found.n_orders) == (counter.passes, len(counter.orders))
    assert found.cpu_seconds > 0


def test_a_pass_over_a_sample_counts_as_its_share(monkeypatch):
    monkeypatch.setattr(driver, "LARGE_DOCUMENTS", 100)
    monkeypatch.setattr(driver, "SAMPLE_DOCUMENTS", 100)
    monkeypatch.setattr(order_search, "SAMPLE_DOCUMENTS", 100)
    training = Training(make_corpus(), OrderRange(6, 3), Convergence(), seed=3)
    told = []
    (end,) = train_restarts(training, 1, on_progress=lambda _, done: told.append(done))
    found = search(training)
    whole = sum(record.iterations for record in end.records)
    assert found.n_orders == len({done.n_topics for done in told}) > 1
    assert whole < found.passes, "the sample counts"
    assert (found.passes * 4).is_integer(), "in quarters"


def make_searched(bic, **figures):
    given = {"n_topics": 10, "cpu_seconds": 1.0, "passes": 50.0, "n_orders": 6} | figures
    return Searched(bic, **given)


def test_differences_are_shown_for_each_seed_and_for_all():
    pairs = [
        (make_searched(1001.0), make_searched(1000.0, passes=90.0, n_orders=12)),
        (make_searched(998.0, n_topics=12), make_searched(1000.0)),
        (make_searched(1000.0), make_searched(1000.0)),
    ]
    *rows, whole = tabulate_orders("some", (4, 5, 6), pairs)
    assert [row["seed"] for row in (*rows, whole)] == ["4", "5", "6", "all"]
    assert [row["difference, %"] for row in rows] == ["0.1000", "-0.2000", "0.0000"]
    assert [row["± standard error"] for row in rows] == ["", "", ""]
    assert rows[0]["passes"] == "50 / 90"
    assert rows[0]["numbers tried"] == "6 / 12"
    assert rows[1]["topics"] == "12 / 10"
    assert whole["difference, %"] == "-0.0333 (-0.2000 to 0.1000)"
    assert whole["± standard error"] == "0.0882"
    assert whole["lower / same / higher"] == "1 / 1 / 1"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(atd, ["bench", "orders", *arguments])


def read_tables(result: Result) -> list[list[list[str]]]:
    tables = result.stdout.rstrip("\n").split("\n\n")
    return [
        [[cell.strip() for cell in line.split("  ") if cell] for line in table.splitlines()]
        for table in tables
    ]


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(paper_corpora.TOPICS, "reuters", TopicsConfig(max=5, min=2))
    monkeypatch.setitem(paper_corpora.ANOMALOUS, "reuters", ("x",))
    write_corpus(tmp_path)
    result = invoke(
        *("reuters", "--corpora", str(tmp_path), "--seeds", "2", "--first", "7"),
        *("--documents", "200", "--words", "400", "--topics", "3"),
    )
    assert result.exit_code == 0, result.stderr
    corpus, generated = read_tables(result)
    assert corpus[0][:4] == ["corpus", "seed", "topics", "BIC"]
    assert [row[:3] for row in corpus[1:]] == [
        ["reuters", seed, "3 / 3"] for seed in ("7", "8", "all")
    ]
    assert [row[:2] for row in generated[1:]] == [
        ["200 generated documents", seed] for seed in ("7", "8", "all")
    ]


def test_threads_are_compared(tmp_path, monkeypatch):
    monkeypatch.setitem(paper_corpora.TOPICS, "reuters", TopicsConfig(max=5, min=2))
    monkeypatch.setitem(paper_corpora.ANOMALOUS, "reuters", ("x",))
    write_corpus(tmp_path)
    result = invoke("reuters", "--corpora", str(tmp_path), "--seeds", "1", "--threads")
    assert result.exit_code == 0, result.stderr
    ((names, one, two),) = read_tables(result)
    assert names == ["corpus", "threads", "seconds", "CPU seconds", "times as fast"]
    assert [row[:2] for row in (one, two)] == [["reuters", "1"], ["reuters", "2"]]
    assert one[4] == "1.00"


def test_speed_is_compared_search_by_search():
    used = {
        1: [Usage(seconds=4.0, cpu_seconds=4.0), Usage(6.0, 6.0), Usage(9.0, 6.0)],
        2: [Usage(seconds=2.0, cpu_seconds=4.4), Usage(4.0, 6.6), Usage(3.0, 6.0)],
    }
    one, two = tabulate_threads("some", used)
    assert one["times as fast"] == "1.00"
    assert two["times as fast"] == "2.00"
    assert two["seconds"] == "3.00 (2.00 to 4.00)"


def test_threads_need_a_corpus():
    result = invoke("--documents", "1000", "--threads")
    assert result.exit_code == 2
    assert "--threads must be given with corpora, got only --documents" in result.stderr


def test_a_mistake_is_a_sentence():
    result = invoke("brown")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "a corpus of the paper must be reuters or newsgroups or synthetic" in result.stderr


@pytest.mark.parametrize("option", ["--seeds", "--documents", "--words", "--topics"])
def test_numbers_have_limits(option):
    result = invoke(option, "0")
    assert result.exit_code == 2
    assert "0 is not in the range" in result.stderr
