from __future__ import annotations

import pickle

import numpy as np
from scipy.sparse import csr_matrix, hstack

from atd_dask.storage.representatives import with_all_words
from tests.storage.corpora import UNSEEN, write_corpus


def test_a_store_with_all_of_its_words(tmp_path):
    store = write_corpus(tmp_path / "corpus.zarr")
    known = {UNSEEN[0]}
    everything = with_all_words(store, known)
    occurring = np.asarray(store.unseen().sum(axis=0)).ravel() > 0
    chosen = [n for n, word in enumerate(UNSEEN) if word not in known and occurring[n]]
    assert everything.vocabulary == (*store.vocabulary, *(UNSEEN[n] for n in chosen))
    expected = hstack([store.matrix(), store.unseen()[:, chosen]], format="csr")
    for corpus in (everything, pickle.loads(pickle.dumps(everything))):
        block = corpus.rows(0, corpus.n_docs)
        mine = csr_matrix((block.counts, block.terms, block.indptr), shape=expected.shape)
        assert (mine != expected).nnz == 0
        np.testing.assert_array_equal(
            corpus.lengths(), np.asarray(expected.sum(axis=1)).ravel().astype(int)
        )
    assert everything.without_copies() is everything
