from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from atd_dask import ParsimoniousTopicModel
from atd_dask.errors import InputError
from atd_dask.kernels.training import STRIDE
from atd_dask.storage.models import NullModel, write_model
from tests import naive
from tests.estimators.counted import COUNTS, WORDS, check_same_topics, make_counts, make_model
from tests.kernels.cluster_search import random_counts, read_block
from tests.kernels.test_authors import read_table
from tests.shared import shared
from tests.storage.test_checkpoints import check_same


class TestConventions:
    def test_fit_gives_the_model_itself(self):
        model = make_model()
        assert model.fit(COUNTS) is model

    def test_settings_are_parameters(self):
        model = make_model(tolerance=1e-3, random_state=7)
        expected = {
            "n_topics": (2, 5),
            "step": 1,
            "widen": True,
            "limit": 200,
            "restarts": 2,
            "tolerance": 1e-3,
            "max_iterations": 100,
            "random_state": 7,
            "compatibility": "paper",
            "vocabulary": None,
        }
        assert model.get_params() == expected
        assert clone(model).get_params() == expected
        assert model.set_params(n_topics=3, restarts=1) is model
        assert model.get_params() == expected | {"n_topics": 3, "restarts": 1}
        with pytest.raises(InputError, match=r"a setting must be one of n_topics.*got 'topics'"):
            model.set_params(topics=3)

    @pytest.mark.parametrize(
        "use",
        [
            lambda model: model.transform(COUNTS),
            lambda model: model.score(COUNTS),
            lambda model: model.bic(COUNTS),
            lambda model: model.log_likelihood(COUNTS),
            lambda model: model.top_words(0),
            lambda model: model.n_topics_,
            lambda model: model.bic_,
            lambda model: model.components_,
            lambda model: model.order_search_,
            lambda model: model.vocabulary_,
            lambda model: model.save("nowhere"),
        ],
    )
    def test_a_model_must_be_fitted_before_it_is_used(self, use):
        with pytest.raises(InputError, match=r"^a topic model must be fitted before it is used$"):
            use(make_model())

    def test_a_model_shows_the_settings_that_are_not_usual(self):
        assert repr(ParsimoniousTopicModel()) == "ParsimoniousTopicModel()"
        shown = "ParsimoniousTopicModel(n_topics=(2, 5), restarts=2, vocabulary=['a'])"
        assert repr(make_model(vocabulary=["a"])) == shown

    def test_fit_transform_is_both(self, fitted):
        proportions = make_model().fit_transform(COUNTS, vocabulary=WORDS)
        np.testing.assert_array_equal(proportions, fitted.transform(COUNTS))

    def test_a_fitted_model_travels(self, fitted):
        check_same_topics(pickle.loads(pickle.dumps(fitted)), fitted)


class TestResult:
    def test_what_was_found_hangs_together(self, fitted):
        records = [record for search in fitted.order_search_ for record in search]
        assert len(fitted.order_search_) == 2
        assert fitted.bic_ == min(record.bic for record in records)
        assert fitted.n_topics_ == fitted.model_.record.n_topics == len(fitted.components_)
        np.testing.assert_allclose(fitted.components_.sum(axis=1), 1)
        specific = len(fitted.model_.table.topics) / fitted.n_topics_
        assert fitted.model_.record.words_per_topic == specific

    def test_the_topics_that_made_the_documents_are_found(self, fitted):
        assert fitted.n_topics_ == 3
        main = fitted.transform(COUNTS).argmax(axis=1).reshape(-1, 3)
        assert np.all(main == main[0])
        assert len(set(main[0])) == 3

    def test_top_words_are_the_most_telling_of_the_topics_own(self, fitted):
        shared = fitted.model_.table.shared
        for topic in range(fitted.n_topics_):
            own = fitted.components_[topic]
            raised = np.flatnonzero(own > shared)
            telling = naive.measure_telling(own, shared)
            expected = [WORDS[n] for n in sorted(raised, key=lambda n: -telling[n])]
            assert fitted.top_words(topic, 100) == expected
            assert fitted.top_words(topic, 2) == expected[:2]

    @pytest.mark.parametrize("topic", [-1, 3, 100])
    def test_a_topic_that_is_not_there_is_said(self, fitted, topic):
        with pytest.raises(InputError, match=f"a topic must be .* from 0 to 2, got {topic}"):
            fitted.top_words(topic)

    def test_more_restarts_never_give_a_higher_bic(self):
        one, three = (ParsimoniousTopicModel((2, 5), restarts=n).fit(COUNTS).bic_ for n in (1, 3))
        assert three <= one

    def test_a_range_that_is_too_low_or_too_high_is_widened(self):
        counts = make_counts(n_docs=160, n_words=90, n_topics=8)
        for n_topics in ((2, 3), (14, 15)):
            assert ParsimoniousTopicModel(n_topics).fit(counts).n_topics_ == 8
            for fixed in ({"widen": False}, {"compatibility": "authors"}):
                model = ParsimoniousTopicModel(n_topics, **fixed).fit(counts)
                orders = {record.n_topics for record in model.order_search_[0]}
                assert max(orders) <= max(n_topics)
                assert len(orders) <= 2
        assert ParsimoniousTopicModel((2, 3), limit=4).fit(counts).n_topics_ == 4
        assert ParsimoniousTopicModel(3).fit(counts).n_topics_ == 3

    def test_another_seed_is_another_search(self, fitted):
        other = make_model(random_state=2).fit(COUNTS, vocabulary=WORDS)
        assert other.order_search_ != fitted.order_search_
        again = make_model(random_state=np.int64(1)).fit(COUNTS, vocabulary=WORDS)
        check_same_topics(again, fitted)


@pytest.mark.parametrize("compatibility", ["paper", "authors"])
def test_score_and_bic_are_the_equations(compatibility):
    model = make_model(compatibility=compatibility).fit(COUNTS)
    # So long that no topic pays at proportion 0, where the loops would not see it.
    new = np.random.default_rng(9).poisson(8.0, (10, len(WORDS)))
    new[3] = 0
    proportions = model.transform(new)
    likelihoods = model.log_likelihood(new)
    objective = 0.0
    for document, theta, likelihood in zip(new, proportions, likelihoods, strict=True):
        expected = naive.document_log_likelihood(document, theta, model.components_)
        assert likelihood == pytest.approx(expected)
        if document.any():
            objective += naive.document_objective(document, theta, model.components_)
    assert model.score(new) == pytest.approx(likelihoods.sum())
    assert model.bic(new) == pytest.approx(objective)


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("n_topics", 0, "n_topics must be a number of at least 1, .* got 0"),
            ("n_topics", (3, 2), r"n_topics must be .* got \(3, 2\)"),
            ("n_topics", (0, 2), r"n_topics must be .* got \(0, 2\)"),
            ("n_topics", (1, 2, 3), r"n_topics must be .* got \(1, 2, 3\)"),
            ("n_topics", 2.5, "n_topics must be .* got 2.5"),
            ("n_topics", "ab", "n_topics must be .* got 'ab'"),
            ("n_topics", None, "n_topics must be .* got None"),
            ("step", 0, "step must be a whole number of at least 1, got 0"),
            ("widen", "no", "widen must be True or False, got 'no'"),
            ("limit", 0, "limit must be a whole number of at least 1, got 0"),
            ("restarts", 0, "restarts must be a whole number of at least 1, got 0"),
            ("restarts", 1.5, "restarts must be a whole number of at least 1, got 1.5"),
            ("max_iterations", 0, "max_iterations must be a whole number of at least 1, got 0"),
            ("tolerance", -1e-4, "tolerance must be a number of at least 0, got -0.0001"),
            ("tolerance", math.nan, "tolerance must be a number of at least 0, got nan"),
            ("tolerance", "1e-4", "tolerance must be a number of at least 0, got '1e-4'"),
            ("random_state", -1, "random_state must be a whole number of at least 0, got -1"),
            ("random_state", None, "random_state must be a whole number of at least 0, got None"),
            ("compatibility", "paprr", "compatibility must be 'paper' or 'authors', got 'paprr'"),
        ],
    )
    def test_settings(self, name, value, message):
        model = ParsimoniousTopicModel(2).set_params(**{name: value})
        with pytest.raises(InputError, match=message):
            model.fit(COUNTS)


class TestPersistence:
    @pytest.mark.parametrize("settings", [{}, {"compatibility": "authors", "n_topics": 3}])
    def test_a_saved_model_is_the_same_model(self, tmp_path, settings):
        model = make_model().set_params(**settings).fit(COUNTS, vocabulary=WORDS)
        model.save(tmp_path / "m")
        loaded = ParsimoniousTopicModel.load(tmp_path / "m")
        check_same(loaded.model_, model.model_)
        assert loaded.get_params() == model.get_params()
        np.testing.assert_array_equal(loaded.transform(COUNTS), model.transform(COUNTS))
        check_same_topics(loaded.fit(COUNTS, vocabulary=WORDS), model)

    def test_settings_of_numpy_are_saved_too(self, tmp_path):
        model = ParsimoniousTopicModel(np.int64(2), tolerance=np.float64(1e-3)).fit(COUNTS)
        model.save(tmp_path / "m")
        assert ParsimoniousTopicModel.load(tmp_path / "m").get_params() == model.get_params()

    def test_what_is_no_model_is_said(self, tmp_path):
        with pytest.raises(InputError, match="there is no store at"):
            ParsimoniousTopicModel.load(tmp_path / "m")


def test_the_authors_model_fits_their_documents_as_they_recorded(tmp_path):
    table = read_table("reuters")
    words = tuple(map(str, range(table.n_words)))
    about = make_model().fit(COUNTS).model_.restarts
    write_model(tmp_path / "m", NullModel(table, words, about, {"compatibility": "authors"}, ""))
    model = ParsimoniousTopicModel.load(tmp_path / "m")
    block, _ = read_block("reuters", "test")
    documents = sparse.csr_array(
        (block.counts, block.terms, block.indptr), shape=(len(block), table.n_words)
    )
    with np.load(shared("reference/reuters_null_inference.npz")) as recorded:
        np.testing.assert_array_equal(model.transform(documents) > 0, recorded["test_theta0"] > 0)
        mine = model.log_likelihood(documents) / documents.sum(axis=1)
        np.testing.assert_allclose(mine, recorded["test_normalised_loglik"], rtol=0, atol=1e-5)


RANDOM = np.random.default_rng(0)
DEGENERATE = {
    "one document": [[3, 1, 2, 0]],
    "one word": [[3], [1], [2]],
    "one word in one document": [[3]],
    "one token": [[1]],
    "one token in each document": np.eye(12, dtype=int)[RANDOM.integers(12, size=40)],
    "identical documents": np.tile([3, 1, 2, 0, 5], (12, 1)),
    "a word in every document": np.hstack([np.full((30, 1), 5), RANDOM.poisson(0.5, (30, 10))]),
    "more topics than documents": RANDOM.poisson(1.0, (3, 10)) + np.eye(3, 10, dtype=int),
    "two words": RANDOM.poisson(1.0, (30, 2)),
    "documents without words": np.vstack([np.zeros((3, 6), int), RANDOM.poisson(2.0, (4, 6))] * 2),
    "one document with words": np.vstack([np.zeros((3, 6), int), [[1, 2, 3, 0, 0, 1]]]),
    "words that do not occur": np.pad(RANDOM.poisson(0.3, (20, 4)), ((0, 0), (5, 3))),
    "large counts": RANDOM.poisson(1.0, (10, 6)) * 10_000_000,
}
SETTINGS = {
    "one topic": {"n_topics": 1},
    "down to one": {"n_topics": (1, 6)},
    "many topics": {"n_topics": (20, 35)},
    "a step beyond the range": {"n_topics": (2, 9), "step": 50},
    "one iteration": {"n_topics": (1, 4), "max_iterations": 1},
    "to the end": {"n_topics": (1, 4), "tolerance": 0.0},
    "as the authors": {"n_topics": (1, 6), "compatibility": "authors"},
}


def check_sound(model, counts):
    counts = np.asarray(counts)
    assert np.all(np.isfinite(model.components_))
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    for record in itertools.chain(*model.order_search_):
        assert math.isfinite(record.bic)
        assert math.isfinite(record.log_likelihood)
    for column in (model.model_.table.excess, model.model_.table.log_ratio):
        assert np.all(np.isfinite(column))
    rows = model.transform(counts).sum(axis=1)
    np.testing.assert_allclose(rows, counts.any(axis=1), atol=1e-9)
    assert math.isfinite(model.score(counts))
    assert math.isfinite(model.bic(counts))


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("counts", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_documents_have_a_model(counts, options):
    model = ParsimoniousTopicModel(**options).fit(counts)
    check_sound(model, counts)
    n_docs = int(np.asarray(counts).any(axis=1).sum())
    most = options["n_topics"] if isinstance(options["n_topics"], int) else options["n_topics"][1]
    assert 1 <= model.n_topics_ <= min(most, n_docs)
    orders = [record.n_topics for record in model.order_search_[0]]
    # First every order that is tried, each once, then the best one again, and with split topics.
    tried, again = orders[: len(set(orders))], orders[len(set(orders)) :]
    assert len(set(tried)) == len(tried)
    assert tried[0] == max(tried)
    for n, order in enumerate(again, len(tried)):
        best = min(model.order_search_[0][:n], key=lambda record: record.bic).n_topics
        assert abs(order - best) <= max(best // STRIDE, 1)
    if "compatibility" in options:
        assert set(again) <= {model.n_topics_}
    if "step" in options:
        assert len(tried) == 1
    if "max_iterations" in options:
        assert {record.iterations for record in model.order_search_[0]} == {1}


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_random_documents_have_a_model(seed):
    rng = np.random.default_rng(seed)
    counts = random_counts(rng)
    options = rng.choice(list(SETTINGS.values()))
    check_sound(ParsimoniousTopicModel(**options).fit(counts), counts)


def test_identical_documents_have_one_topic():
    model = ParsimoniousTopicModel((1, 6)).fit(np.tile([30, 10, 20, 0, 50], (12, 1)))
    assert model.n_topics_ == 1
    np.testing.assert_allclose(model.components_, [[3 / 11, 1 / 11, 2 / 11, 0, 5 / 11]])


def test_one_word_is_certain():
    model = ParsimoniousTopicModel((1, 3)).fit([[3], [1], [2]])
    assert model.components_.tolist() == [[1.0]] * model.n_topics_
    assert model.score([[7], [0]]) == 0
