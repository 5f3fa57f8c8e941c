from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from atd_dask.errors import DamagedStoreError
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.stage_notes import (
    ModelSummary,
    finish_stage,
    finished_stage,
    reuse_or_make,
    stage_key,
)

PARTS = ("atd-dask-model/1", "digest", {"seed": 1, "topics": {"max": 35, "min": 10}})


def test_a_key_is_the_same_for_the_same_parts_in_any_order_of_names() -> None:
    again = ("atd-dask-model/1", "digest", {"topics": {"min": 10, "max": 35}, "seed": 1})
    assert stage_key(*PARTS) == stage_key(*again)


@pytest.mark.parametrize(
    "other",
    [
        ("atd-dask-model/2", *PARTS[1:]),
        (PARTS[0], "other digest", PARTS[2]),
        (*PARTS[:2], {"seed": 2, "topics": {"max": 35, "min": 10}}),
        (*PARTS[:2], {"seed": 1, "topics": {"max": 35, "min": 11}}),
        (*PARTS[:2], {"seed": 1.0, "topics": {"max": 35, "min": 10}}),
        (*PARTS[:2], {"seed": "1", "topics": {"max": 35, "min": 10}}),
        PARTS[:2],
        (*PARTS, None),
        (PARTS[1], PARTS[0], PARTS[2]),
        ("atd-dask-model/1digest", "", PARTS[2]),
    ],
)
def test_a_key_changes_with_any_part(other: tuple[object, ...]) -> None:
    assert stage_key(*other) != stage_key(*PARTS)


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_finished_stage_is_known_by_its_key(tmp_path: Path, scheme: str) -> None:
    output = f"{scheme}{tmp_path}"
    summary = {"path": "null_model.zarr", "bic": 1550803.25, "n_topics": 21}
    assert finished_stage(output, "train", "key") is None
    finish_stage(output, "train", "key", summary)
    assert finished_stage(output, "train", "key") == summary
    assert finished_stage(output, "train", "other key") is None
    assert finished_stage(output, "ingest", "key") is None
    finish_stage(output, "train", "other key", {"n_topics": 7})
    assert finished_stage(output, "train", "key") is None
    assert finished_stage(output, "train", "other key") == {"n_topics": 7}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b'"key"', b"{}", b'{"key": "key"}', b"\xff\xfe"]
)
def test_a_damaged_note_is_told_and_its_stage_done_again(tmp_path: Path, content: bytes) -> None:
    finish_stage(str(tmp_path), "train", "key", {})
    path = tmp_path / "stages" / "train.json"
    path.write_bytes(content)
    with pytest.raises(DamagedStoreError, match="is not as it was written"):
        finished_stage(str(tmp_path), "train", "key")
    lines: list[str] = []
    given = reuse_or_make(
        RunLayout(str(tmp_path)), "train", "key", str, lambda: "made", lambda _: {}, lines.append
    )
    assert given == ("made", False)
    assert lines == [f"{path} is not as it was written: running train again"]
    assert finished_stage(str(tmp_path), "train", "key") == {}


@pytest.mark.parametrize("byte", range(0, 160, 7))
def test_a_note_notices_a_changed_byte(tmp_path: Path, byte: int) -> None:
    summary = {"digest": "0123456789", "documents": 1234567890, "tokens": 1234567890123}
    finish_stage(str(tmp_path), "ingest", "key", summary)
    path = tmp_path / "stages" / "ingest.json"
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)
    with suppress(DamagedStoreError):
        assert finished_stage(str(tmp_path), "ingest", "key") in (summary, None)


def test_a_note_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "train.json").write_text(
        '{\n "key": "key",\n "summary": {"bic": 1.5}\n}\n'
    )
    assert finished_stage(str(tmp_path), "train", "key") == {"bic": 1.5}


def test_what_is_kept_is_made_once(tmp_path: Path) -> None:
    layout, made, whole = RunLayout(str(tmp_path)), [], True

    def make() -> str:
        made.append(len(made))
        return f"made {len(made)}"

    def ask(key: str, fresh: bool = False) -> tuple[str, bool]:
        return reuse_or_make(
            layout,
            "train",
            key,
            lambda note: note["name"] if whole else None,
            make,
            lambda name: {"name": name},
            print,
            fresh=fresh,
        )

    assert ask("key") == ("made 1", False)
    assert ask("key") == ("made 1", True)
    assert ask("other key") == ("made 2", False)
    assert ask("other key", fresh=True) == ("made 3", False)
    whole = False
    assert ask("other key") == ("made 4", False)


def test_what_an_earlier_version_noted_is_made_again(tmp_path: Path) -> None:
    layout = RunLayout(str(tmp_path))
    finish_stage(layout.folder, "train", "key", {"digest": "0123"})
    new = ModelSummary(
        path="null_model.zarr",
        digest="4567",
        n_topics=7,
        bic=1.5,
        topics_per_document=1.0,
        salient_words_per_topic=2.0,
    )
    given = reuse_or_make(
        layout, "train", "key", ModelSummary.from_json, lambda: new, ModelSummary.to_json, print
    )
    assert given == (new, False)
    assert finished_stage(layout.folder, "train", "key") == new.to_json()


def test_a_stage_that_fails_is_not_noted(tmp_path: Path) -> None:
    def fail() -> str:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        reuse_or_make(RunLayout(str(tmp_path)), "train", "key", str, fail, lambda name: {}, print)
    assert finished_stage(str(tmp_path), "train", "key") is None
