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
    retrain: Annotated[RetrainConfig, Rule("when the null model is trained anew")] = RetrainConfig()
    alert: Annotated[AlertConfig, Rule("who is told of clusters")] = AlertConfig()
