"""Everything that may go wrong, tried at length; prints a table of kinds and counts.

    python -m tests.chaos --cases 150000
    python -m tests.chaos --only faults

Ends with status 1 if a case was lost or wrong, or ended in a traceback, a hang or a crash.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos import damage, faults, soak
from tests.chaos.fuzzing import fuzz_apart, make_targets
from tests.chaos.outcomes import Tally
from tests.clusters import calm_client

KINDS = ("fuzz", "damage", "faults", "soak")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cases", type=int, default=150_000, help="of fuzzing, over all targets")
    parser.add_argument("--damages", type=int, help="so many of each folder; all by default")
    parser.add_argument("--faults", type=int, help="so many; all by default")
    parser.add_argument("--skip", type=int, default=0, help="so many faults, tried before")
    parser.add_argument("--match", default="", help="damages and faults with this in them")
    parser.add_argument("--detections", type=int, default=200, help="of the soak")
    parser.add_argument("--only", choices=KINDS, help="one kind alone")
    options = parser.parse_args()
    kinds = KINDS if options.only is None else (options.only,)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # tidies up
    tally, start = Tally(), time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _try_kinds(kinds, Path(scratch), options, tally, start)
    finally:  # also if it is stopped
        print(tally.table())
        for line in tally.bad:
            print(line)
    return 1 if tally.bad else 0


def _try_kinds(
    kinds: Sequence[str], folder: Path, options: argparse.Namespace, tally: Tally, start: float
) -> None:
    if "fuzz" in kinds:
        names = list(make_targets())
        for name in names:
            fuzz_apart(name, -(-options.cases // len(names)), tally)
            _say(f"fuzzed {name}", tally, start)
    if "damage" in kinds:
        _damage(folder, options, tally, start)
    if "faults" in kinds:
        place = folder / "faults"
        place.mkdir()
        cases = [case for case in faults.list_cases() if options.match in str(case)]
        chosen = damage.choose(cases, options.faults)[options.skip :]
        faults.try_cases(place, chosen, tally)
    if "soak" in kinds:
        soak.soak(options.detections, tally)


def _damage(folder: Path, options: argparse.Namespace, tally: Tally, start: float) -> None:
    def select(name: str, cases: list[damage.Case]) -> Iterator[damage.Case]:
        """Yield the cases to try, and say now and then how many have been tried."""
        matching = [case for case in cases if options.match in f"{name}: {case[0]}: {case[1]}"]
        chosen = damage.choose(matching, options.damages)
        for number, case in enumerate(chosen, 1):
            yield case
            if number % 100 == 0 or number == len(chosen):
                _say(f"damaged a {name}, {number:,} of {len(chosen):,} cases", tally, start)

    for name in ("run", "sweeps"):
        (folder / name).mkdir()
    with calm_client() as client:
        run = damage.Run(folder / "run", client)
        for origin in (run.finished, run.cut_off):
            for path, change in select(f"{origin.name} run", run.cases[origin]):
                run.try_case(origin, path, change, tally)
        if options.match.startswith((run.finished.name, run.cut_off.name)):
            return
        sweeps = damage.Sweeps(folder / "sweeps", client)
        for path, change in select("folder of sweeps", sweeps.cases):
            sweeps.try_case(path, change, tally)


def _say(what: str, tally: Tally, start: float) -> None:
    cases = sum(counts.total() for counts in tally.counts.values())
    seconds = time.monotonic() - start
    line = f"{what}: {cases:,} cases after {seconds:,.0f} s, {len(tally.bad)} bad"
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
