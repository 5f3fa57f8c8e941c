"""Scripts without spaces between words."""

from __future__ import annotations

import pytest

from atd_dask.errors import InputError
from atd_dask.text import segmentation
from atd_dask.text.segmentation import choose_segmentation, cut_pairs, find_segmenter, is_unspaced


@pytest.mark.parametrize(
    ("run", "pairs"),
    [("東京都", ["東京", "京都"]), ("東", ["東"]), ("ไทย", ["ไท", "ทย"])],
)
def test_runs_are_cut_into_bigrams(run: str, pairs: list[str]) -> None:
    assert [run[start:end] for start, end in cut_pairs(run)] == pairs


def test_marks_stay_with_their_letter() -> None:
    assert [*cut_pairs("か\u3099き")] == [(0, 3)]
    assert [*cut_pairs("\u3099")] == [(0, 1)]


def test_a_word_of_such_a_script_is_recognised() -> None:
    assert is_unspaced("東京")
    assert is_unspaced("kana か")
    assert not is_unspaced("Tokyo")


def test_what_is_chosen_without_icu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "find_spec", lambda name: None)
    assert choose_segmentation.__wrapped__("auto") == "bigrams"
    assert choose_segmentation("icu") == "icu"
    monkeypatch.setitem(__import__("sys").modules, "icu4py.breakers", None)
    with pytest.raises(InputError, match=r"install atd-dask\[segmentation\] here and on every"):
        find_segmenter.__wrapped__("icu")
