"""Each file of a finished run, of one that was cut off and of a folder of sweeps, damaged alone.

After each damage the same command runs again. It must give the same result, or say in one sentence
what is damaged and what to do. What is in a file that the command does not open cannot matter: such
a file is only removed and emptied.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.pipelines.run import STAGES, run
from tests.chaos.outcomes import MENDED, SAME, WRONG, Tally, judge_error
from tests.pipelines import sweeping
from tests.pipelines.sweeping import add_day, make_documents, make_lines, prepare, run_sweep

CONFIG = """
name: job
corpus:
  train: {format: jsonl, path: normal.jsonl}
  test: {format: jsonl, path: batch.jsonl}
  text: {stop_words: none, stemmer: none}
null_model: {topics: 2}
detection:
  seeds: 3
  membership: {replicates: 20}
  significance: {replicates: 20, level: 0.5, searches: 3}
"""
# Of sweeps that are as quick: with so few searches no p-value is below a quarter.
SWEEP_CONFIG = sweeping.CONFIG
for _slow, _quick in (
    ("seeds: 20", "seeds: 3"),
    ("replicates: 100", "replicates: 20"),
    ("level: 0.05, searches: 19", "level: 0.5, searches: 3"),
):
    assert _slow in SWEEP_CONFIG
    SWEEP_CONFIG = SWEEP_CONFIG.replace(_slow, _quick)
RESULTS = ("result.json", "clusters.csv", "scores.json")


def flip(position: float, bit: int) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        wrong = bytearray(content)
        if wrong:
            wrong[int(position * (len(wrong) - 1))] ^= 1 << bit
        return bytes(wrong)

    return change


def change_digit(content: bytes) -> bytes:
    """A number that is another one, in a file that is as well-formed as before."""
    places = [at for at, byte in enumerate(content) if byte in b"012345678"]
    if not places:
        return content[::-1]
    at = places[len(places) // 2]
    return content[:at] + bytes([content[at] + 1]) + content[at + 1 :]


# What happens to a file; None stands for its removal.
DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "first byte": flip(0.0, 0),
    "a byte in the middle": flip(0.5, 3),
    "last byte": flip(1.0, 6),
    "a digit": change_digit,
    "cut in half": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "longer": lambda content: content + b"\0",
    "removed": None,
}


WITHOUT_READING = ("emptied", "removed")

Case = tuple[Path, str]  # a file below a folder, and what happens to it


def list_files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def list_cases(folder: Path, opened: Collection[Path]) -> list[Case]:
    """Return all cases of a folder, given which of its files the next command opens."""
    return [
        (path, name)
        for path in list_files(folder)
        for name in (DAMAGES if path in opened else WITHOUT_READING)
    ]


@contextmanager
def noting_opened(folder: Path) -> Iterator[set[Path]]:
    """Collect the files below a folder that this process opens during the block."""
    opened: set[Path] = set()
    watching = True

    def note(event: str, given: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(given[0], str):
            with suppress(ValueError):
                opened.add(Path(given[0]).relative_to(folder))

    sys.addaudithook(note)  # cannot be removed
    try:
        yield opened
    finally:
        watching = False


def damage(path: Path, name: str) -> None:
    change = DAMAGES[name]
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))


def choose(cases: list[Any], n: int | None, seed: int = 1) -> list[Any]:
    """Return `n` of the cases, drawn at random, or all of them if `n` is None."""
    if n is None or n >= len(cases):
        return cases
    return random.Random(seed).sample(cases, n)


class Lines:
    """The progress of a quiet run, which keeps its warnings."""

    def __init__(self) -> None:
        self.progress = make_progress(quiet=True)
        self.told: list[str] = []
        self.progress.warn = lambda line, **facts: self.told.append(line)  # type: ignore[method-assign]


class Run:
    """A finished run, and one that was cut off, to make copies of."""

    def __init__(self, folder: Path, client: Any) -> None:
        self.folder, self.client = folder, client
        (folder / "normal.jsonl").write_text(make_lines(make_documents("normal", 120)))
        (folder / "batch.jsonl").write_text(make_lines(make_documents("batch", 30, 6)))
        (folder / "conf.yaml").write_text(CONFIG)
        self.finished, self.cut_off = folder / "finished", folder / "cut-off"
        self.start(self.finished)
        self.expected = self.read(self.finished)
        with cut_off_in("detect"), suppress(KeyboardInterrupt):
            self.start(self.cut_off)
        self.copy = folder / "copy"
        self.cases = {origin: self.list_cases(origin) for origin in (self.finished, self.cut_off)}

    def list_cases(self, origin: Path) -> list[Case]:
        self.make_copy(origin)
        with noting_opened(self.copy) as opened:
            self.start(self.copy)
        assert self.read(self.copy) == self.expected
        return list_cases(origin, opened)

    def make_copy(self, origin: Path) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(origin, self.copy)

    def start(self, output: Path) -> list[str]:
        lines = Lines()
        config = load(self.folder / "conf.yaml", [f"output={output}"])
        run(config, self.client, lines.progress, warms=False)
        return lines.told

    def read(self, output: Path) -> list[bytes]:
        return [(output / name).read_bytes() for name in RESULTS]

    def try_case(self, origin: Path, path: Path, name: str, tally: Tally) -> None:
        kind = f"{origin.name} run, a file damaged"
        self.make_copy(origin)
        damage(self.copy / path, name)
        case = f"{path}: {name}"
        try:
            told = self.start(self.copy)
        except Exception as error:
            tally.add(kind, judge_error(error), case, repr(error))
            return
        same = self.read(self.copy) == self.expected
        tally.add(kind, (MENDED if told else SAME) if same else WRONG, case, str(told))


@contextmanager
def cut_off_in(stage: str) -> Iterator[None]:
    """Break off runs at the beginning of a stage."""
    name, do = STAGES[stage]

    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    STAGES[stage] = (name, stop)
    try:
        yield
    finally:
        STAGES[stage] = (name, do)


class Sweeps:
    """A folder of three sweeps, the last of which found a cluster, and the result of a fourth."""

    def __init__(self, folder: Path, client: Any) -> None:
        self.folder, self.client = folder, client
        prepare(folder, SWEEP_CONFIG)
        for day, n_unusual in enumerate([0, 0, 6], 1):
            add_day(folder, day, n_docs=20, n_unusual=n_unusual)
            run_sweep(folder, client)
        self.origin = folder / "origin"
        (folder / "out").rename(self.origin)
        add_day(folder, 4, n_docs=20, n_unusual=4)
        with noting_opened(self.copy()) as opened:
            self.expected = self.sweep()
        assert self.expected[0], "a cluster of the third sweep has grown"
        self.cases = list_cases(self.origin, opened)

    def copy(self) -> Path:
        output = self.folder / "out"
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(self.origin, output)
        return output

    def sweep(self) -> tuple[list[Any], bytes]:
        outcome = run_sweep(self.folder, self.client)
        told = [(c.cluster, c.kind, c.size) for alert in outcome.alerts for c in alert.clusters]
        return told, (self.folder / "out" / "sweeps" / "0004" / "result.json").read_bytes()

    def try_case(self, path: Path, name: str, tally: Tally) -> None:
        kind, case = "folder of sweeps, a file damaged", f"{path}: {name}"
        damage(self.copy() / path, name)
        try:
            given = self.sweep()
        except Exception as error:
            tally.add(kind, judge_error(error), case, repr(error))
            return
        tally.add(kind, SAME if given == self.expected else WRONG, case, str(given[0]))
