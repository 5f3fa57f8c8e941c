from __future__ import annotations

import numpy as np

from atd_dask.distribution.engine.alignment import align_arrays, align_where_needed
from atd_dask.kernels.word_switches import SharedModel


def test_only_arrays_that_are_borrowed_are_copied():
    unaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float64)
    fixed = np.arange(3)
    fixed.flags.writeable = False
    fine = np.arange(4)
    model = align_arrays(SharedModel(unaligned, fixed, fine))
    assert isinstance(model, SharedModel)
    assert all(array.flags.aligned and array.flags.writeable for array in model)
    assert model.rank is fine
    assert model.by_probability.tolist() == [0, 1, 2]
    assert align_arrays(model) is model
    assert align_arrays(("text", fixed))[1] is not fixed
    assert align_arrays(fixed) is fixed


def test_a_value_is_copied_only_if_an_array_of_it_is_not_aligned():
    good = np.arange(5.0)
    assert align_where_needed([good, "word"])[0] is good
    buffer = np.zeros(good.nbytes + 1, np.uint8)
    shifted = buffer[1:].view(np.float64)
    shifted[:] = good
    copied = align_where_needed([shifted, "word"])
    assert copied[0].flags.aligned
    assert copied[0].flags.writeable
    np.testing.assert_array_equal(copied[0], good)
