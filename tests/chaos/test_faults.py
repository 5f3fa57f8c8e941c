"""A few faults; `python -m tests.chaos --only faults` tries all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.faults import Case, Faults, can_mount, list_cases, prepared
from tests.chaos.outcomes import REFUSED, SAME

pytest.importorskip("s3fs", reason="needs the extra s3")


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_MAX_ATTEMPTS", "1")  # a store that is gone is not asked for long
        with prepared(tmp_path_factory.mktemp("faults")) as made:
            yield made


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "outcome", "sentence"),
    [
        (Case("client killed", "detect", "external", "disk"), REFUSED, "killed"),
        (Case("one worker killed", "train", "external", "disk"), SAME, ""),
        (Case("store gone", "train", "external", "S3"), REFUSED, "check that it is up, then run"),
        (Case("scheduler killed", "ingest", "external", "disk"), REFUSED, "scheduler was lost"),
        (Case("disk full", "detect", "external", "disk"), REFUSED, "no space is left on the disk"),
    ],
    ids=lambda case: case.fault if isinstance(case, Case) else None,
)
def test_a_fault_loses_nothing(faults: Faults, case: Case, outcome: str, sentence: str) -> None:
    if case.fault == "disk full" and not can_mount():
        pytest.skip("needs the right to mount a disk")
    met, why = faults.try_case(case)
    assert met == outcome, why
    assert sentence in why


def test_cases_begin_with_each_fault_in_each_stage() -> None:
    cases = list_cases()
    pairs = {(case.fault, case.stage) for case in cases}
    assert {(case.fault, case.stage) for case in cases[: len(pairs)]} == pairs
    assert len(set(cases)) == len(cases)
