from __future__ import annotations

from dask.utils import key_split

from atd_dask.distribution.engine.keys import task_key


def test_keys_are_unique_and_grouped_by_name() -> None:
    keys = {task_key("fit-block", 3) for _ in range(5)}
    assert len(keys) == 5
    assert {key_split(key) for key in keys} == {"fit-block"}
    assert all(key.startswith("fit-block-3-") for key in keys)
