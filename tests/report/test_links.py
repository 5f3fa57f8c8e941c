"""Which documents become links, and where the links lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from atd_dask.report.links import find_folder, find_original


def test_web_addresses_are_links() -> None:
    assert find_original("https://example.org/a?b=1", None, "out") == "https://example.org/a?b=1"


@pytest.mark.parametrize(
    "id", ["javascript:alert(1)", "https:", "https://exa mple.org", "http://a\nb", "17", "", "\0"]
)
def test_nothing_else_is_a_link(id: str) -> None:
    assert find_original(id, None, "out") is None


def test_files_are_relative_to_the_page(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a: b.txt").write_text("text")
    link = find_original("a: b.txt", tmp_path / "texts", str(tmp_path / "out"))
    assert link == "../texts/a%3A%20b.txt"
    assert find_original("missing.txt", tmp_path / "texts", str(tmp_path / "out")) is None


def test_the_folder_of_text_files_is_that_of_the_configuration(tmp_path: Path) -> None:
    source = {"format": "text", "path": str(tmp_path)}
    assert find_folder({"corpus": {"test": source}}) == tmp_path
    assert find_folder({"corpus": {"test": {**source, "format": "csv"}}}) is None
    assert find_folder({"corpus": None}) is None
    assert find_folder({}) is None
