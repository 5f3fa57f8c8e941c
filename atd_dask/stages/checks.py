"""Checks of documents that could be read, before anything is learned from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import Copies
from atd_dask.errors import InputError
from atd_dask.storage.corpus import CorpusStore
from atd_dask.wording import alternatives, list_some, shorten

if TYPE_CHECKING:
    from atd_dask.progress import Progress

# A larger share of words that training lacks causes a warning.
MOST_UNSEEN = 0.1
# A larger share of documents that are in training too causes a warning.
MOST_SHARED = 0.01

# The effect of words that training lacks on a search.
UNSEEN = {
    "use": "there is no telling how common they normally are, so provide more training documents of"
    " the same kind as the batch",
    "ignore": "detection.unseen is ignore, so the search ignores them and may miss a group of"
    " documents about them",
}


def check_sources(config: RunConfig) -> None:
    """Check that the batch is not the normal documents."""
    train, test = config.corpus.train, config.corpus.test
    if train is not None and test is not None and train.path == test.path is not None:
        raise InputError(
            "corpus.test.path must name other documents than corpus.train.path, got"
            f" {shorten(str(test.path), 200)} for both: what is normal cannot be unusual"
        )


def check_documents(
    config: RunConfig, part: str, documents: CountSpool, progress: Progress
) -> None:
    """Check that a part of the corpus has documents, and warn if most were skipped."""
    n_skipped = sum(documents.skipped.values())
    key = f"corpus.{part}" if config.corpus.dataset is None else "corpus.dataset"
    if not documents.n_docs:
        got = f"none at all{_at(config, part)}"
        if n_skipped:
            were = "was" if n_skipped == 1 else "were all"
            got = f"{n_skipped:,} that {were} skipped: {_say_skipped(documents)}"
        raise InputError(f"{key} must have documents that can be used, got {got}")
    warn_of_skipped(documents, key, progress)


def warn_of_skipped(documents: CountSpool, key: str, progress: Progress) -> None:
    """Warn if more documents were skipped than taken."""
    n_skipped = sum(documents.skipped.values())
    if n_skipped > documents.n_docs:
        progress.warn(
            f"{n_skipped:,} of the {n_skipped + documents.n_docs:,} documents of {key} were"
            f" skipped: {_say_skipped(documents)}"
        )


def _say_skipped(documents: CountSpool) -> str:
    """Return the most frequent reason, and the first document skipped for it."""
    reason = min(documents.skipped, key=lambda reason: (-documents.skipped[reason], reason))
    others = len(documents.skipped) > 1
    number = f" ({documents.skipped[reason]:,} of them)" if others else ""
    first = shorten(documents.examples[reason], 200)
    return f"{shorten(reason, 100)}{number}; the first: {first}"


def _at(config: RunConfig, part: str) -> str:
    source = getattr(config.corpus, part, None)
    return f" in {source.path}" if source is not None and source.path else ""


def check_batch(
    parts: Mapping[str, CountSpool], copies: Mapping[str, Copies], progress: Progress
) -> None:
    """Check that the batch is not a copy of the training documents, and warn if a part of it is."""
    normal = np.concatenate([parts[part].contents() for part in parts if part != "test"])
    batch = parts["test"].contents()
    # The batch has fewer documents: to look normal ones up in it is faster than to sort them.
    values, documents = np.unique(batch, return_inverse=True)
    nearest = np.minimum(np.searchsorted(values, normal), len(values) - 1)
    same = values[nearest] == normal
    found = np.zeros(len(values), np.bool_)
    found[nearest[same]] = True
    if same.all() and found.all():
        raise InputError(
            "corpus.test must hold other documents than corpus.train, got the same"
            f" {len(batch):,}, word for word: what is normal cannot be unusual"
        )
    shared = found[documents]
    if "test" in copies and (like := copies["test"].counterparts) is not None:
        shared |= like
    n_shared = int(np.count_nonzero(shared))
    if n_shared > MOST_SHARED * len(batch):
        progress.warn(
            f"{n_shared:,} of the {len(batch):,} documents of the batch"
            f" ({n_shared / len(batch):.0%}) are among the normal ones too, or nearly so: a cluster"
            " of them will not be found; if they are what you are looking for, leave them out of"
            " corpus.train"
        )


def check_labels(config: RunConfig, labels: Iterable[tuple[str, ...]]) -> None:
    """Check that the labels to find are among those of the batch."""
    wanted = config.evaluation.anomalous
    if not wanted:
        return
    there = Counter(label for some in labels for label in some)
    missing = [label for label in wanted if label not in there]
    if not missing:
        return
    same = wanted == config.corpus.anomalous
    key = "corpus.anomalous" if same else "evaluation.anomalous"
    known = [f"{label} ({n:,})" for label, n in sorted(there.items(), key=lambda i: (-i[1], i[0]))]
    has = f"which has {list_some(known)}" if known else "which has no labels"
    raise InputError(
        f"{key} must have labels of the batch, {has}, got {alternatives(map(shorten, missing))}"
    )


def warn_of_unseen(config: RunConfig, batch: CorpusStore, progress: Progress) -> None:
    """Warn of many words in the batch that too few training documents have, naming the most
    frequent."""
    least = config.corpus.text.min_document_frequency
    unseen = batch.unseen()
    n_unseen = int(unseen.sum())
    n_tokens = batch.n_tokens + n_unseen
    if n_unseen > MOST_UNSEEN * n_tokens:
        few = "no training document" if least <= 1 else f"fewer than {least} training documents"
        totals = np.asarray(unseen.sum(axis=0)).ravel()
        words = (batch.unseen_words[n] for n in np.argsort(-totals, kind="stable").tolist())
        progress.warn(
            f"{n_unseen / n_tokens:.0%} of the words of the batch ({n_unseen:,} of {n_tokens:,})"
            f" are in {few}, such as {list_some(words, 3)}: {UNSEEN[config.detection.unseen]}"
        )
