"""A job that is killed again and again gives the result of one that nobody disturbs.

python -m pytest -m long tests/pipelines/test_chaos.py -s
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

COMMAND = [sys.executable, "-c", "from atd_dask.cli.command import main; main()"]

CONFIG = """
name: job
cluster: {local: {workers: 2, threads: 1}}
corpus:
  train: {format: jsonl, path: train.jsonl}
  test: {format: jsonl, path: test.jsonl}
null_model: {topics: {max: 14, min: 4}, restarts: 2}
detection:
  seeds: 4
  membership: {replicates: 200}
  significance: {replicates: 500, searches: 5}
"""
OUTPUTS = ("result.json", "clusters.csv")
N_KILLS = 20
STAGES = ("start", "ingest", "train", "detect", "report")
# Without these a stage that a kill came too late for is done again.
MADE = {"detect": "result.json", "report": "report.html"}


def prepare(folder: Path) -> None:
    """Documents about six subjects, and a batch in which some are about a seventh beside."""
    rng = random.Random(5)

    def words(subject: int, n: int) -> list[str]:
        # Letters alone make words.
        letters = "abcdefghij"
        numbers = (int(60 * rng.random() ** 2) for _ in range(n))
        return [f"{letters[subject]}word{letters[n // 10]}{letters[n % 10]}" for n in numbers]

    def write(name: str, n_docs: int, n_odd: int) -> None:
        lines = []
        for row in range(n_docs + n_odd):
            text = words(rng.randrange(6), 40)
            text += words(7, 30) if row >= n_docs else words(rng.randrange(6), 10)
            rng.shuffle(text)
            lines.append(json.dumps({"id": f"{name}-{row}", "text": " ".join(text)}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    write("train", 1500, 0)
    write("test", 400, 25)
    # The subject is not new as such: its words occur here and there.
    with (folder / "train.jsonl").open("a") as file:
        for row in range(60):
            text = " ".join(words(row % 6, 40) + words(7, 12))
            file.write(json.dumps({"id": f"train-more-{row}", "text": text}) + "\n")
    (folder / "conf.yaml").write_text(CONFIG)


class Job:
    """A run in a process group of its own, and the log that it writes."""

    def __init__(self, folder: Path, log: IO[bytes]) -> None:
        self._log = Path(log.name)
        self.process = subprocess.Popen(
            [*COMMAND, "run", "conf.yaml", "--log-format", "json"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def read_log(self) -> list[str]:
        return self._log.read_text().splitlines()

    def events(self) -> Iterator[tuple[float, str, str]]:
        """When each task began or ended, and which it was."""
        for line in self.read_log():
            with suppress(ValueError):  # a line that is being written
                told = json.loads(line)
                if told["event"] in ("start", "end"):
                    yield _seconds(told["time"]), told["event"], _stage_of(told["stage"])

    def stage(self) -> str:
        """The stage in which the job is, by what it has said."""
        began = [stage for _, event, stage in self.events() if event == "start"]
        return began[-1] if began else "start"

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Kills all that is left of the job, and waits until it is gone."""
        self.send(signal.SIGKILL)
        self.process.wait(timeout=60)
        deadline = time.monotonic() + 60
        while any(_is_of_group(process, self.process.pid) for process in psutil.process_iter()):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def _stage_of(task: str) -> str:
    if task in ("train", "report"):
        return task
    if task == "detect" or task.startswith(("grow ", "test ", "search ")):
        return "detect"
    return "ingest"


def _is_of_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


@contextmanager
def start(folder: Path) -> Iterator[Job]:
    with (folder / "log").open("wb") as log:
        job = Job(folder, log)
        try:
            yield job
        finally:
            job.end()


def finish(folder: Path) -> Job:
    with start(folder) as job:
        assert job.process.wait(timeout=600) == 0, "\n".join(job.read_log())
    return job


def read_outputs(folder: Path) -> list[bytes]:
    return [(folder / "runs" / "job" / name).read_bytes() for name in OUTPUTS]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], dict[str, float]]:
    """What the job gives, and how long each stage of it takes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder)
    finish(folder)  # compiles what it needs
    subprocess.run(["rm", "-r", "runs"], cwd=folder, check=True)
    began = time.time()
    job = finish(folder)
    result = read_outputs(folder)
    clusters = json.loads(result[0])["clusters"]
    assert clusters[0]["significant"]
    assert clusters[0]["size"] >= 20
    times: dict[str, list[float]] = {}
    for moment, _, stage in job.events():
        times.setdefault(stage, []).append(moment)
    assert list(times) == list(STAGES[1:])
    seconds = {stage: max(of) - min(of) for stage, of in times.items()}
    return result, seconds | {"start": min(times["ingest"]) - began}


def disturb(folder: Path, number: int, stage: str, after: float) -> tuple[str, list[str]] | None:
    """Starts the job and sends it a signal some seconds after a stage began; gives the stage in
    which it was, and its log. None if the job came to its end before."""
    if stage in MADE:
        with suppress(FileNotFoundError):
            (folder / "runs" / "job" / MADE[stage]).unlink()
    with start(folder) as job:
        deadline = time.monotonic() + 600
        while not job.ended and STAGES.index(job.stage()) < STAGES.index(stage):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(after)
        if job.ended:
            assert job.process.returncode == 0, "\n".join(job.read_log())
            return None
        met = job.stage()
        job.send(number)
        if number != signal.SIGKILL:
            job.process.wait(timeout=60)
            # Before there is anything to stop, Python itself ends by the signal.
            statuses = (0, 128 + number) if met != "start" else (0, 128 + number, -number)
            assert job.process.returncode in statuses, "\n".join(job.read_log())
            if job.process.returncode == 0:  # it had just come to its end
                return None
    return met, job.read_log()


def draw_moments(seed: int, n: int, seconds: dict[str, float]) -> list[tuple[str, float]]:
    """Random moments of a job, as many of each stage, in the order of the stages."""
    rng = random.Random(seed)
    chosen = [STAGES[number % len(STAGES)] for number in range(n)]
    return [(stage, rng.random() * seconds[stage]) for stage in sorted(chosen, key=STAGES.index)]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_job_that_is_killed_again_and_again(
    undisturbed: tuple[list[bytes], dict[str, float]], tmp_path: Path
) -> None:
    expected, seconds = undisturbed
    prepare(tmp_path)
    kills: Counter[str] = Counter()
    for stage, after in draw_moments(1, N_KILLS, seconds):
        met = None
        while met is None:
            met = disturb(tmp_path, signal.SIGKILL, stage, after)
            after /= 2  # what is left of a stage that was cut off takes less time
        kills[met[0]] += 1
        print(f"killed so far in: {dict(kills)}", flush=True)
    finish(tmp_path)
    assert read_outputs(tmp_path) == expected
    assert kills.total() == N_KILLS
    assert {"ingest", "train", "detect", "report"} <= set(kills)
    left = [path.name for path in (tmp_path / "runs" / "job").rglob(".*")]
    assert not left, "a finished run tidies up after those that were killed"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_job_that_is_stopped_again_and_again(
    undisturbed: tuple[list[bytes], dict[str, float]], tmp_path: Path
) -> None:
    """Ctrl-C goes to the client, the scheduler and the workers alike."""
    expected, seconds = undisturbed
    prepare(tmp_path)
    for stage, after in draw_moments(2, 10, seconds):
        met = disturb(tmp_path, signal.SIGINT, stage, after)
        if met is None or met[0] == "start":
            continue  # at its end already, or before there was anything to stop in good order
        events = [json.loads(line) for line in met[1]]
        assert events[-1]["facts"] == {
            "message": "Stopped on request; run the same command again to resume."
        }
        assert [event for event in events if event["level"] != "info"] == events[-1:]
    finish(tmp_path)
    assert read_outputs(tmp_path) == expected
