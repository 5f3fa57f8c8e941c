from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.documents import CountBatch
from atd_dask.errors import InputError
from atd_dask.stages.reading import counted_pieces
from atd_dask.text.options import Source
from atd_dask.text.readers import counted, counts, ldac
from atd_dask.text.readers.ldac import parse_lines, write_ldac
from tests.shared import shared

documents_of_counts = st.lists(
    st.dictionaries(st.integers(0, 50) | st.just(2**31 - 1), st.integers(1, 2**31 - 1)), max_size=8
)


def read_rows(path: Path | str, **source: str) -> list[tuple[str, tuple[str, ...], dict[int, int]]]:
    rows = []
    for batch in counts(Source("ldac", str(path), **source)).batches():
        assert batch.indptr.dtype == np.int64
        assert batch.terms.dtype == batch.counts.dtype == np.int32
        bounds = batch.indptr.tolist()
        for i, (id, labels) in enumerate(zip(batch.ids, batch.labels, strict=True)):
            terms = batch.terms[bounds[i] : bounds[i + 1]].tolist()
            assert terms == sorted(terms)
            values = batch.counts[bounds[i] : bounds[i + 1]].tolist()
            rows.append((id, labels, dict(zip(terms, values, strict=True))))
    return rows


def test_lines_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.ldac"
    path.write_bytes(b"2 7:1 3:2\n0\n1 0:9")
    (tmp_path / "a.labels").write_text("ship crude\n\n coffee \n")
    (tmp_path / "words.txt").write_text("".join(f"word{i}\n" for i in range(8)))
    source = Source("ldac", str(path), vocabulary=str(tmp_path / "words.txt"))
    assert counts(source).vocabulary == tuple(f"word{i}" for i in range(8))
    assert read_rows(path, labels=str(tmp_path / "a.labels")) == [
        ("0", ("ship", "crude"), {3: 2, 7: 1}),
        ("1", (), {}),
        ("2", ("coffee",), {0: 9}),
    ]


def test_without_a_vocabulary_terms_name_themselves(tmp_path: Path) -> None:
    (tmp_path / "a.ldac").write_bytes(b"1 2147483647:1\n")
    corpus = counts(Source("ldac", str(tmp_path / "a.ldac")))
    assert corpus.vocabulary is None
    for _ in range(2):  # can be read again
        (batch,) = corpus.batches()
        assert batch.terms.tolist() == [2**31 - 1]


def test_white_space_is_free(tmp_path: Path) -> None:
    path = tmp_path / "a.ldac.gz"
    path.write_bytes(gzip.compress(b" 02\t3:1   1:007 \r\n1 5:1\n"))
    assert [row[2] for row in read_rows(path)] == [{1: 7, 3: 1}, {5: 1}]


@given(documents_of_counts, st.randoms(use_true_random=False))
def test_the_fast_way_reads_what_the_slow_one_reads(
    documents: list[dict[int, int]], random: object
) -> None:
    lines = []
    for document in documents:
        pairs = list(document.items())
        random.shuffle(pairs)  # type: ignore[attr-defined]
        lines.append(" ".join([str(len(pairs)), *(f"{t}:{c}" for t, c in pairs)]).encode())
    fast, slow = parse_lines(lines, 1, "a", None), ldac._parse_each(lines, 1, "a", None)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert fast[1].tolist() == [t for document in documents for t in sorted(document)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "a line must begin with its number of distinct terms, got ''"),
        (b"x 1:1", "a line must begin with its number of distinct terms, got 'x'"),
        (b"1:1 2:1", "a line must begin with its number of distinct terms, got '1:1'"),
        (b"-1 2:1", "a line must begin with its number of distinct terms, got '-1'"),
        (b"2 1:1", "the number of distinct terms must be 1, as many as follow, got '2'"),
        (b"0 1:1", "the number of distinct terms must be 1, as many as follow, got '0'"),
        (b"1", "the number of distinct terms must be 0, as many as follow, got '1'"),
        (b"2 1:1 1:2", "a term must occur once in a line, got '1:2'"),
        (b"2 1:1 2", "terms and counts must be whole numbers in the form term:count, got '2'"),
        (b"2 1:1 2:x", "terms and counts must be whole numbers .*, got '2:x'"),
        (b"1 2:1.5", "terms and counts must be whole numbers .*, got '2:1.5'"),
        (b"1 -2:1", "terms and counts must be whole numbers .*, got '-2:1'"),
        (b"1 2:-1", "terms and counts must be whole numbers .*, got '2:-1'"),
        (b"1 2:", "terms and counts must be whole numbers .*, got '2:'"),
        (b"1 2:1:1", "terms and counts must be whole numbers .*, got '2:1:1'"),
        (b"1 \xb2:1", "terms and counts must be whole numbers .*, got '\ufffd:1'"),
        (b"1 2:0", "a count must be at least 1, got '2:0'"),
        (b"1 2147483648:1", "terms and counts must be at most 2147483647, got '2147483648:1'"),
        (b"1 2:" + b"9" * 5000, "terms and counts must be at most 2147483647, got '2:999"),
        (b"1 7:1", "a term must be less than the vocabulary's 7 words, got '7:1'"),
        (b"\0", "a line must begin with its number of distinct terms, got '.x00'"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path: Path, line: bytes, message: str) -> None:
    path, words = tmp_path / "a.ldac", tmp_path / "words.txt"
    words.write_text("a\nb\nc\nd\ne\nf\ng\n")
    path.write_bytes(b"1 6:1\n" * 5000 + line + b"\n1 6:1\n")
    with pytest.raises(InputError, match=rf"a\.ldac, line 5001: {message}"):
        read_rows(path, vocabulary=str(words))


@pytest.mark.parametrize(("n_labels", "n_docs"), [(4999, 5000), (5001, 5000), (0, 1), (1, 0)])
def test_there_must_be_a_label_line_for_each_document(
    tmp_path: Path, n_labels: int, n_docs: int
) -> None:
    path, labels = tmp_path / "a.ldac", tmp_path / "a.labels"
    path.write_bytes(b"1 1:1\n" * n_docs)
    labels.write_bytes(b"label\n" * n_labels)
    message = f"must have a line for each of the {n_docs} documents of .*, has {n_labels}"
    with pytest.raises(InputError, match=rf"a\.labels {message}"):
        read_rows(path, labels=str(labels))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a\n\nb\n", r"words\.txt, line 2: a vocabulary must have a word on each line"),
        ("a\nb\n a\n", r"words\.txt, line 3: a word must occur once .*, got 'a' also on line 1"),
    ],
)
def test_a_bad_vocabulary_is_refused(tmp_path: Path, words: str, message: str) -> None:
    (tmp_path / "words.txt").write_text(words)
    with pytest.raises(InputError, match=message):
        counts(Source("ldac", "a.ldac", vocabulary=str(tmp_path / "words.txt")))


def test_missing_files_are_named(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    with pytest.raises(InputError, match="absent must exist"):
        counts(Source("ldac", "a.ldac", vocabulary=absent))
    with pytest.raises(InputError, match="absent must exist"):
        read_rows(absent)
    (tmp_path / "a.ldac").write_bytes(b"0\n")
    with pytest.raises(InputError, match="absent must exist"):
        read_rows(tmp_path / "a.ldac", labels=absent)
    with pytest.raises(InputError, match="format must be one of ldac, npz, got 'jsonl'"):
        counts(Source("jsonl", "a"))


def test_a_line_without_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldac, "MAX_LINE_BYTES", 1_000_000)
    path = tmp_path / "a.ldac"
    path.write_bytes(b"0\n" + b"1" * 20_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="line 2: a line must have at most 1000000 bytes"):
            read_rows(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ldac"
    path.write_bytes(b"1 1:1\n" * 10_000)
    sizes = [len(batch) for batch in counts(Source("ldac", str(path))).batches()]
    assert sizes == [counted.BATCH_DOCUMENTS] * 2 + [10_000 - 2 * counted.BATCH_DOCUMENTS]
    monkeypatch.setattr(ldac, "_BATCH_BYTES", 500)
    assert len(list(counts(Source("ldac", str(path))).batches())) == 100


@given(documents_of_counts)
def test_what_is_written_is_read_again(documents: list[dict[int, int]]) -> None:
    sizes = [len(document) for document in documents]
    terms = [term for document in documents for term in sorted(document)]
    values = [document[term] for document in documents for term in sorted(document)]
    batch = CountBatch(
        ids=[str(i) for i in range(len(documents))],
        labels=[()] * len(documents),
        indptr=np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64),
        terms=np.array(terms, dtype=np.int32),
        counts=np.array(values, dtype=np.int32),
    )
    for path in ("memory://written.ldac", "memory://written.ldac.gz"):
        write_ldac(path, [batch])
        assert [row[2] for row in read_rows(path)] == documents


@pytest.mark.parametrize("corpus", ["reuters", "newsgroups", "synthetic"])
@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_shared_corpus_comes_back(tmp_path: Path, corpus: str, part: str) -> None:
    folder = shared(f"corpora/{corpus}")
    given, back = folder / f"{part}.ldac.gz", tmp_path / "back.ldac.gz"
    source = Source("ldac", str(given), labels=str(folder / f"{part}.labels"))
    batches = list(counts(source).batches())
    write_ldac(str(back), batches)

    def normal(line: bytes) -> list[bytes]:
        head, *pairs = line.split()
        return [head, *sorted(pairs, key=lambda pair: int(pair.split(b":")[0]))]

    with gzip.open(given) as one, gzip.open(back) as other:
        for line, written in zip(one, other, strict=True):
            assert written == b" ".join(normal(line)) + b"\n"
    labels = [" ".join(some) for batch in batches for some in batch.labels]
    assert labels == (folder / f"{part}.labels").read_text().splitlines()


def test_a_number_that_nothing_names_has_a_limit(tmp_path):
    path = tmp_path / "a.ldac"
    path.write_text("1 99999999:1\n")
    corpus = counts(Source("ldac", str(path)))
    with pytest.raises(InputError, match=r"a\.ldac must have at most 2097152 words .* 100000000"):
        list(counted_pieces(corpus))
