"""The topic model in scikit-learn's machinery."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pandas
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from atd_dask import ParsimoniousTopicModel
from atd_dask.errors import InputError
from tests.estimators.counted import COUNTS, WORDS, check_same_topics

if not hasattr(estimator_checks, "check_positive_only_tag_during_fit"):
    pytest.skip("needs scikit-learn 1.6 or newer", allow_module_level=True)

OTHERWISE = {
    "check_dtype_object": "documents of another kind are an InputError, which is a ValueError:"
    " what documents can be is said in one sentence, wherever the mistake is",
}


class CountModel(ParsimoniousTopicModel):
    """scikit-learn has no tag for counts. With the one for categories, its checks draw integers;
    nothing else uses it."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


def list_checks():
    with warnings.catch_warnings():
        # Not to inherit from BaseEstimator is on purpose.
        warnings.filterwarnings("ignore", "Estimator CountModel does not inherit", UserWarning)
        mark = estimator_checks.parametrize_with_checks(
            [CountModel((1, 3))], expected_failed_checks=lambda _: OTHERWISE
        )
        return pytest.mark.parametrize(mark.args[0], list(mark.args[1]), ids=mark.kwargs["ids"])


@list_checks()
def test_what_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_get_feature_names_out_error,
    ],
)
def test_what_it_checks_in_its_own_estimators(check):
    check("CountModel", CountModel((1, 3)))


TEXTS = ["engine wheel brake engine", "flour butter sugar", "wheel brake wheel", "sugar flour"] * 5


def test_a_pipeline_names_the_words():
    counts = CountVectorizer()
    pipeline = make_pipeline(counts, ParsimoniousTopicModel((1, 3), vocabulary=counts))
    proportions = pipeline.fit_transform(TEXTS)
    model = pipeline[-1]
    assert model.vocabulary_ == ("brake", "butter", "engine", "flour", "sugar", "wheel")
    assert model.n_topics_ == 2
    assert {*model.top_words(0), *model.top_words(1)} <= set(model.vocabulary_)
    assert model.top_words(0)
    assert model.feature_names_in_.tolist() == list(model.vocabulary_)
    assert pipeline.get_feature_names_out().tolist() == [
        "parsimonioustopicmodel0",
        "parsimonioustopicmodel1",
    ]
    np.testing.assert_array_equal(proportions, pipeline.transform(TEXTS))
    assert "ParsimoniousTopicModel" in pipeline._repr_html_()
    given = ParsimoniousTopicModel((1, 3)).fit(counts.transform(TEXTS), vocabulary=counts)
    check_same_topics(given, model)


def test_a_search_needs_the_words():
    counts = CountVectorizer()
    model = ParsimoniousTopicModel(vocabulary=counts)
    grid = {"parsimonioustopicmodel__n_topics": [1, 2]}
    search = GridSearchCV(make_pipeline(counts, model), grid, cv=2, error_score="raise")
    with pytest.raises(InputError, match="got one that is not fitted; if a grid search or memory="):
        search.fit(TEXTS)
    words = sorted({word for text in TEXTS for word in text.split()})
    counts.set_params(vocabulary=words)
    for vocabulary in (counts, words):
        model.set_params(vocabulary=vocabulary)
        best = search.fit(TEXTS).best_estimator_[-1]
        assert best.n_topics_ == 2
        assert best.vocabulary_ == tuple(words)


def test_the_columns_of_a_frame_are_words():
    frame = pandas.DataFrame(COUNTS, columns=list(WORDS))
    model = ParsimoniousTopicModel((2, 5)).fit(frame)
    check_same_topics(model, ParsimoniousTopicModel((2, 5)).fit(COUNTS, vocabulary=WORDS))
    np.testing.assert_array_equal(model.transform(frame), model.transform(COUNTS))
    with pytest.raises(InputError, match=r"must be the given words .* 'word 17' for 'word 00'"):
        model.transform(frame[frame.columns[::-1]])
    unnamed = ParsimoniousTopicModel((2, 5)).fit(COUNTS)
    assert not hasattr(unnamed, "feature_names_in_")
    np.testing.assert_array_equal(unnamed.transform(frame), model.transform(COUNTS))


def test_scikit_learn_knows_whether_it_is_fitted():
    model = ParsimoniousTopicModel(2)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        check_is_fitted(model)
    with pytest.raises(NotFittedError, match="a topic model must be fitted before it is used"):
        model.transform(COUNTS)
    check_is_fitted(model.fit(COUNTS))


def run_program(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    return done.stdout.splitlines()


def test_scikit_learn_is_not_needed():
    program = """
import sys
sys.modules["sklearn"] = None
from atd_dask import ParsimoniousTopicModel, TextPreparation
from atd_dask.errors import InputError
try:
    ParsimoniousTopicModel().transform([[1]])
except InputError as error:
    print(error)
print(ParsimoniousTopicModel(1).fit([[1, 2]]), TextPreparation()("ships"))
"""
    assert run_program(program) == [
        "a topic model must be fitted before it is used",
        "ParsimoniousTopicModel(n_topics=1) ['ship']",
    ]


def test_scikit_learn_is_loaded_by_those_who_use_it():
    program = "from atd_dask import ParsimoniousTopicModel, TextPreparation"
    assert run_program(f"{program}\nimport sys; print('sklearn' in sys.modules)") == ["False"]
