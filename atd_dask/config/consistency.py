"""Checks of rules that involve several keys of a configuration."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from atd_dask.config.sweep_config import SweepConfig
from atd_dask.errors import InputError
from atd_dask.kernels.p_values import combine_p_values
from atd_dask.wording import alternatives

if TYPE_CHECKING:
    from atd_dask.config.builder import Builder
    from atd_dask.config.run_config import RunConfig
    from atd_dask.config.yaml_nodes import MappingNode, Position
    from atd_dask.text.options import Source

PARTS = ("train", "validation", "test")
CLUSTERS = ("local", "address", "scheduler_file", "class")

_RECORDS = ("path", "id_field", "text_field", "labels_field", "date_field", "encoding")
_COUNTS = ("path", "labels", "vocabulary", "encoding")

# The keys that each format of a source uses.
USED_KEYS: dict[str, tuple[str, ...]] = {
    "ldac": _COUNTS,
    "jsonl": _RECORDS,
    "csv": _RECORDS,
    "tsv": _RECORDS,
    "parquet": _RECORDS,
    "text": ("path", "encoding"),
    "npz": _COUNTS,
    "zarr": ("path",),
    "reuters": ("path",),
    "newsgroups": ("path",),
    "synthetic": (),
}

# The formats of repositories that can grow.
GROWING = tuple(
    format for format in USED_KEYS if format not in ("reuters", "newsgroups", "synthetic")
)

# The rule of sweeps for detection.repeats.
ONCE = (
    "must be 1 for sweeps, which keep one null model from sweep to sweep to recognise known"
    " clusters"
)


def check(config: RunConfig, tree: MappingNode, builder: Builder) -> None:
    """Note every broken rule, unless one of its keys has been refused already."""
    checks = _Checks(config, tree, builder)
    checks.check_cluster()
    checks.check_corpus()
    checks.check_limits()
    checks.check_evaluation()
    checks.check_sweep()


class _Checks:
    def __init__(self, config: RunConfig, tree: MappingNode, builder: Builder) -> None:
        self._config = config
        self._tree = tree
        self._builder = builder

    def check_cluster(self) -> None:
        given = [key for key in CLUSTERS if self._is_given(f"cluster.{key}")]
        if self._config.cluster is not None and len(given) != 1:
            got = " and ".join(given) or "none of them"
            self._note("cluster", f"must have exactly one of {', '.join(CLUSTERS)}, got {got}")
        for key in ("kwargs", "adapt"):
            if "class" not in given and self._is_given(f"cluster.{key}"):
                self._note(f"cluster.{key}", "may only be set with cluster.class, got it alone")

    def check_corpus(self) -> None:
        corpus = self._config.corpus
        given = [part for part in PARTS if self._is_given(f"corpus.{part}")]
        for part in given:
            source = getattr(corpus, part)
            if source is not None:
                self._check_source(source, f"corpus.{part}")
        share = "corpus.validation_share"
        if self._is_given(share) and ("validation" in given or self._is_given("corpus.dataset")):
            self._note(share, "may not be set with corpus.validation or dataset, got both")
        if self._is_given("corpus.dataset"):
            if given:
                got = f"it with {' and '.join(given)}"
                self._note("corpus.dataset", f"may not be set with {', '.join(PARTS)}, got {got}")
            if corpus.dataset == "synthetic":
                self._refuse_keys("a dataset that is not generated, got synthetic")
            return
        if not {"train", "test"}.issubset(given):
            got = " and ".join(given) or "neither"
            self._note("corpus", f"must have train and test, or dataset, got {got}")
        self._refuse_keys("corpus.dataset, got no dataset")

    def _refuse_keys(self, companion: str) -> None:
        for key in ("corpus.path", "corpus.anomalous"):
            if self._is_given(key):
                self._note(key, f"may only be set with {companion}")

    def _check_source(self, source: Source, key: str) -> None:
        used = USED_KEYS[source.format]
        for field in dataclasses.fields(source):
            if field.name not in ("format", *used) and self._is_given(f"{key}.{field.name}"):
                users = alternatives(name for name, keys in USED_KEYS.items() if field.name in keys)
                self._note(
                    f"{key}.{field.name}",
                    f"may only be set with the format {users}, got {source.format}",
                )
        if "path" in used and not self._is_given(f"{key}.path"):
            self._note(f"{key}.path", f"must be given for the format {source.format}, got nothing")
        if "encoding" in used and self._is_given(f"{key}.encoding"):
            self._check_encoding(source, f"{key}.encoding")

    def _check_encoding(self, source: Source, key: str) -> None:
        from atd_dask.text.readers.records import check_encoding

        try:
            check_encoding(source)
        except InputError:
            rule = "an encoding that extends ASCII, such as utf-8 or latin-1"
            self._note(key, f"must be {rule}, got {source.encoding}")

    def check_limits(self) -> None:
        """Check limits that depend on another key."""
        topics = self._config.null_model.topics
        if topics.min > topics.max:
            self._note(
                "null_model.topics.min",
                f"must be at most null_model.topics.max, got {topics.min} and {topics.max}",
                "null_model.topics.max",
            )
        if self._is_given("null_model.topics.limit") and topics.limit < topics.max:
            self._note(
                "null_model.topics.limit",
                f"must be at least null_model.topics.max, got {topics.limit} and {topics.max}",
                "null_model.topics.max",
            )
        text = self._config.corpus.text
        if text.max_distinct is not None and text.min_distinct > text.max_distinct:
            self._note(
                "corpus.text.min_distinct",
                f"must be at most corpus.text.max_distinct, got {text.min_distinct} and"
                f" {text.max_distinct}",
                "corpus.text.max_distinct",
            )
        significance = self._config.detection.significance
        least, repeats = 1 / (significance.replicates + 1), self._config.detection.repeats
        together = ""
        if repeats > 1:
            least = combine_p_values([least] * repeats)
            together = f" in {repeats} repeats"
        if least > significance.level and not significance.searches:
            self._note(
                "detection.significance.replicates",
                f"must be enough for a p-value of {significance.level:g}, got"
                f" {significance.replicates}, with which none is below {least:.2g}{together}",
                "detection.significance.level",
            )

    def check_evaluation(self) -> None:
        test = self._config.corpus.test
        if self._config.evaluation.anomalous and test is not None:
            key = "corpus.test.labels"
            if "labels" in USED_KEYS[test.format] and not self._is_given(key):
                self._note(
                    "evaluation.anomalous", f"may only be set with {key}, got no labels", key
                )

    def check_sweep(self) -> None:
        """Check that sweeps, if configured, have a repository that can grow."""
        if self._config.sweep == SweepConfig():
            return
        if self._is_given("corpus.dataset"):
            self._note("corpus.dataset", "may not be set with the section sweep, got both")
        test = self._config.corpus.test
        if test is not None and test.format not in GROWING:
            rule = f"must be {alternatives(GROWING)} for sweeps"
            self._note("corpus.test.format", f"{rule}, got {test.format}")
        repeats = self._config.detection.repeats
        if repeats > 1:
            self._note("detection.repeats", f"{ONCE}, got {repeats}")
        self._check_false_alarms()

    def _check_false_alarms(self) -> None:
        asked, key = self._config.sweep.false_alarms, "sweep.false_alarms"
        if asked.per_year is not None and asked.share is not None:
            self._note(key, "must have per_year or share, got both")
        if asked.per_year is not None and asked.per_year >= asked.sweeps:
            self._note(
                f"{key}.per_year",
                f"must be less than the sweeps of a year, got {asked.per_year:g} and"
                f" {asked.sweeps} for {key}.sweeps",
                f"{key}.sweeps",
            )
        given = [k for k in ("per_year", "share") if self._is_given(f"{key}.{k}")]
        if given and not self._config.detection.significance.searches:
            self._note(
                f"{key}.{given[0]}",
                "needs detection.significance.searches of at least 1, got 0: the"
                " bootstrap alone does not say how often a search finds something by chance",
                "detection.significance.searches",
            )

    def _is_given(self, key: str) -> bool:
        node = self._tree.get(key)
        return node is not None and not getattr(node, "is_null", False)

    def _note(self, key: str, sentence: str, *others: str) -> None:
        if not self._builder.is_broken(key, *others):
            self._builder.note(key, sentence, self._find_position(key, *others))

    def _find_position(self, *keys: str) -> Position:
        """Return the position of the first key that is given, or else that of its section."""
        for key in keys:
            node = self._tree.get(key)
            if node is not None:
                return node.position
        section, _, _ = keys[0].rpartition(".")
        return self._find_position(section) if section else self._tree.position
