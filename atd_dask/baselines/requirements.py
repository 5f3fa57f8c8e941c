"""What the methods to compare with need."""

from __future__ import annotations

from importlib.util import find_spec

from atd_dask.errors import UserError


def check_baselines() -> None:
    if find_spec("sklearn") is None:
        raise UserError(
            "the methods to compare with need scikit-learn, which cannot be found:"
            " pip install 'atd-dask[baselines]'"
        )
