from __future__ import annotations

import pickle

from atd_dask import errors


def test_a_configuration_error_keeps_its_sentences_between_processes() -> None:
    error = errors.ConfigError(["one", "two"])
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == ("one", "two")
    assert str(again) == "one\ntwo"


def test_users_can_catch_what_they_know() -> None:
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.DamagedStoreError, OSError)
    assert issubclass(errors.ConfigError, errors.UserError)
    assert not issubclass(errors.DamagedStoreError, errors.UserError)
