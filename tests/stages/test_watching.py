from __future__ import annotations

import io

import pytest

from atd_dask.cli.outputs import PlainLines
from atd_dask.distribution.checkpointing import Growing, Grown, ReplicatesDone, SearchesDone
from atd_dask.progress import Progress
from atd_dask.stages.watching import watch_detection


def watch(*events):
    """The lines that events produce, without times."""
    stream = io.StringIO()
    with watch_detection(Progress(PlainLines(stream, seconds=0)), 1000, 20) as on_progress:
        for event in events:
            on_progress(event)
    return stream.getvalue().splitlines()


def test_every_part_of_a_detection_is_shown() -> None:
    lines = watch(
        Growing(cluster=1, size=12, score=345.6789, tested=0, failed=0),
        Growing(cluster=1, size=20, score=400.0, tested=3, failed=1),
        Grown(cluster=1, size=31, support=234.567),
        Growing(cluster=1, size=30, score=401.0, tested=9, failed=2),
        ReplicatesDone(cluster=1, done=250, p_value=0.003984063),
        ReplicatesDone(cluster=1, done=1000, p_value=0.000999),
        SearchesDone(done=20, largest_support=-3.0),
        Grown(cluster=2, size=4, support=1.0),
    )
    for number, (start, end) in enumerate(
        [
            ("detect: started", ""),
            ("grow candidate 1: started", ""),
            ("grow candidate 1: 12 documents", "(score 345.7, tested 0, failed 0)"),
            ("grow candidate 1: 20 documents", "(score 400.0, tested 3, failed 1)"),
            ("grow candidate 1: done, 20 documents in", "(score 400.0, tested 3, failed 1)"),
            ("detect: 1 candidates", ""),
            ("candidate 1 is found (documents 31, support 234.6)", ""),
            ("test candidate 1: started, 1,000 replicates", ""),
            ("test candidate 1: 250 replicates of 1,000, 25%", "left (p_value 0.003984)"),
            ("test candidate 1: 1,000 replicates of 1,000, 100%", "(p_value 0.000999)"),
            ("test candidate 1: done, 1,000 replicates in", "(p_value 0.000999)"),
            ("search held-out documents: started, 20 searches", ""),
            ("search held-out documents: 20 searches of 20, 100%", "(largest_support -3.0)"),
            ("search held-out documents: done, 20 searches in", "(largest_support -3.0)"),
            ("detect: 2 candidates", ""),
            ("candidate 2 is found (documents 4, support 1.0)", ""),
            ("detect: done, 2 candidates in", ""),
        ]
    ):
        assert lines[number].startswith(start)
        assert lines[number].endswith(end)
    assert len(lines) == 17


def test_a_detection_that_goes_on_begins_in_the_middle() -> None:
    lines = watch(ReplicatesDone(cluster=3, done=500, p_value=0.002))
    assert lines[1] == "test candidate 3: started, 1,000 replicates"


def test_what_breaks_off_is_shown_as_such() -> None:
    stream = io.StringIO()
    progress = Progress(PlainLines(stream, seconds=0))

    def break_off() -> None:
        with watch_detection(progress, 1000, 20) as on_progress:
            on_progress(Growing(cluster=1, size=12, score=1.0, tested=0, failed=0))
            raise KeyboardInterrupt("now")

    with pytest.raises(KeyboardInterrupt, match="now"):
        break_off()
    ends = [line for line in stream.getvalue().splitlines() if ": stopped, " in line]
    assert [line.partition(":")[0] for line in ends] == ["grow candidate 1", "detect"]
