from __future__ import annotations

from pathlib import Path

import pytest

from atd_dask.config.loader import load
from atd_dask.config.paper_corpora import paper_config
from atd_dask.config.run_config import DATASETS
from atd_dask.errors import InputError

CONF = Path(__file__).resolve().parent.parent.parent / "conf"
PARTS = ("train", "validation", "test")


def make_folder(folder: Path, name: str) -> Path:
    """The files of a prepared corpus, all empty."""
    own = folder / name
    own.mkdir()
    for part in PARTS:
        (own / f"{part}.ldac.gz").touch()
        (own / f"{part}.labels").touch()
    if name != "synthetic":
        (own / "vocabulary.txt").touch()
    return own


@pytest.mark.parametrize("name", DATASETS)
def test_it_is_what_the_file_says(name: str) -> None:
    assert paper_config(name, None, "out") == load(CONF / f"{name}.yaml", ["output=out"])


@pytest.mark.parametrize("name", DATASETS)
def test_a_folder_of_prepared_corpora(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_folder(tmp_path, name)
    monkeypatch.chdir(tmp_path.parent)
    config = paper_config(name, tmp_path.name, "out")
    for part in PARTS:
        source = getattr(config.corpus, part)
        assert source.format == "ldac"
        assert source.path == str(own / f"{part}.ldac.gz")
        assert source.labels == str(own / f"{part}.labels")
        words = None if name == "synthetic" else str(own / "vocabulary.txt")
        assert source.vocabulary == words
    named = paper_config(name, None, "out")
    assert config.corpus.dataset is None
    assert config.null_model == named.null_model
    assert config.detection == named.detection
    assert config.evaluation == named.evaluation


@pytest.mark.parametrize("missing", ["train.ldac.gz", "test.labels", "vocabulary.txt"])
def test_a_file_that_is_missing(missing: str, tmp_path: Path) -> None:
    (make_folder(tmp_path, "reuters") / missing).unlink()
    rule = "a file of the prepared corpus reuters must be an existing file or folder"
    with pytest.raises(InputError, match=rf"^{rule} .*, got .*{missing}$"):
        paper_config("reuters", str(tmp_path), "out")


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^the folder of prepared corpora must be .*nowhere$"):
        paper_config("reuters", str(tmp_path / "nowhere"), "out")


def test_a_corpus_that_is_not_known() -> None:
    with pytest.raises(InputError, match="must be reuters or newsgroups or synthetic, got brown"):
        paper_config("brown", None, "out")
