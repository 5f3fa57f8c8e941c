"""The configuration of sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from atd_dask.config.settings import Rule


@dataclass(frozen=True, kw_only=True)
class RetrainConfig:
    """When a sweep retrains the null model, and on how many documents."""

    age: Annotated[int, Rule("retrain the null model after this many sweeps", at_least=1)] = 14
    unseen: Annotated[
        float,
        Rule(
            "or when the share of words outside the vocabulary exceeds that of the validation"
            " documents by this much",
            more_than=0,
            at_most=1,
        ),
    ] = 0.05
    likelihood: Annotated[
        float,
        Rule(
            "or when the log-likelihood per word falls below that of the validation documents by"
            " this much",
            more_than=0,
        ),
    ] = 0.1
    drift: Annotated[
        int,
        Rule(
            "or when this many sweeps that have left the window reported drift",
            at_least=1,
        ),
    ] = 3
    documents: Annotated[
        int | None,
        Rule(
            "train on this many of the latest documents that are in no cluster",
            at_least=2,
            default_words="as many as the first null model",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AlertConfig:
    """Where alerts go, as JSON; delivery is retried until it succeeds."""

    command: Annotated[
        tuple[str, ...], Rule("a program and its arguments; it reads the alert from standard input")
    ] = ()
    webhook: Annotated[
        str | None,
        Rule(
            "the URL to post the alert to",
            pattern=r"https?://.+|\$\w+|\$\{\w+\}",
            pattern_words="an http or https URL, or an environment variable such as $WEBHOOK",
        ),
    ] = None
    tries: Annotated[
        int,
        Rule(
            "how many times a sweep tries to deliver an alert before leaving it to the next sweep",
            at_least=1,
        ),
    ] = 3


@dataclass(frozen=True, kw_only=True)
class FalseAlarmsConfig:
    """How many false alarms a user accepts over many sweeps."""

    per_year: Annotated[
        float | None,
        Rule(
            "at most this many false alarms a year on average; not together with `share`",
            more_than=0,
            default_words="`null`: every sweep is tested at `detection.significance.level`",
        ),
    ] = None
    share: Annotated[
        float | None,
        Rule(
            "at most this share of all alarms is false on average; not together with `per_year`",
            more_than=0,
            less_than=1,
        ),
    ] = None
    sweeps: Annotated[
        int,
        Rule("the number of sweeps with new documents in a year, for `per_year`", at_least=1),
    ] = 365


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """How to sweep a growing repository."""

    window: Annotated[
        int,
        Rule(
            "the number of earlier sweeps whose documents are tested with the new ones",
            at_least=0,
        ),
    ] = 6
    dismissed: Annotated[
        tuple[int, ...],
        Rule(
            "the numbers of reported clusters that were false alarms: they are not reported again,"
            " and the next null model learns their documents as normal",
        ),
    ] = ()
    false_alarms: Annotated[
        FalseAlarmsConfig, Rule("how many false alarms to accept over many sweeps")
    ] = FalseAlarmsConfig()
    retrain: Annotated[RetrainConfig, Rule("when to retrain the null model")] = RetrainConfig()
    alert: Annotated[AlertConfig, Rule("where alerts go")] = AlertConfig()
