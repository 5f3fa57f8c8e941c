"""The requirements of the baselines."""

from __future__ import annotations

from importlib.util import find_spec

from atd_dask.errors import UserError


def check_baselines() -> None:
    if find_spec("sklearn") is None:
        raise UserError(
            "the baselines need scikit-learn, which is not installed:"
            " pip install 'atd-dask[baselines]'"
        )
