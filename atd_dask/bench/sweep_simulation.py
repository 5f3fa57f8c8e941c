"""Simulates a year: daily sweeps of a repository with growth, drift and outbreaks.

Documents are generated. Every day brings documents on ten subjects, whose words change slowly: each
day a salient word of one subject starts to fade, and another takes its place, either a new word or
one of another subject. An outbreak is a new topic on half of each of its documents, which arrive
over three days.

Sweeps run the command itself, each in a process of its own. Before some of them, a sweep is started
and killed at a random moment, together with the processes of its cluster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atd_dask.bench.usage import Row, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.distribution.engine.clients import connect
from atd_dask.distribution.engine.observation import describe_cluster
from atd_dask.json_records import JsonObject
from atd_dask.kernels.streams import open_stream
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.progress import Progress

N_SUBJECTS = 10
N_WORDS = 3000
N_SALIENT = 30
MEAN_LENGTH = 50
DOMINANT = 0.85
OUTBREAK_DAYS = 3
OUTBREAK_DOCUMENTS = 30
OUTBREAK_SHARE = 0.5
FADING = 15  # days until a word has faded
KILLED = 1 / 3  # of the sweeps
PER_YEAR = 2.0  # false alarms that are asked for
DAYS_OF_A_YEAR = 365
IN_TIME = 2  # days after its last in which an outbreak is to be reported

COMMAND = (sys.executable, "-c", "from atd_dask.cli.command import main; main()")

CONFIG = """
name: year
cluster: {local: {workers: 1, threads: 2}}
corpus:
  train: {format: jsonl, path: normal.jsonl}
  test: {format: jsonl, path: repository}
  text: {stop_words: none, stemmer: none}
null_model: {topics: {max: 14, min: 8, step: 2}}
sweep: {window: 3}
"""


@dataclass(frozen=True)
class Outbreak:
    """Documents on a new topic, from some day on."""

    number: int
    first_day: int
    words: NDArray[np.int64]

    @property
    def last_day(self) -> int:
        return self.first_day + OUTBREAK_DAYS - 1


@dataclass(frozen=True)
class World:
    """What documents are about, day by day; the seed determines everything."""

    seed: int
    outbreaks: tuple[Outbreak, ...]

    @classmethod
    def of(cls, seed: int, n_days: int, n_outbreaks: int) -> World:
        """Divide the time into equal parts, with an outbreak at a random time in each."""
        stream = open_stream(seed, "sweeps/outbreaks")
        part = n_days // max(n_outbreaks, 1)
        outbreaks = []
        for number in range(n_outbreaks):
            room = max(part - OUTBREAK_DAYS - 2, 1)
            first = number * part + 1 + int(stream.integers(room))
            words = np.sort(stream.choice(N_WORDS, N_SALIENT, replace=False))
            outbreaks.append(Outbreak(number + 1, first, words))
        return cls(seed, tuple(outbreaks))

    def topics(self, day: int) -> NDArray[np.float64]:
        """Return the word probabilities of the subjects on a day; words from `N_WORDS` on are
        new."""
        stream = open_stream(self.seed, "sweeps/subjects")
        width = N_WORDS // N_SUBJECTS
        weights = np.zeros((N_SUBJECTS, N_WORDS + day + 1))
        weights[:, :N_WORDS] = stream.standard_gamma(0.045, (N_SUBJECTS, N_WORDS))
        salient = np.zeros((N_SUBJECTS, N_SALIENT), dtype=np.int64)
        for subject in range(N_SUBJECTS):
            own = np.arange(subject * width, (subject + 1) * width)
            salient[subject] = stream.choice(own, N_SALIENT, replace=False)
            weights[subject, salient[subject]] = stream.standard_gamma(10.0, N_SALIENT)
        changes = open_stream(self.seed, "sweeps/drift")
        for past in range(1, day + 1):
            subject, index = int(changes.integers(N_SUBJECTS)), int(changes.integers(N_SALIENT))
            other = int(changes.integers(N_WORDS))
            new = N_WORDS + past if past % 2 else other
            old = salient[subject, index]
            moved = weights[subject, old] * min((day - past + 1) / FADING, 1)
            weights[subject, new] += moved
            weights[subject, old] -= moved
            salient[subject, index] = new
        topics: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return topics

    def draw_day(self, day: int, n_docs: int) -> Iterator[JsonObject]:
        """Draw the documents of a day; day 0 is before the first sweep."""
        stream = open_stream(self.seed, f"sweeps/day {day}")
        topics = self.topics(day)
        for number in range(n_docs):
            subject = int(stream.integers(N_SUBJECTS))
            yield self._draw(stream, topics, subject, None, f"day {day} document {number}")
        for outbreak in self.outbreaks:
            if outbreak.first_day <= day <= outbreak.last_day:
                subject = outbreak.number % N_SUBJECTS
                for number in range(OUTBREAK_DOCUMENTS // OUTBREAK_DAYS):
                    id = f"day {day} outbreak {outbreak.number} document {number}"
                    yield self._draw(stream, topics, subject, outbreak, id)

    def _draw(
        self,
        stream: np.random.Generator,
        topics: NDArray[np.float64],
        subject: int,
        outbreak: Outbreak | None,
        id: str,
    ) -> JsonObject:
        mixture = (1 - DOMINANT) / N_SUBJECTS * topics.sum(axis=0) + DOMINANT * topics[subject]
        if outbreak is not None:
            unusual = np.zeros(len(mixture))
            unusual[outbreak.words] = open_stream(
                self.seed, f"sweeps/outbreak {outbreak.number}"
            ).standard_gamma(10.0, N_SALIENT)
            mixture = (1 - OUTBREAK_SHARE) * mixture + OUTBREAK_SHARE * unusual / unusual.sum()
        length = int(stream.poisson(MEAN_LENGTH))
        running = np.cumsum(mixture)
        words = np.searchsorted(running, stream.random(length) * running[-1], side="right")
        return {"id": id, "text": " ".join(_spell(int(word)) for word in words)}


def _spell(number: int) -> str:
    """Spell a number as a word."""
    letters = []
    for _ in range(4):
        number, index = divmod(number, 20)
        letters.append("bcdfghjklmnpqrstvwxz"[index] + "aeiou"[(number + index) % 5])
    return "".join(letters)


@dataclass
class Course:
    """The outcome of a simulation."""

    lines: list[JsonObject] = field(default_factory=list)
    found: dict[int, list[tuple[int, list[str]]]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    idle_seconds: list[float] = field(default_factory=list)
    kills: int = 0


@dataclass(frozen=True)
class Simulation:
    """What to simulate."""

    days: int
    documents: int  # per day
    outbreaks: int
    seed: int
    per_year: float = PER_YEAR  # false alarms that are accepted
    killed: float = KILLED  # the share of sweeps that are killed and started again


def bench_sweeps(
    asked: Simulation, folder: str | None, overrides: Sequence[str], progress: Progress
) -> list[Row]:
    """Simulate the days, and return rows for the outbreaks, the false alarms and the times."""
    overrides = (f"sweep.false_alarms.per_year={asked.per_year}", *overrides)
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as scratch:
        home = Path(folder or scratch)
        home.mkdir(parents=True, exist_ok=True)
        world = World.of(asked.seed, asked.days, asked.outbreaks)
        course = simulate(
            world, home, asked.days, asked.documents, overrides, progress, asked.killed
        )
        return make_rows(world, course, asked.per_year * asked.days / DAYS_OF_A_YEAR)


def simulate(
    world: World,
    home: Path,
    n_days: int,
    n_docs: int,
    settings: Sequence[str],
    progress: Progress,
    killed: float = KILLED,
) -> Course:
    """Simulate day by day; the sweeps are in the folder `runs/year` of `home`."""
    (home / "repository").mkdir()
    (home / "conf.yaml").write_text(CONFIG)
    _write(home / "normal.jsonl", world.draw_day(0, 15 * n_docs))
    course = Course()
    stream = open_stream(world.seed, "sweeps/kills")
    arguments = [text for setting in settings for text in ("--set", setting)]
    with (
        connect(ClusterOptions(local=LocalOptions(workers=1, threads=2))) as client,
        progress.task("sweep", n_days, "days") as task,
    ):
        there = [*arguments, "--scheduler", describe_cluster(client).address]
        for day in range(1, n_days + 1):
            _write(home / "repository" / f"{day:03d}.jsonl", world.draw_day(day, n_docs))
            draw, part = stream.random(2)
            typical = float(np.median(course.seconds)) if course.seconds else 15.0
            if draw < killed and _kill(home, arguments, 2 * typical * float(part)):
                course.kills += 1
            seconds = _sweep(home, there)
            course.seconds.append(seconds)
            task.advance(1, kills=course.kills, seconds=round(seconds, 1))
    for _ in range(5):
        course.idle_seconds.append(_sweep(home, arguments))
    history = Path(RunLayout(str(home / "runs" / "year")).history).read_text()
    course.lines = [json.loads(line) for line in history.splitlines()]
    course.found = _read_clusters(home, course.lines)
    return course


def _write(path: Path, documents: Iterator[JsonObject]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(document) + "\n" for document in documents))
    partial.rename(path)


def _sweep(home: Path, arguments: Sequence[str]) -> float:
    start = time.monotonic()
    done = subprocess.run(
        [*COMMAND, "sweep", "conf.yaml", *arguments],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a sweep ended with status {done.returncode}: {done.stderr[-2000:]}")
    return time.monotonic() - start


def _kill(home: Path, arguments: Sequence[str], delay: float) -> bool:
    """Start a sweep, and kill it with all its processes after a while; False if it ended first."""
    process = subprocess.Popen(
        [*COMMAND, "sweep", "conf.yaml", *arguments],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def _read_clusters(
    home: Path, lines: Sequence[JsonObject]
) -> dict[int, list[tuple[int, list[str]]]]:
    """Map each cluster to the sweeps that reported it, with the ids reported."""
    found: dict[int, list[tuple[int, list[str]]]] = {}
    for line in lines:
        if not line["clusters"]:
            continue
        path = Path(RunLayout(str(home / "runs" / "year")).sweep(line["sweep"]).alert)
        for cluster in json.loads(path.read_text())["clusters"]:
            ids = [document["id"] for document in cluster["documents"]]
            found.setdefault(cluster["cluster"], []).append((line["sweep"], ids))
    return found


def make_rows(world: World, course: Course, asked: float) -> list[Row]:
    """Make a row for each outbreak, the false alarms and how many were accepted, and the times.

    An outbreak is in time if a sweep reported it at most two days after its last day.
    """
    rows: list[Row] = []
    true: set[int] = set()
    for outbreak in world.outbreaks:
        mark = f" outbreak {outbreak.number} "
        mine = {
            number: told
            for number, told in course.found.items()
            if 2 * sum(mark in id for _, ids in told for id in ids)
            > sum(len(ids) for _, ids in told)
        }
        true |= set(mine)
        ids = {id for told in mine.values() for _, some in told for id in some}
        first = min((told[0][0] for told in mine.values()), default=None)
        rows.append(
            {
                "what": f"outbreak of the days {outbreak.first_day} to {outbreak.last_day}"
                + ("" if first is not None and first <= outbreak.last_day + IN_TIME else ", late"),
                "reported in sweep": "never" if first is None else first,
                "clusters": len(mine),
                "documents": f"{sum(mark in id for id in ids)} of {OUTBREAK_DOCUMENTS}",
                "others": sum(mark not in id for id in ids),
            }
        )
    false = [told[0][0] for number, told in course.found.items() if number not in true]
    rows.append(
        {
            "what": f"false alarms, {asked:.3g} asked for",
            "reported in sweep": " ".join(map(str, false)) or "none",
            "clusters": len(false),
            "documents": sum(
                len(ids)
                for number, told in course.found.items()
                if number not in true
                for _, ids in told
            ),
            "others": "",
        }
    )
    trained = [line["sweep"] for line in course.lines if line["trained"]]
    drifting = [drift["words"] for line in course.lines for drift in line.get("drifts", ())]
    documents = sum(line["documents"] for line in course.lines)
    for what, value in (
        ("sweeps", f"{len(course.lines)} of {documents:,} documents"),
        ("drift told", f"{len(drifting)} times, of {len({w for d in drifting for w in d})} words"),
        ("killed at work", str(course.kills)),
        ("null model trained in", " ".join(map(str, trained))),
        ("seconds of a sweep", spread(course.seconds, 1)),
        ("seconds of one with nothing new", spread(course.idle_seconds, 1)),
    ):
        rows.append(
            {
                "what": what,
                "reported in sweep": value,
                "clusters": "",
                "documents": "",
                "others": "",
            }
        )
    return rows
