"""How text becomes words in a run, for use elsewhere: in a vectorizer, or on its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Self

from atd_dask.errors import InputError
from atd_dask.estimators.base import Estimator
from atd_dask.text.options import TextOptions
from atd_dask.text.words import Tokeniser

NAMES = tuple(field.name for field in fields(TextOptions))


class TextPreparation(Estimator):
    """Gives the words of texts as a run counts them.

    `options` are those of `corpus.text` in a configuration. It is the analyzer that makes
    scikit-learn count the same words: `CountVectorizer(analyzer=TextPreparation())`; as a
    transformer it gives a list of words for each text. The options that choose documents, such as
    `min_distinct`, have no effect here.
    """

    def __init__(self, **options: Any) -> None:
        self._options = TextOptions()
        self.set_params(**options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options, by name."""
        return {name: getattr(self._options, name) for name in NAMES}

    def set_params(self, **options: Any) -> Self:
        """Changes options, by name."""
        for name in options:
            if name not in NAMES:
                raise InputError(f"an option must be one of {', '.join(NAMES)}, got {name!r}")
        told = self.get_params() | options
        told["extra_stop_words"] = tuple(told["extra_stop_words"])
        self._options = TextOptions(**told)
        self._tokeniser = Tokeniser(self._options)
        return self

    def __call__(self, text: str) -> list[str]:
        """The words of a text, each as often as it occurs."""
        return self._tokeniser.words(text)

    def fit(self, texts: Any = None, y: None = None) -> Self:
        """There is nothing to learn."""
        return self

    def transform(self, texts: Iterable[str]) -> list[list[str]]:
        """The words of each text."""
        return [self(text) for text in texts]

    def fit_transform(self, texts: Iterable[str], y: None = None) -> list[list[str]]:
        return self.transform(texts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags

    def __repr__(self) -> str:
        usual = TextOptions()
        given = {n: v for n, v in self.get_params().items() if v != getattr(usual, n)}
        return f"TextPreparation({', '.join(f'{n}={v!r}' for n, v in given.items())})"
