from __future__ import annotations

import pytest

from tests.estimators.counted import COUNTS, WORDS, make_model


@pytest.fixture(scope="module")
def fitted():
    return make_model().fit(COUNTS, vocabulary=WORDS)
