from __future__ import annotations

from atd_dask.kernels.streams import open_stream


def draw(seed: int, purpose: str) -> list[int]:
    return open_stream(seed, purpose).integers(2**62, size=4).tolist()


def test_a_stream_belongs_to_its_seed_and_its_purpose() -> None:
    assert draw(1, "a") == draw(1, "a")
    assert len({tuple(draw(seed, purpose)) for seed in (1, 2) for purpose in ("a", "b")}) == 4


def test_streams_never_change() -> None:
    assert draw(1, "purpose") == [
        1035813490315148580,
        477037444213445968,
        2904339646293437769,
        967129051172480773,
    ]
