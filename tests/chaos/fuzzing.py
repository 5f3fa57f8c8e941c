"""Fuzz targets: every reader, the configuration, and every file that is read back.

A target takes bytes. It may use them or refuse them with an error of ours; anything else is a
defect. The seeds of a target are small valid inputs and the cases in `found/`, which once broke it.

    python -m tests.chaos.fuzzing TARGET FIRST LAST PROGRESS_FILE
"""

from __future__ import annotations

import gzip
import io
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atd_dask.errors import AtdError
from tests.chaos.outcomes import CRASH, HANG, REFUSED, SAME, TRACEBACK, WRONG, Tally

FOUND = Path(__file__).parent / "found"
SECONDS = 20  # for one case
MEMORY = 6 * 2**30  # bytes of address space

TOKENS = [
    *(b"\0", b"\t", b"\r", b"\n", b"\r\n", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1a", b"\xed\xa0\x80"),
    *(b"-1", b"0", b"1e400", b"NaN", b"99999999999999999999", b"4294967296", b"2147483647", b"0.5"),
    *(b'"', b"'", b"{", b"}", b"[" * 2000, b"]", b":", b",", b"\\ud800", b"&#0;", b"&lt;", b"<!--"),
    *(
        b"null",
        b"true",
        b"!!python/object:os.system",
        b"&a [*a]",
        b"<<: *a",
        b"\xe2\x80\xa8",
        b"../",
    ),
]


def mutate(content: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """A few changes at random places."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(data) + 1)
        span = min(len(data) - at, chance.choice([1, 1, 2, 4, 16, 64, 256]))
        match chance.randrange(8):
            case 0 if span:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + span]
            case 2:
                data[at:at] = data[at : at + span] * chance.choice([1, 2, 50])
            case 3:
                data[at:at] = chance.choice(TOKENS)
            case 4:
                data[at : at + span] = chance.choice(TOKENS)
            case 5:
                data[at : at + span] = chance.randbytes(span)
            case 6:
                del data[at:]
            case _:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                data[at : at + span] = other[start : start + 4 * span]
    return bytes(data)


@dataclass(frozen=True)
class Target:
    """Something that takes bytes, and what it is tried with."""

    run: Callable[[bytes, Path], Any]
    seeds: list[bytes]
    # Of what was written with a digest: what it says, which no other bytes may say differently.
    original: Any = None


def read_text(format: str, name: str) -> Callable[[bytes, Path], Any]:
    def run(content: bytes, folder: Path) -> None:
        from atd_dask.text.options import TextOptions
        from tests.text.reading import read_items

        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        read_items(format, folder / name.partition("/")[0], TextOptions())

    return run


def read_counts(format: str, name: str, key: str = "path") -> Callable[[bytes, Path], Any]:
    def run(content: bytes, folder: Path) -> None:
        from atd_dask.text.options import Source
        from atd_dask.text.readers import counts

        good = {"path": b"2 0:1 2:3\n1 1:2\n", "labels": b"a b\n\n", "vocabulary": b"x\ny\nz\n"}
        good[key] = content
        if key == "path":
            del good["labels"], good["vocabulary"]
        for other, data in good.items():
            (folder / f"{name}-{other}").write_bytes(data)
        source = Source(format, **{other: str(folder / f"{name}-{other}") for other in good})
        for _ in counts(source).batches():
            pass

    return run


def load_config(content: bytes, folder: Path) -> None:
    from atd_dask.config.loader import load

    for name in ("normal.jsonl", "batch.jsonl"):
        (folder / name).touch()
    path = folder / "conf.yaml"
    path.write_bytes(content)
    load(path, [], lambda line: None)


def read_back(name: str, read: Callable[[str], Any]) -> Callable[[bytes, Path], Any]:
    """Reads a file of an output folder; None where it counts as absent."""

    def run(content: bytes, folder: Path) -> Any:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return read(str(folder))

    return run


def _make_npz() -> bytes:
    import numpy as np
    from scipy.sparse import csr_matrix, save_npz

    file = io.BytesIO()
    save_npz(file, csr_matrix(np.array([[1, 0, 2], [0, 3, 0]])))
    return file.getvalue()


def _make_parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["one two", "three"]}), file)
    return file.getvalue()


def _written(write: Callable[[str], None], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        return Path(folder, name).read_bytes()


def make_targets() -> dict[str, Target]:
    """All targets, by name."""
    import numpy as np

    from atd_dask.storage.checkpoints import Checkpoints
    from atd_dask.storage.locks import Owner
    from atd_dask.storage.manifest import ArrayRecord, Manifest
    from atd_dask.storage.stage_notes import finish_stage, finished_stage
    from atd_dask.sweeps.state import KnownCluster, SweepState, read_state, write_state
    from tests.chaos.damage import CONFIG
    from tests.text import samples

    lines = b'{"id": "a", "text": "one two"}\n{"id": "b", "text": "three", "labels": ["x", "y"]}\n'
    table = b'id,text,labels\na,"one, two",x\nb,three,\n'
    sgml = samples.SGML.encode("latin-1")
    message = b"From: a@b.c\nSubject: Re: ships\nLines: 2\n\nOne ship\n> left\n"
    state = SweepState(
        key="k",
        sweep=2,
        clusters=(KnownCluster(number=1, words=("a",), written=("A",), p_value=0.01),),
    )
    summary = {"digest": "0123", "documents": 1234}
    manifest = Manifest("atd-dask-corpus/2", {"documents": 3}, {}, {"zarr.json": "0" * 64})
    record = ArrayRecord((3,), "int64", "1" * 64)
    manifest = Manifest(manifest.format, manifest.counts, {"X/data": record}, manifest.metadata)

    def keep(folder: str) -> None:
        Checkpoints(folder, "key").save("piece", {"n": 1}, {"a": np.arange(3)})

    def load_piece(folder: str) -> Any:
        kept = Checkpoints(folder, "key").load("piece")
        return kept and (kept[0], kept[1]["a"].tolist())

    def note(folder: str) -> Any:
        return finished_stage(folder, "train", "key")

    def read_manifest(content: bytes, folder: Path) -> Any:
        try:
            return Manifest.from_bytes(content)
        except ValueError:
            return None

    targets = {
        "jsonl": Target(read_text("jsonl", "a.jsonl"), [lines, gzip.compress(lines)]),
        "csv": Target(read_text("csv", "a.csv"), [table]),
        "tsv": Target(read_text("tsv", "a.tsv"), [table.replace(b",", b"\t")]),
        "text": Target(read_text("text", "texts/a.txt"), [b"One two three.\n"]),
        "parquet": Target(read_text("parquet", "a.parquet"), [_make_parquet()]),
        "reuters": Target(read_text("reuters", "reut2-000.sgm"), [sgml]),
        "newsgroups": Target(read_text("newsgroups", "news/sci.space/1"), [message]),
        "ldac": Target(read_counts("ldac", "a"), [b"2 0:1 2:3\n1 1:2\n"]),
        "labels": Target(read_counts("ldac", "b", "labels"), [b"a b\n\n"]),
        "vocabulary": Target(read_counts("ldac", "c", "vocabulary"), [b"x\ny\nz\n"]),
        "npz": Target(read_counts("npz", "d"), [_make_npz()]),
        "configuration": Target(load_config, [CONFIG.encode()]),
        "lock": Target(lambda content, folder: Owner.read(content), [Owner.here().write()]),
        "manifest": Target(read_manifest, [manifest.to_bytes()], manifest),
        "state.json": Target(
            read_back("state.json", read_state),
            [_written(lambda folder: write_state(folder, state), "state.json")],
            state,
        ),
        "stages/*.json": Target(
            read_back("stages/train.json", note),
            [
                _written(
                    lambda folder: finish_stage(folder, "train", "key", summary),
                    "stages/train.json",
                )
            ],
            summary,
        ),
        "checkpoint": Target(
            read_back("piece.checkpoint", load_piece),
            [_written(keep, "piece.checkpoint")],
            ({"n": 1}, [0, 1, 2]),
        ),
    }
    for name, target in targets.items():
        folder = FOUND / name.replace("/", "-").replace("*", "all")
        if folder.is_dir():
            target.seeds.extend(path.read_bytes() for path in sorted(folder.iterdir()))
    return targets


class _Slow(BaseException):
    """A case takes too long."""


def _give_up(number: int, frame: object) -> None:
    raise _Slow


def try_case(target: Target, content: bytes, folder: Path) -> tuple[str, str]:
    """What comes of one input, and why."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        given = target.run(content, folder)
    except AtdError as error:
        return (REFUSED, "") if str(error) else (TRACEBACK, "an error without a word")
    except _Slow:
        return HANG, f"no end after {SECONDS} s"
    except Exception as error:
        return TRACEBACK, repr(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if target.original is not None and given not in (None, target.original):
        return WRONG, repr(given)
    return SAME, ""


def make_case(target: Target, name: str, number: int) -> bytes:
    """The input of this number: first the seeds as they are, then changes of them."""
    if number < len(target.seeds):
        return target.seeds[number]
    chance = random.Random(f"{name}/{number}")
    return mutate(chance.choice(target.seeds), chance, target.seeds)


def fuzz(name: str, target: Target, first: int, last: int, progress: Path | None = None) -> Tally:
    """Tries the cases from `first` to before `last`; notes each before it begins."""
    tally = Tally()
    before = signal.signal(signal.SIGALRM, _give_up)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for number in range(first, last):
            if progress is not None:
                progress.write_text(str(number))
            outcome, why = try_case(target, make_case(target, name, number), folder)
            tally.add(f"fuzzed {name}", outcome, f"case {number}", why)
    signal.signal(signal.SIGALRM, before)
    return tally


def main() -> None:
    name, first, last, progress = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    tally = fuzz(name, make_targets()[name], first, last, Path(progress))
    counts = {kind: dict(counter) for kind, counter in tally.counts.items()}
    print(json.dumps({"counts": counts, "bad": tally.bad}))


def fuzz_apart(name: str, n_cases: int, tally: Tally) -> None:
    """Tries a target in processes of their own, which may crash."""
    first = 0
    with tempfile.TemporaryDirectory() as scratch:
        progress = Path(scratch, "progress")
        while first < n_cases:
            done = subprocess.run(
                [sys.executable, "-m", __name__, name, str(first), str(n_cases), str(progress)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                told = json.loads(done.stdout.splitlines()[-1])
                tally.merge(told["counts"], told["bad"])
                return
            at = int(progress.read_text()) if progress.exists() else first
            tally.add(f"fuzzed {name}", CRASH, f"case {at}", f"status {done.returncode}")
            first = at + 1


if __name__ == "__main__":
    main()
