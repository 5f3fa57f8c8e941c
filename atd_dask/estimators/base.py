"""scikit-learn's conventions for estimators, kept without scikit-learn.

It is optional and takes a second to load. Classes of its own as a base would give those who have it
another class than those who have not, so the conventions are kept by hand, and it is imported only
where it asks for its own types.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any, Self

from atd_dask.errors import InputError


class Estimator:
    """Settings that are the arguments of `__init__`, kept under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, by name."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **settings: Any) -> Self:
        """Changes settings, by name."""
        known = signature(type(self)).parameters
        for name, value in settings.items():
            if name not in known:
                raise InputError(f"a setting must be one of {', '.join(known)}, got {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The settings that are not the usual ones."""
        usual = signature(type(self)).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not usual[name].default and repr(value) != repr(usual[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect of a transformer that needs no targets."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(),
        )


@cache
def not_fitted_error() -> type[InputError]:
    """The class of the error for an estimator that was not fitted: with scikit-learn it is one of
    its `NotFittedError` too, which its tools look for."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        bases: tuple[type, ...] = (InputError, AttributeError)
    else:
        bases = (InputError, NotFittedError)
    return type("NotFittedError", bases, {"__module__": __name__})
