"""Random streams, keyed by their purpose."""

from __future__ import annotations

import hashlib

import numpy as np


def open_stream(seed: int, purpose: str) -> np.random.Generator:
    """Return a Philox stream that depends only on the seed and the purpose."""
    purpose_key = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    key = np.array([seed % 2**64, purpose_key], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))
