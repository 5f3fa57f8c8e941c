"""Summarises a folder of sweeps, for people and scripts."""

from __future__ import annotations

from dataclasses import asdict

from atd_dask.storage.inspection import SHOWN_WORDS
from atd_dask.storage.run_layout import RunLayout
from atd_dask.sweeps.state import read_state


def describe_sweeps(output: str) -> dict[str, object] | None:
    """Summarise a folder of sweeps in JSON values; return None if no sweep has started."""
    state = read_state(output)
    if state is None:
        return None
    return {
        "kind": "sweeps",
        "sweeps": state.sweep,
        "null_model": {} if state.model is None else asdict(state.model),
        "clusters": {
            f"cluster {cluster.number}": {
                "documents": len(cluster.documents),
                "p_value": cluster.p_value,
                "sweeps": list(cluster.sweeps),
                "words": list(cluster.written[:SHOWN_WORDS]),
            }
            for cluster in state.clusters
        },
        "alerts_that_wait": [int(sweep) for sweep in state.pending],
        "history": RunLayout(output).history_page,
    }
