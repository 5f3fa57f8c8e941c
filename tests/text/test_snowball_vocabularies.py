"""Stems, compared with the vocabularies that the Snowball project publishes.

They are in the folder `data` of Debian's package `snowball-data`, which the variable
ATD_SNOWBALL_DATA names. The version must match the rules that we use: 0+20260605 or later.
"""

from __future__ import annotations

import gzip
import os
from itertools import islice
from pathlib import Path

import pytest

from atd_dask.text.languages import SNOWBALL, find_stemmer

# Of the millions of Arabic words one in so many is looked at; of all other languages every word.
STEPS = {"arabic": 100}


def read_lines(language: str, name: str) -> list[str]:
    folder = os.environ.get("ATD_SNOWBALL_DATA")
    if not folder:
        pytest.skip("needs the vocabularies in the folder that ATD_SNOWBALL_DATA names")
    path = Path(folder, language, name)
    packed = path.with_name(f"{name}.gz")
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return data.decode("utf-8").splitlines()


@pytest.mark.parametrize("language", sorted(SNOWBALL))
def test_every_word_has_the_published_stem(language: str) -> None:
    words = read_lines(language, "voc.txt")
    stems = read_lines(language, "output.txt")
    stem = find_stemmer(language)
    pairs = islice(zip(words, stems, strict=True), 0, None, STEPS.get(language, 1))
    compared = [(word, expected, stem(word)) for word, expected in pairs]
    assert len(compared) > 1000
    assert [row for row in compared if row[1] != row[2]][:10] == []
