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
from pathlib import Path

from tests.chaos import damage, faults, soak
from tests.chaos.fuzzing import fuzz_apart, make_targets
from tests.chaos.outcomes import Tally
from tests.clusters import local_client

KINDS = ("fuzz", "damage", "faults", "soak")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cases", type=int, default=150_000, help="of fuzzing, over all targets")
    parser.add_argument("--damages", type=int, help="so many of each folder; all by default")
    parser.add_argument("--faults", type=int, help="so many; all by default")
    parser.add_argument("--match", default="", help="only faults whose description has this")
    parser.add_argument("--detections", type=int, default=200, help="of the soak")
    parser.add_argument("--only", choices=KINDS, help="one kind alone")
    options = parser.parse_args()
    kinds = KINDS if options.only is None else (options.only,)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # tidies up
    tally, start = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if "fuzz" in kinds:
            names = list(make_targets())
            for name in names:
                fuzz_apart(name, -(-options.cases // len(names)), tally)
                _say(f"fuzzed {name}", tally, start)
        if "damage" in kinds:
            _damage(folder, options.damages, tally, start)
        if "faults" in kinds:
            place = folder / "faults"
            place.mkdir()
            cases = [case for case in faults.list_cases() if options.match in str(case)]
            faults.try_cases(place, damage.choose(cases, options.faults), tally)
        if "soak" in kinds:
            soak.soak(options.detections, tally)
    print(tally.table())
    for line in tally.bad:
        print(line)
    return 1 if tally.bad else 0


def _damage(folder: Path, n: int | None, tally: Tally, start: float) -> None:
    with local_client(1) as client:
        for name in ("run", "sweeps"):
            (folder / name).mkdir()
        run = damage.Run(folder / "run", client)
        for origin in (run.finished, run.cut_off):
            for path, change in damage.choose(run.cases[origin], n):
                run.try_case(origin, path, change, tally)
            _say(f"damaged a {origin.name} run", tally, start)
        sweeps = damage.Sweeps(folder / "sweeps", client)
        for path, change in damage.choose(sweeps.cases, n):
            sweeps.try_case(path, change, tally)
        _say("damaged a folder of sweeps", tally, start)


def _say(what: str, tally: Tally, start: float) -> None:
    cases = sum(counts.total() for counts in tally.counts.values())
    seconds = time.monotonic() - start
    print(f"{what}: {cases:,} cases after {seconds:,.0f} s, {len(tally.bad)} bad", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
