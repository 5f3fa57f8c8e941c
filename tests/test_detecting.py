"""Detection from Python."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import atd_dask
from atd_dask import ParsimoniousTopicModel, detect
from atd_dask.errors import ConfigError, InputError
from tests.clusters import local_client

N_WORDS = 120
WORDS = [f"word{n}" for n in range(N_WORDS)]
PLANTED = range(50, 65)
QUICK = {
    "seeds": 20,
    "membership": {"replicates": 100},
    "significance": {"replicates": 100, "searches": 9},
}


@pytest.fixture(scope="module")
def problem():
    """Normal documents on three topics, and 15 in the batch that are half about a fourth."""
    rng = np.random.default_rng(8)
    topics = 0.8 * rng.dirichlet(np.full(N_WORDS, 0.05), 4) + 0.2 / N_WORDS

    def draw(n_docs, unusual=()):
        mixtures = [topics[d % 3] for d in range(n_docs)]
        for d in unusual:
            mixtures[d] = (mixtures[d] + topics[3]) / 2
        return np.stack([rng.multinomial(60, mixture) for mixture in mixtures])

    train, validation, test = draw(240), draw(90), draw(65, PLANTED)
    model = ParsimoniousTopicModel(3).fit(train, vocabulary=WORDS)
    return model, test, validation, train


def test_the_planted_documents_are_found(problem):
    found = detect(*problem, **QUICK)
    (cluster,) = found.clusters
    assert set(cluster.documents) == set(PLANTED)
    assert len(cluster.calibration_support) == 9
    described, *rest = found.describe()
    assert described.size == 15
    assert described.significant
    assert described.support > 30
    assert not any(other.significant for other in rest)
    assert set(described.rows) == set(PLANTED)
    likely = [
        word.word for word in described.salient_words if word.probability > word.shared_probability
    ]
    assert found.top_words(cluster, 5) == likely[:5]


def test_a_detection_is_shown_in_a_line(problem):
    found = detect(*problem, **QUICK)
    n_candidates = len(found.candidates)
    shown = f"<Detection: 1 of {n_candidates} candidates significant, in 65 documents>"
    assert repr(found) == shown


def test_every_way_to_give_documents_and_a_client_find_the_same(problem, tmp_path):
    model, test, validation, train = problem
    expected = detect(*problem, **QUICK).describe()
    model.save(tmp_path / "model.zarr")
    rows = [
        {WORDS[word]: int(row[word]) for word in np.flatnonzero(row)} for row in np.asarray(test)
    ]
    given = (rows, sparse.csr_matrix(validation), sparse.csr_array(train))
    assert detect(tmp_path / "model.zarr", *given, **QUICK).describe() == expected
    with local_client(2, processes=False) as client:
        assert detect(*problem, client=client, **QUICK).describe() == expected


def test_without_training_documents_the_bootstrap_judges_alone(problem):
    model, test, validation, _ = problem
    found = detect(model, test, validation, **QUICK)
    assert found.clusters[0].calibration_support is None
    assert set(found.clusters[0].documents) == set(PLANTED)


def test_the_rules_of_the_paper(problem):
    found = detect(*problem, rules="paper", membership={"replicates": 100})
    assert found.candidates[0].calibration_support is None
    assert set(found.candidates[0].documents) >= set(PLANTED[:5])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"seed": 3}, "seeds"),
        ({"seeds": 0}, "seeds"),
        ({"significance": {"level": 2}}, "level"),
        ({"stop": object()}, "plain"),
    ],
)
def test_a_wrong_setting_is_a_sentence(problem, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        detect(*problem, **settings)


def test_a_pool_of_training_documents_needs_them(problem):
    model, test, validation, _ = problem
    with pytest.raises(InputError, match="train must be given if pool is 'train'"):
        detect(model, test, validation, pool="train")
    with pytest.raises(InputError, match=r"repeats must be 1 for detect, .* got 3: find"):
        detect(model, test, validation, repeats=3)


def test_what_arguments_cannot_be(problem):
    model, test, validation, _ = problem
    for seed in (None, "1", 1.5, -1):
        with pytest.raises(InputError, match="random_state must be a whole number of at least 0"):
            detect(model, test, validation, random_state=seed)
    with pytest.raises(InputError, match=r"null_model must be a Pars.* saved one, got NoneType"):
        detect(None, test, validation)
    with pytest.raises(InputError, match="client must be a Client"):
        detect(model, test, validation, client="tcp://127.0.0.1:8786")


def test_the_names_are_at_the_top():
    assert atd_dask.detect is detect
    assert "detect" in dir(atd_dask)
