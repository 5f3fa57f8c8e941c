"""Every file of a run, of a run that was cut off, and of a folder of sweeps, damaged one at a time.

After each damage the same command runs again. It must give the same result, or say in one sentence
what is damaged and what to do.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.pipelines.run import STAGES, run
from tests.chaos.outcomes import MENDED, SAME, WRONG, Tally, judge_error
from tests.pipelines.sweeping import add_day, make_documents, make_lines, prepare, run_sweep

CONFIG = """
name: job
corpus:
  train: {format: jsonl, path: normal.jsonl}
  test: {format: jsonl, path: batch.jsonl}
  text: {stop_words: none, stemmer: none}
null_model: {topics: 2}
detection:
  seeds: 10
  membership: {replicates: 20}
  significance: {replicates: 20, level: 0.05, searches: 19}
"""
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


def list_files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def list_cases(folder: Path) -> list[tuple[Path, str]]:
    return [(path, name) for path in list_files(folder) for name in DAMAGES]


def damage(path: Path, name: str) -> None:
    change = DAMAGES[name]
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))


def choose(cases: list[Any], n: int | None, seed: int = 1) -> list[Any]:
    """So many of the cases, drawn at random; all of them if there is no number."""
    if n is None or n >= len(cases):
        return cases
    return random.Random(seed).sample(cases, n)


class Lines:
    """A quiet run whose warnings are kept."""

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

    def start(self, output: Path) -> list[str]:
        lines = Lines()
        config = load(self.folder / "conf.yaml", [f"output={output}"])
        run(config, self.client, lines.progress, warms=False)
        return lines.told

    def read(self, output: Path) -> list[bytes]:
        return [(output / name).read_bytes() for name in RESULTS]

    def try_case(self, origin: Path, path: Path, name: str, tally: Tally) -> None:
        kind = f"{origin.name} run, a file damaged"
        output = self.folder / "copy"
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(origin, output)
        damage(output / path, name)
        case = f"{path}: {name}"
        try:
            told = self.start(output)
        except Exception as error:
            tally.add(kind, judge_error(error), case, repr(error))
            return
        same = self.read(output) == self.expected
        tally.add(kind, (MENDED if told else SAME) if same else WRONG, case, str(told))


@contextmanager
def cut_off_in(stage: str) -> Iterator[None]:
    """A run breaks off at the beginning of a stage."""
    name, do = STAGES[stage]

    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    STAGES[stage] = (name, stop)
    try:
        yield
    finally:
        STAGES[stage] = (name, do)


class Sweeps:
    """A folder of three sweeps, of which the last found a cluster; what a fourth one gives."""

    def __init__(self, folder: Path, client: Any) -> None:
        self.folder, self.client = folder, client
        prepare(folder)
        for day, n_unusual in enumerate([0, 0, 6], 1):
            add_day(folder, day, n_docs=20, n_unusual=n_unusual)
            run_sweep(folder, client)
        self.origin = folder / "origin"
        (folder / "out").rename(self.origin)
        add_day(folder, 4, n_docs=20, n_unusual=4)
        self.copy()
        self.expected = self.sweep()

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
