"""Stores that are written in pieces: the same bytes, wherever the pieces are and end."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.run_config import RunConfig
from atd_dask.distribution.counting import hold_shards
from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.spooling import CountSpool
from atd_dask.documents import Copies, Document
from atd_dask.errors import InputError
from atd_dask.stages.storing import choose_vocabulary, store_parts
from atd_dask.storage import corpus_writer
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.corpus_writer import CorpusWriter
from atd_dask.text.lexicon import Encoding, Lexicon
from tests.clusters import local_client
from tests.text.test_counting import PLAIN, Texts


def make_documents(n_docs: int) -> list[Document]:
    stream = np.random.default_rng(5)
    words = [chr(97 + n) * 3 for n in range(26)]
    return [
        Document(f"d{n}", " ".join(stream.choice(words, stream.integers(1, 9))), ("odd",) * (n % 2))
        for n in range(n_docs)
    ]


def cut(documents: list[Document], sizes: list[int]) -> list[Texts]:
    ends = np.cumsum(sizes)
    return [
        Texts(tuple(documents[end - size : end])) for end, size in zip(ends, sizes, strict=True)
    ]


def gather(runner: Runner, pieces: list[Texts]) -> CountSpool:
    spool = CountSpool(Lexicon(), runner)
    for handle, summary in hold_shards(runner, pieces, PLAIN):
        spool.note(handle, summary)
    return spool


def read_folder(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def store(output: Path, runner: Runner, pieces: list[Texts]) -> dict[str, dict[str, bytes]]:
    config = RunConfig(name="pieces", output=str(output))
    with closing(gather(runner, pieces)) as spool:
        odd = np.arange(spool.n_docs) % 7 == 3
        parts = dict(zip(("train", "validation"), spool.divide([~odd, odd]), strict=True))
        vocabulary = choose_vocabulary(config, parts["train"])[:20]
        found = store_parts(
            config, parts, vocabulary, make_progress(quiet=True), dict, has_copies=False
        )
        for name, part in parts.items():
            encoding = Encoding.choose(part, vocabulary)
            whole = output / f"{name}-whole.zarr"
            attributes = CorpusStore.open(found[name].path).attributes
            with CorpusWriter(whole, vocabulary, encoding.unseen_words, attributes) as writer:
                for batch in part.batches():
                    writer.append(*encoding.encode(batch))
            assert read_folder(Path(found[name].path)) == read_folder(whole)
    return {name: read_folder(Path(one.path)) for name, one in found.items()}


SIZES = ([60], [1] * 60, [7, 0, 29, 1, 1, 2, 20], [31, 29])


def test_the_bytes_are_the_same_wherever_pieces_end(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_writer, "CHUNK_ENTRIES", 16)
    monkeypatch.setattr(corpus_writer, "CHUNK_TEXTS", 8)
    documents = make_documents(60)
    stores = [
        store(tmp_path / str(n), Runner(), cut(documents, sizes)) for n, sizes in enumerate(SIZES)
    ]
    with local_client(2) as client:
        stores += [
            store(tmp_path / f"on-workers-{n}", Runner(client), cut(documents, sizes))
            for n, sizes in enumerate(SIZES)
        ]
    assert all(one == stores[0] for one in stores)


def test_nothing_is_stored_if_the_documents_are_refused_meanwhile(tmp_path):
    def refuse() -> dict[str, Copies]:
        raise InputError("not these")

    config = RunConfig(name="refused", output=str(tmp_path))
    pieces = cut(make_documents(20), [10, 10])
    with closing(gather(Runner(), pieces)) as spool:
        vocabulary = choose_vocabulary(config, spool)
        with pytest.raises(InputError, match="not these"):
            store_parts(
                config,
                {"train": spool},
                vocabulary,
                make_progress(quiet=True),
                refuse,
                has_copies=True,
            )
    assert not list(tmp_path.rglob("*.zarr*"))
