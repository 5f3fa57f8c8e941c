"""Arrays as kernels want them, aligned and writable. Those from another worker need not be."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np


def align(value: Any) -> Any:
    """Return a copy of a value in memory of its own. What arrives over the wire is unaligned, and
    all kernels would be compiled again for unaligned arrays."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  it was a pickle before


def align_where_needed(value: Any) -> Any:
    """Return a value with aligned, writable arrays: itself, unless it came from another worker and
    has others. Then it is copied."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    if all(array.ctypes.data % 8 == 0 and array.flags.writeable for array in arrays):
        return value
    return pickle.loads(packed, buffers=[array.copy() for array in arrays])  # noqa: S301


def align_arrays(value: Any) -> Any:
    """Return a tuple of arrays and other things in which all arrays are aligned and writable; only
    those that are not are copied."""
    if not isinstance(value, tuple):
        return value
    parts = [part.copy() if _is_borrowed(part) else part for part in value]
    if all(one is other for one, other in zip(value, parts, strict=True)):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _is_borrowed(part: Any) -> bool:
    return isinstance(part, np.ndarray) and not (part.flags.aligned and part.flags.writeable)
