"""New words as evidence: shared ones make a group, a document's own ones do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.distribution.calibration import Calibration, HeldOutSearches
from atd_dask.distribution.checkpointing import NoCheckpoints, ignore_progress
from atd_dask.distribution.cluster_search import grow_groups, list_candidates
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.vector_batches import open_vectors
from atd_dask.evaluation.generated import Shape, count_tokens, generate_documents
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.model import Block
from tests.evaluation.test_results import make_candidate

SHAPE = Shape(n_words=600, topics=(4, 4), lengths=(40, 40), own_words=60)
N_TRAIN, N_BATCH, N_BATCHES, OWN = 600, 150, 100, 5
N_WORDS = SHAPE.n_words + N_BATCH * OWN
RULES = replace(make_rules(make_detection({})), seeds=30)


@pytest.fixture(scope="module")
def documents():
    block, _ = generate_documents(3, "new words", SHAPE, N_TRAIN + N_BATCHES * N_BATCH, [])
    return block


@pytest.fixture(scope="module")
def train(documents):
    return MemoryCorpus(documents.take(np.arange(N_TRAIN)), N_WORDS)


@pytest.fixture(scope="module")
def searches(train):
    nothing = MemoryCorpus(train.whole.take(np.arange(0)), N_WORDS)
    corpora = {"train": train, "validation": nothing}
    calibration = Calibration(corpora, RULES, N_BATCH, 1)
    return HeldOutSearches(calibration, Runner(), NoCheckpoints(), ignore_progress)


def add_words(block: Block, rows, words, count):
    """The same documents; the one in each row has the given word `count` more times."""
    lengths = np.diff(block.indptr)
    documents = np.repeat(np.repeat(np.arange(len(block)), lengths), block.counts)
    tokens = np.repeat(block.terms, block.counts)
    every = np.append(documents, np.repeat(rows, count)), np.append(tokens, np.repeat(words, count))
    return count_tokens(*every, len(block), N_WORDS)


def search(batch, train, searches, unseen=True):
    """The best candidate of a batch, judged, or None if there is none."""
    with open_vectors(Runner(), MemoryCorpus(batch, N_WORDS), train, unseen) as vectors:
        everyone = np.ones(len(batch), dtype=np.bool_)
        contrast = vectors.search(everyone, np.zeros(0, np.int64), None)
        groups = grow_groups(contrast, contrast.choose_starts(RULES.seeds))
        listed = [each.group for each in islice(list_candidates(contrast, groups), RULES.failures)]
    if not listed:
        return None
    best = max(listed, key=lambda group: group.support)
    return searches.compare(make_candidate(best.support, False, documents=best.documents))


def test_new_words_of_a_document_alone_raise_no_alarm(documents, train, searches):
    rows = np.repeat(np.arange(N_BATCH), OWN)
    words = SHAPE.n_words + np.arange(N_BATCH * OWN)
    p_values = []
    for number in range(N_BATCHES):
        mine = documents.take(N_TRAIN + number * N_BATCH + np.arange(N_BATCH))
        batch = add_words(mine, rows, words, 1)
        best = search(batch, train, searches)
        p_values.append(1.0 if best is None else best.search_p_value)
    assert min(p_values) > 0.01


def test_new_words_that_documents_share_are_a_group(documents, train, searches):
    mine = documents.take(N_TRAIN + np.arange(N_BATCH))
    rows = np.repeat(np.arange(30), 3)
    words = np.tile(SHAPE.n_words + np.arange(3), 30)
    batch = add_words(mine, rows, words, 2)
    found = search(batch, train, searches)
    assert found.significant
    assert set(range(30)) <= set(found.documents)
    assert len(found.documents) <= 33
    assert not search(batch, train, searches, unseen=False).significant
