from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.text.options import Source
from atd_dask.text.readers import counts
from atd_dask.text.synthetic import ANOMALOUS, PARTS, generate, ground_truth
from tests.shared import shared


def rows_of(batch: CountBatch) -> NDArray[np.int64]:
    """The document of every entry."""
    return np.repeat(np.arange(len(batch)), np.diff(batch.indptr))


def draw(seed: int, part: str) -> CountBatch:
    (batch,) = generate(seed, part).batches()
    return batch


def share_of_salient_words(
    batch: CountBatch, truth: dict[str, dict[str, float]]
) -> dict[str, float]:
    """For every label, how much of its documents' text the salient words of its topic make up."""
    labels = np.array([some[0] for some in batch.labels])[rows_of(batch)]
    shares = {}
    for label in sorted(set(labels.tolist())):
        mine = labels == label
        salient = np.isin(batch.terms[mine], [int(word[1:]) for word in truth[label]])
        counted = batch.counts[mine]
        shares[label] = float(counted[salient].sum() / counted.sum())
    return shares


def test_the_parts_have_the_paper_s_sizes() -> None:
    normal = [str(topic) for topic in range(10)]
    for part, size in (("train", 300), ("validation", 300), ("test", 200)):
        batch = draw(1, part)
        expected = Counter(dict.fromkeys(normal, size))
        if part == "test":
            expected.update(dict.fromkeys(ANOMALOUS, 30))
        assert Counter(some[0] for some in batch.labels) == expected
        assert len(set(batch.ids)) == len(batch)
        lengths = np.add.reduceat(batch.counts, batch.indptr[:-1])
        assert lengths.mean() == pytest.approx(50, abs=0.5)
        assert lengths.var() == pytest.approx(50, abs=4)


def test_a_batch_keeps_its_promises() -> None:
    batch = draw(2, "test")
    rows = rows_of(batch)
    assert np.all((np.diff(batch.terms) > 0) | (np.diff(rows) > 0))
    assert batch.counts.min() >= 1
    assert (batch.indptr.dtype, batch.terms.dtype, batch.counts.dtype) == (
        np.int64,
        np.int32,
        np.int32,
    )
    assert len(generate(2, "test").vocabulary or ()) == 3000


def test_seed_and_part_decide_everything() -> None:
    def content(seed: int, part: str) -> bytes:
        batch = draw(seed, part)
        return batch.terms.tobytes() + batch.counts.tobytes() + str(batch.labels).encode()

    draws = {(seed, part): content(seed, part) for seed in (0, 1) for part in PARTS}
    assert len(set(draws.values())) == len(draws)
    assert all(content(*key) == value for key, value in draws.items())
    assert ground_truth(1) == ground_truth(1) != ground_truth(2)


def test_the_order_tells_nothing() -> None:
    labels = [some[0] for some in draw(3, "test").labels]
    where = [row for row, label in enumerate(labels) if label in ANOMALOUS]
    assert 800 < np.mean(where) < 1260


def test_every_word_of_test_occurs_in_training() -> None:
    train = np.unique(draw(4, "train").terms)
    for part in ("validation", "test"):
        assert np.isin(draw(4, part).terms, train).all()
    words = {int(word[1:]) for topic in ground_truth(4).values() for word in topic}
    assert words <= set(train.tolist())


def test_ground_truth_is_what_the_documents_show() -> None:
    truth = ground_truth(5)
    assert list(truth) == [str(topic) for topic in range(12)]
    assert all(len(words) == 30 for words in truth.values())
    test = draw(5, "test")
    # Half of the dominant words of an anomalous document are those of its normal topic.
    for label, share in share_of_salient_words(test, truth).items():
        dominant = 0.425 if label in ANOMALOUS else 0.85
        assert share == pytest.approx(dominant * sum(truth[label].values()), abs=0.05)


def test_normal_test_documents_have_nothing_of_the_anomalous_topics() -> None:
    truth = ground_truth(6)
    normal_words = {word for topic in range(10) for word in truth[str(topic)]}
    only = [
        int(word[1:]) for label in ANOMALOUS for word in truth[label] if word not in normal_words
    ]
    rates = {}
    for part in ("validation", "test"):
        batch = draw(6, part)
        normal = np.array([some[0] not in ANOMALOUS for some in batch.labels])[rows_of(batch)]
        counted = batch.counts[normal]
        rates[part] = counted[np.isin(batch.terms[normal], only)].sum() / counted.sum()
    # In the authors' corpus these words are 3 % of the normal test documents.
    assert rates["test"] == pytest.approx(rates["validation"], abs=0.003)


def test_it_is_as_hard_as_the_authors_corpus() -> None:
    folder = shared("corpora/synthetic")
    for part in PARTS:
        (theirs,) = counts(Source("ldac", str(folder / f"{part}.ldac.gz"))).batches()
        ours = draw(1, part)
        assert ours.counts.sum() == pytest.approx(theirs.counts.sum(), rel=0.02)
        assert len(ours.terms) == pytest.approx(len(theirs.terms), rel=0.03)
        assert len(np.unique(ours.terms)) == pytest.approx(len(np.unique(theirs.terms)), rel=0.05)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of train, validation, test, got 'dev'"):
        generate(1, "dev")
