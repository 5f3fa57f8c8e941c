"""scikit-learn's conventions for estimators, without depending on scikit-learn.

scikit-learn is optional and takes a second to import. If its base classes were used when it is
installed, the class of an estimator would depend on that. So the conventions are implemented here,
and scikit-learn is imported only where it expects its own types.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from numbers import Integral
from typing import Any, Self

from atd_dask.errors import InputError


class Estimator:
    """An estimator whose settings are the arguments of `__init__`, stored under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings as a mapping from name to value."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **settings: Any) -> Self:
        """Set settings by name."""
        known = signature(type(self)).parameters
        for name, value in settings.items():
            if name not in known:
                raise InputError(f"a setting must be one of {', '.join(known)}, got {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the settings that differ from the defaults."""
        defaults = signature(type(self)).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default and repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a transformer that needs no targets."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(),
        )


def check_whole(name: str, value: object, least: int) -> int:
    """Return a whole number of at least `least`, which may be one of NumPy."""
    if not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


@cache
def not_fitted_error() -> type[InputError]:
    """Return the exception class for an estimator that is not fitted.

    If scikit-learn is installed, it is also a subclass of its `NotFittedError`, which its tools
    catch.
    """
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        bases: tuple[type, ...] = (InputError, AttributeError)
    else:
        bases = (InputError, NotFittedError)
    return type("NotFittedError", bases, {"__module__": __name__})
