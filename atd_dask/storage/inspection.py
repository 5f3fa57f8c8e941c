"""Describes the content of a store, for people and scripts."""

from __future__ import annotations

import os
from collections import Counter

from atd_dask.storage import corpus
from atd_dask.storage.groups import SealedGroup
from atd_dask.storage.locations import Location
from atd_dask.storage.manifest import Manifest, read_manifest

SHOWN_LABELS = 20
SHOWN_NAMES = 10
SHOWN_TOPICS = 10
SHOWN_WORDS = 8


def describe(url: str | os.PathLike[str]) -> dict[str, object]:
    """Describe the content of a store in JSON values, reading as little of it as possible."""
    location = Location.of(url)
    manifest = read_manifest(location)
    facts: dict[str, object] = {
        "kind": manifest.kind,
        "format": manifest.format,
        "url": location.url,
        "digest": manifest.digest,
        "bytes": sum(location.files().values()),
        **manifest.counts,
    }
    if manifest.kind == corpus.KIND:
        facts |= _describe_corpus(url)
    elif manifest.kind == "model":
        facts |= _describe_model(url, manifest)
    return facts


def _describe_corpus(url: str | os.PathLike[str]) -> dict[str, object]:
    group = SealedGroup.open(url, corpus.KIND, corpus.VERSION)
    store = corpus.CorpusStore(group)
    labels: Counter[str] = Counter()
    for piece in group.pieces("obs/labels"):
        for text in piece.tolist():
            labels.update(text.split(corpus.LABEL_SEPARATOR) if text else ())
    top = sorted(labels.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_LABELS]
    unseen_tokens = sum(int(piece.sum()) for piece in group.pieces("obs/unseen"))
    return {
        "mean_length": store.n_tokens / store.n_docs if store.n_docs else 0.0,
        "unseen_words": group.array("uns/unseen_words").shape[0],
        "unseen_tokens": unseen_tokens,
        "n_labels": len(labels),
        "labels": dict(top),
        "first_words": group.read("var/word", 0, SHOWN_NAMES).tolist(),
        "first_ids": store.ids(0, SHOWN_NAMES),
        "attributes": store.attributes,
    }


def _describe_model(url: str | os.PathLike[str], manifest: Manifest) -> dict[str, object]:
    # Imports the kernels, which are slow to load and not needed to describe a corpus.
    from atd_dask.storage import models

    if manifest.version > models.VERSION:
        return {}
    model = models.read_model(url)
    shown = range(min(model.table.n_topics, SHOWN_TOPICS))
    return {
        "bic": model.record.bic,
        "log_likelihood": model.record.log_likelihood,
        "topics_per_document": model.record.topics_per_document,
        "words_per_topic": model.record.words_per_topic,
        "restarts": len(model.restarts),
        "orders": sum(map(len, model.restarts)),
        "top_words": {f"topic {topic}": model.top_words(topic, SHOWN_WORDS) for topic in shown},
        "settings": model.settings,
        "corpus": model.corpus,
    }
