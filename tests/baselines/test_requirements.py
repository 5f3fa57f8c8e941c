from __future__ import annotations

import pytest

from atd_dask.baselines import requirements
from atd_dask.errors import UserError


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements.check_baselines()
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"need scikit-learn, .*'atd-dask\[baselines\]'"):
        requirements.check_baselines()
