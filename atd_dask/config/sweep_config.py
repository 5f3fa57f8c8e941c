"""What a user can say of sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from atd_dask.config.settings import Rule


@dataclass(frozen=True, kw_only=True)
class RetrainConfig:
    """When a sweep trains the null model anew, and on how many documents."""

    age: Annotated[int, Rule("the null model is trained anew after as many sweeps", at_least=1)] = (
        14
    )
    unseen: Annotated[
        float,
        Rule(
            "or when the share of words that the vocabulary lacks is larger by this much than in"
            " the validation documents",
            more_than=0,
            at_most=1,
        ),
    ] = 0.05
    likelihood: Annotated[
        float,
        Rule(
            "or when the log-likelihood of a word is less by this much than in the validation"
            " documents",
            more_than=0,
        ),
    ] = 0.1
    drift: Annotated[
        int,
        Rule(
            "or when drift was told in so many sweeps whose documents are no longer in the window",
            at_least=1,
        ),
    ] = 3
    documents: Annotated[
        int | None,
        Rule(
            "on as many of the latest documents that are in no cluster",
            at_least=2,
            default_words="as many as the first null model",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AlertConfig:
    """Who is told of clusters: as JSON, tried again until it has arrived."""

    command: Annotated[
        tuple[str, ...], Rule("a program and its arguments, which reads the alert from its input")
    ] = ()
    webhook: Annotated[
        str | None,
        Rule(
            "where the alert is posted",
            pattern=r"https?://.+|\$\w+|\$\{\w+\}",
            pattern_words="an http or https URL, or a variable of the environment such as $WEBHOOK",
        ),
    ] = None
    tries: Annotated[
        int, Rule("how often a sweep tries to deliver it; then the next one does", at_least=1)
    ] = 3


@dataclass(frozen=True, kw_only=True)
class FalseAlarmsConfig:
    """How many false alarms a user accepts over many sweeps."""

    per_year: Annotated[
        float | None,
        Rule(
            "at most so many false alarms a year on average; stands without `share`",
            more_than=0,
            default_words="`null`: every sweep is tested at `detection.significance.level`",
        ),
    ] = None
    share: Annotated[
        float | None,
        Rule(
            "at most this share of all alarms is false on average; stands without `per_year`",
            more_than=0,
            less_than=1,
        ),
    ] = None
    sweeps: Annotated[
        int,
        Rule("how many sweeps with new documents a year has, for `per_year`", at_least=1),
    ] = 365


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """How a repository that grows is swept."""

    window: Annotated[
        int,
        Rule(
            "the documents of as many earlier sweeps are tested together with the new ones",
            at_least=0,
        ),
    ] = 6
    dismissed: Annotated[
        tuple[int, ...],
        Rule(
            "the numbers of reported clusters that were false alarms: no more is told of them, and"
            " their documents are normal ones to the next null model",
        ),
    ] = ()
    false_alarms: Annotated[
        FalseAlarmsConfig, Rule("how many false alarms are accepted over many sweeps")
    ] = FalseAlarmsConfig()
    retrain: Annotated[RetrainConfig, Rule("when the null model is trained anew")] = RetrainConfig()
    alert: Annotated[AlertConfig, Rule("who is told of clusters")] = AlertConfig()
