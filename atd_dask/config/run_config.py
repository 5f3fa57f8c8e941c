"""The configuration of a run: every key, its meaning and its limits.

`loader.load` reads it from YAML, and raises a `ConfigError` with a sentence for every mistake.
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
from atd_dask.json_records import JsonObject
from atd_dask.text.options import Source, TextOptions

DATASETS = ("reuters", "newsgroups", "synthetic")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Either the sources of the three parts, or a named dataset that brings its own split."""

    train: Annotated[Source | None, Rule("normal documents, from which the null model learns")] = (
        None
    )
    validation: Annotated[
        Source | None, Rule("more normal documents, from which bootstrap documents are drawn")
    ] = None
    test: Annotated[Source | None, Rule("the batch to find clusters in")] = None
    dataset: Annotated[
        str | None,
        Rule("a named corpus with its own split, instead of the three parts", choices=DATASETS),
    ] = None
    path: Annotated[
        str | None, Rule("a copy of the named dataset, instead of a download", is_input=True)
    ] = None
    anomalous: Annotated[
        tuple[str, ...], Rule("labels of the named dataset that only the batch may have")
    ] = ()
    validation_share: Annotated[
        float,
        Rule(
            "the share of train to hold out for validation if `corpus.validation` is not given",
            more_than=0,
            less_than=1,
        ),
    ] = 0.1
    keep_text: Annotated[
        bool,
        Rule("whether to keep the texts of the batch, so that the report can quote them"),
    ] = True
    copies: Annotated[
        str,
        Rule(
            "`group` lets one document represent its near-duplicates and reports them separately;"
            " `keep` treats every document on its own",
            choices=("group", "keep"),
            default_words="`group`; `keep` with `detection.rules: paper` and with"
            " `compatibility: authors`",
        ),
    ] = "group"
    text: Annotated[
        TextOptions,
        Rule(
            "how raw text becomes words; has no effect on formats of counts; the defaults for the"
            " paper's datasets are the paper's"
        ),
    ] = field(default_factory=TextOptions)


@dataclass(frozen=True, kw_only=True)
class TopicsConfig:
    """The numbers of topics to try, from the largest down."""

    max: Annotated[int, Rule("the largest number of topics to try", at_least=2)] = 35
    min: Annotated[int, Rule("the smallest number of topics to try", at_least=1)] = 10
    step: Annotated[
        int,
        Rule(
            "the step between numbers next to the best; before that, an eighth of the topics is"
            " dropped at a time if that is more",
            at_least=1,
        ),
    ] = 1
    widen: Annotated[
        bool,
        Rule(
            "whether to try more numbers of topics if the best one is at an end of the range:"
            " fewer, or up to twice as many, repeatedly; a single number and"
            " `compatibility: authors` never widen"
        ),
    ] = True
    limit: Annotated[
        int,
        Rule(
            "the largest number of topics to widen to; a tenth of the training documents is another"
            " limit",
            at_least=2,
        ),
    ] = 200


@dataclass(frozen=True, kw_only=True)
class NullModelConfig:
    """How the model of normal documents is trained."""

    topics: Annotated[
        TopicsConfig,
        Rule(
            "the number of topics of the null model; a single number fixes it",
            shorthand=("max", "min"),
        ),
    ] = TopicsConfig()
    topic_model: Annotated[
        str,
        Rule(
            "`lda`, the paper's comparison, gives every topic its own probability of every word and"
            " every document all topics, in the null model and in clusters",
            choices=("ptm", "lda"),
        ),
    ] = "ptm"
    restarts: Annotated[
        int, Rule("how many times to train; the best model is kept", at_least=1)
    ] = 1
    tolerance: Annotated[
        float,
        Rule("training ends when the BIC falls by less than this share", more_than=0, less_than=1),
    ] = 1e-4
    max_iterations: Annotated[
        int, Rule("the largest number of iterations per number of topics", at_least=1)
    ] = 100


@dataclass(frozen=True, kw_only=True)
class MembershipConfig:
    """The test of a document before it joins a cluster: B1 of the paper."""

    replicates: Annotated[int, Rule("bootstrap documents for each test", at_least=1)] = 1000
    level: Annotated[
        float, Rule("the share of them that the document must exceed", more_than=0, less_than=1)
    ] = 0.99
    test_below: Annotated[
        float,
        Rule(
            "documents with a larger share of the new topic are not tested", at_least=0, at_most=1
        ),
    ] = 0.2
    min_size: Annotated[
        int, Rule("the cluster size from which documents are tested", at_least=1)
    ] = 4
    patience: Annotated[int, Rule("how many failures in a row end growth", at_least=1)] = 2


@dataclass(frozen=True, kw_only=True)
class SignificanceConfig:
    """What makes a cluster significant: held-out searches, and B2 of the paper."""

    replicates: Annotated[int, Rule("bootstrap clusters for each test", at_least=1)] = 99
    level: Annotated[
        float, Rule("the largest p-value that is significant", more_than=0, less_than=1)
    ] = 0.01
    searches: Annotated[
        int,
        Rule(
            "the most searches in held-out normal documents, which give the p-value that"
            " decides; with 0, as in the paper, the bootstrap decides",
            at_least=0,
        ),
    ] = 39


@dataclass(frozen=True, kw_only=True)
class DetectionConfig:
    """How clusters are grown and tested."""

    rules: Annotated[
        str,
        Rule(
            "`paper` uses the paper's value for every key of detection that is not set",
            choices=("default", "paper"),
        ),
    ] = "default"
    seeds: Annotated[
        int,
        Rule(
            "the number of documents that candidates grow from",
            at_least=1,
        ),
    ] = 100
    stop: Annotated[str, Rule("the rule that ends growth", choices=("membership", "bic"))] = (
        "membership"
    )
    settle: Annotated[
        bool,
        Rule(
            "`true` finds candidates by contrast with normal documents; `false` grows one"
            " document by document, as the paper does"
        ),
    ] = True
    remember: Annotated[
        bool,
        Rule(
            "whether a cluster counts as known once it is found, so that what is left of it is not"
            " found as another cluster"
        ),
    ] = True
    pool: Annotated[
        str,
        Rule(
            "where bootstrap documents are drawn from",
            choices=("validation", "validation+batch", "train"),
        ),
    ] = "validation+batch"
    donors: Annotated[
        int,
        Rule(
            "a bootstrap document is drawn from one of this many most similar documents, each of"
            " which is used at most once in a bootstrap cluster; 1 is the paper's rule",
            at_least=1,
        ),
    ] = 10
    membership: Annotated[
        MembershipConfig, Rule("the test of a document before it joins a cluster (B1)")
    ] = MembershipConfig()
    significance: Annotated[SignificanceConfig, Rule("the test of a grown cluster (B2)")] = (
        SignificanceConfig()
    )
    unseen: Annotated[
        str,
        Rule(
            "`use` gives words that training lacks the probability of such words in normal"
            " documents, so that a topic can be about them; `ignore` drops them, as the paper does",
            choices=("use", "ignore"),
        ),
    ] = "use"
    failures: Annotated[
        int,
        Rule("the number of insignificant candidates in a row that end the search", at_least=1),
    ] = 3
    max_clusters: Annotated[
        int | None, Rule("the largest number of clusters to find", at_least=1)
    ] = None
    max_size: Annotated[int | None, Rule("the size at which growth ends", at_least=2)] = None
    repeats: Annotated[
        int,
        Rule(
            "how many times to train and detect, each time with another seed; all of them together"
            " decide whether a cluster is significant",
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
    """The configuration of a run."""

    name: Annotated[
        str,
        Rule(
            "the name of the run",
            pattern=r"[^./\\][^/\\]*",
            pattern_words="a name without slashes that does not begin with a dot",
            default_words="the name of the file",
        ),
    ] = "run"
    seed: Annotated[int, Rule("the seed of all random numbers", at_least=0)] = 1
    output: Annotated[
        str,
        Rule(
            "the folder or URL of the results, relative to the current folder",
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
        Rule("whose cost terms and rules to follow if they differ", choices=("paper", "authors")),
    ] = "paper"


def as_dict(part: Any) -> Any:
    """Convert a configuration, or a part of one, to JSON values under the names of its keys."""
    if dataclasses.is_dataclass(part):
        return {
            key_name(item): as_dict(getattr(part, item.name)) for item in dataclasses.fields(part)
        }
    if isinstance(part, Mapping):
        return {str(key): as_dict(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [as_dict(value) for value in part]
    return part


def as_single(config: DetectionConfig) -> JsonObject:
    """Return the settings that a single detection depends on: all but the number of repeats."""
    settings: JsonObject = as_dict(config)
    del settings["repeats"]
    return settings


def fingerprint(part: Any) -> str:
    """Return the SHA-256 of a configuration, or of a part of one."""
    text = json.dumps(as_dict(part), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
