"""The examples in docstrings run, and the public API has them."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

import atd_dask

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = sorted(set(atd_dask.__all__) - {"__version__"})

# What these return or raise is said by their methods.
CLASSES = {"CorpusStore", "Detection", "Findings", "ParsimoniousTopicModel", "TextPreparation"}


def list_modules() -> list[str]:
    """The modules with examples."""
    files = sorted((ROOT / "atd_dask").rglob("*.py"))
    return [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in files
        if ">>>" in file.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("module", list_modules())
def test_examples_run(module: str) -> None:
    done = doctest.testmod(import_module(module))
    assert done.attempted > 0
    assert done.failed == 0


def list_sections(name: str) -> set[str]:
    """The numpydoc sections of a public name."""
    lines = (inspect.getdoc(getattr(atd_dask, name)) or "").splitlines()
    return {title for title, rule in pairwise(lines) if rule and rule == "-" * len(title)}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_api_is_documented(name: str) -> None:
    sections = list_sections(name)
    if name in CLASSES:
        assert "Examples" in sections
        assert sections & {"Parameters", "Attributes"}
    else:
        assert {"Parameters", "Returns", "Raises", "Examples"} <= sections


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_public_methods_are_documented(name: str) -> None:
    members = inspect.getmembers(getattr(atd_dask, name))
    missing = [
        member
        for member, value in members
        if not member.startswith("_") and callable(value) and not inspect.getdoc(value)
    ]
    assert missing == []
