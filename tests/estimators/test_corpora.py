"""The documents that estimators take: every form gives the same counts, or a sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sparse as pydata_sparse
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from atd_dask import ParsimoniousTopicModel
from atd_dask.errors import InputError
from atd_dask.estimators.corpora import as_corpus
from atd_dask.estimators.given import Columns, write_given
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from tests.clusters import local_client
from tests.estimators.counted import (
    COUNTS,
    WORDS,
    as_mappings,
    check_same_topics,
    make_model,
    write_store,
)
from tests.storage.test_checkpoints import check_same


class TestDocuments:
    @pytest.mark.parametrize(
        "convert",
        [
            sparse.csr_matrix,
            sparse.csc_array,
            lambda counts: sparse.coo_array(counts.astype(float)),
            pydata_sparse.COO.from_numpy,
            lambda counts: pydata_sparse.GCXS.from_numpy(counts, compressed_axes=(0,)),
            lambda counts: counts.astype(np.uint8),
            lambda counts: counts.tolist(),
            lambda counts: tuple(map(tuple, counts.tolist())),
        ],
    )
    def test_any_matrix_gives_the_same_model(self, fitted, convert):
        documents = convert(COUNTS)
        check_same_topics(make_model().fit(documents, vocabulary=list(WORDS)), fitted)
        np.testing.assert_array_equal(fitted.transform(documents), fitted.transform(COUNTS))

    def test_mappings_give_the_same_model(self, fitted):
        check_same_topics(make_model().fit(as_mappings(COUNTS)), fitted)
        np.testing.assert_array_equal(
            fitted.transform(as_mappings(COUNTS)), fitted.transform(COUNTS)
        )

    def test_a_store_gives_the_same_model(self, fitted, tmp_path):
        store = write_store(tmp_path / "c")
        model = make_model().fit(store)
        check_same_topics(model, fitted)
        assert model.model_.corpus == store.digest
        np.testing.assert_array_equal(model.transform(store), fitted.transform(COUNTS))

    def test_a_cluster_gives_the_same_model(self, fitted, tmp_path):
        with local_client(2) as client:
            model = make_model().fit(COUNTS, vocabulary=WORDS, client=client)
            stored = make_model().fit(write_store(tmp_path / "c"), client=client)
        check_same(model.model_, fitted.model_)
        check_same_topics(stored, fitted)

    def test_a_matrix_is_left_as_it_is(self):
        data = np.array([2, 0, 1, 3, 4])
        indices = np.array([3, 1, 0, 2, 2])
        indptr = np.array([0, 3, 5])
        matrix = sparse.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(2, 4))
        model = ParsimoniousTopicModel(1).fit(matrix)
        np.testing.assert_array_equal(matrix.data, data)
        np.testing.assert_array_equal(matrix.indices, indices)
        np.testing.assert_array_equal(matrix.indptr, indptr)
        assert (
            model.model_.corpus
            == ParsimoniousTopicModel(1).fit([[1, 0, 0, 2], [0, 0, 7, 0]]).model_.corpus
        )

    def test_words_that_the_model_does_not_know_are_passed_over(self, fitted):
        known, unknown = {WORDS[0]: 3, WORDS[4]: 2}, {"unheard of": 9}
        rows = fitted.transform([known, known | unknown, unknown, {}])
        np.testing.assert_array_equal(rows[0], rows[1])
        assert rows.sum(axis=1).tolist() == [pytest.approx(1), pytest.approx(1), 0, 0]
        assert fitted.log_likelihood([unknown, {}]).tolist() == [0, 0]

    def test_no_documents_have_no_proportions(self, fitted, tmp_path):
        with CorpusWriter(tmp_path / "c", WORDS):
            pass
        for none in ([], np.zeros((0, len(WORDS))), CorpusStore.open(tmp_path / "c")):
            assert fitted.transform(none).shape == (0, fitted.n_topics_)
            assert fitted.log_likelihood(none).shape == (0,)
            assert fitted.score(none) == 0
            assert fitted.bic(none) == 0


class TestMistakes:
    @pytest.mark.parametrize(
        ("documents", "message"),
        [
            ([[1, -2]], "counts must be whole numbers .* got -2 in row 0"),
            ([[1.0, 0.0], [0.5, 0.0]], "counts must be whole numbers .* got 0.5 in row 1"),
            ([[1.0, math.nan]], "counts must be whole numbers .* got nan in row 0"),
            ([[math.inf, 1.0]], "counts must be whole numbers .* got inf in row 0"),
            ([[2**31, 1]], "counts must be whole numbers .* got 2147483648 in row 0"),
            ([[1j, 1]], "counts must be numbers, got complex128"),
            ([1, 2, 3], "a matrix of counts must be documents × words, got 1 axes"),
            ([[1, 2], [3]], "documents must be .* got list"),
            (np.zeros((2, 2, 2)), "documents must be .* got ndarray"),
            ([["a", "b"]], "documents must be .* got list"),
            ("some text", "documents must be .* got str"),
            (["some", "texts"], "documents must be .* got list"),
            (None, "documents must be .* got NoneType"),
            ({"oil": 2}, "documents must be .* got dict"),
            ([{"oil": 2}, ["oil"]], "documents must be .* got list"),
            ([{"oil": "2"}], "counts must be numbers, got '2' for 'oil' in row 0"),
            ([{"oil": 1}, {"oil": None}], "counts must be numbers, got None for 'oil' in row 1"),
            ([{"oil": 1}, {"oil": -1}], "counts must be whole numbers .* got -1.0 in row 1"),
            ([{"oil": 0.5}], "counts must be whole numbers .* got 0.5 in row 0"),
            ([], "a topic model must be fitted on documents with words, got none"),
            ([{}, {}], "a topic model must be fitted on documents with words, got none"),
            (np.zeros((4, 5)), "a topic model must be fitted on documents with words, got none"),
            (np.zeros((0, 5)), "a topic model must be fitted on documents with words, got none"),
            (np.zeros((5, 0)), "a topic model must be fitted on documents with words, got none"),
        ],
    )
    def test_documents(self, documents, message):
        with pytest.raises(InputError, match=message) as caught:
            ParsimoniousTopicModel(1).fit(documents)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("vocabulary", "message"),
        [
            (["a"], "a vocabulary must name the 2 columns, got 1 words"),
            (["a", "a"], "a vocabulary must name each word once, got 'a' twice"),
            (CountVectorizer(), "a vocabulary must be words or a fitted CountVectorizer, got one"),
            ({"b": 0, "a": 1}, "a vocabulary must be a sequence of words .* got dict"),
            ("ab", "a vocabulary must be a sequence of words .* got str"),
        ],
    )
    def test_vocabulary(self, vocabulary, message):
        with pytest.raises(InputError, match=message):
            ParsimoniousTopicModel(1).fit([[1, 2]], vocabulary=vocabulary)
        with pytest.raises(InputError, match=message):
            ParsimoniousTopicModel(1, vocabulary=vocabulary).fit([[1, 2]])

    def test_documents_over_other_words(self, fitted):
        with pytest.raises(InputError, match="a vocabulary must name the 3 columns, got 18 words"):
            fitted.transform([[1, 2, 3]])

    def test_a_store_over_other_words(self, tmp_path, fitted):
        store = write_store(tmp_path / "c")
        others = (*WORDS[:-1], "another")
        with pytest.raises(InputError, match="must have the given words, but has others"):
            make_model().fit(COUNTS, vocabulary=others).transform(store)
        with pytest.raises(InputError, match="must have the given words, but has others"):
            make_model().fit(store, vocabulary=others)
        check_same_topics(make_model().fit(store, vocabulary=list(WORDS)), fitted)


def break_matrix(kind):
    matrix = sparse.csr_matrix(np.ones((4, 5), dtype=np.int64))
    if kind == "coo":
        matrix = matrix.tocoo()
        matrix.col[3] = 10**6
    elif kind == "indptr":
        matrix.indptr[1] = 10**6
    elif kind == "descending":
        matrix.indptr[1], matrix.indptr[2] = matrix.indptr[2], matrix.indptr[1]
    elif kind == "csc":
        matrix = matrix.tocsc()
        matrix.indices[3] = 10**6
    else:
        matrix.indices[3] = -1 if kind == "negative" else 10**6
    return matrix


@pytest.mark.parametrize("kind", ["coo", "csc", "indptr", "descending", "negative", "indices"])
def test_a_matrix_that_contradicts_itself_is_a_sentence(kind, tmp_path):
    with pytest.raises(InputError, match="a matrix of counts must be valid, but: "):
        as_corpus(break_matrix(kind), None)
    with pytest.raises(InputError, match="normal must be a valid matrix of counts, but: "):
        write_given(break_matrix(kind), "normal", Columns(None, None, None), None, tmp_path)


def test_columns_that_nothing_names_have_a_limit():
    wide = sparse.csr_array((np.array([1]), (np.array([0]), np.array([5]))), (1, 10**9))
    with pytest.raises(InputError, match="a matrix of counts must have at most 2097152 words"):
        as_corpus(wide, None)
