"""The rules of detection that a configuration stands for."""

from __future__ import annotations

from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules, rules_of
from atd_dask.config.run_config import NullModelConfig, RunConfig
from atd_dask.kernels.cluster_growth import BicRule, MembershipRule


def test_the_defaults() -> None:
    rules = rules_of(RunConfig())
    assert (rules.lda, rules.authors, rules.unseen) == (False, False, True)
    assert isinstance(rules.stop, MembershipRule)
    assert rules.home == "validation"


def test_every_key_of_detection_has_its_place() -> None:
    rules = make_rules(
        make_detection(
            {
                "stop": "bic",
                "pool": "train",
                "unseen": "ignore",
                "donors": 3,
                "membership": {"patience": 5},
                "significance": {"replicates": 99, "level": 0.05, "searches": 7},
            }
        ),
        lda=True,
    )
    assert rules.stop == BicRule(5)
    assert (rules.home, rules.donors, rules.unseen, rules.lda) == ("train", 3, False, True)
    assert (rules.replicates, rules.level, rules.searches) == (99, 0.05, 7)
    assert rules.most_above == 4


def test_another_model_and_another_program() -> None:
    assert rules_of(RunConfig(null_model=NullModelConfig(topic_model="lda"))).lda
    assert rules_of(RunConfig(compatibility="authors")).authors
