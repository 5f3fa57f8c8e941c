"""The one place that says how kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compiles a serial kernel that releases the GIL.

    Neither `parallel` nor `fastmath`: both would let the result depend on the machine.
    """
    return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy")(function))
