"""Trials of a set-up on its own normal documents: batches with nothing in them, and batches in
which some documents are on a held-out topic.

A trial is a search. It is judged by comparing its support with that of searches in batches with
nothing in them. Groups are found without a null model, so nothing is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.evaluation.generated import count_tokens
from atd_dask.evaluation.metrics import Labels
from atd_dask.evaluation.rates import Rate
from atd_dask.json_records import JsonRecord
from atd_dask.kernels.calibration import estimate_p_value
from atd_dask.kernels.model import Block, Floats, Ints
from atd_dask.kernels.streams import open_stream

FORMAT = "atd-dask-calibration/1"
SIZES = (5, 10, 20, 40)
SHARES = (0.2, 0.5, 1.0)
MOST_TOPICS = 8

# A held-out topic has at most this share of all normal documents.
LARGEST_TOPIC = 0.2

# A group counts as easy to find if it is found at least this often.
MOSTLY = 0.9


@dataclass(frozen=True)
class Trial:
    """One search. Without a topic, nothing is planted."""

    number: int
    key: str  # of everything that its result depends on
    topic: str = ""
    size: int = 0
    share: float = 0.0

    @property
    def kind(self) -> str:
        return "planted" if self.size else "nothing"

    @property
    def name(self) -> str:
        cell = f"{self.size}-{self.share:g}-" if self.size else ""
        return f"{self.kind}-{cell}{self.number}-{self.key[:16]}"

    @property
    def needs(self) -> tuple[Trial, ...]:
        return ()


def choose_topics(labels: Labels, seed: int) -> dict[str, Ints]:
    """Return topics that can be held out, each with its documents: those with enough documents for
    the largest group, but not too many; a few of them drawn at random."""
    rows: dict[str, list[int]] = {}
    for row, some in enumerate(labels):
        for label in some:
            rows.setdefault(label, []).append(row)
    most = LARGEST_TOPIC * len(labels)
    able = sorted(label for label, mine in rows.items() if SIZES[-1] <= len(mine) <= most)
    order = open_stream(seed, "calibrate/topics").permutation(len(able))[:MOST_TOPICS]
    return {able[index]: np.array(rows[able[index]]) for index in np.sort(order).tolist()}


def list_trials(key: str, n_nothing: int, n_planted: int, topics: Sequence[str]) -> list[Trial]:
    """Return the trials with nothing planted, and a number of trials for every size and share,
    cycling through the topics."""
    trials = [Trial(number, key) for number in range(n_nothing)]
    for share in SHARES:
        for size in SIZES:
            trials += [
                Trial(number, key, topics[number % len(topics)], size, share)
                for number in range(n_planted if topics else 0)
            ]
    return trials


@dataclass(frozen=True)
class TrialDocuments:
    """The batch of a trial, which ends with the planted documents, and the normal documents."""

    batch: Block
    normal: Block
    n_planted: int


def lay_out(
    documents: Block, n_words: int, topic: Ints, trial: Trial, n_batch: int, seed: int
) -> TrialDocuments:
    """Draw the documents of a trial from all normal ones. Those on the planted topic are held out
    of everything else."""
    purpose = f"calibrate/{trial.kind}/{trial.topic}/{trial.size}/{trial.share:g}/{trial.number}"
    stream = open_stream(seed, purpose)
    others = np.arange(len(documents))
    if trial.size:
        others = np.setdiff1d(others, topic)
    order = stream.permutation(others)
    n_hosts = trial.size if trial.share < 1.0 else 0
    hosts, ordinary, normal = np.split(order, (n_hosts, n_hosts + n_batch - trial.size))
    parts = [documents.take(np.sort(ordinary))]
    if trial.size:
        chosen = stream.permutation(topic)[: trial.size]
        if trial.share == 1.0:
            parts.append(documents.take(chosen))
        else:
            parts += [
                _mix(stream, documents, int(own), int(host), trial.share, n_words)
                for own, host in zip(chosen, hosts, strict=True)
            ]
    batch = Block.concatenate(parts)
    return TrialDocuments(batch, documents.take(np.sort(normal)), trial.size)


def _mix(
    stream: np.random.Generator, documents: Block, own: int, host: int, share: float, n_words: int
) -> Block:
    """Return a document with a share of its tokens from one document, and the rest from another."""
    first, second = (_list_tokens(documents, row) for row in (own, host))
    length = min(len(second), int(len(first) / share))
    n_first = min(max(round(share * length), 1), len(first))
    tokens = np.concatenate(
        (stream.permutation(first)[:n_first], stream.permutation(second)[: length - n_first])
    )
    return count_tokens(np.zeros(len(tokens), np.int64), tokens, 1, n_words)


def _list_tokens(documents: Block, row: int) -> Ints:
    one = documents.take(np.array([row]))
    return np.repeat(one.terms, one.counts).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class FoundRate(JsonRecord):
    """How often a group of a given size is found if its topic has a given share of each
    document."""

    size: int
    share: float
    rate: Rate


@dataclass(frozen=True, kw_only=True)
class SetUpFigures(JsonRecord):
    """What a set-up finds, and how often it raises a false alarm."""

    format: str
    name: str
    seed: int
    batch: int
    normal: int
    level: float
    searches: int
    topics: tuple[str, ...]  # that were held out
    labelled: bool  # whether they are labels, or topics of a null model
    false_alarms: Rate
    found: tuple[FoundRate, ...]


def judge_trials(
    trials: Sequence[Trial],
    found: Mapping[Trial, Mapping[str, NDArray[Any]]],
    level: float,
    searches: int,
    seed: int,
) -> tuple[Rate, tuple[FoundRate, ...]]:
    """Return the rate of false alarms, and how often groups of each size and share are found.

    A trial is compared with as many searches with nothing planted as a detection makes. They are
    drawn anew for each trial, so that the figures include the randomness of the comparison.
    """
    nothing = [trial for trial in trials if not trial.size]
    best = np.array([max(found[trial]["support"], default=0.0) for trial in nothing])
    alarms = [
        estimate_p_value(float(best[n]), _draw_others(best, n, searches, trial, seed)) <= level
        for n, trial in enumerate(nothing)
    ]
    cells: dict[tuple[float, int], list[bool]] = {}
    for trial in trials:
        if trial.size:
            others = _draw_others(best, None, searches, trial, seed)
            hit = any(
                2 * of_topic > size and estimate_p_value(float(support), others) <= level
                for support, size, of_topic in zip(
                    *(found[trial][name].tolist() for name in ("support", "size", "planted")),
                    strict=True,
                )
            )
            cells.setdefault((trial.share, trial.size), []).append(hit)
    rates = tuple(
        FoundRate(size=size, share=share, rate=Rate.count(outcomes))
        for (share, size), outcomes in cells.items()
    )
    return Rate.count(alarms), rates


def _draw_others(best: Floats, own: int | None, searches: int, trial: Trial, seed: int) -> Floats:
    places = np.arange(len(best))
    others = places if own is None else places[places != own]
    stream = open_stream(
        seed, f"calibrate/comparison/{trial.kind}/{trial.size}/{trial.share:g}/{trial.number}"
    )
    return np.asarray(best[np.sort(stream.permutation(others)[:searches])], dtype=np.float64)


def say_figures(figures: SetUpFigures) -> str:
    """Say in one sentence what a set-up would find."""
    where = f"In batches of {figures.batch:,} documents"
    alarm = f"a batch with nothing in it raised an alarm {_say_times(figures.false_alarms)}"
    whole = [one for one in figures.found if one.share == 1.0]
    if not whole:
        return f"{where} {alarm}."
    good = [one for one in whole if one.rate.share >= MOSTLY]
    best = min(good, key=lambda one: one.size) if good else max(whole, key=lambda one: one.size)
    return (
        f"{where} a group of {best.size} on a new subject is found"
        f" {_say_times(best.rate)}, and {alarm}."
    )


def _say_times(rate: Rate) -> str:
    words = {0: "never", 1: "once"}
    return f"{words.get(rate.happened, f'{rate.happened} times')} in {rate.of}"
