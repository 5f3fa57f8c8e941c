"""Loads a configuration from YAML or from Python values, and makes the table of its keys."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from atd_dask.config.builder import Builder
from atd_dask.config.consistency import check
from atd_dask.config.inputs import expand_home, find_input
from atd_dask.config.key_rules import RULES
from atd_dask.config.run_config import DetectionConfig, EvaluationConfig, RunConfig
from atd_dask.config.settings import describe_keys
from atd_dask.config.yaml_nodes import (
    MappingNode,
    Position,
    Problems,
    ScalarNode,
    apply_assignments,
    parse_mapping,
    read_mapping,
)
from atd_dask.errors import ConfigError
from atd_dask.json_records import Json
from atd_dask.text import datasets
from atd_dask.wording import clean

# The values of the paper, which do not change with the defaults.
PAPER = {
    "seeds": "1",
    "stop": "membership",
    "pool": "validation",
    "donors": "1",
    "membership.replicates": "1000",
    "membership.level": "0.99",
    "membership.test_below": "0.2",
    "membership.min_size": "4",
    "membership.patience": "2",
    "significance.replicates": "1000",
    "significance.level": "0.01",
    "significance.searches": "0",
    "failures": "1",
    "settle": "false",
    "remember": "false",
    "unseen": "ignore",
    "repeats": "1",
}


# Former names of keys, which are still read.
RENAMED = {"detection.mothers": "detection.donors"}


def warn_in_python(sentence: str) -> None:
    warnings.warn(sentence, FutureWarning, stacklevel=4)


def load(
    path: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    warn: Callable[[str], None] = warn_in_python,
) -> RunConfig:
    """Load the configuration in the YAML file `path`, and apply each `key.sub=value` of
    `overrides`.

    Input paths become absolute, `~` becomes the home folder in these and in `output`, and keys
    under a former name cause a warning.

    Raises
    ------
    ConfigError
        With a sentence for every mistake.
    """
    file = Path(path)
    problems = Problems()
    tree = apply_assignments(read_mapping(str(file), problems), overrides, problems)
    tree = _complete(_rename_keys(tree, problems, warn), file.stem)
    builder = Builder(problems, RULES, partial(find_input, folder=file.parent))
    config = _prepare_as_paper(builder.build(RunConfig, tree), tree)
    if not config.evaluation.anomalous:
        config = replace(config, evaluation=EvaluationConfig(anomalous=config.corpus.anomalous))
    config = replace(config, output=expand_home(config.output))
    check(config, tree, builder)
    problems.raise_if_any()
    return config


def make_detection(settings: Mapping[str, Json]) -> DetectionConfig:
    """Build the section `detection` from Python values, by the rules of a configuration."""
    try:
        text = json.dumps({"detection": dict(settings)})
    except TypeError as error:
        raise ConfigError([f"A setting of detection must be a plain value: {error}"]) from None
    problems = Problems()
    tree = parse_mapping(text, Position("settings of detect"), problems)
    tree = _complete(_rename_keys(tree, problems, warn_in_python), "detect")
    builder = Builder(problems, RULES, partial(find_input, folder=Path()))
    section = tree.get("detection")
    assert section is not None
    config = builder.build(DetectionConfig, section, "detection")
    problems.raise_if_any()
    return config


def _rename_keys(tree: MappingNode, problems: Problems, warn: Callable[[str], None]) -> MappingNode:
    """Move values from the former names of keys to the current ones."""
    for old, new in RENAMED.items():
        given = tree.get(old)
        if given is None:
            continue
        if tree.get(new) is not None:
            problems.add(f"{old} may not be set with {new}, which is its new name", given.position)
        else:
            warn(clean(f"{old} is now called {new} ({given.position})"))
            tree = tree.put(new, given)
        tree = tree.remove(old)
    return tree


def _complete(tree: MappingNode, stem: str) -> MappingNode:
    """Fill in defaults that depend on other keys."""
    tree = tree.put_default("name", ScalarNode(tree.position, stem))
    name = tree.get("name")
    if isinstance(name, ScalarNode):
        tree = tree.put_default("output", ScalarNode(name.position, f"runs/{name.text}"))
    rules = tree.get("detection.rules")
    if isinstance(rules, ScalarNode) and rules.text == "paper":
        for key, value in PAPER.items():
            kind = "bool" if value in ("true", "false") else "str"
            tree = tree.put_default(f"detection.{key}", ScalarNode(rules.position, value, kind))
    for key, old in (("detection.rules", "paper"), ("compatibility", "authors")):
        given = tree.get(key)
        if isinstance(given, ScalarNode) and given.text == old:
            tree = tree.put_default("corpus.copies", ScalarNode(given.position, "keep"))
    return tree


def _prepare_as_paper(config: RunConfig, tree: MappingNode) -> RunConfig:
    """Prepare the text of the paper's datasets as the paper does, unless the user says how."""
    corpus = config.corpus
    if corpus.dataset not in datasets.NAMES:
        return config
    section = tree.get("corpus.text")
    given = section.entries if isinstance(section, MappingNode) else {}
    own = {key: value for key, value in vars(corpus.text).items() if key in given}
    text = replace(datasets.preparation(corpus.dataset), **own)
    return replace(config, corpus=replace(corpus, text=text))


def make_table() -> str:
    """Return all keys as a Markdown table."""
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for entry in describe_keys(RunConfig, RULES):
        rows.append(f"| `{entry.key}` | {entry.value} | {entry.default} | {entry.meaning} |")
    return "\n".join(rows)
