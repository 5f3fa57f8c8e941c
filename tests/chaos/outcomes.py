"""What can come of a case, and how often each came."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atd_dask.errors import AtdError

# Fine: the result is the same, after a warning too, or one sentence says what is wrong.
SAME, MENDED, REFUSED = "same", "made again", "one sentence"
# Not fine.
WRONG, LOST, TRACEBACK, HANG, CRASH = "wrong", "lost", "traceback", "hang", "crash"
BAD = (WRONG, LOST, TRACEBACK, HANG, CRASH)


@dataclass
class Tally:
    """Counts of outcomes by kind of case, and what was not fine."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str, case: str, detail: str = "") -> None:
        self.counts.setdefault(kind, Counter())[outcome] += 1
        if outcome in BAD:
            self.bad.append(f"{kind}: {outcome}: {case}: {detail}"[:500])
            print(self.bad[-1], file=sys.stderr, flush=True)  # at once, should nobody see the end

    def merge(self, counts: Mapping[str, Mapping[str, int]], bad: Sequence[str]) -> None:
        """Adds what another process counted."""
        for kind, outcomes in counts.items():
            self.counts.setdefault(kind, Counter()).update(outcomes)
        self.bad += bad

    def table(self) -> str:
        """Markdown: a row for each kind, a column for each outcome."""
        columns = (SAME, MENDED, REFUSED, *BAD)
        lines = [f"| kind | cases | {' | '.join(columns)} |", f"| --- |{' --- |' * 9}"]
        total: Counter[str] = Counter()
        for kind, counts in self.counts.items():
            total += counts
            cells = " | ".join(f"{counts[column]:,}" for column in columns)
            lines.append(f"| {kind} | {counts.total():,} | {cells} |")
        cells = " | ".join(f"{total[column]:,}" for column in columns)
        lines.append(f"| all | {total.total():,} | {cells} |")
        return "\n".join(lines)


def judge_error(error: BaseException) -> str:
    """A mistake of the user, or damage, is one sentence; anything else is a defect."""
    lines = str(error).splitlines()
    return REFUSED if isinstance(error, AtdError) and len(lines) >= 1 else TRACEBACK
