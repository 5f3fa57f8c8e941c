"""The text preparation of a run, for use in a vectorizer or on its own."""

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
    """Splits text into the words that a run counts.

    As an analyzer it makes scikit-learn count the same words as a run:
    `CountVectorizer(analyzer=TextPreparation())`. As a transformer it returns a list of words for
    each text.

    Parameters
    ----------
    **options
        The keys of `corpus.text` in a configuration. Those that select documents, such as
        `min_distinct`, have no effect here.

    Raises
    ------
    InputError
        If there is no such option.

    Examples
    --------
    >>> from atd_dask import TextPreparation
    >>> TextPreparation()("The ships were loading coffee, and more coffee.")
    ['ship', 'load', 'coffe', 'more', 'coffe']
    >>> TextPreparation(stemmer="none").transform(["The ships", "loading"])
    [['ships'], ['loading']]
    """

    def __init__(self, **options: Any) -> None:
        self._options = TextOptions()
        self.set_params(**options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options as a mapping from name to value."""
        return {name: getattr(self._options, name) for name in NAMES}

    def set_params(self, **options: Any) -> Self:
        """Set options by name."""
        for name in options:
            if name not in NAMES:
                raise InputError(f"an option must be one of {', '.join(NAMES)}, got {name!r}")
        merged = self.get_params() | options
        merged["extra_stop_words"] = tuple(merged["extra_stop_words"])
        self._options = TextOptions(**merged)
        self._tokeniser = Tokeniser(self._options)
        return self

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text in order."""
        return self._tokeniser.words(text)

    def fit(self, texts: Any = None, y: None = None) -> Self:
        """Do nothing, and return this object: there is nothing to learn."""
        return self

    def transform(self, texts: Iterable[str]) -> list[list[str]]:
        """Return the words of each text."""
        return [self(text) for text in texts]

    def fit_transform(self, texts: Iterable[str], y: None = None) -> list[list[str]]:
        """Return the words of each text."""
        return self.transform(texts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags

    def __repr__(self) -> str:
        default = TextOptions()
        given = {n: v for n, v in self.get_params().items() if v != getattr(default, n)}
        return f"TextPreparation({', '.join(f'{n}={v!r}' for n, v in given.items())})"
