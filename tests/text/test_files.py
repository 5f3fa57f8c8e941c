from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.errors import InputError
from atd_dask.text.readers import files
from atd_dask.text.readers.files import (
    cut_pieces,
    find_files,
    look_at_files,
    open_file,
    read_blocks,
    split_lines,
    walk_files,
)

lines_of_text = st.lists(st.text("ab\r", max_size=12).map(str.encode), max_size=12)


def naive_lines(data: bytes, max_bytes: int) -> list[bytes | None]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line if len(line) <= max_bytes else None for line in lines]


@given(lines_of_text, st.booleans(), st.integers(1, 10), st.integers(1, 12))
def test_lines_do_not_depend_on_the_blocks(
    lines: list[bytes], ended: bool, block: int, max_bytes: int
) -> None:
    data = b"\n".join(lines) + b"\n" * ended
    blocks = [data[i : i + block] for i in range(0, len(data), block)]
    assert list(split_lines(blocks, max_bytes)) == naive_lines(data, max_bytes)


@given(lines_of_text, st.booleans(), st.integers(1, 10), st.integers(1, 12))
def test_pieces_hold_the_same_lines(
    lines: list[bytes], ended: bool, piece: int, max_bytes: int
) -> None:
    data = b"\n".join(lines) + b"\n" * ended
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE", piece)
        found: list[bytes | None] = []
        for first_line, part in cut_pieces(io.BytesIO(data), max_bytes):
            assert first_line == len(found) + 1
            found += split_lines([part], max_bytes)
    assert found == naive_lines(data, max_bytes)


def test_blocks_end_where_asked() -> None:
    assert b"".join(read_blocks(io.BytesIO(b"abcdef"), 4)) == b"abcd"
    assert b"".join(read_blocks(io.BytesIO(b"abcdef"))) == b"abcdef"


def test_a_folder_gives_its_files_sorted(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.JSONL", "c.txt", ".hidden.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "d.jsonl").mkdir()
    assert [f.name for f in find_files(str(tmp_path), (".jsonl",))] == ["a.JSONL", "b.jsonl"]


def test_a_glob_names_files_below_its_fixed_part(tmp_path: Path) -> None:
    for folder in ("y", "x"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.jsonl").touch()
    found = find_files(str(tmp_path / "*" / "*.jsonl"), ())
    assert [file.name for file in found] == ["x/part.jsonl", "y/part.jsonl"]


def test_a_name_that_looks_like_a_glob_is_a_file_first(tmp_path: Path) -> None:
    path = tmp_path / "a[1].jsonl"
    path.touch()
    assert [file.url for file in find_files(str(path), ())] == [str(path)]


def test_local_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").touch()
    assert find_files("a.jsonl", ())[0].url == str(tmp_path / "a.jsonl")


def test_urls_stay_urls() -> None:
    with fsspec.open("memory://corpus/b.jsonl.gz", "wb") as file:
        file.write(gzip.compress(b"hello"))
    (found,) = find_files("memory://corpus", (".jsonl.gz",))
    with open_file(found.url) as file:
        assert file.read() == b"hello"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent.jsonl", "absent.jsonl must exist to be read"),
        ("no*.jsonl", "must hold a file that ends with .jsonl"),
        ("", "must hold a file that ends with .jsonl or .ndjson, has none"),
        ("nosuch://bucket/a.jsonl", "must be a path or an fsspec URL: Protocol not known: nosuch"),
    ],
)
def test_what_cannot_be_found(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_files(path if "//" in path else str(tmp_path / path), (".jsonl", ".ndjson"))


def test_whatever_a_remote_file_system_raises_is_an_input_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NoCredentialsError(Exception):
        pass

    def refuse(self: object, path: str) -> bool:
        raise NoCredentialsError("no credentials")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.isfile", refuse)
    with pytest.raises(InputError, match=r"memory://a\.jsonl cannot be reached: no credentials"):
        find_files("memory://a.jsonl", ())


def test_a_packed_file_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    for data in (
        b"plain text",
        gzip.compress(b"x" * 1000)[:-9],
        gzip.compress(os.urandom(1000))[:100] + b"\xff" * 1000,
        gzip.compress(b"x" * 1000)[:-8] + b"\0" * 8,
    ):
        path.write_bytes(data)
        with (
            pytest.raises(InputError, match=r"a\.gz must be a whole gzip file"),
            open_file(str(path)) as file,
        ):
            file.read()


def test_a_tree_is_walked_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a/x/3", "z", "B/4", ".git/5", "a/.6"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "b" / "link").symlink_to(tmp_path / "z")
    (tmp_path / "b" / "broken").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "b" / "pipe")
    found = list(walk_files(str(tmp_path)))
    assert [file.name for file, _ in found] == ["z", "B/4", "a/x/3", "b/1", "b/2", "b/link"]
    assert found[1][1] == 3


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.txt", ["1.txt", "2.txt"]),
        ("[ab]*", ["a/3.txt", "a/x/4.txt", "b/5.txt"]),
        ("*", ["1.txt", "2.txt", "a/3.txt", "a/x/4.txt", "b/5.txt"]),
        ("**", ["1.txt", "2.txt", "a/3.txt", "a/x/4.txt", "b/5.txt"]),
        ("*/*.txt", ["a/3.txt", "b/5.txt"]),
        ("a/*", ["3.txt", "x/4.txt"]),
    ],
)
@pytest.mark.parametrize("remote", [False, True], ids=["disk", "memory"])
def test_a_glob_gives_files_and_whole_folders_once(
    tmp_path: Path, pattern: str, names: list[str], remote: bool
) -> None:
    root = f"memory://{tmp_path.name}-{names[0]}" if remote else str(tmp_path)
    for name in ("b/5.txt", "a/x/4.txt", "a/3.txt", "a/.6", "2.txt", "1.txt", ".7"):
        with fsspec.open(f"{root}/{name}", "wb", auto_mkdir=True) as file:
            file.write(b"text")
    if not remote:
        (tmp_path / "link").symlink_to(tmp_path / "a")
    assert [file.name for file, _ in walk_files(f"{root}/{pattern}")] == names
    assert look_at_files(f"{root}/{pattern}", lambda size: None).n_files == len(names)


def test_a_glob_must_match_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for pattern in ("*.txt", "*"):
        with pytest.raises(InputError, match="must hold at least one file, has none"):
            list(walk_files(str(tmp_path / pattern)))


def test_names_that_are_no_text_become_clean(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).touch()
    (file, _), *_ = walk_files(str(tmp_path))
    assert file.name == "caf\ufffd"
    with open_file(file.url) as stream:
        assert stream.read() == b""
    Path(file.url).unlink()
    with pytest.raises(InputError, match="caf\ufffd must exist"), open_file(file.url):
        pass


def test_a_tree_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file must be a folder"):
        list(walk_files(str(tmp_path / "file")))
    with pytest.raises(InputError, match="absent must exist"):
        list(walk_files(str(tmp_path / "absent")))


def test_inputs_are_known_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(b"three\n")
    sizes: list[int] = []
    seen = look_at_files(str(tmp_path), sizes.append)
    assert (seen.n_files, seen.n_lines, sizes) == (2, 3, [8, 6])
    assert look_at_files(str(tmp_path), sizes.append) == seen
    (tmp_path / "b").rename(tmp_path / "c")
    assert look_at_files(str(tmp_path), sizes.append).sha256 != seen.sha256
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"four\n"))
    packed = look_at_files(str(tmp_path), sizes.append)
    assert (packed.n_files, packed.n_lines) == (3, None)
