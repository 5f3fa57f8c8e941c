"""Translates a configuration into the rules of detection."""

from __future__ import annotations

from atd_dask.config.run_config import DetectionConfig, RunConfig, as_dict
from atd_dask.kernels.cluster_growth import BicRule, MembershipRule, SettleRule, StopRule
from atd_dask.kernels.detection_rules import DetectionRules


def rules_of(config: RunConfig) -> DetectionRules:
    """Return the detection rules of a configuration."""
    return make_rules(
        config.detection,
        lda=config.null_model.topic_model == "lda",
        authors=config.compatibility == "authors",
    )


def make_rules(config: DetectionConfig, **others: bool) -> DetectionRules:
    """Return the rules of the section `detection`; `others` are `lda` and `authors`."""
    membership = config.membership
    stop: StopRule = BicRule(membership.patience)
    if config.stop == "membership":
        stop = MembershipRule(**{name: getattr(membership, name) for name in as_dict(membership)})
    return DetectionRules(
        seeds=config.seeds,
        stop=stop,
        settle=config.settle,
        settling=SettleRule(),
        pool=config.pool,
        donors=config.donors,
        replicates=config.significance.replicates,
        level=config.significance.level,
        searches=config.significance.searches,
        failures=config.failures,
        remember=config.remember,
        unseen=config.unseen == "use",
        max_clusters=config.max_clusters,
        max_size=config.max_size,
        **others,
    )
