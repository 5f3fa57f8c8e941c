"""Simulates a year: daily sweeps of a repository with growth, drift and outbreaks.

Documents are generated. Every day brings documents on ten subjects, whose words change slowly: each
day a salient word of one subject starts to fade, and another takes its place, either a new word or
one of another subject. An outbreak is a new topic on half of each of its documents, which arrive
over three days.

Sweeps run in this process. Before some of them, a sweep is started in a process of its own and
killed at a random moment, together with the processes of its cluster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atd_dask.bench.usage import Row, spread
from atd_dask.config.cluster_options import ClusterOptions, LocalOptions
from atd_dask.config.loader import load
from atd_dask.distribution.engine.clients import connect
from atd_dask.json_records import JsonObject
from atd_dask.kernels.streams import open_stream
from atd_dask.progress import Progress, PythonWarnings
from atd_dask.storage.ownership import hold_output
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.config.run_config import RunConfig
    from atd_dask.distribution.engine.clients import Client

    # The job of the pipelines.
    Sweep = Callable[[RunConfig, Client, Progress], object]

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
FIRST = 10.0  # seconds that the first sweep may take
START = 5.0  # seconds to start Python and a cluster, for sweeps to be killed

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
    share: float | None = None  # of all alarms, accepted instead
    killed: float = KILLED  # the share of sweeps that are killed and started again


def bench_sweeps(
    asked: Simulation,
    folder: str | None,
    overrides: Sequence[str],
    sweep: Sweep,
    progress: Progress,
) -> list[Row]:
    """Simulate the days, and return rows for the outbreaks, the false alarms and the times."""
    per_year = asked.per_year if asked.share is None else "null"
    share = "null" if asked.share is None else asked.share
    key = "sweep.false_alarms"
    overrides = (f"{key}.per_year={per_year}", f"{key}.share={share}", *overrides)
    with tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as scratch:
        home = Path(folder or scratch)
        home.mkdir(parents=True, exist_ok=True)
        world = World.of(asked.seed, asked.days, asked.outbreaks)
        course = simulate(world, home, asked, overrides, sweep, progress)
        accepted = asked.per_year * asked.days / DAYS_OF_A_YEAR
        if asked.share is not None:
            accepted = asked.share * len(course.found)
        return make_rows(world, course, accepted)


def simulate(
    world: World,
    home: Path,
    asked: Simulation,
    settings: Sequence[str],
    sweep: Sweep,
    progress: Progress,
) -> Course:
    """Simulate day by day; the sweeps are in the folder `runs/year` of `home`."""
    (home / "repository").mkdir()
    (home / "conf.yaml").write_text(CONFIG)
    _write(home / "normal.jsonl", world.draw_day(0, 15 * asked.documents))
    settings = (*settings, f"output={home / 'runs' / 'year'}")
    config = load(home / "conf.yaml", settings)
    course, quiet = Course(), Progress(PythonWarnings(), quiet=True)
    stream = open_stream(world.seed, "sweeps/kills")

    def run(client: Client) -> float:
        start = time.monotonic()
        with hold_output(config.output, quiet.warn):
            sweep(config, client, quiet)
        return time.monotonic() - start

    with (
        connect(ClusterOptions(local=LocalOptions(workers=1, threads=2))) as client,
        progress.task("sweep", asked.days, "days") as task,
        warnings.catch_warnings(action="ignore", category=UserWarning),
    ):
        for day in range(1, asked.days + 1):
            _write(home / "repository" / f"{day:03d}.jsonl", world.draw_day(day, asked.documents))
            draw, part = stream.random(2)
            typical = START + float(np.median(course.seconds or [FIRST]))
            if draw < asked.killed and _kill(home, settings, 2 * typical * float(part)):
                course.kills += 1
            seconds = run(client)
            course.seconds.append(seconds)
            task.advance(1, kills=course.kills, seconds=round(seconds, 1))
        course.idle_seconds = [run(client) for _ in range(5)]
    history = Path(RunLayout(str(home / "runs" / "year")).history).read_text()
    course.lines = [json.loads(line) for line in history.splitlines()]
    course.found = _read_clusters(home, course.lines)
    return course


def _write(path: Path, documents: Iterator[JsonObject]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(document) + "\n" for document in documents))
    partial.rename(path)


def _kill(home: Path, settings: Sequence[str], delay: float) -> bool:
    """Start a sweep, and kill it with all its processes after a while; False if it ended first."""
    arguments = [text for setting in settings for text in ("--set", setting)]
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

    An outbreak is in time if a sweep reported it at most two days after its last day. A cluster is
    that of an outbreak if most of its documents are until then; what joins it later is counted
    apart.
    """
    rows: list[Row] = []
    true: set[int] = set()
    n_late, late = 0, set()
    for outbreak in world.outbreaks:
        mark = f" outbreak {outbreak.number} "
        last = outbreak.last_day + IN_TIME
        mine = {}
        for number, told in course.found.items():
            if told[0][0] < outbreak.first_day:
                continue  # it was about something else
            soon = [(sweep, ids) for sweep, ids in told if sweep <= last]
            if 2 * sum(mark in id for _, ids in soon for id in ids) > sum(
                len(ids) for _, ids in soon
            ):
                mine[number] = soon
                n_late += sum(len(ids) for sweep, ids in told if sweep > last)
                late |= {sweep for sweep, _ in told if sweep > last}
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
            "what": f"false alarms, {asked:.3g} accepted",
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
    rows.append(
        {
            "what": "sweeps in which others joined the cluster of an outbreak later",
            "reported in sweep": " ".join(map(str, sorted(late))) or "none",
            "clusters": "",
            "documents": n_late,
            "others": "",
        }
    )
    trained = [line["sweep"] for line in course.lines if line["trained"]]
    drifting = [drift["words"] for line in course.lines for drift in line.get("drifts", ())]
    documents = sum(line["documents"] for line in course.lines)
    for what, value in (
        ("sweeps", f"{len(course.lines)} of {documents:,} documents"),
        (
            "drift reported",
            f"{len(drifting)} times, of {len({w for d in drifting for w in d})} words",
        ),
        ("killed mid-run", str(course.kills)),
        ("null model trained in", " ".join(map(str, trained))),
        ("seconds of a sweep, after starting Python", spread(course.seconds, 1)),
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
