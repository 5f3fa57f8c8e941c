"""The configuration of a run: what a user can say, and what each word means.

`loader.load` reads it from YAML. Whatever is wrong with it is a `ConfigError` with a sentence for
every mistake.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from atd_dask.config.cluster_options import ClusterOptions
from atd_dask.config.settings import Rule, key_name
from atd_dask.config.sweep_config import SweepConfig
from atd_dask.text.options import Source, TextOptions

DATASETS = ("reuters", "newsgroups", "synthetic")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Either the sources of the three parts, or a named dataset that brings its own split."""

    train: Annotated[
        Source | None, Rule("normal documents, from which the null model is learned")
    ] = None
    validation: Annotated[
        Source | None, Rule("further normal documents, from which bootstrap documents are drawn")
    ] = None
    test: Annotated[Source | None, Rule("the batch in which clusters are looked for")] = None
    dataset: Annotated[
        str | None,
        Rule("a named corpus with its own split, in place of the three parts", choices=DATASETS),
    ] = None
    path: Annotated[
        str | None, Rule("a copy of the named dataset, in place of a download", is_input=True)
    ] = None
    anomalous: Annotated[
        tuple[str, ...], Rule("labels of the named dataset that only the batch may hold")
    ] = ()
    validation_share: Annotated[
        float,
        Rule(
            "the share of train that is set aside for validation where no source is given for it",
            more_than=0,
            less_than=1,
        ),
    ] = 0.1
    keep_text: Annotated[
        bool,
        Rule("whether the texts of the batch are kept, so that the report can show some of them"),
    ] = True
    copies: Annotated[
        str,
        Rule(
            "`group` lets one document stand for its near-copies, and tells of these apart; `keep`"
            " takes every document for itself",
            choices=("group", "keep"),
            default_words="`group`; `keep` with `detection.rules: paper` and with"
            " `compatibility: authors`",
        ),
    ] = "group"
    text: Annotated[
        TextOptions,
        Rule(
            "how raw text becomes words; without effect on formats that hold counts; the defaults "
            "are the paper's for its own datasets"
        ),
    ] = field(default_factory=TextOptions)


@dataclass(frozen=True, kw_only=True)
class TopicsConfig:
    """The numbers of topics that are tried, from the largest down."""

    max: Annotated[int, Rule("the largest number of topics tried", at_least=2)] = 35
    min: Annotated[int, Rule("the smallest number of topics tried", at_least=1)] = 10
    step: Annotated[
        int,
        Rule(
            "the step between numbers next to the best; before, a twelfth of the topics is dropped"
            " at a time, if that is more",
            at_least=1,
        ),
    ] = 1
    widen: Annotated[
        bool,
        Rule(
            "whether further numbers are tried where the best is at an end of the range: fewer, or"
            " up to twice as many, again and again; false keeps to the range, as do a single number"
            " and `compatibility: authors`"
        ),
    ] = True
    limit: Annotated[
        int,
        Rule(
            "widening goes no further than this, nor than a tenth of the training documents",
            at_least=2,
        ),
    ] = 200


@dataclass(frozen=True, kw_only=True)
class NullModelConfig:
    """How the model of normal documents is trained."""

    topics: Annotated[
        TopicsConfig,
        Rule(
            "how many topics the null model has; a single number tries that number alone",
            shorthand=("max", "min"),
        ),
    ] = TopicsConfig()
    topic_model: Annotated[
        str,
        Rule(
            "`lda` makes every word every topic's own and lets documents have any topics, in the"
            " null model and in clusters: the paper's comparison",
            choices=("ptm", "lda"),
        ),
    ] = "ptm"
    restarts: Annotated[
        int, Rule("how many times training starts afresh; the best is kept", at_least=1)
    ] = 1
    tolerance: Annotated[
        float,
        Rule("training ends when the BIC falls by less than this share", more_than=0, less_than=1),
    ] = 1e-4
    max_iterations: Annotated[
        int, Rule("the most iterations for one number of topics", at_least=1)
    ] = 100


@dataclass(frozen=True, kw_only=True)
class MembershipConfig:
    """The test of a document that is to join a cluster: B1 of the paper."""

    replicates: Annotated[int, Rule("bootstrap documents for each test", at_least=1)] = 1000
    level: Annotated[
        float, Rule("the share of them that the document must surpass", more_than=0, less_than=1)
    ] = 0.99
    test_below: Annotated[
        float,
        Rule(
            "documents with a larger share of the new topic are not tested", at_least=0, at_most=1
        ),
    ] = 0.2
    min_size: Annotated[
        int, Rule("documents are tested once the cluster has so many", at_least=1)
    ] = 4
    patience: Annotated[int, Rule("as many failures in a row end the growth", at_least=1)] = 2


@dataclass(frozen=True, kw_only=True)
class SignificanceConfig:
    """The test of a grown cluster: B2 of the paper."""

    replicates: Annotated[int, Rule("bootstrap clusters for each test", at_least=1)] = 1000
    level: Annotated[
        float, Rule("the largest p-value that is significant", more_than=0, less_than=1)
    ] = 0.01
    searches: Annotated[
        int,
        Rule(
            "how many searches in held-out normal documents give the p-value that decides; with 0,"
            " as in the paper, the bootstrap decides",
            at_least=0,
        ),
    ] = 39


@dataclass(frozen=True, kw_only=True)
class DetectionConfig:
    """How clusters are grown and tested."""

    rules: Annotated[
        str,
        Rule(
            "`paper` takes the paper's value for every key of detection that is not given",
            choices=("default", "paper"),
        ),
    ] = "default"
    seeds: Annotated[
        int,
        Rule(
            "documents from which candidates grow side by side",
            at_least=1,
        ),
    ] = 100
    stop: Annotated[str, Rule("what ends the growth", choices=("membership", "bic"))] = "membership"
    settle: Annotated[
        bool,
        Rule(
            "`true` finds candidates by contrast with the normal documents; `false` grows one"
            " document by document, as the paper does"
        ),
    ] = True
    remember: Annotated[
        bool,
        Rule(
            "whether a cluster counts as known once it is found, so that what is left of it is not"
            " found as another"
        ),
    ] = True
    pool: Annotated[
        str,
        Rule(
            "the documents from which bootstrap documents are drawn",
            choices=("validation", "validation+batch", "train"),
        ),
    ] = "validation+batch"
    donors: Annotated[
        int,
        Rule(
            "a bootstrap document is drawn from one of so many most similar documents, none of"
            " which serves twice in a bootstrap cluster; 1 is the paper's rule",
            at_least=1,
        ),
    ] = 10
    membership: Annotated[
        MembershipConfig, Rule("the test of a document that is to join a cluster (B1)")
    ] = MembershipConfig()
    significance: Annotated[SignificanceConfig, Rule("the test of a grown cluster (B2)")] = (
        SignificanceConfig()
    )
    unseen: Annotated[
        str,
        Rule(
            "`use` gives words that training lacks the probability that such words have in normal"
            " documents, so that a topic can be about them; `ignore` passes them over, as in the"
            " paper",
            choices=("use", "ignore"),
        ),
    ] = "use"
    failures: Annotated[
        int,
        Rule("so many candidates in a row that are not significant end the search", at_least=1),
    ] = 3
    max_clusters: Annotated[
        int | None, Rule("detection ends after as many clusters", at_least=1)
    ] = None
    max_size: Annotated[int | None, Rule("growth ends at as many documents", at_least=2)] = None
    repeats: Annotated[
        int,
        Rule(
            "training and detection are done so often, each time with another seed, and a cluster"
            " is significant by all of them together",
            at_least=1,
            at_most=100,
        ),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """What the clusters are compared with; nothing else depends on it."""

    anomalous: Annotated[
        tuple[str, ...],
        Rule(
            "the labels that should be found; only for documents with labels",
            default_words="as `corpus.anomalous`",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All that a run depends on."""

    name: Annotated[
        str,
        Rule(
            "the name of the run",
            pattern=r"[^./\\][^/\\]*",
            pattern_words="a name without slashes that does not begin with a dot",
            default_words="the name of the file",
        ),
    ] = "run"
    seed: Annotated[int, Rule("the number from which all random numbers follow", at_least=0)] = 1
    output: Annotated[
        str,
        Rule(
            "the folder or URL of the results; a path starts at the current folder",
            default_words="`runs/` and the name",
        ),
    ] = "runs/run"
    cluster: Annotated[
        ClusterOptions | None,
        Rule("where to run: exactly one of local, address, scheduler_file and class"),
    ] = None
    corpus: Annotated[CorpusConfig, Rule("the documents")] = field(default_factory=CorpusConfig)
    null_model: Annotated[NullModelConfig, Rule("the model of normal documents")] = (
        NullModelConfig()
    )
    detection: Annotated[DetectionConfig, Rule("the search for clusters")] = DetectionConfig()
    evaluation: Annotated[EvaluationConfig, Rule("what the clusters are compared with")] = (
        EvaluationConfig()
    )
    sweep: Annotated[SweepConfig, Rule("scheduled sweeps: what `atd-dask sweep` does")] = field(
        default_factory=SweepConfig
    )
    compatibility: Annotated[
        str,
        Rule("whose cost terms and rules hold where they differ", choices=("paper", "authors")),
    ] = "paper"


def as_dict(part: Any) -> Any:
    """A configuration, or a part of one, as JSON can hold it, under the names of its keys."""
    if dataclasses.is_dataclass(part):
        return {
            key_name(item): as_dict(getattr(part, item.name)) for item in dataclasses.fields(part)
        }
    if isinstance(part, Mapping):
        return {str(key): as_dict(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [as_dict(value) for value in part]
    return part


def as_single(config: DetectionConfig) -> dict[str, Any]:
    """The settings of a single detection, which does not depend on how often it is repeated."""
    settings: dict[str, Any] = as_dict(config)
    del settings["repeats"]
    return settings


def fingerprint(part: Any) -> str:
    """The SHA-256 of a configuration, or of a part of one: the same for the same settings."""
    text = json.dumps(as_dict(part), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
