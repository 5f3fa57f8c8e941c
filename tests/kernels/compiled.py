"""A way to call kernels from Python that only other kernels call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def callable_kernel(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls `inner` with its own arguments."""

    @numba.njit
    def outer(*arguments):
        return inner(*arguments)

    return outer
