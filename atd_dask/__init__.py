"""Anomalous topic discovery in batches of documents, on Dask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atd_dask.version import __version__

if TYPE_CHECKING:
    from atd_dask.detecting import Detection, detect
    from atd_dask.estimators.text_preparation import TextPreparation
    from atd_dask.estimators.topic_model import ParsimoniousTopicModel
    from atd_dask.finding import find
    from atd_dask.findings import Findings
    from atd_dask.storage.corpus import CorpusStore

__all__ = [
    "CorpusStore",
    "Detection",
    "Findings",
    "ParsimoniousTopicModel",
    "TextPreparation",
    "__version__",
    "detect",
    "find",
]

_HOMES = {
    "CorpusStore": "atd_dask.storage.corpus",
    "Detection": "atd_dask.detecting",
    "Findings": "atd_dask.findings",
    "ParsimoniousTopicModel": "atd_dask.estimators.topic_model",
    "TextPreparation": "atd_dask.estimators.text_preparation",
    "detect": "atd_dask.detecting",
    "find": "atd_dask.finding",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
