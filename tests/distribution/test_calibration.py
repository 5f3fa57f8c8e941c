"""Held-out searches run as far as decisions need them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atd_dask.config.loader import make_detection
from atd_dask.config.rules import make_rules
from atd_dask.distribution.calibration import Calibration, HeldOutSearches
from atd_dask.distribution.checkpointing import NoCheckpoints
from atd_dask.distribution.engine.runner import Runner
from atd_dask.kernels.blocks import MemoryCorpus
from atd_dask.kernels.calibration import HeldOutSearch
from atd_dask.kernels.model import Block
from tests.evaluation.test_results import make_candidate


class Memory(NoCheckpoints):
    """Keeps searches in memory."""

    def __init__(self, searches=()):
        self.searches = list(searches)

    def load_calibration(self):
        return list(self.searches)

    def save_calibration(self, searches):
        self.searches = list(searches)


def make_searches(checkpointer, searches=39):
    """Held-out searches among 60 documents of 30 words."""
    counts = np.random.default_rng(2).poisson(1.0, (60, 30)).astype(np.int32) + 1
    terms = np.tile(np.arange(30, dtype=np.int32), 60)
    corpus = MemoryCorpus(Block(np.arange(61) * 30, terms, counts.ravel()), 30)
    nothing = MemoryCorpus(Block(np.zeros(1, np.int64), terms[:0], terms[:0]), 30)
    rules = replace(make_rules(make_detection({})), searches=searches, seeds=3)
    calibration = Calibration({"train": corpus, "validation": nothing}, rules, 20, 1)
    return HeldOutSearches(calibration, Runner(), checkpointer, lambda *_: None)


KNOWN = [HeldOutSearch(float(x)) for x in 15 + 2.5 * np.random.default_rng(8).gumbel(size=39)]


@pytest.mark.parametrize(
    ("support", "n_searches", "significant"),
    [(10.0, 19, False), (60.0, 19, True), (26.0, 39, False), (29.0, 39, True)],
)
def test_only_uncertain_decisions_take_more_searches(support, n_searches, significant):
    judged = make_searches(Memory(KNOWN)).compare(make_candidate(support, False))
    assert judged.searches == tuple(KNOWN[:n_searches])
    assert judged.significant is significant


def test_what_others_needed_does_not_matter():
    searches = make_searches(Memory(KNOWN))
    first = searches.compare(make_candidate(60.0, False))
    searches.compare(make_candidate(26.0, False))
    again = searches.compare(make_candidate(60.0, False))
    assert first.searches == again.searches


def test_searches_that_are_missing_run_and_are_kept():
    kept = Memory()
    judged = make_searches(kept).compare(make_candidate(500.0, False))
    assert judged.searches == tuple(kept.searches)
    assert len(kept.searches) == 19
    rest = Memory(kept.searches[:4])
    assert make_searches(rest).compare(make_candidate(500.0, False)).searches == judged.searches


def test_there_are_never_more_than_were_asked_for():
    judged = make_searches(Memory(KNOWN), searches=5).compare(make_candidate(26.0, False))
    assert judged.searches == tuple(KNOWN[:5])
