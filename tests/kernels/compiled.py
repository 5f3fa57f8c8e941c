"""Kernels that only kernels call have no way in from Python; here is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def callable_kernel(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls `inner` with what it is given."""

    @numba.njit
    def outer(*arguments):
        return inner(*arguments)

    return outer
