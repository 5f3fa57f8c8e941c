"""The scores of all documents of a batch, kept next to the result for the page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.errors import DamagedStoreError, InputError
from atd_dask.evaluation.scores import score_documents
from atd_dask.result_types import BatchScores, Result
from atd_dask.storage.atomic_files import read_file
from atd_dask.storage.checksums import read_checked, write_checked
from atd_dask.storage.run_layout import RunLayout

if TYPE_CHECKING:
    from atd_dask.distribution.engine.runner import Runner
    from atd_dask.kernels.detection_rules import DetectionRules
    from atd_dask.kernels.model import Floats
    from atd_dask.stages.batches import PreparedBatch
    from atd_dask.storage.corpus import CorpusStore

FORMAT = "atd-dask-scores/1"
PLACES = 4  # after the decimal point
USUAL = (0.05, 0.5, 0.95)  # quantiles of normal documents


def keep_scores(
    output: str,
    runner: Runner,
    stores: Mapping[str, CorpusStore],
    batch: PreparedBatch,
    rules: DetectionRules,
    result: Result,
) -> None:
    """Write scores.json next to a result in `output`: columns with an entry for each document that
    was searched, which excludes near-duplicates."""
    rows = stores["test"].representatives()
    clusters = [np.searchsorted(rows, cluster.rows).tolist() for cluster in result.significant]
    normal = stores["validation"].without_copies()
    scores = score_documents(runner, rules.fitter(batch.table), batch.documents, normal, clusters)
    usual = np.quantile(scores.usual, USUAL) if len(scores.usual) else np.zeros(0)
    told = BatchScores(
        format=FORMAT,
        result=_hash_result(output),
        usual=_list_numbers(usual),
        row=tuple(rows.tolist()),
        surprise=_list_numbers(scores.surprise),
        novelty=_list_numbers(scores.novelty),
        nearest=tuple(number + 1 if number >= 0 else None for number in scores.nearest.tolist()),
        log_odds=_list_numbers(scores.log_odds),
    )
    content = json.dumps(told.to_json(), separators=(",", ":"), allow_nan=False).encode()
    write_checked(RunLayout(output).scores, content + b"\n")


def read_scores(output: str) -> BatchScores | None:
    """Return the scores that belong to the result in `output`; None if there are none, as for a
    result of an earlier version."""
    try:
        content = read_checked(RunLayout(output).scores)
        told = None if content is None else json.loads(content)
    except (ValueError, DamagedStoreError):  # the page can do without them
        return None
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        return None
    try:
        scores = BatchScores.from_json(told)
    except InputError:
        return None
    return scores if scores.result == _hash_result(output) else None


def _hash_result(output: str) -> str:
    return hashlib.sha256(read_file(RunLayout(output).result) or b"").hexdigest()


def _list_numbers(values: Floats) -> tuple[float | None, ...]:
    """Return rounded numbers; None for those that are missing or infinite."""
    rounded = [round(value, PLACES) for value in values.tolist()]
    return tuple(value if np.isfinite(value) else None for value in rounded)
