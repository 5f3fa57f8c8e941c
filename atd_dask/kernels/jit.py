"""The one place that says how kernels are compiled.

Compiling is most of a first run, so kernels are written to compile quickly: no NumPy function that
brings a library of its own (sort, concatenate, cumsum), and `np.int64(0)` where a plain 0 would
make its callees compile once more, for the constant. What is compiled is kept: `atd_dask.compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from atd_dask.compiled import Store, keep

F = TypeVar("F", bound=Callable[..., Any])

STORE = Store(__file__)  # of what is made from the modules of this folder


def kernel(function: F) -> F:
    """Compile a serial kernel that releases the GIL.

    Neither `parallel` nor `fastmath`: both would let the result depend on the machine.
    """
    return cast(F, keep(numba.njit(nogil=True, error_model="numpy")(function), STORE))


def inner_kernel(function: F) -> F:
    """Compile a kernel that only kernels call, and that allocates nothing.

    It counts no references and has no way in from Python (called from there, the process ends):
    making these would take longer than the rest.
    """
    inner = numba.njit(  # type: ignore[call-overload]
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)
    return cast(F, keep(inner, STORE))


@kernel
def enlarge(values, size, needed):
    """Return the first `size` values with as much room again, and what is needed."""
    larger = np.zeros(2 * size + needed, values.dtype)
    for i in range(size):
        larger[i] = values[i]
    return larger
