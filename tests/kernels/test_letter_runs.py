from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atd_dask.kernels import letter_runs
from atd_dask.kernels.letter_runs import PIECE, TokenTable

N_PIECES = 5

# With secrets of 0 every run begins at the first slot, with those of 2⁶⁴ - 1 at one of the last.
SECRETS = {
    "random": np.random.default_rng(1).integers(2**64, size=N_PIECES, dtype=np.uint64),
    "first slot": np.zeros(N_PIECES, dtype=np.uint64),
    "last slots": np.full(N_PIECES, 2**64 - 1, dtype=np.uint64),
}

texts = st.lists(
    st.binary(max_size=60)
    | st.lists(st.sampled_from(b"aAbBzZ@[`{\0 \x7f\x80\xff"), max_size=60).map(bytes),
    max_size=8,
)


def naive_numbers(batches):
    """Numbers from a dictionary, counts of each text, and the runs in the order of numbers."""
    known: dict[bytes, int] = {}
    numbers, sizes = [], []
    for text in (text for batch in batches for text in batch):
        found = [run.lower() for run in re.findall(rb"[A-Za-z\x80-\xff]+", text)]
        found = [run for run in found if len(run) <= PIECE * N_PIECES]
        numbers += [known.setdefault(run, len(known)) for run in found]
        sizes.append(len(found))
    return numbers, sizes, list(known)


def check(table, batches):
    numbers, sizes = [], []
    for batch in batches:
        some, n_some = table.number(batch)
        numbers += some.tolist()
        sizes += n_some.tolist()
    assert (numbers, sizes, table.read()[0]) == naive_numbers(batches)
    assert len(table) == len(table.read()[0])


@pytest.mark.parametrize("secrets", SECRETS)
@given(st.lists(texts, max_size=4))
@example([[b"a" * 20 + b" " + b"a" * 21, b"A" * 20], [b"x" * 1000 + b"\0x"]])
@example([[b"abcd", b"abc d", b"abcde"], [b"", b"b"], []])
@example([[b"abcdefgh abcd efgh"]])
def test_numbers_are_those_of_a_dictionary(secrets, batches):
    check(TokenTable(SECRETS[secrets]), batches)


@pytest.mark.parametrize("secrets", SECRETS)
def test_a_table_grows_with_the_runs(secrets, monkeypatch):
    monkeypatch.setattr(letter_runs, "_TOKENS_AT_ONCE", 64)
    words = [
        f"{chr(97 + n % 26)}{chr(97 + n // 26)}{'long' * (n % 4)}".encode() for n in range(600)
    ]
    check(TokenTable(SECRETS[secrets]), [[b" ".join(words)], words[::-1], [b"-".join(words[::3])]])


def test_runs_are_read_from_a_place_on():
    table = TokenTable(SECRETS["random"])
    table.number([b"one two"])
    first, place = table.read()
    assert first == [b"one", b"two"]
    assert table.read(place) == ([], place)
    table.number([b"two three ONE \xc3\xa9t\xc3\xa9"])
    assert table.read(place)[0] == [b"three", "été".encode()]
