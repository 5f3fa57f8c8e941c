from __future__ import annotations

import pickle

import pytest

from atd_dask import TextPreparation
from atd_dask.errors import ConfigError, InputError

TEXT = "The ships were shipping coffee, and 20 ships sank."


def test_words_are_those_of_a_run():
    assert TextPreparation()(TEXT) == ["ship", "ship", "coffe", "ship", "sank"]
    assert TextPreparation(stemmer="none").fit().transform([TEXT, ""]) == [
        ["ships", "shipping", "coffee", "ships", "sank"],
        [],
    ]
    assert "20" in TextPreparation(tokens="words+numbers").fit_transform([TEXT])[0]


def test_options_are_those_of_a_configuration():
    preparation = TextPreparation(language="german")
    assert preparation.get_params()["language"] == "german"
    assert repr(preparation) == "TextPreparation(language='german')"
    assert pickle.loads(pickle.dumps(preparation))("Die Häuser") == preparation("Die Häuser")
    with pytest.raises(InputError, match=r"an option must be one of .*, got 'stems'"):
        TextPreparation(stems="none")
    with pytest.raises(ConfigError, match=r"corpus\.text\.stemmer must be one of"):
        preparation.set_params(stemmer="lancaster")


def test_a_vectorizer_counts_the_same_words():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectorizer = text.CountVectorizer(analyzer=TextPreparation())
    counts = vectorizer.fit_transform([TEXT]).toarray()[0]
    words = dict(zip(vectorizer.get_feature_names_out(), counts, strict=True))
    assert words == {"ship": 3, "coffe": 1, "sank": 1}


def test_scikit_learn_takes_it_for_a_transformer_of_texts():
    base = pytest.importorskip("sklearn.base")
    pipeline = pytest.importorskip("sklearn.pipeline")
    text = pytest.importorskip("sklearn.feature_extraction.text")
    preparation = TextPreparation(extra_stop_words=("coffee", "sank"))
    assert base.clone(preparation).get_params() == preparation.get_params()
    counts = text.CountVectorizer(analyzer=list)
    pipeline.make_pipeline(preparation, counts).fit([TEXT])
    assert counts.get_feature_names_out().tolist() == ["ship"]


def test_scikit_learn_has_its_checks():
    """Those that do not draw numbers as documents."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    if not hasattr(checks, "check_valid_tag_types"):
        pytest.skip("needs scikit-learn 1.6 or newer")
    for check in (
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_get_params_invariance,
        checks.check_mixin_order,
        checks.check_valid_tag_types,
    ):
        check("TextPreparation", TextPreparation())
