from __future__ import annotations

import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.text.readers import contents
from atd_dask.text.readers.contents import ContentReader, Contents, look_at


@pytest.fixture
def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "LEAF", 4)


def test_a_content_does_not_depend_on_the_blocks_that_it_is_read_in() -> None:
    @given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=5))
    def check(data: bytes, ends: list[int]) -> None:
        reader = ContentReader()
        cuts = [0, *sorted(ends), len(data)]
        for start, stop in pairwise(cuts):
            reader.see(data[start:stop])
        found = reader.finish()
        assert found == look_at(data[: max(cuts)])
        assert (found.size, found.n_lines) == (len(data), data.count(b"\n"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "LEAF", 4)
        check()


def test_parts_that_begin_with_a_leaf_make_up_the_whole(small_leaves: None) -> None:
    data = os.urandom(30)
    whole, parts = Contents(), Contents()
    for one in (whole, parts):
        one.begin("a")
    whole.add("a", look_at(data))
    for start in (0, 8, 16, 24):
        parts.add("a", look_at(data[start : start + 8]))
    assert parts.finish() == whole.finish()


def test_every_byte_name_and_length_counts(small_leaves: None) -> None:
    def identify(*files: tuple[str, bytes]) -> str:
        found = Contents()
        for name, data in files:
            found.begin(name)
            found.add(name, look_at(data))
        return found.finish().sha256

    data = bytes(range(20))
    others = {identify(("a", data[:n] + b"\xff" + data[n + 1 :])) for n in range(20)}
    others |= {identify(("b", data)), identify(("a", data[:16])), identify(("a", data + b"\0"))}
    others |= {identify(("a", data[:8]), ("b", data[8:])), identify(), identify(("a", b""))}
    assert len({*others, identify(("a", data))}) == 27


def test_lines_of_packed_files_are_not_known() -> None:
    found = Contents()
    found.begin("a")
    found.add("a", look_at(b"1\n2\n"))
    assert found.finish().n_lines == 2
    found.begin("b.gz", packed=True)
    assert (found.finish().n_files, found.finish().n_lines) == (2, None)


def test_lines_are_estimated_from_what_is_read_so_far() -> None:
    found = Contents()
    found.begin("a")
    assert found.expect_lines(100) is None
    reader = ContentReader()
    found.follow(reader)
    reader.see(b"1234\n" * 4)
    assert found.expect_lines(100) == 20
    reader.see(b"12\n")
    found.add("a", reader.finish())
    assert found.expect_lines(46) == 10
    assert found.expect_lines(0) == 5
    found.begin("b.gz", packed=True)
    assert found.expect_lines(100) is None
