from __future__ import annotations

import numpy as np

from atd_dask.kernels import philox
from atd_dask.kernels.philox import make_key
from tests.kernels.compiled import callable_kernel

below = callable_kernel(philox.below)
draw_block = callable_kernel(philox.draw_block)


def draw(key, replicate, part, number):
    out = np.zeros(4, np.uint64)
    draw_block(np.uint64(key), np.uint64(replicate), part, number, out)
    return out.tolist()


def test_the_published_vectors_come_out():
    assert draw(0, 0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 2**32 - 1
    assert draw(2**64 - 1, 2**64 - 1, ones, ones) == [
        0x408F276D,
        0x41C83B0E,
        0xA20BC7C6,
        0x6D5451FD,
    ]


def test_every_number_belongs_to_its_purpose():
    assert make_key(1, 2, "a") == make_key(1, 2, "a")
    assert len({int(make_key(*k)) for k in ((1, 2), (12,), (1, 2, ""), ("1", 3))}) == 4
    draws = [draw(7, r, p, n) for r in range(5) for p in range(5) for n in range(5)]
    assert len({tuple(d) for d in draws}) == 125


def test_scaled_draws_are_even():
    counts = np.bincount(
        [below(np.uint64(value), 7) for n in range(3500) for value in draw(3, 0, 0, n)],
        minlength=7,
    )
    assert len(counts) == 7
    assert np.abs(counts - 2000).max() < 200
