"""The decorators that compile kernels.

Compilation takes most of a first run, so kernels are written to compile quickly: they avoid NumPy
functions that pull in a lot of code (sort, concatenate, cumsum), and pass `np.int64(0)` where a
plain 0 would compile the callee once more, for the constant. `atd_dask.compiled` caches the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from atd_dask.compiled import Store, keep

F = TypeVar("F", bound=Callable[..., Any])

STORE = Store(__file__)  # for the modules of this folder


def kernel(function: F) -> F:
    """Compile a serial kernel that releases the GIL.

    It uses neither `parallel` nor `fastmath`: both would make results depend on the machine.
    """
    outer = numba.njit(  # type: ignore[call-overload]
        nogil=True,
        error_model="numpy",
        no_cfunc_wrapper=True,  # only callers in C would need it
    )(function)
    return cast(F, keep(outer, STORE))


def helper_kernel(function: F) -> F:
    """Compile a kernel that only kernels call. Unlike an inner kernel it may allocate.

    It has no Python entry point. Calling it from Python ends the process.
    """
    helper = numba.njit(  # type: ignore[call-overload]
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )(function)
    return cast(F, keep(helper, STORE))


def inner_kernel(function: F) -> F:
    """Compile a kernel that only kernels call, and that allocates nothing.

    It has no reference counting and no Python entry point, which would take longer to compile than
    the rest. Calling it from Python ends the process.
    """
    inner = numba.njit(  # type: ignore[call-overload]
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)
    return cast(F, keep(inner, STORE))


def bound_kernel(function: F) -> F:
    """Compile an inner kernel whose sums and products may be taken in any order, which is several
    times as fast.

    Its last bits depend on the machine, so it may only rule out what is certain to fail, with a
    margin for rounding: then no result depends on them.
    """
    inner = numba.njit(  # type: ignore[call-overload]
        nogil=True,
        error_model="numpy",
        fastmath={"reassoc"},
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)
    return cast(F, keep(inner, STORE))


@helper_kernel
def enlarge(values, size, needed):
    """Copy the first `size` values to an array with room for as many again plus `needed`."""
    larger = np.zeros(2 * size + needed, values.dtype)
    for i in range(size):
        larger[i] = values[i]
    return larger
