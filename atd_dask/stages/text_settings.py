"""Resolves `auto` in `corpus.text`, once, from train, for all parts of a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from atd_dask.config.run_config import RunConfig
from atd_dask.storage.corpus import CorpusStore
from atd_dask.text import datasets, readers
from atd_dask.text.guessing import guess_language, sample_texts
from atd_dask.text.options import Source, TextOptions, read_text
from atd_dask.text.segmentation import choose_segmentation, is_unspaced

if TYPE_CHECKING:
    from atd_dask.progress import Progress


def resolve_segmentation(config: RunConfig) -> RunConfig:
    """Return the configuration with the segmentation that all workers use, if text may need one."""
    text = config.corpus.text
    if not text.is_segmented:
        return config
    return _replace(config, replace(text, segmentation=choose_segmentation(text.segmentation)))


def resolve_language(config: RunConfig, progress: Progress) -> RunConfig:
    """Return the configuration with the language of the training documents, and report it."""
    corpus = config.corpus
    if corpus.text.language != "auto":
        return config
    source = corpus.train
    if corpus.dataset in datasets.NAMES:
        source = datasets.locate(corpus.dataset, corpus.path)
    shards = readers.shards(source, corpus.text) if source and _is_text(source) else ()
    guess = guess_language(sample_texts(shards))
    if any(map(_is_text, (source, corpus.validation, corpus.test))):
        progress.say(guess.words)
    return _replace(config, replace(corpus.text, language=guess.language))


def resolve_as(config: RunConfig, path: str) -> RunConfig:
    """Return the configuration with the text preparation of the corpus store at `path`."""
    text = config.corpus.text
    if text.language != "auto" and not (text.is_segmented and text.segmentation == "auto"):
        return config
    return _replace(config, read_text(CorpusStore.open(path).attributes["text"]))


def lacks_segmentation(text: TextOptions, words: Iterable[str]) -> bool:
    """Return whether ICU is missing but would be needed for these words."""
    return (
        text.is_segmented
        and text.segmentation == "bigrams"
        and choose_segmentation("auto") == "bigrams"
        and any(map(is_unspaced, words))
    )


def _is_text(source: Source | None) -> bool:
    return source is not None and source.format in readers.TEXT_FORMATS


def _replace(config: RunConfig, text: TextOptions) -> RunConfig:
    return replace(config, corpus=replace(config.corpus, text=text))
